package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

var mark = core.Step{Remedy: "Mark", Nature: core.AskOwner}

func asksOwner(p *core.Policy) {
	p.Steps, p.MaxInFlight, p.IgnoresRequests = []core.Step{mark}, core.Unlimited(), true
}

// markOn returns the mark of a target for its owner, made at an instant.
func markOn(t core.Target, at time.Time, changes ...func(*core.Request)) core.Request {
	q := core.Request{ID: core.ID{Kind: "Machine", Name: t.ID.Name, UID: t.ID.UID + "@1"}, Remedy: "Mark", Target: t.ID, Created: at, Own: true, Answers: true}
	for _, change := range changes {
		change(&q)
	}
	return q
}

func answer(text string) func(*core.Request) { return func(q *core.Request) { q.Answer = text } }

// TestOwnersChooseAmongAllMembers: an owner ensures the quorum itself. For that it must know all
// unhealthy members.
func TestOwnersChooseAmongAllMembers(t *testing.T) {
	targets := []core.Target{machine("a", controlPlane, dead), machine("b", controlPlane, dead), machine("c", controlPlane)}
	f := clusterOf(targets)
	quorumOf(&f, core.No)
	if got := begun(core.Decide([]core.Policy{policy("p", all(3), asksOwner)}, f, noon)); !cmp.Equal(got, []int{0, 1}) {
		t.Errorf("begun for %v; want both that are unhealthy", got)
	}
	if got := begun(core.Decide([]core.Policy{policy("p", all(3), maxInFlight(core.Unlimited()))}, f, noon)); len(got) > 0 {
		t.Errorf("begun for %v; a remedy that takes quorum must not", got)
	}
}

func TestQuorumIsPolledOnlyForWhatTakesIt(t *testing.T) {
	unread := func(t *core.Target) { t.NodeReadAt, t.QuorumReadAt = time.Time{}, time.Time{} }
	f := clusterOf([]core.Target{machine("a", controlPlane, dead, unread)})
	d := core.Decide([]core.Policy{policy("p", all(1), asksOwner)}, f, noon)
	if !cmp.Equal(d.Confirm, []int{0}) || len(d.QuorumReads) > 0 {
		t.Errorf("read %v and polled %v", d.Confirm, d.QuorumReads)
	}
	d = core.Decide([]core.Policy{policy("p", all(1))}, f, noon)
	if !cmp.Equal(d.Confirm, []int{0}) || !cmp.Equal(d.QuorumReads, []int{0}) {
		t.Errorf("read %v and polled %v", d.Confirm, d.QuorumReads)
	}
}

func TestNoRequestWithoutAnOwner(t *testing.T) {
	f := clusterOf([]core.Target{machine("a", dead, ownedBy(core.ID{}))})
	d := core.Decide([]core.Policy{policy("p", all(1), asksOwner)}, f, noon)
	if got := refusedBy(d, 0); !cmp.Equal(got, []core.Gate{core.NoOwner}) || len(d.Starts) > 0 {
		t.Errorf("refused by %v", got)
	}
}

// TestMarkStandsUntilRecovery follows a mark from its creation to its withdrawal.
func TestMarkStandsUntilRecovery(t *testing.T) {
	p := policy("p", all(1), asksOwner)
	sick, well := machine("a", dead), machine("a")
	r := repair(sick, p)
	decide := func(target core.Target, r core.Repair, marks ...core.Request) core.Decision {
		f := clusterOf([]core.Target{target}, r)
		f.Requests = marks
		return core.Decide([]core.Policy{p}, f, noon)
	}
	if d := decide(sick, r); len(d.StepStarts) != 1 {
		t.Errorf("a mark that is not there is made %d times", len(d.StepStarts))
	}
	d := decide(sick, r, markOn(sick, ago(time.Second)))
	if len(d.StepStarts)+len(d.Withdrawals)+len(d.Finishes)+len(d.Notes) > 0 || !d.NextAt.Equal(noon.Add(59*time.Second)) {
		t.Errorf("a mark that stands is not waited for: %+v", d)
	}
	if d := decide(well, r, markOn(sick, ago(time.Second))); len(d.Withdrawals) != 1 || len(d.Finishes) > 0 {
		t.Errorf("recovered: %d withdrawn, %d ended", len(d.Withdrawals), len(d.Finishes))
	}
	recovered := r
	recovered.Recovered = ago(time.Second)
	if d := decide(well, recovered); len(d.Finishes) != 1 || d.Finishes[0].Outcome != core.Succeeded {
		t.Errorf("withdrawn: %+v", d.Finishes)
	}
	f := clusterOf(nil, r)
	if d := core.Decide([]core.Policy{p}, f, noon); len(d.Finishes) != 1 || d.Finishes[0].Outcome != core.Succeeded {
		t.Errorf("replaced: %+v", d.Finishes)
	}
	premature := machine("a", func(t *core.Target) { t.Premature = "the cluster is not up" })
	if d := decide(premature, r, markOn(sick, ago(time.Second))); len(d.Withdrawals)+len(d.Finishes)+len(d.StepStarts) > 0 {
		t.Errorf("not judged: %+v", d)
	}
}

