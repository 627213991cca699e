package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// requestStatus returns how the request about the first target stands.
func requestStatus(t *testing.T, d core.Decision) core.RepairRequestStatus {
	t.Helper()
	for _, a := range d.RepairRequests {
		if a.Target == 0 {
			return a
		}
	}
	t.Fatal("nothing is said of a request about the first target")
	return core.RepairRequestStatus{}
}

// TestWhichRepairsServeARequest: which repair is that of the target, whatever the order of the ledger.
func TestWhichRepairsServeARequest(t *testing.T) {
	p := check("p", all(1), classic)
	n := aNode("a", byHand)
	anew := aNode("a", byHand)
	anew.ID.UID = "another-uid"
	past := func(of core.Target, at time.Duration, changes ...func(*core.Repair)) core.Repair {
		return repair(of, p, append([]func(*core.Repair){started(ago(at + time.Minute)), ended(ago(at))}, changes...)...)
	}
	onNode := func(name string) func(*core.Repair) { return func(r *core.Repair) { r.Node = name } }
	hours := func(t *core.Target) { requestedByUser(ago(9 * time.Hour))(t) }
	for name, c := range map[string]struct {
		target  core.Target
		repairs []core.Repair
		want    core.RepairRequestState
	}{
		"the later of two that ended":             {n, []core.Repair{past(n, time.Minute, number(2)), past(n, time.Hour, number(1))}, core.RequestServed},
		"the later of two that served":            {n, []core.Repair{past(n, time.Hour, number(2), requested(ago(2*time.Minute))), past(n, time.Hour, number(1))}, core.RequestServed},
		"of the node before it registered anew":   {anew, []core.Repair{past(n, time.Minute)}, core.RequestServed},
		"under way, of the node before that":      {func() core.Target { a := anew; hours(&a); return a }(), []core.Repair{repair(n, p, started(ago(9*time.Hour+time.Minute)), requested(ago(9*time.Hour)))}, core.RequestLapsed},
		"of another machine with the same node":   {machine("m", byHand), []core.Repair{past(machine("o"), time.Minute, onNode("m-node"))}, core.RequestPending},
		"of a node that is not told":              {machine("m", awaited(ago(time.Minute)), byHand), []core.Repair{past(aNode("o"), time.Minute, onNode(""))}, core.RequestPending},
		"the older of two under way":              {aNode("a", hours), []core.Repair{repair(n, p, started(ago(time.Minute)), number(2)), repair(n, p, started(ago(9*time.Hour)), number(1))}, core.RequestPending},
		"under way, of a machine that is gone":    {n, []core.Repair{repair(machine("m"), check("p", nil, annotates), onNode("a"), func(r *core.Repair) { r.Begun = ago(time.Minute) })}, core.RequestPending},
		"made since one began that is under way":  {n, []core.Repair{repair(n, p, started(ago(time.Hour)))}, core.RequestPending},
		"hours after one began that is under way": {aNode("a", hours), []core.Repair{repair(n, p, started(ago(10*time.Hour)))}, core.RequestLapsed},
	} {
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{c.target}, c.repairs...), noon)
		if got := requestStatus(t, d); got.State != c.want {
			t.Errorf("%s: the request stands as %+v, want state %d", name, got, c.want)
		}
	}
}

func annotates(p *core.Policy) {
	p.Steps = []core.Step{{Remedy: "Mark", Nature: core.Annotate}}
}

// TestRepairRequestLapsesBesideARepair: a request that was made since the repair under way began lapses, and is looked at then. A
// request that the repair began with does not lapse.
func TestRepairRequestLapsesBesideARepair(t *testing.T) {
	p := check("p", all(1), classic)
	n := aNode("a", byHand)
	lapses := n.RepairRequest.At.Add(core.RequestLasts)
	for name, c := range map[string]struct {
		repair core.Repair
		want   time.Time
	}{
		"the repair began before": {repair(n, p, started(ago(time.Hour))), lapses},
		"it began after":          {repair(n, p, started(ago(time.Minute))), time.Time{}},
		"it began with it":        {repair(n, p, started(ago(time.Hour)), requested(n.RepairRequest.At)), time.Time{}},
		"it has ended since":      {repair(n, p, started(ago(time.Hour)), ended(ago(time.Minute))), time.Time{}},
	} {
		f := clusterOf([]core.Target{n}, c.repair)
		f.Requests = []core.Request{requestFor(p, n, rebooting, func(q *core.Request) { q.Processing = core.Yes })}
		d := core.Decide([]core.Policy{p}, f, noon)
		if got := requestStatus(t, d); !got.Lapses.Equal(c.want) || !d.NextAt.Equal(c.want) {
			t.Errorf("%s: it lapses at %s, and the next look is at %s; want both at %s", name, got.Lapses, d.NextAt, c.want)
		}
	}
}

