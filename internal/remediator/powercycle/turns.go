package powercycle

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// powerOnPause is the pause between two hosts of a domain that are powered on. It counts from the end of a command, since a host may
// power on at any time during it, also where it fails.
const powerOnPause = 5 * time.Second

// turns has the hosts of one domain powered on one after the other.
type turns struct {
	mu sync.Mutex
	// free is when the pause after the commands of an earlier process is over.
	free time.Time
	// domains are those in which a host waits, is powered on, or was so a short while ago.
	domains map[string]*domain
}

// domain is the state of one domain.
type domain struct {
	// waiting are the remediations that wait for their turn, in the order in which they came.
	waiting []waiter
	// busy is set while a command is under way, and free is when the pause after the last one is over.
	busy bool
	free time.Time
}

// waiter is a remediation that waits, and at is when it is expected.
type waiter struct {
	key types.NamespacedName
	at  time.Time
}

func newTurns() *turns { return &turns{domains: map[string]*domain{}} }

// start begins a pause in all domains: the last command of an earlier process is not known.
func (t *turns) start(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = now.Add(powerOnPause)
}

// next returns when a remediation may power a host of a domain on, as far as is known. It waits for its turn from then on.
func (t *turns) next(name string, key types.NamespacedName, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expect(name, key, now)
}

// begin reports whether a remediation may power a host of a domain on now. If so, no other of the domain may before done.
func (t *turns) begin(name string, key types.NamespacedName, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expect(name, key, now).After(now) {
		return false
	}
	t.domains[name].busy = true
	t.remove(key)
	return true
}

// done ends the power-on of a host of a domain.
func (t *turns) done(name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.domains[name].busy, t.domains[name].free = false, now.Add(powerOnPause)
}

// drop has a remediation wait no more.
func (t *turns) drop(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(key)
}

// expect has a remediation wait for its turn, and returns when that is expected. Others are not kept waiting by a remediation that
// doesn't come when it is expected.
func (t *turns) expect(name string, key types.NamespacedName, now time.Time) time.Time {
	d := t.join(name, key, now)
	at := latest(now, t.free, d.free)
	if d.busy {
		at = latest(at, now.Add(powerOnPause))
	}
	for i := range d.waiting {
		w := &d.waiting[i]
		if w.key == key {
			w.at = at
			break
		}
		if now.Before(w.at.Add(powerOnPause)) {
			at = at.Add(powerOnPause)
		}
	}
	return at
}

// join has a remediation wait in one domain, and forgets domains in which nothing happens any more.
func (t *turns) join(name string, key types.NamespacedName, now time.Time) *domain {
	for other, d := range t.domains {
		if other != name {
			d.remove(key)
		}
		if len(d.waiting) == 0 && !d.busy && !now.Before(d.free) {
			delete(t.domains, other)
		}
	}
	d := t.domains[name]
	if d == nil {
		d = &domain{}
		t.domains[name] = d
	}
	if !slices.ContainsFunc(d.waiting, func(w waiter) bool { return w.key == key }) {
		d.waiting = append(d.waiting, waiter{key: key})
	}
	return d
}

func (t *turns) remove(key types.NamespacedName) {
	for _, d := range t.domains {
		d.remove(key)
	}
}

func (d *domain) remove(key types.NamespacedName) {
	d.waiting = slices.DeleteFunc(d.waiting, func(w waiter) bool { return w.key == key })
}

func latest(instants ...time.Time) time.Time { return slices.MaxFunc(instants, time.Time.Compare) }
