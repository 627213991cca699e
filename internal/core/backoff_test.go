package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

func TestDelay(t *testing.T) {
	b := core.DefaultBackoff()
	want := []time.Duration{
		0, 5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 320 * time.Second,
		640 * time.Second, 20 * time.Minute, 20 * time.Minute,
	}
	for retry, d := range want {
		if got := b.Delay(retry); got != d {
			t.Errorf("Delay(%d) = %v, want %v", retry, got, d)
		}
	}
	for name, c := range map[string]struct {
		b     core.Backoff
		retry int
		want  time.Duration
	}{
		"a huge retry stays at the limit":  {b, 1 << 40, 20 * time.Minute},
		"a negative retry never waits":     {b, -1, 0},
		"a base above the limit":           {core.Backoff{Base: time.Hour, Limit: time.Minute}, 1, time.Minute},
		"the zero value never waits":       {core.Backoff{}, 9, 0},
		"a base that would overflow":       {core.Backoff{Base: 1 << 62, Limit: 1<<63 - 1}, 5, 1<<63 - 1},
		"the last doubling meets no limit": {core.Backoff{Base: time.Second, Limit: 4 * time.Second}, 3, 4 * time.Second},
	} {
		if got := c.b.Delay(c.retry); got != c.want {
			t.Errorf("%s: Delay(%d) = %v, want %v", name, c.retry, got, c.want)
		}
	}
}

// past returns a repair that ended a second after it started.
func past(name string, at time.Time, changes ...func(*core.Repair)) core.Repair {
	r := repair(machine(name), policy("p", nil), started(at), ended(at.Add(time.Second)))
	for _, change := range changes {
		change(&r)
	}
	return r
}

