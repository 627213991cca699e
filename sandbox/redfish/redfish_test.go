package redfish_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fettle-io/fettle/sandbox/redfish"
	"github.com/fettle-io/fettle/sandbox/test/powerhost"
)

const (
	user     = "admin"
	password = "open-sesame"
	system   = "/redfish/v1/Systems/1"
	reset    = system + "/Actions/ComputerSystem.Reset"
	sessions = "/redfish/v1/SessionService/Sessions"
)

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type world struct {
	*redfish.BMC
	host   *powerhost.Host
	clock  *clock
	client *http.Client
	log    []redfish.Entry // complete once the request was answered
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{
		host:  powerhost.New(redfish.On),
		clock: &clock{now: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)},
	}
	bmc, err := redfish.Start(redfish.Config{
		User: user, Password: password, Host: w.host, Now: w.clock.Now, MaxSessions: 2, SessionTimeout: time.Hour,
		Log: func(e redfish.Entry) { w.log = append(w.log, e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bmc.Close() })
	w.BMC = bmc
	roots := x509.NewCertPool()
	roots.AddCert(bmc.Certificate())
	w.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) field(name string) string {
	var o map[string]any
	_ = json.Unmarshal(r.body, &o)
	return fmt.Sprint(o[name])
}

func basic(name, secret string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, secret) }
}

func token(r reply) func(*http.Request) {
	return func(q *http.Request) { q.Header.Set("X-Auth-Token", r.header.Get("X-Auth-Token")) }
}

func (w *world) try(ctx context.Context, method, path, body string, auth ...func(*http.Request)) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.URL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return reply{}, err
	}
	for _, a := range auth {
		a(r)
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, raw}, err
}

func (w *world) do(t *testing.T, method, path, body string, auth ...func(*http.Request)) reply {
	t.Helper()
	r, err := w.try(t.Context(), method, path, body, auth...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) state(t *testing.T) string {
	t.Helper()
	return w.do(t, http.MethodGet, system, "", basic(user, password)).field("PowerState")
}

func (w *world) reset(t *testing.T, kind string, more ...func(*http.Request)) reply {
	t.Helper()
	return w.do(t, http.MethodPost, reset, `{"ResetType":"`+kind+`"}`, append(more, basic(user, password))...)
}

func (w *world) open(t *testing.T, secret string) reply {
	t.Helper()
	return w.do(t, http.MethodPost, sessions, `{"UserName":"`+user+`","Password":"`+secret+`"}`)
}

func wantStatus(t *testing.T, r reply, status int) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d: %s", r.status, status, r.body)
	}
}

func TestResetTypes(t *testing.T) {
	for _, c := range []struct {
		kind   string
		from   redfish.PowerState
		status int
		want   redfish.PowerState
		boots  int
	}{
		{"On", redfish.Off, 204, redfish.On, 1},
		{"On", redfish.On, 204, redfish.On, 0},
		{"ForceOff", redfish.On, 204, redfish.Off, 0},
		{"ForceOff", redfish.Off, 204, redfish.Off, 0},
		{"GracefulShutdown", redfish.On, 204, redfish.Off, 0},
		{"ForceRestart", redfish.On, 204, redfish.On, 1},
		{"PowerCycle", redfish.On, 204, redfish.On, 1},
		{"PushPowerButton", redfish.On, 204, redfish.Off, 0},
		{"PushPowerButton", redfish.Off, 204, redfish.On, 1},
		{"Nmi", redfish.On, 400, redfish.On, 0},
	} {
		t.Run(c.kind+" from "+string(c.from), func(t *testing.T) {
			w := start(t)
			w.host.Set(c.from)
			wantStatus(t, w.reset(t, c.kind), c.status)
			w.host.Want(t, c.want, c.boots)
			if got := w.state(t); got != string(c.want) {
				t.Errorf("the BMC says %s, want %s", got, c.want)
			}
		})
	}
}

