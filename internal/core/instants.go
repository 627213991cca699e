package core

import (
	"slices"
	"time"
)

// Instants that the cluster tells were written by many clocks. An instant that lies in the future says that the clock of its author
// is ahead, or Fettle's behind. Such a state counts from when it was first seen:
//
//	told        ────────┬───────────────────────────┬──── time
//	               first seen                     told
//	               counts from here
//
// Otherwise a node whose clock is a year ahead would be waited for a year. A state that is seen has held since then, so this
// hastens nothing (I5). Losing memory counts anew (I6).

// glimpse is an instant that lay in the future when it was first seen.
type glimpse struct {
	// what tells apart the instants of one object.
	what string
	told time.Time
	seen time.Time
}

// steady is how far the clock may be slewed before an instant is moved by it.
const steady = time.Second

// seenBy returns when the state was first seen, by the clock as it is now. If Fettle's clock was set meanwhile, the instant is
// moved along: what has passed since is known by the monotonic clock, where now has one.
func (g *glimpse) seenBy(now time.Time) time.Time { return seenBy(g.seen, now) }

// seenBy returns when something was first seen, by the clock as it is now.
func seenBy(first, now time.Time) time.Time {
	seen := now.Add(-max(0, now.Sub(first)))
	if moved := seen.Round(0).Sub(first.Round(0)); moved.Abs() < steady {
		return first
	}
	return seen
}

// counts returns the instant from which the state counts.
func (g *glimpse) counts(now time.Time) time.Time {
	if seen := g.seenBy(now); g.told.After(seen) {
		return seen
	}
	return g.told
}

// instants are the glimpses by the object that tells them.
type instants map[string][]glimpse

// settler replaces instants that lie in the future, and notes which of them still show. It goes from object to object.
type settler struct {
	now         time.Time
	known, kept instants
	// of is the object, and had what is known of it.
	of  string
	had []glimpse
}

func (s *settler) turnTo(object string) { s.of, s.had = object, s.known[object] }

// settled reports whether an instant is what it says. Nearly all are.
func (s *settler) settled(told time.Time) bool { return len(s.had) == 0 && !told.After(s.now) }

// settle returns the instant from which a state of the object counts.
func (s *settler) settle(what string, told time.Time) time.Time {
	if told.IsZero() || s.settled(told) {
		return told
	}
	if i := slices.IndexFunc(s.had, func(g glimpse) bool { return g.what == what && g.told.Equal(told) }); i >= 0 {
		return s.keep(s.had[i])
	}
	if !told.After(s.now) {
		return told
	}
	return s.keep(glimpse{what, told, s.now})
}

// aheadOf reports whether an instant of the object lay further in the future than a duration when it was first seen, by the clock
// as it is now.
func (s *settler) aheadOf(most time.Duration, what string, told time.Time) bool {
	seen := s.now
	if i := slices.IndexFunc(s.had, func(g glimpse) bool { return g.what == what && g.told.Equal(told) }); i >= 0 {
		seen = s.had[i].seenBy(s.now)
	}
	return told.After(seen.Add(most))
}

func (s *settler) keep(g glimpse) time.Time {
	if s.kept == nil {
		s.kept = instants{}
	}
	s.kept[s.of] = append(s.kept[s.of], g)
	return g.counts(s.now)
}

// LayInstants has no instant of the snapshot lie in the future, and forgets the instants that it shows no more.
func (m *Memory) LayInstants(f *Fleet, now time.Time) {
	s := &settler{now: now, known: m.instants}
	for i := range f.Targets {
		s.target(&f.Targets[i])
	}
	for i := range f.Repairs {
		s.repair(&f.Repairs[i])
	}
	for i := range f.Requests {
		s.request(&f.Requests[i])
	}
	m.instants = s.kept
}

// LayLive has no instant of a target lie in the future whose node has just been read live, and forgets which tests held for the
// node until then and do not now.
func (m *Memory) LayLive(t *Target, now time.Time) {
	m.dropTests(t)
	s := &settler{now: now, known: m.instants}
	s.target(t)
	for of, kept := range s.kept {
		if m.instants == nil {
			m.instants = instants{}
		}
		m.instants[of] = kept
	}
}

func (s *settler) target(t *Target) {
	s.turnTo(t.ID.UID)
	t.StartupFrom = s.settle("startup", t.StartupFrom)
	t.FailedSince = s.settle("failure", t.FailedSince)
	t.HandedBack = s.settle("hand-back", t.HandedBack)
	s.repairRequest(&t.RepairRequest)
	t.Conditions = s.conditions("target", t.Conditions)
	t.Node.Conditions = s.conditions("node", t.Node.Conditions)
}

// repairRequest notes whether a request was made far in the future. Its time stays as it is told, since repairs record that.
func (s *settler) repairRequest(q *RepairRequest) {
	q.Ahead = s.aheadOf(requestAhead, "repair request", q.At)
	s.settle("repair request", q.At)
}

// conditions copies what it changes: caches have the same conditions.
func (s *settler) conditions(whose string, conditions []Condition) []Condition {
	copied := false
	for i := range conditions {
		c := conditions[i]
		if s.settled(c.Since) {
			continue
		}
		since := s.settle(whose+" "+c.Type+"="+c.Status, c.Since)
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

func (s *settler) repair(r *Repair) {
	s.turnTo(r.Namespace + "/" + r.Name)
	r.Started = s.settle("start", r.Started)
	r.Misdated = s.aheadOf(clocksDiffer, "end", r.Ended)
	r.Ended = s.settle("end", r.Ended)
	s.progress(r)
}

// progress replaces the instants that are recorded in the course of a repair, and keeps in Written what they were.
func (s *settler) progress(r *Repair) {
	if r.Written = (WrittenTimes{}); s.told(r) {
		return
	}
	w := &r.Written
	w.Recovered, r.Recovered = s.written("recovery", r.Recovered)
	w.Begun, r.Begun = s.written("handover", r.Begun)
	w.LastAttempt, r.LastAttempt = s.written("attempt", r.LastAttempt)
	r.Rungs = slices.Clone(r.Rungs)
	for i := range r.Rungs {
		w.Steps = append(w.Steps, r.Rungs[i].Ended)
		r.Rungs[i].Ended = s.settle("step", r.Rungs[i].Ended)
	}
}

// written settles an instant, and returns it as the record has it too.
func (s *settler) written(what string, told time.Time) (w WrittenTime, counts time.Time) {
	counts = s.settle(what, told)
	return WrittenTime{told, counts}, counts
}

// told reports whether the instants in the course of a repair are what they say.
func (s *settler) told(r *Repair) bool {
	return s.settled(r.Recovered) && s.settled(r.Begun) && s.settled(r.LastAttempt) &&
		!slices.ContainsFunc(r.Rungs, func(rung Rung) bool { return !s.settled(rung.Ended) })
}

func (s *settler) request(q *Request) {
	of := q.ID.UID
	if of == "" { // it was made and is not seen yet
		of = q.Target.UID + "/" + q.Remedy + "/" + q.Template.String()
	}
	s.turnTo(of)
	q.Created = s.settle("creation", q.Created)
	q.Stopped = s.settle("stop", q.Stopped)
	q.SucceededSince = s.settle("success", q.SucceededSince)
}
