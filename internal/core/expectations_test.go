package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// laid returns a snapshot with the expectations in it.
func laid(m *core.Expectations, now time.Time, targets []core.Target, repairs ...core.Repair) core.Cluster {
	f := clusterOf(append([]core.Target(nil), targets...), append([]core.Repair(nil), repairs...)...)
	m.Overlay(&f, now)
	return f
}

func TestExpectedDeletions(t *testing.T) {
	var m core.Expectations
	x, y := machine("x"), machine("y")
	m.ExpectDeletion(x.ID)
	if f := laid(&m, noon, []core.Target{x, y}); !f.Targets[0].Deleting || f.Targets[1].Deleting {
		t.Errorf("deleting %v and %v, want x alone: its deletion was accepted", f.Targets[0].Deleting, f.Targets[1].Deleting)
	}
	namesake := machine("x", func(t *core.Target) { t.ID.UID = "another" })
	if f := laid(&m, noon, []core.Target{x, namesake}); !f.Targets[0].Deleting || f.Targets[1].Deleting {
		t.Error("a namesake of another UID is taken for the deleted one")
	}
	laid(&m, noon, []core.Target{machine("x", deleting)})
	if f := laid(&m, noon, []core.Target{x}); f.Targets[0].Deleting {
		t.Error("the deletion is remembered though the cache has shown it")
	}
	m.ExpectDeletion(x.ID)
	laid(&m, noon, []core.Target{y})
	if f := laid(&m, noon, []core.Target{x}); f.Targets[0].Deleting {
		t.Error("the deletion is remembered though the target was gone")
	}
}

func TestExpectedGoneNodes(t *testing.T) {
	unseen := machine("x", nodeIs(core.NodeUnseen))
	remembering := func() *core.Expectations {
		m := &core.Expectations{}
		m.KeepNodeGone(unseen.ID, unseen.Node.Name, noon)
		return m
	}
	m := remembering()
	for range 2 {
		if f := laid(m, noon, []core.Target{unseen}); f.Targets[0].Node.State != core.NodeGone {
			t.Errorf("the node is %v, want gone: a live read did not find it", f.Targets[0].Node.State)
		}
	}
	if f := laid(m, noon, []core.Target{machine("x")}); f.Targets[0].Node.State != core.NodePresent {
		t.Error("a node that the cache shows is taken for gone")
	}
	if f := laid(m, noon, []core.Target{unseen}); f.Targets[0].Node.State != core.NodeUnseen {
		t.Error("the node is remembered to be gone though it was seen since")
	}
	other := unseen
	other.Node.Name = "another"
	if f := laid(remembering(), noon, []core.Target{other}); f.Targets[0].Node.State != core.NodeUnseen {
		t.Error("a node of another name is taken for gone")
	}
}

func TestExpectedRepairs(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	running := repair(x, p)
	done := repair(x, p, ended(noon))
	tried := repair(x, p, attempts(2, noon))
	minute := noon.Add(time.Minute)
	type pass struct {
		now   time.Time
		shown []core.Repair
		want  []core.Repair
	}
	cases := map[string]struct {
		reason   string
		recorded []core.Repair
		passes   []pass
	}{
		"not shown yet":        {"the cache lags", []core.Repair{running}, []pass{{noon, nil, []core.Repair{running}}, {noon.Add(59 * time.Second), nil, []core.Repair{running}}}},
		"shown":                {"once, not twice", []core.Repair{running}, []pass{{noon, []core.Repair{running}, []core.Repair{running}}}},
		"an older version":     {"the cache lags", []core.Repair{running, tried}, []pass{{noon, []core.Repair{running}, []core.Repair{tried}}, {noon, []core.Repair{tried}, []core.Repair{tried}}}},
		"ended, shown running": {"the cache lags", []core.Repair{running, done}, []pass{{noon, []core.Repair{running}, []core.Repair{done}}}},
		"a newer version":      {"another leader wrote it", []core.Repair{running}, []pass{{noon, []core.Repair{tried}, []core.Repair{tried}}}},
		"finished and deleted": {"its back-off still counts", []core.Repair{running, done}, []pass{{noon, []core.Repair{done}, []core.Repair{done}}, {minute, nil, []core.Repair{done}}}},
		"no record":            {"what was never recorded is not remembered", nil, []pass{{noon, nil, nil}}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			var m core.Expectations
			for _, r := range c.recorded {
				m.ExpectRepair(r, noon)
			}
			for i, p := range c.passes {
				got := laid(&m, p.now, []core.Target{x}, p.shown...).Repairs
				if diff := cmp.Diff(p.want, got); diff != "" {
					t.Errorf("%s: pass %d (-want +got):\n%s", c.reason, i, diff)
				}
			}
		})
	}
}

