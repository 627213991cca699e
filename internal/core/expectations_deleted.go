package core

import (
	"slices"
	"time"
)

// deletedKey tells apart repairs of the same name, which the target's next repair may have.
type deletedKey struct {
	ledgerKey
	uid string
}

func deletedKeyOf(r *Repair) deletedKey { return deletedKey{ledgerKey{r.Namespace, r.Name}, r.UID} }

// deletion is a finished repair that Fettle has deleted, as it was then.
type deletion struct {
	revision uint64
	// stands is set once the cache has shown a later version: a finalizer keeps the repair.
	stands bool
	// seen is set once the cache has shown any version. Until then it may show one yet, for a while since at.
	seen bool
	at   time.Time
}

// hideDeleted leaves out the repairs that Fettle has deleted, and forgets the deletions that the cache shows by now. A cache that
// lags may show such a repair as running, and a step must not be taken without a record. A later version than the deleted one
// still stands and holds its name.
func (m *Expectations) hideDeleted(cached []Repair, now time.Time) []Repair {
	if len(m.deleted) == 0 {
		return cached
	}
	kept := map[deletedKey]deletion{}
	for key, d := range m.deleted {
		if !d.seen && now.Sub(d.at) < expectationLimit {
			kept[key] = d
		}
	}
	cached = slices.DeleteFunc(cached, func(r Repair) bool {
		key := deletedKeyOf(&r)
		d, known := m.deleted[key]
		if !known {
			return false
		}
		d.seen, d.stands = true, d.stands || r.Revision > d.revision
		kept[key] = d
		return !d.stands
	})
	m.deleted = kept
	return cached
}
