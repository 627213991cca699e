package power

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// played is a connection that does as a test says.
type played struct {
	call   func(context.Context) (fencing.PowerState, Failure)
	closed func(context.Context)
}

func (p *played) State(ctx context.Context) (fencing.PowerState, Failure) { return p.call(ctx) }

func (p *played) Off(ctx context.Context) Failure { _, f := p.call(ctx); return f }

func (p *played) On(ctx context.Context) Failure { _, f := p.call(ctx); return f }

func (p *played) Close(ctx context.Context) { p.closed(ctx) }

// play returns a host of which each operation returns the next reason, and how often a connection was opened and closed.
func play(t *testing.T, c *testClock, reasons ...Reason) (h *Host, opened, closed *int) {
	t.Helper()
	opened, closed = new(int), new(int)
	h = NewHost(Config{Now: c.now}, mustCredentials(t, testUser, testPassword))
	h.open = func(Config, Credentials) connection {
		*opened++
		return &played{
			call: func(context.Context) (fencing.PowerState, Failure) {
				next := reasons[0]
				reasons = reasons[1:]
				return fencing.IsOff, Failure{Reason: next}
			},
			closed: func(context.Context) { *closed++ },
		}
	}
	return h, opened, closed
}

// Two refused logins in succession hold the BMC for fifteen minutes, and after that each further one does.
func TestHold(t *testing.T) {
	c := newClock()
	h, _, _ := play(t, c, AuthenticationRefused, "", AuthenticationRefused, TimedOut, AuthenticationRefused, AuthenticationRefused, "")
	first := wantFailure(t, h, AuthenticationRefused)
	if !first.HeldUntil.IsZero() || !h.HeldUntil().IsZero() {
		t.Errorf("one refused login holds until %v", first.HeldUntil)
	}
	wantState(t, h, fencing.IsOff)
	wantFailure(t, h, AuthenticationRefused)
	wantFailure(t, h, TimedOut)
	second := wantRefused(t, h, TurnOff, AuthenticationRefused)
	if until := second.HeldUntil; until.IsZero() || !h.HeldUntil().Equal(until) {
		t.Errorf("two refused logins hold until %v, and the host says %v", until, h.HeldUntil())
	}
	held := wantFailure(t, h, AuthenticationHeld)
	if !held.HeldUntil.Equal(second.HeldUntil) {
		t.Errorf("held until %v, want %v", held.HeldUntil, second.HeldUntil)
	}
	c.forward(15*time.Minute - 10*time.Millisecond)
	wantRefused(t, h, TurnOn, AuthenticationHeld)
	c.forward(10 * time.Millisecond)
	third := wantFailure(t, h, AuthenticationRefused)
	if third.HeldUntil.Sub(second.HeldUntil) < 15*time.Minute {
		t.Errorf("the third refused login holds until %v", third.HeldUntil)
	}
	c.forward(15 * time.Minute)
	wantState(t, h, fencing.IsOff)
}

func TestNewCredentialsEndTheHold(t *testing.T) {
	c := newClock()
	h, opened, closed := play(t, c, AuthenticationRefused, AuthenticationRefused, "")
	wantFailure(t, h, AuthenticationRefused)
	wantFailure(t, h, AuthenticationRefused)
	h.SetCredentials(mustCredentials(t, testUser, testPassword))
	wantFailure(t, h, AuthenticationHeld) // they are the same
	h.SetCredentials(mustCredentials(t, testUser, "another"))
	if !h.HeldUntil().IsZero() {
		t.Error("new credentials are held")
	}
	wantState(t, h, fencing.IsOff)
	if *opened != 2 || *closed != 1 {
		t.Errorf("%d connections, of which %d were closed", *opened, *closed)
	}
}

// A login with credentials that were replaced meanwhile says nothing of the new ones.
func TestRefusalOfReplacedCredentialsDoesNotCount(t *testing.T) {
	c := newClock()
	h := NewHost(Config{Now: c.now}, mustCredentials(t, testUser, testPassword))
	h.open = func(Config, Credentials) connection {
		return &played{
			call: func(context.Context) (fencing.PowerState, Failure) {
				h.SetCredentials(mustCredentials(t, testUser, c.now().String()))
				return fencing.IsOff, Failure{Reason: AuthenticationRefused}
			},
			closed: func(context.Context) {},
		}
	}
	for range 5 {
		wantFailure(t, h, AuthenticationRefused)
	}
}