// TestExpectationsGoByTheLatestVersion: the later version counts, whether its repair is further or not.
func TestExpectationsGoByTheLatestVersion(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	version := func(n uint64, changes ...func(*core.Repair)) core.Repair {
		return repair(x, p, append(changes, func(r *core.Repair) { r.Revision = n })...)
	}
	onStep := func(r *core.Repair) { r.Tried = []core.StepRecord{{Ended: noon, Outcome: core.Failed}} }
	answered := func(r *core.Repair) { r.Answer = "wait" }
	well := func(r *core.Repair) { r.Recovered = noon }
	tried := attempts(2, noon)
	cases := map[string]struct {
		reason       string
		ours, cached core.Repair
		want         core.Repair
	}{
		"the cache lags behind what was written": {"however long", version(7, answered), version(5, well), version(7, answered)},
		"it lags, and shows more steps":          {"a person has changed that, and it was written since", version(7), version(5, onStep), version(7)},
		"another client went further":            {"", version(5), version(7, onStep), version(7, onStep)},
		"another client went back":               {"it is theirs to do, and what is written next must be told of it", version(5, onStep), version(7), version(7)},
		"another client labelled it":             {"the next write must insist on that version", version(5, answered), version(7, answered), version(7, answered)},
		"refused calls, not recorded":            {"their pause holds, and the next write insists on what is there", version(5, tried), version(7), version(7, tried)},
		"refused calls of an earlier step":       {"they are over", version(5, tried), version(7, onStep), version(7, onStep)},
		"refused calls of an ended repair":       {"", version(5, tried), version(7, ended(noon)), version(7, ended(noon))},
		"a recovery that was written":            {"another client has found since that it was none", version(5, well), version(7), version(7)},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			var m core.Expectations
			m.ExpectRepair(c.ours, noon)
			c.want.RecordedElsewhere = len(c.want.Tried) != len(c.ours.Tried) // another process has recorded the current step
			for _, after := range []time.Duration{0, time.Second, time.Hour} {
				got := laid(&m, noon.Add(after), []core.Target{x}, c.cached).Repairs
				if diff := cmp.Diff([]core.Repair{c.want}, got); diff != "" {
					t.Errorf("%s: after %s (-want +got):\n%s", c.reason, after, diff)
				}
			}
		})
	}
}

// TestDeletedRunningRepairIsNotRunning: a user has deleted the object of a running repair. It has
// no place any more, but back-off still counts it (I6).
func TestDeletedRunningRepairIsNotRunning(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	var m core.Expectations
	laid(&m, noon, []core.Target{x}, repair(x, p, retry(3)))
	for _, later := range []time.Duration{time.Minute, 2 * time.Minute} {
		got := laid(&m, noon.Add(later), []core.Target{x}).Repairs
		want := []core.Repair{repair(x, p, retry(3), func(r *core.Repair) { r.Ended, r.Outcome = noon.Add(time.Minute), core.Withdrawn })}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("repairs (-want +got):\n%s", diff)
		}
	}
	if got := laid(&m, noon.Add(time.Hour), []core.Target{x}, repair(x, p)).Repairs; len(got) != 1 || !got[0].Running() {
		t.Errorf("repairs %v, want it running: the ledger shows it again", got)
	}
}

