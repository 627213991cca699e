package selffence_test

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// The small world has one node with an agent and a watchdog, an API server that stores the Lease of the node, up to five witnesses, and a
// manager that condemns the node. A test walks through all orders of what may happen in it. Messages may be late or never arrive.

const (
	tick = time.Second
	// renewal is the time between two grants, in ticks.
	renewal = 2
	// horizon is when a walk ends.
	horizon = 24
)

var start = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

func at(now int) time.Time           { return start.Add(time.Duration(now) * tick) }
func boottime(now int) time.Duration { return time.Duration(now) * tick }

// reply is what the API server answers to one request of the agent.
type reply struct {
	to       selffence.Request
	conflict bool
	lease    selffence.Lease
}

// witness is the agent of another node.
type witness struct {
	knows selffence.Witness
	// state is that of the Lease as it has read it.
	state selffence.State
	// acknowledged is what it has written to the API server.
	acknowledged uint64
	// question and answer are in flight: when the question was sent, or zero.
	question, answer time.Duration
	// heard is set once the agent has counted its answer to the last question.
	heard bool
}

// mostWitnesses is how many witnesses a world has at most.
const mostWitnesses = 5

// nameOf returns the name of a witness.
func nameOf(i int) string { return fmt.Sprintf("w%d", i) }

// membersOf returns witnesses as the members of a promise.
func membersOf(witnesses []int) selffence.Members {
	var m selffence.Members
	for i, w := range witnesses {
		m[i] = nameOf(w)
	}
	return m
}

// world is a state of the small world. It is comparable, so that each state is visited once.
type world struct {
	now int
	// running is set while the first boot runs. It is what a release must not meet.
	running bool
	// fires is when the watchdog fires, and checked is set while a pet stalls between its check and its effect.
	fires   int
	checked bool
	// disarmed is set once the watchdog can't fire any more, and asleep while the node is suspended. The watchdog then stands still.
	disarmed, asleep bool
	agent            selffence.Agent
	stored           selffence.AgentState
	inFlight         selffence.Request
	late             selffence.Request
	answers          reply
	answered         bool
	// lease is the Lease in the API server.
	lease     selffence.Lease
	witnesses [mostWitnesses]witness
	observed  selffence.Observation
	released  bool
	// granted is when the request of the last grant was really sent.
	granted int
	budget  budget
}

// budget is what may still happen.
type budget struct{ sleeps, lates, agentRestarts, losses, managerRestarts, witnessRestarts, stops, changes, questions int }

// protocol has the functions that a planted fault replaces.
type protocol struct {
	mayPet         func(selffence.Agent, time.Duration) bool
	written        func(selffence.Agent, uint64, int) selffence.Agent
	expiry         func(w *world) bool
	condemns       func(stored, seen selffence.Lease) bool
	disarms        func(selffence.Agent) bool
	restart        func(witness) witness
	read           func(selffence.Agent, selffence.Lease, int) selffence.Agent
	accepts        func(stored selffence.Lease, r selffence.Request) bool
	sends          func(selffence.Agent, selffence.Action, time.Duration) (selffence.Agent, selffence.Request)
	readsWitnesses func(s selffence.Observation, read map[string]uint64, now time.Time) selffence.Observation
	agrees         func(a selffence.Agent, witness string, sent time.Duration) selffence.Agent
	overdue        func(selffence.Agent, time.Duration) bool
}

func correct() protocol {
	return protocol{
		mayPet:  selffence.Agent.MayPet,
		written: func(a selffence.Agent, revision uint64, _ int) selffence.Agent { return a.Written(revision) },
		expiry: func(w *world) bool {
			return w.observed.Expired("uid", w.lease, at(w.now))
		},
		condemns:       func(stored, seen selffence.Lease) bool { return stored.Revision == seen.Revision },
		disarms:        func(selffence.Agent) bool { return false },
		restart:        func(w witness) witness { return witness{acknowledged: w.acknowledged} },
		read:           func(a selffence.Agent, l selffence.Lease, _ int) selffence.Agent { return a.Read(l) },
		accepts:        func(stored selffence.Lease, r selffence.Request) bool { return stored.Revision == r.Lease.Revision },
		sends:          selffence.Agent.Sends,
		readsWitnesses: selffence.Observation.ReadWitnesses,
		agrees:         selffence.Agent.Agrees,
		overdue: func(a selffence.Agent, now time.Duration) bool {
			return a.Overdue(now) && a.Next(now) == selffence.Reset
		},
	}
}

