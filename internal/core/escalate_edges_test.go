package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// failedStep has the step of a repair given up since its remediator failed.
func failedStep(r *core.Repair) {
	r.Tried = append(r.Tried, core.StepRecord{Ended: ago(time.Minute), Outcome: core.Failed})
}

// TestRepairWithoutAStepLeft: it stays while the policy has no other step. It ends for another reason
// where the last remediator failed.
func TestRepairWithoutAStepLeft(t *testing.T) {
	limited := func(p *core.Policy) { p.Steps = []core.Step{ask(rebooting, patience)} }
	other := func(p *core.Policy) { p.Steps = []core.Step{ask(reprovisioning, patience)} }
	n := aNode("n", dead)
	own := func(p core.Policy) []core.Request { return []core.Request{requestFor(p, n, rebooting)} }
	p := check("p", []int{0}, classic)
	ofNone := repair(n, p, failedStep, withSteps())
	for name, c := range map[string]struct {
		policy   core.Policy
		repair   core.Repair
		requests []core.Request
		reason   core.EndReason
	}{
		"its remediator failed, and its request is gone": {p, repair(n, p, failedStep), nil, core.LastStepFailed},
		"its remediator failed":                          {p, repair(n, p, failedStep), own(p), ""},
		"its time is over, and it has none now":          {p, repair(n, p, gaveUp(ago(time.Minute))), own(p), core.StepsChanged},
		"its time is over, and its request is gone":      {p, repair(n, p, gaveUp(ago(time.Minute))), nil, core.StepsChanged},
		"it failed in its time, and has none now":        {p, repair(n, check("p", nil, limited), failedStep), own(p), core.StepsChanged},
		"it failed in its time, and it is gone":          {p, repair(n, check("p", nil, limited), failedStep), nil, core.StepsChanged},
		"its time is over":                               {check("p", []int{0}, limited), repair(n, check("p", nil, limited), gaveUp(ago(time.Minute))), nil, ""},
		"the policy has another step":                    {check("p", []int{0}, other), repair(n, check("p", nil, limited), gaveUp(ago(time.Minute))), nil, core.StepsChanged},
		"the policy has another, and a problem":          {check("p", []int{0}, other, problem("broken")), repair(n, check("p", nil, limited), gaveUp(ago(time.Minute))), nil, ""},
		"the policy has no step":                         {check("p", []int{0}, noSteps), repair(n, check("p", nil, limited), gaveUp(ago(time.Minute))), nil, ""},
		"the repair has no step":                         {check("p", []int{0}, limited), ofNone, nil, ""},
	} {
		f := clusterOf([]core.Target{n}, c.repair)
		f.Requests = c.requests
		d := core.Decide([]core.Policy{c.policy}, f, noon)
		if c.reason == "" {
			if len(d.Finishes) > 0 || !slices.Contains(refusedBy(d, 0), core.StepsExhausted) {
				t.Errorf("%s: it ends as %+v, refused by %v", name, d.Finishes, refusedBy(d, 0))
			}
			continue
		}
		if len(d.Finishes) != 1 || d.Finishes[0].Reason != c.reason {
			t.Errorf("%s: it ends as %+v, want %s", name, d.Finishes, c.reason)
		}
	}
}

// TestStepsOfABrokenPolicy: a policy with a problem ends no repair for its steps.
func TestStepsOfABrokenPolicy(t *testing.T) {
	n := aNode("n", dead)
	broken := check("p", []int{0}, func(p *core.Policy) { p.Steps = []core.Step{ask(reprovisioning, 0)} }, problem("broken"))
	d := core.Decide([]core.Policy{broken}, clusterOf([]core.Target{n}, repair(n, check("p", nil, classic))), noon)
	if len(d.Finishes) > 0 || !slices.Contains(refusedBy(d, 0), core.PolicyInvalid) {
		t.Errorf("it ends as %+v, refused by %v", d.Finishes, refusedBy(d, 0))
	}
}

