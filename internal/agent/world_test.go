package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

const (
	boot     = "0f8fad5b-d9cb-469f-a165-70867728950e"
	identity = "stand-in"
	timeout  = 10 * time.Second
	renewal  = 5 * time.Second
)

func settings() agent.Settings {
	return agent.Settings{
		Watchdog: agent.Watchdog{Device: "/dev/watchdog", Timeout: timeout}, Renewal: renewal, Validity: 20 * time.Second,
	}
}

// promised is the promise of settings.
func promised() selffence.Promise {
	return selffence.Promise{Boot: boot, Times: selffence.Times{Watchdog: timeout}}
}

// world is one node with its watchdog and its files, the API server, and the processes of agents that ran one after the other. It checks the
// obligations of an agent at each call.
type world struct {
	t       *testing.T
	began   time.Time
	instant instant

	mu sync.Mutex
	// lease is the Lease in the API server, and device what it says of the watchdog.
	lease  selffence.Lease
	device string
	// writes counts the writes of the Lease that were carried out, and requests all requests.
	writes, requests int
	// answer is how the API server answers. The zero value answers well.
	answer answer
	// last is what was to be written last, and timed is set if an earlier process has made a timed promise.
	last  selffence.Lease
	timed bool
	// contested is set while another client writes the Lease again and again.
	contested bool
	// late is a write that has yet to arrive.
	late func()
	// policy are the settings of the policy that selects the node, or nil. Unread makes reading it fail.
	policy *agent.Settings
	unread error
	// stored is the file of the state, and broken makes writing it fail.
	stored []byte
	broken error
	// armed is set while the watchdog runs, and fires is when it resets the node.
	armed bool
	fires time.Duration
	// opens is the error of opening the watchdog, and timeout its timeout if that differs from the settings.
	opens   error
	unfit   bool
	tooLate bool // the agent may not pet any more when it opens the watchdog
	timeout time.Duration
	stuck   error // the error of disarming it
	stops   bool  // it stops all the same
	sysrq   error // the error of a reset at once, nil if that works
	// reset is how the node was reset, if it was.
	reset    string
	at       time.Duration
	resets   int
	pets     int
	disarms  int
	saves    int
	petsFail error

	// explainer is nil in a world whose agents state no reasons.
	explainer agent.Explainer

	// calls counts the calls of all processes, and crash is the call at which the process dies.
	calls, crash int
	crashed      string
	process      *process
	all          []*process
	notes        []agent.Reason
}

func clock() time.Time { return time.Now() } //nolint:forbidigo // time in a bubble is injected

// answer is how the API server answers.
type answer int

const (
	well answer = iota
	requestLost
	answerLost
	requestLate
	fails
)

var (
	errDead = errors.New("this process is dead")
	errAway = errors.New("the API server is away")
)

// play runs a story in a world where time passes at once.
func play(t *testing.T, story func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := settings()
		w := &world{t: t, began: clock(), policy: &p}
		story(w)
		for _, p := range w.all {
			w.set(p.die)
			p.end()
			awaits(p.ended)
		}
	})
}

// awaits waits for the end of an agent. Its timers go on, so that a bubble with an agent that does not end would have no deadlock.
func awaits[T any](ended <-chan T) T {
	select {
	case result := <-ended:
		return result
	case <-time.After(time.Hour):
		panic("the agent does not end")
	}
}

func (w *world) now() time.Duration { return w.instant.read(clock().Sub(w.began) + time.Minute) }

// instant is when the clock was read last, and how often then. Time does not pass in a bubble while an agent goes on without a pause.
type instant struct{ at, reads atomic.Int64 }

func (i *instant) read(now time.Duration) time.Duration {
	if i.at.Swap(int64(now)) != int64(now) {
		i.reads.Store(0)
	}
	if i.reads.Add(1) > 100_000 {
		panic("an agent does not pause")
	}
	return now
}

