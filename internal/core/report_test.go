package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestReportOfExhausted: a repair that has no step left is not told as going on.
func TestReportOfExhausted(t *testing.T) {
	limited := func(p *core.Policy) { p.Steps[0].Limit = time.Minute }
	p := check("p", []int{0}, limited)
	f := with([]core.Target{aNode("a", dead)}, []core.Repair{repair(aNode("a"), p, started(ago(time.Hour)), gaveUp(ago(time.Minute)))})
	f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
	d := core.Decide([]core.Policy{p}, f, noon)
	reports := d.Reports([]core.Policy{p}, &f)
	want := "is unhealthy (UnhealthyCondition) and held back by LadderExhausted"
	if got := reports[0].Concerns; len(got) != 1 || got[0].Text != want {
		t.Errorf("it is told as %+v, want %q", got, want)
	}
	if text := d.Refusals[0].Text(); !strings.HasPrefix(text, "the only step of its repair was tried to no avail") {
		t.Errorf("the gate says %q", text)
	}
}

// TestReportOfUpgrades: a report says why an upgrade is waited for, where that is known.
func TestReportOfUpgrades(t *testing.T) {
	p := policy("workers", []int{0}, func(p *core.Policy) { p.WaitsForUpgrades = true })
	for why, want := range map[string]string{
		"":           "is unhealthy (UnhealthyCondition) and held back by ClusterUpgrading",
		"it says so": "is unhealthy (UnhealthyCondition) and held back by ClusterUpgrading (it says so)",
	} {
		f := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.Yes, UpgradingWhy: why, Targets: []core.Target{machine("a", dead)}}
		d := core.Decide([]core.Policy{p}, f, noon)
		if got := d.Reports([]core.Policy{p}, &f)[0].Concerns; len(got) != 1 || got[0].Text != want {
			t.Errorf("it is told as %+v, want %q", got, want)
		}
	}
}

// TestReports: a policy's report names some of those who are not healthy, and how they stand.
func TestReports(t *testing.T) {
	deleting := func(t *core.Target) { t.Deleting = true }
	orphan := func(t *core.Target) { t.Owner = core.ID{} }
	unseen := func(t *core.Target) { t.Node.State = core.NodeUnseen }
	suspect := ready("False", ago(time.Minute))
	begun := machine("begun", dead, deleting)
	repair := core.Repair{Namespace: "machines", Name: core.RepairName(begun.ID, 1), Target: begun.ID, Policy: policy("workers", nil).ID, Owner: pool, Started: noon, Steps: policy("workers", nil).Steps}
	cases := map[string]struct {
		targets []core.Target
		most    int
		want    []string
	}{
		"all well":          {[]core.Target{machine("a"), machine("b")}, 1, nil},
		"one is repaired":   {[]core.Target{machine("a"), machine("b", dead)}, 1, []string{"b is being repaired"}},
		"one is already":    {[]core.Target{begun, machine("b")}, 1, []string{"begun is being repaired"}},
		"a user's doing":    {[]core.Target{machine("a", dead, deleting)}, 1, []string{"a is being deleted"}},
		"one has its turn":  {[]core.Target{machine("a", dead), machine("b", dead)}, 1, []string{"a is being repaired", "b is unhealthy (UnhealthyCondition) and held back by InFlightLimit"}},
		"no owner":          {[]core.Target{machine("a", dead, orphan)}, 1, []string{"a is unhealthy (UnhealthyCondition) and held back by NoOwner"}},
		"one may recover":   {[]core.Target{machine("a", suspect)}, 1, []string{"a may become unhealthy (UnhealthyCondition)"}},
		"one is unseen":     {[]core.Target{machine("a", unseen)}, 1, []string{"a can't be judged (NodeUnconfirmed)"}},
		"the sick go first": {[]core.Target{machine("a", suspect), machine("b", dead)}, 1, []string{"b is being repaired", "a may become unhealthy (UnhealthyCondition)"}},
	}
	var many []core.Target
	for i := range 9 {
		many = append(many, machine(fmt.Sprint("m", i), suspect))
	}
	cases["some of many"] = struct {
		targets []core.Target
		most    int
		want    []string
	}{many, 1, []string{
		"m0 may become unhealthy (UnhealthyCondition)", "m1 may become unhealthy (UnhealthyCondition)", "m2 may become unhealthy (UnhealthyCondition)",
		"m3 may become unhealthy (UnhealthyCondition)", "m4 may become unhealthy (UnhealthyCondition)",
	}}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			members := make([]int, len(tc.targets))
			for i := range members {
				members[i] = i
			}
			policies := []core.Policy{policy("idle", nil), policy("workers", members, maxInFlight(core.Count(tc.most)))}
			cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: tc.targets, Repairs: []core.Repair{repair}}
			if tc.targets[0].ID != begun.ID {
				cluster.Repairs = nil
			}
			d := core.Decide(policies, cluster, noon)
			reports := d.Reports(policies, &cluster)
			var got []string
			for _, c := range reports[1].Concerns {
				got = append(got, c.Target.Name+" "+c.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("concerns (-want +got):\n%s", diff)
			}
			if reports[0].Concerns != nil || reports[1].Policy.ID.Name != "workers" || reports[1].Tally != d.Tallies[1] {
				t.Errorf("the reports are not those of the policies: %+v", reports)
			}
		})
	}
}