// TestRepairThatHasBegunRuns: a repair that has begun runs until its target is gone, even without
// its object. The node may look healthy meanwhile, and nothing else would keep the repair's place
// (I3).
func TestRepairThatHasBegunRuns(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	for name, seen := range map[string]bool{"seen and deleted": true, "never seen": false} {
		var m core.Expectations
		m.ExpectRepair(repair(x, p), noon)
		m.ExpectDeletion(x.ID)
		if seen {
			laid(&m, noon, []core.Target{x}, repair(x, p))
		}
		for _, later := range []time.Duration{time.Second, time.Minute, time.Hour} {
			f := laid(&m, noon.Add(later), []core.Target{x})
			if got := core.Decide([]core.Policy{p}, f, noon.Add(later)).Tallies[0].InFlight; got != 1 {
				t.Errorf("%s: %d in flight after %v, want 1", name, got, later)
			}
		}
		d := core.Decide([]core.Policy{p}, laid(&m, noon.Add(2*time.Hour), nil), noon.Add(2*time.Hour))
		if len(d.Finishes) != 1 || d.Finishes[0].Outcome != core.Succeeded {
			t.Errorf("%s: ends %v, want one, since its target is gone", name, d.Finishes)
		}
	}
}

// TestRepairThatIsNeverShownIsForgotten: a repair that the cache never shows is forgotten after a
// minute. If it exists, its name is taken, and no repair starts under it (I2). A name with a higher
// number would not be refused.
func TestRepairThatIsNeverShownIsForgotten(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	var m core.Expectations
	m.ExpectRepair(repair(x, p), noon)
	if got := laid(&m, noon.Add(time.Minute), []core.Target{x}).Repairs; len(got) > 0 {
		t.Errorf("repairs %v, want none", got)
	}
}

func TestExpectedCreatedSameSecond(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	var m core.Expectations
	r := repair(x, p)
	r.CreatedSameSecond = []string{"sibling"}
	m.ExpectRepair(r, noon)
	for range 2 {
		got := laid(&m, noon, []core.Target{x}, repair(x, p)).Repairs
		if diff := cmp.Diff([]core.Repair{r}, got); diff != "" {
			t.Errorf("the ledger doesn't keep contemporaries, so memory does (-want +got):\n%s", diff)
		}
	}
	m.ExpectRepair(repair(x, p, ended(noon)), noon)
	if got := laid(&m, noon, []core.Target{x}).Repairs; len(got) != 1 || len(got[0].CreatedSameSecond) != 1 {
		t.Errorf("repairs %v, want the ended one with its contemporaries", got)
	}
}

// TestNamesakeInTheLedger: a repair of the same name for another target is another repair.
func TestNamesakeInTheLedger(t *testing.T) {
	p := policy("p", []int{0})
	x, namesake := machine("x"), machine("x", func(t *core.Target) { t.ID.UID = "another" })
	var m core.Expectations
	m.ExpectRepair(repair(x, p, ended(noon)), noon)
	shown := repair(namesake, p, func(r *core.Repair) { r.Name, r.RecordedElsewhere = core.RepairName(x.ID, 1), true })
	if diff := cmp.Diff([]core.Repair{shown}, laid(&m, noon, []core.Target{namesake}, shown).Repairs); diff != "" {
		t.Errorf("repairs (-want +got):\n%s", diff)
	}
}

func TestDroppedRepairsAreForgotten(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	var m core.Expectations
	m.ExpectRepair(repair(x, p, ended(noon)), noon)
	m.ExpectRepairDeletion(repair(x, p, ended(noon)), noon)
	if got := laid(&m, noon, []core.Target{x}).Repairs; len(got) > 0 {
		t.Errorf("repairs %v, want none", got)
	}
}

