package fencing_test

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// The small world has one node with one pod, and its host with a BMC. It has the controllers that move the pod, and a
// manager that fences the node. A test walks through all orders of what may happen in it.

// tick is the unit of time of the world. A BMC answers from a state that is at most one tick old.
const tick = 2500 * time.Millisecond

var start = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// world is a state of the small world. Copies share nothing.
//
//nolint:recvcheck // events return a copy, and what they are made of changes it
type world struct {
	now int
	// clock is how far the clock of the wall is ahead, in ticks. Records have its times. A process measures by other times, which pass
	// steadily.
	clock int
	// host is the truth about the host. Its pod runs from the start.
	host struct {
		on   bool
		boot int
		// pod is set while the pod of the node runs in this boot.
		pod bool
		// turnsOff is set between the acknowledgement of a command and its effect.
		turnsOff bool
		// before is the power one tick ago.
		before bool
		// lastOff is when the power was off last.
		lastOff int
		// byHand is set if a person turned the power last.
		byHand bool
		// cut is set while the kubelet doesn't reach the API server.
		cut bool
	}
	node node
	// bound is set while the API server has the pod on the node, and terminating once the taint evicts it. Elsewhere is
	// set once another node may run it.
	bound, terminating, elsewhere bool
	deleting                      bool
	manager                       manager
	lease                         lease
	machine                       machine
	// other is what the BMC shows of another host, if it is that of one.
	other      other
	neverFires bool
	// hasty is set if the BMC says Off as soon as it is told, for a tick, and hastes is when it did so last.
	hasty  bool
	hastes int
	// eased is set once the configuration needs one proof in place of both.
	eased bool
	// late are the UID and the revision of the node as it was read for a release that has got no answer yet, or zeros. It deletes the node if
	// lateDeletion is set.
	late         [2]int
	lateDeletion bool
	budget       budget
	broken       string
}

// machine is the machine of the node, as the API server has it. Once it is gone, its provider has powered the host off.
type machine struct{ deleting, gone bool }

// other is another host than that of the node.
type other struct{ powered, off bool }

// node is the Node in the API server.
type node struct {
	exists                                bool
	uid, boot, revision                   int
	ready, tainted, outOfService, changed bool
}

// manager is the process that fences: the record outlives it, and the rest doesn't.
type manager struct {
	record fencing.Record
	// since is when the phase of the record began, by the clock of this process.
	since fencing.PhaseStart
	begun int
	facts fencing.Facts
	// revision is that of the node as it was read.
	revision int
	power    fencing.Power
	promise  fencing.Promise
	observed observed
	finished bool
	// changeFailed is when the last change failed in this phase.
	changeFailed time.Time
	// observing is set once the observation has begun.
	observing bool
	// gaveUp is set if there was no node when it finished.
	gaveUp bool
}

// budget is what may still happen.
type budget struct {
	flips, crashes, deletions, heals, fails, sick, steps, frees, withdrawals, cuts, untaints int
	// eases counts how often the configuration may come to need one proof in place of both.
	eases int
	// refusals are changes of the node and deletions of the machine that the API server refuses.
	refusals int
	// lates are releases that get no answer, and that the API server may still carry out at any time.
	lates int
}

// setup is a world to walk through.
type setup struct {
	config fencing.Config
	budget budget
	// next replaces fencing.Next, to show that its faults are found.
	next func(fencing.Config, fencing.Record, fencing.Facts) fencing.Step
	// settles is set where each fencing ends.
	settles bool
	// hold is set where promises are not timed, and cut where the first boot has no agent.
	hold, cut bool
	// keepsReadings is set where what was read before a node was recorded counts.
	keepsReadings bool
	// otherHost is set where the BMC is that of another host, which turns off and on as it is told. NeverFires is set where the watchdog of
	// the node never fires.
	otherHost, neverFires bool
	// hasty is set where the BMC says Off as soon as it is told, for a tick.
	hasty bool
	// tolerates is set where the pod tolerates Fettle's taint for a time.
	tolerates bool
}

func at(now int) time.Time { return start.Add(time.Duration(now) * tick) }

func newWorld(s *setup) world {
	w := world{node: node{exists: true, uid: 1, boot: 1, ready: true}, bound: true, lease: lease{state: fencing.NoPromise}, budget: s.budget}
	w.other.powered, w.neverFires, w.hasty, w.hastes = s.otherHost, s.neverFires, s.hasty, -100
	w.host.on, w.host.boot, w.host.pod, w.host.cut, w.host.before, w.host.lastOff = true, 1, true, true, true, -100
	return w
}

// event is one thing that happens. It returns the world after it, or false if it can't happen.
type event struct {
	name string
	do   func(*setup, world) (world, bool)
}

