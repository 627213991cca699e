package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Faults are planted in the engine by tests, to show that they are found. The zero value has none.
type Faults struct {
	// Decide replaces core.Decide.
	Decide func([]core.Policy, core.Fleet, time.Time) core.Decision
	// NoMemory decides on what the caches show alone.
	NoMemory bool
	// NoLiveRead takes the caches' word for a live read.
	NoLiveRead bool
	// BlindDelete deletes by name, without UID and revision.
	BlindDelete bool
	// OwnNames gives repairs names that no other leader would choose.
	OwnNames bool
	// NoFence begins what it has recorded without a look at what others have.
	NoFence bool
	// Hasty passes before its caches are in step.
	Hasty bool
	// NoSecondLook doesn't pass again after it has ended a repair.
	NoSecondLook bool
	// NoRequestMemory doesn't remember what it has asked for and taken back.
	NoRequestMemory bool
	// BlindWithdrawal takes requests back by name, without UID.
	BlindWithdrawal bool
	// NoStop gives up steps without a word to their remediators.
	NoStop bool
	// BlindAmend writes how far a repair has come over whatever somebody else has written since.
	BlindAmend bool
	// TwoRungs gives up two steps at once.
	TwoRungs bool
	// BlindMark marks by name, without UID and revision.
	BlindMark bool
	// NoWriteThrough doesn't see what it has written on machines before a watch shows it.
	NoWriteThrough bool
}

func (f *Faults) decide(policies []core.Policy, fleet core.Fleet, now time.Time) core.Decision {
	if f.Decide != nil {
		return f.Decide(policies, fleet, now)
	}
	return core.Decide(policies, fleet, now)
}

// engine is one leader with its caches, each of which may lag on its own.
type engine struct {
	name     string
	inStep   bool
	machines []machine
	nodes    []node
	ledger   []core.Repair
	// requests are those of each template, since their kinds are watched one by one.
	requests [templates][]request
	// history is what its memory is made of: recalling it in order gives the core.Memory. It is never
	// changed in place, so that copies of an engine may share it.
	history []func(*core.Memory)
	// memory is what the first so many of history make, nil while nobody has asked. A copy has none of it.
	memory   *core.Memory
	recalled int
	// imprint tells memories apart; it is that of the first so many of history.
	imprint   []byte
	imprinted int
	// repeat and nextAt are why it would pass again without any event.
	repeat bool
	nextAt time.Time
}

func newEngine(name string, c *cluster) *engine {
	e := &engine{name: name}
	e.resync(c)
	return e
}

func (e *engine) clone() *engine {
	twin := *e
	twin.memory, twin.recalled = nil, 0
	twin.machines, twin.nodes, twin.ledger = slices.Clone(e.machines), slices.Clone(e.nodes), slices.Clone(e.ledger)
	for i := range e.requests {
		twin.requests[i] = slices.Clone(e.requests[i])
	}
	twin.history = slices.Clip(e.history)
	return &twin
}

// resync fills all caches from the truth, as a process does when it begins.
func (e *engine) resync(c *cluster) {
	e.inStep = true
	e.machines, e.nodes = slices.Clone(c.machines), make([]node, len(c.machines))
	for i := range c.machines {
		e.nodes[i] = c.machines[i].node
		e.machines[i].node = node{}
	}
	e.ledger = slices.Clone(c.ledger)
	for i := range e.requests {
		e.requests[i] = c.requestsFrom(i)
	}
}

// forget is a crash: another process begins, whose caches are not in step yet.
func (e *engine) forget() {
	e.history, e.inStep, e.repeat, e.nextAt = nil, false, false, time.Time{}
	e.memory, e.recalled, e.imprint = nil, 0, nil
}

func (e *engine) remember(what func(*core.Memory)) {
	e.history = append(slices.Clip(e.history), what)
}

func (e *engine) recall() *core.Memory {
	if e.memory == nil {
		e.memory, e.recalled = &core.Memory{}, 0
	}
	for _, what := range e.history[e.recalled:] {
		what(e.memory)
	}
	e.recalled = len(e.history)
	return e.memory
}

// digest is the same for engines that remember the same.
func (e *engine) digest() []byte {
	if e.imprint == nil || e.imprinted != len(e.history) {
		e.imprint, e.imprinted = dump(nil, reflect.ValueOf(*e.recall())), len(e.history)
	}
	return e.imprint
}

// snapshot is the fleet as the caches show it: the machines, whose places are their numbers, and the nodes.
func (e *engine) snapshot(u *Universe) core.Fleet {
	f := core.Fleet{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Repairs: slices.Clone(e.ledger)}
	for i, m := range e.machines[:u.setup.Machines] {
		m.node = e.nodes[i]
		t := core.Target{
			ID: m.id(), Created: at(m.created), Owner: owner(), Deleting: m.deleting, Failed: m.failed,
			StartupFrom: at(m.created), Node: facts(m), Revision: fmt.Sprint(m.revision), Parts: core.Whole(),
		}
		if !m.node.exists {
			t.Node.State = core.NodeUnseen
		}
		f.Targets = append(f.Targets, t)
		if r, asks := m.request(); asks {
			f.Requests = append(f.Requests, r)
		}
	}
	for i, n := range e.nodes[:u.setup.Nodes] {
		if m := (machine{slot: i, node: n}); n.exists && !n.deselected {
			f.Targets = append(f.Targets, core.Target{ID: m.nodeID(), Created: at(-1000), Node: facts(m), Parts: core.Whole()})
		}
	}
	for i := range f.Targets {
		f.Targets[i].ControlPlane = slotOf(&f.Targets[i]) < u.setup.ControlPlane
	}
	for _, requests := range e.requests {
		for _, r := range requests {
			f.Requests = append(f.Requests, r.Request)
		}
	}
	return f
}