// TestWhatServesARequestUnderWay: the answer of another remediator, or to an earlier step, serves no request.
func TestWhatServesARequestUnderWay(t *testing.T) {
	p, hands := check("p", all(1), classic), check("p", all(1), annotates)
	n, other := aNode("a", byHand), core.Reference{APIVersion: rebooting.APIVersion, Kind: rebooting.Kind, Namespace: rebooting.Namespace, Name: "soft"}
	two := check("p", all(1), func(p *core.Policy) { p.Steps = []core.Step{ask(other, time.Minute), ask(rebooting, 0)} })
	ready10 := func(t *core.Target) { byHand(t); ready("True", ago(10*time.Second))(t) }
	handed := func(at time.Duration) func(*core.Repair) { return func(r *core.Repair) { r.Begun = ago(at) } }
	for name, c := range map[string]struct {
		policy   core.Policy
		target   core.Target
		change   func(*core.Repair)
		requests []core.Request
		want     core.RepairRequestState
		next     time.Time
	}{
		"another health check's":         {p, n, number(1), []core.Request{requestFor(check("q", nil, classic), n, rebooting, says(core.Yes))}, core.RequestPending, time.Time{}},
		"that of the step before":        {two, n, gaveUp(ago(time.Second)), []core.Request{requestFor(two, n, other, says(core.Yes))}, core.RequestPending, time.Time{}},
		"a failed one":                   {p, aNode("a", ready10), number(1), []core.Request{requestFor(p, n, rebooting, says(core.No))}, core.RequestPending, time.Time{}},
		"not handed over yet":            {hands, n, number(1), nil, core.RequestPending, time.Time{}},
		"in the hands of a remediator":   {hands, aNode("a", byHand, externallyRemediated), handed(time.Minute), nil, core.RequestPending, time.Time{}},
		"handed over a moment ago":       {hands, n, handed(9 * time.Second), nil, core.RequestPending, noon.Add(time.Second)},
		"handed over ten seconds ago":    {hands, n, handed(10 * time.Second), nil, core.RequestServed, time.Time{}},
		"the node turned when it began":  {p, aNode("a", byHand, ready("True", ago(10*time.Second))), number(1), []core.Request{requestFor(p, n, rebooting, requestedAt(ago(10*time.Second)))}, core.RequestPending, time.Time{}},
		"the node has turned since then": {p, aNode("a", ready10), number(1), []core.Request{requestFor(p, n, rebooting, requestedAt(ago(11*time.Second)))}, core.RequestPending, time.Time{}},
	} {
		f := clusterOf([]core.Target{c.target}, repair(n, c.policy, started(ago(90*time.Second)), c.change))
		f.Requests = c.requests
		d := core.Decide([]core.Policy{c.policy}, f, noon)
		if got := requestStatus(t, d); got.State != c.want {
			t.Errorf("%s: the request stands as %+v, want state %d", name, got, c.want)
		}
		if !c.next.IsZero() && !d.NextAt.Equal(c.next) {
			t.Errorf("%s: the next look is at %s, want %s", name, d.NextAt, c.next)
		}
		if turned := name == "the node has turned since then"; turned && d.Verdicts[0].Reason == core.RemediationRequested {
			t.Errorf("%s: the verdict is still %+v", name, d.Verdicts[0])
		}
		if name == "the node turned when it began" && d.Verdicts[0].Reason != core.RemediationRequested {
			t.Errorf("%s: the verdict is %+v already", name, d.Verdicts[0])
		}
	}
}

// TestRequestsOfOthersAreNotRecorded: a repair begins with the request about its own target, and is judged by that.
func TestRequestsOfOthersAreNotRecorded(t *testing.T) {
	p := check("p", all(2), classic, maxInFlight(core.Unlimited()))
	a, b := aNode("a", byHand), aNode("b", requestedByUser(ago(time.Minute)))
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{a, b}), noon)
	for _, s := range d.Starts {
		if want := []core.Target{a, b}[s.Target].RepairRequest.At; !s.Requested.Equal(want) {
			t.Errorf("the repair of target %d begins with the request of %s, want %s", s.Target, s.Requested, want)
		}
	}
	if len(d.Starts) != 2 {
		t.Errorf("starts %v, refusals %v", d.Starts, d.Refusals)
	}
	for name, change := range map[string]func(*core.Target){
		"marked without a time as well": func(t *core.Target) { t.RemediationRequested = true },
		"not readable":                  func(t *core.Target) { t.Problem = "its facts can't be read" },
	} {
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{aNode("a", byHand, change)}), noon)
		if v := d.Verdicts[0]; !v.Since.IsZero() {
			t.Errorf("%s: the verdict %+v has the time of the request", name, v)
		}
	}
}

// TestRequestAboutAnotherDelaysNoWithdrawal: a request about a healthy target is withdrawn at once.
func TestRequestAboutAnotherDelaysNoWithdrawal(t *testing.T) {
	p := check("p", all(2), classic, maxInFlight(core.Unlimited()))
	a, b := aNode("a"), aNode("b", byHand)
	f := clusterOf([]core.Target{a, b}, repair(a, p, started(ago(time.Hour))))
	f.Requests = []core.Request{requestFor(p, a, rebooting)}
	if d := core.Decide([]core.Policy{p}, f, noon); len(d.Withdrawals) != 1 {
		t.Errorf("withdrawals %v, notes %v", d.Withdrawals, d.Notes)
	}
}
