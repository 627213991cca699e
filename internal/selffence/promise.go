package selffence

import "time"

// Times are the times of a promise. Each clock measures them by itself.
type Times struct {
	// Validity is how long a grant allows the agent to pet the watchdog, from when the request for the grant was sent.
	Validity time.Duration
	// Watchdog is the timeout of the watchdog, as read back from the device. It stays the same for a whole boot.
	Watchdog time.Duration
}

// Longest returns the longest time from when the request for the last grant was sent to the reset of the node. The watchdog counts three
// times. A pet may stall between its check and its effect, by less than a timeout after the pet before it. If the process of the agent then
// ends without disarming the watchdog, the kernel pets it once more. The timeout begins anew each time.
func (t Times) Longest() time.Duration { return t.Validity + 3*t.Watchdog }

// rateFraction is the part of a time by which the rates of two clocks may differ: a twentieth, or five percent.
const rateFraction = 20

// Wait returns how long another clock has to wait for the longest time to be over.
func (t Times) Wait() time.Duration {
	longest := t.Longest()
	return longest + (longest+rateFraction-1)/rateFraction
}

// Bounds of times. They keep sums from overflowing, and a promise from being worth nothing.
const (
	minTime = time.Second
	maxTime = time.Hour
)

// Valid reports whether both times are from a second to an hour.
func (t Times) Valid() bool {
	return t.Validity >= minTime && t.Validity <= maxTime && t.Watchdog >= minTime && t.Watchdog <= maxTime
}

// mostMembers is how many witnesses a promise may name.
const mostMembers = 5

// Members are the nodes whose agents are witnesses. Empty names don't count.
type Members [mostMembers]string

// Majority returns how many members are more than half of them. It is zero if there are none.
func (m Members) Majority() int {
	count := m.count()
	if count == 0 {
		return 0
	}
	return count/2 + 1
}

// Acknowledgements returns how many members must have read that a node is condemned before the clock of a manager starts. Each majority of the
// members then has a member that has read it and agrees no more. That holds also if one member acknowledges and agrees all the same. Where that
// takes all members, a single ended agent would hold up each proof. So it is a majority there, and none may lie. It is zero if there
// are none.
func (m Members) Acknowledgements() int {
	count, most := m.count(), m.Majority()
	if withLiar := count - most + 2; withLiar < count {
		return withLiar
	}
	return most
}

func (m Members) count() int {
	count := 0
	for _, name := range m {
		if name != "" {
			count++
		}
	}
	return count
}

// Promise is what an agent states in the Lease of its node.
type Promise struct {
	// Boot is the boot ID of the node. A promise is about one boot.
	Boot string
	// Timed is set if the agent stops petting the watchdog without a grant. Otherwise it resets the node only when it learns that the
	// node is condemned, and no time proves anything.
	Timed bool
	Times Times
	// Witnesses may grant while the API server is away.
	Witnesses Members
}

// untimed returns a promise that is not timed in place of this one.
func (p Promise) untimed() Promise {
	return Promise{Boot: p.Boot, Times: Times{Watchdog: p.Times.Watchdog}}
}

// State is what a Lease says.
type State string

// States of a Lease. The zero value is that of a Lease that says nothing.
const (
	// Promised: the promise stands.
	Promised State = "Promised"
	// Withdrawn: the agent has withdrawn its promise, and may disarm the watchdog.
	Withdrawn State = "Withdrawn"
	// Condemned: a manager has revoked the promise. The node is reset.
	Condemned State = "Condemned"
)

// Lease is the Lease of one node, as it is stored.
type Lease struct {
	// Revision is the resource version. A write names the revision that it replaces, and fails if the Lease has another.
	Revision uint64
	State    State
	Promise  Promise
	// By is the UID of the remediation that has condemned the node.
	By string
}

// condemns reports whether a Lease condemns a boot.
func (l Lease) condemns(boot string) bool { return l.State == Condemned && l.Promise.Boot == boot }