// setup is a world to walk through.
type setup struct {
	// validity and timeout are those of the promise, in ticks.
	validity, timeout int

	protocol protocol
	budget   budget
	// witnesses are named by the first promise, and next by another promise, if it names others.
	witnesses, next []int
	// liar is set if the last witness acknowledges what it has not read, and agrees to what is condemned.
	liar bool
	// hold is set if the first promise is not timed.
	hold bool
	// cut is set if the agent never reaches the API server, and cutAt is when it no longer does, or zero. A late request may arrive even then.
	cut   bool
	cutAt int
	// condemnedBy is when the node is condemned at the latest.
	condemnedBy int
	// healthy is set if the node is not condemned, and each request is answered within a tick. Slow is the time between two grants of the first promise
	// then, in ticks.
	healthy bool
	slow    int
}

// renewal returns the time between two grants of a promise.
func (s *setup) renewal(p selffence.Promise) time.Duration {
	if s.slow > 0 && p == s.promise() {
		return boottime(s.slow)
	}
	return boottime(renewal)
}

func (s *setup) times() selffence.Times {
	return selffence.Times{Validity: boottime(s.validity), Watchdog: boottime(s.timeout)}
}

func (s *setup) promise() selffence.Promise {
	return selffence.Promise{Boot: "a", Timed: !s.hold, Times: s.times(), Witnesses: membersOf(s.witnesses)}
}

// other returns the promise that the agent is to make in place of the first.
func (s *setup) other() selffence.Promise {
	p := s.promise()
	if s.next == nil {
		p.Times.Validity = 3 * renewal * tick
		return p
	}
	p.Timed, p.Witnesses = true, membersOf(s.next)
	return p
}

// count returns how many witnesses a world has.
func (s *setup) count() int {
	count := 0
	for _, i := range slices.Concat(s.witnesses, s.next) {
		count = max(count, i+1)
	}
	return count
}

// lies reports whether a witness lies.
func (s *setup) lies(i int) bool { return s.liar && i == s.count()-1 }

