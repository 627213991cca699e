package power

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fettle-io/fettle/internal/fencing"
)

// redfishBMC is a BMC with Redfish on the loopback. Tests order its faults.
type redfishBMC struct {
	mu sync.Mutex
	// power is what it says of the power.
	power string
	// systems are the identifiers of its systems, and allowed the resets that it says it has.
	systems, allowed []string
	// sessions are the tokens of its sessions, and made is how many it has made.
	sessions map[string]bool
	made     int
	// requests are the methods and paths that it has answered, and resets the bodies of commands.
	requests, resets []string
	// fault, if set, answers a request in its place and reports whether it did.
	fault func(http.ResponseWriter, *http.Request) bool
	// basic counts requests with the credentials.
	basic int
	// etag is set if a system has an ETag, and refuseMatch if a command with If-Match is refused.
	etag, refuseMatch bool

	server  *httptest.Server
	address Address
}

// startRedfish starts a BMC of which the host is on.
func startRedfish(t *testing.T, start func(http.Handler) *httptest.Server) *redfishBMC {
	t.Helper()
	b := &redfishBMC{power: "On", systems: []string{"1"}, allowed: []string{"On", "ForceOff"}, sessions: map[string]bool{}}
	b.server = start(b)
	t.Cleanup(b.server.Close)
	at, err := url.Parse(b.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.address, err = ParseAddress("redfish+" + b.server.URL + "/redfish/v1/Systems/1")
	if err != nil {
		t.Fatal(err)
	}
	if at.Port() != strconv.Itoa(int(b.address.Port)) {
		t.Fatalf("the address is %v", b.address)
	}
	return b
}

// plainRedfish starts a BMC without TLS.
func plainRedfish(t *testing.T) *redfishBMC {
	t.Helper()
	return startRedfish(t, httptest.NewServer)
}

func (b *redfishBMC) host(t *testing.T, c *testClock, password string) *Host {
	t.Helper()
	return NewHost(Config{Address: b.address, Now: c.now, Timeout: testTimeout}, mustCredentials(t, testUser, password))
}

// set changes the BMC.
func (b *redfishBMC) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// count returns how many requests had a method and a path.
func (b *redfishBMC) count(request string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(b.requests), func(r string) bool { return r != request }))
}

const (
	sessionsPath = "/redfish/v1/SessionService/Sessions"
	loginRequest = "POST " + sessionsPath
	resetPath    = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
)

func (b *redfishBMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, r.Method+" "+r.URL.Path)
	if b.fault != nil && b.fault(w, r) {
		return
	}
	switch {
	case r.URL.Path == "/redfish/v1/":
		answer(w, map[string]any{"Links": map[string]any{"Sessions": map[string]any{"@odata.id": sessionsPath}}})
	case r.URL.Path == sessionsPath:
		b.login(w, r)
	case !b.allowedIn(r):
		refuse(w, http.StatusUnauthorized)
	default:
		b.serve(w, r)
	}
}

func (b *redfishBMC) login(w http.ResponseWriter, r *http.Request) {
	var given struct{ UserName, Password string }
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil || given.UserName != testUser || given.Password != testPassword {
		refuse(w, http.StatusUnauthorized)
		return
	}
	b.made++
	token := fmt.Sprint("token-", b.made)
	b.sessions[token] = true
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", sessionsPath+"/"+token)
	w.WriteHeader(http.StatusCreated)
}

func (b *redfishBMC) allowedIn(r *http.Request) bool {
	username, password, basic := r.BasicAuth()
	if basic {
		b.basic++
	}
	return b.sessions[r.Header.Get("X-Auth-Token")] || basic && username == testUser && password == testPassword
}

