package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// TestLeaseOfAnUnseenRequest: a request was made a moment ago, and its repair was deleted since. The request explains the lease of the
// node, whatever a cache that lags shows of it, and whatever the node's machine is called.
func TestLeaseOfAnUnseenRequest(t *testing.T) {
	p := check("p", []int{0}, classic, func(p *core.Policy) { p.Holder, p.Paused = "p", true })
	m := machine("m", dead)
	m.Node.Name = "n"
	made := requestFor(p, m, rebooting, func(q *core.Request) { q.ID = core.ID{} })
	before := requestFor(p, m, rebooting, func(q *core.Request) { q.ID.UID = "before" })
	gone := requestFor(p, m, rebooting, leaving, func(q *core.Request) { q.ID.UID = "before" })
	for name, c := range map[string]struct {
		expect   func(*core.Expectations)
		shown    []core.Request
		after    time.Duration
		releases int
	}{
		"nothing is shown":               {func(*core.Expectations) {}, nil, time.Second, 0},
		"an earlier one is shown":        {func(*core.Expectations) {}, []core.Request{gone}, time.Second, 0},
		"Fettle withdrew an earlier one": {func(m *core.Expectations) { m.ExpectWithdrawal(before, noon) }, []core.Request{before}, time.Second, 0},
		"it is not believed in any more": {func(*core.Expectations) {}, nil, time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var expectations core.Expectations
			expectations.ExpectRequest(made, noon)
			c.expect(&expectations)
			for _, shown := range [][]core.Request{c.shown, nil} { // the cache shows the end of the earlier one before the new one
				f := with([]core.Target{m}, nil, shown...)
				f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
				f.Leases = []core.NodeLease{{Node: "n", Holder: "p", Renewed: ago(time.Hour)}}
				expectations.Overlay(&f, noon.Add(c.after))
				if d := core.Decide([]core.Policy{p}, f, noon.Add(c.after)); len(d.LeaseReleases) != c.releases {
					t.Errorf("it releases %v, want %d", d.LeaseReleases, c.releases)
				}
			}
		})
	}
}

// laggingCaches is a cluster of one node whose caches lag by less than a minute, each on its own, and one process of Fettle.
type laggingCaches struct {
	*rapid.T

	now          time.Time
	sick         bool
	node         core.Target
	policy       core.Policy
	expectations core.Expectations
	revision     uint64
	repairs      lagging[core.Repair]
	requests     lagging[core.Request]
	leases       []core.NodeLease
	// deleted are the UIDs of the repairs that Fettle has deleted.
	deleted map[string]bool
}

// lagging has the versions of a list, and the version that the cache shows. The last is the truth.
type lagging[T any] struct {
	versions [][]T
	since    []time.Time
	shown    int
}

func (l *lagging[T]) truth() []T {
	if len(l.versions) == 0 {
		return nil
	}
	return l.versions[len(l.versions)-1]
}

// write changes the truth.
func (l *lagging[T]) write(now time.Time, items []T) {
	if len(l.versions) == 0 {
		l.versions, l.since = [][]T{nil}, []time.Time{now}
	}
	l.versions, l.since = append(l.versions, items), append(l.since, now)
}

// cached returns what the cache shows, which is no older than 50 seconds.
func (l *lagging[T]) cached(t *rapid.T, now time.Time) []T {
	if len(l.versions) == 0 {
		return nil
	}
	for l.shown+1 < len(l.versions) && now.Sub(l.since[l.shown+1]) > 50*time.Second {
		l.shown++
	}
	if !rapid.Bool().Draw(t, "lags") {
		l.shown = rapid.IntRange(l.shown, len(l.versions)-1).Draw(t, "shown")
	}
	return slices.Clone(l.versions[l.shown])
}

func (w *laggingCaches) next() uint64 {
	w.revision++
	return w.revision
}

// pass does what a pass does of what is expected.
func (w *laggingCaches) pass() {
	w.node = machine("m")
	if w.sick {
		dead(&w.node)
	}
	w.node.Node.Name, w.node.Owner, w.node.NodeReadAt = "n", core.ID{}, w.now
	f := clusterOf([]core.Target{w.node}, w.repairs.cached(w.T, w.now)...)
	f.Upgrading, f.Requests, f.Leases = core.No, w.requests.cached(w.T, w.now), slices.Clone(w.leases)
	policies := []core.Policy{w.policy}
	w.expectations.Overlay(&f, w.now)
	d := core.Decide(policies, f, w.now)
	for _, s := range d.Starts {
		w.start(s)
	}
	for _, a := range d.StepStarts {
		r := f.Repairs[a.Repair]
		if w.deleted[r.UID] {
			w.Fatalf("a step is taken of %s, the record of which Fettle has deleted", r.Name)
		}
		w.ask()
	}
	for _, x := range d.Withdrawals {
		q := f.Requests[x.Request]
		w.requests.write(w.now, slices.DeleteFunc(slices.Clone(w.requests.truth()), func(r core.Request) bool { return r.ID.UID == q.ID.UID }))
		w.expectations.ExpectWithdrawal(q, w.now)
	}
	for _, e := range d.Finishes {
		w.end(f.Repairs[e.Repair], e.Outcome)
	}
	w.release(d.LeaseReleases)
	expired, _ := core.Retention{For: time.Second}.Expired(&f, d.Verdicts, w.now)
	for _, i := range expired {
		w.prune(f.Repairs[i])
	}
	w.wakes(d, &f)
}

