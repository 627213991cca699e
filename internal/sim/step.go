package sim

import (
	"fmt"
	"slices"
)

// Kind is one kind of thing that can happen.
type Kind int

// What can happen. Passes are atomic here but for crashes; Interpose breaks them up.
const (
	Pass Kind = iota + 1
	CrashingPass
	RefusedPass
	// LosingPass is a pass that loses the answer to a write, FailingPass one of which a call fails.
	LosingPass
	FailingPass
	// Begin is the beginning of a pass that is made call by call, and Make one call of it. FailMake is a call that fails, and LoseMake
	// one whose answer is lost.
	Begin
	Make
	FailMake
	LoseMake
	Tick
	Flap
	Vanish
	Fail
	Deleted
	SeeMachine
	SeeNode
	SeeLedger
	SeeRequests
	// Mend and Defeat are how remediators end, if they do; LetGo is when one has undone what it did.
	Mend
	Defeat
	LetGo
	// Cancel is somebody's deletion of a request, Remake its replacement by a namesake.
	Cancel
	Remake
	// Follow is an owner's beginning to do what a mark asks, Discard its deletion of the machine, and Defer its saying
	// that it won't yet. Unmark and Stray are marks that somebody else takes away, or makes.
	Follow
	Discard
	Defer
	Unmark
	Stray
	Pause
	Deselect
	Restart
	Resync
	Erase
	// Rest is the end of a story: what has been begun ends, and nothing more befalls anybody.
	Rest
	kinds
)

// Step is one thing that happens. Which is a machine, a place in the ledger, or a number of writes.
type Step struct {
	Kind          Kind
	Engine, Which int
}

// sentences say what happens, with the engine and the number, which some leave out.
var sentences = [...]string{ //nolint:gosec // it takes a pass for a password
	Pass:         "engine %[1]s passes",
	CrashingPass: "engine %[1]s passes and crashes after %[2]d writes",
	RefusedPass:  "engine %[1]s passes, and deletions are refused",
	LosingPass:   "engine %[1]s passes, and the answer to write %[2]d is lost",
	FailingPass:  "engine %[1]s passes, and call %[2]d fails",
	Begin:        "engine %[1]s begins a pass",
	Make:         "engine %[1]s makes call %[2]d of those that it may make",
	FailMake:     "call %[2]d of those that engine %[1]s may make fails",
	LoseMake:     "engine %[1]s makes call %[2]d of those that it may make, and its answer is lost",
	Tick:         "a tick of time",
	Flap:         "node of m%[2]d turns from Ready to not, or back",
	Vanish:       "node of m%[2]d is deleted, or registers again",
	Fail:         "machine m%[2]d fails",
	Deleted:      "deletion of m%[2]d is over; a new machine has its name",
	SeeMachine:   "engine %[1]s sees machine m%[2]d as it is",
	SeeNode:      "engine %[1]s sees node of m%[2]d as it is",
	SeeLedger:    "engine %[1]s sees the ledger as it is",
	SeeRequests:  "engine %[1]s sees requests of template %[2]d as they are",
	Mend:         "remediator of request %[2]d succeeds",
	Defeat:       "remediator of request %[2]d gives up",
	LetGo:        "remediator of request %[2]d lets go of it",
	Cancel:       "somebody deletes request %[2]d",
	Remake:       "somebody replaces request %[2]d by a namesake",
	Follow:       "owner of m%[2]d says that it replaces it",
	Discard:      "owner of m%[2]d deletes it",
	Defer:        "owner of m%[2]d says that it won't yet",
	Unmark:       "somebody takes the mark of m%[2]d away",
	Stray:        "somebody else marks m%[2]d",
	Pause:        "somebody pauses all policies, or lets them go on",
	Deselect:     "machine or node %[2]d is selected no more, or again",
	Restart:      "engine %[1]s restarts",
	Resync:       "engine %[1]s has its caches in step",
	Erase:        "somebody deletes entry %[2]d of the ledger",
	Rest:         "everything comes to rest",
}

// String says what happens, for a trace.
func (s Step) String() string {
	if s.Kind <= 0 || int(s.Kind) >= len(sentences) {
		return "nothing"
	}
	return fmt.Sprintf(sentences[s.Kind]+"%.0[3]s", leaderName(s.Engine), s.Which, "")
}

