package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestTestsAreRememberedOnce: two policies have the same test. A test for which a node has its own
// times is not remembered.
func TestTestsAreRememberedOnce(t *testing.T) {
	holding := machine("x", ready("False", ago(time.Hour)))
	p := policy("p", []int{0}, groups(tests(unready, mute), tests(mute)))
	q := policy("q", []int{0}, groups(tests(mute)))
	var m core.Expectations
	f := laid(&m, noon, []core.Target{holding})
	m.OverlayTests([]core.Policy{p, q}, &f, noon)
	if seen := f.Targets[0].TestsSeen; len(seen) != 1 || seen[0].Test != mute {
		t.Errorf("remembered is %+v, want what is missing, once", seen)
	}
}

// TestI05LiveReadForgetsTests: a live read shows another node, or only a part of it, and the cache
// does not show that yet.
func TestI05LiveReadForgetsTests(t *testing.T) {
	p := policy("p", []int{0}, groups(tests(frozen)))
	holding := machine("x", reasoned("KernelDeadlock", "True", "DockerHung", ago(time.Hour)))
	for name, change := range map[string]func(*core.Target){
		"another node":     func(t *core.Target) { t.Node.UID = "another" },
		"one read in part": cut,
		"no node":          nodeIs(core.NodeGone),
	} {
		var m core.Expectations
		laidTests(&m, p, ago(time.Minute), holding)
		live := machine("x", reasoned("KernelDeadlock", "True", "DockerHung", ago(time.Hour)), change)
		m.OverlayLive(&live, ago(time.Minute))
		if seen := laidTests(&m, p, noon, holding)[0].TestsSeen; len(seen) != 1 || !seen[0].Since.Equal(noon) {
			t.Errorf("%s: the test counts since %+v, want anew", name, seen)
		}
	}
}

// TestGroupThatEndsSoonest: of two suspicions the first to end counts, whatever their order. A test
// that was not seen to hold keeps its group from counting.
func TestGroupThatEndsSoonest(t *testing.T) {
	late, soon := core.ConditionTest{Type: "Late", Status: "True"}, core.ConditionTest{Type: "Soon", Status: "True"}
	target := machine("m", condition("Late", "True", noon), condition("Soon", "True", ago(time.Minute)))
	for _, order := range [][][]core.ConditionTest{{tests(late), tests(soon)}, {tests(soon), tests(late)}} {
		d := core.Decide([]core.Policy{policy("p", []int{0}, groups(order...))}, clusterOf([]core.Target{target}), noon)
		if v := d.Verdicts[0]; !v.Until.Equal(ago(time.Minute).Add(patience)) {
			t.Errorf("the verdict is %+v, want the suspicion that ends sooner", v)
		}
	}
	for _, order := range [][]core.ConditionTest{tests(mute, frozen), tests(frozen, mute)} {
		target := machine("m", reasoned("KernelDeadlock", "True", "DockerHung", ago(time.Hour)), seen(frozen, ago(time.Hour)))
		d := core.Decide([]core.Policy{policy("p", []int{0}, groups(order))}, clusterOf([]core.Target{target}), noon)
		if v := d.Verdicts[0]; v.Health != core.Suspect || !v.Since.IsZero() {
			t.Errorf("the verdict is %+v, want a suspicion since an unknown time", v)
		}
	}
}

// TestPauseOfATargetThatStayed: the pause runs from the end of its last repair, or from a later
// repair of its pool, and not from its failure.
func TestPauseOfATargetThatStayed(t *testing.T) {
	p := policy("p", []int{0}, annotates, func(p *core.Policy) {
		p.Backoff = core.Backoff{Base: 2 * time.Minute, Limit: 20 * time.Minute}
	})
	failed := machine("m", ready("False", ago(6*time.Minute)))
	last := repair(failed, p, started(ago(12*time.Minute)), ended(ago(10*time.Minute)))
	if d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{failed}, last), noon); len(d.Starts) != 1 || d.Starts[0].Retry != 1 {
		t.Errorf("ten minutes after its last repair it waits: %+v", d.Refusals)
	}
	other := repair(machine("o"), p, started(ago(time.Minute)), ended(ago(50*time.Second)))
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{failed}, last, other), noon)
	if len(d.Starts) > 0 || len(d.Refusals) != 1 || !d.Refusals[0].Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("a minute after another repair of its pool: starts %v, refusals %+v", d.Starts, d.Refusals)
	}
}

// TestResumedTargetBeginsANewSeries: resuming starts a new series of repairs.
func TestResumedTargetBeginsANewSeries(t *testing.T) {
	n := aNode("n", ready("False", ago(time.Hour)))
	p := check("p", []int{0}, needsNoOwner, threeTries, resumedAt(ago(time.Minute)))
	last := repair(n, p, started(ago(2*time.Hour)), ended(ago(110*time.Minute)), retry(2))
	if d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{n}, last), noon); len(d.Starts) != 1 || d.Starts[0].Retry != 0 {
		t.Errorf("starts %+v, want one as a first repair", d.Starts)
	}
}

// TestRetentionOfTwins: the repair of a node has served a request about its machine, and is kept
// for that.
func TestRetentionOfTwins(t *testing.T) {
	p := check("p", []int{0}, classic)
	lost := func(r *core.Repair) { r.Node, r.Outcome = "m-node", core.Withdrawn }
	r := repair(aNode("m-node"), p, started(ago(90*time.Second)), ended(ago(time.Minute)), lost)
	for _, c := range []struct {
		requested []time.Time
		want      int
	}{{[]time.Time{ago(2 * time.Minute)}, 0}, {[]time.Time{ago(2 * time.Minute), ago(9 * time.Hour)}, 0}, {[]time.Time{ago(9 * time.Hour), ago(2 * time.Minute)}, 0}, {[]time.Time{ago(9 * time.Hour)}, 1}} {
		var targets []core.Target
		for _, at := range c.requested {
			m := machine("m", requestedByUser(at))
			m.ID.UID = at.String()
			targets = append(targets, m)
		}
		f := clusterOf(targets, r)
		d := core.Decide([]core.Policy{p}, f, noon)
		if expired, _ := (core.Retention{}).Expired(&f, d.Verdicts, noon); len(expired) != c.want {
			t.Errorf("asked at %v: %d repairs expire, want %d", c.requested, len(expired), c.want)
		}
	}
}

// TestNextLookOfRetention: a repair that back-off reads for another hour expires then, or at the
// end of its own time, if that is later.
func TestNextLookOfRetention(t *testing.T) {
	well, a := machine("well"), past("a", ago(time.Hour))
	for _, c := range []struct {
		keep core.Retention
		want time.Time
	}{
		{core.Retention{For: 24 * time.Hour, Max: 5}, a.Ended.Add(24 * time.Hour)},
		{core.Retention{For: time.Minute, Max: 5}, a.Started.Add(2 * time.Hour)},
		{core.Retention{For: 24 * time.Hour}, a.Started.Add(2 * time.Hour)},
	} {
		f := clusterOf([]core.Target{well}, a)
		d := core.Decide([]core.Policy{policy("p", all(1))}, f, noon)
		if expired, next := c.keep.Expired(&f, d.Verdicts, noon); len(expired) > 0 || !next.Equal(c.want) {
			t.Errorf("%+v: expired %v, next at %s, want none before %s", c.keep, expired, next, c.want)
		}
	}
}