func (w *laggingCaches) start(s core.Start) {
	truth := w.repairs.truth()
	if slices.ContainsFunc(truth, func(r core.Repair) bool { return r.Name == s.Name }) {
		return
	}
	r := repair(w.node, w.policy, started(w.now))
	r.Name, r.UID, r.Revision, r.Holder, r.Node = s.Name, fmt.Sprint("repair ", w.revision), w.next(), w.policy.Holder, w.node.Node.Name
	w.repairs.write(w.now, append(slices.Clone(truth), r))
	w.expectations.ExpectRepair(r, w.now)
	w.ask()
}

// ask takes the lease and makes the request, unless another holder has the lease. A request that stands counts as made.
func (w *laggingCaches) ask() {
	w.leases = []core.NodeLease{{Node: w.node.Node.Name, Holder: w.policy.Holder, Renewed: w.now}}
	if rapid.Bool().Draw(w.T, "busy") {
		return
	}
	q := requestFor(w.policy, w.node, rebooting, requestedAt(w.now), func(q *core.Request) { q.ID.UID = fmt.Sprint("request ", w.next()) })
	if truth := w.requests.truth(); len(truth) == 0 {
		w.requests.write(w.now, []core.Request{q})
	}
	q.ID = core.ID{}
	w.expectations.ExpectRequest(q, w.now)
}

func (w *laggingCaches) end(r core.Repair, outcome core.Outcome) {
	truth := slices.Clone(w.repairs.truth())
	at := slices.IndexFunc(truth, func(of core.Repair) bool { return of.Name == r.Name })
	if at >= 0 && truth[at].Revision != r.Revision {
		return
	}
	r.Ended, r.Outcome = w.now, outcome
	if at >= 0 {
		r.Revision = w.next()
		truth[at] = r.ToWrite()
		w.repairs.write(w.now, truth)
	}
	w.expectations.ExpectRepair(r, w.now)
	w.leases = nil
}

func (w *laggingCaches) prune(r core.Repair) {
	kept := slices.DeleteFunc(slices.Clone(w.repairs.truth()), func(of core.Repair) bool { return of.UID == r.UID && of.Revision == r.Revision })
	if slices.ContainsFunc(kept, func(of core.Repair) bool { return of.UID == r.UID }) {
		return
	}
	w.repairs.write(w.now, kept)
	w.expectations.ExpectRepairDeletion(r, w.now)
	w.deleted[r.UID] = true
}

func (w *laggingCaches) release(leases []core.NodeLease) {
	if len(leases) == 0 {
		return
	}
	if stands := w.requests.truth(); len(stands) > 0 {
		w.Fatalf("the lease is given back, and %s explains it", stands[0].ID.UID)
	}
	if slices.ContainsFunc(w.repairs.truth(), func(r core.Repair) bool { return r.Running() }) {
		w.Fatal("the lease is given back, and a repair that runs explains it")
	}
	w.leases = nil
}

// wakes checks that the next pass is due when an expectation ends at the latest.
func (w *laggingCaches) wakes(d core.Decision, f *core.Cluster) {
	for i := range f.Requests {
		if q := &f.Requests[i]; q.ID.UID == "" && (d.NextAt.IsZero() || d.NextAt.After(q.Created.Add(time.Minute))) {
			w.Fatalf("a request of %s is not shown, and the next pass is due at %s", q.Created, d.NextAt)
		}
	}
}

// TestExpectationsOfLaggingCaches: users delete objects, and caches lag. No step is taken without a record. No lease
// is released that a request or a repair explains. No expectation outlives its time unnoticed.
func TestExpectationsOfLaggingCaches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &laggingCaches{T: t, now: noon, sick: true, deleted: map[string]bool{}}
		w.policy = check("p", []int{0}, classic, func(p *core.Policy) { p.Holder = core.HolderOf(core.ID{Kind: "NodeCheck", Name: "p"}) })
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1, 2:
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			case 3, 4:
				w.sick = !w.sick
			case 5:
				w.repairs.write(w.now, nil)
			case 6:
				w.requests.write(w.now, nil)
				w.policy.Paused = !w.policy.Paused
			}
			w.pass()
		}
	})
}
