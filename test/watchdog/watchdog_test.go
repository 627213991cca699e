package watchdog

import (
	"testing"
	"time"
)

// timeout is what the machine's program sets its watchdogs to.
const timeout = 10 * time.Second

// Events of QEMU when the watchdog fires, and when a machine is reset.
const (
	fired = `WATCHDOG {"action": "reset"}`
	reset = `SHUTDOWN {"guest": true, "reason": "guest-reset"}`
)

func TestWatchdog(t *testing.T) {
	t.Parallel()
	p := get(t)

	// A watchdog is opened, petted, disarmed, opened again and no longer petted.
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		s := p.play(t, "stopped")
		s.want(t, []string{
			"opening it in a virtual machine: VirtualMachine",
			"state: inactive",
			"identity: i6300ESB timer",
			"timeout: 10 seconds",
			"software: false",
			"opening it again: WatchdogBusy",
			"opening it by its other name: WatchdogBusy",
			"petted for: 3 timeouts",
			"state: inactive",
			"disarmed for: 3 timeouts",
		}, []string{fired, reset})
		if ran := s.between(t, "last pet"); ran <= timeout*9/10 || ran >= 2*timeout {
			t.Errorf("the machine ran for %s after the last pet", ran)
		}
	})

	// The process that holds the watchdog is killed when eight tenths of the timeout are over. The watchdog stays armed. The kernel pets it
	// once more.
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		s := p.play(t, "killed")
		s.want(t, []string{"state: active"}, []string{fired, reset})
		if ran := s.between(t, "last pet"); ran <= timeout*17/10 || ran >= 2*timeout {
			t.Errorf("the machine ran for %s after the last pet", ran)
		}
	})

	// A watchdog of software can't be disarmed. Then the machine is reset by sysrq, with the memory locked.
	t.Run("commanded", func(t *testing.T) {
		t.Parallel()
		s := p.play(t, "commanded")
		s.want(t, []string{
			"opening the one of software: SoftwareWatchdog",
			"state: inactive",
			"identity: Software Watchdog",
			"software: true",
			"disarming: NoWayOut",
			"petted for: 3 timeouts",
			"locked any memory: true",
		}, []string{reset})
		if ran := s.between(t, "resetting"); ran >= timeout/10 {
			t.Errorf("the machine ran for %s after the command", ran)
		}
	})
}
