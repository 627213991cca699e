package redfish

import (
	"crypto/tls"
	"net/http"
	"strings"
	"time"
)

// Faults are what a BMC does wrong. The zero value is a BMC without fault.
type Faults struct {
	// Power.
	SaysOff          bool          // reports Off, whatever the host does
	Lag              time.Duration // reports the state as it was that long ago
	StaysPoweringOff bool          // accepts a power-off, reports PoweringOff and leaves the host on
	IgnoresCommands  bool          // accepts each command and carries out none
	RefusesCommands  int           // answers each command with this status
	AlreadyOff       int           // answers a power-off of a host that is off: 409 (iDRAC) or 400 (iLO); 0 accepts
	RequiresIfMatch  bool          // answers 412 to a command without the ETag of the system (iDRAC 10)

	// Resets are what the system lists and the BMC carries out; nil is all of them.
	Resets []ResetType
	// ActionInfo lists them in a resource of its own.
	ActionInfo bool

	// Authentication.
	NoSessionLeft bool          // answers 503 to a new session, with the message of iDRAC
	NoBasic       bool          // answers 503 to credentials without a session, with the same message
	Unauthorized  bool          // refuses all credentials and all sessions
	LockoutAfter  int           // locks an account after that many refused logins in a row; 0 never does
	LockoutFor    time.Duration // how long an account stays locked; 0 is for good
	SessionUses   int           // a session is lost after that many requests; 0 never loses it

	// Transport.
	Certificate *tls.Certificate // shown instead of its own
	Drops       bool             // ends each connection without an answer
	Hangs       bool             // answers nothing until the client goes or the fault is taken back
	Redirect    string           // redirects to the same path of this URL
	Oversized   int              // answers with at least that many bytes of valid JSON
	NotJSON     bool             // answers 200 with a page of HTML
	Path        string           // limits Drops, Hangs, Redirect, Oversized and NotJSON to paths with this prefix
}

// Order changes the faults, for later requests and for requests that hang.
func (b *BMC) Order(change func(*Faults)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.faults)
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *BMC) ordered() Faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

// hang waits as long as the request is to hang. It reports whether the request is to be answered.
func (b *BMC) hang(r *http.Request) bool {
	for {
		b.mu.Lock()
		faults, changed := b.faults, b.changed
		b.mu.Unlock()
		switch of := strings.HasPrefix(r.URL.Path, faults.Path); {
		case of && faults.Drops:
			return false
		case !of || !faults.Hangs:
			return true
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return false
		case <-b.closed:
			return false
		}
	}
}

// misanswer answers by a fault of the transport. It reports whether it did.
func misanswer(w http.ResponseWriter, r *http.Request, faults Faults) bool {
	if !strings.HasPrefix(r.URL.Path, faults.Path) {
		return false
	}
	switch {
	case faults.Redirect != "":
		w.Header().Set("Location", strings.TrimSuffix(faults.Redirect, "/")+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case faults.NotJSON:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><body>The web server is starting.</body></html>"))
	case faults.Oversized > 0:
		oversize(w, faults.Oversized)
	default:
		return false
	}
	return true
}

func oversize(w http.ResponseWriter, size int) {
	const chunk = 32 << 10
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"PowerState":"Off","Padding":"`))
	padding := []byte(strings.Repeat("x", chunk))
	for left := size; left > 0; left -= chunk {
		if _, err := w.Write(padding[:min(left, chunk)]); err != nil {
			return // the client has enough
		}
	}
	_, _ = w.Write([]byte(`"}`))
}
