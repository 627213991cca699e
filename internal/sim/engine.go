package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// Faults are planted in the engine by tests, to show that the checker finds them. The zero value has none.
type Faults struct {
	// Decide replaces core.Decide.
	Decide func([]core.Policy, core.Cluster, time.Time) core.Decision
	// NoExpectations decides by the caches alone.
	NoExpectations bool
	// NoLiveRead takes the caches' word for a live read.
	NoLiveRead bool
	// BlindDelete deletes by name, without UID and revision.
	BlindDelete bool
	// OwnNames gives repairs names that no other leader would choose.
	OwnNames bool
	// NoFence starts what it has recorded without a look at other leaders' repairs.
	NoFence bool
	// Hasty passes before its caches are in step.
	Hasty bool
	// NoSecondLook doesn't pass again after it has ended a repair.
	NoSecondLook bool
	// NoTimer doesn't pass again by time alone.
	NoTimer bool
	// NoRequestExpectations decides without the requests that no cache shows.
	NoRequestExpectations bool
	// BlindWithdrawal withdraws requests by name, without UID.
	BlindWithdrawal bool
	// NoStop gives up steps without telling their remediators.
	NoStop bool
	// BlindUpdate writes the state of a repair over any later change by another writer.
	BlindUpdate bool
	// TwoSteps gives up two steps at once.
	TwoSteps bool
	// BlindMark marks by name, without UID and revision.
	BlindMark bool
	// NoWriteThrough doesn't see what it has written on machines before a watch shows it.
	NoWriteThrough bool
	// NoYield has a workload cluster act while policies of the home cluster act on the same nodes. RashYield has it act
	// while that is not known. NoSecondYield doesn't look again whether it is to yield before it takes a step.
	NoYield, RashYield, NoSecondYield bool
	// SilentStatuses reports no status as not written. GrantedCutOffs takes a call of a remedy that was cut off for a granted call.
	// Forgetful drops the expectations when a pass is abandoned. NoPolicyRead takes the version of a policy from the cache.
	SilentStatuses, GrantedCutOffs, Forgetful, NoPolicyRead bool
	// NewRepairsUnnoticed passes no more when the cache gets a repair that it did not have.
	NewRepairsUnnoticed bool
	// NoConditions writes no conditions, and KeptConfirmations withdraws no confirmation. GuessedSiblings takes a machine that
	// is not known for known. SilentDialects don't report that nothing is known.
	NoConditions, KeptConfirmations, GuessedSiblings, SilentDialects bool
}

func (f *Faults) decide(policies []core.Policy, cluster core.Cluster, now time.Time) core.Decision {
	if f.NoRequestExpectations { // what no cache shows comes last
		cluster.Requests = slices.DeleteFunc(slices.Clone(cluster.Requests), func(r core.Request) bool { return r.ID.UID == "" })
	}
	if f.Decide != nil {
		return f.Decide(policies, cluster, now)
	}
	return core.Decide(policies, cluster, now)
}

// engine is one leader with its caches, each of which may lag on its own.
type engine struct {
	name string
	// place is its place among the engines, and cluster is what it passes over.
	place   int
	cluster clusterKey
	inStep  bool
	// outOfStep is the tick of the restart since which the caches of a home cluster are not in step, and 0 while they are.
	outOfStep int
	machines  []machine
	nodes     []node
	ledger    []core.Repair
	// requests are those of each template, since their kinds are watched one by one.
	requests [templates][]request
	// edition is the version of the policies that it sees, and skew by how much its clock is fast.
	edition edition
	skew    time.Duration
	// leases are the leases that its last pass has seen.
	leases map[string]lease
	// state is the state that its passes share. It is never changed once a pass is over, so that copies of an engine
	// may share it.
	state *pass.State
	// dates are the future dates of nodes that its passes have seen, for the checker.
	dates []futureDate
	// digestCache identifies the state; nil while that was not needed.
	digestCache []byte
	// stepped is the pass under way, nil when there is none.
	stepped *steppedPass
	// passed is set once it has passed since it began.
	passed bool
	// repeat and nextAt say when it passes again without any event.
	repeat bool
	nextAt time.Time
}