// TestDeletedRepairStaysHidden: Fettle has deleted a finished repair, and the cache lags. An old
// version that still runs would begin a step without a record.
func TestDeletedRepairStaysHidden(t *testing.T) {
	x, p := machine("x", dead), policy("p", []int{0})
	of := func(uid string, revision uint64, changes ...func(*core.Repair)) core.Repair {
		return repair(x, p, append(changes, func(r *core.Repair) { r.UID, r.Revision = uid, revision })...)
	}
	running, done := of("one", 5), of("one", 7, ended(ago(time.Second)))
	labelled, kept := of("one", 6), of("one", 9, ended(ago(time.Second)))
	again := of("two", 3) // revisions start again when a cluster is restored
	for name, c := range map[string]struct {
		shown []core.Repair
		want  int
	}{
		"an old version, which runs":       {[]core.Repair{running}, 0},
		"another old version":              {[]core.Repair{labelled}, 0},
		"the version that was deleted":     {[]core.Repair{done}, 0},
		"nothing":                          {nil, 0},
		"a later one, which is being kept": {[]core.Repair{kept}, 1},
		"another of its name":              {[]core.Repair{again}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var m core.Expectations
			m.ExpectRepair(running, ago(time.Minute))
			m.ExpectRepair(done, ago(time.Second))
			m.ExpectRepairDeletion(done, noon)
			for _, after := range []time.Duration{0, time.Second, time.Hour} {
				f := laid(&m, noon.Add(after), []core.Target{x}, c.shown...)
				if len(f.Repairs) != c.want {
					t.Errorf("after %s there are %d repairs, want %d", after, len(f.Repairs), c.want)
				}
				if d := core.Decide([]core.Policy{p}, f, noon.Add(after)); c.want == 0 && len(d.StepStarts) > 0 {
					t.Errorf("after %s a step is taken for a repair that has no record", after)
				}
			}
		})
	}
}

// TestHiddenUntilTheCacheAgrees: the cache has shown that a repair is gone, or that a finalizer
// keeps it. Later versions of it are shown then.
func TestHiddenUntilTheCacheAgrees(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	done := func(revision uint64) core.Repair {
		return repair(x, p, ended(noon), func(r *core.Repair) { r.UID, r.Revision = "one", revision })
	}
	var gone, kept core.Expectations
	for _, m := range []*core.Expectations{&gone, &kept} {
		laid(m, noon, []core.Target{x}, done(7))
		m.ExpectRepairDeletion(done(7), noon)
	}
	laid(&gone, noon, []core.Target{x})
	if got := laid(&gone, noon, []core.Target{x}, done(7)).Repairs; len(got) != 1 {
		t.Error("a restored repair is hidden though the cache has shown that the one before was gone")
	}
	laid(&kept, noon, []core.Target{x}, done(8))
	kept.ExpectRepairDeletion(done(8), noon)
	for range 2 {
		if got := laid(&kept, noon, []core.Target{x}, done(8)).Repairs; len(got) != 1 {
			t.Error("a repair that a finalizer keeps is hidden, and its name would be taken for free")
		}
	}
}

// TestNextRepairBesideADeletedOne: the next repair of a target may have the name of a repair that
// Fettle has deleted.
func TestNextRepairBesideADeletedOne(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0})
	old := repair(x, p, ended(noon), func(r *core.Repair) { r.UID, r.Revision = "one", 7 })
	next := repair(x, p, func(r *core.Repair) { r.UID, r.Revision = "two", 9 })
	var m core.Expectations
	laid(&m, noon, []core.Target{x}, old)
	m.ExpectRepairDeletion(old, noon)
	m.ExpectRepair(next, noon)
	for _, shown := range [][]core.Repair{{old}, nil, {next}} {
		if diff := cmp.Diff([]core.Repair{next}, laid(&m, noon, []core.Target{x}, shown...).Repairs); diff != "" {
			t.Errorf("repairs (-want +got):\n%s", diff)
		}
	}
}

