package power

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	// usualTimeout is how long one operation may take. A BMC may need seconds for each of its answers.
	usualTimeout = 30 * time.Second
	// closeTimeout is how long giving a session back may take.
	closeTimeout = 5 * time.Second
)

// Driver reads and commands the power by one protocol.
type Driver interface {
	// State reads the power.
	State(context.Context) (fencing.PowerState, Failure)
	// Off turns the power off at once. It succeeds when the BMC has acknowledged the command.
	Off(context.Context) Failure
	// On turns the power on. It succeeds when the BMC has acknowledged the command.
	On(context.Context) Failure
}

// connection is a driver with a session that is given back.
type connection interface {
	Driver
	// Close ends the session on the BMC. The driver makes another if it is used again.
	Close(context.Context)
}

// identified is a driver that knows the UUID of its system.
type identified interface {
	// Expect has commands fail if the UUID of the system is known, and is of another one. An empty UUID ends that.
	Expect(uuid string)
	// UUID returns the UUID of the system as it was read last, or "".
	UUID() string
}

// Config is how a host is reached.
type Config struct {
	Address Address
	Trust   Trust
	// Timeout is how long one operation may take. Zero means 30 seconds.
	Timeout time.Duration
	// Now reads the clock.
	Now func() time.Time
}

// Host is the power of one host. It makes one operation at a time.
type Host struct {
	config Config
	open   func(Config, Credentials) connection
	// turn has room for the one operation that runs. It guards opened and used.
	turn   chan struct{}
	opened connection
	used   Credentials

	mu          sync.Mutex
	credentials Credentials
	hold        hold
	uuid        string
	lacks       []Command
}

// NewHost returns a host. It makes no connection yet.
func NewHost(config Config, credentials Credentials) *Host {
	if config.Timeout == 0 {
		config.Timeout = usualTimeout
	}
	open := openRedfish
	if config.Address.Protocol == IPMI {
		open = openIPMI
	}
	return &Host{config: config, open: open, turn: make(chan struct{}, 1), credentials: credentials}
}

// SetCredentials replaces the credentials. If they differ, the next operation logs in with them, also where the BMC was left alone.
func (h *Host) SetCredentials(credentials Credentials) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.credentials.Same(credentials) {
		h.credentials, h.hold = credentials, hold{}
	}
}

// HeldUntil returns until when no login is tried, or zero if one is.
func (h *Host) HeldUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold.at(h.config.Now())
}

// Refused returns how many logins in succession were refused with the credentials of now.
func (h *Host) Refused() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hold.refused
}

// Resume continues the count of refused logins of an earlier process, and until when that left the BMC alone.
func (h *Host) Resume(refused int, heldUntil time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = hold{refused: refused, until: heldUntil}
}

// ResumeFrom continues the count of refused logins of another host, if that has the same credentials.
func (h *Host) ResumeFrom(other *Host) {
	other.mu.Lock()
	credentials, count := other.credentials, other.hold
	other.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.credentials.Same(credentials) {
		h.hold = count
	}
}

// Read reads the power. A failed read returns no reading.
func (h *Host) Read(ctx context.Context) (fencing.Reading, Failure) {
	var state fencing.PowerState
	begun, ended, failure := h.operate(ctx, func(ctx context.Context, d Driver) (f Failure) {
		state, f = d.State(ctx)
		return f
	})
	if failure.Failed() {
		return fencing.Reading{}, failure
	}
	return fencing.Reading{Begun: begun, Ended: ended, State: state}, Failure{}
}

// UUID returns the UUID of the system as it was read last, or "" if it isn't known.
func (h *Host) UUID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.uuid
}

// Command sends a command and returns when it was acknowledged. A command that failed may have been carried out all the same. Nothing is
// commanded if the UUID of the system is known to be another than the given one, which may be empty.
func (h *Host) Command(ctx context.Context, command Command, uuid string) (time.Time, Failure) {
	_, ended, failure := h.operate(ctx, func(ctx context.Context, d Driver) Failure {
		if i, ok := d.(identified); ok {
			i.Expect(uuid)
		}
		if command == TurnOff {
			return d.Off(ctx)
		}
		return d.On(ctx)
	})
	if failure.Failed() {
		return time.Time{}, failure
	}
	return ended, Failure{}
}

// Close ends the session on the BMC. The host can be used again.
func (h *Host) Close(ctx context.Context) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-h.turn }()
	h.shut(ctx)
}

// operate makes one operation when it is its turn, and returns when it began and ended.
func (h *Host) operate(ctx context.Context, call func(context.Context, Driver) Failure) (begun, ended time.Time, f Failure) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return time.Time{}, time.Time{}, Failure{Reason: waited(ctx)}
	}
	defer func() { <-h.turn }()
	begun = h.config.Now()
	driver, failure := h.driver(ctx, begun)
	if failure.Failed() {
		return begun, begun, failure
	}
	failure = h.bounded(ctx, driver, call)
	ended = h.config.Now()
	h.identify(driver)
	return begun, ended, h.note(failure, ended)
}

// identify keeps the UUID that a driver has read.
func (h *Host) identify(d Driver) {
	if i, ok := d.(identified); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.uuid = i.UUID()
	}
}

// waited returns why an operation did not get its turn.
func waited(ctx context.Context) Reason {
	if errors.Is(ctx.Err(), context.Canceled) {
		return Interrupted
	}
	return Busy
}

// bounded makes a call within the time of an operation. A panic becomes a failure: drivers parse what a BMC has sent.
func (h *Host) bounded(ctx context.Context, d Driver, call func(context.Context, Driver) Failure) (f Failure) {
	ctx, cancel := context.WithTimeout(ctx, h.config.Timeout)
	defer cancel()
	err := contain.Run(func() error {
		f = call(ctx, d)
		return nil
	})
	if err != nil {
		return Failure{Reason: UnexpectedAnswer}
	}
	return f
}

// driver returns the driver with the credentials of now, or a failure while the BMC is left alone.
func (h *Host) driver(ctx context.Context, now time.Time) (Driver, Failure) {
	h.mu.Lock()
	credentials, until := h.credentials, h.hold.at(now)
	h.mu.Unlock()
	if !until.IsZero() {
		return nil, Failure{Reason: AuthenticationHeld, HeldUntil: until}
	}
	if h.opened == nil || !h.used.Same(credentials) {
		h.shut(ctx)
		h.opened, h.used = h.open(h.config, credentials), credentials
	}
	return h.opened, Failure{}
}

// shut ends the session, also where the caller's context is over.
func (h *Host) shut(ctx context.Context) {
	if h.opened == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(closeTimeout, h.config.Timeout))
	defer cancel()
	opened := h.opened
	h.opened = nil
	_ = contain.Run(func() error { // what a BMC sends in return doesn't matter any more
		opened.Close(ctx)
		return nil
	})
}

// note counts a refused login of the credentials that the host has now, and returns the failure with its consequence.
func (h *Host) note(failure Failure, now time.Time) Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.credentials.Same(h.used) {
		h.hold = h.hold.after(failure.Reason, now)
	}
	if failure.Reason == AuthenticationRefused {
		failure.HeldUntil = h.hold.at(now)
	}
	return failure
}
