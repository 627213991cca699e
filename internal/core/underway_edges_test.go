package core

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func markedTarget(t *Target)               { t.ExternallyRemediated = true }
func deletedTarget(t *Target)              { t.Deleting = true }
func wasStopped(q *Request)                { q.Stopped = atNoon.Add(-time.Minute) }
func saysItself(answer Tri) func(*Request) { return func(q *Request) { q.Succeeded = answer } }
func limited(s Step, d time.Duration) Step { s.Limit = d; return s }
func steps(all ...Step) func(*Repair)      { return func(r *Repair) { r.Steps = all } }
func gatesOf(refusals []Refusal) (all []Gate) {
	for _, r := range refusals {
		all = append(all, r.Gate)
	}
	return all
}

// TestFurtherSteps: a step of a repair that is under way is spared gates, unless it has the target replaced.
func TestFurtherSteps(t *testing.T) {
	deletes := Step{Remedy: "Delete"}
	p := askingPolicy("p", all(1), reboots, reimages)
	n := nodeTarget("n", "False")
	stands := []Request{requestOf(&p, n.ID, reboots)}
	for name, c := range map[string]struct {
		target        Target
		repair        Repair
		requests      []Request
		further, turn bool
	}{
		"not begun":                            {target: n, repair: repairOf(&p, n.ID), turn: true},
		"under way":                            {target: n, repair: repairOf(&p, n.ID), requests: stands, further: true},
		"under way, and a deletion next":       {target: n, repair: repairOf(&p, n.ID, steps(reboots, deletes), triedSteps(1)), requests: stands, turn: true},
		"under way, with a mark for the owner": {target: n, repair: repairOf(&p, n.ID, steps(reboots, asksItsMS), triedSteps(1)), requests: append(stands, requestOf(&p, n.ID, asksItsMS))},
		"under way, and another asked next":    {target: n, repair: repairOf(&p, n.ID, triedSteps(1)), requests: stands, further: true},
		"under way, and no step left":          {target: n, repair: repairOf(&p, n.ID, triedSteps(2)), requests: stands, further: true},
		"being deleted, with a deletion next":  {target: nodeTarget("n", "False", deletedTarget), repair: repairOf(&p, n.ID, steps(deletes))},
		"being deleted":                        {target: nodeTarget("n", "False", deletedTarget), repair: repairOf(&p, n.ID), further: true},
	} {
		d := plannerOf([]Policy{p}, observed([]Target{c.target}, []Repair{c.repair}, c.requests...))
		if got := d.isFurtherStep(&proposal{target: 0, repair: 0}); got != c.further {
			t.Errorf("%s: it is a further step: %t", name, got)
		}
		if got := d.waitsForTurn(0, 0); got != c.turn {
			t.Errorf("%s: it waits for its turn: %t", name, got)
		}
		if d.isFurtherStep(&proposal{target: 0, repair: none}) {
			t.Errorf("%s: a new repair is a further step", name)
		}
	}
}

