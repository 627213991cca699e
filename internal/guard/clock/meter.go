package clock

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/fettle-io/fettle/internal/core"
)

// Config is what a Meter needs. Every field is required.
type Config struct {
	// Now is Fettle's clock, and Elapsed a monotonic one.
	Now     func() time.Time
	Elapsed func() time.Duration
	Log     logr.Logger
}

// Meter measures by how much Fettle's clock is ahead of the API server's. It is safe for concurrent use.
type Meter struct {
	Config

	mu sync.Mutex
	// known is set once there was an answer, which came at the reading at.
	known bool
	ahead skewRange
	at    reading
	// reported is what was told last, and looked at which reading.
	reported  core.Tri
	checkedAt reading
	wake      func()
}

// NewMeter makes a meter that knows nothing yet.
func NewMeter(c Config) *Meter {
	m := &Meter{Config: c, wake: func() {}}
	m.checkedAt = m.read()
	return m
}

// Wake has a function called when the clocks begin to agree or cease to, and when Fettle's clock is set: what is due at an
// instant is due sooner or later then.
func (m *Meter) Wake(wake func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wake = wake
}

// Agrees tells whether the clocks differ by no more than a few seconds. That Fettle's clock was set shows at once.
func (m *Meter) Agrees() core.Tri {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agrees(m.read())
}

// Corrected returns what the API server's clock shows when Fettle's shows now. Clocks that agree, or of which nothing is known,
// show the same.
func (m *Meter) Corrected(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.read()
	if !m.known || m.agrees(at) == core.Yes {
		return now
	}
	return now.Round(0).Add(-m.ahead.after(at.since(m.at)).middle()) // the monotonic reading is no part of it
}

func (m *Meter) read() reading { return reading{m.Now().Round(0), m.Elapsed()} }

func (m *Meter) agrees(now reading) core.Tri {
	if !m.known {
		return core.Unknown
	}
	return m.ahead.after(now.since(m.at)).agrees()
}

// Wrap is a transport wrapper that looks at the date of each answer.
func (m *Meter) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		sent := m.Elapsed()
		response, err := next.RoundTrip(r)
		if err == nil {
			m.observe(response, sent)
		}
		return response, err //nolint:wrapcheck // a transport passes on what it gets
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// observe takes in the date of an answer. Failures may be told by a proxy on the way, and an answer with an age comes from a
// cache: neither has the date of the API server.
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

// checkInterval is how often the clocks are looked at. A step of Fettle's clock is noticed within that time.
const checkInterval = time.Second

// minStep is the least step of a clock that is worth a look at what is due.
const minStep = time.Second

// Start looks at the clocks until the context ends.
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

// NeedLeaderElection has replicas measure that don't lead.
func (*Meter) NeedLeaderElection() bool { return false }

// check tells what has changed since the last look.
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
