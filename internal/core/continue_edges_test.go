package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestSecondRepairOfANodeHasNoTurn: a second running repair of a node that is under repair does not make
// a place for another target.
func TestSecondRepairOfANodeHasNoTurn(t *testing.T) {
	p, q := policy("p", []int{0, 1}, needsNoOwner), policy("q", []int{2}, needsNoOwner)
	n, b := aNode("n", dead), machine("b", dead)
	m := machine("m", dead, externallyRemediated, func(t *core.Target) { t.Node.Name = "n" })
	f := clusterOf([]core.Target{n, b, m}, repair(m, q, started(ago(3*time.Minute)), begunAt(ago(3*time.Minute))),
		repair(b, p, started(ago(2*time.Minute))), repair(n, p, started(ago(time.Minute))))
	d := core.Decide([]core.Policy{p, q}, f, noon)
	if len(d.StepStarts) > 0 || !slices.Equal(refusedBy(d, 1), []core.Gate{core.InFlightLimit}) {
		t.Errorf("begins %v, refusals %v", d.StepStarts, d.Refusals)
	}
}

// TestRepairsOfAnUnparsablePolicy: a repair stays only if its target may be judged wrongly, and requests
// of it may exist.
func TestRepairsOfAnUnparsablePolicy(t *testing.T) {
	n := aNode("n")
	unjudged := func(p *core.Policy) { unparsable(p); p.Unjudged = true }
	m := machine("m", func(t *core.Target) { t.Node.Name = "n" })
	asks, deletes := check("p", []int{0}, classic, unparsable), check("p", []int{0}, unparsable)
	for name, c := range map[string]struct {
		policy  core.Policy
		targets []core.Target
		repairs []core.Repair
		ends    []int
	}{
		"it asks, and seems healthy":                    {asks, []core.Target{n}, []core.Repair{repair(n, asks)}, nil},
		"it deletes":                                    {deletes, []core.Target{n}, []core.Repair{repair(n, deletes)}, []int{0}},
		"it deletes, and is not judged":                 {check("p", []int{0}, unjudged), []core.Target{n}, []core.Repair{repair(n, deletes)}, nil},
		"it deletes, is not judged, and is gone":        {check("p", nil, unjudged), nil, []core.Repair{repair(n, deletes)}, []int{0}},
		"it asks, and is gone":                          {asks, nil, []core.Repair{repair(n, asks)}, nil},
		"it asks, and an older repair of its node runs": {asks, []core.Target{n, m}, []core.Repair{repair(n, asks), repair(m, asks, started(ago(time.Hour)))}, []int{0}},
	} {
		d := core.Decide([]core.Policy{c.policy}, clusterOf(c.targets, c.repairs...), noon)
		var ends []int
		for _, e := range d.Finishes {
			ends = append(ends, e.Repair)
		}
		if diff := cmp.Diff(c.ends, ends); diff != "" {
			t.Errorf("%s: ends (-want +got):\n%s", name, diff)
		}
	}
}

