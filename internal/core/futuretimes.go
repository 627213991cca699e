package core

import (
	"slices"
	"time"
)

// Many clocks write the times that a cluster shows. A time in the future means that the clock of
// its author is ahead, or Fettle's behind. Such a state counts from when it was first seen:
//
//	reported    ────────┬───────────────────────────┬──── time
//	               first seen                  reported
//	               counts from here
//
// Otherwise Fettle would wait a year for a node whose clock is a year ahead. A state has held since
// it was seen, so this hastens nothing (I5). After a restart the state counts from the restart
// (I6).

// futureTime is a time that lay in the future when it was first seen.
type futureTime struct {
	// field separates the times of one object.
	field     string
	reported  time.Time
	firstSeen time.Time
}

// maxSlew is how far the clock may be slewed before a time is moved with it.
const maxSlew = time.Second

// seenBy returns when the state was first seen, by the clock as it is now. If Fettle's clock was
// set since, the time moves with it. The monotonic clock, where now has one, shows what has passed.
func (g *futureTime) seenBy(now time.Time) time.Time { return seenBy(g.firstSeen, now) }

// seenBy returns when a state was first seen, by the clock as it is now.
func seenBy(first, now time.Time) time.Time {
	seen := now.Add(-max(0, now.Sub(first)))
	if moved := seen.Round(0).Sub(first.Round(0)); moved.Abs() < maxSlew {
		return first
	}
	return seen
}

// counts returns the time from which the state counts.
func (g *futureTime) counts(now time.Time) time.Time {
	if seen := g.seenBy(now); g.reported.After(seen) {
		return seen
	}
	return g.reported
}

// futureTimes are the future times of each object.
type futureTimes map[string][]futureTime

// timeClamper replaces times that lie in the future, and collects the times that the cluster still
// shows. It goes from object to object.
type timeClamper struct {
	now         time.Time
	known, kept futureTimes
	// object is the current object, and ofObject are its known times.
	object   string
	ofObject []futureTime
}

func (s *timeClamper) setObject(object string) { s.object, s.ofObject = object, s.known[object] }

// unchanged reports whether a time is used as reported. Nearly all are.
func (s *timeClamper) unchanged(reported time.Time) bool {
	return len(s.ofObject) == 0 && !reported.After(s.now)
}

// clamp returns the time from which a state of the object counts.
func (s *timeClamper) clamp(what string, reported time.Time) time.Time {
	if i := slices.IndexFunc(s.ofObject, func(g futureTime) bool { return g.field == what && g.reported.Equal(reported) }); i >= 0 {
		return s.keep(s.ofObject[i])
	}
	if !reported.After(s.now) {
		return reported
	}
	return s.keep(futureTime{what, reported, s.now})
}

// aheadOf reports whether a time lay further in the future than a duration when it was first seen,
// by the clock as it is now.
func (s *timeClamper) aheadOf(most time.Duration, what string, reported time.Time) bool {
	seen := s.now
	if i := slices.IndexFunc(s.ofObject, func(g futureTime) bool { return g.field == what && g.reported.Equal(reported) }); i >= 0 {
		seen = s.ofObject[i].seenBy(s.now)
	}
	return reported.After(seen.Add(most))
}

func (s *timeClamper) keep(g futureTime) time.Time {
	if s.kept == nil {
		s.kept = futureTimes{}
	}
	s.kept[s.object] = append(s.kept[s.object], g)
	return g.counts(s.now)
}

// OverlayTimes replaces all times of the snapshot that lie in the future. It forgets times that the
// snapshot does not show any more.
func (m *Expectations) OverlayTimes(f *Cluster, now time.Time) {
	s := &timeClamper{now: now, known: m.futureTimes}
	for i := range f.Targets {
		s.target(&f.Targets[i])
	}
	for i := range f.Repairs {
		s.repair(&f.Repairs[i])
	}
	for i := range f.Requests {
		s.request(&f.Requests[i])
	}
	m.futureTimes = s.kept
}