// process is one process of the agent.
type process struct {
	*world

	dead bool
	// open is set while it has the watchdog open. Knows is set once it was told that the node is condemned.
	open, knows bool
	// heard is when it was told that.
	heard time.Duration
	// read is set once it was told what the Lease says.
	read  bool
	lost  bool
	end   context.CancelFunc
	ended chan error
}

// start starts a process of the agent.
func (w *world) start() *process {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	p := &process{world: w, end: cancel, ended: make(chan error, 1)}
	w.mu.Lock()
	w.process, w.all = p, append(w.all, p)
	w.mu.Unlock()
	go func() {
		p.ended <- agent.Run(ctx, agent.Config{
			Boot: boot, Hardware: p, Grantor: p, Policies: p, Store: p, Explainer: w.explainer, Boottime: w.now, Tell: p.tell, StopWithin: 20 * time.Second,
		})
	}()
	synctest.Wait()
	return p
}

// kill ends the process at once. The kernel then closes the watchdog, which pets it. Nothing of the process runs any more when kill returns.
func (w *world) kill() {
	w.set(w.process.die)
	w.process.end()
	synctest.Wait()
}

func (p *process) die() {
	if !p.dead && p.open && p.armed {
		p.fires = p.now() + p.watchdogTimeout()
	}
	p.dead = true
}

// pass has time pass.
func (w *world) pass(d time.Duration) {
	w.set(func() {}) // what the test has read comes before what is written
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
}

// tick has the watchdog fire if its time is over.
func (w *world) tick() {
	if w.armed && w.now() >= w.fires && w.reset == "" {
		w.reset, w.at = "watchdog", w.fires
		w.process.dead = true
	}
}

func (w *world) watchdogTimeout() time.Duration {
	if w.timeout != 0 {
		return w.timeout
	}
	return timeout
}

// begins notes a call of a process, and returns an error if the process is dead, or dies now.
func (p *process) begins(call string) error {
	p.tick()
	p.calls++
	if p.calls == p.crash && !p.dead {
		p.crashed = fmt.Sprintf("%d, %s", p.calls, call)
		p.die()
	}
	if p.dead {
		return errDead
	}
	return nil
}

func (p *process) tell(n agent.Note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		p.notes = append(p.notes, n.Reason)
	}
}

// Load implements agent.Store.
func (p *process) Load(b string) (agent.State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stored == nil {
		return agent.State{Boot: b}, nil
	}
	s, err := agent.Decode(p.stored)
	p.lost = err != nil
	return s, err
}

// Save implements agent.Store.
func (p *process) Save(s agent.State) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begins("before storing"); err != nil {
		return err
	}
	p.saves++
	if p.broken != nil {
		return p.broken
	}
	text, err := agent.Encode(s)
	if err != nil {
		p.t.Errorf("the agent stores a state that can't be read: %v", err)
	}
	p.stored = text
	return p.begins("after storing")
}

// remembers returns what is stored.
func (w *world) remembers() agent.State {
	if w.stored == nil {
		return agent.State{}
	}
	s, err := agent.Decode(w.stored)
	if err != nil {
		return agent.State{}
	}
	return s
}

// Find implements agent.Policies.
func (p *process) Find(ctx context.Context) (agent.Settings, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d, is := ctx.Deadline(); !is || d.Sub(clock()) != 10*time.Second {
		p.t.Errorf("reading the policies may take until %s", d)
	}
	switch {
	case p.dead:
		return agent.Settings{}, false, errDead
	case p.unread != nil:
		return agent.Settings{}, false, p.unread
	case p.policy == nil:
		return agent.Settings{Renewal: time.Second}, false, nil
	}
	return *p.policy, true, nil
}

