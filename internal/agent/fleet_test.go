package agent_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
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

// fleet is several nodes whose agents are witnesses of each other, and their API server.
type fleet struct {
	t       *testing.T
	began   time.Time
	instant instant

	mu       sync.Mutex
	away     bool
	revision uint64
	leases   map[string]promiselease.Record
	// heard is closed at each change.
	heard     chan struct{}
	nodes     map[string]*fleetNode
	questions int
	// demands is how many witnesses the policy demands.
	demands int
	// half is set while a write that changes a promise gets no answer. It is not carried out if lost is set; else the API server is away from then on.
	half, lost bool
	// hangs is set while no write is answered, and each read is. Unanswered reports whether a read or a write of a Lease gets no answer. It may be nil.
	hangs      bool
	unanswered func() bool
	// settings changes the settings of the policy. It may be nil. Slow is set once they have had a longer renewal.
	settings func(*agent.Settings)
	slow     bool
	// more is how many other nodes there are that do nothing, and listed is how often each node has listed all Leases.
	more   int
	listed map[string]int
}

// fleetNode is one node. Its boot ends when its watchdog fires, or the agent resets it.
type fleetNode struct {
	*fleet

	name, boot string
	place      agent.Place
	witness    *agent.Witness
	end        context.CancelFunc
	ended      chan struct{}
	stored     []byte
	// dead is set once the process of the agent was killed. Cut is set while the node reaches nothing, alone while it reaches its peers alone, and
	// walled while no peer reaches it.
	dead, cut, alone, walled bool
	// full is set while nothing can be stored.
	full  bool
	fires time.Duration
	reset time.Duration
	// slept is for how long it was suspended. Its timers stood still meanwhile, and CLOCK_BOOTTIME went on.
	slept atomic.Int64
	notes []agent.Reason
	// conflicts counts its writes that were refused. Unlisted is set while it can't list the Leases.
	conflicts int
	unlisted  bool
}

func fleetSettings() agent.Settings {
	s := settings()
	s.Reset, s.Witnesses = true, 3
	return s
}

// playFleet runs a story with nodes a, b, c and so on.
func playFleet(t *testing.T, size int, story func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, began: clock(), revision: 100, demands: 3, leases: map[string]promiselease.Record{}, heard: make(chan struct{}), nodes: map[string]*fleetNode{}, listed: map[string]int{}}
		for i := range size {
			name := string(rune('a' + i))
			f.nodes[name] = &fleetNode{fleet: f, name: name, boot: fmt.Sprintf("%c%s", "0123456789abcdef"[i], boot[1:])}
		}
		for _, n := range f.nodes {
			n.start()
		}
		story(f)
		for _, n := range f.nodes {
			f.set(func() { n.dead = true })
			n.end()
			awaits(n.ended)
		}
	})
}

func (f *fleet) now() time.Duration { return f.instant.read(clock().Sub(f.began) + time.Minute) }

// now is CLOCK_BOOTTIME of a node.
func (n *fleetNode) now() time.Duration { return n.fleet.now() + time.Duration(n.slept.Load()) }

// wakes has a node wake that was suspended. Most drivers begin the timeout of the watchdog anew then.
func (n *fleetNode) wakes(after time.Duration) {
	n.set(func() {
		n.slept.Add(int64(after))
		n.fires = n.now() + timeout
	})
}

func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// pass has time pass, and the watchdogs fire.
func (f *fleet) pass(d time.Duration) {
	for end := f.now() + d; f.now() < end; {
		<-time.After(time.Second)
		synctest.Wait()
		for _, n := range f.nodes {
			f.set(n.tick)
		}
	}
}

func (n *fleetNode) tick() {
	if n.fires != 0 && n.reset == 0 && n.now() >= n.fires {
		n.reset, n.dead = n.fires, true
	}
}

func (n *fleetNode) start() {
	ctx, cancel := context.WithCancel(n.t.Context())
	n.mu.Lock()
	n.dead, n.witness, n.end, n.ended = false, agent.NewWitness(), cancel, make(chan struct{})
	ended, witness := n.ended, n.witness
	n.mu.Unlock()
	go func() {
		defer close(ended)
		_ = agent.Run(ctx, agent.Config{
			Node: n.name, Others: n, Peers: n, Witness: witness, Boot: n.boot, Hardware: n, Grantor: n, Policies: n, Store: n,
			Boottime: n.now, StopWithin: time.Second,
			Tell: func(note agent.Note) { n.set(func() { n.notes = append(n.notes, note.Reason) }) },
		})
	}()
}

// restarts has the process of the agent end and another begin. The kernel pets the watchdog then.
func (n *fleetNode) restarts() {
	n.set(func() { n.dead, n.fires = true, n.now()+timeout })
	n.end()
	awaits(n.ended)
	n.start()
	synctest.Wait()
}

// answers returns an error while the API server does not answer a node.
func (n *fleetNode) answers() error {
	if n.away || n.cut || n.alone || n.dead {
		return errAway
	}
	return nil
}

