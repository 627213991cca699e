// Package powerhost has a host for tests of BMCs. It obeys at once.
package powerhost

import (
	"strings"
	"sync"
	"testing"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// Host is a host that obeys at once. It is safe for concurrent use.
type Host struct {
	mu    sync.Mutex
	state redfish.PowerState
	boots int
}

// New returns a host in a state, which has not booted yet.
func New(state redfish.PowerState) *Host { return &Host{state: state} }

// PowerOn turns the host on. A host that was not on boots.
func (h *Host) PowerOn() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != redfish.On {
		h.boots++
	}
	h.state = redfish.On
	return nil
}

// PowerOff turns the host off.
func (h *Host) PowerOff() error {
	h.Set(redfish.Off)
	return nil
}

// Set sets the state without a boot.
func (h *Host) Set(state redfish.PowerState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = state
}

// State returns the state.
func (h *Host) State() redfish.PowerState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// Want checks the state and how often the host has booted.
func (h *Host) Want(t *testing.T, state redfish.PowerState, boots int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != state || h.boots != boots {
		t.Errorf("the host is %s after %d boots, want %s after %d", h.state, h.boots, state, boots)
	}
}

// WantFencedBy checks what an agent of fence-agents does with a host that is on. Run runs an action of the agent with a password.
func (h *Host) WantFencedBy(t *testing.T, password string, run func(password, action string) (string, error)) {
	t.Helper()
	for _, step := range []struct {
		action, says string
		state        redfish.PowerState
		boots        int
	}{
		{"status", "Status: ON", redfish.On, 0},
		{"off", "Success: Powered OFF", redfish.Off, 0},
		{"on", "Success: Powered ON", redfish.On, 1},
		{"reboot", "Success: Rebooted", redfish.On, 2},
	} {
		out, err := run(password, step.action)
		if err != nil || !strings.Contains(out, step.says) {
			t.Errorf("%s: %v\n%s", step.action, err, out)
		}
		h.Want(t, step.state, step.boots)
	}
	if out, err := run("wrong", "off"); err == nil {
		t.Errorf("off with a wrong password: %s", out)
	}
	h.Want(t, redfish.On, 2)
}