// slotOf is the number of a target's machine or node.
func slotOf(t *core.Target) int {
	slot, err := strconv.Atoi(strings.TrimPrefix(t.Node.Name, "node-"))
	if err != nil {
		panic(err)
	}
	return slot
}

// policies are those of the setup, with members among the targets of a snapshot.
func (e *engine) policies(u *Universe, f *core.Fleet) []core.Policy {
	policies := slices.Clone(u.setup.Policies)
	for i := range policies {
		p := &policies[i]
		p.Paused = p.Paused || u.truth.paused
		if p.ID.Kind != nodeCheck {
			p.Members = e.selected(p.Members)
			continue
		}
		slots := p.Members
		p.Members = nil
		for t := range f.Targets {
			if f.Targets[t].ID.Kind == "Node" && slices.Contains(slots, slotOf(&f.Targets[t])) {
				p.Members = append(p.Members, t)
			}
		}
	}
	return policies
}

// selected leaves out the machines that nobody selects.
func (e *engine) selected(machines []int) []int {
	deselected := func(i int) bool { return e.machines[i].deselected }
	if !slices.ContainsFunc(machines, deselected) {
		return machines
	}
	return slices.DeleteFunc(slices.Clone(machines), deselected)
}

func owner() core.ID { return core.ID{Kind: "MachineSet", Namespace: "sim", Name: "set", UID: "set"} }

// plan is what a pass has decided and on what, before any write.
type plan struct {
	engine   *engine
	policies []core.Policy
	fleet    core.Fleet
	decision core.Decision
	// sick tells for each machine whether the truth justified its repair when it was read live.
	sick []bool
	// found is set when something that was asked for had been asked for already, which the caches did not show.
	found bool
	// overtaken is set when somebody else had written what was to be written of a repair, which is looked at again.
	overtaken bool
}

// target is the place of a target in the fleet, -1 when it is not there.
func (p *plan) target(id core.ID) int {
	return slices.IndexFunc(p.fleet.Targets, func(t core.Target) bool { return t.ID == id })
}

// slotOf is the number of the machine that has a target's name.
func (p *plan) slotOf(id core.ID) int {
	return slices.IndexFunc(p.engine.machines, func(m machine) bool { return m.id().Name == id.Name })
}

// selects tells whether a policy has a slot's machine or node among its members.
func (p *plan) selects(policy *core.Policy, slot int) bool {
	return slices.ContainsFunc(policy.Members, func(t int) bool { return slotOf(&p.fleet.Targets[t]) == slot })
}

// look is the first half of a pass: observe, lay, decide, read live, decide.
func (e *engine) look(u *Universe) *plan {
	p := &plan{engine: e, fleet: e.snapshot(u)}
	p.policies = e.policies(u, &p.fleet)
	faults := &u.setup.Faults
	if !e.inStep && !faults.Hasty {
		p.fleet.Observed = core.Unknown
		return p
	}
	now := at(u.truth.now)
	if !faults.NoMemory {
		laid, m := p.fleet, e.recall()
		e.remember(func(m *core.Memory) {
			f := copied(laid)
			m.Lay(&f, now)
		})
		p.fleet = copied(laid)
		m.Lay(&p.fleet, now)
		e.recalled++ // the same has just been done
	}
	p.decide(u, now)
	return p
}

// copied is a fleet with slices of its own.
func copied(f core.Fleet) core.Fleet {
	f.Targets, f.Repairs, f.Requests = slices.Clone(f.Targets), slices.Clone(f.Repairs), slices.Clone(f.Requests)
	return f
}

func (p *plan) decide(u *Universe, now time.Time) {
	decide := u.setup.Faults.decide
	for _, m := range u.truth.machines {
		p.sick = append(p.sick, m.sick(u.truth.now))
	}
	p.decision = decide(p.policies, p.fleet, now)
	read := map[int]bool{}
	for range 3 {
		again := false
		for _, t := range p.decision.Confirm {
			if !read[t] {
				read[t], again = true, true
				p.readLive(u, t, now)
			}
		}
		if !again {
			return
		}
		p.decision = decide(p.policies, p.fleet, now)
	}
}

func (p *plan) readLive(u *Universe, t int, now time.Time) {
	target := &p.fleet.Targets[t]
	target.NodeReadAt = now
	target.QuorumSurvives, target.QuorumReadAt = u.setup.QuorumSurvives, now
	if u.setup.Faults.NoLiveRead {
		if target.Node.State == core.NodeUnseen {
			target.Node.State = core.NodeGone
		}
		return
	}
	target.Node = u.truth.readNode(slotOf(target))
	if target.ID.Kind == "Node" && target.Node.UID != target.ID.UID {
		target.Node = core.Node{State: core.NodeGone, Name: target.ID.Name}
	}
	if target.Node.State == core.NodeGone {
		id, name := target.ID, target.Node.Name
		p.engine.remember(func(m *core.Memory) { m.NodeGone(id, name, now) })
	}
}
