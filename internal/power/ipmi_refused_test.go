package power

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/types"
)

// TestIPMIRefusedCommands: BMCs refuse a command without effect, such as to turn a host off that is off. So the state decides.
func TestIPMIRefusedCommands(t *testing.T) {
	for name, tc := range map[string]struct {
		on      bool
		command Command
		code    types.CompletionCode
		want    Reason
	}{
		"off already":            {false, TurnOff, types.CodeNotSupported, ""},
		"on already":             {true, TurnOn, types.CodeNotSupported, ""},
		"it is on":               {true, TurnOff, types.CodeNotSupported, CommandRefused},
		"it is off":              {false, TurnOn, types.CodeNotSupported, CommandRefused},
		"off, with another code": {false, TurnOff, types.CodeNodeBusy, UnexpectedAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			b := startIPMIOf(t, func(c *mock.Chassis) {
				c.On = tc.on
				c.SetPowerHook = func(bool) error { return tc.code }
			})
			h := b.host(t, newClock(), testPassword)
			if tc.want == "" {
				wantCommand(t, h, tc.command)
			} else {
				wantRefused(t, h, tc.command, tc.want)
			}
			if n := b.conn.logins.Load(); n != 1 {
				t.Errorf("the command was %d logins", n)
			}
		})
	}
}

// TestIPMIRefusedCommandWithoutState: a command that was refused has no effect, as far as is known, where the state can't be read.
func TestIPMIRefusedCommandWithoutState(t *testing.T) {
	var refused atomic.Bool
	b := startIPMIOf(t, func(c *mock.Chassis) {
		c.SetPowerHook = func(bool) error {
			refused.Store(true)
			return types.CodeNotSupported
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	answers := 0
	answer := func(datagram []byte) [][]byte {
		if refused.Load() {
			answers++
		}
		if answers == 2 { // the refusal was the first
			cancel()
			return nil
		}
		return [][]byte{datagram}
	}
	b.conn.answer.Store(&answer)
	if at, f := b.host(t, newClock(), testPassword).Command(ctx, TurnOff, ""); f.Reason != CommandRefused {
		t.Errorf("command acknowledged at %s, failure %q, want %q", at, f.Reason, CommandRefused)
	}
}
