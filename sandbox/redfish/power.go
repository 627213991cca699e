package redfish

import (
	"net/http"
	"slices"
	"time"
)

// PowerState is a power state of Redfish.
type PowerState string

// The power states of Redfish.
const (
	On          PowerState = "On"
	Off         PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
)

// ResetType is how a client asks for power.
type ResetType string

// The reset types that a BMC allows.
const (
	ResetOn               ResetType = "On"
	ResetForceOff         ResetType = "ForceOff"
	ResetForceRestart     ResetType = "ForceRestart"
	ResetGracefulShutdown ResetType = "GracefulShutdown"
	ResetPowerCycle       ResetType = "PowerCycle"
	ResetPushPowerButton  ResetType = "PushPowerButton"
)

func resetTypes() []ResetType {
	return []ResetType{
		ResetOn, ResetForceOff, ResetForceRestart, ResetGracefulShutdown, ResetPowerCycle, ResetPushPowerButton,
	}
}

// resets returns the reset types that a BMC allows.
func (f *Faults) resets() []ResetType {
	if f.Resets != nil {
		return f.Resets
	}
	return resetTypes()
}

// Host is what the BMC powers. Its methods are safe for concurrent use, and may take their time.
type Host interface {
	PowerOn() error
	PowerOff() error
	State() PowerState
}

// sample is a state of the host, and since when the BMC knows it.
type sample struct {
	state PowerState
	since time.Time
}

// observe asks the host for its state and notes a change.
func (b *BMC) observe() {
	state := b.config.Host.State()
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.history); n == 0 || b.history[n-1].state != state {
		b.history = append(b.history, sample{state, b.config.Now()})
	}
}

// reported returns the state that the BMC shows.
func (b *BMC) reported() PowerState {
	b.observe()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.faults.SaysOff {
		return Off
	}
	if b.faults.StaysPoweringOff && b.stuckOff {
		return PoweringOff
	}
	seen := b.config.Now().Add(-b.faults.Lag)
	for _, s := range slices.Backward(b.history) {
		if !s.since.After(seen) {
			return s.state
		}
	}
	return b.history[0].state
}

func (b *BMC) reset(kind ResetType, faults Faults) answer {
	b.commands.Lock()
	defer b.commands.Unlock()
	b.observe()
	off := b.config.Host.State() == Off
	switch {
	case !slices.Contains(faults.resets(), kind):
		return refusal(http.StatusBadRequest, "Base.1.8.ActionParameterNotSupported", "The reset type isn't allowed.")
	case faults.RefusesCommands != 0:
		return refusal(faults.RefusesCommands, "Base.1.8.InternalError", "The command was refused.")
	case faults.AlreadyOff != 0 && off && turnsOff(kind):
		return refusal(faults.AlreadyOff, "IDRAC.2.8.PSU501", "The server is already powered OFF.")
	case faults.IgnoresCommands:
		return answer{status: http.StatusNoContent}
	case faults.StaysPoweringOff && !off && kind != ResetOn:
		b.setStuckOff(true)
		return answer{status: http.StatusNoContent}
	}
	b.setStuckOff(false)
	if err := b.power(kind, off); err != nil {
		return refusal(http.StatusInternalServerError, "Base.1.8.InternalError", err.Error())
	}
	b.observe()
	return answer{status: http.StatusNoContent}
}

func turnsOff(kind ResetType) bool { return kind == ResetForceOff || kind == ResetGracefulShutdown }

func (b *BMC) setStuckOff(stuck bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stuckOff = stuck
}

func (b *BMC) power(kind ResetType, off bool) error {
	// A button turns off what is on. The other types say what follows.
	turnOff := !off && kind != ResetOn
	turnOn := !turnsOff(kind) && (kind != ResetPushPowerButton || off)
	if turnOff {
		if err := b.config.Host.PowerOff(); err != nil {
			return err
		}
		b.observe()
	}
	if turnOn {
		return b.config.Host.PowerOn()
	}
	return nil
}
