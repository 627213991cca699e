package core

import (
	"slices"
	"time"
)

// deletedKey separates repairs of the same name, since the next repair of a target may have that
// name again.
type deletedKey struct {
	RepairKey
	uid string
}

func deletedKeyOf(r *Repair) deletedKey { return deletedKey{r.key(), r.UID} }

// deletion is a finished repair that Fettle has deleted, as it was then.
type deletion struct {
	revision uint64
	// stands is set once the cache has shown a later version: a finalizer keeps the object.
	stands bool
	// seen is set once the cache has shown any version. Until then the cache may still show the
	// repair, for a while since at.
	seen bool
	at   time.Time
}

// hideDeleted removes the repairs that Fettle has deleted, and forgets the deletions that the cache
// shows. A cache that lags may show such a repair as running, but no step may begin without a
// record. A version after the deletion still exists and keeps its name.
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
