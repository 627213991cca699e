package core

import (
	"time"
)

// Stopwatch measures how long the stages before a repair take. It is fed once per pass with what was
// decided on, and remembers only what is not healthy.
//
//	fault begins      first judged        deadline   judged unhealthy        repair starts
//	     ├── Detecting ────┤                  ├ Deciding ┼─────── Queueing ───────┤
//
// It measures only what it saw begin. What was not healthy already at the first pass, or when a policy
// came or changed its criteria, gives no sample of the stage that it was in, since nobody can tell
// what part of that time was Fettle's. The zero Stopwatch is ready; it is not safe for concurrent use.
type Stopwatch struct {
	pass  int
	open  map[watched]timing
	rules map[string]rules
}

// Stage is a part of the time between a fault and its repair.
type Stage int

// The stages that a Stopwatch measures.
const (
	// Detecting is from the instant at which a fault began until a pass first judged it.
	Detecting Stage = iota + 1
	// Deciding is from the deadline of the criterion until a pass judged the target unhealthy.
	Deciding
	// Queueing is from the pass that first judged the target unhealthy until its repair was started.
	Queueing
)

// String names the stage.
func (s Stage) String() string {
	switch s {
	case Detecting:
		return "detect"
	case Deciding:
		return "decide"
	case Queueing:
		return "queue"
	}
	return "unnamed"
}

// Sample is how long one stage took for one target.
type Sample struct {
	Stage Stage
	Took  time.Duration
}

// watched is one target under one policy, by their UIDs.
type watched struct{ policy, target string }

// timing is what is remembered of a target that is not healthy.
type timing struct {
	// pass is the last one in which the target was not healthy.
	pass int
	// detected is set once Detecting was measured, or can't be any more.
	detected bool
	// unhealthy is set once the target was judged so, since when it was; zero when that is not known.
	unhealthy bool
	since     time.Time
}

// rules are the criteria by which a policy judged in its last pass.
type rules struct {
	pass     int
	criteria Criteria
}

// Read takes in one pass and gives the stages that ended with it.
func (s *Stopwatch) Read(policies []Policy, fleet *Fleet, d Decision, now time.Time) []Sample {
	if fleet.Observed != Yes {
		return nil
	}
	s.pass++
	fresh := s.freshPolicies(policies)
	var samples []Sample
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if v.Health == Healthy || v.Health == Gone {
			continue
		}
		key := watched{policies[v.Policy].ID.UID, fleet.Targets[v.Target].ID.UID}
		samples = append(samples, s.judged(key, v, fresh[v.Policy], now)...)
	}
	for key, t := range s.open {
		if t.pass != s.pass {
			delete(s.open, key)
		}
	}
	return samples
}

// Started takes in that a repair which a policy leads was started, and how long it had to wait.
func (s *Stopwatch) Started(policy, target ID, at time.Time) (Sample, bool) {
	key := watched{policy.UID, target.UID}
	t, known := s.open[key]
	if !known || t.since.IsZero() {
		return Sample{}, false
	}
	sample := Sample{Queueing, max(0, at.Sub(t.since))}
	// What is refused and started anew later has waited for something else.
	t.since = time.Time{}
	s.open[key] = t
	return sample, true
}

// freshPolicies tells which policies judge by criteria that they did not have in the last pass.
func (s *Stopwatch) freshPolicies(policies []Policy) []bool {
	if s.rules == nil {
		s.rules = map[string]rules{}
	}
	fresh := make([]bool, len(policies))
	for i := range policies {
		p := &policies[i]
		old, known := s.rules[p.ID.UID]
		fresh[i] = !known || old.pass != s.pass-1 || !old.criteria.same(&p.Criteria)
		s.rules[p.ID.UID] = rules{s.pass, p.Criteria}
	}
	if len(s.rules) > len(policies) {
		for uid, r := range s.rules {
			if r.pass != s.pass {
				delete(s.rules, uid)
			}
		}
	}
	return fresh
}

// judged takes in one verdict that is not healthy.
func (s *Stopwatch) judged(key watched, v *Verdict, fresh bool, now time.Time) []Sample {
	t := s.open[key]
	var samples []Sample
	if faulty(v) && !t.detected && !fresh {
		samples = append(samples, Sample{Detecting, max(0, now.Sub(v.Since))})
	}
	if v.Health == Unhealthy && !t.unhealthy && !fresh {
		t.since = now
		if !v.Since.IsZero() {
			samples = append(samples, Sample{Deciding, max(0, now.Sub(v.Since.Add(v.Limit)))})
		}
	}
	t.pass = s.pass
	t.detected = t.detected || faulty(v) || (fresh && v.Health == Undetermined)
	switch v.Health {
	case Unhealthy:
		t.unhealthy = true
	case Suspect: // another fault, whose time is not over
		t.unhealthy, t.since = false, time.Time{}
	case Undetermined, Healthy, Gone:
	}
	if s.open == nil {
		s.open = map[watched]timing{}
	}
	s.open[key] = t
	return samples
}

// faulty verdicts have a fault with a beginning. A machine that boots has none: it is given time.
func faulty(v *Verdict) bool {
	return (v.Reason == ConditionMet || v.Reason == TargetFailed) && !v.Since.IsZero()
}