func TestUnobservedClusterHasNoOverlay(t *testing.T) {
	var m core.Expectations
	x := machine("x")
	m.ExpectDeletion(x.ID)
	m.ExpectRepair(repair(x, policy("p", nil)), noon)
	f := core.Cluster{}
	m.Overlay(&f, noon)
	if diff := cmp.Diff(core.Cluster{}, f); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if f := laid(&m, noon, []core.Target{x}); !f.Targets[0].Deleting || len(f.Repairs) != 1 {
		t.Error("a pass that could not observe the cluster has made it forget")
	}
}

// TestExpectationsEndInTime: where an expectation expires, a pass runs at that time. No event may
// follow.
func TestExpectationsEndInTime(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0}, needsNoOwner)
	running, well := repair(x, p), repair(x, p, recovered(noon))
	for name, c := range map[string]struct {
		recorded core.Repair
		shown    []core.Repair
		until    time.Duration
	}{
		"a repair that is not shown yet":         {running, nil, time.Minute},
		"a repair that is shown":                 {running, []core.Repair{running}, 0},
		"a recovery that is not shown yet":       {well, []core.Repair{running}, 10 * time.Second},
		"an end that is not shown yet":           {repair(x, p, ended(noon)), []core.Repair{running}, 0},
		"a repair that ended and is not shown":   {repair(x, p, ended(noon)), nil, 0},
		"a version that the cache does not show": {repair(x, p, recovered(noon), func(r *core.Repair) { r.Revision = 2 }), []core.Repair{running}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var m core.Expectations
			m.ExpectRepair(c.recorded, noon)
			var want time.Time
			if c.until > 0 {
				want = noon.Add(c.until)
			}
			at := noon.Add(time.Second)
			if got := laid(&m, at, []core.Target{x}, c.shown...).ExpectedUntil; !got.Equal(want) {
				t.Errorf("what is remembered ends at %s, want %s", got, want)
			}
			if got := laid(&m, noon.Add(c.until+time.Second), []core.Target{x}, c.shown...).ExpectedUntil; c.until > 0 && !got.IsZero() {
				t.Errorf("it ends again at %s", got)
			}
		})
	}
}

// TestExpectedCooldowns: the cooldown runs from when the short circuit permitted repairs again. A
// new process, which does not know that time, starts it again (I6).
func TestExpectedCooldowns(t *testing.T) {
	var m core.Expectations
	p := policy("p", []int{0}, func(p *core.Policy) { p.WasStopped, p.StormCooldown = true, 5*time.Second })
	look := func(m *core.Expectations, after time.Duration) core.Tally {
		policies := []core.Policy{p, policy("calm", nil)}
		m.OverlayPolicies(policies)
		d := core.Decide(policies, clusterOf([]core.Target{machine("m", dead)}), noon.Add(after))
		m.KeepCooldowns(policies, d.Tallies)
		return d.Tallies[0]
	}
	for _, c := range []struct {
		after   time.Duration
		cooling bool
	}{{0, true}, {4 * time.Second, true}, {5 * time.Second, false}} {
		if got := look(&m, c.after); got.CoolingDown != c.cooling || !got.ResumeAt.Equal(noon.Add(5*time.Second)) {
			t.Errorf("after %v: cooling down %v until %v, want %v until 12:00:05", c.after, got.CoolingDown, got.ResumeAt, c.cooling)
		}
	}
	if got := look(&core.Expectations{}, 4*time.Second); !got.ResumeAt.Equal(noon.Add(9 * time.Second)) {
		t.Errorf("without memory repairs resume at %v, want a cooldown from now", got.ResumeAt)
	}
}