// OverlayLive replaces the future times of a target whose node has just been read live. It also
// forgets the tests that do not hold for the node any more.
func (m *Expectations) OverlayLive(t *Target, now time.Time) {
	m.dropTests(t)
	s := &timeClamper{now: now, known: m.futureTimes}
	s.target(t)
	for of, kept := range s.kept {
		if m.futureTimes == nil {
			m.futureTimes = futureTimes{}
		}
		m.futureTimes[of] = kept
	}
}

func (s *timeClamper) target(t *Target) {
	s.setObject(t.ID.UID)
	t.StartupFrom = s.clamp("startup", t.StartupFrom)
	t.FailedSince = s.clamp("failure", t.FailedSince)
	t.HandedBack = s.clamp("hand-back", t.HandedBack)
	s.repairRequest(&t.RepairRequest)
	t.Conditions = s.conditions("target", t.Conditions)
	t.Node.Conditions = s.conditions(t.Node.UID, t.Node.Conditions) // those of a new node count anew
}

// repairRequest notes whether a request was made far in the future. Its time stays as reported,
// since repairs record it.
func (s *timeClamper) repairRequest(q *RepairRequest) {
	q.Ahead = s.aheadOf(requestAhead, "repair request", q.At)
	s.clamp("repair request", q.At)
}

// conditions copies the conditions that it changes, since caches share them. The prefix separates those of the target
// and of its node.
func (s *timeClamper) conditions(prefix string, conditions []Condition) []Condition {
	copied := false
	for i := range conditions {
		c := conditions[i]
		if s.unchanged(c.Since) {
			continue
		}
		since := s.clamp(prefix+" "+c.Type+"="+c.Status, c.Since)
		if since.Equal(c.Since) {
			continue
		}
		if !copied {
			conditions, copied = slices.Clone(conditions), true
		}
		conditions[i].Since = since
	}
	return conditions
}

func (s *timeClamper) repair(r *Repair) {
	s.setObject(r.Namespace + "/" + r.Name)
	r.Started = s.clamp("start", r.Started)
	r.Misdated = s.aheadOf(maxClockDifference, "end", r.Ended)
	r.Ended = s.clamp("end", r.Ended)
	s.progress(r)
}

// progress replaces the times of the steps of a repair, and keeps in Written what they were.
func (s *timeClamper) progress(r *Repair) {
	if r.Written = (WrittenTimes{}); s.progressUnchanged(r) {
		return
	}
	w := &r.Written
	w.Recovered, r.Recovered = s.written("recovery", r.Recovered)
	w.Begun, r.Begun = s.written("handover", r.Begun)
	w.LastAttempt, r.LastAttempt = s.written("attempt", r.LastAttempt)
	r.Tried = slices.Clone(r.Tried)
	for i := range r.Tried {
		w.Steps = append(w.Steps, r.Tried[i].Ended)
		r.Tried[i].Ended = s.clamp("step", r.Tried[i].Ended)
	}
}

// written clamps a time, and returns it as recorded too.
func (s *timeClamper) written(what string, reported time.Time) (w WrittenTime, counts time.Time) {
	counts = s.clamp(what, reported)
	return WrittenTime{reported, counts}, counts
}

// progressUnchanged reports whether the times of the steps of a repair are used as reported.
func (s *timeClamper) progressUnchanged(r *Repair) bool {
	return s.unchanged(r.Recovered) && s.unchanged(r.Begun) && s.unchanged(r.LastAttempt) &&
		!slices.ContainsFunc(r.Tried, func(record StepRecord) bool { return !s.unchanged(record.Ended) })
}

func (s *timeClamper) request(q *Request) {
	of := q.ID.UID
	if of == "" { // the request was created, and is not seen yet
		of = q.Target.UID + "/" + q.Remedy + "/" + q.Template.String()
	}
	s.setObject(of)
	if created := s.clamp("creation", q.Created); !created.Equal(q.Created) {
		q.Created, q.CreatedReported = created, q.Created
	}
	q.Stopped = s.clamp("stop", q.Stopped)
	q.SucceededSince = s.clamp("success", q.SucceededSince)
}