func (b *redfishBMC) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodDelete:
		delete(b.sessions, strings.TrimPrefix(r.URL.Path, sessionsPath+"/"))
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/redfish/v1/Systems":
		members := []map[string]any{}
		for _, id := range b.systems {
			members = append(members, map[string]any{"@odata.id": systemsPath + id})
		}
		answer(w, map[string]any{"Members": members})
	case r.URL.Path == resetPath && r.Method == http.MethodPost:
		b.reset(w, r)
	case r.URL.Path == "/redfish/v1/Systems/1":
		b.system(w)
	default:
		refuse(w, http.StatusNotFound)
	}
}

func (b *redfishBMC) system(w http.ResponseWriter) {
	if b.etag {
		w.Header().Set("ETag", `"1"`)
	}
	answer(w, map[string]any{
		"@odata.id": "/redfish/v1/Systems/1", "PowerState": b.power,
		"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{
			"target": resetPath, "ResetType@Redfish.AllowableValues": b.allowed,
		}},
	})
}

func (b *redfishBMC) reset(w http.ResponseWriter, r *http.Request) {
	if b.refuseMatch && r.Header.Get("If-Match") != "" {
		refuse(w, http.StatusPreconditionFailed)
		return
	}
	var given struct{ ResetType string }
	if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
		refuse(w, http.StatusInternalServerError)
		return
	}
	b.resets = append(b.resets, given.ResetType)
	wanted := map[string]string{"On": "On", "ForceOff": "Off"}[given.ResetType]
	if b.power == wanted {
		refuse(w, http.StatusConflict)
		return
	}
	b.power = wanted
	w.WriteHeader(http.StatusNoContent)
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

// refuse answers with an error that repeats the credentials, as a BMC may.
func refuse(w http.ResponseWriter, status int) { refuseAs(w, status, "Base.1.0.GeneralError") }

func refuseAs(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	answer(w, map[string]any{"error": map[string]any{
		"code": "Base.1.0.GeneralError", "message": testUser + " may not use " + testPassword,
		"@Message.ExtendedInfo": []map[string]any{{"MessageId": message}},
	}})
}

func TestRedfishPower(t *testing.T) {
	b := plainRedfish(t)
	h := b.host(t, newClock(), testPassword)
	wantState(t, h, fencing.IsOn)
	wantCommand(t, h, TurnOff)
	wantState(t, h, fencing.IsOff)
	wantCommand(t, h, TurnOff) // refused with 409, since it is off already
	wantCommand(t, h, TurnOn)
	wantState(t, h, fencing.IsOn)
	if want := []string{"ForceOff", "ForceOff", "On"}; !slices.Equal(b.resets, want) {
		t.Errorf("commands %v, want %v", b.resets, want)
	}
	if b.made != 1 || len(b.sessions) != 1 {
		t.Errorf("%d sessions were made, and %d are left", b.made, len(b.sessions))
	}
	h.Close(t.Context())
	if len(b.sessions) != 0 {
		t.Errorf("sessions %v were not given back", slices.Collect(maps.Keys(b.sessions)))
	}
	wantState(t, h, fencing.IsOn)
	h.Close(t.Context())
}

func TestRedfishSessionIsGivenBackWhereTheCallerHasGivenUp(t *testing.T) {
	b := plainRedfish(t)
	h := b.host(t, newClock(), testPassword)
	wantState(t, h, fencing.IsOn)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for len(b.sessions) > 0 { // a select of two open cases picks either
		h.Close(ctx)
	}
}

func TestRedfishOnlyLiteralStatesCount(t *testing.T) {
	for power, want := range map[string]fencing.PowerState{
		"On": fencing.IsOn, "Off": fencing.IsOff, "off": fencing.PowerUnknown, "PoweringOff": fencing.PowerUnknown,
		"PoweringOn": fencing.PowerUnknown, "Paused": fencing.PowerUnknown, "": fencing.PowerUnknown,
	} {
		b := plainRedfish(t)
		b.power = power
		wantState(t, b.host(t, newClock(), testPassword), want)
	}
}

