package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Hardware is the watchdog of the node, and its switch.
type Hardware interface {
	// Open opens and arms the watchdog, which counts as a pet. It calls mayPet right before that. The error may be an UnavailableError. A device
	// beside an error is armed all the same, and is not to be promised.
	Open(demanded Watchdog, mayPet func() bool) (Device, error)
	// Reset resets the node at once. It returns only if that fails.
	Reset() error
}

// Device is an open watchdog.
type Device interface {
	// State returns the timeout as it was read back from the device, and the device's name for itself. The timeout may be zero beside an error of
	// Open.
	State() (timeout time.Duration, identity string)
	// Pet keeps the watchdog from firing for another timeout.
	Pet() error
	// Disarm closes the watchdog so that it doesn't fire. After an error it stays open. By an UnavailableError with the reason NoWayOut it is armed as
	// before. After any other it may be armed or not.
	Disarm() error
}

// Grantor stores the Lease of the node. A write of it that succeeds is a grant. The API server is one.
type Grantor interface {
	// Read returns the Lease. It is empty if there is none.
	Read(ctx context.Context) (selffence.Lease, error)
	// Write replaces the Lease of the same revision, or creates it at revision zero. It returns zero if the Lease has another revision by
	// now. After an error the Lease may be written all the same, or still be.
	Write(ctx context.Context, r promiselease.Record) (revision uint64, err error)
}

// Policies look up which policy selects the node.
type Policies interface {
	// Find returns the settings of the policy, or false if no policy selects the node.
	Find(context.Context) (Settings, bool, error)
}

// Store keeps the state of the agent.
type Store interface {
	Load(boot string) (State, error)
	Save(State) error
}

// Note is something to tell people.
type Note struct {
	Reason Reason
	// Err says more. It may be nil.
	Err error
}

// Config has what an agent works with. Every field is required but Explainer, EachSecond and those of witnesses. Without those no promise is timed.
type Config struct {
	// Node is the name of the node. Others read the Leases of all nodes, Peers asks their agents, and Witness answers them. Addresses keep where
	// witnesses listen, for Peers. They may be nil.
	Node      string
	Others    Others
	Peers     Peers
	Witness   *Witness
	Addresses *Addresses
	// Boot is the boot ID of the node.
	Boot     string
	Hardware Hardware
	Grantor  Grantor
	Policies Policies
	Store    Store
	// Explainer may be nil. The API then doesn't say why the node has no promise.
	Explainer Explainer
	// Boottime reads CLOCK_BOOTTIME, which goes on while the node sleeps.
	Boottime func() time.Duration
	// EachSecond calls a function each second of CLOCK_BOOTTIME until the context ends, and at once when the node wakes. It may be nil: then the timers of
	// Go are used, which stand still while the node sleeps.
	EachSecond func(ctx context.Context, do func()) error
	// Tell reports something to people. It must not wait for anything.
	Tell func(Note)
	// StopWithin is how long an agent that is to end may try to withdraw its promise.
	StopWithin time.Duration
}

// ErrArmed is returned by an agent that has ended without disarming the watchdog, since its promise may stand. The watchdog resets the node,
// unless another process of the same boot goes on in time.
var ErrArmed = errors.New("the watchdog is armed, and resets the node unless the agent is started again in time")

// Run runs the agent of a node until the context ends. It then withdraws the promise, and disarms the watchdog once that is confirmed.
func Run(ctx context.Context, c Config) error {
	n := newNode(c)
	others, end := context.WithCancel(context.WithoutCancel(ctx))
	n.background = others
	defer n.running.Wait()
	defer end()
	n.running.Go(func() { n.lookUp(others) })
	n.running.Go(func() { n.keepPetting(others) })
	n.running.Go(func() { n.watchTime(others) })
	if n.asks() {
		n.running.Go(func() { n.watchOthers(others) })
	}
	return n.act(ctx)
}