// TestEndsOfRepairs: why a repair ends, and which of its requests are withdrawn.
func TestEndsOfRepairs(t *testing.T) {
	p, q := check("p", []int{0}, classic), check("q", []int{0}, classic)
	dry, marks, two := check("p", []int{0}, classic, dryRun), check("p", []int{0}, needsNoOwner), check("p", []int{0}, escalating)
	n, sick, suspect := aNode("n"), aNode("n", dead), aNode("n", ready("False", noon))
	own := requestFor(p, n, rebooting)
	theirs := requestFor(p, n, rebooting, foreign)
	for name, c := range map[string]struct {
		policies  []core.Policy
		target    core.Target
		repairs   []core.Repair
		requests  []core.Request
		outcome   core.Outcome
		reason    core.EndReason
		withdrawn int
	}{
		"another policy selects it":          {[]core.Policy{q}, sick, []core.Repair{repair(sick, p)}, nil, core.Withdrawn, core.NotSelected, 0},
		"another does, and it has begun":     {[]core.Policy{q}, sick, []core.Repair{repair(sick, p, begunAt(noon))}, nil, core.Withdrawn, core.NotSelectedAnymore, 0},
		"a dry run":                          {[]core.Policy{dry}, sick, []core.Repair{repair(sick, p)}, []core.Request{own}, core.Withdrawn, core.HandsOff, 0},
		"withdrawn, and foreign remains":     {[]core.Policy{p}, sick, []core.Repair{repair(sick, p, recovered(ago(time.Minute)))}, []core.Request{theirs}, core.Succeeded, core.RequestsWithdrawn, 0},
		"suspect, and nothing done":          {[]core.Policy{p}, suspect, []core.Repair{repair(sick, p)}, nil, core.Recovered, core.NothingRequested, 0},
		"suspect, and nothing done by marks": {[]core.Policy{marks}, suspect, []core.Repair{repair(sick, marks)}, nil, core.Recovered, core.NothingDone, 0},
		"suspect, and a mark is removed":     {[]core.Policy{marks}, suspect, []core.Repair{repair(sick, marks, begunAt(ago(time.Hour)))}, nil, core.Succeeded, core.ExternalRemediationEnded, 0},
		"suspect, and a request was seen":    {[]core.Policy{p}, suspect, []core.Repair{repair(sick, p, func(r *core.Repair) { r.StepSeen = 1 })}, nil, core.Succeeded, core.RequestsWithdrawn, 0},
		"healthy after a step":               {[]core.Policy{two}, n, []core.Repair{repair(n, two, gaveUp(ago(time.Minute)))}, nil, core.Succeeded, core.TargetRecovered, 0},
		"healthy after an unseen step":       {[]core.Policy{two}, n, []core.Repair{repair(n, two, gaveUp(ago(time.Minute)), func(r *core.Repair) { r.StepSeen = 0 })}, nil, core.Succeeded, core.TargetRecovered, 0},
		"suspect after a step":               {[]core.Policy{two}, suspect, []core.Repair{repair(n, two, gaveUp(ago(time.Minute)))}, nil, 0, "", 0},
		"suspect with a mark and a request":  {[]core.Policy{p}, suspect, []core.Repair{repair(n, p, begunAt(ago(time.Hour)))}, []core.Request{own}, 0, "", 0},
	} {
		f := clusterOf([]core.Target{c.target}, c.repairs...)
		f.Requests = c.requests
		d := core.Decide(c.policies, f, noon)
		if ends := c.reason != ""; (len(d.Finishes) > 0) != ends || ends && (d.Finishes[0].Outcome != c.outcome || d.Finishes[0].Reason != c.reason) {
			t.Errorf("%s: it ends as %+v, want %s: %s", name, d.Finishes, c.outcome, c.reason)
		}
		if len(d.Withdrawals) != c.withdrawn {
			t.Errorf("%s: withdrawn is %v", name, d.Withdrawals)
		}
	}
}

// TestSecondRepairOfADryRun: a dry run ends its second repair of a node, and withdraws nothing.
func TestSecondRepairOfADryRun(t *testing.T) {
	dry := check("p", all(2), classic, dryRun)
	n, m := aNode("n", dead), machine("m", func(t *core.Target) { t.Node.Name = "n" })
	f := clusterOf([]core.Target{n, m}, repair(n, dry), repair(m, dry, started(ago(time.Hour))))
	f.Requests = []core.Request{requestFor(dry, n, rebooting)}
	d := core.Decide([]core.Policy{dry}, f, noon)
	reasons := map[int]core.EndReason{}
	for _, e := range d.Finishes {
		reasons[e.Repair] = e.Reason
	}
	if diff := cmp.Diff(map[int]core.EndReason{0: core.OlderRepairOfNode, 1: core.HandsOff}, reasons); diff != "" || len(d.Withdrawals) > 0 {
		t.Errorf("withdrawn is %v; the ends (-want +got):\n%s", d.Withdrawals, diff)
	}
}

// TestNotesOfOnePass: a repair has one note for its relapse and its answer, whatever others have.
func TestNotesOfOnePass(t *testing.T) {
	p := policy("p", all(2), asksOwner, maxInFlight(core.Unlimited()))
	a, b := machine("a", dead), machine("b", dead)
	f := clusterOf([]core.Target{a, b}, repair(a, p, recovered(ago(time.Minute))), repair(b, p, recovered(ago(time.Minute))))
	says := func(text string) func(*core.Request) {
		return func(q *core.Request) { q.Answers, q.Answer = true, text }
	}
	f.Requests = []core.Request{markOn(a, ago(time.Minute), says("of a")), markOn(b, ago(time.Minute), says("of b"))}
	want := []core.Note{{Repair: 0, Answer: "of a"}, {Repair: 1, Answer: "of b"}}
	got := core.Decide([]core.Policy{p}, f, noon).Notes
	slices.SortFunc(got, func(a, b core.Note) int { return a.Repair - b.Repair })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the notes (-want +got):\n%s", diff)
	}
}