var events = []event{
	{"manager", managerSteps},
	{"time passes", func(_ *setup, w world) (world, bool) {
		w.now, w.host.before = w.now+1, w.host.on
		return sees(w), !w.mustReset()
	}},
	{"the BMC does not answer", func(s *setup, w world) (world, bool) {
		if k := w.next(s).Kind; w.budget.fails == 0 || w.manager.finished || (k != fencing.ReadPower && k != fencing.CommandOff && k != fencing.CommandOn && k != fencing.LeaveHost) {
			return w, false
		}
		w.budget.fails--
		w.manager.power.RetryAt = at(w.now + 1)
		w.manager.endObservation()
		return w, true
	}},
	{"the host turns off", func(_ *setup, w world) (world, bool) {
		ok := w.host.turnsOff
		w.host.turnsOff = false
		return turn(w, false), ok
	}},
	{"a person turns the power on or off", func(_ *setup, w world) (world, bool) {
		ok := w.budget.flips > 0
		w.budget.flips--
		w = turn(w, !w.host.on)
		w.host.byHand = true
		return w, ok
	}},
	{"the kubelet reports that the node is not Ready", func(s *setup, w world) (world, bool) {
		ok := w.budget.sick > 0
		w.budget.sick--
		w, reports := kubeletReports(s, w)
		w.node.ready = false
		return w, ok && reports
	}},
	{"the kubelet reports", kubeletReports},
	{"a person removes the taint", func(_ *setup, w world) (world, bool) {
		ok := w.node.tainted && w.budget.untaints > 0
		w.node.tainted = false
		w.node.revision++
		w.budget.untaints--
		return w, ok
	}},
	{"the network of the node heals", func(_ *setup, w world) (world, bool) {
		ok := w.host.cut && w.budget.heals > 0
		w.host.cut = false
		w.budget.heals--
		return w, ok
	}},
	{"the network of the node breaks", func(_ *setup, w world) (world, bool) {
		ok := w.host.on && !w.host.cut && w.budget.cuts > 0
		w.host.cut = true
		w.budget.cuts--
		return w, ok
	}},
	{"the node controller finds the node not Ready", func(_ *setup, w world) (world, bool) {
		ok := w.node.exists && w.node.ready && (!w.host.on || w.host.cut)
		w.node.ready = false
		w.node.revision++
		return w, ok
	}},
	{"a taint evicts the pod", func(_ *setup, w world) (world, bool) {
		ok := w.node.exists && (w.node.tainted || w.node.outOfService) && w.bound && !w.terminating
		w.terminating = true
		return w, ok
	}},
	{"pods are collected", func(_ *setup, w world) (world, bool) {
		ok := w.bound && (!w.node.exists || (w.terminating && w.node.outOfService && !w.node.ready))
		w.bound, w.elsewhere = false, true
		return w, ok
	}},
	{"the manager crashes", func(_ *setup, w world) (world, bool) {
		ok := w.budget.crashes > 0 && !w.manager.finished
		w.budget.crashes--
		w.manager = manager{record: w.manager.record}
		return w, ok
	}},
	{"the API server refuses a change", func(s *setup, w world) (world, bool) {
		if w.budget.refusals == 0 || w.manager.finished || !changes(w.next(s).Kind) {
			return w, false
		}
		w.budget.refusals--
		w.manager.changeFailed = at(w.now)
		w.manager.endObservation()
		return w, true
	}},
	{"the release gets no answer", func(s *setup, w world) (world, bool) {
		kind := w.next(s).Kind
		ok := w.budget.lates > 0 && !w.manager.finished && (kind == fencing.SetOutOfService || kind == fencing.RemoveNode)
		w.budget.lates--
		w.late, w.lateDeletion = [2]int{w.node.uid, w.manager.revision}, kind == fencing.RemoveNode
		w.manager.endObservation()
		return w, ok
	}},
	{"the release arrives late", func(_ *setup, w world) (world, bool) {
		ok := w.late != [2]int{}
		switch {
		case !ok || !w.node.exists || w.late != [2]int{w.node.uid, w.node.revision}:
		case w.lateDeletion:
			w.node = node{uid: w.node.uid}
		default:
			w.node.outOfService = true
			w.node.revision++
		}
		w.late = [2]int{}
		return w, ok
	}},
	{"the provider has deleted the machine", func(_ *setup, w world) (world, bool) {
		ok := w.machine.deleting && !w.machine.gone
		w.machine.gone = true
		w = turn(w, false)
		w.node = node{uid: w.node.uid}
		return w, ok
	}},
	{"the clock is put back", func(_ *setup, w world) (world, bool) {
		return putClock(w, -far), w.budget.steps > 0
	}},
	{"the clock is put forward", func(_ *setup, w world) (world, bool) {
		return putClock(w, far), w.budget.steps > 0
	}},
	{"the policy needs less", func(_ *setup, w world) (world, bool) {
		ok := w.budget.eases > 0 && w.manager.record.Phase != ""
		w.budget.eases--
		w.eased = true
		return w, ok
	}},
	{"the fencing is deleted", func(_ *setup, w world) (world, bool) {
		ok := w.budget.deletions > 0 && !w.deleting && !w.manager.finished
		w.budget.deletions--
		w.deleting = true
		w.manager.endObservation()
		return w, ok
	}},
}

