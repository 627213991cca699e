package machineapi

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// cacheTimeout is how long a set waits for the cache to show its writes. No cache is behind for so long.
const cacheTimeout = 10 * time.Second

// expectations holds the creations and deletions of each set until the cache shows them, so that nothing is done twice.
type expectations struct {
	mu   sync.Mutex
	sets map[types.UID]map[types.UID]expectation // by set, then by machine
}

// expectation is a creation or deletion that the cache does not show yet.
type expectation struct {
	deletion bool
	at       time.Time
}

func newExpectations() *expectations {
	return &expectations{sets: map[types.UID]map[types.UID]expectation{}}
}

func (i *expectations) created(set types.UID, machine *machinev1.Machine, now time.Time) {
	i.add(set, machine.UID, expectation{at: now})
}

func (i *expectations) deleted(set types.UID, machine *machinev1.Machine, now time.Time) {
	i.add(set, machine.UID, expectation{deletion: true, at: now})
}

func (i *expectations) add(set, machine types.UID, d expectation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sets[set] == nil {
		i.sets[set] = map[types.UID]expectation{}
	}
	i.sets[set][machine] = d
}

// unseen drops the expectations that these machines meet, and returns how long to wait at most for the rest, or zero
// for none. An expectation that a cache never shows, since its machine came and went in between, expires.
func (i *expectations) unseen(set types.UID, machines []*machinev1.Machine, now time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	present := map[types.UID]bool{} // seen
	alive := map[types.UID]bool{}   // seen, and not in deletion
	for _, machine := range machines {
		present[machine.UID] = true
		alive[machine.UID] = machine.DeletionTimestamp.IsZero()
	}
	var wait time.Duration
	for machine, d := range i.sets[set] {
		done := present[machine]
		if d.deletion {
			done = !alive[machine]
		}
		left := d.at.Add(cacheTimeout).Sub(now)
		if done || left <= 0 {
			delete(i.sets[set], machine)
			continue
		}
		wait = max(wait, left)
	}
	if len(i.sets[set]) == 0 {
		delete(i.sets, set)
	}
	return wait
}
