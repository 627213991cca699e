package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// tick is the unit of time. Criteria hold for whole ticks, and so do the limits of steps. A handful of ticks is less
// than the minute that an engine waits for its caches.
const tick = 10 * time.Second

// Ticks returns the duration of n ticks.
func Ticks(n int) time.Duration { return time.Duration(n) * tick }

// patience is how long a node may be not Ready.
const patience = 2 * tick

// machine is one machine with its node, as the API server has it.
type machine struct {
	// slot names it; a replacement has the same name and the next generation, which is its UID.
	slot, generation int
	revision         int
	created          int
	// createdAhead is by how many ticks the API server's clock was fast when it was created.
	createdAhead     int
	failed, deleting bool
	// byFettle is set when an engine has deleted the machine.
	byFettle bool
	mark     mark
	// awaited is set while it names no node.
	awaited bool
	// remediated is set while an outside remediator is at work on it.
	remediated bool
	// markRemoved says when an engine last removed its own mark from the healthy machine.
	markRemoved markRemoval
	// deselected is set while no policy selects it.
	deselected bool
	// judged is what its condition says, and usedBy the engine that is to withdraw the confirmation of its node, from 1 on.
	judged core.Health
	usedBy int
	node   node
}

// node is a machine's node, or a node alone. Each node that registers under its name has the next generation, which is
// its UID. No policy selects a node that is deselected.
type node struct {
	exists, ready bool
	since         int
	generation    int
	deselected    bool
	// confirmed is set while a user confirms that it is healthy.
	confirmed bool
	// ahead is by how many ticks the clock was fast that has dated its condition.
	ahead int
}

// stamped returns the creation as the API server has dated it.
func (m machine) stamped() time.Time { return at(m.created + m.createdAhead) }

func (m machine) id() core.ID {
	return core.ID{Kind: "Machine", Namespace: "sim", Name: fmt.Sprintf("m%d", m.slot), UID: fmt.Sprintf("m%d.%d", m.slot, m.generation)}
}

// apiServer is the API server: the truth.
type apiServer struct {
	now int
	// ahead is by how many ticks its clock is fast, and nodesAhead by how many those of the nodes are.
	ahead, nodesAhead int
	machines          []machine
	ledger            []core.Repair
	requests          []request
	// made counts the requests that there ever were.
	made int
	edition
	// quorum says whether the control plane survives the loss of a member.
	quorum core.Tri
	// leases are the holders of the leases of nodes.
	leases map[string]lease
	// recorded counts the repairs that the ledger ever had.
	recorded uint64
	// recordedAt has, by the names of repairs, the tick at which each was last written with an answer.
	recordedAt map[string]int
	// seconds are the names of repairs whose target had another one, which its engine did not count any more.
	seconds map[string]bool
}

func (c *apiServer) clone() *apiServer {
	twin := *c
	twin.leases, twin.recordedAt, twin.seconds = maps.Clone(c.leases), maps.Clone(c.recordedAt), maps.Clone(c.seconds)
	twin.machines, twin.ledger, twin.requests = slices.Clone(c.machines), slices.Clone(c.ledger), slices.Clone(c.requests)
	return &twin
}

// lease is the lease of a node.
type lease struct {
	holder         string
	renewed, until time.Time
}

// foreignHolder holds leases that no engine has taken.
const foreignHolder = "another tool"

// takeLease lets another tool take a lease that is free, or release its own.
func (c *apiServer) takeLease(slot int) {
	node := fmt.Sprintf("node-%d", slot)
	switch c.leases[node].holder {
	case "":
		c.leases[node] = lease{foreignHolder, at(c.now), at(c.now).Add(veryLong)}
	case foreignHolder:
		delete(c.leases, node)
	}
}

// at is the instant of a tick.
func at(t int) time.Time {
	return time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC).Add(time.Duration(t) * tick)
}

// mostAmended is more than any repair is ever updated. Revisions count by repair, so that states are alike whose other
// repairs were updated in another order.
const mostAmended = 1 << 20