// TestHealthyForOneIsNotHealthyForAll: a policy withdraws its request when it finds the target healthy.
// The target does not count as healthy while another acting policy finds it unhealthy.
func TestHealthyForOneIsNotHealthyForAll(t *testing.T) {
	lead := policy("lead", all(1), asksOwner, since(ago(48*time.Hour)), criteria())
	target := machine("a", dead)
	repaired := []core.Repair{repair(target, lead)}
	for sentence, c := range map[string]struct {
		other   core.Policy
		repairs []core.Repair
		settled bool
	}{
		"another finds it unhealthy":         {policy("other", all(1), asksOwner), repaired, false},
		"and is paused":                      {policy("other", all(1), asksOwner, paused), repaired, false},
		"and no repair accounts for it":      {policy("other", all(1), paused), nil, false},
		"another only rehearses":             {policy("other", all(1), asksOwner, dryRun), repaired, true},
		"another finds it healthy":           {policy("other", all(1), asksOwner, criteria()), repaired, true},
		"another does not select it":         {policy("other", nil, asksOwner), repaired, true},
		"another has just begun to doubt it": {policy("other", all(1), asksOwner, criteria(core.ConditionCriterion{Type: "Ready", Status: "False", For: 2 * time.Hour})), repaired, true},
	} {
		f := clusterOf([]core.Target{target}, c.repairs...)
		f.Requests = []core.Request{markOn(target, ago(time.Second))}
		d := core.Decide([]core.Policy{lead, c.other}, f, noon)
		if len(d.Withdrawals) != 1 || d.Withdrawals[0].TargetHealthy != c.settled {
			t.Errorf("%s: withdrawn is %+v", sentence, d.Withdrawals)
		}
	}
}

func TestSilenceOfAnOwnerIsNoted(t *testing.T) {
	p := policy("p", all(1), asksOwner)
	sick := machine("a", dead)
	noted := func(before string, q core.Request) (string, bool) {
		r := repair(sick, p)
		r.Answer = before
		f := clusterOf([]core.Target{sick}, r)
		f.Requests = []core.Request{q}
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Notes) == 0 {
			return before, false
		}
		return d.Notes[0].Answer, true
	}
	for _, tc := range []struct {
		since time.Duration
		want  string
	}{
		{59 * time.Second, ""}, {time.Minute, "1m"}, {14 * time.Minute, "5m"}, {5 * time.Hour, "1h"}, {7 * time.Hour, "6h"}, {90 * time.Hour, "24h"},
	} {
		got, _ := noted("", markOn(sick, ago(tc.since)))
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("after %s: %q, want it to tell of %q", tc.since, got, tc.want)
		}
		if again, reported := noted(got, markOn(sick, ago(tc.since))); reported {
			t.Errorf("after %s: told twice: %q", tc.since, again)
		}
	}
	if got, reported := noted("", markOn(sick, ago(time.Hour), answer("not now"))); !reported || got != "not now" {
		t.Errorf("an answer is noted as %q", got)
	}
	if got, reported := noted("not now", markOn(sick, ago(time.Hour), answer("not now"))); reported {
		t.Errorf("an answer is noted twice: %q", got)
	}
	quiet := markOn(sick, ago(time.Hour))
	quiet.Answers = false
	if got, reported := noted("", quiet); reported {
		t.Errorf("who never answers is said to be silent: %q", got)
	}
}