// Read implements agent.Grantor.
func (n *fleetNode) Read(ctx context.Context) (selffence.Lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unanswered != nil && n.unanswered() {
		return selffence.Lease{}, n.waits(ctx)
	}
	return n.leases[n.name].Lease, n.answers()
}

// waits returns once a call is over that gets no answer. The caller holds the lock.
func (n *fleetNode) waits(ctx context.Context) error {
	n.mu.Unlock()
	<-ctx.Done()
	n.mu.Lock()
	return ctx.Err()
}

// Write implements agent.Grantor.
func (n *fleetNode) Write(ctx context.Context, r promiselease.Record) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hangs || n.unanswered != nil && n.unanswered() {
		return 0, n.waits(ctx)
	}
	if err := n.answers(); err != nil {
		return 0, err
	}
	if r.Revision != n.leases[n.name].Revision {
		n.conflicts++
		return 0, nil
	}
	if n.half && r.Promise != n.leases[n.name].Promise {
		if !n.lost {
			n.stores(n.name, r)
			n.away = true // so the agent does not read that
		}
		return 0, errAway
	}
	return n.stores(n.name, r), nil
}

// stores has the API server store a Lease.
func (f *fleet) stores(name string, r promiselease.Record) uint64 {
	f.revision++
	r.Revision = f.revision
	f.leases[name] = r
	close(f.heard)
	f.heard = make(chan struct{})
	return f.revision
}

// First implements agent.Others.
func (n *fleetNode) First(_ context.Context, most int) (map[string]promiselease.Record, int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := map[string]promiselease.Record{}
	names := slices.Sorted(maps.Keys(n.leases))
	for _, name := range names[:min(most, len(names))] {
		some[name] = n.leases[name]
	}
	return some, len(names) + n.more, n.answers()
}

// Of implements agent.Others.
func (n *fleetNode) Of(_ context.Context, nodes []string) (map[string]promiselease.Record, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]promiselease.Record{}
	for _, name := range nodes {
		if r, is := n.leases[name]; is {
			all[name] = r
		}
	}
	return all, n.answers()
}

// List implements agent.Others.
func (n *fleetNode) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listed[n.name]++
	if n.unlisted {
		return nil, 0, errAway
	}
	return maps.Clone(n.leases), n.revision, n.answers()
}

// Follow implements agent.Others.
func (n *fleetNode) Follow(ctx context.Context, since uint64, changed func(string, promiselease.Record, uint64)) error {
	for {
		n.mu.Lock()
		err, heard, at := n.answers(), n.heard, n.revision
		var news []promiselease.Record
		for name, r := range n.leases {
			if r.Revision > since {
				r.Device = name
				news = append(news, r)
			}
		}
		n.mu.Unlock()
		if err != nil {
			return err
		}
		slices.SortFunc(news, func(a, b promiselease.Record) int { return int(a.Revision) - int(b.Revision) })
		for _, r := range news {
			changed(r.Device, r, r.Revision)
		}
		since = at
		select {
		case <-heard:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Place implements agent.Others.
func (n *fleetNode) Place(_ context.Context, name string) (agent.Place, error) {
	return n.nodes[name].place, nil
}

// Ask implements agent.Peers.
func (n *fleetNode) Ask(ctx context.Context, name, path string, body []byte) ([]byte, error) {
	if d, is := ctx.Deadline(); !is || d.Sub(clock()) >= renewal && !n.slow || path != agent.WitnessPath {
		n.t.Errorf("a question to %s may take until %s", path, d)
	}
	n.mu.Lock()
	other := n.nodes[name]
	n.questions++
	unheard := n.cut || n.dead || other == nil || other.cut || other.dead || other.walled
	n.mu.Unlock()
	if unheard {
		return nil, errAway
	}
	return other.witness.Answer(ctx, n.name, body)
}

// Find implements agent.Policies.
func (n *fleetNode) Find(context.Context) (agent.Settings, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := fleetSettings()
	s.Witnesses = n.demands
	if n.settings != nil {
		n.settings(&s)
	}
	return s, true, n.answers()
}

// Load implements agent.Store.
func (n *fleetNode) Load(string) (agent.State, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stored == nil {
		return agent.State{Boot: n.boot}, nil
	}
	return agent.Decode(n.stored)
}

// Save implements agent.Store.
func (n *fleetNode) Save(s agent.State) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return errDead
	}
	if n.full {
		return errForbidden
	}
	text, err := agent.Encode(s)
	n.stored = text
	return err
}

// Open implements agent.Hardware.
func (n *fleetNode) Open(_ agent.Watchdog, mayPet func() bool) (agent.Device, error) {
	if !mayPet() {
		return nil, &agent.UnavailableError{Reason: agent.MayNotPet, Err: errAway}
	}
	err := n.Pet()
	return n, err
}

// Reset implements agent.Hardware.
func (n *fleetNode) Reset() error {
	n.set(func() {
		if !n.dead {
			n.reset, n.dead = n.now(), true
		}
	})
	return errDead
}

// State implements agent.Device.
func (*fleetNode) State() (time.Duration, string) { return timeout, "" }

// Pet implements agent.Device.
func (n *fleetNode) Pet() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return errDead
	}
	n.fires = n.now() + timeout
	return nil
}