func TestOneOperationAtATime(t *testing.T) {
	c := newClock()
	h, _, _ := play(t, c)
	var running, most int
	var mu sync.Mutex
	h.open = func(Config, Credentials) connection {
		return &played{call: func(context.Context) (fencing.PowerState, Failure) {
			running++ // the race detector sees two at once
			mu.Lock()
			most = max(most, running)
			mu.Unlock()
			running--
			return fencing.IsOn, Failure{}
		}}
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { h.Read(t.Context()) })
	}
	group.Wait()
	if most != 1 {
		t.Errorf("%d operations at once", most)
	}
}

func TestWaitingForTheTurnEnds(t *testing.T) {
	h, _, _ := play(t, newClock())
	h.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, f := h.Read(ctx); f.Reason != Interrupted {
		t.Errorf("failure %v, want Interrupted", f)
	}
	late, over := context.WithTimeout(t.Context(), 0)
	defer over()
	if _, f := h.Read(late); f.Reason != Busy {
		t.Errorf("failure %v, want Busy", f)
	}
	h.Close(ctx)
}

// TestResume: a later process goes on with the count of refused logins, and leaves the BMC alone until the same instant.
func TestResume(t *testing.T) {
	c := newClock()
	h, _, _ := play(t, c)
	until := c.now().Add(time.Minute)
	h.Resume(1, until)
	if h.Refused() != 1 || !h.HeldUntil().Equal(until) {
		t.Errorf("%d refused, held until %s", h.Refused(), h.HeldUntil())
	}
	if _, f := h.Read(t.Context()); f.Reason != AuthenticationHeld || !f.HeldUntil.Equal(until) {
		t.Errorf("failure %v, want the instant %s", f, until)
	}
	other, err := NewCredentials("other", "other")
	if err != nil {
		t.Fatal(err)
	}
	h.SetCredentials(other)
	if h.Refused() != 0 || !h.HeldUntil().IsZero() {
		t.Errorf("with other credentials, %d refused, held until %s", h.Refused(), h.HeldUntil())
	}
}

func TestPanicOfADriver(t *testing.T) {
	h, _, _ := play(t, newClock())
	h.open = func(Config, Credentials) connection {
		return &played{
			call:   func(context.Context) (fencing.PowerState, Failure) { panic(testPassword) },
			closed: func(context.Context) { panic(testPassword) },
		}
	}
	wantFailure(t, h, UnexpectedAnswer)
	h.Close(t.Context())
	wantFailure(t, h, UnexpectedAnswer)
}

func TestOperationsAreBounded(t *testing.T) {
	h, _, _ := play(t, newClock())
	var bounded bool
	h.open = func(Config, Credentials) connection {
		return &played{call: func(ctx context.Context) (fencing.PowerState, Failure) {
			_, bounded = ctx.Deadline()
			return fencing.IsOn, Failure{}
		}}
	}
	wantState(t, h, fencing.IsOn)
	if !bounded || h.config.Timeout != usualTimeout {
		t.Errorf("an operation has a limit: %v, of %v", bounded, h.config.Timeout)
	}
}

func TestCredentials(t *testing.T) {
	for _, bad := range [][2]string{{"", "x"}, {"x", ""}, {strings.Repeat("x", 257), "x"}, {"x", strings.Repeat("x", 257)}} {
		if _, err := NewCredentials(bad[0], bad[1]); err == nil {
			t.Errorf("credentials of %d and %d bytes were accepted", len(bad[0]), len(bad[1]))
		}
	}
	one := mustCredentials(t, "a", "b")
	if one.String() != redacted || one.GoString() != redacted {
		t.Errorf("credentials are shown as %s", one.String())
	}
	if !one.Same(mustCredentials(t, "a", "b")) || one.Same(mustCredentials(t, "a", "c")) || one.Same(mustCredentials(t, "c", "b")) ||
		one.Same(Credentials{}) {
		t.Error("credentials are compared wrongly")
	}
}

