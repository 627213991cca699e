package core

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// atNoon is when the worlds of the tests in this package are looked at.
var atNoon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// plannerOf returns a planner that knows all of a world, and has decided about no repair yet.
func plannerOf(policies []Policy, f *Cluster) *planner { return newPlanner(policies, f, atNoon) }

// observed returns a cluster of which all is known.
func observed(targets []Target, repairs []Repair, requests ...Request) *Cluster {
	return &Cluster{Observed: Yes, ClockAgrees: Yes, Upgrading: No, Targets: targets, Repairs: repairs, Requests: requests}
}

// idChanges are the ways in which an ID may differ from another in one part.
var idChanges = map[string]func(*ID){
	"another kind":      func(id *ID) { id.Kind = "Other" },
	"another namespace": func(id *ID) { id.Namespace = "other" },
	"another name":      func(id *ID) { id.Name = "other" },
	"another UID":       func(id *ID) { id.UID = "other" },
}

// TestRequestNamesItsTargetAndPolicy: each part of an ID tells targets and policies apart. A request may lack a UID.
func TestRequestNamesItsTargetAndPolicy(t *testing.T) {
	target, policy := ID{"Machine", "machines", "m", "m-uid"}, ID{"HealthCheck", "machines", "p", "p-uid"}
	q := Request{Target: target, Policy: policy}
	if !q.about(&target) || !q.RequestedBy(&policy) {
		t.Error("a request is not about its target, or not of its policy")
	}
	for name, change := range idChanges {
		otherTarget, otherPolicy := target, policy
		change(&otherTarget)
		change(&otherPolicy)
		if q.about(&otherTarget) || q.RequestedBy(&otherPolicy) {
			t.Errorf("%s: a request is about another target, or of another policy", name)
		}
		bare := q
		bare.Target.UID, bare.Policy.UID = "", ""
		if same := name == "another UID"; bare.about(&otherTarget) != same || bare.RequestedBy(&otherPolicy) != same {
			t.Errorf("%s: without UIDs the request is about the target: %t, and of the policy: %t", name, !same, !same)
		}
	}
}

// TestRequestIsForAStep: by its remedy and its template. Where it names no policy, it may be of each policy with such a step.
func TestRequestIsForAStep(t *testing.T) {
	step := Step{Remedy: "Ask", Template: Reference{Name: "reboot"}}
	p := Policy{ID: ID{Name: "p"}, Steps: []Step{step}}
	for name, c := range map[string]struct {
		request    Request
		is, may    bool
		whosePlace int
	}{
		"the step's":                 {Request{Remedy: "Ask", Template: step.Template}, true, true, 0},
		"of another remedy":          {Request{Remedy: "Other", Template: step.Template}, false, false, none},
		"from another template":      {Request{Remedy: "Ask", Template: Reference{Name: "other"}}, false, false, none},
		"another policy's":           {Request{Remedy: "Ask", Template: step.Template, Policy: ID{Name: "q"}}, true, false, 0},
		"its own, for a former step": {Request{Remedy: "Other", Policy: p.ID}, false, true, none},
	} {
		if c.request.isFor(&step) != c.is || c.request.mayBeRequestedBy(&p) != c.may || c.request.stepIn(p.Steps) != c.whosePlace {
			t.Errorf("%s: it is for the step: %t, the policy may have requested it: %t", name, !c.is, c.request.mayBeRequestedBy(&p))
		}
	}
}

// TestWhichRequestsRemain: requests that Fettle did not make, and its own that are stuck. A request on its way out does not remain.
func TestWhichRequestsRemain(t *testing.T) {
	p := askingPolicy("p", all(1), reboots)
	n := nodeTarget("n", "True")
	stuck := func(q *Request) { q.Leaving, q.LeavingSince, q.KeptBy = true, atNoon.Add(-stuckAfter), "f" }
	for name, c := range map[string]struct {
		change  func(*Request)
		remains bool
		says    string
	}{
		"its own":               {func(*Request) {}, false, ""},
		"on its way out":        {func(q *Request) { stuck(q); q.LeavingSince = atNoon }, false, ""},
		"stuck":                 {stuck, true, "f"},
		"of another author":     {notOwn, true, "Fettle did not make"},
		"of another policy":     {func(q *Request) { notOwn(q); q.Policy.UID, q.Policy.Name = "q", "q" }, false, ""},
		"stuck, of another one": {func(q *Request) { stuck(q); q.Policy.UID, q.Policy.Name = "q", "q" }, false, ""},
	} {
		d := plannerOf([]Policy{p}, observed([]Target{n}, nil, requestOf(&p, n.ID, reboots, c.change)))
		text, remains := d.remainingRequest(0, 0)
		if remains != c.remains || !strings.Contains(text, c.says) || (text != "") != c.remains {
			t.Errorf("%s: it remains: %t, since %q", name, remains, text)
		}
	}
}