// TestTargetInOtherHands: a mark that this repair has not made does not stand for its own.
func TestTargetInOtherHands(t *testing.T) {
	p := policy("p", []int{0}, needsNoOwner)
	sick := machine("m", dead, externallyRemediated)
	for starts, r := range map[int]core.Repair{1: repair(sick, p), 0: repair(sick, p, begunAt(ago(time.Minute)))} {
		if d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, r), noon); len(d.StepStarts) != starts {
			t.Errorf("begun at %s: %d steps begin, want %d; refusals %v", r.Begun, len(d.StepStarts), starts, d.Refusals)
		}
	}
}

// TestTargetThatFailedForGood: it is taken from an outside remediator only if its policy has other steps
// for it.
func TestTargetThatFailedForGood(t *testing.T) {
	marks := core.Step{Remedy: "Mark", Nature: core.Annotate}
	steps := func(failed ...core.Step) core.Policy {
		return policy("p", []int{0}, needsNoOwner, func(p *core.Policy) { p.FailedSteps = failed })
	}
	deletes := core.Step{Remedy: "Delete"}
	for name, c := range map[string]struct {
		target core.Target
		policy core.Policy
		ends   bool
	}{
		"it has failed":                    {machine("m", dead, failed(noon), externallyRemediated), steps(deletes), true},
		"it has not":                       {machine("m", dead, externallyRemediated), steps(deletes), false},
		"it is handed over then too":       {machine("m", dead, failed(noon), externallyRemediated), steps(marks), false},
		"its policy has no steps for that": {machine("m", dead, failed(noon), externallyRemediated), steps(), false},
	} {
		d := core.Decide([]core.Policy{c.policy}, clusterOf([]core.Target{c.target}, repair(c.target, c.policy, begunAt(ago(time.Minute)), withSteps(marks))), noon)
		if ends := len(d.Finishes) == 1 && d.Finishes[0].Reason == core.FailedForGood; ends != c.ends {
			t.Errorf("%s: it ends as %+v", name, d.Finishes)
		}
	}
}

// TestEscalations: which step is given up, why, and which remediator is told to stop.
func TestEscalations(t *testing.T) {
	step := func(limits ...time.Duration) func(*core.Policy) {
		return func(p *core.Policy) {
			p.Steps, p.Holder = nil, "p"
			for i, limit := range limits {
				p.Steps = append(p.Steps, ask([]core.Reference{rebooting, reprovisioning}[i], limit))
			}
		}
	}
	n := aNode("n", dead)
	back := aNode("n", dead, handedBack(ago(30*time.Second)), ownedBy(pool))
	long := requestedAt(ago(time.Hour))
	for name, c := range map[string]struct {
		policy  core.Policy
		target  core.Target
		change  func(*core.Repair)
		request []func(*core.Request)
		want    []core.Escalation
	}{
		"its time is over":                        {check("p", []int{0}, step(patience, patience)), n, started(ago(time.Hour)), []func(*core.Request){long}, []core.Escalation{{Request: 0, Outcome: core.TimedOut, Reason: core.StepTimedOut}}},
		"a foreign request":                       {check("p", []int{0}, step(patience, patience)), n, started(ago(time.Hour)), []func(*core.Request){long, foreign}, []core.Escalation{{Request: -1, Outcome: core.TimedOut, Reason: core.StepTimedOut}}},
		"it failed, without a limit":              {check("p", []int{0}, step(0, patience)), n, started(noon), []func(*core.Request){says(core.No)}, []core.Escalation{{Request: 0, Outcome: core.Failed, Reason: core.RemediatorFailed}}},
		"the last failed, with a limit":           {check("p", []int{0}, step(patience)), n, started(noon), []func(*core.Request){says(core.No)}, []core.Escalation{{Request: 0, Outcome: core.Failed, Reason: core.RemediatorFailed}}},
		"the last failed, without a limit":        {check("p", []int{0}, step(0)), n, started(noon), []func(*core.Request){says(core.No)}, []core.Escalation{{Request: -1, Outcome: core.Failed, Reason: core.RemediatorFailed}}},
		"a foreign last failed":                   {check("p", []int{0}, step(0)), n, started(noon), []func(*core.Request){says(core.No), foreign}, nil},
		"it gave the target up":                   {check("p", []int{0}, outside), back, started(ago(time.Minute)), nil, []core.Escalation{{Request: -1, Outcome: core.Failed, Reason: core.RemediatorGaveUp}}},
		"it gave up, and its request has no time": {check("p", []int{0}, outside), back, started(ago(time.Minute)), []func(*core.Request){requestedAt(time.Time{})}, nil},
	} {
		f := clusterOf([]core.Target{c.target}, repair(c.target, c.policy, c.change))
		f.Requests = []core.Request{requestFor(c.policy, c.target, rebooting, c.request...)}
		d := core.Decide([]core.Policy{c.policy}, f, noon)
		for i := range d.Escalations {
			d.Escalations[i].Text = ""
		}
		if diff := cmp.Diff(c.want, d.Escalations); diff != "" {
			t.Errorf("%s: refusals %v (-want +got):\n%s", name, d.Refusals, diff)
		}
		if len(d.LeaseHolds) > 0 && len(c.want) > 0 {
			t.Errorf("%s: the lease of a step that is given up is held: %v", name, d.LeaseHolds)
		}
	}
}

