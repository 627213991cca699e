package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// expires checks when the first expectation expires.
func expires(t *testing.T, sentence string, e *core.Expectations, want time.Time) {
	t.Helper()
	if got := e.ExpectedUntil(); !got.Equal(want) {
		t.Errorf("%s: the first expectation expires at %s, want %s", sentence, got, want)
	}
}

// TestExpectationsExpire: a write that no cache shows is expected for a minute.
func TestExpectationsExpire(t *testing.T) {
	n, p := aNode("n"), check("p", []int{0}, classic)
	running, done := repair(n, p), repair(n, p, ended(noon))
	minute := noon.Add(time.Minute)

	var made core.Expectations
	made.ExpectRequest(requestFor(p, n, rebooting), noon)
	expires(t, "a request", &made, minute)

	var written core.Expectations
	written.ExpectRepair(running, noon)
	expires(t, "a running repair", &written, minute)
	if f := laid(&written, minute, []core.Target{n}); len(f.Repairs) > 0 {
		t.Errorf("after a minute the repair is expected: %v", f.Repairs)
	}
	if f := laid(&written, minute, []core.Target{n}, running); !f.Repairs[0].RecordedElsewhere {
		t.Error("a forgotten repair counts as recorded here")
	}

	var finished core.Expectations
	finished.ExpectRepair(done, noon)
	expires(t, "a finished repair", &finished, time.Time{})
	for _, now := range []time.Time{noon, noon.Add(time.Hour)} {
		if f := laid(&finished, now, []core.Target{n}); len(f.Repairs) != 1 || !f.ExpectedUntil.IsZero() {
			t.Errorf("at %s a finished repair is %v, until %s", now, f.Repairs, f.ExpectedUntil)
		}
	}

	var seen core.Expectations
	laid(&seen, noon, []core.Target{n}, running)
	seen.ExpectRepair(running, noon)
	expires(t, "a repair that was seen", &seen, time.Time{})
}

// TestExpectedWithdrawals: a withdrawn request is leaving until the cache shows that. The repair of a
// healthy target has recovered by it.
func TestExpectedWithdrawals(t *testing.T) {
	n, other, p := aNode("n"), aNode("other"), check("p", all(2), classic)
	q := requestFor(p, n, rebooting)
	healthy := q
	healthy.TargetHealthy = true
	world := func(r core.Repair, requests ...core.Request) core.Cluster {
		f := clusterOf([]core.Target{n, other}, r, repair(other, p))
		f.Requests = slices.Clone(requests)
		return f
	}
	earlier := ago(time.Hour)
	for name, c := range map[string]struct {
		withdrawn core.Request
		before    core.Repair
		want      time.Time
	}{
		"for another reason":  {q, repair(n, p), time.Time{}},
		"since it is healthy": {healthy, repair(n, p), noon},
		"recovered before":    {healthy, repair(n, p, recovered(earlier)), earlier},
		"ended before":        {healthy, repair(n, p, ended(earlier)), time.Time{}},
	} {
		var e core.Expectations
		f := world(c.before, q)
		e.Overlay(&f, noon)
		e.ExpectWithdrawal(c.withdrawn, noon)
		for range 2 {
			f = world(c.before, q)
			e.Overlay(&f, noon)
			if !f.Requests[0].Leaving || !f.Repairs[0].Recovered.Equal(c.want) || !f.Repairs[1].Recovered.IsZero() {
				t.Errorf("%s: leaving %t, recovered at %s, the other at %s", name, f.Requests[0].Leaving, f.Repairs[0].Recovered, f.Repairs[1].Recovered)
			}
		}
		leaves := q
		leaves.Leaving = true
		f = world(c.before, leaves)
		e.Overlay(&f, noon)
		f = world(c.before, q)
		e.Overlay(&f, noon)
		if f.Requests[0].Leaving {
			t.Errorf("%s: the withdrawal is expected though the cache has shown it", name)
		}
	}
}