// changes reports whether a step changes the node for the fencing, or deletes its machine.
func changes(k fencing.StepKind) bool {
	return k == fencing.TaintNode || k == fencing.RemoveMachine
}

// allEvents returns what may happen.
func (s *setup) allEvents() []event {
	if s.config.ByPromise || s.config.Both {
		return slices.Concat(events, promiseEvents)
	}
	return events
}

// far is by how many ticks a clock is put, more than a walk takes.
const far = 1000

func putClock(w world, by int) world {
	w.clock += by
	w.budget.steps--
	return w
}

// sees notes when the power was off last.
func sees(w world) world {
	if !w.host.on {
		w.host.lastOff = w.now
	}
	return w
}

// turn turns the power, which ends what runs. A new boot has another boot ID.
func turn(w world, on bool) world {
	if on == w.host.on {
		return w
	}
	w.host.on, w.host.pod, w.host.byHand, w.lease.bound = on, false, false, false // the watchdog goes off with the host
	w = sees(w)
	if on {
		w.host.boot++
		w.host.cut = false
	}
	return w
}

// kubeletReports posts the status of the node. The kubelet starts the pods of its node, unless a taint with the effect NoExecute keeps it from
// that, and stops terminating pods.
func kubeletReports(s *setup, w world) (world, bool) {
	if !w.host.on || w.host.cut || s.tolerates && !w.host.before { // a host boots for longer than its BMC lags
		return w, false
	}
	if !w.node.exists {
		w.node = node{exists: true, uid: w.node.uid + 1, changed: !w.machine.gone}
	}
	was := w.node
	w.node.ready, w.node.boot = true, w.host.boot
	switch {
	case w.bound && w.terminating:
		w.host.pod, w.bound, w.elsewhere = false, false, true
	case w.bound && (!w.node.tainted || s.tolerates) && !w.node.outOfService:
		w.host.pod = true
	case !w.bound:
		w.host.pod = false
	}
	if w.node != was {
		w.node.revision++
	}
	return w, true
}

// observe begins an observation, unless one has begun.
func (w *world) observe() {
	w.seesRecord()
	if m := &w.manager; !m.observing {
		m.observing, m.begun = true, w.now
	}
}

// endObservation ends an observation: its facts are dropped.
func (m *manager) endObservation() {
	m.facts, m.observing = fencing.Facts{}, false
}

// next returns the step that the manager takes next.
func (w *world) next(s *setup) fencing.Step {
	m := &w.manager
	f := m.facts
	f.Now, f.Begun, f.Deleting, f.Power, f.Promise = at(w.now), at(m.begun), w.deleting, m.power, m.promise
	f.ChangeFailed = m.changeFailed
	c := s.config
	c.Both = c.Both && !w.eased
	return s.next(c, m.since.Record(m.record), f)
}

// seesRecord has the manager see when the phase of its record began.
func (w *world) seesRecord() {
	if m := &w.manager; m.since == (fencing.PhaseStart{}) && m.record.Phase != "" {
		m.since = m.since.At(m.record.Since.Add(-time.Duration(w.clock)*tick), at(w.now))
	}
}

// record has the manager record something.
func (w *world) record(s *setup, r fencing.Record) {
	m := &w.manager
	if since := m.since.Record(m.record).Since; m.record.Phase != "" && r.Since.Equal(since) {
		r.Since = m.record.Since
	} else {
		r.Since = r.Since.Add(time.Duration(w.clock) * tick)
	}
	if m.record.Since != r.Since {
		m.since, m.changeFailed = fencing.PhaseStart{}, time.Time{}
	}
	if m.record = r; !s.keepsReadings {
		m.power = m.power.Recorded(r)
	}
}

// checkIdle complains of a manager that has nothing to do while it sees something to be done.
func (w *world) checkIdle() {
	m := &w.manager
	if n := m.facts.Node; n != nil && m.revision == w.node.revision && n.Ready && n.OutOfService {
		w.broken = "I12: the taint stands on a node that is Ready"
	}
}

// managerSteps has the manager take one step.
func managerSteps(s *setup, w world) (world, bool) {
	m := &w.manager
	if m.finished {
		return w, false
	}
	w.observe()
	step := w.next(s)
	switch step.Kind { //nolint:exhaustive // the others change something
	case fencing.Wait:
		w.checkIdle()
		m.endObservation() // it observes again, at any time
		return w, true
	case fencing.Finish:
		w.checkIdle()
		m.finished, m.gaveUp = w.deleting, !m.facts.Node.Exists
		m.endObservation()
		return w, true
	case fencing.Write:
		w.record(s, step.Record)
	case fencing.ReadNode:
		m.facts.Node, m.revision = w.readNode(m.record), w.node.revision
		return w, true
	case fencing.ReadPower:
		return w, w.manager.read(w.reading())
	case fencing.ReadPromise:
		w.manager.readPromise(w.lease, w.now)
		return w, true
	case fencing.RevokePromise, fencing.FreePromise:
		w.writePromise(step.Kind)
	case fencing.CountWorkload:
		m.facts.Workload = w.workload(s)
		return w, true
	case fencing.ReadMachine:
		m.facts.Machine = &fencing.Machine{Exists: !w.machine.gone, Deleting: w.machine.deleting && !w.machine.gone}
		return w, true
	default:
		w.change(step.Kind)
	}
	w.manager.endObservation()
	return w, true
}

