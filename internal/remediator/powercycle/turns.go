package powercycle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// powerOnPause is the pause between two hosts of a domain that are powered on.
const powerOnPause = 5 * time.Second

// turns has the hosts of one domain powered on one after the other.
type turns struct {
	mu    sync.Mutex
	last  map[string]time.Time
	given map[types.UID]time.Time
}

func newTurns() *turns {
	return &turns{last: map[string]time.Time{}, given: map[types.UID]time.Time{}}
}

// of returns when a remediation may power a host of a domain on. It keeps its turn until it drops it.
func (t *turns) of(domain string, remediation types.UID, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn, given := t.given[remediation]; given {
		return turn
	}
	turn := now
	if last, used := t.last[domain]; used && last.Add(powerOnPause).After(now) {
		turn = last.Add(powerOnPause)
	}
	t.last[domain], t.given[remediation] = turn, turn
	return turn
}

// drop drops the turn of a remediation.
func (t *turns) drop(remediation types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.given, remediation)
}
