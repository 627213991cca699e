package agent

import (
	"time"

	"github.com/fettle-io/fettle/internal/selffence"
)

// pace keeps requests apart. A request follows one of another kind at once, so that a refused write is followed by a read.
type pace struct {
	began  [selffence.WriteLease + 1]time.Duration
	known  [selffence.WriteLease + 1]bool
	failed time.Duration
	after  bool
}

// Bounds of the time between two requests.
const (
	maxBetweenWrites = time.Second
	maxBetweenReads  = 5 * time.Second
)

// due returns when a request may begin at the earliest. Two reads, or a failure and the next request, are half of the time between two grants
// apart, and two writes a quarter of it.
func (p *pace) due(action selffence.Action, renewal time.Duration) time.Duration {
	var at time.Duration
	reads := min(renewal/2, maxBetweenReads)
	if p.known[action] {
		at = p.began[action] + reads
		if action == selffence.WriteLease {
			at = p.began[action] + min(renewal/4, maxBetweenWrites)
		}
	}
	if p.after {
		at = max(at, p.failed+reads)
	}
	return at
}

// begins notes that a request begins.
func (p *pace) begins(action selffence.Action, now time.Duration) {
	p.began[action], p.known[action], p.after = now, true, false
}

// fails notes that the request has failed.
func (p *pace) fails(now time.Duration) { p.failed, p.after = now, true }