// TestWithdrawalIsRemembered: the repair of a recovered target has done something, though the
// ledger does not show it.
func TestWithdrawalIsRemembered(t *testing.T) {
	var m core.Expectations
	x, p := machine("x"), policy("p", []int{0}, asksOwner)
	laid(&m, noon, []core.Target{x}, repair(x, p))
	q := markOn(x, ago(time.Minute))
	m.ExpectWithdrawal(q, noon)
	if got := laid(&m, noon, []core.Target{x}, repair(x, p)).Repairs; !got[0].Recovered.IsZero() {
		t.Error("its health check is gone, and that is taken for a recovery")
	}
	q.TargetHealthy = true
	m.ExpectWithdrawal(q, noon)
	if got := laid(&m, noon, []core.Target{x}, repair(x, p)).Repairs; !got[0].Recovered.Equal(noon) {
		t.Errorf("it recovered at %s", got[0].Recovered)
	}
	labelled := repair(x, p, func(r *core.Repair) { r.Revision = 7 })
	for range 2 {
		if got := laid(&m, noon, []core.Target{x}, labelled).Repairs; !got[0].Recovered.Equal(noon) || got[0].Revision != 7 {
			t.Errorf("once another client has labelled it, it recovered at %s, in revision %d", got[0].Recovered, got[0].Revision)
		}
	}
	for _, later := range []time.Duration{10 * time.Second, time.Hour} {
		if got := laid(&m, noon.Add(later), []core.Target{x}, repair(x, p)).Repairs; !got[0].Recovered.Equal(noon) {
			t.Errorf("after %s in which the ledger could not be told, it recovered at %s", later, got[0].Recovered)
		}
	}
	m.ExpectRepair(repair(x, p), noon.Add(time.Hour))
	if got := laid(&m, noon.Add(time.Hour), []core.Target{x}, repair(x, p)).Repairs; !got[0].Recovered.IsZero() {
		t.Error("that it is not healthy after all was recorded, and is forgotten")
	}
	var lost core.Expectations
	lost.ExpectRepair(repair(x, p, func(r *core.Repair) { r.Recovered = noon }), noon)
	laid(&lost, noon, []core.Target{x}, repair(x, p))
	if got := laid(&lost, noon, []core.Target{x}).Repairs; len(got) != 1 || got[0].Outcome != core.Succeeded {
		t.Errorf("a user deletes its object, and it is remembered as %+v", got)
	}
}

// TestWhatAnotherLeaderTookBack: a repair whose mark or object was seen has done something, even if
// another leader has withdrawn that. A repair without either has done nothing.
func TestWhatAnotherLeaderTookBack(t *testing.T) {
	x, p := machine("x"), policy("p", []int{0}, asksOwner)
	ours, other := markOn(x, ago(time.Minute)), markOn(machine("y"), ago(time.Minute))
	notFettles := markOn(x, ago(time.Minute), foreign)
	for name, c := range map[string]struct {
		seen []core.Request
		want core.Outcome
	}{
		"its mark was seen":                     {[]core.Request{ours}, core.Succeeded},
		"the mark of another machine was seen":  {[]core.Request{other}, core.Recovered},
		"a foreign request was seen":            {[]core.Request{notFettles}, core.Recovered},
		"a request by another remedy was seen":  {[]core.Request{requestFor(p, x, rebooting)}, core.Recovered},
		"nothing was seen since the last start": {nil, core.Recovered},
	} {
		var m core.Expectations
		asking := clusterOf([]core.Target{machine("x", dead)}, repair(x, p))
		asking.Requests = c.seen
		m.Overlay(&asking, noon)
		labelled := repair(x, p, func(r *core.Repair) { r.Revision = 7 })
		for i, r := range []core.Repair{repair(x, p), labelled} {
			d := core.Decide([]core.Policy{p}, laid(&m, noon, []core.Target{x}, r), noon)
			if len(d.Finishes) != 1 || d.Finishes[0].Outcome != c.want {
				t.Errorf("%s: when its mark is gone and it is healthy, version %d of its repair ends as %+v, want %s", name, i, d.Finishes, c.want)
			}
		}
	}
}