func TestFaultsOfPower(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults redfish.Faults
		from   redfish.PowerState
		kind   string
		status int
		host   redfish.PowerState
		says   string
	}{
		{"says Off", redfish.Faults{SaysOff: true}, redfish.On, "On", 204, redfish.On, "Off"},
		{"lags", redfish.Faults{Lag: time.Minute}, redfish.On, "ForceOff", 204, redfish.Off, "On"},
		{"stays PoweringOff", redfish.Faults{StaysPoweringOff: true}, redfish.On, "ForceOff", 204, redfish.On, "PoweringOff"},
		{"ignores", redfish.Faults{IgnoresCommands: true}, redfish.On, "ForceOff", 204, redfish.On, "On"},
		{"refuses", redfish.Faults{RefusesCommands: 503}, redfish.On, "ForceOff", 503, redfish.On, "On"},
		{"does not allow it", redfish.Faults{Resets: []redfish.ResetType{redfish.ResetOn}}, redfish.On, "ForceOff", 400, redfish.On, "On"},
		{"allows another", redfish.Faults{Resets: []redfish.ResetType{redfish.ResetOn}}, redfish.Off, "On", 204, redfish.On, "On"},
		{"409 when off", redfish.Faults{AlreadyOff: 409}, redfish.Off, "ForceOff", 409, redfish.Off, "Off"},
		{"400 when off", redfish.Faults{AlreadyOff: 400}, redfish.Off, "GracefulShutdown", 400, redfish.Off, "Off"},
		{"409 only when off", redfish.Faults{AlreadyOff: 409}, redfish.On, "ForceOff", 204, redfish.Off, "Off"},
		{"409 not for on", redfish.Faults{AlreadyOff: 409}, redfish.Off, "On", 204, redfish.On, "On"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			w.host.Set(c.from)
			w.Order(func(f *redfish.Faults) { *f = c.faults })
			wantStatus(t, w.reset(t, c.kind), c.status)
			if got := w.host.State(); got != c.host {
				t.Errorf("the host is %s, want %s", got, c.host)
			}
			if got := w.state(t); got != c.says {
				t.Errorf("the BMC says %s, want %s", got, c.says)
			}
			w.Order(func(f *redfish.Faults) { *f = redfish.Faults{} })
			if got := w.state(t); got != string(c.host) {
				t.Errorf("without the fault the BMC says %s, want %s", got, c.host)
			}
		})
	}
}

func TestLagEnds(t *testing.T) {
	w := start(t)
	w.Order(func(f *redfish.Faults) { f.Lag = time.Minute })
	w.reset(t, "ForceOff")
	w.clock.advance(59 * time.Second)
	if got := w.state(t); got != "On" {
		t.Errorf("within the lag: %s", got)
	}
	w.clock.advance(time.Second)
	if got := w.state(t); got != "Off" {
		t.Errorf("after the lag: %s", got)
	}
}

func TestIfMatch(t *testing.T) {
	w := start(t)
	w.Order(func(f *redfish.Faults) { f.RequiresIfMatch = true })
	match := func(tag string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("If-Match", tag) }
	}
	tag := w.do(t, http.MethodGet, system, "", basic(user, password)).header.Get("ETag")
	wantStatus(t, w.reset(t, "ForceOff"), 412)
	wantStatus(t, w.reset(t, "ForceOff", match(`"other"`)), 412)
	if w.host.State() != redfish.On {
		t.Error("a refused command was carried out")
	}
	wantStatus(t, w.reset(t, "ForceOff", match(tag)), 204)
	wantStatus(t, w.reset(t, "On", match(tag)), 412)
	wantStatus(t, w.reset(t, "On", match("*")), 204)
}

func TestSessions(t *testing.T) {
	w := start(t)
	first, second := w.open(t, password), w.open(t, password)
	wantStatus(t, first, 201)
	third := w.open(t, password)
	wantStatus(t, third, 503)
	if !strings.Contains(string(third.body), "RAC0218") || w.OpenSessions() != 2 {
		t.Errorf("%d sessions are open: %s", w.OpenSessions(), third.body)
	}
	wantStatus(t, w.do(t, http.MethodGet, system, "", token(first)), 200)
	wantStatus(t, w.do(t, http.MethodDelete, first.header.Get("Location"), "", token(first)), 204)
	wantStatus(t, w.do(t, http.MethodGet, system, "", token(first)), 401)
	for range 2 { // each request extends it
		w.clock.advance(59 * time.Minute)
		wantStatus(t, w.do(t, http.MethodGet, system, "", token(second)), 200)
	}
	w.clock.advance(time.Hour)
	if w.OpenSessions() != 0 {
		t.Error("an idle session stays open")
	}
	wantStatus(t, w.do(t, http.MethodGet, system, "", token(second)), 401)
	if got := w.Logins(); got != (redfish.Logins{Accepted: 3}) {
		t.Errorf("logins: %+v", got)
	}
}