// A command that is refused while the power isn't as commanded has failed.
func TestRedfishRefusedCommand(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusConflict} {
		for _, power := range []string{"On", "PoweringOff", "Off"} {
			b := plainRedfish(t)
			b.power = power
			b.fault = onPath(resetPath, func(w http.ResponseWriter) { refuse(w, status) })
			h := b.host(t, newClock(), testPassword)
			if power == "Off" {
				wantCommand(t, h, TurnOff)
				continue
			}
			wantRefused(t, h, TurnOff, CommandRefused)
		}
	}
}

func TestRedfishOtherResetsAreNeverSent(t *testing.T) {
	b := plainRedfish(t)
	b.allowed = []string{"GracefulShutdown", "PushPowerButton", "ForceRestart", "GracefulRestart"}
	h := b.host(t, newClock(), testPassword)
	wantRefused(t, h, TurnOff, ResetNotAllowed)
	wantRefused(t, h, TurnOn, ResetNotAllowed)
	if len(b.resets) != 0 {
		t.Errorf("commands %v", b.resets)
	}
	b.set(func() { b.allowed = nil }) // it doesn't say which it has
	wantCommand(t, h, TurnOff)
}

func TestRedfishIfMatchIsLeftOutWhereRefused(t *testing.T) {
	b := plainRedfish(t)
	b.etag, b.refuseMatch = true, true
	wantCommand(t, b.host(t, newClock(), testPassword), TurnOff)
	if n := b.count("POST " + resetPath); n != 2 {
		t.Errorf("%d requests, want one with If-Match and one without", n)
	}
}

func TestRedfishOnlySystemIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		systems []string
		want    Reason
	}{
		"one": {[]string{"1"}, ""}, "none": {nil, UnsupportedSystem}, "two": {[]string{"1", "2"}, UnsupportedSystem},
		"elsewhere": {[]string{"../../x"}, UnsupportedSystem}, "gone": {[]string{"9"}, UnsupportedSystem},
	} {
		t.Run(name, func(t *testing.T) {
			b := plainRedfish(t)
			b.systems, b.address.System = c.systems, ""
			h := b.host(t, newClock(), testPassword)
			if c.want == "" {
				wantState(t, h, fencing.IsOn)
				wantState(t, h, fencing.IsOn)
				if n := b.count("GET /redfish/v1/Systems"); n != 1 {
					t.Errorf("the systems were listed %d times", n)
				}
				return
			}
			wantFailure(t, h, c.want)
		})
	}
}

func TestRedfishEndedSessionIsReplacedOnce(t *testing.T) {
	b := plainRedfish(t)
	h := b.host(t, newClock(), testPassword)
	wantState(t, h, fencing.IsOn)
	b.set(func() { clear(b.sessions) })
	wantState(t, h, fencing.IsOn)
	if b.made != 2 {
		t.Errorf("%d sessions were made, want 2", b.made)
	}
	b.set(func() { // it refuses its own sessions
		b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) { refuse(w, http.StatusUnauthorized) })
	})
	wantFailure(t, h, AuthenticationRefused)
	if b.made != 3 || len(b.sessions) > 1 {
		t.Errorf("%d sessions were made, want 3, and %d are left", b.made, len(b.sessions))
	}
}

func TestRedfishWrongPasswordIsOneLogin(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		b := plainRedfish(t)
		b.fault = onPath(sessionsPath, func(w http.ResponseWriter) { refuse(w, status) })
		h := b.host(t, newClock(), "wrong")
		wantFailure(t, h, AuthenticationRefused)
		if n := b.count(loginRequest); n != 1 || b.basic != 0 {
			t.Errorf("one wrong password was %d logins, and %d requests with it", n, b.basic)
		}
		wantFailure(t, h, AuthenticationRefused)
		wantFailure(t, h, AuthenticationHeld)
		if n := b.count(loginRequest); n != 2 {
			t.Errorf("%d logins, want 2", n)
		}
	}
}