// leaderName is A for the first engine.
func leaderName(i int) string { return "ABCDEFGH"[i%8 : i%8+1] }

// Steps are what can happen now, in a fixed order.
func (u *Universe) Steps() []Step {
	var steps []Step
	for i := range u.engines {
		steps = u.engineSteps(steps, i)
	}
	for m := range u.truth.machines {
		steps = u.machineSteps(steps, m)
	}
	for i := range u.truth.requests {
		steps = u.requestSteps(steps, i)
	}
	steps = u.maybe(steps, Step{Kind: Tick})
	steps = u.maybe(steps, Step{Kind: Pause})
	for i := range u.truth.ledger {
		if u.left[Erase] > 0 {
			steps = append(steps, Step{Kind: Erase, Which: i})
		}
	}
	return steps
}

func (u *Universe) engineSteps(steps []Step, i int) []Step {
	e := u.engines[i]
	if !e.inStep {
		steps = append(steps, Step{Kind: Resync, Engine: i})
		if !u.setup.Faults.Hasty {
			return steps
		}
	}
	steps = u.passSteps(steps, i)
	if u.left[Restart] > 0 && (e.passed || e.flight != nil) {
		steps = append(steps, Step{Kind: Restart, Engine: i})
	}
	for m := range u.truth.machines {
		if e.staleMachine(u.truth, m) {
			steps = append(steps, Step{Kind: SeeMachine, Engine: i, Which: m})
		}
		if e.nodes[m] != u.truth.machines[m].node {
			steps = append(steps, Step{Kind: SeeNode, Engine: i, Which: m})
		}
	}
	if e.staleLedger(u.truth) {
		steps = append(steps, Step{Kind: SeeLedger, Engine: i})
	}
	for template := range e.requests {
		if e.staleRequests(u.truth, template) {
			steps = append(steps, Step{Kind: SeeRequests, Engine: i, Which: template})
		}
	}
	return steps
}

// passSteps are the passes that an engine may make, or the calls of the one under way.
func (u *Universe) passSteps(steps []Step, i int) []Step {
	if e := u.engines[i]; e.flight != nil {
		for which, c := range u.resume(e).calls {
			steps = append(steps, Step{Kind: Make, Engine: i, Which: which})
			steps = u.maybe(steps, Step{Kind: FailMake, Engine: i, Which: which})
			if writes(&c) {
				steps = u.maybe(steps, Step{Kind: LoseMake, Engine: i, Which: which})
			}
		}
		return steps
	}
	if !u.setup.OnlyFlights {
		steps = append(steps, Step{Kind: Pass, Engine: i})
	}
	for writes := range 4 {
		steps = u.maybe(steps, Step{Kind: CrashingPass, Engine: i, Which: writes})
		steps = u.maybe(steps, Step{Kind: LosingPass, Engine: i, Which: writes})
	}
	for call := range 8 {
		steps = u.maybe(steps, Step{Kind: FailingPass, Engine: i, Which: call})
	}
	steps = u.maybe(steps, Step{Kind: RefusedPass, Engine: i})
	return u.maybe(steps, Step{Kind: Begin, Engine: i})
}

func (u *Universe) machineSteps(steps []Step, m int) []Step {
	now := u.truth.machines[m]
	if u.left[Flap] > 0 && now.node.exists {
		steps = append(steps, Step{Kind: Flap, Which: m})
	}
	if u.left[Vanish] > 0 {
		steps = append(steps, Step{Kind: Vanish, Which: m})
	}
	if m < max(u.setup.Nodes, u.setup.Machines) {
		steps = u.maybe(steps, Step{Kind: Deselect, Which: m})
	}
	if u.left[Fail] > 0 && !now.failed && !now.deleting && m < u.setup.Machines {
		steps = append(steps, Step{Kind: Fail, Which: m})
	}
	if now.deleting {
		steps = append(steps, Step{Kind: Deleted, Which: m})
	}
	if u.delegates {
		steps = u.markSteps(steps, m)
	}
	return steps
}