// TestRepairsOutOfSteps: none is left that may help, and no remediator is at work, also of another author.
func TestRepairsOutOfSteps(t *testing.T) {
	p := askingPolicy("p", all(1), limited(reboots, time.Minute), reimages)
	n := nodeTarget("n", "False")
	open := repairOf(&p, n.ID, triedSteps(1))
	last := func(changes ...func(*Request)) Request { return requestOf(&p, n.ID, reimages, changes...) }
	longAgo := func(q *Request) { q.Created = atNoon.Add(-time.Hour) }
	for name, c := range map[string]struct {
		repair    Repair
		requests  []Request
		unlisted  bool
		clock     Tri
		exhausted bool
		out       bool
		next      time.Time
	}{
		"a step is under way":                {open, nil, false, Yes, false, false, time.Time{}},
		"all were given up":                  {repairOf(&p, n.ID, triedSteps(2)), nil, false, Yes, true, true, time.Time{}},
		"it has none":                        {repairOf(&p, n.ID, steps()), nil, false, Yes, false, false, time.Time{}},
		"more were given up than there are":  {repairOf(&p, n.ID, triedSteps(3)), nil, false, Yes, true, true, time.Time{}},
		"all were, and requests are unseen":  {repairOf(&p, n.ID, triedSteps(2)), nil, true, Yes, true, false, time.Time{}},
		"all were, and a remediator works":   {repairOf(&p, n.ID, triedSteps(2)), []Request{last()}, false, Yes, true, false, time.Time{}},
		"all were, and it was told to stop":  {repairOf(&p, n.ID, triedSteps(2)), []Request{last(wasStopped)}, false, Yes, true, true, time.Time{}},
		"all were, and another's works":      {repairOf(&p, n.ID, triedSteps(2)), []Request{last(notOwn, func(q *Request) { q.Remedy = "Other" })}, false, Yes, true, false, time.Time{}},
		"the last one fails":                 {open, []Request{last(saysItself(No))}, false, Yes, true, true, time.Time{}},
		"the last one works":                 {open, []Request{last()}, false, Yes, false, false, time.Time{}},
		"the last one has just succeeded":    {open, []Request{last(saysItself(Yes))}, false, Yes, false, false, atNoon.Add(9 * time.Minute)},
		"the last one succeeded to no avail": {open, []Request{last(saysItself(Yes), longAgo)}, false, Yes, true, true, time.Time{}},
		"it did, by a clock that is wrong":   {open, []Request{last(saysItself(Yes), longAgo)}, false, No, false, false, time.Time{}},
		"the first one fails":                {repairOf(&p, n.ID), []Request{requestOf(&p, n.ID, limited(reboots, time.Minute), saysItself(No))}, false, Yes, false, false, time.Time{}},
		"a last one with a limit fails":      {repairOf(&p, n.ID, steps(limited(reboots, time.Minute))), []Request{requestOf(&p, n.ID, reboots, saysItself(No))}, false, Yes, false, false, time.Time{}},
		"a last mark fails":                  {repairOf(&p, n.ID, steps(asksItsMS)), []Request{requestOf(&p, n.ID, asksItsMS, saysItself(No))}, false, Yes, false, false, time.Time{}},
		"a first without a limit fails":      {repairOf(&p, n.ID, steps(reboots, reimages)), []Request{requestOf(&p, n.ID, reboots, saysItself(No))}, false, Yes, false, false, time.Time{}},
	} {
		f := observed([]Target{n}, []Repair{c.repair}, c.requests...)
		f.ClockAgrees = c.clock
		if c.unlisted {
			f.UnlistedTemplates = []Reference{reboots.Template}
		}
		d := plannerOf([]Policy{p}, f)
		d.next = time.Time{}
		if d.exhaustedBy(&f.Repairs[0], 0) != c.exhausted || d.outOfSteps(0) != c.out {
			t.Errorf("%s: no step may help: %t, and it is left to users: %t", name, d.exhaustedBy(&f.Repairs[0], 0), d.outOfSteps(0))
		}
		if !d.next.Equal(c.next) {
			t.Errorf("%s: the next pass is at %s, want %s", name, d.next, c.next)
		}
		f = observed(nil, []Repair{c.repair}, c.requests...)
		if plannerOf([]Policy{p}, f).outOfSteps(0) {
			t.Errorf("%s: a repair of a target that is gone is left to users", name)
		}
	}
}

// TestUnansweredRepairs: a remedy may have done something unseen until a cache would show it, by a clock that agrees.
func TestUnansweredRepairs(t *testing.T) {
	p := askingPolicy("p", all(1), reboots)
	n := nodeTarget("n", "False")
	for name, c := range map[string]struct {
		ended  time.Duration
		seen   int
		agrees Tri
		age    time.Duration
		want   bool
		next   time.Time
	}{
		"a moment ago":                       {10 * time.Second, 0, Yes, 0, true, atNoon.Add(50 * time.Second)},
		"long ago":                           {time.Minute, 0, Yes, 0, false, time.Time{}},
		"long ago, by old caches":            {time.Minute, 0, Yes, 5 * time.Second, true, atNoon.Add(5 * time.Second)},
		"long ago, by a wrong clock":         {time.Minute, 0, No, 0, true, time.Time{}},
		"seen":                               {10 * time.Second, 1, Yes, 0, false, time.Time{}},
		"seen, by a clock that is not known": {10 * time.Second, 1, Unknown, 0, false, time.Time{}},
	} {
		r := repairOf(&p, n.ID, triedSteps(1), func(r *Repair) { r.Tried[0].Ended, r.StepSeen = atNoon.Add(-c.ended), c.seen })
		f := observed(nil, nil)
		f.ClockAgrees, f.Age = c.agrees, c.age
		d := plannerOf(nil, f)
		if got := d.unanswered(&r); got != c.want || !d.next.Equal(c.next) {
			t.Errorf("%s: unanswered: %t, and the next pass is at %s", name, got, d.next)
		}
	}
}