// Where the BMC has no session left, each request has the credentials.
func TestRedfishWithoutSession(t *testing.T) {
	full := map[string]func(http.ResponseWriter){
		"503":                  func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable) },
		"RAC0218":              func(w http.ResponseWriter) { refuseAs(w, http.StatusBadRequest, "IDRAC.2.8.RAC0218") },
		"SessionLimitExceeded": func(w http.ResponseWriter) { refuseAs(w, http.StatusConflict, "Base.1.8.SessionLimitExceeded") },
		"no token":             func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) },
		"no such service":      func(w http.ResponseWriter) { refuse(w, http.StatusNotFound) },
	}
	for name, fault := range full {
		t.Run(name, func(t *testing.T) {
			b := plainRedfish(t)
			b.fault = onPath(sessionsPath, fault)
			h := b.host(t, newClock(), testPassword)
			wantState(t, h, fencing.IsOn)
			wantCommand(t, h, TurnOff)
			h.Close(t.Context())
			if b.basic == 0 || b.made != 0 {
				t.Errorf("%d requests with credentials, and %d sessions", b.basic, b.made)
			}
			b.set(func() { b.fault = nil })
			wantState(t, h, fencing.IsOff)
			if b.made != 1 {
				t.Errorf("%d sessions, want one as soon as it is possible", b.made)
			}
		})
	}
}

func TestRedfishWithoutSessionEachRefusalIsALogin(t *testing.T) {
	b := plainRedfish(t)
	b.fault = onPath(sessionsPath, func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable) })
	h := b.host(t, newClock(), "wrong")
	wantFailure(t, h, AuthenticationRefused)
	wantFailure(t, h, AuthenticationRefused)
	wantFailure(t, h, AuthenticationHeld)
	if b.basic != 2 {
		t.Errorf("%d requests with a wrong password, want 2", b.basic)
	}
}

func TestRedfishNoSessionLeft(t *testing.T) {
	b := plainRedfish(t)
	b.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/redfish/v1/" {
			return false
		}
		refuse(w, http.StatusServiceUnavailable)
		return true
	}
	wantFailure(t, b.host(t, newClock(), testPassword), NoSessionLeft)
}

func TestRedfishStatuses(t *testing.T) {
	for status, want := range map[int]Reason{
		http.StatusForbidden: PermissionDenied, http.StatusNotFound: UnsupportedSystem, http.StatusInternalServerError: UnexpectedAnswer,
		http.StatusServiceUnavailable: UnexpectedAnswer, http.StatusTeapot: UnexpectedAnswer,
	} {
		b := plainRedfish(t)
		b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) { refuse(w, status) })
		failure := wantFailure(t, b.host(t, newClock(), testPassword), want)
		if failure.HTTPStatus != status {
			t.Errorf("status %d, want %d", failure.HTTPStatus, status)
		}
	}
}

// Redirects are refused, so that no other server sees the credentials or the token.
func TestRedfishRedirects(t *testing.T) {
	for _, path := range []string{"/redfish/v1/", sessionsPath, "/redfish/v1/Systems/1", resetPath} {
		var elsewhere []string
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			elsewhere = append(elsewhere, r.URL.Path)
		}))
		b := plainRedfish(t)
		b.fault = onPath(path, func(w http.ResponseWriter) {
			w.Header().Set("Location", other.URL+path)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		wantRefused(t, b.host(t, newClock(), testPassword), TurnOff, UnexpectedAnswer)
		other.Close()
		if len(elsewhere) != 0 {
			t.Errorf("another server was sent %v", elsewhere)
		}
	}
}

// Links in answers may be made so that the address before them becomes part of another host.
func TestRedfishLinksLeadNowhereElse(t *testing.T) {
	for _, link := range []string{"@other.example/reset", ".other.example/reset", "0/reset"} {
		b := plainRedfish(t)
		b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) {
			answer(w, map[string]any{"PowerState": "On", "Actions": map[string]any{
				"#ComputerSystem.Reset": map[string]any{"target": link},
			}})
		})
		wantRefused(t, b.host(t, newClock(), testPassword), TurnOff, UnexpectedAnswer)
	}
}