// alike returns the witnesses of a world in groups whose members differ in their names alone.
func (s *setup) alike() [][]int {
	groups := make([][]int, 4)
	for i := range s.count() {
		g := 0
		if slices.Contains(s.next, i) {
			g = 1
			if slices.Contains(s.witnesses, i) {
				g = 2
			}
		}
		if s.lies(i) {
			g = 3
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// away reports whether the agent doesn't reach the API server.
func (s *setup) away(now int) bool { return s.cut || s.cutAt > 0 && now >= s.cutAt }

// newWorld returns a world in which the first promise stands, by a request that was sent at the start.
func newWorld(s *setup) world {
	p := s.promise()
	w := world{running: true, fires: s.timeout, lease: selffence.Lease{Revision: 1, State: selffence.Promised, Promise: p}, budget: s.budget}
	w.stored = selffence.AgentState{Bound: true, Stated: p, Sent: p}
	w.agent = selffence.NewAgent(p, s.renewal(p), w.stored).Read(w.lease)
	for i := range s.count() {
		w.witnesses[i] = witness{knows: selffence.Witness{Read: 1, Away: true}, state: selffence.Promised, acknowledged: 1}
	}
	return w
}

// event is one thing that happens. It returns the world after it, or false if it can't happen.
type event struct {
	name string
	do   func(*setup, world) (world, bool)
}

var events = []event{
	{"time passes", timePasses},
	{"the agent checks whether it may pet", func(s *setup, w world) (world, bool) {
		ok := w.awake() && !w.disarmed && !w.checked && s.protocol.mayPet(w.agent, boottime(w.now))
		w.checked = true
		return w, ok
	}},
	{"the watchdog is petted", func(s *setup, w world) (world, bool) {
		ok := w.awake() && w.checked && w.fires != w.now+s.timeout
		w.checked, w.fires = false, w.now+s.timeout
		return w, ok
	}},
	{"the agent acts", agentActs},
	{"a request arrives", func(s *setup, w world) (world, bool) {
		r := w.inFlight
		w.inFlight = selffence.Request{}
		after, ok := arrives(s, w, r)
		return after, ok && !s.away(w.now)
	}},
	{"a late request arrives", func(s *setup, w world) (world, bool) {
		r := w.late
		w.late = selffence.Request{}
		return arrives(s, w, r)
	}},
	{"an answer arrives", answerArrives},
	{"the agent gives a request up", func(s *setup, w world) (world, bool) {
		r := w.agent.InFlight()
		ok := !s.healthy && w.awake() && r.Action != selffence.Wait && r.Sent < boottime(w.now) // a call has a time limit
		w.agent = w.agent.Failed()
		return drop(w), ok
	}},
	{"the node is suspended", func(_ *setup, w world) (world, bool) {
		ok := w.awake() && w.budget.sleeps > 0
		w.budget.sleeps--
		w.asleep = true
		return w, ok
	}},
	{"the node wakes", func(s *setup, w world) (world, bool) {
		ok := w.running && w.asleep
		w.asleep, w.fires = false, w.now+s.timeout
		if s.protocol.overdue(w.agent, boottime(w.now)) { // the agent notices that before anything else runs
			w.running = false
		}
		return w, ok
	}},
	{"the agent restarts", func(s *setup, w world) (world, bool) {
		ok := w.awake() && w.budget.agentRestarts > 0
		w.budget.agentRestarts--
		w.agent, w.checked = selffence.NewAgent(s.promise(), boottime(renewal), w.stored), false
		w.fires, w.disarmed = w.now+s.timeout, false // the kernel pets the watchdog that it closes, or the next process arms it
		return drop(w), ok
	}},
	{"the agent is to stop", func(_ *setup, w world) (world, bool) {
		ok := w.awake() && w.budget.stops > 0 && !w.agent.Stopping
		w.budget.stops--
		w.agent.Stopping = true
		return w, ok
	}},
	{"the agent restarts without its state", func(s *setup, w world) (world, bool) {
		ok := w.awake() && w.budget.losses > 0
		w.budget.losses--
		w.stored = selffence.AgentState{}
		w.agent, w.checked = selffence.NewAgent(s.promise(), boottime(renewal), w.stored), false
		w.fires = w.now + s.timeout
		return drop(w), ok
	}},
	{"the agent is to promise something else", func(s *setup, w world) (world, bool) {
		ok := w.awake() && w.budget.changes > 0
		w.budget.changes--
		if w.agent.Wanted == s.promise() {
			w.agent.Wanted = s.other()
		} else {
			w.agent.Wanted = s.promise()
		}
		w.agent.Renewal = s.renewal(w.agent.Wanted)
		return w, ok
	}},
	{"the manager reads the Lease", func(_ *setup, w world) (world, bool) {
		before := w.observed
		w.observed = w.observed.Observe(w.lease, at(w.now))
		return w, w.observed != before
	}},
	{"the manager condemns the node", managerCondemns},
	{"the manager restarts", func(_ *setup, w world) (world, bool) {
		ok := w.budget.managerRestarts > 0
		w.budget.managerRestarts--
		w.observed = selffence.Observation{}
		return w, ok
	}},
	{"the manager learns that witnesses have acknowledged", func(s *setup, w world) (world, bool) {
		read := map[string]uint64{}
		for i := range s.count() {
			read[nameOf(i)] = w.witnesses[i].acknowledged
			if s.lies(i) {
				read[nameOf(i)] = w.lease.Revision
			}
		}
		before := w.observed
		if before.Lease.State == selffence.Condemned {
			w.observed = s.protocol.readsWitnesses(w.observed, read, at(w.now))
		}
		return w, w.observed != before
	}},
	{"the manager releases the workload", func(s *setup, w world) (world, bool) {
		ok := !w.released && s.protocol.expiry(&w)
		w.released = true
		return w, ok
	}},
}

// drop forgets what is under way between the agent and the API server. A request may still arrive late.
func drop(w world) world {
	if w.budget.lates > 0 && w.inFlight.Action == selffence.WriteLease {
		w.budget.lates--
		w.late = w.inFlight
	}
	w.inFlight, w.answers, w.answered = selffence.Request{}, reply{}, false
	return w
}

func timePasses(s *setup, w world) (world, bool) {
	ok := w.now < horizon && (!s.healthy || !w.hurries(s))
	w.now++
	if w.asleep {
		w.fires++
	}
	resets := w.now >= w.fires || s.budget.sleeps > 0 && s.protocol.overdue(w.agent, boottime(w.now)) // the watchdog suffices elsewhere
	if w.awake() && !w.disarmed && resets {
		w.running, w.checked, w.agent, w.stored = false, false, selffence.Agent{}, selffence.AgentState{}
		w.inFlight, w.answers, w.answered = selffence.Request{}, reply{}, false
	}
	return w, ok
}

// hurries reports whether something is due in this tick: an answer, a request or a pet.
func (w *world) hurries(s *setup) bool {
	now := boottime(w.now)
	if r := w.agent.InFlight(); r.Action != selffence.Wait && r.Sent < now || w.agent.Next(now) != selffence.Wait {
		return true
	}
	return w.checked || w.fires != w.now+s.timeout && s.protocol.mayPet(w.agent, now)
}

// awake reports whether the first boot runs, and is not suspended.
func (w *world) awake() bool { return w.running && !w.asleep }

func agentActs(s *setup, w world) (world, bool) {
	if !w.awake() {
		return w, false
	}
	now, before := boottime(w.now), w
	if s.protocol.disarms(w.agent) {
		w.disarmed = true
		return w, true
	}
	switch action := w.agent.Next(now); action {
	case selffence.Reset:
		w.running = false
		return w, true
	case selffence.Disarm:
		ok := !w.disarmed
		w.disarmed = true
		return w, ok
	case selffence.AskWitnesses:
		w.agent, _ = w.agent.Sends(action, now)
		for i := range s.count() {
			x := &w.witnesses[i]
			x.question, x.answer, x.heard = 0, 0, false // another answer would come too late
			switch queried := slices.Contains(w.agent.Witnesses(), nameOf(i)); {
			case queried && s.lies(i):
				x.answer = now
			case queried:
				x.question = now
			}
		}
		ok := w.budget.questions > 0
		w.budget.questions--
		return w, ok
	case selffence.ReadLease, selffence.WriteLease:
		w.agent, w.inFlight = s.protocol.sends(w.agent, action, now)
		w.stored = w.agent.AgentState
		if s.away(w.now) {
			w.inFlight, w.agent = selffence.Request{}, w.agent.Failed()
			return w, w != before
		}
		return w, true
	case selffence.Wait:
	}
	return w, false
}

// arrives has the API server carry a request out.
func arrives(s *setup, w world, r selffence.Request) (world, bool) {
	if r.Action == selffence.Wait {
		return w, false
	}
	w.answers, w.answered = reply{to: r, lease: w.lease}, true
	if r.Action != selffence.WriteLease {
		return w, true
	}
	if !s.protocol.accepts(w.lease, r) {
		w.answers.conflict = true
		return w, true
	}
	revision := w.lease.Revision + 1
	w.lease = r.Lease
	w.lease.Revision = revision
	w.answers.lease = w.lease
	if w.lease.State == selffence.Promised {
		w.granted = max(w.granted, int(r.Sent/tick))
	}
	return w, true
}

func answerArrives(s *setup, w world) (world, bool) {
	if !w.answered || !w.awake() || s.away(w.now) {
		return w, false
	}
	r := w.answers
	w.answered, w.answers = false, reply{}
	if !w.agent.Awaits(r.to) {
		return w, true
	}
	switch {
	case r.conflict:
		w.agent = w.agent.Conflicts()
	case r.to.Action == selffence.ReadLease:
		w.agent = s.protocol.read(w.agent, r.lease, w.now)
	default:
		w.agent = s.protocol.written(w.agent, r.lease.Revision, w.now)
	}
	w.stored = w.agent.AgentState
	return w, true
}

func managerCondemns(s *setup, w world) (world, bool) {
	l, ok := w.observed.Condemn("uid")
	if s.healthy || !ok || !s.protocol.condemns(w.lease, l) {
		return w, false
	}
	revision := w.lease.Revision + 1
	w.lease = l
	w.lease.Revision = revision
	w.observed = w.observed.Condemned("uid", revision)
	return w, true
}

// witnessEvents are the events of one witness.
func witnessEvents(i int) []event {
	name := fmt.Sprintf("witness %d ", i)
	return []event{
		{name + "reads the Leases and acknowledges them", func(s *setup, w world) (world, bool) {
			x := &w.witnesses[i]
			ok := !s.lies(i) && (x.knows.Read == 0 || x.state != w.lease.State)
			x.knows, x.state, x.acknowledged = selffence.Witness{Read: 1, Away: true}, w.lease.State, 1
			if w.lease.State != selffence.Promised { // all that it reads before is alike
				x.knows.Read, x.acknowledged = w.lease.Revision, w.lease.Revision
			}
			return w, ok
		}},
		{name + "restarts", func(s *setup, w world) (world, bool) {
			ok := w.budget.witnessRestarts > 0 && w.witnesses[i].acknowledged > 1 // before that it has nothing to forget
			w.budget.witnessRestarts--
			x := s.protocol.restart(w.witnesses[i])
			x.question, x.answer, x.heard = w.witnesses[i].question, w.witnesses[i].answer, w.witnesses[i].heard
			w.witnesses[i] = x
			return w, ok
		}},
		{name + "gets a question", func(_ *setup, w world) (world, bool) {
			x := &w.witnesses[i]
			ok := x.question > 0 && x.knows.Agrees(selffence.Lease{State: x.state, Promise: selffence.Promise{Boot: "a"}}, "a")
			x.answer, x.question = x.question, 0
			return w, ok
		}},
		{name + "is heard", func(s *setup, w world) (world, bool) {
			if !w.awake() || w.witnesses[i].answer == 0 {
				return w, false
			}
			first := firstUnheard(s, &w, i) // witnesses that were heard come first, so that they are alike too
			w.witnesses[i], w.witnesses[first] = w.witnesses[first], w.witnesses[i]
			x, granted := &w.witnesses[first], w.agent.Granted
			w.agent = s.protocol.agrees(w.agent, nameOf(first), x.answer)
			x.answer, x.heard = 0, true
			if w.agent.Granted != granted {
				w.granted = max(w.granted, int(w.agent.Granted/tick))
				w.stored = w.agent.AgentState
			}
			return w, true
		}},
	}
}

// firstUnheard returns the first witness like another one whose answer was not counted.
func firstUnheard(s *setup, w *world, like int) int {
	for _, group := range s.alike() {
		if !slices.Contains(group, like) {
			continue
		}
		for _, i := range group {
			if !w.witnesses[i].heard {
				return i
			}
		}
	}
	return like
}

// broken returns which promise of the protocol a step breaks, or nothing.
func broken(s *setup, before, after world) string {
	switch {
	case after.released && after.awake():
		return "the workload is released while the node runs"
	case after.awake() && !after.disarmed && after.lease.Promise.Timed && after.now >= after.granted+s.validity+3*s.timeout:
		return "the node runs for longer than was promised"
	case before.lease.State == selffence.Condemned && after.lease.State != selffence.Condemned:
		return "a condemnation was overwritten"
	case after.disarmed && after.running && after.lease.State == selffence.Promised:
		return "the watchdog was disarmed while the promise stands"
	case s.healthy && (!after.running || s.protocol.overdue(after.agent, boottime(after.now))):
		return "a healthy node is reset"
	}
	return ""
}

// canonical returns the same world with its witnesses in order. Within a group they differ in their names alone, and in whether they were heard.
func canonical(s *setup, w world) world {
	if !w.agent.Counts() {
		for i := range w.witnesses {
			w.witnesses[i].heard = false
		}
	}
	for _, group := range s.alike() {
		var heard, unheard []int
		for _, i := range group {
			if w.witnesses[i].heard {
				heard = append(heard, i)
			} else {
				unheard = append(unheard, i)
			}
		}
		inOrder(&w, heard)
		inOrder(&w, unheard)
	}
	return w
}

// inOrder puts some witnesses in order, each into the place of one of them.
func inOrder(w *world, places []int) {
	var all []witness
	for _, i := range places {
		all = append(all, w.witnesses[i])
	}
	slices.SortFunc(all, func(a, b witness) int {
		return cmp.Or(cmp.Compare(a.knows.Read, b.knows.Read), cmp.Compare(a.state, b.state),
			cmp.Compare(a.acknowledged, b.acknowledged), cmp.Compare(a.question, b.question), cmp.Compare(a.answer, b.answer))
	})
	for k, i := range places {
		w.witnesses[i] = all[k]
	}
}

// step is how a state was reached: from which one, and by which event.
type step struct {
	from  uint64
	event string
}

// mostStates keeps a walk from taking all memory.
const mostStates = 2_000_000

// walk visits every state, the nearest first, and returns how many there are and the first fault with the events that lead to it.
func walk(s *setup) (int, string) {
	all := slices.Clone(events)
	for i := range s.count() {
		all = append(all, witnessEvents(i)...)
	}
	seed := maphash.MakeSeed()
	first := newWorld(s)
	seen := map[uint64]step{maphash.Comparable(seed, first): {}}
	for level := []world{first}; len(level) > 0; {
		if len(seen) > mostStates {
			return len(seen), "the world is not small"
		}
		var next []world
		for _, w := range level {
			if w.released && !w.asleep || !w.running || w.now > s.condemnedBy && w.lease.State != selffence.Condemned {
				continue
			}
			key := maphash.Comparable(seed, w)
			for _, e := range all {
				after, ok := e.do(s, w)
				if !ok {
					continue
				}
				if fault := broken(s, w, after); fault != "" {
					return len(seen), fault + " after\n" + pathTo(seen, key) + e.name
				}
				after = canonical(s, after)
				reached := maphash.Comparable(seed, after)
				if _, known := seen[reached]; !known {
					seen[reached] = step{key, fmt.Sprintf("%d: %s", w.now, e.name)}
					next = append(next, after)
				}
			}
		}
		level = next
	}
	return len(seen), ""
}

// pathTo returns the events that lead to a state, a line each.
func pathTo(seen map[uint64]step, key uint64) string {
	s := seen[key]
	if s.event == "" {
		return ""
	}
	return pathTo(seen, s.from) + s.event + "\n"
}

// worlds are the worlds to walk through, by what happens in them.
func worlds() map[string]setup {
	return map[string]setup{
		"the agent renews":                  {validity: 4, timeout: 4, condemnedBy: 5},
		"the agent renews often":            {validity: 4, timeout: 2, condemnedBy: 7},
		"a request arrives late":            {validity: 4, timeout: 4, condemnedBy: 3, budget: budget{lates: 1}},
		"the agent restarts":                {validity: 3, timeout: 5, condemnedBy: 2, budget: budget{agentRestarts: 1, lates: 1}},
		"the manager restarts":              {validity: 4, timeout: 4, condemnedBy: 3, budget: budget{managerRestarts: 1}},
		"the agent stops":                   {validity: 4, timeout: 4, condemnedBy: 3, budget: budget{stops: 1, lates: 1}},
		"the agent stops twice":             {validity: 3, timeout: 2, condemnedBy: 1, budget: budget{agentRestarts: 1, stops: 2, lates: 1}},
		"the agent promises less":           {validity: 14, timeout: 2, condemnedBy: 3, budget: budget{changes: 1, lates: 1}},
		"the agent promises less, and more": {validity: 15, timeout: 2, condemnedBy: 3, budget: budget{changes: 2, lates: 1}},
		"the agent loses its state":         {validity: 5, timeout: 2, condemnedBy: 2, budget: budget{losses: 1, lates: 1}},
		"the node is suspended":             {validity: 4, timeout: 2, condemnedBy: 3, budget: budget{sleeps: 1, lates: 1}},
		"the node is healthy":               {validity: 45, timeout: 2, condemnedBy: horizon, healthy: true, slow: 15, budget: budget{changes: 2}},
		"witnesses":                         {validity: 5, timeout: 2, condemnedBy: 0, witnesses: []int{0, 1, 2}, cut: true, budget: budget{questions: 1}},
		"a witness restarts":                {validity: 5, timeout: 2, condemnedBy: 0, witnesses: []int{0, 1, 2}, cut: true, budget: budget{questions: 1, witnessRestarts: 1}},
		"a witness lies":                    {validity: 5, timeout: 2, condemnedBy: 0, witnesses: []int{0, 1, 2, 3, 4}, liar: true, cut: true, budget: budget{questions: 1}},
		"a witness lies and one restarts":   {validity: 5, timeout: 2, condemnedBy: 0, witnesses: []int{0, 1, 2, 3, 4}, liar: true, cut: true, budget: budget{questions: 1, witnessRestarts: 1}},
		"the witness is replaced":           {validity: 7, timeout: 2, condemnedBy: 2, cutAt: 3, witnesses: []int{0}, next: []int{1}, budget: budget{questions: 1, changes: 1, lates: 1}},
		"a promise becomes timed":           {validity: 5, timeout: 2, condemnedBy: 2, cutAt: 2, hold: true, next: []int{0, 1, 2}, budget: budget{questions: 1, changes: 1, lates: 1}},
	}
}

func TestSmallWorlds(t *testing.T) {
	t.Parallel()
	for name, s := range worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.protocol = correct()
			n, fault := walk(&s)
			if fault != "" {
				t.Error(fault)
			}
			t.Logf("%d states", n)
			if n < 1000 {
				t.Error("the walk has met too few states to show anything")
			}
		})
	}
}

