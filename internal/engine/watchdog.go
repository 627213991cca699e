package engine

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stuckAfter is longer than any pass whose calls have time limits.
const stuckAfter = 6 * time.Minute

// Watchdog detects a pass that hangs. It is safe for concurrent use.
type Watchdog struct {
	now func() time.Time

	mu      sync.Mutex
	started map[string]time.Time
}

// NewWatchdog returns a watchdog without passes.
func NewWatchdog(now func() time.Time) *Watchdog {
	return &Watchdog{now: now, started: map[string]time.Time{}}
}

// Watch returns a pass that the watchdog watches.
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

// Alive returns an error while a pass hangs, so that the kubelet restarts the process. It is a
// health check of controller-runtime.
func (w *Watchdog) Alive(*http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for key, began := range w.started {
		if took := now.Sub(began); took > stuckAfter {
			return fmt.Errorf("the pass over %s hangs: it has been running for %s", key, took.Round(time.Second))
		}
	}
	return nil
}