// Disarm implements agent.Device.
func (n *fleetNode) Disarm() error {
	n.set(func() { n.fires = 0 })
	return nil
}

// promise waits until all promises are timed, and returns that of a node.
func (f *fleet) promise(name string) promiselease.Record {
	f.t.Helper()
	f.pass(3 * time.Minute)
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, r := range f.leases {
		if !r.Promise.Timed || r.Promise.Times != (selffence.Times{Validity: 20 * time.Second, Watchdog: timeout}) || r.Promise.Witnesses.Majority() != 2 {
			f.t.Errorf("node %s promises %+v", name, r)
		}
		if slices.Contains(r.Promise.Witnesses[:], name) {
			f.t.Errorf("node %s is its own witness", name)
		}
	}
	if len(f.leases) != len(f.nodes) {
		f.t.Errorf("%d nodes promise, want %d", len(f.leases), len(f.nodes))
	}
	return f.leases[name]
}

// wantTimed requires that all promises are timed, and valid for a time. The caller holds the lock.
func (f *fleet) wantTimed(validity time.Duration) {
	f.t.Helper()
	for name, r := range f.leases {
		if !r.Promise.Timed || r.Promise.Times.Validity != validity {
			f.t.Errorf("node %s promises %+v", name, r)
		}
	}
}

// condemn has a manager condemn a node, and returns the revision of that.
func (f *fleet) condemn(name string) (promised promiselease.Record, revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.leases[name]
	promised = r
	r.State, r.By = selffence.Condemned, "uid"
	return promised, f.stores(name, r)
}

// acknowledged reports whether enough witnesses of a condemned node have acknowledged that.
func (f *fleet) acknowledged(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	read := map[string]uint64{}
	for of, r := range f.leases {
		read[of] = r.HasRead()
	}
	observed := selffence.Observation{}.Observe(f.leases[name].Lease, f.began).ReadWitnesses(read, f.began)
	return observed.Lease.State == selffence.Condemned && !observed.Unwitnessed()
}

// resets returns which nodes were reset.
func (f *fleet) resets() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		if f.nodes[name].reset != 0 {
			all = append(all, name)
		}
	}
	return all
}

// TestAPIAway: the API server is away for longer than any promise, and no node resets itself.
func TestAPIAway(t *testing.T) {
	t.Parallel()
	for _, size := range []int{4, 9} {
		playFleet(t, size, func(f *fleet) {
			f.promise("a")
			f.set(func() { f.away = true })
			f.pass(time.Hour)
			if got := f.resets(); len(got) > 0 {
				t.Errorf("the nodes %q were reset", got)
			}
			f.set(func() { f.away = false })
			f.promise("a")
		})
	}
}

// TestRenewals: an agent renews its promise as often as the policy says, though it is a witness of others. People are told that the promise stands.
func TestRenewals(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		f.promise("a")
		var before uint64
		f.set(func() { before = f.revision })
		f.pass(10 * time.Minute)
		f.set(func() {
			if n, want := int(f.revision-before), 5*int(10*time.Minute/renewal); n < want-10 || n > want+60 {
				t.Errorf("five agents have written %d times in ten minutes, want about %d", n, want)
			}
			for name, n := range f.nodes {
				if last := n.notes[len(n.notes)-1]; last != agent.Promising {
					t.Errorf("node %s tells %s last", name, last)
				}
			}
		})
	})
}

// TestARestartKeepsThePromise: the first renewal after it states the same promise, with the same witnesses.
func TestARestartKeepsThePromise(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		before, others := f.promise("a").Promise, 0
		f.nodes["a"].restarts()
		for range 60 {
			f.pass(time.Second)
			f.set(func() {
				if f.leases["a"].Promise != before {
					others++
				}
			})
		}
		if others > 0 {
			t.Errorf("for %d seconds, it promises something else", others)
		}
	})
}

// TestWritesHang: the API server answers no write for longer than any promise, as where a webhook times out, and each read. No node resets itself.
func TestWritesHang(t *testing.T) {
	t.Parallel()
	for _, size := range []int{4, 9} {
		playFleet(t, size, func(f *fleet) {
			for _, name := range slices.Sorted(maps.Keys(f.nodes)) { // so that they renew at different times
				f.nodes[name].restarts()
				<-time.After(1300 * time.Millisecond)
			}
			f.promise("a")
			f.set(func() { f.hangs = true })
			f.pass(time.Hour)
			if got := f.resets(); len(got) > 0 {
				t.Errorf("of %d nodes, %q were reset", size, got)
			}
			f.set(func() { f.hangs = false })
			f.promise("a")
		})
	}
}