// Read implements agent.Grantor.
func (p *process) Read(ctx context.Context) (selffence.Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begins("before reading the Lease"); err != nil {
		return selffence.Lease{}, err
	}
	if err := p.send(ctx, func() {}); err != nil {
		return selffence.Lease{}, err
	}
	if err := p.begins("after reading the Lease"); err != nil {
		return selffence.Lease{}, err
	}
	p.read = true
	if !p.knows && p.lease.State == selffence.Condemned && p.lease.Promise.Boot == boot {
		p.knows, p.heard = true, p.now()
	}
	return p.lease, nil
}

// send sends a request to the API server as it answers now. The mutex is unlocked while the request waits.
func (p *process) send(ctx context.Context, do func()) error {
	p.requests++
	if d, is := ctx.Deadline(); !is || d.Sub(clock()) > max(p.remembers().Settings.Renewal, renewal)/2 {
		p.t.Error("a request may take as long as a renewal")
	}
	switch p.answer {
	case well:
		do()
		return nil
	case fails:
		return errAway
	case answerLost:
		do()
	case requestLate:
		p.late = do
	case requestLost:
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	return ctx.Err()
}

// Write implements agent.Grantor.
func (p *process) Write(ctx context.Context, r promiselease.Record) (uint64, error) {
	l, device := r.Lease, r.Device
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begins("before writing the Lease"); err != nil {
		return 0, err
	}
	p.checkWrite(l)
	var revision uint64
	if err := p.send(ctx, func() { revision = p.arrives(l, device) }); err != nil {
		return 0, err
	}
	return revision, p.begins("after writing the Lease")
}

// checkWrite checks what an agent writes.
func (p *process) checkWrite(l selffence.Lease) {
	m := p.remembers().Agent
	switch {
	case !p.read:
		p.t.Error("the agent writes the Lease before it has read it")
	case l.Revision == 0 && (l.State == selffence.Withdrawn || !p.remembers().Creates):
		p.t.Errorf("the agent creates %+v, and remembers %+v", l, p.remembers())
	case !m.Bound || m.Sent != l.Promise:
		p.t.Errorf("the agent writes %+v, and remembers %+v", l, m)
	case l.State == selffence.Promised && !p.armed && !p.timed:
		p.t.Error("the agent promises a watchdog that is not armed")
	case l.State == selffence.Promised && !p.open && !p.timed:
		p.t.Error("the agent promises a watchdog that is not open")
	case l.State == selffence.Promised && l.Promise.Timed && !p.timed:
		p.t.Error("the agent makes a timed promise")
	}
	p.last = l
}

// arrives has the API server write the Lease. It returns zero if that conflicts.
func (w *world) arrives(l selffence.Lease, device string) uint64 {
	if w.contested {
		w.lease.Revision++
	}
	if l.Revision != w.lease.Revision {
		return 0
	}
	w.writes++
	w.lease, w.device = l, device
	w.lease.Revision++
	return w.lease.Revision
}

// condemn has a manager condemn the node.
func (w *world) condemn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease.State != selffence.Promised {
		w.t.Errorf("there is no promise to revoke: %+v", w.lease)
	}
	w.lease.State, w.lease.By = selffence.Condemned, "uid"
	w.lease.Revision++
}

// Open implements agent.Hardware.
func (p *process) Open(demanded agent.Watchdog, mayPet func() bool) (agent.Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begins("before opening the watchdog"); err != nil {
		return nil, err
	}
	if demanded.Device == "" || demanded.Timeout == 0 {
		p.t.Errorf("the agent opens %+v", demanded)
	}
	if p.open {
		p.t.Error("the agent opens the watchdog again")
	}
	if p.opens != nil && !p.unfit {
		return nil, p.opens
	}
	if !mayPet() || p.tooLate {
		return nil, &agent.UnavailableError{Reason: agent.MayNotPet, Err: errAway}
	}
	p.checkPet()
	p.open, p.armed, p.fires = true, true, p.now()+p.watchdogTimeout()
	if err := p.begins("after opening the watchdog"); err != nil {
		return nil, err
	}
	return stand{p}, p.opens
}

