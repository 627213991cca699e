package power

import (
	"sync"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	testUser     = "fettle-reader"
	testPassword = "hunter2-never-seen"
	// testTimeout is long enough for a slow machine, and shortTimeout is for what never answers.
	testTimeout, shortTimeout = 20 * time.Second, 50 * time.Millisecond
)

// testClock is a clock that a test moves. Each reading is a millisecond later, so that an order shows.
type testClock struct {
	mu   sync.Mutex
	time time.Time
}

func newClock() *testClock { return &testClock{time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(time.Millisecond)
	return c.time
}

func (c *testClock) forward(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(by)
}

func mustCredentials(t *testing.T, username, password string) Credentials {
	t.Helper()
	credentials, err := NewCredentials(username, password)
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

func wantState(t *testing.T, h *Host, want fencing.PowerState) {
	t.Helper()
	reading, failure := h.Read(t.Context())
	if failure.Failed() || reading.State != want {
		t.Fatalf("read %v and failure %q, want state %v", reading, failure, want)
	}
	if !reading.Begun.Before(reading.Ended) {
		t.Errorf("a reading from %v to %v", reading.Begun, reading.Ended)
	}
}

func wantCommand(t *testing.T, h *Host, command Command) {
	t.Helper()
	at, failure := h.Command(t.Context(), command, "")
	if failure.Failed() || at.IsZero() {
		t.Fatalf("command %v acknowledged at %v, failure %q", command, at, failure)
	}
}

func wantFailure(t *testing.T, h *Host, want Reason) Failure {
	t.Helper()
	reading, failure := h.Read(t.Context())
	if failure.Reason != want {
		t.Fatalf("failure %q (%q), want %q", failure.Reason, failure, want)
	}
	if reading != (fencing.Reading{}) {
		t.Errorf("a failed read returned %v", reading)
	}
	return failure
}

func wantRefused(t *testing.T, h *Host, command Command, want Reason) Failure {
	t.Helper()
	at, failure := h.Command(t.Context(), command, "")
	if failure.Reason != want || !at.IsZero() {
		t.Fatalf("command acknowledged at %v, failure %q (%q), want %q", at, failure.Reason, failure, want)
	}
	return failure
}