// TestFewAnswers: the API server answers some requests alone, as where it is overloaded. Each agent reaches it now and then, and some don't for longer
// than a promise. No node resets itself.
func TestFewAnswers(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{50, 70} {
		playFleet(t, 9, func(f *fleet) {
			for _, name := range slices.Sorted(maps.Keys(f.nodes)) { // so that they renew at different times
				f.nodes[name].restarts()
				<-time.After(700 * time.Millisecond)
			}
			f.set(func() { f.demands = 5 })
			f.pass(45 * time.Minute)
			random := rand.New(rand.NewPCG(1, 2))
			f.set(func() {
				f.wantTimed(20 * time.Second)
				f.unanswered = func() bool { return random.IntN(100) >= percent }
			})
			f.pass(30 * time.Minute)
			if got := f.resets(); len(got) > 0 {
				t.Errorf("with %d%% of the answers, the nodes %q were reset", percent, got)
			}
		})
	}
}

// TestReturnsLater: the API server is back, and one node reaches it some minutes later than the others, as where its kubelet has to renew a token
// first. It goes on. Where it is cut off once all has been well for long, it resets itself.
func TestReturnsLater(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		times := f.promise("a").Promise.Times
		f.set(func() { f.away = true })
		f.pass(time.Hour)
		f.set(func() { f.away, f.nodes["a"].alone = false, true })
		f.pass(4 * time.Minute)
		f.set(func() { f.nodes["a"].alone = false })
		f.pass(10 * time.Minute)
		if got := f.resets(); len(got) > 0 {
			t.Errorf("the nodes %q were reset", got)
		}
		began := f.now()
		f.set(func() { f.nodes["a"].alone = true })
		f.pass(times.Longest())
		if got := f.resets(); !slices.Equal(got, []string{"a"}) || f.nodes["a"].reset-began > times.Longest() {
			t.Errorf("once it is cut off, the nodes %q were reset", got)
		}
	})
}

// checkLoss ends some nodes at once, and the API server with them. No other node must reset itself within an hour.
func (f *fleet) checkLoss(lost []string) {
	f.t.Helper()
	f.set(func() {
		f.wantTimed(20 * time.Second)
		f.away = true
		for _, name := range lost {
			f.nodes[name].dead, f.nodes[name].fires = true, 0
		}
	})
	f.pass(time.Hour)
	if got := f.resets(); len(got) > 0 {
		f.t.Errorf("with %d witnesses, the nodes %q were reset", f.demands, got)
	}
}

// TestControlPlaneLost: the nodes of the control plane end, and the API server with them. No other node resets itself: most of its witnesses are none of
// the control plane. This holds too where nodes get their labels once the agents run, as by a controller, since agents read them again.
func TestControlPlaneLost(t *testing.T) {
	t.Parallel()
	control := []string{"b", "e", "f"}
	for _, unlabelled := range []time.Duration{0, time.Hour} {
		for _, demands := range []int{0, 3, 5} {
			playFleet(t, 9, func(f *fleet) {
				f.set(func() { f.demands = demands })
				f.pass(unlabelled)
				f.set(func() {
					for _, name := range control {
						f.nodes[name].place.Control = true
					}
				})
				f.pass(time.Hour + unlabelled)
				f.checkLoss(control)
			})
		}
	}
}

// TestZoneOfControlPlaneLost: all nodes of a zone end, and the API server with them, since the control plane is in that zone. No node of another zone
// resets itself: most of its witnesses are elsewhere too.
func TestZoneOfControlPlaneLost(t *testing.T) {
	t.Parallel()
	for _, demands := range []int{0, 3, 5} {
		playFleet(t, 12, func(f *fleet) {
			var lost []string
			f.set(func() {
				f.demands = demands
				for i, name := range slices.Sorted(maps.Keys(f.nodes)) {
					f.nodes[name].place = agent.Place{Zone: fmt.Sprintf("z%d", i%3), Control: i == 0 || i == 3 || i == 6}
					if i%3 == 0 {
						lost = append(lost, name)
					}
				}
			})
			f.pass(time.Hour)
			f.checkLoss(lost)
		})
	}
}

// TestShorterPromise: a policy demands times that are over by the last renewal. No node resets itself, also where the writes get no answer.
func TestShorterPromise(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		playFleet(t, 5, func(f *fleet) {
			f.set(func() {
				f.slow = true
				f.settings = func(s *agent.Settings) { s.Renewal, s.Validity = 5*time.Minute, 15*time.Minute }
			})
			f.pass(2 * time.Hour)
			f.set(func() {
				f.wantTimed(15 * time.Minute)
			})
			f.pass(4 * time.Minute)
			f.set(func() { f.settings, f.hangs = nil, hangs })
			f.pass(20 * time.Minute)
			if got := f.resets(); len(got) > 0 {
				t.Errorf("the nodes %q were reset, writes hang: %t", got, hangs)
			}
			f.set(func() { f.hangs = false })
			f.promise("a")
		})
	}
}

