package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestCurrentHolder: a former name gets the prefix, and a present one has it already.
func TestCurrentHolder(t *testing.T) {
	present := core.HolderOf(core.ID{Kind: "Check", Name: "p"})
	former := core.FormerHolderOf(core.ID{Kind: "Check", Name: "p"})
	if former != "Check-p" || present != "fettle.io/Check-p" || core.CurrentHolder(former) != present || core.CurrentHolder(present) != present {
		t.Errorf("the former name is %s, the present one %s", former, present)
	}
}

// TestIdleLeases: leases are released in the order of their nodes, and not while a node is busy by any
// of its names.
func TestIdleLeases(t *testing.T) {
	holder := func(p *core.Policy) { p.Holder = "p" }
	p := check("p", []int{0}, classic, holder)
	m := machine("m", func(t *core.Target) { t.Node.Name = "n" })
	sick := machine("m", dead, func(t *core.Target) { t.Node.Name = "n" })
	leases := func(f core.Cluster, nodes ...string) core.Cluster {
		f.Observed, f.ClockAgrees = core.Yes, core.Yes
		for _, n := range nodes {
			f.Leases = append(f.Leases, core.NodeLease{Node: n, Holder: "p", Renewed: ago(time.Hour)})
		}
		return f
	}
	unobserved := leases(with(nil, nil), "a")
	unobserved.Observed = core.Unknown
	wrongClock := leases(with(nil, nil), "a")
	wrongClock.ClockAgrees = core.No
	running := repair(sick, p)
	gone := running
	ofNode := repair(aNode("n"), p)
	ofNode.Node = ""
	unselected := repair(m, p, ended(ago(time.Hour)))
	unselected.Node = "n"
	leaves := m
	leaves.Deleting = true
	gone.Node = "former"
	for name, c := range map[string]struct {
		world core.Cluster
		want  []string
	}{
		"several":                          {leases(with(nil, nil), "c", "a", "b"), []string{"a", "b", "c"}},
		"an unobserved cluster":            {unobserved, nil},
		"a wrong clock":                    {wrongClock, nil},
		"the node of a repair":             {leases(with([]core.Target{m}, []core.Repair{running}), "n"), nil},
		"the recorded node of a repair":    {leases(with(nil, []core.Repair{gone}), "former", "m", "other"), []string{"m", "other"}},
		"the node of a machine that goes":  {leases(with([]core.Target{leaves}, nil), "n", "o"), []string{"o"}},
		"the name of a node in repair":     {leases(with(nil, []core.Repair{ofNode}), "n", "o"), []string{"o"}},
		"the node of a machine unselected": {leases(with(nil, []core.Repair{unselected}, requestFor(p, m, rebooting)), "n", "o"), []string{"o"}},
		"the node of a start":              {leases(with([]core.Target{sick}, nil), "n"), nil},
		"the node of a request's machine":  {leases(with([]core.Target{m}, nil, requestFor(p, m, rebooting)), "n"), nil},
		"the node of a request":            {leases(with(nil, nil, requestFor(p, aNode("n"), rebooting, foreign)), "n", "o"), []string{"o"}},
	} {
		var got []string
		for _, l := range core.Decide([]core.Policy{p}, c.world, noon).LeaseReleases {
			got = append(got, l.Node)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: released (-want +got):\n%s", name, diff)
		}
	}
	dry, ofNone := check("q", nil, classic, dryRun), core.Repair{Policy: p.ID, Ended: noon}
	f := leases(with(nil, []core.Repair{ofNone}))
	f.Leases = []core.NodeLease{{Node: "a", Renewed: ago(time.Hour)}}
	if d := core.Decide([]core.Policy{dry}, f, noon); len(d.LeaseReleases) > 0 {
		t.Errorf("a lease without a holder is released: %v", d.LeaseReleases)
	}
}