// TestSuspectRelapse: a target that recovered and is suspect has relapsed, while its request exists.
func TestSuspectRelapse(t *testing.T) {
	p := check("p", []int{0}, classic)
	n := aNode("n", ready("False", noon))
	remediationCase{
		"it is not healthy after all", with([]core.Target{n}, []core.Repair{repair(n, p, recovered(ago(time.Minute)))}, requestFor(p, n, rebooting)),
		[]string{"note n: false"}, noon.Add(patience),
	}.run(t, p)
}

// TestLeaseOfARecovery: the lease of a node is held while the request of its repair is about to be
// withdrawn.
func TestLeaseOfARecovery(t *testing.T) {
	holds := func(p *core.Policy) { p.Holder = "p" }
	delayed := check("p", []int{0}, classic, holds, func(p *core.Policy) { p.HealthyDelay = time.Hour })
	plain := check("p", []int{0}, classic, holds)
	n := aNode("n")
	requested := aNode("n", func(t *core.Target) { t.RepairRequest.At = ago(2 * time.Minute) })
	q := requestFor(plain, n, rebooting)
	hold := "hold n for 11m0s as p"
	for name, c := range map[string]struct {
		policy core.Policy
		world  core.Cluster
		wants  []string
		next   time.Time
	}{
		"requested by a user": {
			plain, with([]core.Target{requested}, []core.Repair{repair(n, plain)}, requestFor(plain, n, rebooting, says(core.Yes))),
			[]string{hold, "note n: true"}, noon.Add(time.Second),
		},
		"for a delay":              {delayed, with([]core.Target{n}, []core.Repair{repair(n, delayed, recovered(noon))}, q), []string{hold}, noon.Add(time.Hour)},
		"for a delay, and leaving": {delayed, with([]core.Target{n}, []core.Repair{repair(n, delayed, recovered(noon))}, requestFor(plain, n, rebooting, leaving)), []string{hold}, noon.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) { remediationCase{name, c.world, c.wants, c.next}.run(t, c.policy) })
	}
}

// TestVerdictOfTheRepairedTarget: of a policy that selects a machine and its node, the verdict on the
// repaired one counts.
func TestVerdictOfTheRepairedTarget(t *testing.T) {
	p := policy("p", all(2), needsNoOwner)
	n := aNode("n", dead)
	m := machine("m", func(t *core.Target) { t.Node.Name = "n" })
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m, n}, repair(n, p)), noon)
	if len(d.StepStarts) != 1 || len(d.Finishes) > 0 {
		t.Errorf("begins %v, ends %v, refusals %v", d.StepStarts, d.Finishes, d.Refusals)
	}
}

// TestControlPlaneGroupIsOutOnce: a machine of the control plane and its node are one.
func TestControlPlaneGroupIsOutOnce(t *testing.T) {
	p := policy("p", []int{0})
	m := machine("m", dead, controlPlane, func(t *core.Target) { t.Node.Name = "n" })
	f := clusterOf([]core.Target{m, aNode("n", dead, controlPlane)}, repair(m, p))
	quorumOf(&f, core.Yes)
	if d := core.Decide([]core.Policy{p}, f, noon); len(d.StepStarts) != 1 {
		t.Errorf("refused by %v", d.Refusals)
	}
}

// TestDryRunBoundsNoReads: the limits of a dry run keep no node from being read.
func TestDryRunBoundsNoReads(t *testing.T) {
	targets := []core.Target{machine("a", dead, readAt(time.Time{})), machine("b", dead, readAt(time.Time{}))}
	acting, dry := policy("p", all(2), maxInFlight(core.Unlimited())), policy("dry", all(2), dryRun)
	if d := core.Decide([]core.Policy{acting, dry}, clusterOf(targets), noon); len(d.Confirm) != 2 {
		t.Errorf("read are %v", d.Confirm)
	}
}
