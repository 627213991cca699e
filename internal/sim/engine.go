package sim

import (
	"fmt"
	"slices"
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
	// history is what its memory is made of: recalling it in order gives the core.Memory. It is never
	// changed in place, so that copies of an engine may share it.
	history []func(*core.Memory)
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
	twin.machines, twin.nodes, twin.ledger = slices.Clone(e.machines), slices.Clone(e.nodes), slices.Clone(e.ledger)
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
}

// forget is a crash: another process begins, whose caches are not in step yet.
func (e *engine) forget() {
	e.history, e.inStep, e.repeat, e.nextAt = nil, false, false, time.Time{}
}

func (e *engine) remember(what func(*core.Memory)) {
	e.history = append(slices.Clip(e.history), what)
}

func (e *engine) recall() *core.Memory {
	m := &core.Memory{}
	for _, what := range e.history {
		what(m)
	}
	return m
}

// snapshot is the fleet as the caches show it.
func (e *engine) snapshot() core.Fleet {
	f := core.Fleet{Observed: core.Yes, Repairs: slices.Clone(e.ledger)}
	for i, m := range e.machines {
		m.node = e.nodes[i]
		t := core.Target{
			ID: m.id(), Created: at(m.created), Owner: owner(), Deleting: m.deleting, Failed: m.failed,
			StartupFrom: at(m.created), Node: facts(m), Revision: fmt.Sprint(m.revision),
		}
		if !m.node.exists {
			t.Node.State = core.NodeUnseen
		}
		f.Targets = append(f.Targets, t)
	}
	return f
}

func owner() core.ID { return core.ID{Kind: "MachineSet", Namespace: "sim", Name: "set", UID: "set"} }

// plan is what a pass has decided and on what, before any write.
type plan struct {
	engine   *engine
	fleet    core.Fleet
	decision core.Decision
	// sick tells for each machine whether the truth justified its repair when it was read live.
	sick []bool
}

// look is the first half of a pass: observe, lay, decide, read live, decide.
func (e *engine) look(u *Universe) *plan {
	p := &plan{engine: e, fleet: e.snapshot()}
	faults := &u.setup.Faults
	if !e.inStep && !faults.Hasty {
		p.fleet.Observed = core.Unknown
		return p
	}
	now := at(u.truth.now)
	for i := range u.setup.ControlPlane {
		p.fleet.Targets[i].ControlPlane = true
	}
	if !faults.NoMemory {
		laid := p.fleet
		e.remember(func(m *core.Memory) {
			f := laid
			f.Targets, f.Repairs = slices.Clone(laid.Targets), slices.Clone(laid.Repairs)
			m.Lay(&f, now)
		})
		p.fleet.Targets, p.fleet.Repairs = slices.Clone(laid.Targets), slices.Clone(laid.Repairs)
		before := e.history[:len(e.history)-1]
		m := (&engine{history: before}).recall()
		m.Lay(&p.fleet, now)
	}
	p.decide(u, now)
	return p
}

func (p *plan) decide(u *Universe, now time.Time) {
	decide := u.setup.Faults.decide
	for _, m := range u.truth.machines {
		p.sick = append(p.sick, m.sick(u.truth.now))
	}
	p.decision = decide(u.setup.Policies, p.fleet, now)
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
		p.decision = decide(u.setup.Policies, p.fleet, now)
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
	target.Node = u.truth.readNode(t)
	if target.Node.State == core.NodeGone {
		id, name := target.ID, target.Node.Name
		p.engine.remember(func(m *core.Memory) { m.NodeGone(id, name) })
	}
}
