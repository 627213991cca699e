package clock

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/fettle-io/fettle/internal/core"
)

// Config configures a Meter. Every field is required.
type Config struct {
	// Now is Fettle's clock, and Elapsed a monotonic clock.
	Now     func() time.Time
	Elapsed func() time.Duration
	Log     logr.Logger
}

// Meter measures how far Fettle's clock is ahead of the API server's. It is safe for concurrent
// use.
type Meter struct {
	Config

	mu sync.Mutex
	// known is set once the API server has answered. The field at is the reading of the last
	// answer.
	known bool
	ahead skewRange
	at    reading
	// reported is the state in the log, and checkedAt the reading of the last check.
	reported  core.Tri
	checkedAt reading
	wake      func()
}

// NewMeter returns a meter without measurements.
func NewMeter(c Config) *Meter {
	m := &Meter{Config: c, wake: func() {}}
	m.checkedAt = m.read()
	return m
}

// Wake sets the function to call when the clocks begin or cease to agree, and when Fettle's clock
// steps. Deadlines move then.
func (m *Meter) Wake(wake func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wake = wake
}

// Agrees reports whether the clocks differ by at most a few seconds. A step of Fettle's clock
// counts at once.
func (m *Meter) Agrees() core.Tri {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agrees(m.read())
}

// Corrected returns the time of the API server's clock at the instant when Fettle's shows now. It
// returns now while the clocks agree, and while nothing is known.
func (m *Meter) Corrected(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.read()
	if !m.known || m.agrees(at) == core.Yes {
		return now
	}
	return now.Round(0).Add(-m.ahead.after(at.since(m.at)).middle()) // without the monotonic reading
}

func (m *Meter) read() reading { return reading{m.Now().Round(0), m.Elapsed()} }

func (m *Meter) agrees(now reading) core.Tri {
	if !m.known {
		return core.Unknown
	}
	return m.ahead.after(now.since(m.at)).agrees()
}

// Wrap wraps a transport, and measures with each answer.
func (m *Meter) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		sent := m.Elapsed()
		response, err := next.RoundTrip(r)
		if err == nil {
			m.observe(response, sent)
		}
		return response, err //nolint:wrapcheck // a transport returns errors unchanged
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// observe measures with the date of an answer. It ignores failures, which a proxy may send, and
// answers with an age, which come from a cache. Neither has the API server's date.
func (m *Meter) observe(response *http.Response, sent time.Duration) {
	if response.StatusCode < 200 || response.StatusCode > 299 || response.Header.Get("Age") != "" {
		return
	}
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return
	}
	m.mu.Lock()
	now := m.read()
	fresh := measureSkew(date, sent, now)
	if m.known {
		fresh = m.ahead.after(now.since(m.at)).intersect(fresh)
	}
	m.known, m.ahead, m.at = true, fresh, now
	m.mu.Unlock()
	m.check()
}

// checkInterval is the time between checks. A check notices a step of Fettle's clock.
const checkInterval = time.Second

// minStep is the smallest step of the clock that wakes.
const minStep = time.Second

// Start checks the clocks until the context ends.
func (m *Meter) Start(ctx context.Context) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			m.check()
		}
	}
}

// NeedLeaderElection reports false: all replicas measure.
func (*Meter) NeedLeaderElection() bool { return false }

// check logs what has changed since the last check, and wakes.
func (m *Meter) check() {
	m.mu.Lock()
	now := m.read()
	_, set := now.since(m.checkedAt)
	m.checkedAt = now
	agrees, before, wake := m.agrees(now), m.reported, m.wake
	m.reported = agrees
	ahead := m.ahead.after(now.since(m.at)).middle()
	m.mu.Unlock()
	stepped := set.Abs() >= minStep
	if stepped {
		m.Log.Info("Fettle's clock was set", "by", set.String())
	}
	if agrees != before {
		m.logAgreement(agrees, ahead)
	}
	if stepped || agrees != before {
		wake()
	}
}

func (m *Meter) logAgreement(agrees core.Tri, ahead time.Duration) {
	log := m.Log.WithValues("ahead", ahead.Round(time.Millisecond).String(), "most", core.MaxSkew.String())
	switch agrees {
	case core.Yes:
		log.Info("Fettle's clock agrees with the API server's")
	case core.No:
		log.Info("Fettle's clock differs from the API server's; no repair and no step of one begins until they agree")
	case core.Unknown:
		log.Info("Fettle's clock may differ from the API server's; no repair and no step of one begins until that is known")
	}
}