func TestFaultsOfAuthentication(t *testing.T) {
	t.Run("no session left", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.NoSessionLeft = true })
		wantStatus(t, w.open(t, password), 503)
		wantStatus(t, w.do(t, http.MethodGet, system, "", basic(user, password)), 200)
	})
	t.Run("no session left for basic authentication", func(t *testing.T) {
		w := start(t)
		before := w.open(t, password)
		w.Order(func(f *redfish.Faults) { f.NoBasic = true })
		wantStatus(t, w.do(t, http.MethodGet, system, "", basic(user, password)), 503)
		wantStatus(t, w.do(t, http.MethodGet, system, "", token(before)), 200)
		wantStatus(t, w.do(t, http.MethodGet, "/redfish/v1/", ""), 200)
	})
	t.Run("unauthorized", func(t *testing.T) {
		w := start(t)
		before := w.open(t, password)
		w.Order(func(f *redfish.Faults) { f.Unauthorized = true })
		wantStatus(t, w.do(t, http.MethodGet, "/redfish/v1/", ""), 401)
		wantStatus(t, w.do(t, http.MethodGet, system, "", basic(user, password)), 401)
		wantStatus(t, w.do(t, http.MethodGet, system, "", token(before)), 401)
		wantStatus(t, w.open(t, password), 401)
		if got := w.Logins(); got != (redfish.Logins{Accepted: 1, Refused: 2}) {
			t.Errorf("logins: %+v", got)
		}
	})
	t.Run("loses sessions", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.SessionUses = 1 })
		s := w.open(t, password)
		wantStatus(t, w.do(t, http.MethodGet, system, "", token(s)), 200)
		wantStatus(t, w.do(t, http.MethodGet, system, "", token(s)), 401)
		w.Order(func(f *redfish.Faults) { f.SessionUses = 0 })
		s = w.open(t, password)
		w.LoseSessions()
		wantStatus(t, w.do(t, http.MethodGet, system, "", token(s)), 401)
	})
	t.Run("lockout", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.LockoutAfter, f.LockoutFor = 2, time.Minute })
		wantStatus(t, w.open(t, "wrong"), 401)
		wantStatus(t, w.open(t, password), 201) // ends the row
		wantStatus(t, w.open(t, "wrong"), 401)
		if w.Locked(user) {
			t.Error("locked after one refused login in a row")
		}
		wantStatus(t, w.do(t, http.MethodGet, system, "", basic(user, "wrong")), 401)
		wantStatus(t, w.open(t, password), 401)
		if got := w.Logins(); !w.Locked(user) || got != (redfish.Logins{Accepted: 1, Refused: 4, Lockouts: 1}) {
			t.Errorf("locked: %t, logins: %+v", w.Locked(user), got)
		}
		w.clock.advance(time.Minute)
		wantStatus(t, w.open(t, password), 201)
	})
}

func TestFaultsOfTransport(t *testing.T) {
	t.Run("another certificate", func(t *testing.T) {
		w := start(t)
		other, err := redfish.NewCertificate("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		w.state(t)
		w.Order(func(f *redfish.Faults) { f.Certificate = &other })
		_, err = w.try(t.Context(), http.MethodGet, system, "")
		if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); !unknown {
			t.Errorf("error: %v", err)
		}
		w.Order(func(f *redfish.Faults) { f.Certificate = nil })
		w.state(t)
	})
	t.Run("hangs", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.Hangs, f.Path = true, reset })
		w.state(t) // another path
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := w.try(ctx, http.MethodPost, reset, `{"ResetType":"ForceOff"}`, basic(user, password))
		if !errors.Is(err, context.DeadlineExceeded) || w.host.State() != redfish.On {
			t.Errorf("error: %v; the host is %s", err, w.host.State())
		}
		w.Order(func(f *redfish.Faults) { f.Hangs = false })
		wantStatus(t, w.reset(t, "ForceOff"), 204)
	})
	t.Run("drops", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.Drops, f.Path = true, reset })
		w.state(t) // another path
		if r, err := w.try(t.Context(), http.MethodPost, reset, `{"ResetType":"ForceOff"}`, basic(user, password)); err == nil || w.host.State() != redfish.On {
			t.Errorf("answer: %+v; the host is %s", r, w.host.State())
		}
		w.Order(func(f *redfish.Faults) { f.Drops = false })
		wantStatus(t, w.reset(t, "ForceOff"), 204)
	})
	t.Run("redirects", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.Redirect = "https://other.example/" })
		r := w.do(t, http.MethodGet, system, "")
		wantStatus(t, r, 307)
		if got := r.header.Get("Location"); got != "https://other.example"+system {
			t.Errorf("redirected to %s", got)
		}
	})
	t.Run("oversized", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.Oversized = 1 << 20 })
		r := w.do(t, http.MethodGet, system, "")
		if len(r.body) < 1<<20 || !json.Valid(r.body) {
			t.Errorf("%d bytes, valid: %t", len(r.body), json.Valid(r.body))
		}
	})
	t.Run("not JSON", func(t *testing.T) {
		w := start(t)
		w.Order(func(f *redfish.Faults) { f.NotJSON = true })
		r := w.do(t, http.MethodGet, system, "")
		wantStatus(t, r, 200)
		if json.Valid(r.body) {
			t.Errorf("JSON: %s", r.body)
		}
	})
}

