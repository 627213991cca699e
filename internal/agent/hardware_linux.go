package agent

import (
	"errors"
	"time"

	"github.com/fettle-io/fettle/internal/watchdog"
)

// Machine is the node that this process runs on.
type Machine struct {
	sysrq  *watchdog.Sysrq
	failed error
}

// NewMachine opens the way to reset the node. A node without one is reset by its watchdog alone.
func NewMachine() *Machine {
	sysrq, err := watchdog.OpenSysrq()
	return &Machine{sysrq, err}
}

// Open implements Hardware.
func (*Machine) Open(w Watchdog, mayPet func() bool) (Device, error) {
	device, err := watchdog.Open(watchdog.Config{
		Path: w.Device, Timeout: w.Timeout, AllowSoftware: w.Any, AllowVirtualMachine: w.Virtual, MayPet: mayPet,
	})
	if err == nil {
		return openDevice{device}, nil
	}
	return refused(err)
}

// refused returns why a watchdog won't do, and the watchdog if it is armed all the same.
func refused(err error) (Device, error) {
	var e *watchdog.Error
	if !errors.As(err, &e) {
		return nil, err
	}
	failure := &UnavailableError{Reason: Reason(e.Reason), Err: err}
	if e.Armed == nil {
		return nil, failure
	}
	return openDevice{e.Armed}, failure
}

// Reset implements Hardware.
func (m *Machine) Reset() error {
	if m.failed != nil {
		return m.failed
	}
	return m.sysrq.Reset()
}

// openDevice is an open watchdog of the node.
type openDevice struct{ *watchdog.Device }

// Disarm implements Device.
func (d openDevice) Disarm() error {
	err := d.Device.Disarm()
	if e, is := errors.AsType[*watchdog.Error](err); is {
		return &UnavailableError{Reason: Reason(e.Reason), Err: err}
	}
	return err
}

// State implements Device.
func (d openDevice) State() (time.Duration, string) { return d.Timeout(), d.Identity() }