// TestRefusedStepIsOverdue: after one refused call the step is given up once its time is over.
func TestRefusedStepIsOverdue(t *testing.T) {
	p := check("p", []int{0}, escalating)
	n := aNode("n", dead)
	for calls, want := range map[int]int{0: 0, 1: 1} {
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{n}, repair(n, p, started(ago(time.Hour)), attempts(calls, ago(time.Hour)))), noon)
		if len(d.Escalations) != want || want > 0 && d.Escalations[0].Reason != core.StepNotBegun {
			t.Errorf("after %d refused calls: %+v", calls, d.Escalations)
		}
	}
}

// TestLeaseWhileAStepLasts: the lease is held before the request is seen, and while a gate holds back
// the next step.
func TestLeaseWhileAStepLasts(t *testing.T) {
	holds := func(p *core.Policy) { p.Holder = "p" }
	plain, two := check("p", []int{0}, classic, holds), check("p", []int{0}, escalating, holds, paused)
	n := aNode("n", dead)
	unowned := aNode("n", dead, func(t *core.Target) { t.Lease = core.Lease{Until: noon.Add(time.Hour)} })
	hold := "hold n for 11m0s as p"
	for name, c := range map[string]struct {
		policy core.Policy
		target core.Target
		repair core.Repair
		change func(*core.Request)
		wants  []string
	}{
		"a request that is not seen yet":      {plain, n, repair(n, plain), func(q *core.Request) { q.ID.UID, q.Answers = "", true; q.Created = ago(time.Hour) }, []string{hold}},
		"a lease without a holder":            {plain, unowned, repair(n, plain), func(*core.Request) {}, []string{hold}},
		"a next step that can't be taken yet": {two, n, repair(n, two, started(ago(time.Hour))), requestedAt(ago(time.Hour)), []string{"PolicyPaused holds back n", "hold n for 6m0s as p"}},
	} {
		f := clusterOf([]core.Target{c.target}, c.repair)
		f.Requests = []core.Request{requestFor(c.policy, n, rebooting, c.change)}
		wants := slices.Clone(c.wants)
		for i := range wants {
			if wants[i] == "PolicyPaused holds back n" {
				wants[i] = core.PolicyPaused.String() + " holds back n"
			}
		}
		if diff := cmp.Diff(wants, actionTexts(f, core.Decide([]core.Policy{c.policy}, f, noon))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSilence: a repair notes for how long there has been no answer, in growing steps, and a pass runs
// at the next of them.
func TestSilence(t *testing.T) {
	p := policy("p", []int{0}, asksOwner)
	sick := machine("m", dead)
	m := time.Minute
	for age, c := range map[time.Duration]struct {
		text string
		next time.Duration
	}{
		m - 1: {"", m}, m: {"1m", 5 * m}, 5 * m: {"5m", 15 * m}, 15 * m: {"15m", 60 * m}, 20 * m: {"15m", 60 * m}, 60 * m: {"1h", 6 * 60 * m},
		6 * 60 * m: {"6h", 24 * 60 * m}, 24 * 60 * m: {"24h", 0}, 1000 * 60 * m: {"24h", 0},
	} {
		f := clusterOf([]core.Target{sick}, repair(sick, p, started(ago(age))))
		f.Requests = []core.Request{markOn(sick, ago(age), func(q *core.Request) { q.Answers = true })}
		d := core.Decide([]core.Policy{p}, f, noon)
		var want []core.Note
		if c.text != "" {
			want = []core.Note{{Answer: "there has been no answer for more than " + c.text + ", since " + ago(age).Format(time.RFC3339)}}
		}
		if diff := cmp.Diff(want, d.Notes); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", age, diff)
		}
		next := time.Time{}
		if c.next > 0 {
			next = ago(age).Add(c.next)
		}
		if !d.NextAt.Equal(next) {
			t.Errorf("after %s the next pass is at %s, want %s", age, d.NextAt, next)
		}
	}
}

// TestLeaseDuration: a lease lasts a minute longer than its step.
func TestLeaseDuration(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 11 * time.Minute, time.Second: time.Minute + time.Second, time.Hour: 61 * time.Minute} {
		if got := (&core.Step{Limit: limit}).LeaseDuration(); got != want {
			t.Errorf("of a step of %s: %s, want %s", limit, got, want)
		}
	}
}

// TestOwnerAfterAnotherStep: a step that marks the target for its owner is taken only after a hand-back,
// where the step before creates a request.
func TestOwnerAfterAnotherStep(t *testing.T) {
	p := policy("p", []int{0}, func(p *core.Policy) {
		p.Steps = []core.Step{{Remedy: "Annotate", Nature: core.Annotate, Limit: patience}, mark}
	})
	sick := machine("m", dead)
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, repair(sick, p, gaveUp(ago(time.Minute)))), noon)
	if len(d.StepStarts) != 1 || d.StepStarts[0].Step != 1 {
		t.Errorf("begins %v, ends %v, refusals %v", d.StepStarts, d.Finishes, d.Refusals)
	}
}

// TestSilenceOfAMarkInTheFuture: the clock of one leader is behind that of another by less than what counts as wrong. Both
// write the same note. Otherwise each would write over the other's for ever.
func TestSilenceOfAMarkInTheFuture(t *testing.T) {
	p := policy("p", []int{0}, asksOwner)
	sick, behind := machine("m", dead), 4*time.Second
	mark := markOn(sick, noon, func(q *core.Request) { q.Answers = true })
	var texts []string
	for _, fast := range []time.Duration{0, -behind} {
		var m core.Expectations
		f := clusterOf([]core.Target{sick}, repair(sick, p, started(ago(time.Minute))))
		f.Requests = []core.Request{mark}
		m.Overlay(&f, noon.Add(fast))
		f.Requests = []core.Request{mark}
		m.Overlay(&f, noon.Add(2*time.Minute+fast))
		for _, n := range core.Decide([]core.Policy{p}, f, noon.Add(2*time.Minute+fast)).Notes {
			texts = append(texts, n.Answer)
		}
	}
	if want := "there has been no answer for more than 1m, since " + noon.Format(time.RFC3339); !slices.Equal(texts, []string{want, want}) {
		t.Errorf("the notes are %q, want each to be %q", texts, want)
	}
}