func (m *manager) read(r fencing.Reading) bool {
	m.power = m.power.Observe(r)
	return true
}

func (w *world) readNode(r fencing.Record) *fencing.Node {
	n := &fencing.Node{ReadAt: at(w.now), Exists: w.node.exists}
	if n.Exists {
		n.UID, n.BootID, n.Ready = fmt.Sprint(w.node.uid), fmt.Sprint(w.node.boot), w.node.ready
		n.Tainted, n.OutOfService, n.Changed = w.node.tainted, w.node.outOfService, w.node.changed && r.Phase != ""
	}
	return n
}

// reading is what the BMC answers: the power now. A walk in which it lags answers for the tick before.
func (w *world) reading() fencing.Reading {
	r := fencing.Reading{Begun: at(w.now), Ended: at(w.now), State: fencing.IsOff}
	if on := w.host.on && w.host.before && w.now > w.hastes+1; on && !w.other.powered || w.other.powered && !w.other.off {
		r.State = fencing.IsOn
	}
	return r
}

func (w *world) workload(s *setup) *fencing.Workload {
	n := &fencing.Workload{}
	if w.bound {
		n.Pods++
		if s.tolerates {
			n.Tolerant++
		}
	}
	return n
}

// change carries out a step that changes something. Changes of the node require that it is as it was read.
func (w *world) change(k fencing.StepKind) {
	switch k { //nolint:exhaustive // the others change the node
	case fencing.CommandOff:
		w.host.turnsOff, w.other.off = w.host.on && !w.other.powered, true
		if w.hasty {
			w.hastes = w.now
		}
		w.manager.power = w.manager.power.CommandedOff(at(w.now))
		return
	case fencing.CommandOn:
		w.host.turnsOff, w.other.off = false, false
		if !w.other.powered {
			*w = turn(*w, true)
		}
		w.manager.power = w.manager.power.CommandedOn(at(w.now))
		return
	case fencing.LeaveHost:
		w.manager.power.Left = true
		return
	case fencing.RemoveMachine:
		w.machine.deleting, w.manager.changeFailed = true, time.Time{}
		return
	}
	if !w.node.exists || w.node.revision != w.manager.revision {
		return
	}
	w.node.revision++
	w.manager.changeFailed = time.Time{}
	switch k { //nolint:exhaustive // the others don't change the node
	case fencing.TaintNode:
		w.node.tainted, w.node.changed = true, true
	case fencing.SetOutOfService:
		w.node.outOfService = true
		w.checkRelease()
	case fencing.RemoveNode:
		w.checkDeletion()
		w.node = node{uid: w.node.uid}
		w.checkRelease()
	case fencing.RemoveOutOfService:
		w.node.outOfService = false
		w.checkEnd()
	case fencing.RestoreNode:
		w.node.changed = false
	case fencing.UntaintNode:
		w.node.tainted = false
	}
}

// checkEnd complains of a release that ends without a record of that. The next observation would release the node again.
func (w *world) checkEnd() {
	m := &w.manager
	if m.record.Phase == fencing.Releasing && m.facts.Workload != nil && *m.facts.Workload == (fencing.Workload{}) {
		w.broken = "the end of a release is not recorded"
	}
}

// checkDeletion complains of a deletion of the node under a kubelet that runs: a kubelet registers its node once in its life.
func (w *world) checkDeletion() {
	if !w.other.powered && w.host.on && w.node.boot == w.host.boot {
		w.broken = "the node of a kubelet that runs was deleted, and is not registered again"
	}
}

// checkRelease complains of a release that relies on a reading from before the observation.
func (w *world) checkRelease() {
	if k := w.manager.record.Proof.Kind; !w.other.powered && (k == fencing.PowerOff || k == fencing.OffAndExpired) && w.host.lastOff < w.manager.begun-1 {
		w.broken = "I13: the host was on all the time since the observation began that released its node"
	}
}

// complaint returns which promise a world breaks, or nothing.
func (w *world) complaint(s *setup) string {
	ended := w.manager.finished || w.manager.record.Phase == fencing.Succeeded && !s.config.Off
	switch {
	case w.broken != "":
		return w.broken
	case ended && !w.manager.gaveUp && w.node.exists && (w.node.tainted || w.node.outOfService || w.node.changed):
		return fmt.Sprintf("the fencing has ended, and leaves %+v", w.node)
	case w.leavesOff(s):
		return "the fencing has ended, and its host is off"
	case w.elsewhere && w.host.on && w.host.pod:
		return "I13: the pod runs twice"
	case w.node.exists && w.node.outOfService && w.host.on && w.host.pod:
		return "I13: volumes are detached from a pod that runs"
	case !w.node.exists && w.host.on && w.host.pod:
		return "I13: the node of a pod that runs was deleted"
	}
	return ""
}