// TestExpectedRequestIsItself: a request of another remedy, template or target does not meet the
// expectation of one.
func TestExpectedRequestIsItself(t *testing.T) {
	n, p := aNode("n"), check("p", []int{0}, classic)
	made := requestFor(p, n, rebooting, func(q *core.Request) { q.ID = core.ID{} })
	for name, c := range map[string]struct {
		change func(*core.Request)
		meets  bool
	}{
		"itself":           {func(*core.Request) {}, true},
		"of a remedy":      {func(q *core.Request) { q.Remedy = "Other" }, false},
		"of a template":    {func(q *core.Request) { q.Template = reprovisioning }, false},
		"about a namesake": {func(q *core.Request) { q.Target.UID = "another" }, false},
		"leaving":          {leaving, false},
		"foreign":          {foreign, false},
	} {
		var e core.Expectations
		e.ExpectRequest(made, noon)
		f := clusterOf([]core.Target{n})
		f.Requests = []core.Request{requestFor(p, n, rebooting, c.change)}
		e.Overlay(&f, noon)
		if (len(f.Requests) == 1) != c.meets {
			t.Errorf("%s: the requests are %v", name, f.Requests)
		}
	}
}

// TestNodeGoneIsOfOneNode: only the node that a live read did not find is gone, since the first of such
// reads.
func TestNodeGoneIsOfOneNode(t *testing.T) {
	var e core.Expectations
	x := machine("x", nodeIs(core.NodeUnseen))
	e.KeepNodeGone(x.ID, x.Node.Name, noon)
	if at := e.KeepNodeGone(x.ID, "another", noon.Add(time.Minute)); !at.Equal(noon.Add(time.Minute)) {
		t.Errorf("another node is gone since %s", at)
	}
	e.KeepNodeGone(x.ID, x.Node.Name, noon)
	zero := machine("zero", func(t *core.Target) { t.Node = core.Node{} })
	if f := laid(&e, noon, []core.Target{x, zero}); f.Targets[1].Node.State != core.NodeUnseen {
		t.Errorf("a node without a name is %s", f.Targets[1].Node.State)
	}
}

// TestDeletionsExpire: the deletion of a repair that the cache never showed is expected for a minute.
// Another deletion is, until the cache shows it.
func TestDeletionsExpire(t *testing.T) {
	n, p := aNode("n"), check("p", []int{0}, classic)
	done := repair(n, p, ended(ago(time.Hour)), func(r *core.Repair) { r.UID, r.Revision = "u", 5 })
	for name, c := range map[string]struct {
		seen   bool
		after  time.Duration
		shown  bool
		hidden bool
	}{
		"never shown":               {false, time.Minute - 1, true, true},
		"never shown, for a minute": {false, time.Minute, true, false},
		"shown before":              {true, 0, true, true},
	} {
		var e core.Expectations
		if c.seen {
			laid(&e, noon, []core.Target{n}, done)
		} else {
			e.ExpectRepair(done, noon)
		}
		e.ExpectRepairDeletion(done, noon)
		now := noon.Add(c.after)
		laid(&e, now, []core.Target{n})
		if got := len(laid(&e, now, []core.Target{n}, done).Repairs) == 0; got != (c.hidden && !c.seen) {
			t.Errorf("%s: the repair is hidden: %t", name, got)
		}
	}
	var e core.Expectations
	laid(&e, noon, []core.Target{n}, done)
	e.ExpectRepairDeletion(done, noon)
	for i := range 3 {
		if got := laid(&e, noon.Add(time.Duration(i)*time.Hour), []core.Target{n}, done).Repairs; len(got) > 0 {
			t.Errorf("a deleted repair that the cache shows is %v", got)
		}
	}
	kept := done
	kept.Revision = 6
	for _, version := range []core.Repair{kept, done} {
		e.ExpectRepairDeletion(done, noon)
		if got := laid(&e, noon, []core.Target{n}, version).Repairs; len(got) != 1 {
			t.Errorf("a repair that a finalizer keeps is hidden in revision %d", version.Revision)
		}
	}
}