func (e *engine) staleMachine(c *cluster, m int) bool {
	a, b := e.machines[m], c.machines[m]
	return a.generation != b.generation || a.revision != b.revision
}

func (e *engine) staleLedger(c *cluster) bool {
	if len(e.ledger) != len(c.ledger) {
		return true
	}
	for i := range c.ledger {
		if a, b := &e.ledger[i], &c.ledger[i]; a.Name != b.Name || a.Revision != b.Revision {
			return true
		}
	}
	return false
}

func (e *engine) staleRequests(c *cluster, template int) bool {
	return !slices.Equal(e.requests[template], c.requestsFrom(template))
}

// After is the universe in which the step has happened.
func (u *Universe) After(s Step) *Universe {
	next := u.clone()
	if s.Kind < kinds && next.left[s.Kind] > 0 {
		next.left[s.Kind]--
	}
	e := next.engines[s.Engine]
	switch s.Kind {
	case Pass:
		next.pass(e, smooth)
	case CrashingPass:
		next.left[Restart]--
		next.pass(e, mishap{crashAfter: s.Which, loses: never, fails: never})
	case RefusedPass:
		next.pass(e, mishap{crashAfter: never, loses: never, fails: never, refused: true})
	case LosingPass:
		next.pass(e, mishap{crashAfter: never, loses: s.Which, fails: never})
	case FailingPass:
		next.pass(e, mishap{crashAfter: never, loses: never, fails: s.Which})
	case Begin:
		next.takeOff(e)
	case Make, FailMake, LoseMake:
		next.fly(e, s.Which, s.Kind == FailMake, s.Kind == LoseMake)
	case Tick:
		next.truth.now++
	case Restart:
		next.left[CrashingPass]--
		e.forget()
		next.forgive()
	case Resync:
		e.resync(next.truth)
	case SeeMachine, SeeNode, SeeLedger, SeeRequests:
		e.see(next.truth, s)
	case Mend, Defeat, LetGo, Cancel, Remake:
		next.befall(s)
	case Pause, Erase, Flap, Vanish, Fail, Deleted, Deselect, Follow, Discard, Defer, Unmark, Stray:
		next.happen(s)
	case Rest, kinds:
	}
	next.watch()
	return next
}

// see is one cache catching up.
func (e *engine) see(c *cluster, s Step) {
	switch s.Kind { //nolint:exhaustive // the others are seen by nobody
	case SeeMachine:
		e.machines[s.Which] = c.machines[s.Which]
		e.machines[s.Which].node = node{}
	case SeeNode:
		e.nodes[s.Which] = c.machines[s.Which].node
	case SeeLedger:
		e.ledger = slices.Clone(c.ledger)
	case SeeRequests:
		e.requests[s.Which] = c.requestsFrom(s.Which)
	}
}

// happen is what befalls a machine, or what somebody does.
func (u *Universe) happen(s Step) {
	c := u.truth
	switch s.Kind { //nolint:exhaustive // the others are about something else
	case Pause:
		c.paused, c.edited = !c.paused, c.edited+1
	case Erase:
		c.erase(c.ledger[s.Which].Name)
	case Deleted:
		c.machines[s.Which] = c.machines[s.Which].replaced(c.now)
	case Fail:
		c.machines[s.Which].failed = true
		c.machines[s.Which].revision++
	case Follow, Discard, Defer, Unmark, Stray:
		c.touch(s.Which, s.Kind)
	case Deselect:
		u.deselect(s.Which)
	default:
		c.machines[s.Which].node.happen(s.Kind, c.now)
	}
}

// deselect has a machine, or in a world of nodes a node, selected no more, or again.
func (u *Universe) deselect(slot int) {
	m := &u.truth.machines[slot]
	if slot < u.setup.Nodes {
		m.node.deselected = !m.node.deselected
		return
	}
	m.deselected = !m.deselected
	m.revision++
}

// happen is what befalls a node.
func (n *node) happen(k Kind, now int) {
	switch k { //nolint:exhaustive // the others are about something else
	case Flap:
		n.ready = !n.ready
	case Vanish:
		n.exists, n.ready = !n.exists, true
		if n.exists {
			n.generation++
		}
	}
	n.since = now
}
