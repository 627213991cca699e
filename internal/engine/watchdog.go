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

	mu    sync.Mutex
	began map[string]time.Time
}

// NewWatchdog makes a watchdog that watches nothing yet.
func NewWatchdog(now func() time.Time) *Watchdog {
	return &Watchdog{now: now, began: map[string]time.Time{}}
}

// Over gives the passes over a fleet, watched.
func (w *Watchdog) Over(fleet string, pass Pass) Pass {
	return func(ctx context.Context) (time.Time, error) {
		w.begins(fleet)
		defer w.ends(fleet)
		return pass(ctx)
	}
}

func (w *Watchdog) begins(fleet string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began[fleet] = w.now()
}

func (w *Watchdog) ends(fleet string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.began, fleet)
}

// Alive gives an error when a pass hangs, so that whoever asks restarts the process. It is a health
// check of controller-runtime.
func (w *Watchdog) Alive(*http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for fleet, began := range w.began {
		if took := now.Sub(began); took > stuckAfter {
			return fmt.Errorf("the pass over %s has been running for %s, which no pass does; it hangs", fleet, took.Round(time.Second))
		}
	}
	return nil
}
