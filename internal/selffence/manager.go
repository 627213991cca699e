package selffence

import "time"

// Observation is when a manager has first seen the Lease of a node as it is, by its own clock. A manager that restarts sees it anew.
type Observation struct {
	Lease Lease
	At    time.Time
	// Acknowledged is when enough witnesses of the Lease were first known to have read it as it is, or zero.
	Acknowledged time.Time
}

// Observe returns the observation after the Lease was read.
func (s Observation) Observe(l Lease, now time.Time) Observation {
	if s.Lease != l { // also of the same revision: etcd may have been restored
		return Observation{Lease: l, At: now}
	}
	return s
}

// ReadWitnesses returns the observation after the Leases of witnesses were read. Read has the revision up to which each witness has read all Leases, by the name
// of its node.
func (s Observation) ReadWitnesses(read map[string]uint64, now time.Time) Observation {
	if s.Acknowledged.IsZero() && s.Lease.witnessed() && len(s.Lease.Unread(read)) <= s.Lease.spare() {
		s.Acknowledged = now
	}
	return s
}

// Unwitnessed reports whether the clock of a promise waits for witnesses.
func (s Observation) Unwitnessed() bool { return s.Lease.witnessed() && s.Acknowledged.IsZero() }

// Condemn returns the Lease to write in place of the Lease that was seen, for a remediation. It reports false if there is no promise to
// revoke. A Lease that is condemned already is left as it is.
func (s Observation) Condemn(by string) (Lease, bool) {
	if s.At.IsZero() || s.Lease.State != Promised {
		return Lease{}, false
	}
	l := s.Lease
	l.State, l.By = Condemned, by
	return l, true
}

// Condemned returns the observation after that Lease was written. The grant that it replaced was seen when the Lease before it was.
func (s Observation) Condemned(by string, revision uint64) Observation {
	s.Lease.State, s.Lease.By, s.Lease.Revision = Condemned, by, revision
	s.Acknowledged = time.Time{}
	return s
}

// Expiry returns when the promise of a condemned Lease will have expired. It reports false if no time proves anything. That is so if
// the Lease is not condemned by this remediation, or its promise is not timed. It is also so if too few of its witnesses have acknowledged.
func (s Observation) Expiry(by string) (time.Time, bool) {
	p := s.Lease.Promise
	if s.At.IsZero() || s.Lease.State != Condemned || s.Lease.By != by || !p.Timed || !p.Times.Valid() || s.Unwitnessed() {
		return time.Time{}, false
	}
	from := s.At
	if s.Acknowledged.After(from) {
		from = s.Acknowledged
	}
	return from.Add(p.Times.Wait()), true
}

// Expired reports whether the boot of a Lease is proven to have ended. A read that began when the promise had expired must show the Lease as it
// was condemned, so that there was no grant since.
func (s Observation) Expired(by string, read Lease, begun time.Time) bool {
	at, ok := s.Expiry(by)
	return ok && !begun.Before(at) && read == s.Lease
}

// witnessed reports whether witnesses may grant what a Lease has promised.
func (l Lease) witnessed() bool { return l.Promise.Timed && l.Promise.Witnesses.Majority() > 0 }

// spare returns how many witnesses need not have read a Lease.
func (l Lease) spare() int {
	return l.Promise.Witnesses.count() - l.Promise.Witnesses.Acknowledgements()
}

// Unread returns the witnesses of a condemned Lease that are not known to have read it. Read has the revision up to which each witness has read all
// Leases, by the name of its node.
func (l Lease) Unread(read map[string]uint64) []string {
	var unread []string
	for _, name := range l.Promise.Witnesses {
		if name != "" && read[name] < l.Revision {
			unread = append(unread, name)
		}
	}
	return unread
}