// node is the agent of a node, at work.
type node struct {
	Config

	// woken has a value if the settings have changed, opened if a watchdog was opened, and demanding if witnesses are demanded from now on.
	woken, opened, demanding chan struct{}
	// background ends once the agent has ended, and running are the goroutines beside that of the steps.
	background context.Context //nolint:containedctx // it is that of the questions that are under way
	running    sync.WaitGroup

	mu sync.Mutex
	// agent is what the protocol knows.
	agent selffence.Agent
	// device is the open watchdog, or nil.
	device Device
	// lost is set until the agent has read its Lease, if it does not know what an earlier process has promised.
	lost bool
	// found are the settings of the policy that selects the node, or nil while that is unknown.
	found *Settings
	// unfound is set if the policies could not be read last.
	unfound bool
	// petsFail is set if the last pet has failed.
	petsFail bool
	// members are the witnesses to state, and demanded how many are demanded, the preferred number first. Limit is how long a request or a question
	// may take.
	members  selffence.Members
	demanded []int
	limit    time.Duration
	// urgent is set if a condemnation waits for being acknowledged.
	urgent bool
	// awayUntil is until when this agent says as a witness that the API server is away, unless a request gets no answer again.
	awayUntil time.Duration
	// relist ends following the Leases, so that they are listed anew. It may be nil.
	relist context.CancelFunc

	// overdue is set once people were told that the node runs for longer than it has promised. It is of the goroutine that watches the time.
	overdue bool

	// The fields below belong to the goroutine that acts.

	// used are the settings that the promise and the device are of, and every is the time between two grants.
	used  Settings
	every time.Duration
	// creates is set while a request to create the Lease got no answer.
	creates bool
	// doubts is set from a write that was refused until the Lease is read, and refused is the revision that it was to replace.
	doubts  bool
	refused uint64
	// stored is what the store has. Unstored is set if another promise could not be stored, until something is stored.
	stored   State
	unstored bool
	// unusable is set if the watchdog could not be used, and failed is when. It is left alone for a while then.
	unusable bool
	failed   time.Duration
	// refusal is why the watchdog could not be used.
	refusal   Reason
	explained explained
	pace      pace
	// told is what people were told last.
	told Reason
}

// newNode returns the agent of a node with what an earlier process of the same boot has stored.
func newNode(c Config) *node {
	n := &node{Config: c, woken: make(chan struct{}, 1), opened: make(chan struct{}, 1), demanding: make(chan struct{}, 1)}
	s, err := c.Store.Load(c.Boot)
	if err != nil {
		n.lost = true
		n.note(StateLost, err)
		s = State{Boot: c.Boot}
	}
	n.stored, n.creates = s, s.Creates
	wanted := selffence.Promise{Boot: c.Boot}
	if s.Agent.Bound {
		wanted = s.Agent.Sent
	}
	if s.Settings != (Settings{}) {
		n.used, n.found = s.Settings, &s.Settings
	}
	n.agent = selffence.NewAgent(wanted, n.used.renewal(), s.Agent)
	n.every = n.agent.Every()
	n.limit = n.requestTime()
	if n.asks() {
		n.members = s.Agent.Sent.Witnesses
	}
	if s.Condemned {
		n.agent = n.agent.Read(selffence.Lease{State: selffence.Condemned, Promise: selffence.Promise{Boot: c.Boot}})
	}
	return n
}

// asks reports whether this agent can have witnesses. Without, an agent makes no timed promise.
func (n *node) asks() bool { return n.Others != nil && n.Peers != nil && n.Witness != nil }

// defaultRenewal is the time between two requests while no policy is known.
const defaultRenewal = 5 * time.Second

func (s Settings) renewal() time.Duration {
	if s == (Settings{}) {
		return defaultRenewal
	}
	return s.Renewal
}

// note passes a reason on to people, unless it is the last one again.
func (n *node) note(r Reason, err error) {
	if n.told != r {
		n.told = r
		n.Tell(Note{Reason: r, Err: err})
	}
}