// checkPet checks that the agent may pet the watchdog, by what is stored and what the process was told.
func (p *process) checkPet() {
	s := p.remembers()
	knows := selffence.NewAgent(selffence.Promise{Boot: boot}, renewal, s.Agent)
	if p.read && !s.Agent.Bound {
		knows = knows.Read(selffence.Lease{})
	}
	switch {
	case p.knows && p.now() > p.heard || s.Condemned:
		p.t.Errorf("the agent pets although it knows that it is condemned, after a crash at %s", p.crashed)
	case !knows.MayPet(p.now()):
		p.t.Errorf("at %s the agent pets by %+v", p.now(), s.Agent)
	case p.lost && !p.read:
		p.t.Error("the agent pets without knowing what it has promised")
	}
}

// Reset implements agent.Hardware.
func (p *process) Reset() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begins("before resetting"); err != nil {
		return err
	}
	if !p.knows && !p.remembers().Condemned && !p.remembers().Agent.Overdue(p.now()) {
		p.t.Error("the agent resets a node that is not condemned")
	}
	p.resets++
	if p.sysrq == nil {
		p.reset, p.at, p.dead = "sysrq", p.now(), true
	}
	return p.sysrq
}

// stand is a stand-in for the watchdog.
type stand struct{ p *process }

func (s stand) State() (time.Duration, string) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.watchdogTimeout(), identity
}

func (s stand) Pet() error {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begins("before a pet"); err != nil {
		return err
	}
	if !p.open {
		p.t.Error("the agent pets a watchdog that it has not opened")
	}
	p.checkPet()
	p.pets++
	p.fires = p.now() + p.watchdogTimeout()
	if p.petsFail != nil {
		return p.petsFail
	}
	return p.begins("after a pet")
}

func (s stand) Disarm() error {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begins("before disarming"); err != nil {
		return err
	}
	p.disarms++
	if stands := p.lease.Promise.Boot == boot && p.lease.State != selffence.Withdrawn; stands || p.late != nil && !p.stale() {
		p.t.Errorf("the watchdog is disarmed while the Lease is %+v, after a crash at %s", p.lease, p.crashed)
	}
	if p.stuck != nil {
		p.armed = p.armed && !p.stops
		return p.stuck
	}
	p.armed, p.open = false, false
	return p.begins("after disarming")
}

// stale reports whether a late write can't be carried out any more.
func (w *world) stale() bool {
	lease, device, writes := w.lease, w.device, w.writes
	w.late()
	defer func() { w.lease, w.device, w.writes = lease, device, writes }()
	return w.writes == writes
}

// says requires that the Lease is in a state.
func (w *world) says(want selffence.State) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease.State != want {
		w.t.Errorf("the Lease is %q, want %q; calls %d, crash at %s; told %q", w.lease.State, want, w.calls, w.crashed, w.notes)
	}
}

// runs requires that the node has not been reset.
func (w *world) runs() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	if w.reset != "" {
		w.t.Errorf("the node was reset by the %s; crash at %s; told %q", w.reset, w.crashed, w.notes)
	}
}

// told requires that people were told a reason last.
func (w *world) told(want agent.Reason) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	notes := slices.DeleteFunc(slices.Clone(w.notes), func(r agent.Reason) bool { return r == agent.NoPolicies })
	if len(notes) == 0 || notes[len(notes)-1] != want {
		w.t.Errorf("people were told %q, and not %s last", w.notes, want)
	}
}

// set changes the world.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// stop has the process withdraw its promise, and returns its error.
func (w *world) stop() error {
	w.set(w.process.end)
	err := awaits(w.process.ended)
	w.process.ended <- err
	return err
}

// stored returns the text of a state in which a promise stands, with one change.
func stored(change func(*agent.State)) []byte {
	s := agent.State{Boot: boot, Settings: settings(), Agent: selffence.AgentState{Bound: true, Granted: time.Minute, Stated: promised(), Sent: promised()}}
	if change != nil {
		change(&s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return append(bytes.TrimSpace(text), '\n')
}