// TestI10ForeignRequestsAreNotThoseThatWereMade: a foreign request that looks like Fettle's own new
// request does not replace it.
func TestI10ForeignRequestsAreNotThoseThatWereMade(t *testing.T) {
	n, p := aNode("n", dead), check("p", []int{0}, classic)
	made := requestFor(p, n, rebooting, func(q *core.Request) { q.ID.UID = "" })
	for sentence, shown := range map[string]struct {
		request core.Request
		want    int
	}{
		"it is shown":           {requestFor(p, n, rebooting), 1},
		"another's is shown":    {requestFor(p, n, rebooting, foreign), 2},
		"another step is shown": {requestFor(p, n, reprovisioning), 2},
	} {
		var m core.Expectations
		m.ExpectRequest(made, noon)
		f := with([]core.Target{n}, nil, shown.request)
		f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
		m.Overlay(&f, noon)
		if len(f.Requests) != shown.want {
			t.Errorf("%s: there are %+v", sentence, f.Requests)
		}
	}
}

// TestNodeThatIsCutIsReadAgain: a live read of a node does not count any more once a part of the
// node can't be read.
func TestNodeThatIsCutIsReadAgain(t *testing.T) {
	var m core.Expectations
	x := machine("x", dead)
	m.KeepNodeRead(x.ID, x.Node, noon)
	if got := laid(&m, noon, []core.Target{x}).Targets[0]; !got.NodeReadAt.Equal(noon) {
		t.Errorf("a node that has not changed was read at %s", got.NodeReadAt)
	}
	x.NodeReadAt = time.Time{}
	cut(&x)
	if got := laid(&m, noon, []core.Target{x}).Targets[0]; !got.NodeReadAt.IsZero() {
		t.Errorf("it was read at %s", got.NodeReadAt)
	}
}

// TestRequestThatIsNeverShownIsForgotten: a request that the cache never shows is forgotten after a
// minute. It was not created, or is gone, and may be created again.
func TestRequestThatIsNeverShownIsForgotten(t *testing.T) {
	n, p := aNode("n", dead), check("p", []int{0}, classic)
	var m core.Expectations
	m.ExpectRequest(requestFor(p, n, rebooting, func(q *core.Request) { q.ID.UID = "" }), noon)
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Minute - time.Millisecond, 1}, {time.Minute, 0}, {time.Second, 0}} {
		if f := laid(&m, noon.Add(c.after), []core.Target{n}); len(f.Requests) != c.want {
			t.Errorf("after %s there are %d requests, want %d", c.after, len(f.Requests), c.want)
		}
	}
}

// TestReadAheadExpires: a live read of a node counts for ten seconds, even if nothing changes.
func TestReadAheadExpires(t *testing.T) {
	x := machine("x", dead, readAt(time.Time{}))
	var m core.Expectations
	m.KeepNodeRead(x.ID, x.Node, noon)
	for _, c := range []struct {
		after time.Duration
		want  time.Time
	}{{0, noon}, {10*time.Second - time.Millisecond, noon}, {10 * time.Second, time.Time{}}, {time.Second, time.Time{}}} {
		if got := laid(&m, noon.Add(c.after), []core.Target{x}).Targets[0].NodeReadAt; !got.Equal(c.want) {
			t.Errorf("after %s the node was read at %s, want %s", c.after, got, c.want)
		}
	}
}

// TestI1ReadAheadCountsWhileTheCacheSaysTheSame: the cache must agree in the labels and annotations
// of the node too.
func TestI1ReadAheadCountsWhileTheCacheSaysTheSame(t *testing.T) {
	for name, change := range map[string]func(*core.Node){
		"nothing":          func(*core.Node) {},
		"excluded":         func(n *core.Node) { n.Excluded = true },
		"upgrading":        func(n *core.Node) { n.Upgrading = true },
		"of control plane": func(n *core.Node) { n.ControlPlane = true },
	} {
		var m core.Expectations
		x := machine("x", dead, readAt(time.Time{}))
		live := x.Node
		change(&live)
		m.KeepNodeRead(x.ID, live, noon)
		if got := laid(&m, noon, []core.Target{x}).Targets[0].NodeReadAt; got.Equal(noon) != (name == "nothing") {
			t.Errorf("%s is new in the live read, and the node was read at %s", name, got)
		}
	}
}