// TestWhenRequestsAreStuck: only Fettle's own that were withdrawn ten minutes ago, and that finalizers keep.
func TestWhenRequestsAreStuck(t *testing.T) {
	long := Request{ID: ID{Name: "b"}, Own: true, Leaving: true, LeavingSince: atNoon.Add(-stuckAfter), KeptBy: "f"}
	for name, c := range map[string]struct {
		change func(*Request)
		stuck  bool
		next   time.Time
	}{
		"for long":            {func(*Request) {}, true, time.Time{}},
		"not for long":        {func(q *Request) { q.LeavingSince = atNoon.Add(time.Second - stuckAfter) }, false, atNoon.Add(time.Second)},
		"of another author":   {func(q *Request) { q.Own, q.LeavingSince = false, atNoon }, false, time.Time{}},
		"not withdrawn":       {func(q *Request) { q.Leaving = false }, false, time.Time{}},
		"with a time to come": {func(q *Request) { q.Leaving, q.LeavingSince = false, atNoon }, false, time.Time{}},
		"at an unknown time":  {func(q *Request) { q.LeavingSince = time.Time{} }, false, time.Time{}},
		"kept by none":        {func(q *Request) { q.KeptBy = "" }, false, time.Time{}},
	} {
		q := long
		c.change(&q)
		if got := q.stuck(atNoon); got != c.stuck {
			t.Errorf("%s: it is stuck: %t", name, got)
		}
		d := plannerOf(nil, observed(nil, nil, q))
		d.findStuck()
		if got := len(d.decision.Stuck) > 0; got != c.stuck || !d.next.Equal(c.next) {
			t.Errorf("%s: it is reported as stuck: %t, and the next pass is at %s, want %s", name, got, d.next, c.next)
		}
	}
	earlier := long
	earlier.ID.Name = "a"
	d := plannerOf(nil, observed(nil, nil, long, earlier))
	d.findStuck()
	if got := d.decision.Stuck; len(got) != 2 || got[0].Request != 1 {
		t.Errorf("stuck are %v, want them by name", got)
	}
	d = plannerOf(nil, &Cluster{Requests: []Request{long}})
	d.findStuck()
	if len(d.decision.Stuck) > 0 {
		t.Error("requests of a cluster that is not observed are stuck")
	}
}

// TestWhoseRequestIsStuck: the policy that it names, or else that of the last repair, or else the oldest with its step.
func TestWhoseRequestIsStuck(t *testing.T) {
	asks := Step{Remedy: "Mark", Nature: AskOwner}
	policies := []Policy{
		{ID: ID{Name: "young"}, Created: atNoon, Steps: []Step{asks}},
		{ID: ID{Name: "old"}, Created: atNoon.Add(-time.Hour), Steps: []Step{asks}},
		{ID: ID{Name: "oldest"}, Created: atNoon.Add(-2 * time.Hour), Steps: []Step{{Remedy: "Other"}}},
	}
	m := ID{Kind: "Machine", Name: "m", UID: "m-uid"}
	repaired := func(policy int, steps ...Step) []Repair {
		return []Repair{{Name: "r", Target: m, Policy: policies[policy].ID, Steps: steps, Started: atNoon.Add(-time.Hour)}}
	}
	for name, c := range map[string]struct {
		by      ID
		repairs []Repair
		want    int
	}{
		"it names its policy":                   {policies[0].ID, nil, 0},
		"it names a policy that is gone":        {ID{Name: "gone"}, repaired(0, asks), none},
		"a repair made it":                      {ID{}, repaired(0, asks), 0},
		"the last repair did not make it":       {ID{}, repaired(0, Step{Remedy: "Other"}), 1},
		"there is no repair, and two have that": {ID{}, nil, 1},
	} {
		f := observed(nil, c.repairs, Request{Remedy: "Mark", Target: m, Policy: c.by, Own: true})
		d := plannerOf(policies, f)
		if got := newStuckRequester(&d.judgement).of(&f.Requests[0]); got != c.want {
			t.Errorf("%s: it is of policy %d, want %d", name, got, c.want)
		}
	}
	slices.Reverse(policies)
	f := observed(nil, nil, Request{Remedy: "Mark", Target: m, Own: true})
	d := plannerOf(policies, f)
	if got := newStuckRequester(&d.judgement).of(&f.Requests[0]); got != 1 {
		t.Errorf("in the other order: it is of policy %d, want 1", got)
	}
}

