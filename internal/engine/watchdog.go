package engine

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is longer than any pass can take whose calls have time limits.
const stuckAfter = 6 * time.Minute

// Watchdog tells whether a pass hangs. It is safe for concurrent use.
type Watchdog struct {
	now func() time.Time

	mu      sync.Mutex
	started map[string]time.Time
}

// NewWatchdog makes a watchdog that watches nothing yet.
func NewWatchdog(now func() time.Time) *Watchdog {
	return &Watchdog{now: now, started: map[string]time.Time{}}
}

// Watch gives the passes over a fleet, watched.
func (w *Watchdog) Watch(key string, pass Pass) Pass {
	return func(ctx context.Context) (time.Time, error) {
		w.passStarted(key)
		defer w.passEnded(key)
		return pass(ctx)
	}
}

func (w *Watchdog) passStarted(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[key] = w.now()
}

func (w *Watchdog) passEnded(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.started, key)
}

// Alive gives an error when a pass hangs, so that whoever asks restarts the process. It is a health
// check of controller-runtime.
func (w *Watchdog) Alive(*http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for key, began := range w.started {
		if took := now.Sub(began); took > stuckAfter {
			return fmt.Errorf("the pass over %s has been running for %s, which no pass does; it hangs", key, took.Round(time.Second))
		}
	}
	return nil
}