// TestLongerPromise: a policy demands a renewal that is longer than the promise that stands is valid. No node resets itself.
func TestLongerPromise(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		playFleet(t, 5, func(f *fleet) {
			f.promise("a")
			f.set(func() {
				f.slow, f.hangs = true, hangs
				f.settings = func(s *agent.Settings) { s.Renewal, s.Validity = 5*time.Minute, 15*time.Minute }
			})
			f.pass(20 * time.Minute)
			if got := f.resets(); len(got) > 0 {
				t.Errorf("the nodes %q were reset, writes hang: %t", got, hangs)
			}
			f.set(func() { f.hangs = false })
			f.pass(20 * time.Minute)
			f.set(func() {
				f.wantTimed(15 * time.Minute)
			})
		})
	}
}

// TestResetAgain: a policy that demands Reset again after Hold, or that is made again, has no promise timed by the witnesses of before. They may be gone.
func TestResetAgain(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		f.promise("a")
		f.set(func() {
			f.settings = func(s *agent.Settings) { s.Reset, s.Witnesses = false, 0 }
		})
		f.pass(30 * time.Minute)
		f.set(func() {
			for name, r := range f.leases {
				if r.Promise.Timed {
					t.Errorf("with Hold, node %s promises %+v", name, r)
				}
			}
			for _, n := range f.nodes {
				n.walled = true
			}
			f.settings = nil
		})
		for range 60 {
			f.pass(10 * time.Second)
			f.set(func() {
				for name, r := range f.leases {
					if r.Promise.Timed {
						t.Errorf("no agent answers, and node %s promises %+v", name, r)
					}
				}
			})
		}
		f.set(func() {
			for _, n := range f.nodes {
				n.walled = false
			}
		})
		f.pass(30 * time.Minute)
		f.promise("a")
	})
}

// TestCutOff: a node that reaches neither the API server nor its witnesses is reset in time, and no other.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*fleet){
		"from all":              func(f *fleet) { f.nodes["a"].cut = true },
		"from the API server":   func(f *fleet) { f.nodes["a"].alone = true },
		"while the API is away": func(f *fleet) { f.nodes["a"].cut, f.away = true, true },
	} {
		playFleet(t, 5, func(f *fleet) {
			times := f.promise("a").Promise.Times
			began := f.now()
			f.set(func() { cut(f) })
			f.pass(10 * time.Minute)
			if got := f.resets(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("%s: the nodes %q were reset", name, got)
			}
			if after := f.nodes["a"].reset - began; after > times.Longest() {
				t.Errorf("%s: it was reset after %s", name, after)
			}
		})
	}
}

// TestCondemnedWhileAway: the API server goes away once the witnesses of a node that is cut off from it have acknowledged the condemnation. They
// agree no more.
func TestCondemnedWhileAway(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		times := f.promise("a").Promise.Times
		f.set(func() { f.nodes["a"].alone = true })
		before := f.now()
		f.condemn("a")
		f.pass(time.Second)
		if !f.acknowledged("a") {
			t.Error("the witnesses don't acknowledge a condemnation soon")
		}
		began := f.now()
		f.set(func() { f.away = true })
		f.pass(10 * time.Minute)
		if got := f.resets(); !slices.Equal(got, []string{"a"}) || f.nodes["a"].reset-began > times.Longest() {
			t.Errorf("the nodes %q were reset; a after %s", got, f.nodes["a"].reset-before)
		}
	})
}

// TestUnreadCondemnation: the API server has gone away before the witnesses have read the condemnation. They agree, and have acknowledged nothing.
func TestUnreadCondemnation(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		f.promise("a")
		f.set(func() { f.away = true })
		f.pass(time.Second)
		f.condemn("a")
		f.pass(10 * time.Minute)
		if got := f.resets(); len(got) > 0 || f.acknowledged("a") {
			t.Errorf("the nodes %q were reset, acknowledged: %t", got, f.acknowledged("a"))
		}
		f.set(func() { f.away = false })
		f.pass(time.Minute)
		if got := f.resets(); !slices.Equal(got, []string{"a"}) || !f.acknowledged("a") {
			t.Errorf("once the API server is back, the nodes %q were reset, acknowledged: %t", got, f.acknowledged("a"))
		}
	})
}

// TestWitnessRestarts: a witness that has restarted agrees to nothing before it has read the Leases.
func TestWitnessRestarts(t *testing.T) {
	t.Parallel()
	playFleet(t, 4, func(f *fleet) {
		f.promise("a")
		f.set(func() { f.away = true })
		f.pass(time.Minute)
		f.nodes["b"].restarts()
		f.pass(time.Hour)
		if got := f.resets(); len(got) > 0 {
			t.Errorf("two of three witnesses suffice, and the nodes %q were reset", got)
		}
		f.nodes["c"].restarts()
		f.pass(10 * time.Minute)
		if got := f.resets(); !slices.Contains(got, "a") {
			t.Errorf("witnesses agree that have read nothing: the nodes %q were reset", got)
		}
	})
}

