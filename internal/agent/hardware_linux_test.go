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

// TestOpened: a watchdog that is armed is kept, also beside an error. The error says why it won't do.
func TestOpened(t *testing.T) {
	t.Parallel()
	other, device := errors.New("other"), &watchdog.Device{}
	for _, tc := range []struct {
		device *watchdog.Device
		err    error
		want   Device
		reason Reason
	}{
		{device, nil, openDevice{device}, ""},
		{nil, other, nil, NoWatchdog},
		{nil, &watchdog.Error{Reason: watchdog.SoftwareWatchdog}, nil, "SoftwareWatchdog"},
		{nil, &watchdog.Error{Reason: watchdog.AlarmOnly, Armed: device}, openDevice{device}, "AlarmOnly"},
	} {
		got, err := opened(tc.device, tc.err)
		if got != tc.want || !errors.Is(err, tc.err) || err != nil && reasonOf(err) != tc.reason {
			t.Errorf("with %v, %v it is %v, %v", tc.device, tc.err, got, err)
		}
	}
	if timeout, identity := (openDevice{device}).State(); timeout != 0 || identity != "" {
		t.Errorf("it has %s, %q", timeout, identity)
	}
}

// TestUnavailableWatchdog: the reason of a watchdog's error is kept, as where there is no way out.
func TestUnavailableWatchdog(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	if err := unavailable(other); err != other { //nolint:errorlint // it is the same
		t.Errorf("another error is %v", err)
	}
	if err := unavailable(nil); err != nil {
		t.Errorf("no error is %v", err)
	}
	fails := &watchdog.Error{Reason: watchdog.NoWayOut}
	if err := unavailable(fails); reasonOf(err) != NoWayOut || !errors.Is(err, fails) {
		t.Errorf("where there is no way out it is %v", err)
	}
}