// TestRetry checks how many replacements in a row have failed for the target "young". It was
// created a minute ago and failed at once.
func TestRetry(t *testing.T) {
	strangers := core.ID{Kind: "MachineSet", Name: "strangers", UID: "strangers-uid"}
	young := func(changes ...func(*core.Target)) core.Target {
		return machine("young", append([]func(*core.Target){created(ago(time.Minute)), failed(ago(time.Minute))}, changes...)...)
	}
	contemporaries := func(uids ...string) func(*core.Repair) {
		return func(r *core.Repair) { r.CreatedSameSecond = uids }
	}
	minute := ago(time.Minute)
	cases := map[string]struct {
		reason  string
		targets []core.Target
		repairs []core.Repair
		want    int
	}{
		"no repair yet": {"the first repair is never delayed", []core.Target{young()}, nil, 0},
		"one before it": {"its replacement has failed", []core.Target{young()}, []core.Repair{past("a", ago(2*time.Minute))}, 1},
		"a chain":       {"one more than the last", []core.Target{young()}, []core.Repair{past("a", ago(9*time.Minute)), past("b", ago(2*time.Minute), retry(4))}, 5},
		"a repair that was not needed": {
			"nothing was done, so the young machine replaces no other", []core.Target{young()},
			[]core.Repair{past("a", ago(2*time.Minute), func(r *core.Repair) { r.Outcome = core.Recovered })}, 0,
		},
		"an unrelated repair in between": {
			"the repair of an old machine does not end the streak", []core.Target{young()},
			[]core.Repair{past("a", ago(3*time.Minute), retry(4)), past("old", ago(2*time.Minute))}, 5,
		},
		"two in the same second": {"the longer streak counts", []core.Target{young()}, []core.Repair{past("a", ago(2*time.Minute)), past("b", ago(2*time.Minute), retry(2)), past("c", ago(2*time.Minute))}, 3},
		"a running one":          {"counts as well", []core.Target{young()}, []core.Repair{repair(machine("b", deleting), policy("p", nil), started(ago(2*time.Minute)), retry(2))}, 3},
		"a repair after it":      {"it replaces nothing of that one", []core.Target{young()}, []core.Repair{past("a", ago(30*time.Second))}, 0},
		"its own repair":         {"which was withdrawn", []core.Target{young()}, []core.Repair{past("young", ago(2*time.Minute))}, 0},
		"an hour ago":            {"unrelated", []core.Target{young()}, []core.Repair{past("a", ago(61*time.Minute))}, 0},
		"almost an hour ago":     {"related", []core.Target{young()}, []core.Repair{past("a", ago(61*time.Minute-time.Second))}, 1},
		"failing for long": {
			"what counts is when it began to fail, not when it is looked at",
			[]core.Target{machine("young", created(ago(2*time.Hour)), failed(ago(2*time.Hour)))},
			[]core.Repair{past("a", ago(2*time.Hour))}, 1,
		},
		"another pool":     {"no kin", []core.Target{young(ownedBy(strangers))}, []core.Repair{past("a", ago(2*time.Minute))}, 0},
		"no owner":         {"no pool", []core.Target{young(ownedBy(core.ID{}))}, []core.Repair{past("a", ago(2*time.Minute), func(r *core.Repair) { r.Owner = core.ID{} })}, 0},
		"a proven sibling": {"a newer machine works", []core.Target{young(), machine("new", created(ago(90*time.Second)))}, []core.Repair{past("a", ago(2*time.Minute), retry(7))}, 0},
		"an old sibling":   {"a machine from before proves nothing", []core.Target{young(), machine("old")}, []core.Repair{past("a", ago(2*time.Minute), retry(7))}, 8},
		"a new one, not yet healthy": {
			"booting proves nothing", []core.Target{young(), machine("new", created(ago(90*time.Second)), awaited(ago(90*time.Second)))},
			[]core.Repair{past("a", ago(2*time.Minute))}, 1,
		},
		"in the same second": {"creation times are whole seconds", []core.Target{young()}, []core.Repair{past("a", minute.Add(500*time.Millisecond))}, 1},
		"the second before":  {"it was there already", []core.Target{young()}, []core.Repair{past("a", minute.Add(1500*time.Millisecond))}, 0},
		"a sibling of the same second": {
			"it was there when the repair started", []core.Target{young()},
			[]core.Repair{past("a", minute, contemporaries("other-uid", "young-uid"))}, 0,
		},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := policy("p", all(len(c.targets)), maxInFlight(core.Unlimited()), needsNoOwner)
			d := core.Decide([]core.Policy{p}, clusterOf(c.targets, c.repairs...), noon.Add(time.Hour))
			got := -1
			for _, s := range d.Starts {
				if s.Target == 0 {
					got = s.Retry
				}
			}
			for _, r := range d.Refusals {
				if r.Target == 0 && r.Gate == core.BackingOff {
					got = r.Have
				}
			}
			if len(d.Starts) == 0 && got < 0 {
				d = core.Decide([]core.Policy{p}, refreshed(clusterOf(c.targets, c.repairs...), noon.Add(time.Hour)), noon.Add(time.Hour))
				if len(d.Starts) > 0 {
					got = d.Starts[0].Retry
				}
			}
			if got != c.want {
				t.Errorf("%s: retry %d, want %d; refusals %v", c.reason, got, c.want, d.Refusals)
			}
		})
	}
}

// TestFailureInTheFuture: a machine's clock is ahead. Its failure still relates to the repair that
// brought it about, or back-off would never hold.
func TestFailureInTheFuture(t *testing.T) {
	young := machine("young", created(ago(time.Second)), failed(noon.Add(100*time.Hour)))
	d := core.Decide([]core.Policy{policy("p", []int{0})}, clusterOf([]core.Target{young}, past("a", ago(2*time.Second), retry(3))), noon)
	if diff := cmp.Diff([]core.Gate{core.BackingOff}, refusedBy(d, 0)); diff != "" || len(d.Starts) > 0 {
		t.Errorf("%d repairs start; gates (-want +got):\n%s", len(d.Starts), diff)
	}
}

// refreshed returns the cluster with every node read live at an instant.
func refreshed(f core.Cluster, now time.Time) core.Cluster {
	targets := make([]core.Target, len(f.Targets))
	copy(targets, f.Targets)
	for i := range targets {
		targets[i].NodeReadAt = now
	}
	f.Targets = targets
	return f
}

