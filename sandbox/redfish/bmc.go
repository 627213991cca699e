package redfish

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	defaultMaxSessions    = 6
	defaultSessionTimeout = 30 * time.Minute
	headerTimeout         = 10 * time.Second
)

// Config says what a BMC is. User, Password and Host are required.
type Config struct {
	User, Password string
	Host           Host
	Now            func() time.Time // default: time.Now
	Address        string           // default: any free port of 127.0.0.1
	SystemID       string           // default: 1
	Vendor         string           // default: Fettle
	UUID           string           // of the system; default: none
	MaxSessions    int              // default: 6
	SessionTimeout time.Duration    // of a session without requests; default: 30 minutes
	// Log gets each request before its answer is sent, one at a time. It must not call the BMC. Default: none.
	Log func(Entry)
}

// Request is one request that reached the BMC.
type Request struct {
	At     time.Time
	Method string
	Path   string
	User   string    // of the credentials or of the session, also where they were refused
	Reset  ResetType // only of a reset
	Status int       // of the answer; 0 while there is none
}

// Entry is a request as the BMC answers it, and what the BMC has counted until then.
type Entry struct {
	Request

	Token  string // of the session that the request has opened, if it has
	Open   int    // sessions
	Logins Logins
}

// Logins counts the passwords that the BMC was given: one for each new session and for each request with basic
// authentication.
type Logins struct {
	Accepted int
	Refused  int
	Lockouts int // how often an account was locked
}

// BMC is one emulated BMC. Its methods are safe for concurrent use.
type BMC struct {
	config   Config
	server   *http.Server
	address  string
	own      tls.Certificate
	closed   chan struct{}
	commands sync.Mutex // one power operation at a time

	mu       sync.Mutex
	faults   Faults
	changed  chan struct{} // closed by the next change of the faults
	requests []Request
	logins   Logins
	accounts map[string]*account
	sessions map[string]*session // by token
	nextID   int
	history  []sample
	stuckOff bool // a power-off was accepted and not carried out
}

// Start starts a BMC. The caller closes it.
func Start(config Config) (*BMC, error) {
	if config.User == "" || config.Password == "" || config.Host == nil {
		return nil, errors.New("a BMC needs a user, a password and a host")
	}
	config = withDefaults(config)
	own, err := NewCertificate("127.0.0.1", "::1", "localhost")
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	b := &BMC{
		config:   config,
		address:  listener.Addr().String(),
		own:      own,
		closed:   make(chan struct{}),
		changed:  make(chan struct{}),
		accounts: map[string]*account{},
		sessions: map[string]*session{},
	}
	b.observe()
	b.server = &http.Server{
		Handler:           http.HandlerFunc(b.serve),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // refused handshakes are ordered
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: b.certificate,
		},
	}
	// Each request makes a handshake, so that another certificate shows in the next request.
	b.server.SetKeepAlivesEnabled(false)
	go func() { _ = b.server.ServeTLS(listener, "", "") }() // it returns when the BMC is closed
	return b, nil
}

func withDefaults(c Config) Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	if c.SystemID == "" {
		c.SystemID = "1"
	}
	if c.Vendor == "" {
		c.Vendor = "Fettle"
	}
	if c.MaxSessions == 0 {
		c.MaxSessions = defaultMaxSessions
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = defaultSessionTimeout
	}
	return c
}

// Close ends all connections, also those of requests that hang. It may be called once.
func (b *BMC) Close() error {
	close(b.closed)
	if err := b.server.Close(); err != nil {
		return fmt.Errorf("closing the BMC: %w", err)
	}
	return nil
}

// Address returns the host and port on which the BMC listens.
func (b *BMC) Address() string { return b.address }

// URL returns the address with its scheme, without a path.
func (b *BMC) URL() string { return "https://" + b.address }

// SystemPath returns the path of the only system.
func (b *BMC) SystemPath() string { return systems + "/" + b.config.SystemID }

// Certificate returns the BMC's own certificate. It signed itself, so it is its authority too.
func (b *BMC) Certificate() *x509.Certificate { return b.own.Leaf }

// Requests returns all requests so far, in the order in which they came.
func (b *BMC) Requests() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// Logins returns the counts of logins.
func (b *BMC) Logins() Logins {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logins
}

func (b *BMC) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if other := b.ordered().Certificate; other != nil {
		return other, nil
	}
	return &b.own, nil
}
