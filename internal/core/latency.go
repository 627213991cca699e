package core

import (
	"time"
)

// LatencyRecorder measures how long the stages before a repair take. It is fed once per pass with what was
// decided on, and remembers only what is not healthy.
//
//	fault begins      first judged        deadline   judged unhealthy        repair starts
//	     ├── Detecting ────┤                  ├ Deciding ┼─────── Queueing ───────┤
//
// It measures only what it saw begin. A target may be unhealthy already at the first pass, or when a policy
// is added or changes its criteria. It gives no sample of its stage then, since nothing shows which part of
// that time was Fettle's. The zero LatencyRecorder is ready; it is not safe for concurrent use.
type LatencyRecorder struct {
	pass    int
	timings map[policyTarget]timing
	// criteria are those by which the policies judged in the last pass, by the UID of the policy.
	criteria map[string]Criteria
}

// LatencyStage is a part of the time between a fault and its repair.
type LatencyStage int

// The stages that a LatencyRecorder measures.
const (
	// Detecting is from the instant at which a fault began until a pass first judged it.
	Detecting LatencyStage = iota + 1
	// Deciding is from the deadline of the criterion until a pass judged the target unhealthy.
	Deciding
	// Queueing is from the pass that first judged the target unhealthy until its repair was started.
	Queueing
)

// String names the stage.
func (s LatencyStage) String() string {
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

// LatencySample is how long one stage took for one target.
type LatencySample struct {
	Stage LatencyStage
	Took  time.Duration
}

// policyTarget is one target under one policy, by their UIDs.
type policyTarget struct{ policy, target string }

// timing is the recorded state of a target that is not healthy.
type timing struct {
	// pass is the last one in which the target was not healthy.
	pass int
	// detected is set once Detecting was measured, or can't be any more.
	detected bool
	// unhealthy is set once the target was judged so, since when it was; zero when that is not known.
	unhealthy bool
	since     time.Time
}

// Observe takes in one pass and returns the stages that ended with it.
func (s *LatencyRecorder) Observe(policies []Policy, cluster *Cluster, d Decision, now time.Time) []LatencySample {
	if cluster.Observed != Yes {
		return nil
	}
	s.pass++
	fresh := s.freshPolicies(policies)
	var samples []LatencySample
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if v.Health == Healthy || v.Health == Gone {
			continue
		}
		key := policyTarget{policies[v.Policy].ID.UID, cluster.Targets[v.Target].ID.UID}
		samples = append(samples, s.judged(key, v, fresh[v.Policy], now)...)
	}
	for key, t := range s.timings {
		if t.pass != s.pass {
			delete(s.timings, key)
		}
	}
	return samples
}

// Started takes in the start of a repair which a policy leads, and returns how long it had to wait.
func (s *LatencyRecorder) Started(policy, target ID, at time.Time) (LatencySample, bool) {
	key := policyTarget{policy.UID, target.UID}
	t := s.timings[key]
	if t.since.IsZero() {
		return LatencySample{}, false
	}
	sample := LatencySample{Queueing, max(0, at.Sub(t.since))}
	// A repair that is refused and started anew later has waited for something else.
	t.since = time.Time{}
	s.timings[key] = t
	return sample, true
}

// freshPolicies reports which policies judge by criteria that they did not have in the last pass.
func (s *LatencyRecorder) freshPolicies(policies []Policy) []bool {
	criteria, fresh := make(map[string]Criteria, len(policies)), make([]bool, len(policies))
	for i := range policies {
		p := &policies[i]
		old, known := s.criteria[p.ID.UID]
		fresh[i] = !known || !old.equal(&p.Criteria)
		criteria[p.ID.UID] = p.Criteria
	}
	s.criteria = criteria
	return fresh
}

// judged takes in one verdict that is not healthy.
func (s *LatencyRecorder) judged(key policyTarget, v *Verdict, fresh bool, now time.Time) []LatencySample {
	t := s.timings[key]
	var samples []LatencySample
	if faulty(v) && !t.detected && !fresh {
		samples = append(samples, LatencySample{Detecting, max(0, now.Sub(v.Since))})
	}
	if v.Health == Unhealthy && !t.unhealthy && !fresh {
		t.since = now
		if !v.Since.IsZero() {
			samples = append(samples, LatencySample{Deciding, max(0, now.Sub(v.Since.Add(v.Limit)))})
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
	if s.timings == nil {
		s.timings = map[policyTarget]timing{}
	}
	s.timings[key] = t
	return samples
}

// faulty reports whether a verdict has a fault with a beginning. A machine that boots has none, since it is given time.
func faulty(v *Verdict) bool {
	return (v.Reason == ConditionMet || v.Reason == TargetFailed) && !v.Since.IsZero()
}