// leavesOff reports whether a fencing has ended well, or was taken back through a BMC that answers, and its host is off. A person may have
// turned it off.
func (w *world) leavesOff(s *setup) bool {
	if s.config.Off || w.host.on || w.host.byHand || w.manager.record.Reason == fencing.MachineGone {
		return false
	}
	takenBack := w.manager.record.Phase == fencing.Aborted && s.budget.fails == 0 && !w.machine.deleting
	return w.manager.record.Phase == fencing.Succeeded || takenBack
}

// key is what decides about what follows. Times count by how long ago they are, as far as a limit depends on that, or by their order.
type key struct {
	host struct {
		on, pod, turnsOff, before, cut, byHand bool
		boot                                   int
	}
	node                             node
	bound, terminating, elsewhere    bool
	deleting, finished, current      bool
	budget                           budget
	record                           fencing.Record
	since, last, first, recorded     int
	commandedOff, commandedOn        bool
	state                            fencing.PowerState
	node2                            fencing.Node
	read, counted, stale, beforeLast bool
	retry, lastOff, observing        bool
	machine                          machine
	machine2                         fencing.Machine
	machineRead                      bool
	changeFailed                     int
	late, arrives, lateDeletion      bool
	hastes                           int
	other                            other
	left                             bool
	workload                         fencing.Workload
	promise                          promiseKey
}

func (w *world) key() key {
	const old = 7 // ticks, more than any limit
	age := func(t time.Time) int {
		if t.IsZero() {
			return -1
		}
		return min(w.now-int(t.Sub(start)/tick), old)
	}
	m := &w.manager
	k := key{
		node: w.node, bound: w.bound, terminating: w.terminating, elsewhere: w.elsewhere, deleting: w.deleting, finished: m.finished,
		current: m.revision == w.node.revision, budget: w.budget, record: m.record, since: max(age(m.since.Record(m.record).Since), -1),
		commandedOff: !m.power.Off.IsZero(), commandedOn: !m.power.On.IsZero(), state: m.power.Last.State,
	}
	k.host.on, k.host.pod, k.host.turnsOff, k.host.before, k.host.cut, k.host.byHand, k.host.boot = w.host.on, w.host.pod, w.host.turnsOff, w.host.before, w.host.cut, w.host.byHand, w.host.boot
	k.node.revision = 0
	if s := m.record.Since; m.record.Phase != "" && (m.since == fencing.PhaseStart{} || w.clock != 0 || w.budget.steps > 0) {
		k.recorded = max(age(s.Add(-time.Duration(w.clock)*tick)), -1)
	}
	k.record.Since, k.record.Proof.At, k.record.Times, k.record.Void = time.Time{}, time.Time{}, fencing.Times{}, min(k.record.Void, 3)
	k.last, k.first = min(age(m.power.Last.Begun), 1), -1
	if m.power.FirstOff.State == fencing.IsOff {
		k.first = min(age(m.power.FirstOff.Begun), 2)
		k.last += 10 * min(int(m.power.Last.Begun.Sub(m.power.FirstOff.Begun)/tick), 2)
	}
	k.machine, k.left, k.changeFailed = w.machine, m.power.Left, age(m.changeFailed)
	k.promise, k.other, k.hastes = w.promiseKey(), w.other, max(w.hastes+1-w.now, -1)
	k.lateDeletion = w.lateDeletion
	k.late, k.arrives = w.late != [2]int{}, w.late == [2]int{w.node.uid, w.node.revision}
	k.retry, k.observing = at(w.now).Before(m.power.RetryAt), m.observing
	if m.observing {
		k.lastOff = w.host.lastOff >= m.begun-1
	} else {
		k.lastOff = w.host.lastOff >= w.now-1
	}
	k.stale = m.observing && m.power.Last.Begun.Before(at(m.begun))
	if n := m.facts.Node; n != nil {
		k.node2, k.read, k.beforeLast = *n, true, n.ReadAt.Before(m.power.Last.Ended)
		k.node2.ReadAt = time.Time{}
	}
	if l := m.facts.Machine; l != nil {
		k.machine2, k.machineRead = *l, true
	}
	if l := m.facts.Workload; l != nil {
		k.workload, k.counted = *l, true
	}
	return k
}

// String says where a world stands.
func (k key) String() string {
	return fmt.Sprintf("host %+v node %+v bound=%t terminating=%t elsewhere=%t %s attempt=%d proof=%s released=%t poweredOff=%t %s since=%d",
		k.host, k.node, k.bound, k.terminating, k.elsewhere, k.record.Phase, k.record.Attempt, k.record.Proof.Kind, k.record.Released, k.record.PoweredOff, k.record.Reason, k.since)
}

