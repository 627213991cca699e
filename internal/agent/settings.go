package agent

import (
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// Settings are what a policy demands of the agent of a node. The zero value is that of a node that no policy selects.
type Settings struct {
	Watchdog Watchdog `json:"watchdog"`
	// Renewal is the time between two grants, and Validity how long a grant of a timed promise is valid.
	Renewal  time.Duration `json:"renewal"`
	Validity time.Duration `json:"validity"`
	// Reset is set if the node is to reset when it is cut off. That takes a timed promise, and witnesses.
	Reset bool `json:"reset"`
	// Witnesses is how many witnesses the policy demands. With Reset, zero are as many as a promise may name, or fewWitnesses where fewer agents can
	// be witnesses.
	Witnesses int `json:"witnesses"`
}

// Watchdog is what a policy demands of the watchdog of a node.
type Watchdog struct {
	// Device is the path of the device.
	Device string `json:"device"`
	// Timeout is the timeout to set. The device may round it.
	Timeout time.Duration `json:"timeout"`
	// Any allows a watchdog in software.
	Any bool `json:"any"`
	// Virtual allows a virtual machine, whose clock stops while it is paused.
	Virtual bool `json:"virtual"`
}

// Bounds of settings. They are wider than those of the policy, and keep a loop from running hot.
const (
	minRenewal = time.Second
	maxRenewal = time.Hour
	maxDevice  = 256
	// mostWitnesses is how many witnesses a promise may name. With fewWitnesses there is a majority beside a witness that has ended.
	mostWitnesses = 5
	fewWitnesses  = 3
)

// demands returns how many witnesses a promise is to name, the preferred number first. None are demanded of a node that goes on when it is cut off.
func (s Settings) demands() []int {
	switch {
	case !s.Reset:
		return nil
	case s.Witnesses == 0:
		return []int{mostWitnesses, fewWitnesses}
	}
	return []int{s.Witnesses}
}

// Valid reports whether the settings are within bounds.
func (s Settings) Valid() bool {
	times := selffence.Times{Validity: s.Validity, Watchdog: s.Watchdog.Timeout}
	return times.Valid() && s.Renewal >= minRenewal && s.Renewal <= maxRenewal && s.Watchdog.Device != "" && len(s.Watchdog.Device) <= maxDevice &&
		s.Witnesses >= 0 && s.Witnesses <= mostWitnesses
}