func TestRedfishOversizedAnswer(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		b := plainRedfish(t)
		b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = io.Copy(w, io.LimitReader(endless{}, 2*maxAnswer))
		})
		wantFailure(t, b.host(t, newClock(), testPassword), UnexpectedAnswer)
	}
}

// endless reads as spaces.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestRedfishUnreadableAnswers(t *testing.T) {
	for _, body := range []string{"", "null", "[]", "{", `{"PowerState":1}`, `{"PowerState":["Off"]}`} {
		b := plainRedfish(t)
		b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) { _, _ = io.WriteString(w, body) })
		reading, failure := b.host(t, newClock(), testPassword).Read(t.Context())
		if !failure.Failed() && reading.State != fencing.PowerUnknown {
			t.Errorf("%q was read as %v", body, reading.State)
		}
	}
}

func TestRedfishHang(t *testing.T) {
	released := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	defer server.Close()
	defer close(released)
	address, err := ParseAddress("redfish+" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHost(Config{Address: address, Now: newClock().now, Timeout: shortTimeout}, mustCredentials(t, testUser, testPassword))
	wantFailure(t, h, TimedOut)
	wantRefused(t, h, TurnOff, TimedOut)
	h.Close(t.Context())
}

func TestRedfishUnreachable(t *testing.T) {
	b := plainRedfish(t)
	b.server.Close()
	wantFailure(t, b.host(t, newClock(), testPassword), Unreachable)
}

func TestRedfishBrokenConnection(t *testing.T) {
	b := plainRedfish(t)
	b.fault = onPath("/redfish/v1/Systems/1", func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	wantFailure(t, b.host(t, newClock(), testPassword), Unreachable)
}

func TestRedfishCertificates(t *testing.T) {
	b := startRedfish(t, httptest.NewTLSServer)
	b.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	certificate := b.server.Certificate()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	pin := fingerprint([]*x509.Certificate{certificate})
	cases := map[string]struct {
		authorities []byte
		fingerprint string
		want        Reason
	}{
		"authorities of the operating system": {want: CertificateNotTrusted},
		"own authority":                       {authorities: own},
		"pinned":                              {fingerprint: pin},
		"pinned in upper case with colons":    {fingerprint: strings.ToUpper(pin[:2] + ":" + pin[2:])},
		"another is pinned":                   {fingerprint: strings.Repeat("ab", 32), want: CertificateNotTrusted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			trust, err := NewTrust(c.authorities, c.fingerprint)
			if err != nil {
				t.Fatal(err)
			}
			h := NewHost(Config{Address: b.address, Trust: trust, Now: newClock().now, Timeout: testTimeout},
				mustCredentials(t, testUser, testPassword))
			if c.want == "" {
				wantState(t, h, fencing.IsOn)
				h.Close(t.Context())
				return
			}
			if failure := wantFailure(t, h, c.want); failure.Fingerprint != pin {
				t.Errorf("fingerprint %q, want %q", failure.Fingerprint, pin)
			}
		})
	}
}

// A certificate of an authority that is trusted counts for its own hosts only.
func TestRedfishCertificateOfAnotherHost(t *testing.T) {
	b := startRedfish(t, httptest.NewTLSServer)
	b.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	trust, err := NewTrust(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.server.Certificate().Raw}), "")
	if err != nil {
		t.Fatal(err)
	}
	b.address.Host = "localhost"
	h := NewHost(Config{Address: b.address, Trust: trust, Now: newClock().now, Timeout: testTimeout},
		mustCredentials(t, testUser, testPassword))
	wantFailure(t, h, CertificateNotTrusted)
}

// onPath answers requests of one path.
func onPath(path string, fault func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		fault(w)
		return true
	}
}