// settled is how many states apart those are from which a walk shows that a fencing ends.
const settled = 499

// rests has the manager take its steps, and reports whether it comes to wait without a change by others.
func (w *world) rests(s *setup) bool {
	for range 100 {
		w.observe()
		kind := w.next(s).Kind
		*w, _ = managerSteps(s, *w)
		if w.manager.finished || kind == fencing.Wait || kind == fencing.Finish {
			return true
		}
	}
	return false
}

// settle shows that a fencing ends from here, once nothing but what must happen happens any more.
func settle(t *testing.T, s *setup, w world) {
	t.Helper()
	from := w.key()
	w.budget = budget{}
	for range 100 {
		if !w.rests(s) {
			t.Errorf("the manager never waits\nfrom %s\nit stands at %s", from, w.key())
			return
		}
		if m := &w.manager; m.finished || (!w.deleting && m.record.Phase.Final()) {
			return
		}
		for _, e := range s.allEvents()[1:] {
			if next, ok := e.do(s, w); ok {
				w = next
			}
		}
		if c := w.complaint(s); c != "" {
			t.Errorf("%s\nfrom %s", c, from)
			return
		}
	}
	t.Errorf("the fencing does not end from %s\nit stands at %s", from, w.key())
}

// visit is how a state was reached first. The first state has no event.
type visit struct {
	from  uint64
	event event
}

// walk visits all states of a world, the nearest first, and returns the story of the first complaint. It stores states as hashes of their
// keys, since the keys of the big worlds would take gigabytes.
func walk(t *testing.T, s *setup, most int) (story []string, states int) {
	t.Helper()
	type state struct {
		world world
		hash  uint64
	}
	seed := maphash.MakeSeed()
	first := newWorld(s)
	hash := maphash.Comparable(seed, first.key())
	seen := map[uint64]visit{hash: {}}
	happens := s.allEvents()
	for level := []state{{first, hash}}; len(level) > 0; {
		following := make([]state, 0, len(level))
		for i := range level {
			w, at := &level[i].world, level[i].hash
			for _, e := range happens {
				next, ok := e.do(s, *w)
				if !ok {
					continue
				}
				if c := next.complaint(s); c != "" {
					return append(storyTo(s, seen, at), e.name, c), len(seen)
				}
				reached := maphash.Comparable(seed, next.key())
				if _, known := seen[reached]; known {
					continue
				}
				if seen[reached] = (visit{at, e}); len(seen) > most {
					t.Errorf("the world has more than %d states", most)
					return nil, len(seen)
				}
				if s.settles && len(seen)%settled == 0 {
					settle(t, s, next)
				}
				following = append(following, state{next, reached})
			}
		}
		level = following
	}
	return nil, len(seen)
}

// storyTo returns the events that lead to a state, each with where the world stands before it.
func storyTo(s *setup, seen map[uint64]visit, at uint64) []string {
	var events []event
	for v := seen[at]; v.event.do != nil; v = seen[v.from] {
		events = append(events, v.event)
	}
	slices.Reverse(events)
	var story []string
	w := newWorld(s)
	for _, e := range events {
		story = append(story, e.name+"   "+w.key().String())
		w, _ = e.do(s, w)
	}
	return story
}

func config(change ...func(*fencing.Config)) fencing.Config {
	c := fencing.Config{Limits: fencing.Limits{PowerOff: 6 * tick, Release: 4 * tick, PowerOn: 3 * tick, Boot: 3 * tick, Fence: 6 * tick, MachineDeletion: 6 * tick}}
	for _, f := range change {
		f(&c)
	}
	return c
}

func off(c *fencing.Config)        { c.Off = true }
func deleteNode(c *fencing.Config) { c.DeleteNode = true }
func retry(c *fencing.Config)      { c.Retries = 1 }
func byPromise(c *fencing.Config)  { c.ByPromise = true }