// TestTimeToRecover: after the remediator of a last step without a limit has succeeded, from when it says so.
func TestTimeToRecover(t *testing.T) {
	p := askingPolicy("p", all(1), limited(reboots, time.Minute), reimages)
	n := nodeTarget("n", "False")
	at := atNoon.Add
	since := func(q *Request) { q.SucceededSince = atNoon }
	for name, c := range map[string]struct {
		repair  Repair
		request Request
		want    time.Time
	}{
		"it succeeded":        {repairOf(&p, n.ID, triedSteps(1)), requestOf(&p, n.ID, reimages, saysItself(Yes)), at(9 * time.Minute)},
		"it says since when":  {repairOf(&p, n.ID, triedSteps(1)), requestOf(&p, n.ID, reimages, saysItself(Yes), since), at(10 * time.Minute)},
		"it failed":           {repairOf(&p, n.ID, triedSteps(1)), requestOf(&p, n.ID, reimages, saysItself(No)), time.Time{}},
		"it has a limit":      {repairOf(&p, n.ID), requestOf(&p, n.ID, reboots, saysItself(Yes)), time.Time{}},
		"it was given up":     {repairOf(&p, n.ID, triedSteps(2)), requestOf(&p, n.ID, reimages, saysItself(Yes)), time.Time{}},
		"another step is due": {repairOf(&p, n.ID, steps(reboots, reimages)), requestOf(&p, n.ID, reboots, saysItself(Yes)), time.Time{}},
	} {
		if got := c.repair.RecoversUntil(&c.request); !got.Equal(c.want) {
			t.Errorf("%s: it has time until %s, want %s", name, got, c.want)
		}
	}
}

// TestRefusalOfStepsNamesTheOldest: the oldest request of another author at whose remediator is at work.
func TestRefusalOfStepsNamesTheOldest(t *testing.T) {
	p := askingPolicy("p", all(1), reboots)
	n := nodeTarget("n", "False")
	named := func(name string, changes ...func(*Request)) Request {
		return requestOf(&p, n.ID, reboots, append(changes, func(q *Request) { q.ID.Name = name })...)
	}
	for want, requests := range map[string][]Request{
		"":          {named("a")},
		"Request b": {named("a"), named("b", notOwn), named("c", notOwn)},
		"Request c": {named("b", notOwn, wasStopped), named("c", notOwn)},
	} {
		d := plannerOf([]Policy{p}, observed([]Target{n}, []Repair{repairOf(&p, n.ID, triedSteps(1))}, requests...))
		if got := d.stepsExhausted(&proposal{}); got.Detail != want || got.Have != 1 {
			t.Errorf("the refusal is %+v, want %q", got, want)
		}
	}
}