func newEngine(place int, cluster clusterKey, c *apiServer) *engine {
	e := &engine{name: leaderName(place), place: place, cluster: cluster, state: &pass.State{}}
	e.resync(c)
	return e
}

func (e *engine) clone() *engine {
	twin := *e
	twin.machines, twin.nodes, twin.ledger = slices.Clone(e.machines), slices.Clone(e.nodes), slices.Clone(e.ledger)
	for i := range e.requests {
		twin.requests[i] = slices.Clone(e.requests[i])
	}
	return &twin
}

// resync fills all caches from the truth, as a starting process does.
func (e *engine) resync(c *apiServer) {
	e.inStep, e.outOfStep = true, 0
	e.machines, e.nodes = slices.Clone(c.machines), make([]node, len(c.machines))
	for i := range c.machines {
		e.nodes[i] = c.machines[i].node
		e.machines[i].node = node{}
	}
	e.ledger, e.edition = e.cluster.own(c.ledger), c.edition
	for i := range e.requests {
		e.requests[i] = c.requestsFrom(i)
	}
	switch e.cluster { // the rest is not watched
	case onlyCluster:
	case homeCluster:
		e.machines = make([]machine, len(c.machines))
	case workloadCluster:
		e.requests, e.edition = [templates][]request{}, edition{}
	}
}

// forget crashes the engine: another process starts, whose caches are not in sync yet.
func (e *engine) forget(now int) {
	if e.cluster == homeCluster {
		e.outOfStep = now
	}
	e.inStep, e.repeat, e.nextAt, e.passed = false, false, time.Time{}, false
	e.state, e.digestCache, e.stepped, e.dates = &pass.State{}, nil, nil, nil
}

// digest returns the same for engines of the same state. State that only events depend on does not count.
func (e *engine) digest() []byte {
	if e.digestCache == nil {
		v := reflect.ValueOf(e.state).Elem()
		for _, name := range []string{"Expectations", "unanswered", "lostLeases", "usedConfirmations"} {
			field := v.FieldByName(name)
			if !field.IsValid() { // else states would seem alike that differ
				panic("pass.State has no field " + name)
			}
			e.digestCache = dump(e.digestCache, field)
		}
	}
	return e.digestCache
}

// observations returns what each dialect sees in the caches. The machines come first, and their indices are their slots.
func (e *engine) observations(u *Universe) []core.Observation {
	o := make([]core.Observation, dialects)
	o[machineDialect], o[nodeDialect] = e.observeMachines(u), e.observeNodes(u)
	for dialect := range o {
		switch d := &o[dialect]; {
		case !e.cluster.has(d.Kind):
			*d = core.Observation{Kind: d.Kind, Observed: core.No}
		case !e.synced(u) || u.yields(e) == core.YieldPending:
			*d = core.Observation{Kind: d.Kind}
		default:
			d.Observed, d.Upgrading = core.Yes, core.No
			for i := range d.Targets {
				d.Targets[i].ControlPlane = slotOf(&d.Targets[i]) < u.setup.ControlPlane
			}
		}
	}
	return o
}

// synced reports whether the caches of an engine are in sync.
func (e *engine) synced(u *Universe) bool { return e.inStep || u.setup.Faults.Hasty }

// observeMachines observes the machines, and their marks.
func (e *engine) observeMachines(u *Universe) core.Observation {
	o := core.Observation{Kind: "Machine"}
	for i, m := range e.machines[:u.setup.Machines] {
		m.node = e.nodes[i]
		t := core.Target{
			ID: m.id(), Created: m.stamped(), Owner: owner(), Deleting: m.deleting, Failed: m.failed,
			StartupFrom: m.stamped(), Node: facts(m), Revision: fmt.Sprint(m.revision), Parts: core.NoParts(),
		}
		if !m.node.exists && !m.awaited {
			t.Node.State = core.NodeUnseen
		}
		t.ExternallyRemediated = m.remediated
		o.Targets = append(o.Targets, t)
		if r, asks := m.request(); asks {
			o.Requests = append(o.Requests, r)
		}
	}
	for _, p := range e.policies(u) {
		if p.ID.Kind != nodeCheck {
			p.Members = e.selected(p.Members)
			o.Policies = append(o.Policies, p)
		}
	}
	return o
}