// TestSmallWorlds (I12, I13): nothing is released without a proof, and nothing stays behind, whatever happens in whatever order.
func TestSmallWorlds(t *testing.T) {
	worlds := map[string]struct {
		config fencing.Config
		budget budget
		long   bool
	}{
		"a person and a crash":       {config(), budget{flips: 1, crashes: 1, heals: 1}, false},
		"deleted in between":         {config(), budget{crashes: 1, deletions: 1, heals: 1}, false},
		"a BMC that does not answer": {config(), budget{fails: 2, deletions: 1}, false},
		"all of it":                  {config(), budget{flips: 1, crashes: 1, deletions: 1, heals: 1}, true},
		"two persons":                {config(), budget{flips: 2, heals: 1}, true},
		"off":                        {config(off), budget{flips: 1, crashes: 1, deletions: 1}, false},
		"by deletion of the node":    {config(deleteNode), budget{flips: 1, crashes: 1, heals: 1}, false},
		"by deletion, deleted":       {config(deleteNode), budget{crashes: 1, deletions: 1, heals: 1}, false},
		"by deletion, and a node that stays sick": {config(deleteNode), budget{flips: 2, sick: 1}, false},
		"booted before it began":                  {config(), budget{flips: 2, cuts: 1}, false},
		"a second attempt":                        {config(retry), budget{flips: 1, heals: 1}, true},
		"a node that stays sick":                  {config(retry), budget{sick: 2}, false},
		"sick after a crash":                      {config(retry), budget{sick: 1, heals: 1, crashes: 1}, true},
		"a taint that is refused":                 {config(), budget{refusals: 2}, false},
		"by deletion of the machine":              {config(deleteMachine), budget{heals: 1, refusals: 1}, false},
		"the same, deleted":                       {config(deleteMachine), budget{deletions: 1}, false},
		"the same, by a BMC that does not answer": {config(deleteMachine), budget{fails: 1, deletions: 1}, false},
		"a machine, and a person":                 {config(deleteMachine, retry), budget{flips: 1, heals: 1}, true},
		"a tolerant pod":                          {config(), budget{flips: 2, sick: 1}, false},
		"a tolerant pod, cut off":                 {config(), budget{flips: 2, cuts: 1}, true},
		"a tolerant pod, off":                     {config(off), budget{flips: 1, crashes: 1}, false},
		"a tolerant pod, no boot":                 {config(), budget{crashes: 1, heals: 1}, false},
		"a taint that is removed":                 {config(), budget{untaints: 1, flips: 1, cuts: 1}, false},
		"the same, off":                           {config(off), budget{untaints: 1, flips: 1, cuts: 1}, true},
		"a hasty BMC":                             {config(), budget{crashes: 1, deletions: 1}, false},
		"a hasty BMC, and a person":               {config(), budget{flips: 1, heals: 1}, false},
		"a release that is late":                  {config(), budget{lates: 1, flips: 2}, false},
		"a deletion that is late":                 {config(deleteNode), budget{lates: 1, flips: 2}, true},
		"late, and another attempt":               {config(retry), budget{lates: 1, flips: 1}, true},
		"a clock that is put":                     {config(), budget{crashes: 1, steps: 1}, false},
		"the clock, and deleted":                  {config(), budget{crashes: 1, deletions: 1, steps: 1}, true},
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			if w.long && testing.Short() {
				t.Skip("a big world")
			}
			t.Parallel()
			s := &setup{config: w.config, budget: w.budget, next: fencing.Next, settles: true, tolerates: strings.HasPrefix(name, "a tolerant pod"), hasty: strings.HasPrefix(name, "a hasty BMC")}
			story, states := walk(t, s, 6_000_000)
			if len(story) > 0 {
				t.Error(strings.Join(story, "\n"))
			}
			t.Logf("%d states", states)
		})
	}
}

