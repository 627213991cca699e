package agent

import (
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// pace keeps requests apart. A request follows a request of another kind at once, so that a refused write is followed by a read. A request of the
// same kind waits for a quarter of the time between two grants, and a request after a failure for half of it.
type pace struct {
	began  [selffence.Disarm + 1]time.Duration
	known  [selffence.Disarm + 1]bool
	failed time.Duration
	after  bool
}

// due returns when an action may begin at the earliest.
func (p *pace) due(action selffence.Action, renewal time.Duration) time.Duration {
	var at time.Duration
	if p.known[action] {
		at = p.began[action] + renewal/4
	}
	if p.after {
		at = max(at, p.failed+renewal/2)
	}
	return at
}

// begins notes that an action begins.
func (p *pace) begins(action selffence.Action, now time.Duration) {
	p.began[action], p.known[action], p.after = now, true, false
}

// fails notes that an action has failed.
func (p *pace) fails(now time.Duration) { p.failed, p.after = now, true }