// TestRefusalsOfTheNextStep: a step is given up for the next only where nothing would hold that back, the quorum included.
func TestRefusalsOfTheNextStep(t *testing.T) {
	marks := Step{Remedy: "Wake", Nature: Annotate}
	pausing := func(p *Policy) { p.Paused = true }
	member := func(survives Tri, readBefore time.Duration) func(*Target) {
		return func(t *Target) {
			t.ControlPlane, t.QuorumSurvives, t.QuorumReadAt, t.NodeReadAt = true, survives, atNoon.Add(-readBefore), atNoon.Add(-time.Hour)
		}
	}
	for name, c := range map[string]struct {
		target  Target
		steps   []Step
		changes []func(*Policy)
		want    []Gate
		reads   bool
	}{
		"nothing":                                     {nodeTarget("n", "False"), []Step{reboots, reimages}, nil, nil, false},
		"a node that was not read lately":             {nodeTarget("n", "False", func(t *Target) { t.NodeReadAt = time.Time{} }), []Step{reboots, reimages}, nil, nil, false},
		"a pause":                                     {nodeTarget("n", "False"), []Step{reboots, reimages}, []func(*Policy){pausing}, []Gate{PolicyPaused}, false},
		"a quorum that was not read lately":           {nodeTarget("n", "False", member(Yes, time.Hour)), []Step{reboots, reimages}, nil, []Gate{Unconfirmed}, true},
		"a pause, and a quorum that was not":          {nodeTarget("n", "False", member(Yes, time.Hour)), []Step{reboots, reimages}, []func(*Policy){pausing}, []Gate{PolicyPaused}, false},
		"a quorum that survives":                      {nodeTarget("n", "False", member(Yes, 0)), []Step{reboots, reimages}, nil, nil, false},
		"a quorum that is lost":                       {nodeTarget("n", "False", member(No, 0)), []Step{reboots, reimages}, nil, []Gate{QuorumLost}, false},
		"a quorum that is lost, and no step follows":  {nodeTarget("n", "False", member(No, 0)), []Step{reboots}, nil, nil, false},
		"a quorum that is lost, and a hand-back next": {nodeTarget("n", "False", member(No, 0)), []Step{reboots, asksItsMS}, nil, nil, false},
		"a quorum, and a mark for the owner":          {nodeTarget("n", "False", member(Yes, time.Hour), markedTarget, func(t *Target) { t.Owner.UID = "o" }), []Step{marks, asksItsMS}, nil, nil, false},
	} {
		p := askingPolicy("p", []int{1}, c.steps...)
		for _, change := range c.changes {
			change(&p)
		}
		f := observed([]Target{nodeTarget("other", "True"), c.target}, []Repair{repairOf(&p, c.target.ID, handedOver)}, requestOf(&p, c.target.ID, reboots))
		d := plannerOf([]Policy{p}, f)
		held := d.nextStepRefusals(&proposal{target: 1, leader: 0, repair: 0, verdict: &d.verdicts[0]})
		if diff := cmp.Diff(c.want, gatesOf(held)); diff != "" {
			t.Errorf("%s: held back by (-want +got):\n%s", name, diff)
		}
		if slices.ContainsFunc(held, func(r Refusal) bool { return r.Target != 1 }) || (len(d.decision.Confirm) > 0) != c.reads {
			t.Errorf("%s: the refusals are %+v, and live reads %v", name, held, d.decision.Confirm)
		}
	}
}

// TestGatesOfFurtherAndLastSteps: each gate of a further step holds back the next step, and each gate of a last step holds back that it is
// given up. The target stays as it is after a last step, so that the quorum and other remediators don't matter.
func TestGatesOfFurtherAndLastSteps(t *testing.T) {
	member := func(t *Target) { t.ControlPlane, t.QuorumSurvives, t.QuorumReadAt = true, Yes, atNoon }
	for name, c := range map[string]struct {
		close func(p *Policy, f *Cluster)
		gate  Gate
		last  bool
	}{
		"a policy with a problem": {func(p *Policy, _ *Cluster) { p.Problem = "nonsense" }, PolicyInvalid, true},
		"a pause":                 {func(p *Policy, _ *Cluster) { p.Paused = true }, PolicyPaused, true},
		"an upgrade":              {func(p *Policy, f *Cluster) { p.WaitsForUpgrades, f.Upgrading = true, Yes }, ClusterUpgrading, true},
		"a wrong clock":           {func(_ *Policy, f *Cluster) { f.ClockAgrees = No }, ClockSkewed, true},
		"a policy not judged":     {func(_ *Policy, f *Cluster) { f.Targets[1].UnjudgedPolicy = &ID{Kind: "NodeCheck", Name: "q"} }, PolicyInvalid, true},
		"an unusable template":    {func(p *Policy, _ *Cluster) { p.Steps[len(p.Steps)-1].Problem = "it is gone" }, TemplateUnusable, true},
		"an exclusion":            {func(_ *Policy, f *Cluster) { f.Targets[1].Node.Excluded = true }, Excluded, true},
		"a lease": {func(p *Policy, f *Cluster) {
			p.Holder, f.Targets[1].Lease = "fettle", Lease{Holder: "another", Until: atNoon.Add(time.Hour)}
		}, LeaseHeld, true},
		"another remediator": {func(p *Policy, f *Cluster) { p.RequestsAwaitMarks, f.Targets[1].ExternallyRemediated = true, true }, AnotherRemediator, false},
		"the remediator of a former node": {func(p *Policy, f *Cluster) {
			f.Requests = append(f.Requests, requestOf(p, f.Targets[1].ID, reboots, func(q *Request) { q.Target.UID, q.Replaces = "former", true }))
		}, AnotherRemediator, false},
		"a quorum that is lost": {func(_ *Policy, f *Cluster) {
			member(&f.Targets[1])
			f.Targets[1].QuorumSurvives = No
		}, QuorumLost, false},
		"another member that is out": {func(_ *Policy, f *Cluster) {
			member(&f.Targets[0])
			member(&f.Targets[1])
			f.Targets[0].Deleting = true
		}, ControlPlaneBusy, false},
	} {
		for last, steps := range map[bool][]Step{false: {reboots, reimages}, true: {reboots}} {
			p := askingPolicy("p", []int{1}, slices.Clone(steps)...)
			n := nodeTarget("n", "False")
			f := observed([]Target{nodeTarget("other", "True"), n}, []Repair{repairOf(&p, n.ID, handedOver)}, requestOf(&p, n.ID, reboots))
			f.Upgrading = No
			c.close(&p, f)
			d := plannerOf([]Policy{p}, f)
			held := d.nextStepRefusals(&proposal{target: 1, leader: 0, repair: 0, verdict: &d.verdicts[0]})
			want := []Gate{c.gate}
			if last && !c.last {
				want = nil
			}
			if diff := cmp.Diff(want, gatesOf(held)); diff != "" {
				t.Errorf("%s, and the last step: %t: held back by (-want +got):\n%s", name, last, diff)
			}
		}
	}
}