// TestDoubled: a time is doubled up to a limit that need not be a power of two.
func TestDoubled(t *testing.T) {
	for _, c := range []struct {
		base  time.Duration
		times int
		limit time.Duration
		want  time.Duration
	}{{1, 0, 5, 1}, {1, 1, 5, 2}, {2, 1, 5, 4}, {1, 2, 5, 4}, {1, 3, 5, 5}, {2, 1, 4, 4}, {7, 0, 5, 5}, {0, 9, 5, 0}, {-1, 3, 5, -1}, {1, 100, 1 << 62, 1 << 62}} {
		if got := doubled(c.base, c.times, c.limit); got != c.want {
			t.Errorf("%d doubled %d times, at most %d: %d, want %d", c.base, c.times, c.limit, got, c.want)
		}
	}
}

// TestReasonsBeyondTheLast: a reason without a name is named so.
func TestReasonsBeyondTheLast(t *testing.T) {
	for reason, want := range map[Reason]string{0: "Unjudged", NoCriterionMet: "Healthy", ConditionsMet: "UnhealthyConditions", ConditionsMet + 1: "Unjudged"} {
		if got := reason.String(); got != want {
			t.Errorf("reason %d is named %q, want %q", reason, got, want)
		}
	}
}

// TestReclaimed: a target is reclaimed while it is unhealthy by a criterion that says so.
func TestReclaimed(t *testing.T) {
	reclaims := ConditionCriterion{Reclaims: true}
	for name, c := range map[string]struct {
		verdict Verdict
		want    bool
	}{
		"unhealthy":           {Verdict{Health: Unhealthy, Reason: ConditionMet, Criterion: reclaims}, true},
		"suspect":             {Verdict{Health: Suspect, Reason: ConditionMet, Criterion: reclaims}, false},
		"by its own object":   {Verdict{Health: Unhealthy, Reason: TargetConditionMet, Criterion: reclaims}, false},
		"by another criteria": {Verdict{Health: Unhealthy, Reason: ConditionMet}, false},
	} {
		if got := c.verdict.reclaimed(); got != c.want {
			t.Errorf("%s: it is reclaimed: %t", name, got)
		}
	}
}

