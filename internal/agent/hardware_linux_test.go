package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/watchdog"
)

// TestMachine opens no watchdog, and resets nothing.
func TestMachine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, w := range map[Reason]Watchdog{
		NoWatchdog:      {Device: file, Timeout: time.Minute, Virtual: true},
		WatchdogTimeout: {Device: file, Timeout: time.Millisecond, Virtual: true},
	} {
		device, err := NewMachine().Open(w, func() bool { return true })
		var u *UnavailableError
		if device != nil || !errors.As(err, &u) || u.Reason != want || reasonOf(err) != want {
			t.Errorf("opening %+v: %v, %v", w, device, err)
		}
	}
	failed := errors.New("no sysrq")
	if err := (&Machine{failed: failed}).Reset(); !errors.Is(err, failed) {
		t.Errorf("resetting: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	if device, err := refused(other); device != nil || !errors.Is(err, other) || reasonOf(err) != NoWatchdog {
		t.Errorf("another error: %v, %v", device, err)
	}
	if device, err := refused(&watchdog.Error{Reason: watchdog.SoftwareWatchdog}); device != nil || reasonOf(err) != "SoftwareWatchdog" {
		t.Errorf("a watchdog that is not armed: %v, %v", device, err)
	}
	armed := &watchdog.Device{}
	device, err := refused(&watchdog.Error{Reason: watchdog.AlarmOnly, Armed: armed})
	if device != (openDevice{armed}) || reasonOf(err) != "AlarmOnly" {
		t.Errorf("a watchdog that is armed: %v, %v", device, err)
	}
	if timeout, identity := device.State(); timeout != 0 || identity != "" {
		t.Errorf("it has %s, %q", timeout, identity)
	}
}