// TestRequestsSeenOfRepairs: a running repair has a request seen only by Fettle's own request about its
// target.
func TestRequestsSeenOfRepairs(t *testing.T) {
	n, p := aNode("n"), check("p", []int{0}, escalating)
	q := requestFor(p, n, rebooting)
	namesake := requestFor(p, n, rebooting, func(q *core.Request) { q.Target.UID = "another" })
	for name, c := range map[string]struct {
		repair  core.Repair
		request core.Request
		want    int
	}{
		"its own":            {repair(n, p), q, 1},
		"of its second step": {repair(n, p, gaveUp(noon)), requestFor(p, n, reprovisioning), 2},
		"of a step given up": {repair(n, p, gaveUp(noon)), q, 1},
		"of a namesake":      {repair(n, p), namesake, 0},
		"of another policy":  {repair(n, p), requestFor(check("q", []int{0}, escalating), n, rebooting), 0},
		"of an ended repair": {repair(n, p, ended(noon)), q, 0},
	} {
		var e core.Expectations
		f := clusterOf([]core.Target{n}, c.repair)
		f.Requests = []core.Request{c.request}
		e.Overlay(&f, noon)
		if f.Repairs[0].StepSeen != c.want {
			t.Errorf("%s: the request of step %d was seen, want %d", name, f.Repairs[0].StepSeen, c.want)
		}
		f.Requests = slices.DeleteFunc(f.Requests, func(q core.Request) bool { return q.Template != rebooting }) // an earlier step may last
		e.Overlay(&f, noon.Add(time.Second))
		if f.Repairs[0].StepSeen != c.want {
			t.Errorf("%s: once it is gone, the request of step %d was seen, want %d", name, f.Repairs[0].StepSeen, c.want)
		}
	}
}

// TestWorkersOfRepairs: a target of a running repair is a worker from when it was seen as one, until it
// is seen in the control plane.
func TestWorkersOfRepairs(t *testing.T) {
	a, b := machine("a"), machine("b")
	p := policy("p", all(2))
	r, s := repair(a, p), repair(b, p)
	var e core.Expectations
	for i, c := range []struct {
		targets []core.Target
		repairs []core.Repair
		want    map[core.ID]bool
	}{
		{[]core.Target{a, b}, nil, map[core.ID]bool{}},
		{[]core.Target{a, b}, []core.Repair{r}, map[core.ID]bool{a.ID: true}},
		{[]core.Target{a, b}, []core.Repair{r, s}, map[core.ID]bool{a.ID: true, b.ID: true}},
		{[]core.Target{b}, []core.Repair{r, s}, map[core.ID]bool{a.ID: true, b.ID: true}},
		{[]core.Target{machine("a", controlPlane), b}, []core.Repair{r, s}, map[core.ID]bool{b.ID: true}},
		{nil, []core.Repair{repair(b, p, ended(noon))}, map[core.ID]bool{}},
	} {
		f := clusterOf(c.targets, c.repairs...)
		e.Overlay(&f, noon)
		if diff := cmp.Diff(c.want, f.Workers); diff != "" {
			t.Errorf("snapshot %d: workers (-want +got):\n%s", i, diff)
		}
	}
}

// TestLostRepairThatNoCacheHasShown: an expected repair that a live read lacks is withdrawn, unless a cache shows it later.
func TestLostRepairThatNoCacheHasShown(t *testing.T) {
	x := machine("x", ready("False", ago(time.Hour)))
	r := repair(x, policy("p", []int{0}))
	var m core.Expectations
	key := core.RepairKey{Namespace: r.Namespace, Name: r.Name}
	if m.IsUnshown(key) {
		t.Error("a repair that nothing expects is unshown")
	}
	m.ExpectRepair(r, noon)
	if got := laid(&m, noon, []core.Target{x}).Repairs; !m.IsUnshown(key) || len(got) != 1 || !got[0].Running() {
		t.Fatalf("an expected repair is unshown: %t; repairs: %v", m.IsUnshown(key), got)
	}
	m.LoseRepair(key)
	if got := laid(&m, noon, []core.Target{x}).Repairs; m.IsUnshown(key) || len(got) != 1 || got[0].Outcome != core.Withdrawn {
		t.Errorf("a lost repair is unshown: %t; repairs: %v", m.IsUnshown(key), got)
	}
	if got := laid(&m, noon, []core.Target{x}, r).Repairs; len(got) != 1 || !got[0].Running() {
		t.Errorf("a lost repair that a cache shows: %v", got)
	}
}