// create creates a repair in the ledger unless its name is taken.
func (c *apiServer) create(r core.Repair) (core.Repair, bool) {
	if c.entry(r.Name) >= 0 {
		return core.Repair{}, false
	}
	c.recorded++
	r.CreatedSameSecond, r.Sequence, r.Revision = nil, c.recorded, c.recorded*mostAmended
	c.ledger = append(c.ledger, r)
	return r, true
}

// overtaken reports whether a repair has been written since it was read.
func (c *apiServer) overtaken(r *core.Repair) bool {
	i := c.entry(r.Name)
	return i >= 0 && c.ledger[i].Revision != r.Revision
}

// amend writes the state of a repair, as a patch does: a repair that has ended stays so. It returns the new revision. A
// repair that was deleted can't be updated, and need not be.
func (c *apiServer) amend(r core.Repair) uint64 {
	i := c.entry(r.Name)
	if i < 0 {
		return r.Revision
	}
	r.CreatedSameSecond = nil
	if r.Running() {
		r.Ended, r.Outcome = c.ledger[i].Ended, c.ledger[i].Outcome
	}
	r.Revision = c.ledger[i].Revision + 1
	c.ledger[i] = r
	return r.Revision
}

func (c *apiServer) erase(name string) {
	c.ledger = slices.DeleteFunc(c.ledger, func(r core.Repair) bool { return r.Name == name })
	delete(c.recordedAt, name)
	delete(c.seconds, name)
}

// noteSecond notes whether a repair is a second one of its target.
func (c *apiServer) noteSecond(name string, second bool) {
	if second {
		c.seconds[name] = true
	}
}

func (c *apiServer) entry(name string) int {
	return slices.IndexFunc(c.ledger, func(r core.Repair) bool { return r.Name == name })
}

// remove deletes a machine as the API server would: a UID or revision that is given must match. An empty one matches
// any.
func (c *apiServer) remove(slot int, uid, revision string) core.RemedyResult {
	m := &c.machines[slot]
	if uid != "" && m.id().UID != uid || revision != "" && fmt.Sprint(m.revision) != revision {
		return core.Stale
	}
	if !m.deleting {
		m.deleting, m.byFettle = true, true
		m.revision++
	}
	return core.Accepted
}

// readNode returns a live read of a node.
func (c *apiServer) readNode(slot int) core.Node { return facts(c.machines[slot]) }

// facts returns what decisions read of a machine's node.
func facts(m machine) core.Node {
	id := m.nodeID()
	if m.awaited {
		return core.Node{State: core.NodeAwaited}
	}
	if !m.node.exists {
		return core.Node{State: core.NodeGone, Name: id.Name}
	}
	status := "False"
	if m.node.ready {
		status = "True"
	}
	return core.Node{
		State: core.NodePresent, Name: id.Name, UID: id.UID,
		Conditions: []core.Condition{{Type: "Ready", Status: status, Since: at(m.node.since + m.node.ahead)}},
	}
}

// unhealthy reports whether the truth justifies a repair now. A clock that is behind dates a condition too early, and that
// date counts.
func (m machine) unhealthy(now int) bool {
	if m.awaited {
		return m.failed || time.Duration(now-m.created)*tick >= patience
	}
	return m.failed || !m.node.exists || (!m.node.ready && time.Duration(now-m.node.since-min(m.node.ahead, 0))*tick >= patience)
}

// nodeID returns the ID of a machine's node.
func (m machine) nodeID() core.ID {
	return core.ID{Kind: "Node", Name: fmt.Sprintf("node-%d", m.slot), UID: fmt.Sprintf("node-%d.%d", m.slot, m.node.generation)}
}

// replaced returns the machine that the machine set makes in its place.
func (c *apiServer) replaced(m machine) machine {
	now := c.now
	return machine{
		slot: m.slot, generation: m.generation + 1, revision: m.revision + 1, created: now, createdAhead: c.ahead,
		node: node{exists: true, ready: true, since: now, ahead: c.nodesAhead, generation: m.node.generation + 1},
	}
}