func TestTrustErrors(t *testing.T) {
	for name, c := range map[string]struct{ authorities, fingerprint string }{
		"both": {"x", "y"}, "no certificate": {"x", ""}, "large": {strings.Repeat("x", maxBundle+1), ""},
		"not hexadecimal": {"", strings.Repeat("x", 64)}, "too short": {"", "abcd"}, "SHA-512": {"", strings.Repeat("ab", 64)},
	} {
		if _, err := NewTrust([]byte(c.authorities), c.fingerprint); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// rendered returns every way in which a value may be shown.
func rendered(t *testing.T, values ...any) string {
	t.Helper()
	var text strings.Builder
	log := slog.New(slog.NewJSONHandler(&text, nil))
	for _, value := range values {
		fmt.Fprintf(&text, "%v %+v %#v %s %q %x %d\n", value, value, value, value, value, value, value)
		log.Info("", "value", value)
		if raw, err := json.Marshal(value); err == nil {
			text.Write(raw)
		}
		if err, ok := value.(error); ok {
			text.WriteString(err.Error() + errors.Unwrap(fmt.Errorf("%w", err)).Error())
		}
	}
	return text.String()
}

// After each fault, nothing that can be shown contains the credentials or a token.
func TestCredentialsAreNeverShown(t *testing.T) {
	faults := map[string]func(http.ResponseWriter, *http.Request) bool{
		"none":          nil,
		"refused login": onPath(sessionsPath, func(w http.ResponseWriter) { refuse(w, http.StatusUnauthorized) }),
		"no session":    onPath(sessionsPath, func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable) }),
		"refused read":  onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) { refuse(w, http.StatusForbidden) }),
		"server error":  onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) { refuse(w, http.StatusInternalServerError) }),
		"refused reset": onPath(resetPath, func(w http.ResponseWriter) { refuse(w, http.StatusBadRequest) }),
		"unreadable":    onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) { fmt.Fprint(w, testPassword) }),
		"redirect": onPath(sessionsPath, func(w http.ResponseWriter) {
			w.Header().Set("Location", "/"+testPassword)
			w.WriteHeader(http.StatusFound)
		}),
		"echo in status": onPath(sessionsPath, func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot); fmt.Fprint(w, testUser, testPassword) }),
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			b := plainRedfish(t)
			b.fault = fault
			h := b.host(t, newClock(), testPassword)
			reading, readFailure := h.Read(t.Context())
			at, failure := h.Command(t.Context(), TurnOff, "")
			wantSecretsAbsent(t, rendered(t, h, *h.opened.(*redfish), h.credentials, &h.credentials, h.config, reading, readFailure, at, failure))
		})
	}
	b := startIPMI(t)
	for _, password := range []string{testPassword, testPassword[1:]} {
		h := b.host(t, newClock(), password)
		reading, failure := h.Read(t.Context())
		wantSecretsAbsent(t, rendered(t, h, *h.opened.(*lanplus), reading, failure))
	}
	_, err := NewCredentials(testUser, strings.Repeat(testPassword, 99))
	wantSecretsAbsent(t, rendered(t, err))
	_, err = ParseAddress("redfish://" + testUser + ":" + testPassword + "@h")
	wantSecretsAbsent(t, rendered(t, err))
}

func wantSecretsAbsent(t *testing.T, shown string) {
	t.Helper()
	for _, secret := range []string{testUser, testPassword, testPassword[1:], "token-1", fmt.Sprintf("%x", testPassword)} {
		if strings.Contains(shown, secret) {
			t.Errorf("%q is shown in %.2000s", secret, shown)
		}
	}
}

// Each reason has words of its own.
func TestMessages(t *testing.T) {
	seen := map[string]Reason{}
	for _, reason := range []Reason{
		"", AuthenticationRefused, AuthenticationHeld, CredentialsUnusable, PermissionDenied, CertificateNotTrusted, CipherSuitesRefused,
		Unreachable, TimedOut, Interrupted, Busy, NoSessionLeft, ResetNotAllowed, UnsupportedSystem, CommandRefused, UnexpectedAnswer,
	} {
		text := Failure{Reason: reason}.String()
		if other, found := seen[text]; found || text == "" {
			t.Errorf("%q and %q have the message %q", reason, other, text)
		}
		seen[text] = reason
	}
	full := Failure{Reason: AuthenticationRefused, HTTPStatus: 401, Fingerprint: "ab", HeldUntil: time.Unix(0, 0)}.String()
	if want := "the BMC refused the credentials, status 401, SHA-256 fingerprint ab, until 1970-01-01T00:00:00Z"; full != want {
		t.Errorf("%q, want %q", full, want)
	}
}