// TestVerdictTexts: sentences say since when, where that is known, and which delay has passed.
func TestVerdictTexts(t *testing.T) {
	const gone = "the node that the machine refers to no longer exists"
	for want, v := range map[string]Verdict{
		"a user has requested its repair":                     {Reason: RemediationRequested},
		"a user requested its repair at 2026-08-03T12:00:00Z": {Reason: RemediationRequested, Since: atNoon},
		"the node no longer exists":                           {Reason: NodeNotFound, Health: Gone},
		gone:                                                  {Reason: NodeNotFound, Health: Unhealthy},
		gone + "; a live read found that at 2026-08-03T12:00:00Z, and the delay of 1m0s has passed since":          {Reason: NodeNotFound, Health: Gone, Limit: time.Minute, Since: atNoon},
		gone + "; it is unhealthy 1m0s after the controller first found that":                                      {Reason: NodeNotFound, Health: Suspect, Limit: time.Minute},
		"no criterion is met any more, and the request to the remediator is not withdrawn yet":                     {Reason: Recovering},
		"no criterion is met any more, but the request to the remediator still stands: it is not ours":             {Reason: Recovering, Detail: "it is not ours"},
		"no node has joined yet; the node startup timeout is disabled, so it may take any time":                    {Reason: NodeStartupTimeout, Health: Suspect},
		"no node has joined since 2026-08-03T12:00:00Z, past the node startup timeout of 1m0s":                     {Reason: NodeStartupTimeout, Health: Unhealthy, Since: atNoon, Limit: time.Minute},
		"no node has joined since 2026-08-03T12:00:00Z; it has 1m0s for that":                                      {Reason: NodeStartupTimeout, Health: Suspect, Since: atNoon, Limit: time.Minute},
		"the machine's condition Up is Unknown but carries no lastTransitionTime, so it is not known for how long": {Reason: TargetConditionUntimed, Criterion: ConditionCriterion{Type: "Up", Status: "Unknown"}},
		"node condition Up is Unknown but carries no lastTransitionTime, so it is not known for how long":          {Reason: ConditionUntimed, Criterion: ConditionCriterion{Type: "Up", Status: "Unknown"}},
		"all hold; it is unhealthy 1m0s after the controller first found that":                                     {Reason: ConditionsMet, Health: Suspect, Detail: "all hold", Limit: time.Minute},
		"all hold since 2026-08-03T12:00:00Z; it is unhealthy after 1m0s":                                          {Reason: ConditionsMet, Health: Suspect, Detail: "all hold", Limit: time.Minute, Since: atNoon},
		"all hold since 2026-08-03T12:00:00Z, past the 1m0s limit":                                                 {Reason: ConditionsMet, Health: Unhealthy, Detail: "all hold", Limit: time.Minute, Since: atNoon},
		"the machine's condition Up=Unknown since 2026-08-03T12:00:00Z, past the 1m0s limit":                       {Reason: TargetConditionMet, Health: Unhealthy, Since: atNoon, Criterion: ConditionCriterion{Type: "Up", Status: "Unknown", For: time.Minute}},
		"it is not judged yet: it is being prepared":                                                               {Reason: Premature, Detail: "it is being prepared"},
	} {
		if got := v.Text(); got != want {
			t.Errorf("%+v is told as %q, want %q", v, got, want)
		}
	}
}

// TestSettling: conditions of agents have to settle, those of the kubelet and what a user has confirmed have not.
func TestSettling(t *testing.T) {
	c := Criteria{Conditions: []ConditionCriterion{{Type: "Ready"}, {Type: "Disk"}, {Type: "Kernel"}}}
	at := func(seconds int) time.Time { return atNoon.Add(time.Duration(seconds) * time.Second) }
	for name, tc := range map[string]struct {
		conditions []Condition
		confirmed  bool
		settles    time.Time
		healthy    time.Time
	}{
		"no condition":        {nil, false, time.Time{}, time.Time{}},
		"of the kubelet":      {[]Condition{{Type: "Ready", Since: at(1)}}, false, time.Time{}, at(1)},
		"without a criterion": {[]Condition{{Type: "Other", Since: at(1)}}, false, time.Time{}, time.Time{}},
		"of an agent":         {[]Condition{{Type: "Ready", Since: at(9)}, {Type: "Disk", Since: at(1)}}, false, at(1).Add(stabilizationWindow), at(9)},
		"the last counts":     {[]Condition{{Type: "Disk", Since: at(1)}, {Type: "Kernel", Since: at(2)}}, false, at(2).Add(stabilizationWindow), at(2)},
		"in any order":        {[]Condition{{Type: "Kernel", Since: at(2)}, {Type: "Disk", Since: at(1)}}, false, at(2).Add(stabilizationWindow), at(2)},
		"a user confirms":     {[]Condition{{Type: "Disk", Since: at(1)}}, true, time.Time{}, at(1)},
	} {
		target := Target{Node: Node{Conditions: tc.conditions}, ConfirmedHealthy: tc.confirmed}
		if got := stableAt(&c, &target); !got.Equal(tc.settles) {
			t.Errorf("%s: it settles at %s, want %s", name, got, tc.settles)
		}
		if got := healthySince(&c, &target); !got.Equal(tc.healthy) {
			t.Errorf("%s: it is healthy since %s, want %s", name, got, tc.healthy)
		}
	}
}
