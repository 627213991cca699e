package selffence

import "time"

// Sight is when a manager has first seen the Lease of a node as it is, by its own clock. A manager that restarts sees it anew.
type Sight struct {
	Lease Lease
	At    time.Time
}

// Observe returns the sight after the Lease was read.
func (s Sight) Observe(l Lease, now time.Time) Sight {
	if s.Lease.Revision != l.Revision {
		return Sight{Lease: l, At: now}
	}
	return s
}

// Condemn returns the Lease to write in place of the Lease that was seen, for a remediation. It reports false if there is no promise to
// revoke. A Lease that is condemned already is left as it is.
func (s Sight) Condemn(by string) (Lease, bool) {
	if s.At.IsZero() || s.Lease.State != Promised {
		return Lease{}, false
	}
	l := s.Lease
	l.State, l.By = Condemned, by
	return l, true
}

// Condemned returns the sight after that Lease was written. The grant that it replaced was seen when the Lease before it was.
func (s Sight) Condemned(by string, revision uint64) Sight {
	s.Lease.State, s.Lease.By, s.Lease.Revision = Condemned, by, revision
	return s
}

// Expiry returns when the promise of a condemned Lease will have expired. It reports false if no time proves anything: the Lease is not
// condemned by this remediation, its promise is not timed, or too few of its witnesses are known to have acknowledged. Acknowledged is when a
// majority of them was first known to have read the Lease as it was condemned, or zero.
func (s Sight) Expiry(by string, acknowledged time.Time) (time.Time, bool) {
	p := s.Lease.Promise
	if s.At.IsZero() || s.Lease.State != Condemned || s.Lease.By != by || !p.Timed || !p.Times.Valid() {
		return time.Time{}, false
	}
	from := s.At
	if p.Witnesses.Majority() > 0 {
		if acknowledged.IsZero() {
			return time.Time{}, false
		}
		if acknowledged.After(from) {
			from = acknowledged
		}
	}
	return from.Add(p.Times.Wait()), true
}

// Expired reports whether the boot of a Lease is proven to have ended: a read that began when the promise had expired shows the Lease as it was
// condemned, so that there was no grant since.
func (s Sight) Expired(by string, acknowledged time.Time, read Lease, begun time.Time) bool {
	at, ok := s.Expiry(by, acknowledged)
	return ok && !begun.Before(at) && read.Revision == s.Lease.Revision
}

// Acknowledged reports whether a majority of the witnesses of a condemned Lease have read it. Read has the revision up to which each witness
// has read all Leases, by the name of its node.
func (l Lease) Acknowledged(read map[string]uint64) bool {
	count := 0
	for _, name := range l.Promise.Witnesses {
		if name != "" && read[name] >= l.Revision {
			count++
		}
	}
	most := l.Promise.Witnesses.Majority()
	return most > 0 && count >= most
}