// TestUnansweredUntil: a remedy may have done something that no cache shows for a minute after a call that failed, and for a
// minute after another process has recorded the step.
func TestUnansweredUntil(t *testing.T) {
	began, failed := ago(2*time.Minute), ago(time.Minute)
	attempt := func(r *core.Repair) { r.Attempts, r.LastAttempt = 1, failed }
	elsewhere := func(r *core.Repair) { r.RecordedElsewhere = true }
	seen := func(r *core.Repair) { r.StepSeen = len(r.Tried) + 1 }
	asks := func(r *core.Repair) { r.Steps = []core.Step{ask(rebooting, 0)} }
	deletes := func(r *core.Repair) { r.Steps = []core.Step{{Remedy: "Delete"}} }
	secondStep := func(r *core.Repair) { r.Tried = []core.StepRecord{{Ended: failed}} }
	for name, c := range map[string]struct {
		changes []func(*core.Repair)
		want    time.Time
	}{
		"no call has failed":     {nil, time.Time{}},
		"a call has failed":      {[]func(*core.Repair){attempt}, failed.Add(time.Minute)},
		"recorded elsewhere":     {[]func(*core.Repair){elsewhere}, began.Add(time.Minute)},
		"both":                   {[]func(*core.Repair){elsewhere, attempt}, failed.Add(time.Minute)},
		"its request was seen":   {[]func(*core.Repair){elsewhere, seen}, time.Time{}},
		"its second step began":  {[]func(*core.Repair){elsewhere, secondStep}, failed.Add(time.Minute)},
		"and its request was":    {[]func(*core.Repair){elsewhere, secondStep, seen}, time.Time{}},
		"its first was given up": {[]func(*core.Repair){secondStep}, failed.Add(time.Minute)},
		"it makes a request":     {[]func(*core.Repair){asks}, began.Add(time.Minute)},
		"it deletes":             {[]func(*core.Repair){deletes}, time.Time{}},
		"and that was seen":      {[]func(*core.Repair){asks, seen}, time.Time{}},
		"and was seen":           {[]func(*core.Repair){seen, secondStep}, time.Time{}},
		"only the first was":     {[]func(*core.Repair){elsewhere, seen, secondStep}, failed.Add(time.Minute)},
	} {
		r := core.Repair{Started: began}
		for _, change := range c.changes {
			change(&r)
		}
		if got := r.UnansweredUntil(); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestKeepsLeaseUntil: the lease of a node stays for a minute after its renewal where another process may have taken the
// step, and where no cache has shown its request.
func TestKeepsLeaseUntil(t *testing.T) {
	began, renewed := ago(10*time.Minute), ago(30*time.Second)
	asks := func(r *core.Repair) { r.Steps = []core.Step{ask(rebooting, 0)} }
	deletes := func(r *core.Repair) { r.Steps = []core.Step{{Remedy: "Delete"}} }
	elsewhere := func(r *core.Repair) { r.RecordedElsewhere = true }
	seen := func(r *core.Repair) { r.StepSeen = 1 }
	attempt := func(r *core.Repair) { r.Attempts, r.LastAttempt = 1, noon }
	for name, c := range map[string]struct {
		changes []func(*core.Repair)
		renewed time.Time
		want    time.Time
	}{
		"its request is unseen":       {[]func(*core.Repair){asks}, renewed, renewed.Add(time.Minute)},
		"its request was seen":        {[]func(*core.Repair){asks, seen}, renewed, time.Time{}},
		"it was not renewed since":    {[]func(*core.Repair){asks}, ago(time.Hour), began.Add(time.Minute)},
		"nothing is known of a lease": {[]func(*core.Repair){asks}, time.Time{}, began.Add(time.Minute)},
		"its last call has failed":    {[]func(*core.Repair){asks, attempt}, renewed, noon.Add(time.Minute)},
		"this process has deleted":    {[]func(*core.Repair){deletes}, renewed, time.Time{}},
		"another one may have":        {[]func(*core.Repair){deletes, elsewhere}, renewed, renewed.Add(time.Minute)},
	} {
		r := core.Repair{Started: began}
		for _, change := range c.changes {
			change(&r)
		}
		if got := r.KeepsLeaseUntil(c.renewed); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
