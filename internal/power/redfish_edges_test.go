package power

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	rootPath   = "/redfish/v1/"
	systemPath = "/redfish/v1/Systems/1"
)

// refusing answers requests of one path with a status.
func refusing(path string, status int) func(http.ResponseWriter, *http.Request) bool {
	return onPath(path, func(w http.ResponseWriter) { refuse(w, status) })
}

// either answers a request by the first fault that does.
func either(faults ...func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return slices.ContainsFunc(faults, func(fault func(http.ResponseWriter, *http.Request) bool) bool { return fault(w, r) })
	}
}

func TestRedfishCommandsThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		power   string
		allowed []string
		fault   func(http.ResponseWriter, *http.Request) bool
		want    Reason
	}{
		"there is no such system":       {"On", nil, refusing(systemPath, http.StatusNotFound), UnsupportedSystem},
		"it has one other reset":        {"On", []string{"GracefulShutdown"}, nil, ResetNotAllowed},
		"it has a fault, and is off":    {"Off", nil, refusing(resetPath, http.StatusInternalServerError), UnexpectedAnswer},
		"it refuses, and says no state": {"", nil, refusing(resetPath, http.StatusConflict), CommandRefused},
	} {
		b := plainRedfish(t)
		b.power, b.allowed, b.fault = tc.power, tc.allowed, tc.fault
		if f := wantRefused(t, b.host(t, newClock(), testPassword), TurnOff, tc.want); len(b.resets) != 0 {
			t.Errorf("%s: commands %v were accepted, %v", name, b.resets, f)
		}
	}
}

func TestRedfishListsOfSystems(t *testing.T) {
	const list = "/redfish/v1/Systems"
	for name, tc := range map[string]struct {
		systems []string
		fault   func(http.ResponseWriter, *http.Request) bool
		want    Failure
	}{
		"it can't be read":    {nil, refusing(list, http.StatusInternalServerError), Failure{Reason: UnexpectedAnswer, HTTPStatus: 500}},
		"it is no list":       {nil, onPath(list, func(w http.ResponseWriter) { _, _ = io.WriteString(w, "[") }), Failure{Reason: UnexpectedAnswer}},
		"it leads elsewhere":  {[]string{"../../x"}, nil, Failure{Reason: UnsupportedSystem}},
		"it names no systems": {nil, nil, Failure{Reason: UnsupportedSystem}},
	} {
		b := plainRedfish(t)
		b.systems, b.fault, b.address.System = tc.systems, tc.fault, ""
		h := b.host(t, newClock(), testPassword)
		if _, f := h.Read(t.Context()); f != tc.want {
			t.Errorf("%s: failure %+v, want %+v", name, f, tc.want)
		}
		if last := b.requests[len(b.requests)-1]; last != "GET "+list {
			t.Errorf("%s: the last request is %s", name, last)
		}
	}
}

// TestRedfishSessionsAreKept through failures that are not about them, and a refused session is forgotten.
func TestRedfishSessionsAreKept(t *testing.T) {
	b := plainRedfish(t)
	b.fault = refusing(systemPath, http.StatusInternalServerError)
	h := b.host(t, newClock(), testPassword)
	wantFailure(t, h, UnexpectedAnswer)
	wantFailure(t, h, UnexpectedAnswer)
	b.set(func() { b.fault = nil })
	wantState(t, h, fencing.IsOn)
	if b.made != 1 || len(b.sessions) != 1 {
		t.Errorf("%d sessions were made, and %d are left; want one", b.made, len(b.sessions))
	}
	b.set(func() {
		clear(b.sessions)
		b.fault = refusing(sessionsPath, http.StatusUnauthorized)
	})
	reads := b.count("GET " + systemPath)
	wantFailure(t, h, AuthenticationRefused)
	wantFailure(t, h, AuthenticationRefused)
	if n := b.count("GET "+systemPath) - reads; n != 1 {
		t.Errorf("a session that was refused has been used %d times", n)
	}
}

// TestRedfishCredentialsWithEachRequest are used as long as that works. After a failure a session is tried first.
func TestRedfishCredentialsWithEachRequest(t *testing.T) {
	b := plainRedfish(t)
	full := refusing(sessionsPath, http.StatusServiceUnavailable)
	broken := refusing(systemPath, http.StatusInternalServerError)
	b.fault = full
	h := b.host(t, newClock(), testPassword)
	for range 3 {
		wantState(t, h, fencing.IsOn)
	}
	if n := b.count(loginRequest); n != 1 {
		t.Errorf("a session was requested %d times, want once", n)
	}
	b.set(func() { b.fault = either(full, broken) })
	wantFailure(t, h, UnexpectedAnswer)
	wantFailure(t, h, UnexpectedAnswer)
	if n := b.count(loginRequest); n != 2 {
		t.Errorf("a session was requested %d times, want twice", n)
	}
	b.set(func() { b.fault = nil })
	wantState(t, h, fencing.IsOn)
	h.Close(t.Context())
	if b.made != 1 || len(b.sessions) != 0 {
		t.Errorf("%d sessions were made, and %d are left", b.made, len(b.sessions))
	}
}