// observeNodes observes the nodes that are selected.
func (e *engine) observeNodes(u *Universe) core.Observation {
	o := core.Observation{Kind: "Node"}
	indices := map[int]int{}
	for i, n := range e.nodes[:u.setup.Nodes] {
		if m := (machine{slot: i, node: n}); n.exists && !n.deselected {
			indices[i] = len(o.Targets)
			o.Targets = append(o.Targets, core.Target{ID: m.nodeID(), Created: at(-1000), Node: facts(m), ConfirmedHealthy: n.confirmed, Parts: core.NoParts()})
		}
	}
	for _, p := range e.policies(u) {
		if p.ID.Kind != nodeCheck {
			continue
		}
		slots := p.Members
		p.Members = nil
		for _, slot := range slots {
			if i, selected := indices[slot]; selected {
				p.Members = append(p.Members, i)
			}
		}
		o.Policies = append(o.Policies, p)
	}
	return o
}

// policies returns the policies that the caches show. Their members are slots.
func (e *engine) policies(u *Universe) []core.Policy {
	if e.cluster == workloadCluster {
		return e.workloadPolicies(u)
	}
	if e.edition.removed {
		return nil
	}
	policies := slices.Clone(u.setup.Policies)
	for i := range policies {
		p := &policies[i]
		if e.edition.strict {
			*p = stricter(*p)
		}
		p.Paused, p.Fingerprint = p.Paused || e.edition.paused, e.edition.fingerprint()
	}
	return policies
}

// addFacts adds the leases and the requests that the caches show. A workload cluster has no leases, and no templates.
func (e *engine) addFacts(u *Universe, f *core.Cluster) {
	if e.cluster == workloadCluster {
		return
	}
	e.addLeases(u, f)
	for _, requests := range e.requests {
		for _, r := range requests {
			f.Requests = append(f.Requests, r.Request)
		}
	}
}

// addLeases adds the leases of nodes.
func (e *engine) addLeases(u *Universe, f *core.Cluster) {
	for i := range f.Targets {
		held := u.truth.leases[f.Targets[i].Node.Name]
		f.Targets[i].Lease = core.Lease{Holder: held.holder, Until: held.until}
	}
	for node, held := range u.truth.leases {
		f.Leases = append(f.Leases, core.NodeLease{Node: node, Holder: held.holder, Renewed: held.renewed})
	}
	slices.SortFunc(f.Leases, func(a, b core.NodeLease) int { return strings.Compare(a.Node, b.Node) })
}

// slotOf returns the slot of a target's machine or node.
func slotOf(t *core.Target) int {
	name := strings.TrimPrefix(t.Node.Name, "node-")
	if name == "" { // a machine whose node has not registered
		name = strings.TrimPrefix(t.ID.Name, "m")
	}
	slot, err := strconv.Atoi(name)
	if err != nil {
		panic(err)
	}
	return slot
}

// selected leaves out the machines that no policy selects.
func (e *engine) selected(machines []int) []int {
	deselected := func(i int) bool { return e.machines[i].deselected }
	if !slices.ContainsFunc(machines, deselected) {
		return machines
	}
	return slices.DeleteFunc(slices.Clone(machines), deselected)
}

func owner() core.ID { return core.ID{Kind: "MachineSet", Namespace: "sim", Name: "set", UID: "set"} }

// target returns the index of a target in the cluster, -1 when it is not there.
func (p *passRun) target(id core.ID) int {
	return slices.IndexFunc(p.cluster.Targets, func(t core.Target) bool { return t.ID == id })
}

// slotOf returns the slot of the machine that has a target's name.
func (p *passRun) slotOf(id core.ID) int {
	return slices.IndexFunc(p.engine.machines, func(m machine) bool { return m.id().Name == id.Name })
}

// selects reports whether a policy has a slot's machine or node among its members.
func (p *passRun) selects(policy *core.Policy, slot int) bool {
	return slices.ContainsFunc(policy.Members, func(t int) bool { return slotOf(&p.cluster.Targets[t]) == slot })
}

// copied returns a cluster with slices of its own.
func copied(f core.Cluster) core.Cluster {
	f.Targets, f.Repairs, f.Requests = slices.Clone(f.Targets), slices.Clone(f.Repairs), slices.Clone(f.Requests)
	return f
}