// TestAgentRestartsAway: an agent that restarts while the API server is away goes on.
func TestAgentRestartsAway(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		f.promise("a")
		f.set(func() { f.away = true })
		f.pass(time.Minute)
		f.nodes["a"].restarts()
		f.pass(10 * time.Minute)
		if got := f.resets(); len(got) > 0 {
			t.Errorf("the nodes %q were reset", got)
		}
	})
}

// TestFewWitnesses: with fewer witnesses than are demanded no promise is timed, and a node that is cut off goes on.
func TestFewWitnesses(t *testing.T) {
	t.Parallel()
	playFleet(t, 3, func(f *fleet) {
		f.pass(3 * time.Minute)
		f.set(func() { f.nodes["a"].cut = true })
		f.pass(10 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, r := range f.leases {
			if r.Promise.Timed || f.nodes[name].reset != 0 || !slices.Contains(f.nodes[name].notes, agent.NoWitnesses) {
				t.Errorf("node %s promises %+v, and was told %q", name, r, f.nodes[name].notes)
			}
		}
	})
}

// TestAsManyWitnesses: where the policy gives no number, a promise names five witnesses, or three where there are fewer agents. A node whose witnesses
// change goes on in an outage.
func TestAsManyWitnesses(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{4: 3, 5: 3, 6: 5, 9: 5} {
		playFleet(t, size, func(f *fleet) {
			f.set(func() { f.demands = 0 })
			f.pass(30 * time.Minute)
			f.set(func() {
				for name, r := range f.leases {
					if !r.Promise.Timed || r.Promise.Witnesses.Majority() != want/2+1 {
						t.Errorf("of %d nodes, node %s promises %+v", size, name, r)
					}
				}
				f.away = true
			})
			f.pass(time.Hour)
			if got := f.resets(); len(got) > 0 {
				t.Errorf("of %d nodes %q were reset", size, got)
			}
		})
	}
}

// TestPolicyChangesInOutage: an outage begins while a change of all promises is under way, and no node is reset.
func TestPolicyChangesInOutage(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"the writes are lost": true, "the answers are lost": false} {
		playFleet(t, 9, func(f *fleet) {
			f.promise("a")
			f.set(func() { f.demands, f.half, f.lost = 5, true, lost })
			f.pass(15 * time.Minute)
			changed := 0
			f.set(func() {
				for _, n := range f.nodes {
					if s, err := agent.Decode(n.stored); err == nil && s.Agent.Stated != s.Agent.Sent {
						changed++
					}
				}
				f.away = true
			})
			f.pass(time.Hour)
			if got := f.resets(); len(got) > 0 || changed == 0 {
				t.Errorf("%s: the nodes %q were reset, and %d changed their promise", name, got, changed)
			}
		})
	}
}

// TestSuspended: a node that was suspended for longer than its promise is reset within a second after it has woken, and before its watchdog fires. After
// a shorter time it goes on.
func TestSuspended(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		longest := f.promise("a").Promise.Times.Longest()
		f.nodes["b"].wakes(longest / 4)
		f.nodes["a"].wakes(longest)
		f.pass(time.Second)
		if got := f.resets(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the nodes %q were reset", got)
		}
		f.pass(time.Hour)
		if got := f.resets(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("later, the nodes %q were reset", got)
		}
		f.set(func() {
			if notes := f.nodes["a"].notes; !slices.Contains(notes, agent.Overdue) || slices.Contains(notes, agent.Condemned) {
				t.Errorf("people were told %q", notes)
			}
		})
	})
}

// TestUnreachedWitnesses: agents that don't answer questions are no witnesses, as where a firewall is between the nodes. No promise is timed then,
// and the API server may go away.
func TestUnreachedWitnesses(t *testing.T) {
	t.Parallel()
	wall := func(f *fleet) {
		for _, n := range f.nodes {
			n.walled = true
		}
	}
	for name, tc := range map[string]struct {
		first  func(*fleet)
		before func(*fleet)
	}{
		"from the beginning": {wall, func(*fleet) {}},
		"since later":        {func(*fleet) {}, func(f *fleet) { f.promise("a"); f.set(func() { wall(f) }) }},
	} {
		playFleet(t, 5, func(f *fleet) {
			f.set(func() { tc.first(f) })
			tc.before(f)
			f.pass(time.Hour)
			f.set(func() { f.away = true })
			f.pass(10 * time.Minute)
			f.mu.Lock()
			defer f.mu.Unlock()
			for node, r := range f.leases {
				if r.State != selffence.Promised || r.Promise.Timed || f.nodes[node].reset != 0 {
					t.Errorf("%s: node %s promises %+v, and was reset at %s", name, node, r, f.nodes[node].reset)
				}
			}
		})
	}
}