// TestOneRepairPerPauseAndPool: five replacements have failed together, and one is repaired per
// pause.
func TestOneRepairPerPauseAndPool(t *testing.T) {
	targets := machines(5, 5, created(ago(time.Minute)), failed(ago(time.Minute)))
	other := core.ID{Kind: "MachineSet", Namespace: "machines", Name: "others", UID: "others-uid"}
	targets[4].Owner = other
	p := policy("p", all(5), maxInFlight(core.Unlimited()))
	before := past("old", ago(2*time.Minute), retry(2))
	d := core.Decide([]core.Policy{p}, clusterOf(targets, before), noon)
	if diff := cmp.Diff([]int{0, 4}, begun(d)); diff != "" {
		t.Fatalf("one of the pool, and the one of another pool (-want +got):\n%s", diff)
	}
	for _, i := range []int{1, 2, 3} {
		if diff := cmp.Diff([]core.Gate{core.BackingOff}, refusedBy(d, i)); diff != "" {
			t.Errorf("target %d (-want +got):\n%s", i, diff)
		}
	}
	if want := noon.Add(20 * time.Second); !d.NextAt.Equal(want) {
		t.Errorf("NextAt = %v, want %v, when the pause is over", d.NextAt, want)
	}
}

func TestFirstFailuresAreNotPaced(t *testing.T) {
	targets := machines(5, 5, created(ago(time.Minute)), failed(ago(time.Minute)))
	d := core.Decide([]core.Policy{policy("p", all(5), maxInFlight(core.Unlimited()))}, clusterOf(targets), noon)
	if len(d.Starts) != 5 {
		t.Errorf("%d repairs start, want 5: nothing was repaired before, so nothing was repaired in vain", len(d.Starts))
	}
}

// TestCreatedSameSecond: a start names the targets of its owner that were created in this very second,
// and no others.
func TestCreatedSameSecond(t *testing.T) {
	now := noon.Add(700 * time.Millisecond)
	stranger := core.ID{Kind: "MachineSet", Name: "strangers", UID: "strangers-uid"}
	targets := []core.Target{
		machine("a", failed(ago(0)), created(noon)), machine("b", created(noon)), machine("c", created(noon), ownedBy(stranger)),
		machine("d", created(ago(time.Second))),
	}
	d := core.Decide([]core.Policy{policy("p", all(4))}, refreshed(clusterOf(targets), now), now)
	if len(d.Starts) != 1 {
		t.Fatalf("%d repairs start, want 1", len(d.Starts))
	}
	if diff := cmp.Diff([]string{"a-uid", "b-uid"}, d.Starts[0].CreatedSameSecond); diff != "" {
		t.Errorf("contemporaries (-want +got):\n%s", diff)
	}
}

// TestOnlyActingPoliciesProveAPool: a dry run neither shows that a pool can create healthy targets,
// nor that it can't.
func TestOnlyActingPoliciesProveAPool(t *testing.T) {
	young := machine("young", created(ago(time.Minute)), failed(ago(time.Minute)))
	sibling := machine("new", created(ago(90*time.Second)), condition("DiskPressure", "True", ago(time.Minute)))
	strict := criteria(core.ConditionCriterion{Type: "DiskPressure", Status: "True"})
	cases := map[string]struct {
		policies []core.Policy
		want     int
	}{
		"an acting policy finds it healthy":                    {[]core.Policy{policy("p", all(2))}, 0},
		"a dry run finds that it is not":                       {[]core.Policy{policy("p", all(2)), policy("dry", all(2), dryRun, strict)}, 0},
		"an acting policy finds that it is not":                {[]core.Policy{policy("p", all(2)), policy("q", []int{1}, strict)}, 8},
		"only a dry run judges it":                             {[]core.Policy{policy("p", []int{0}), policy("dry", all(2), dryRun)}, 8},
		"an acting policy suspects it, and a dry run does not": {[]core.Policy{policy("p", all(2), criteria(core.ConditionCriterion{Type: "DiskPressure", Status: "True", For: time.Hour})), policy("dry", all(2), dryRun)}, 8},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := core.Decide(c.policies, clusterOf([]core.Target{young, sibling}, past("a", ago(2*time.Minute), retry(7))), noon)
			got := -1
			for _, s := range d.Starts {
				got = s.Retry
			}
			for _, r := range d.Refusals {
				if r.Target == 0 && r.Gate == core.BackingOff && r.Policy == 0 && !r.DryRun {
					got = r.Have
				}
			}
			if got != c.want {
				t.Errorf("retry %d, want %d; refusals %v", got, c.want, d.Refusals)
			}
		})
	}
}