func TestRequests(t *testing.T) {
	w := start(t)
	s := w.open(t, password)
	w.do(t, http.MethodPost, reset, `{"ResetType":"ForceOff"}`, token(s))
	w.do(t, http.MethodGet, system, "", basic("other", "wrong"))
	at := w.clock.Now()
	want := []redfish.Request{
		{At: at, Method: "POST", Path: sessions, User: user, Status: 201},
		{At: at, Method: "POST", Path: reset, User: user, Reset: redfish.ResetForceOff, Status: 204},
		{At: at, Method: "GET", Path: system, User: "other", Status: 401},
	}
	if got := w.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests: %+v", got)
	}
	if all := fmt.Sprintf("%+v", w.Requests()); strings.Contains(all, password) || strings.Contains(all, "wrong") {
		t.Errorf("a password is in the log: %s", all)
	}
}

func TestUnknown(t *testing.T) {
	w := start(t)
	wantStatus(t, w.do(t, http.MethodGet, system, ""), 401)
	wantStatus(t, w.do(t, http.MethodGet, "/redfish/v1/Nothing", "", basic(user, password)), 404)
	wantStatus(t, w.do(t, http.MethodPatch, system, "{}", basic(user, password)), 405)
	wantStatus(t, w.do(t, http.MethodPost, reset, "no", basic(user, password)), 400)
}

// TestLog: the log has each request when it is answered, and what the BMC has counted until then.
func TestLog(t *testing.T) {
	w := start(t)
	s := w.open(t, password)
	w.open(t, "wrong")
	w.do(t, http.MethodPost, reset, `{"ResetType":"ForceOff"}`, token(s))
	w.do(t, http.MethodDelete, s.header.Get("Location"), "", token(s))
	w.Order(func(f *redfish.Faults) { f.Drops = true })
	if _, err := w.try(t.Context(), http.MethodGet, system, ""); err == nil {
		t.Error("a dropped request was answered")
	}
	want := []struct {
		request       string
		reset         redfish.ResetType
		status        int
		opened        bool
		open, refused int
	}{
		{request: "POST " + sessions, status: 201, opened: true, open: 1},
		{request: "POST " + sessions, status: 401, open: 1, refused: 1},
		{request: "POST " + reset, reset: redfish.ResetForceOff, status: 204, open: 1, refused: 1},
		{request: "DELETE " + s.header.Get("Location"), status: 204, refused: 1},
		{request: "GET " + system, refused: 1},
	}
	if len(w.log) < len(want) { // a client may try again after a connection that was ended
		t.Fatalf("the log is %+v", w.log)
	}
	for i, r := range want {
		e := w.log[i]
		if e.Method+" "+e.Path != r.request || e.Reset != r.reset || e.Status != r.status || e.Open != r.open || e.Logins.Refused != r.refused {
			t.Errorf("entry %d is %+v, want %+v", i, e, r)
		}
		if token := s.header.Get("X-Auth-Token"); (e.Token == token) != r.opened || !r.opened && e.Token != "" {
			t.Errorf("entry %d has the token %q, want that of the session: %t", i, e.Token, r.opened)
		}
	}
}