// TestUnreachedWitness: one agent that does not answer is replaced as a witness.
func TestUnreachedWitness(t *testing.T) {
	t.Parallel()
	playFleet(t, 7, func(f *fleet) {
		lost := f.promise("a").Promise.Witnesses[1]
		f.set(func() { f.nodes[lost].walled = true })
		f.pass(time.Hour)
		f.mu.Lock()
		defer f.mu.Unlock()
		if p := f.leases["a"].Promise; !p.Timed || slices.Contains(p.Witnesses[:], lost) || p.Witnesses.Majority() != 2 {
			t.Errorf("node a promises %+v without %s", p, lost)
		}
	})
}

// TestWitnessLost: a witness that is gone for good is replaced, and no other.
func TestWitnessLost(t *testing.T) {
	t.Parallel()
	playFleet(t, 7, func(f *fleet) {
		f.pass(time.Hour) // until no better witness replaces another one
		before := f.promise("a").Promise.Witnesses
		lost := before[1]
		f.set(func() {
			f.nodes[lost].dead = true
			r := f.leases[lost]
			r.State = selffence.Withdrawn
			f.stores(lost, r)
		})
		f.pass(time.Hour)
		f.mu.Lock()
		defer f.mu.Unlock()
		after := f.leases["a"].Promise.Witnesses
		if slices.Contains(after[:], lost) || !slices.Contains(after[:], before[0]) || !slices.Contains(after[:], before[2]) || after.Majority() != 2 {
			t.Errorf("the witnesses were %q, and are %q without %s", before, after, lost)
		}
	})
}

// TestMostWitnessesLost: most witnesses end at once, and the API server goes away 17 minutes later. All agents have looked twice by then.
func TestMostWitnessesLost(t *testing.T) {
	t.Parallel()
	playFleet(t, 12, func(f *fleet) {
		f.pass(time.Hour) // until no better witness replaces another one
		lost := f.promise("a").Promise.Witnesses
		f.set(func() {
			for _, name := range lost[:2] {
				f.nodes[name].dead, f.nodes[name].fires = true, 0
				r := f.leases[name]
				r.State = selffence.Withdrawn
				f.stores(name, r)
			}
		})
		f.pass(17 * time.Minute)
		f.set(func() { f.away = true })
		f.pass(10 * time.Minute)
		if got := f.resets(); len(got) > 0 {
			t.Errorf("the nodes %q were reset", got)
		}
	})
}

// TestLeasesOfLostNodes: the Leases of many nodes that were lost still promise. The nodes that are left find witnesses all the same.
func TestLeasesOfLostNodes(t *testing.T) {
	t.Parallel()
	playFleet(t, 12, func(f *fleet) {
		f.set(func() {
			f.demands = 0
			for i := range 32 {
				name := fmt.Sprintf("lost%d", i)
				n := &fleetNode{fleet: f, name: name, boot: boot, dead: true, ended: make(chan struct{}), end: func() {}}
				close(n.ended)
				f.nodes[name] = n
				f.stores(name, promiselease.Record{Lease: selffence.Lease{State: selffence.Promised, Promise: selffence.Promise{Boot: boot}}, Witnessed: 1})
			}
		})
		f.pass(2 * time.Hour)
		f.set(func() {
			for name, r := range f.leases {
				if !f.nodes[name].dead && !r.Promise.Timed {
					t.Errorf("node %s promises %+v", name, r)
				}
			}
		})
	})
}

// TestWitnessReplacedUnstored: a witness is to be replaced while nothing can be stored. The promise that stands is renewed.
func TestWitnessReplacedUnstored(t *testing.T) {
	t.Parallel()
	playFleet(t, 7, func(f *fleet) {
		f.pass(time.Hour) // until no better witness replaces another one
		before := f.promise("a").Promise.Witnesses
		lost := before[1]
		f.set(func() { f.nodes["a"].full, f.nodes[lost].walled = true, true })
		f.pass(time.Hour)
		f.set(func() {
			if r := f.leases["a"]; r.Promise.Witnesses != before || f.nodes["a"].reset != 0 {
				t.Errorf("node a promises %+v, and was reset at %s; told %q", r, f.nodes["a"].reset, f.nodes["a"].notes)
			}
			f.away = true
		})
		f.pass(10 * time.Minute)
		f.set(func() {
			if f.nodes["a"].reset != 0 {
				t.Errorf("node a was reset at %s in an outage", f.nodes["a"].reset)
			}
			f.away, f.nodes["a"].full = false, false
		})
		f.pass(30 * time.Minute)
		f.set(func() {
			if p := f.leases["a"].Promise; !p.Timed || slices.Contains(p.Witnesses[:], lost) {
				t.Errorf("node a promises %+v without %s", p, lost)
			}
		})
	})
}

// agrees reports whether a node, as a witness, agrees that another one goes on.
func (f *fleet) agrees(node, of string) bool {
	f.t.Helper()
	text, err := f.nodes[node].witness.Answer(f.t.Context(), of, fmt.Appendf(nil, `{"boot":%q}`, f.nodes[of].boot))
	if err != nil {
		f.t.Error(err)
	}
	return string(text) == `{"agrees":true}`
}