// TestOrderOfGates: users see the first refusal of a target, so that the order of the gates is that of the tables.
func TestOrderOfGates(t *testing.T) {
	deletes := Step{Remedy: "Delete", Problem: "it is gone"}
	broken := reboots
	broken.Problem = "it is gone"
	closed := func(p *Policy, f *Cluster) {
		p.Problem, p.Paused, p.WaitsForUpgrades, p.RequestsAwaitMarks, p.Holder = "nonsense", true, true, true, "fettle"
		p.ShortCircuit, p.MaxInFlight, p.Backoff = ShortCircuit{}, Count(0), Backoff{Base: 24 * time.Hour, Limit: 24 * time.Hour}
		f.Upgrading, f.ClockAgrees = Yes, No
		for i := range f.Targets {
			f.Targets[i].ControlPlane = true
		}
		n := &f.Targets[1]
		f.Targets[0].Deleting = true
		n.UnjudgedPolicy, n.ExternallyRemediated, n.Node.Excluded = &ID{Kind: "NodeCheck", Name: "q"}, true, true
		n.QuorumSurvives, n.QuorumReadAt, n.Lease = No, atNoon, Lease{Holder: "another", Until: atNoon.Add(time.Hour)}
	}
	cooling := func(p *Policy, f *Cluster) {
		p.WasStopped, p.StormCooldown, p.MaxInFlight = true, time.Hour, Count(0)
		f.Upgrading = No
	}
	ofPolicy, ofTarget := []Gate{PolicyInvalid, PolicyPaused, ClusterUpgrading}, []Gate{ClockSkewed, PolicyInvalid}
	whole := slices.Concat(ofPolicy, []Gate{TooManyUnhealthy, InFlightLimit, BackingOff}, ofTarget)
	held := []Gate{Excluded, LeaseHeld, QuorumLost, ControlPlaneBusy}
	for name, c := range map[string]struct {
		close    func(*Policy, *Cluster)
		steps    []Step
		policies []policyGate
		targets  []targetGate
		want     []Gate
	}{
		"a first step":  {closed, []Step{broken}, policyGates, targetGates, slices.Concat(whole, []Gate{TemplateUnusable, AnotherRemediator}, held)},
		"a deletion":    {closed, []Step{deletes}, policyGates, targetGates, slices.Concat(whole, []Gate{TemplateUnusable, AnotherRemediator, NoOwner}, held)},
		"no step":       {closed, nil, policyGates, targetGates, slices.Concat(whole, []Gate{NoRemedy}, held)},
		"after a storm": {cooling, []Step{reboots}, policyGates, targetGates, []Gate{StormCooldown, InFlightLimit}},
		"a later step":  {closed, []Step{broken}, laterPolicyGates, laterTargetGates, slices.Concat(ofPolicy, ofTarget, []Gate{TemplateUnusable, AnotherRemediator}, held)},
		"a last step":   {closed, []Step{broken}, laterPolicyGates, lastTargetGates, slices.Concat(ofPolicy, ofTarget, []Gate{TemplateUnusable, Excluded, LeaseHeld})},
	} {
		p := askingPolicy("p", all(2), c.steps...)
		n := nodeTarget("n", "False")
		former := requestOf(&p, n.ID, reboots, func(q *Request) { q.Target.UID, q.Replaces = "former", true })
		before := repairOf(&p, n.ID, steps(reboots), func(r *Repair) { r.Ended, r.Outcome = atNoon.Add(-time.Minute), Succeeded })
		f := observed([]Target{nodeTarget("other", "True"), n}, []Repair{before})
		if len(c.steps) > 0 && c.steps[0].Nature == Delete {
			f.Requests = []Request{former}
		}
		c.close(&p, f)
		d := plannerOf([]Policy{p}, f)
		var got []Refusal
		d.checkGates(c.policies, c.targets, &proposal{target: 1, repair: none, retry: 1, verdict: &d.verdicts[1]}, func(r Refusal) { got = append(got, r) })
		if diff := cmp.Diff(c.want, gatesOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnusableStepsOfThePolicyAreNamedFirst: a step of the repair is named where all steps of the policy can be taken.
func TestUnusableStepsOfThePolicyAreNamedFirst(t *testing.T) {
	for want, problem := range map[string]string{"the policy's": "the policy's", "the repair's": ""} {
		p := askingPolicy("p", all(1), reboots)
		p.Steps[0].Problem = problem
		n := nodeTarget("n", "False")
		d := plannerOf([]Policy{p}, observed([]Target{n}, nil))
		own := reimages
		own.Problem = "the repair's"
		if r, refuses := templateGate(&d.counts, &proposal{target: 0, leader: 0, repair: none, step: &own}); !refuses || r.Detail != want {
			t.Errorf("the refusal is %+v, want %q", r, want)
		}
	}
}

// TestLeaderIsNoDryRun: a dry run leads no repair.
func TestLeaderIsNoDryRun(t *testing.T) {
	p := askingPolicy("p", all(1), reboots)
	r := repairOf(&p, nodeTarget("n", "False").ID)
	for dry, want := range map[bool]int{false: 0, true: none} {
		p.DryRun = dry
		d := plannerOf([]Policy{p}, observed([]Target{nodeTarget("n", "False")}, []Repair{r}))
		if got, v := d.leaderOf(&r, 0); got != want || (v == nil) != dry {
			t.Errorf("a dry run: %t, policy %d leads", dry, got)
		}
	}
}

// TestJustMarked: only a step that marks for a remediator, which a user's request has begun a moment ago.
func TestJustMarked(t *testing.T) {
	marks := Step{Remedy: "Wake", Nature: Annotate}
	for name, c := range map[string]struct {
		step   Step
		reason Reason
		begun  time.Time
		want   bool
	}{
		"a moment ago":          {marks, RemediationRequested, atNoon.Add(time.Second - unrecordedLimit), true},
		"ten seconds ago":       {marks, RemediationRequested, atNoon.Add(-unrecordedLimit), false},
		"for another reason":    {marks, ConditionMet, atNoon, false},
		"by a step of requests": {reboots, RemediationRequested, atNoon, false},
		"it has not begun":      {marks, RemediationRequested, time.Time{}, false},
	} {
		d := newInput(nil, &Cluster{Repairs: []Repair{{StepState: StepState{Begun: c.begun}}}}, atNoon)
		if got := d.justMarked(&proposal{verdict: &Verdict{Reason: c.reason}}, &c.step); got != c.want {
			t.Errorf("%s: it was just marked: %t", name, got)
		}
	}
	d := newInput(nil, &Cluster{Repairs: make([]Repair, 1)}, time.Time{})
	if d.justMarked(&proposal{verdict: &Verdict{Reason: RemediationRequested}}, &marks) {
		t.Error("a step that has not begun was just marked at the zero time")
	}
}

// TestRepairServesARequest: by what its remediator reports, or by a condition that turns later.
func TestRepairServesARequest(t *testing.T) {
	n := nodeTarget("n", "False")
	deletes, marks := Step{Remedy: "Delete"}, Step{Remedy: "Wake", Nature: Annotate}
	p := askingPolicy("p", all(1), reboots, reimages)
	ask := func(changes ...func(*Request)) []Request { return []Request{requestOf(&p, n.ID, reboots, changes...)} }
	minute := atNoon.Add(-time.Minute)
	processing := func(q *Request) { q.Processing = Yes }
	for name, c := range map[string]struct {
		target   Target
		repair   Repair
		requests []Request
		want     bool
		turned   time.Time
	}{
		"it waits":                          {n, repairOf(&p, n.ID), nil, false, time.Time{}},
		"the target has recovered":          {n, repairOf(&p, n.ID, func(r *Repair) { r.Recovered = atNoon }), nil, true, time.Time{}},
		"no step is left":                   {n, repairOf(&p, n.ID, triedSteps(2)), nil, true, time.Time{}},
		"it deletes":                        {n, repairOf(&p, n.ID, steps(deletes)), nil, false, time.Time{}},
		"it asks the owner":                 {n, repairOf(&p, n.ID, steps(asksItsMS)), []Request{requestOf(&p, n.ID, asksItsMS, onItsWay)}, false, time.Time{}},
		"it marks":                          {n, repairOf(&p, n.ID, steps(marks)), nil, false, time.Time{}},
		"its mark was removed":              {n, repairOf(&p, n.ID, steps(marks), handedOver), nil, true, time.Time{}},
		"its mark stands":                   {nodeTarget("n", "False", markedTarget), repairOf(&p, n.ID, steps(marks), handedOver), nil, false, time.Time{}},
		"its mark may not show yet":         {n, repairOf(&p, n.ID, steps(marks), func(r *Repair) { r.Begun = atNoon }), nil, false, time.Time{}},
		"the remediator succeeded":          {n, repairOf(&p, n.ID), ask(saysItself(Yes)), true, time.Time{}},
		"the remediator failed":             {n, repairOf(&p, n.ID), ask(saysItself(No)), false, time.Time{}},
		"the remediator says nothing":       {n, repairOf(&p, n.ID), ask(), false, minute},
		"the remediator works":              {n, repairOf(&p, n.ID), ask(processing), false, time.Time{}},
		"the request is withdrawn":          {n, repairOf(&p, n.ID), ask(onItsWay), true, time.Time{}},
		"another author's is withdrawn":     {n, repairOf(&p, n.ID), ask(onItsWay, notOwn), false, minute},
		"another step's succeeded":          {n, repairOf(&p, n.ID), []Request{requestOf(&p, n.ID, reimages, saysItself(Yes))}, false, time.Time{}},
		"another policy's request succeeds": {n, repairOf(&p, n.ID), ask(saysItself(Yes), func(q *Request) { q.Policy.Name = "q" }), false, time.Time{}},
	} {
		f := observed([]Target{c.target}, []Repair{c.repair}, c.requests...)
		d := plannerOf([]Policy{p}, f)
		a := repairRequestHistory{running: 0, of: 0}
		if got := d.hasServed(&f.Repairs[0], &a); got != c.want || !a.turned.Equal(c.turned) {
			t.Errorf("%s: it serves: %t, by a condition that turns after %s, want %s", name, got, a.turned, c.turned)
		}
		if a = (repairRequestHistory{running: 0, of: none}); d.hasServed(&f.Repairs[0], &a) && c.repair.Recovered.IsZero() && len(c.repair.Tried) == 0 {
			t.Errorf("%s: it serves the request about a target that is gone", name)
		}
	}
}

// TestWhenRepairsWereRequested: the last request about a target of the group that can be read and is not ahead.
func TestWhenRepairsWereRequested(t *testing.T) {
	asked := func(q RepairRequest) func(*Target) { return func(t *Target) { t.RepairRequest = q } }
	early, late := RepairRequest{At: atNoon.Add(-time.Hour)}, RepairRequest{At: atNoon.Add(-time.Minute)}
	m, other := machineTarget("m", "n", "True"), machineTarget("o", "o", "True")
	m.RepairRequest, other.RepairRequest = early, late
	for name, c := range map[string]struct {
		node Target
		want time.Time
	}{
		"of the machine":  {nodeTarget("n", "True"), early.At},
		"of the node":     {nodeTarget("n", "True", asked(late)), late.At},
		"a nonsense":      {nodeTarget("n", "True", asked(RepairRequest{Unreadable: true})), early.At},
		"that is ahead":   {nodeTarget("n", "True", asked(RepairRequest{At: atNoon.Add(time.Hour), Ahead: true})), early.At},
		"in either order": {nodeTarget("n", "True", asked(RepairRequest{At: early.At.Add(-time.Hour)})), early.At},
	} {
		d := plannerOf(nil, observed([]Target{c.node, m, other}, nil))
		if got := d.repairRequestedAt(0); !got.Equal(c.want) {
			t.Errorf("%s: it was requested at %s, want %s", name, got, c.want)
		}
	}
}