// TestPlantedFaults: the small worlds find rules that are left out.
func TestPlantedFaults(t *testing.T) {
	type next = func(fencing.Config, fencing.Record, fencing.Facts) fencing.Step
	// seeing changes the facts that the rules see.
	seeing := func(change func(fencing.Config, fencing.Record, *fencing.Facts)) next {
		return func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
			if f.Node != nil {
				n := *f.Node
				f.Node = &n
			}
			change(c, r, &f)
			return fencing.Next(c, r, f)
		}
	}
	offNow := func(f *fencing.Facts) {
		reading := fencing.Reading{Begun: f.Now, Ended: f.Now, State: fencing.IsOff}
		f.Power.Off, f.Power.Last, f.Power.FirstOff = f.Now.Add(-time.Minute), reading, reading
		f.Power.FirstOff.Begun = f.Now.Add(-time.Minute / 2)
	}
	faults := map[string]struct {
		next   next
		config fencing.Config
		budget budget
		want   string
	}{
		"an acknowledged command is a proof": {seeing(func(_ fencing.Config, _ fencing.Record, f *fencing.Facts) {
			if !f.Power.Off.IsZero() {
				offNow(f)
			}
		}), config(), budget{}, "I13"},
		"NotReady is a proof": {seeing(func(_ fencing.Config, _ fencing.Record, f *fencing.Facts) {
			if f.Node != nil && !f.Node.Ready {
				offNow(f)
			}
		}), config(), budget{}, "I13"},
		"a BMC that does not answer is a proof": {seeing(func(_ fencing.Config, _ fencing.Record, f *fencing.Facts) {
			if f.Now.Before(f.Power.RetryAt) {
				f.Power.RetryAt = time.Time{}
				offNow(f)
			}
		}), config(), budget{fails: 1}, "I13"},
		"a stale off: the power is not read again before the release": {seeing(func(_ fencing.Config, _ fencing.Record, f *fencing.Facts) {
			f.Begun = time.Time{}
		}), config(), budget{flips: 1}, "I13"},
		"the same, where the node is deleted": {seeing(func(_ fencing.Config, _ fencing.Record, f *fencing.Facts) {
			f.Begun = time.Time{}
		}), config(deleteNode), budget{flips: 1}, "I13"},
		"the node is not tainted": {seeing(func(_ fencing.Config, r fencing.Record, f *fencing.Facts) {
			if f.Node != nil && r.Phase != fencing.Restoring && r.Phase != fencing.Aborting {
				f.Node.Tainted = true
			}
		}), config(), budget{flips: 1, cuts: 1}, "I13"},
		"the taint stays while the node is Ready": {seeing(func(_ fencing.Config, r fencing.Record, f *fencing.Facts) {
			if f.Node != nil && r.Phase == fencing.Releasing {
				f.Node.Ready = false
			}
		}), config(), budget{flips: 1}, "I12"},
		"the release is not recorded": {func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
			s := fencing.Next(c, r, f)
			if s.Kind == fencing.Write && s.Record.Phase == fencing.Releasing && s.Record.Released {
				return fencing.Step{Kind: fencing.SetOutOfService}
			}
			return s
		}, config(), budget{flips: 1, crashes: 1}, "I12"},
		"an earlier release is forgotten": {func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
			r.ReleasedBefore = false
			return fencing.Next(c, r, f)
		}, config(), budget{lates: 1, flips: 2}, "I12"},
		"the end of the release is not recorded": {func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
			s := fencing.Next(c, r, f)
			if s.Kind == fencing.Write && s.Record.Phase == fencing.PoweringOn && f.Node.OutOfService {
				return fencing.Step{Kind: fencing.RemoveOutOfService}
			}
			return s
		}, config(), budget{}, "the end of a release"},
		"the power-off is not recorded": {func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
			if r.Phase == fencing.Preparing && !f.Deleting {
				r.PoweredOff = true
			}
			s := fencing.Next(c, r, f)
			if s.Kind == fencing.Write && s.Record.Phase == fencing.Preparing {
				s.Record.PoweredOff = false
			}
			return s
		}, config(), budget{crashes: 1, deletions: 1}, "the fencing has ended, and its host is off"},
		"a boot before the taint is a proof": {seeing(func(_ fencing.Config, r fencing.Record, f *fencing.Facts) {
			if f.Node != nil && r.Phase == fencing.Preparing && !f.Node.Tainted {
				f.Node.BootID = r.BootID
			}
		}), config(), budget{flips: 2, cuts: 1}, "I13"},
		"a boot without the taint is a proof": {seeing(func(_ fencing.Config, r fencing.Record, f *fencing.Facts) {
			if f.Node != nil && (r.Phase == fencing.PoweringOff || r.Phase == fencing.Releasing) && f.Node.BootID != r.BootID {
				f.Node.Tainted = true
			}
		}), config(), budget{untaints: 1, flips: 1, cuts: 1}, "I13"},
		"a recorded deletion of the machine is one": {seeing(func(_ fencing.Config, r fencing.Record, f *fencing.Facts) {
			if f.Machine != nil && r.Phase == fencing.Aborting {
				f.Machine = &fencing.Machine{}
			}
		}), config(deleteMachine), budget{deletions: 1}, "the fencing has ended, and its host is off"},
		"the node is not changed back": {seeing(func(_ fencing.Config, _ fencing.Record, f *fencing.Facts) {
			if f.Node != nil {
				f.Node.Changed = false
			}
		}), config(), budget{deletions: 1}, "the fencing has ended"},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &setup{config: f.config, budget: f.budget, next: f.next}
			story, states := walk(t, s, 2_000_000)
			if len(story) == 0 || !strings.HasPrefix(story[len(story)-1], f.want) {
				t.Errorf("in %d states the story was %q, want the complaint %q", states, story, f.want)
			}
			if testing.Verbose() && len(story) > 0 {
				t.Logf("%d states, %d events: %s", states, len(story), story[len(story)-1])
			}
		})
	}
}

// TestPlantedHaste: the small worlds find that one reading suffices, where a BMC says Off as soon as it is told.
func TestPlantedHaste(t *testing.T) {
	once := func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
		if p := &f.Power; p.FirstOff.State == fencing.IsOff && p.Last.State == fencing.IsOff {
			p.Off, p.FirstOff.Begun = p.Off.Add(-time.Minute), p.FirstOff.Begun.Add(-time.Minute/2)
		}
		return fencing.Next(c, r, f)
	}
	story, states := walk(t, &setup{config: config(), hasty: true, next: once}, 2_000_000)
	if len(story) == 0 || !strings.HasPrefix(story[len(story)-1], "I13") {
		t.Errorf("in %d states the story was %q", states, story)
	}
}

// TestPlantedReadings: the small worlds find that what was read before a node was recorded counts.
func TestPlantedReadings(t *testing.T) {
	s := &setup{config: config(), budget: budget{untaints: 1, flips: 1, cuts: 1}, next: fencing.Next, keepsReadings: true}
	if story, states := walk(t, s, 2_000_000); len(story) == 0 || !strings.HasPrefix(story[len(story)-1], "I13") {
		t.Errorf("in %d states the story was %q", states, story)
	}
}