// TestRedfishRefusedCredentialsAreOneLogin, also where they have worked before.
func TestRedfishRefusedCredentialsAreOneLogin(t *testing.T) {
	b := plainRedfish(t)
	full := refusing(sessionsPath, http.StatusServiceUnavailable)
	b.fault = full
	h := b.host(t, newClock(), testPassword)
	wantState(t, h, fencing.IsOn)
	var refused int
	b.set(func() {
		b.fault = either(full, onPath(systemPath, func(w http.ResponseWriter) {
			refused++
			refuse(w, http.StatusUnauthorized)
		}))
	})
	wantFailure(t, h, AuthenticationRefused)
	if refused != 1 {
		t.Errorf("one operation was %d logins", refused)
	}
}

func TestRedfishServiceThatBreaksAtTheLogin(t *testing.T) {
	b := plainRedfish(t)
	roots := 0
	b.fault = either(refusing(sessionsPath, http.StatusServiceUnavailable), func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != rootPath {
			return false
		}
		roots++
		if roots == 1 {
			return false
		}
		refuse(w, http.StatusInternalServerError)
		return true
	})
	if f := wantFailure(t, b.host(t, newClock(), testPassword), UnexpectedAnswer); f.HTTPStatus != http.StatusInternalServerError {
		t.Errorf("the failure is %+v", f)
	}
}

func TestRedfishSessionWithoutToken(t *testing.T) {
	b := plainRedfish(t)
	b.fault = onPath(sessionsPath, func(w http.ResponseWriter) {
		w.Header().Set("Location", sessionsPath+"/1")
		w.WriteHeader(http.StatusCreated)
	})
	wantState(t, b.host(t, newClock(), testPassword), fencing.IsOn)
	if b.basic == 0 {
		t.Error("a session without a token has been used")
	}
}

// TestRedfishDriverAfterClose: it logs in anew, and gives back only what it has.
func TestRedfishDriverAfterClose(t *testing.T) {
	for _, fault := range []func(http.ResponseWriter, *http.Request) bool{nil, refusing(sessionsPath, http.StatusServiceUnavailable)} {
		b := plainRedfish(t)
		b.fault = fault
		d := openRedfish(Config{Address: b.address}, mustCredentials(t, testUser, testPassword))
		d.Close(t.Context())
		for range 2 {
			if state, f := d.State(t.Context()); f.Failed() || state != fencing.IsOn {
				t.Errorf("read %v, %v", state, f)
			}
			d.Close(t.Context())
		}
		logins, ends := b.count(loginRequest), 0
		for _, r := range b.requests {
			if strings.HasPrefix(r, "DELETE") {
				ends++
			}
		}
		if logins != 2 || ends != b.made {
			t.Errorf("%d logins; of %d sessions %d were given back", logins, b.made, ends)
		}
	}
}

// TestRedfishConnectionIsClosed once the session is given back over it, and also where there is none.
func TestRedfishConnectionIsClosed(t *testing.T) {
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"with a session": nil, "with credentials": refusing(sessionsPath, http.StatusServiceUnavailable), "refused": refusing(sessionsPath, http.StatusUnauthorized),
	} {
		states := make(chan http.ConnState, 100)
		b := startRedfish(t, func(h http.Handler) *httptest.Server {
			server := httptest.NewUnstartedServer(h)
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew || s == http.StateClosed {
					states <- s
				}
			}
			server.Start()
			return server
		})
		b.fault = fault
		h := b.host(t, newClock(), testPassword)
		h.Read(t.Context())
		h.Close(t.Context())
		for _, want := range []http.ConnState{http.StateNew, http.StateClosed} {
			select {
			case got := <-states:
				if got != want {
					t.Errorf("%s: a connection is %s, want %s", name, got, want)
				}
			case <-time.After(testTimeout):
				t.Fatalf("%s: no connection is %s", name, want)
			}
		}
		select {
		case got := <-states:
			t.Errorf("%s: another connection is %s", name, got)
		default:
		}
	}
}

// tracked answers each request with one body, and counts the bodies that are open.
type tracked struct {
	body []byte
	open int
}

func (b *tracked) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := served(b.body).RoundTrip(r)
	response.Body = &trackedBody{response.Body, b}
	b.open++
	return response, err
}

type trackedBody struct {
	io.ReadCloser

	of *tracked
}

func (b *trackedBody) Close() error {
	b.of.open--
	return b.ReadCloser.Close()
}

func TestRedfishBodiesAreClosed(t *testing.T) {
	answers := &tracked{body: []byte(`{"PowerState":"Off","Links":{"Sessions":{"@odata.id":"/x"}},"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`)}
	d := openRedfish(Config{Address: Address{Protocol: Redfish, Host: "h", Port: 1}}, mustCredentials(t, "a", "b")).(*redfish)
	d.http = &http.Client{Transport: answers}
	if state, f := d.State(t.Context()); f.Failed() || state != fencing.IsOff || answers.open != 0 || !bytes.Contains(answers.body, []byte(d.system)) {
		t.Errorf("read %v, %v of %s; %d bodies are open", state, f, d.system, answers.open)
	}
}
