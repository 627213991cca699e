package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const (
	bmcUser     = "operator-of-hosts"
	bmcPassword = "correct-horse-battery"
)

// fakeBMC is a BMC with Redfish on the loopback, behind a certificate that no authority has signed.
type fakeBMC struct {
	mu sync.Mutex
	// power is what it says of the power, and fault, if set, answers in its place.
	power string
	fault func(w http.ResponseWriter, r *http.Request) bool
	// uuid is what it says of its system, and allowed are the resets that it lists, or nil.
	uuid    string
	allowed []string
	// logins, ended and changes count the requests.
	logins, ended, changes int

	server *httptest.Server
}

func startBMC(t *testing.T) *fakeBMC {
	t.Helper()
	b := &fakeBMC{power: "On"}
	b.server = httptest.NewUnstartedServer(b)
	b.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	b.server.StartTLS()
	t.Cleanup(b.server.Close)
	return b
}

// hostPort is the address of the BMC without a scheme.
func (b *fakeBMC) hostPort() string { return strings.TrimPrefix(b.server.URL, "https://") }

func (b *fakeBMC) fingerprint() string {
	sum := sha256.Sum256(b.server.Certificate().Raw)
	return hex.EncodeToString(sum[:])
}

const bmcSessions = "/redfish/v1/SessionService/Sessions"

func (b *fakeBMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	login := r.Method == http.MethodPost && r.URL.Path == bmcSessions
	switch {
	case login:
		b.logins++
	case r.Method == http.MethodDelete:
		b.ended++
	case r.Method != http.MethodGet:
		b.changes++
	}
	var given struct{ UserName, Password string }
	switch {
	case b.fault != nil && b.fault(w, r):
	case r.URL.Path == "/redfish/v1/":
		b.answer(w, http.StatusOK, map[string]any{"Links": map[string]any{"Sessions": map[string]any{"@odata.id": bmcSessions}}})
	case login && (json.NewDecoder(r.Body).Decode(&given) != nil || given.UserName != bmcUser || given.Password != bmcPassword):
		b.refuse(w, http.StatusUnauthorized)
	case login:
		w.Header().Set("X-Auth-Token", "token")
		w.Header().Set("Location", bmcSessions+"/1")
		w.WriteHeader(http.StatusCreated)
	case r.Header.Get("X-Auth-Token") != "token":
		b.refuse(w, http.StatusUnauthorized)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/redfish/v1/Systems/1":
		b.answer(w, http.StatusOK, map[string]any{"@odata.id": "/redfish/v1/Systems/1", "PowerState": b.power, "UUID": b.uuid, "Actions": map[string]any{
			"#ComputerSystem.Reset": map[string]any{"ResetType@Redfish.AllowableValues": b.allowed},
		}})
	default:
		b.refuse(w, http.StatusNotFound)
	}
}

func (b *fakeBMC) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

// refuse answers with an error that repeats the credentials, as a BMC may.
func (b *fakeBMC) refuse(w http.ResponseWriter, status int) {
	b.answer(w, status, map[string]any{"error": map[string]any{
		"code": "Base.1.0.GeneralError", "message": bmcUser + " may not use " + bmcPassword,
	}})
}

// refusing is a fault that answers requests for a path with a status.
func (b *fakeBMC) refusing(path string, status int) {
	b.set("On", func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		b.refuse(w, status)
		return true
	})
}

// set changes the power and the fault.
func (b *fakeBMC) set(power string, fault func(http.ResponseWriter, *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.power, b.fault = power, fault
}

// counts returns how many logins, ends of sessions and changes were requested.
func (b *fakeBMC) counts() (logins, ended, changes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logins, b.ended, b.changes
}