// TestI3MarksHaveTheirPlace: a mark is in flight, even where the ledger has no repair for it.
func TestI3MarksHaveTheirPlace(t *testing.T) {
	one := policy("p", all(2), asksOwner, maxInFlight(core.Count(1)))
	two := policy("p", all(2), asksOwner, maxInFlight(core.Count(2)))
	marked, other := machine("a", dead), machine("b", failed(time.Time{}))
	well := machine("a")
	done := repair(marked, one)
	done.Ended, done.Outcome = ago(time.Second), core.Withdrawn
	for name, c := range map[string]struct {
		policy  core.Policy
		targets []core.Target
		repairs []core.Repair
		starts  []int
		acts    int
	}{
		"it goes before a longer failure":                     {one, []core.Target{marked, other}, nil, []int{0}, 0},
		"its repair was taken out of the ledger":              {one, []core.Target{marked, other}, []core.Repair{done}, []int{0}, 0},
		"it goes before a recorded repair without a mark":     {one, []core.Target{marked, other}, []core.Repair{repair(other, one)}, nil, 0},
		"it takes the place of one, and once":                 {two, []core.Target{marked, other}, nil, []int{1, 0}, 0},
		"a mark that is withdrawn, since its target is well":  {one, []core.Target{well, other}, nil, []int{1}, 0},
		"a mark of a target that is leaving, and not healthy": {one, []core.Target{machine("a", dead, deleting), other}, nil, nil, 0},
	} {
		f := clusterOf(c.targets, c.repairs...)
		f.Requests = []core.Request{markOn(marked, ago(time.Minute))}
		d := core.Decide([]core.Policy{c.policy}, f, noon)
		if diff := cmp.Diff(c.starts, begun(d)); diff != "" || len(d.StepStarts) != c.acts {
			t.Errorf("%s: begun for %v, and %d that are recorded; want %v and %d; refused %v", name, begun(d), len(d.StepStarts), c.starts, c.acts, d.Refusals)
		}
	}
}

// TestMarkedAndRecoveredIsRemembered: a target whose mark was withdrawn has been repaired. That
// holds even if it is suspect again before the withdrawal is recorded. Its next repair backs off.
func TestMarkedAndRecoveredIsRemembered(t *testing.T) {
	p := policy("p", all(1), asksOwner)
	flapping := machine("a", ready("False", ago(time.Second)))
	r := repair(flapping, p)
	r.Recovered = ago(2 * time.Second)
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{flapping}, r), noon)
	if len(d.Finishes) != 1 || d.Finishes[0].Outcome != core.Succeeded || len(d.Notes) > 0 {
		t.Errorf("it ends as %+v, with notes %+v; want it to have succeeded", d.Finishes, d.Notes)
	}
	r.Recovered = time.Time{}
	d = core.Decide([]core.Policy{p}, clusterOf([]core.Target{flapping}, r), noon)
	if len(d.Finishes) != 1 || d.Finishes[0].Outcome != core.Recovered {
		t.Errorf("a repair without a mark ends as %+v", d.Finishes)
	}
}

// TestAnswersAreToMarksThatStand: an answer to a mark that was removed does not answer the next
// mark.
func TestAnswersAreToMarksThatStand(t *testing.T) {
	p := policy("p", all(1), asksOwner)
	sick := machine("a", dead)
	r := repair(sick, p, func(r *core.Repair) { r.Answer = "not now" })
	for _, change := range []func(*core.Policy){func(*core.Policy) {}, paused} {
		asks := p
		change(&asks)
		d := core.Decide([]core.Policy{asks}, clusterOf([]core.Target{sick}, r), noon)
		if diff := cmp.Diff([]core.Note{{Repair: 0}}, d.Notes); diff != "" {
			t.Errorf("paused %t: notes (-want +got):\n%s", asks.Paused, diff)
		}
	}
}