// TestWitnessConflicts: a witness whose renewal conflicts with a late one of its own knows what it has read. After any other conflict the cluster may have been
// restored, and it lists the Leases anew before it agrees.
func TestWitnessConflicts(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(f *fleet, name string, r promiselease.Record)
		want   bool
	}{
		"a late write of its own": {func(f *fleet, name string, r promiselease.Record) { f.stores(name, r) }, true},
		"an earlier revision": {func(f *fleet, name string, r promiselease.Record) {
			r.Revision = 50
			f.leases[name] = r
		}, false},
		"another promise": {func(f *fleet, name string, r promiselease.Record) {
			r.Promise.Times.Validity++
			f.stores(name, r)
		}, false},
		"withdrawn": {func(f *fleet, name string, r promiselease.Record) {
			r.State = selffence.Withdrawn
			f.stores(name, r)
		}, false},
		"gone": {func(f *fleet, name string, _ promiselease.Record) { delete(f.leases, name) }, false},
	} {
		playFleet(t, 5, func(f *fleet) {
			w := f.promise("a").Promise.Witnesses[0]
			for range 2 { // a conflict of before counts no more
				f.set(func() {
					f.nodes[w].conflicts = 0
					f.stores(w, f.leases[w])
				})
				f.untilConflict(w)
				f.pass(renewal)
			}
			f.set(func() {
				f.nodes[w].unlisted, f.nodes[w].conflicts = true, 0
				c.change(f, w, f.leases[w])
			})
			f.untilConflict(w)
			f.set(func() { f.away = true })
			f.pass(2 * renewal)
			if got := f.agrees(w, "a"); got != c.want {
				t.Errorf("%s: the witness agrees: %t", what, got)
			}
		})
	}
}

// untilConflict waits until a write of a node is refused.
func (f *fleet) untilConflict(name string) {
	f.t.Helper()
	for range 100 {
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		found := false
		f.set(func() { found = f.nodes[name].conflicts > 0 })
		if found {
			return
		}
	}
	f.t.Error("no write is refused")
}

// TestListedAtOnce: a witness that has forgotten what it had read lists the Leases at once. The API server may go away soon.
func TestListedAtOnce(t *testing.T) {
	t.Parallel()
	playFleet(t, 5, func(f *fleet) {
		w := f.promise("a").Promise.Witnesses[0]
		f.set(func() {
			r := f.leases[w]
			r.Promise.Times.Validity++
			f.stores(w, r)
		})
		f.untilConflict(w)
		f.set(func() { f.away = true })
		f.pass(2 * renewal)
		if !f.agrees(w, "a") {
			t.Error("the witness does not agree")
		}
	})
}

// boots has a node boot anew: the state that was stored in memory is gone.
func (n *fleetNode) boots() {
	n.set(func() { n.boot, n.stored = "f"+n.boot[1:], nil })
	n.restarts()
}

// TestSilencedWitnesses: where enough agents promise something for five witnesses, no promise has three because two agents don't answer. One of the three
// may lie. Others become witnesses in their place.
func TestSilencedWitnesses(t *testing.T) {
	t.Parallel()
	playFleet(t, 8, func(f *fleet) {
		f.set(func() { f.demands = 0 })
		f.pass(time.Hour)
		witnesses := f.serving()
		if len(witnesses) != 6 {
			t.Errorf("%q are witnesses", witnesses)
		}
		silence := func(is bool) {
			f.set(func() { f.nodes[witnesses[0]].walled, f.nodes[witnesses[1]].walled = is, is })
		}
		silence(true)
		booted := slices.DeleteFunc(slices.Sorted(maps.Keys(f.nodes)), func(name string) bool { return slices.Contains(witnesses, name) })[0]
		f.nodes[booted].boots()
		for range 360 {
			f.pass(10 * time.Second)
			f.wantNoneOfThree()
		}
		f.set(func() {
			if r := f.leases[booted]; r.State != selffence.Promised || r.Promise.Boot != f.nodes[booted].boot || !r.Promise.Timed {
				t.Errorf("node %s promises %+v", booted, r)
			}
			if notes := f.nodes[booted].notes; !slices.Contains(notes, agent.NoWitnesses) {
				t.Errorf("people were told %q", notes)
			}
		})
		silence(false)
		f.pass(time.Hour)
		f.wantNoneOfThree()
		f.set(func() {
			if r := f.leases[booted]; !r.Promise.Timed {
				t.Errorf("later, node %s promises %+v", booted, r)
			}
		})
	})
}

// wantNoneOfThree requires that no promise is timed by three witnesses.
func (f *fleet) wantNoneOfThree() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, r := range f.leases {
		if r.Promise.Timed && r.Promise.Witnesses.Majority() < 3 {
			f.t.Errorf("node %s promises %+v", name, r.Promise)
		}
	}
}