// TestRelapseCountsForAnHour: a target that stayed and fails more than an hour later fails for the
// first time.
func TestRelapseCountsForAnHour(t *testing.T) {
	p := policy("p", []int{0}, needsNoOwner)
	sick := machine("m", failed(noon), ownedBy(core.ID{}))
	for after, want := range map[time.Duration]int{time.Minute: 3, time.Hour - time.Second: 3, time.Hour: 0, 20 * time.Hour: 0} {
		r := repair(sick, p, started(ago(after+time.Minute)), ended(ago(after)), retry(2))
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, r), noon)
		if len(d.Starts) != 1 || d.Starts[0].Retry != want {
			t.Errorf("when it fails again after %s: starts %+v, refusals %v; want retry %d", after, d.Starts, d.Refusals, want)
		}
	}
}

// TestEndByAClockBehind: a clock that was behind has written the end of a repair. The end counts as
// no earlier than the steps of the repair, so a relapse backs off.
func TestEndByAClockBehind(t *testing.T) {
	p := check("p", []int{0}, classic, func(p *core.Policy) { p.Backoff = core.Backoff{Base: 30 * time.Minute, Limit: time.Hour} })
	sick := aNode("n", ready("False", ago(6*time.Minute)))
	for _, skew := range []time.Duration{0, 2 * time.Hour} {
		r := repair(sick, p, started(ago(20*time.Minute)), recovered(ago(15*time.Minute)))
		r.Ended, r.Outcome = r.EndAt(ago(10*time.Minute+skew)), core.Succeeded
		f := clusterOf([]core.Target{sick}, r)
		if d := core.Decide([]core.Policy{p}, f, noon); !slices.Equal(refusedBy(d, 0), []core.Gate{core.BackingOff}) {
			t.Errorf("the clock was behind by %s: %q", skew, actionTexts(f, d))
		}
	}
}

// TestPauseNeedsAnAttempt: a record without refused calls pauses nothing, whatever its time.
func TestPauseNeedsAnAttempt(t *testing.T) {
	p, sick := policy("p", []int{0}), machine("m", dead)
	for number, starts := range map[int]int{0: 1, 1: 0} {
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, repair(sick, p, attempts(number, noon))), noon)
		if len(d.StepStarts) != starts {
			t.Errorf("after %d attempts %d steps begin, want %d: %v", number, len(d.StepStarts), starts, d.Refusals)
		}
	}
}

// TestFailureByAConditionHasItsTime: a group without a known beginning holds too. The failure still
// began when the condition of the verdict turned, long after the last repair.
func TestFailureByAConditionHasItsTime(t *testing.T) {
	p := policy("p", []int{0}, needsNoOwner, groups(tests(mute)), func(p *core.Policy) { p.Criteria.Conditions = []core.ConditionCriterion{notReady} })
	sick := machine("m", dead, ownedBy(core.ID{}), seen(mute, ago(time.Minute)))
	r := repair(sick, p, started(ago(4*time.Hour)), ended(ago(3*time.Hour)), retry(2))
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, r), noon)
	if len(d.Starts) != 1 || d.Starts[0].Retry != 0 {
		t.Errorf("starts %+v, refusals %v; want the first in a row", d.Starts, d.Refusals)
	}
}