// TestSilenceIsLookedFor: Fettle's own mark on a target wakes no pass. So a pass that makes one
// sets a timer for the answer.
func TestSilenceIsLookedFor(t *testing.T) {
	p := policy("p", all(1), asksOwner)
	sick := machine("a", dead)
	for name, f := range map[string]core.Cluster{
		"a new repair": clusterOf([]core.Target{sick}), "a running one": clusterOf([]core.Target{sick}, repair(sick, p)),
	} {
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Starts)+len(d.StepStarts) != 1 || !d.NextAt.Equal(noon.Add(time.Minute)) {
			t.Errorf("%s: asked %d times, and the next look is at %s; want one in a minute", name, len(d.Starts)+len(d.StepStarts), d.NextAt)
		}
	}
}

func TestRequestOfAUserGoesFirst(t *testing.T) {
	byUser := func(t *core.Target) { t.RemediationRequested = true }
	for name, target := range map[string]core.Target{
		"healthy":      machine("a", byUser),
		"not its time": machine("a", byUser, func(t *core.Target) { t.Premature = "the cluster is not up" }),
		"failed":       machine("a", byUser, failed(ago(time.Hour))),
	} {
		v := core.Decide([]core.Policy{policy("p", all(1))}, clusterOf([]core.Target{target}), noon).Verdicts[0]
		if v.Health != core.Unhealthy || v.Reason != core.RemediationRequested {
			t.Errorf("%s: %s, %s", name, v.Health, v.Reason)
		}
	}
}

func TestFindingsNameAllThatIsWrong(t *testing.T) {
	c := core.Criteria{
		Conditions:       []core.ConditionCriterion{notReady, pressure},
		TargetConditions: []core.ConditionCriterion{{Type: "Bootstrapped", Status: "False", For: time.Minute}},
	}
	target := machine("a", dead, condition("DiskPressure", "True", ago(time.Hour)), func(t *core.Target) {
		t.Conditions = []core.Condition{{Type: "Bootstrapped", Status: "False", Since: ago(time.Hour)}}
	})
	var got []string
	for _, v := range c.Findings(&target, noon) {
		got = append(got, v.Reason.String()+" "+v.Criterion.Type)
	}
	want := []string{"UnhealthyTargetCondition Bootstrapped", "UnhealthyCondition Ready", "UnhealthyCondition DiskPressure"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	fine := machine("b")
	if got := c.Findings(&fine, noon); len(got) > 0 {
		t.Errorf("a healthy one has %v", got)
	}
}

func TestJudgementsOutweighEachOther(t *testing.T) {
	older := policy("older", all(2), since(ago(48*time.Hour)), criteria())
	newer := policy("newer", all(2))
	f := clusterOf([]core.Target{machine("a", dead), machine("b")})
	policies := []core.Policy{newer, older}
	d := core.Decide(policies, f, noon)
	judged := d.CombinedVerdicts(policies, &f)
	if len(judged) != 2 || judged[0].Verdict.Health != core.Unhealthy || policies[judged[0].Policy].ID.Name != "newer" || !judged[0].RemedyCalled {
		t.Errorf("the unhealthy one is judged %+v", judged)
	}
	if len(judged) == 2 && (judged[1].Verdict.Health != core.Healthy || judged[1].RemedyCalled || judged[1].Repair != nil) {
		t.Errorf("the healthy one is judged %+v", judged[1])
	}
	f.Repairs = []core.Repair{repair(f.Targets[0], newer)}
	f.Requests = []core.Request{markOn(f.Targets[0], ago(time.Minute))}
	d = core.Decide(policies, f, noon)
	if judged = d.CombinedVerdicts(policies, &f); judged[0].Repair == nil || !judged[0].HasRequest || judged[1].HasRequest {
		t.Errorf("what is under way is not told: %+v", judged)
	}
	for _, quiet := range []int{0, 1} {
		f.Repairs, f.Requests = nil, nil
		halves := slices.Clone(policies)
		halves[quiet].Paused = true
		d = core.Decide(halves, f, noon)
		if judged = d.CombinedVerdicts(halves, &f); judged[1].Policy == quiet {
			t.Errorf("the healthy one is judged by %s, which is paused", halves[quiet].ID.Name)
		}
	}
	for i := range policies {
		policies[i].DryRun = true
	}
	d = core.Decide(policies, f, noon)
	if judged = d.CombinedVerdicts(policies, &f); len(judged) > 0 {
		t.Errorf("a dry run judges %+v", judged)
	}
}