// TestFaultsAreFound plants faults in the protocol, and requires that a walk finds each.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	after := func(validity, timeout int) func(*world) bool {
		wait := selffence.Times{Validity: boottime(validity), Watchdog: boottime(timeout)}.Wait()
		return func(w *world) bool {
			return w.observed.Lease.State == selffence.Condemned && w.lease.Revision == w.observed.Lease.Revision && !at(w.now).Before(w.observed.At.Add(wait))
		}
	}
	for name, fault := range map[string]struct {
		in    string
		plant func(*protocol)
	}{
		"a grant counts from the reply": {"the agent renews", func(p *protocol) {
			p.written = func(a selffence.Agent, revision uint64, now int) selffence.Agent {
				a = a.Written(revision)
				a.Granted = boottime(now)
				return a
			}
		}},
		"reading the Lease is a grant": {"the agent renews", func(p *protocol) {
			p.read = func(a selffence.Agent, l selffence.Lease, now int) selffence.Agent {
				a = a.Read(l)
				a.Granted = boottime(now)
				return a
			}
		}},
		"the watchdog counts once": {"the agent renews", func(p *protocol) {
			p.expiry = after(4+4, 0)
		}},
		"the watchdog counts twice": {"the agent restarts", func(p *protocol) {
			p.expiry = after(3+2*5, 0)
		}},
		"a condemned node counts as stopped": {"the agent renews", func(p *protocol) { p.expiry = after(0, 0) }},
		"the clock of the node is believed": {"the agent restarts", func(p *protocol) {
			p.expiry = func(w *world) bool {
				renewed := at(w.granted - 6) // its clock is six seconds behind
				return w.observed.Lease.State == selffence.Condemned && !at(w.now).Before(renewed.Add(selffence.Times{Validity: 3 * tick, Watchdog: 5 * tick}.Wait()))
			}
		}},
		"renewals have no precondition": {"the agent renews", func(p *protocol) {
			p.accepts = func(selffence.Lease, selffence.Request) bool { return true }
		}},
		"condemning has no precondition": {"the agent renews often", func(p *protocol) {
			p.condemns = func(selffence.Lease, selffence.Lease) bool { return true }
		}},
		"the watchdog is disarmed before the promise is withdrawn": {"the agent stops", func(p *protocol) {
			p.disarms = func(a selffence.Agent) bool { return a.Stopping && a.Bound }
		}},
		"the longer of two validities counts": {"the agent promises less", func(p *protocol) {
			p.mayPet = func(a selffence.Agent, now time.Duration) bool {
				return a.MayPet(now) || a.Bound && now < a.Granted+max(a.Stated.Times.Validity, a.Sent.Times.Validity)
			}
		}},
		"a third promise is sent while two may stand": {"the agent promises less, and more", func(p *protocol) {
			p.sends = func(a selffence.Agent, action selffence.Action, now time.Duration) (selffence.Agent, selffence.Request) {
				stated := a.Stated
				a.Stated = a.Sent // as if nothing were uncertain
				a, r := a.Sends(action, now)
				a.Stated = stated
				return a, r
			}
		}},
		"a promise takes the place of another by an old grant": {"the node is healthy", func(p *protocol) {
			p.sends = func(a selffence.Agent, action selffence.Action, now time.Duration) (selffence.Agent, selffence.Request) {
				granted := a.Granted
				a.Granted = now // as if it were recent
				a, r := a.Sends(action, now)
				a.Granted = granted
				return a, r
			}
		}},
		"a Lease that is still withdrawn is proof that no promise stands": {"the agent stops twice", func(p *protocol) {
			p.read = func(a selffence.Agent, l selffence.Lease, _ int) selffence.Agent {
				a = a.Read(l)
				if l.State == selffence.Withdrawn {
					a.AgentState = selffence.AgentState{}
				}
				return a
			}
		}},
		"an agent without a state pets": {"the agent loses its state", func(p *protocol) {
			p.mayPet = func(a selffence.Agent, now time.Duration) bool { return a.MayPet(now) || !a.Bound }
		}},
		"a node that wakes late waits for its watchdog": {"the node is suspended", func(p *protocol) {
			p.overdue = func(selffence.Agent, time.Duration) bool { return false }
		}},
		"a witness forgets": {"a witness restarts", func(p *protocol) {
			p.restart = func(w witness) witness {
				w.state, w.knows.Read = selffence.Promised, 1
				return w
			}
		}},
		"the manager doesn't wait for the witnesses": {"witnesses", func(p *protocol) {
			p.expiry = after(5, 2)
		}},
		"a majority of the witnesses suffices for the manager": {"a witness lies", func(p *protocol) {
			p.readsWitnesses = func(s selffence.Observation, read map[string]uint64, now time.Time) selffence.Observation {
				if s.Acknowledged.IsZero() && 5-len(s.Lease.Unread(read)) >= s.Lease.Promise.Witnesses.Majority() {
					s.Acknowledged = now
				}
				return s
			}
		}},
		"the witnesses of the promise that stands suffice": {"the witness is replaced", func(p *protocol) {
			p.agrees = func(a selffence.Agent, witness string, sent time.Duration) selffence.Agent {
				before := a.Sent
				a.Sent = a.Stated
				a = a.Agrees(witness, sent)
				a.Sent = before
				return a
			}
		}},
		"the witnesses of the promise that was sent last suffice": {"the witness is replaced", func(p *protocol) {
			p.agrees = func(a selffence.Agent, witness string, sent time.Duration) selffence.Agent {
				before := a.Stated
				a.Stated = a.Sent
				a = a.Agrees(witness, sent)
				a.Stated = before
				return a
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := worlds()[fault.in]
			s.protocol = correct()
			fault.plant(&s.protocol)
			if _, found := walk(&s); found == "" {
				t.Error("no walk finds it")
			}
		})
	}
}
