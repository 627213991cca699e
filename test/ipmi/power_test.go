package ipmi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// script is how ipmi_sim powers a host: it is called with an address, "get" or "set", "power" and a value. The host is a file.
const script = `#!/bin/sh
if [ "$2 $3" = "get power" ]; then
	echo "power:$(cat %[1]q)"
elif [ "$2 $3" = "set power" ]; then
	echo "$4" >%[1]q
else
	exit 1
fi
`

// world is a BMC with a file for a host, and a relay before it.
type world struct {
	*simulator
	*relay
}

func newWorld(t *testing.T) *world {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, "chassis")
	if err := os.WriteFile(program, fmt.Appendf(nil, script, filepath.Join(folder, "power")), 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	if err := os.WriteFile(filepath.Join(folder, "power"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.simulator = startSimulator(t, folder, fmt.Sprintf("chassis_control %q", program+" 0x20"))
	w.relay = startRelay(t, w.address)
	return w
}

// login returns a host that is reached through the relay.
func (w *world) login(t *testing.T, username, password string) *power.Host {
	t.Helper()
	return w.host(t, w.LocalAddr().String(), username, password)
}

func (w *world) wantPower(t *testing.T, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(w.folder, "power"))
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("the power is %q, want %q: %v", got, want, err)
	}
}

func wantState(t *testing.T, h *power.Host, want fencing.PowerState) {
	t.Helper()
	if reading, f := h.Read(t.Context()); f.Failed() || reading.State != want {
		t.Errorf("read %v and failure %q, want state %v", reading, f, want)
	}
}

func wantCommand(t *testing.T, h *power.Host, command power.Command) {
	t.Helper()
	if at, f := h.Command(t.Context(), command, ""); f.Failed() || at.IsZero() {
		t.Errorf("command %v is acknowledged at %v, failure %q", command, at, f)
	}
}

func wantFailure(t *testing.T, h *power.Host, want power.Reason) {
	t.Helper()
	if reading, f := h.Read(t.Context()); f.Reason != want || reading != (fencing.Reading{}) {
		t.Errorf("read %v and failure %q, want %q", reading, f.Reason, want)
	}
}

func TestPower(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.login(t, operator, password)
	wantState(t, h, fencing.IsOn)
	wantCommand(t, h, power.TurnOff)
	w.wantPower(t, "0")
	wantState(t, h, fencing.IsOff)
	wantCommand(t, h, power.TurnOff)
	wantState(t, h, fencing.IsOff)
	wantCommand(t, h, power.TurnOn)
	w.wantPower(t, "1")
	wantState(t, h, fencing.IsOn)
}

// TestCipherSuite3: this BMC doesn't know suite 17. It refuses that before the login, so there is one login for each operation.
func TestCipherSuite3(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantState(t, w.login(t, operator, password), fencing.IsOn)
	requested, logins, proofs := w.counts()
	if !bytes.Equal(requested, []byte{hmacSHA256, hmacSHA1}) || logins != 1 || proofs != 1 {
		t.Errorf("requested the algorithms %v, with %d logins and %d proofs", requested, logins, proofs)
	}
}

// TestSessionsAreGivenBack: the BMC has 63 sessions, and ends an abandoned one after a minute.
func TestSessionsAreGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.login(t, operator, password)
	for range 100 {
		wantState(t, h, fencing.IsOn)
	}
}

// TestRefusedLogins: a login that is refused is one login, and the third is not tried.
func TestRefusedLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, account := range map[string][2]string{
		"wrong password": {operator, "wrong"}, "unknown user": {"stranger", password}, "case of the user": {"Fettle", password},
		"password that is cut short": {operator, password[:16]},
	} {
		h := w.login(t, account[0], account[1])
		for n, want := range []power.Reason{power.AuthenticationRefused, power.AuthenticationRefused, power.AuthenticationHeld} {
			w.counts()
			wantFailure(t, h, want)
			expected := 1
			if want == power.AuthenticationHeld {
				expected = 0
			}
			if _, logins, proofs := w.counts(); logins != expected || proofs != 0 || h.Refused() != min(n+1, 2) {
				t.Errorf("%s: operation %d made %d logins, with %d proofs; %d refused", name, n, logins, proofs, h.Refused())
			}
		}
		if h.HeldUntil().IsZero() {
			t.Errorf("%s: the BMC is not left alone", name)
		}
	}
	wantState(t, w.login(t, operator, password), fencing.IsOn)
}

// TestHardwareThatFails: where the BMC can't tell or change the power, nothing is read and no command is acknowledged.
func TestHardwareThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.login(t, operator, password)
	wantCommand(t, h, power.TurnOff)
	w.write(t, "chassis", "#!/bin/sh\nexit 1\n")
	wantFailure(t, h, power.UnexpectedAnswer)
	for _, command := range []power.Command{power.TurnOff, power.TurnOn} {
		if at, f := h.Command(t.Context(), command, ""); f.Reason != power.UnexpectedAnswer || !at.IsZero() {
			t.Errorf("command %v is acknowledged at %v, failure %q", command, at, f.Reason)
		}
	}
	if _, logins, _ := w.counts(); logins != 4 || h.Refused() != 0 {
		t.Errorf("%d logins, of which %d are refused", logins, h.Refused())
	}
}
