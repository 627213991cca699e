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
	return opened(watchdog.Open(watchdog.Config{
		Path: w.Device, Timeout: w.Timeout, AllowSoftware: w.Any, AllowVirtualMachine: w.Virtual, MayPet: mayPet,
	}))
}

// opened returns a watchdog that was opened. Else it returns why it won't do, and the watchdog if it is armed all the same.
func opened(device *watchdog.Device, err error) (Device, error) {
	if err == nil {
		return openDevice{device}, nil
	}
	e, is := errors.AsType[*watchdog.Error](err)
	if !is || e.Armed == nil {
		return nil, unavailable(err)
	}
	return openDevice{e.Armed}, unavailable(err)
}

// unavailable returns the error of a watchdog with its reason. Another error has none.
func unavailable(err error) error {
	if e, is := errors.AsType[*watchdog.Error](err); is {
		return &UnavailableError{Reason: Reason(e.Reason), Err: err}
	}
	return err
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
func (d openDevice) Disarm() error { return unavailable(d.Device.Disarm()) }

// State implements Device.
func (d openDevice) State() (time.Duration, string) { return d.Timeout(), d.Identity() }
