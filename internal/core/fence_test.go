package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestI2FencedGroups: another leader may have recorded a repair of the other target with the
// same node, under another name. So the ledger is read live even where no policy limits the number
// of repairs.
func TestI2FencedGroups(t *testing.T) {
	node, m := aNode("n", dead), machine("m", dead, func(t *core.Target) { t.Node.Name = "n" })
	nodes, machines := check("nodes", []int{0}, classic), policy("machines", []int{1}, unlimited)
	policies := []core.Policy{nodes, machines}
	f := clusterOf([]core.Target{node, m})
	for target := range 2 {
		if !core.NeedsFencing(policies, &f, core.Decide(policies, f, noon), []int{target}) {
			t.Errorf("%s has another target on its node, and is not contested", f.Targets[target].ID)
		}
	}
	alone := clusterOf([]core.Target{node, machine("m", dead)})
	if core.NeedsFencing(policies, &alone, core.Decide(policies, alone, noon), all(2)) {
		t.Error("a node and another's machine are contested")
	}
}

// TestI3FencedLimits: of the repairs that two leaders have recorded, as many begin as the limits
// allow. Both leaders agree on which.
func TestI3FencedLimits(t *testing.T) {
	sick := func(name string) core.Target { return machine(name, dead) }
	recorded := func(of core.Target, sequence uint64, changes ...func(*core.Repair)) core.Repair {
		r := core.Repair{
			Namespace: of.ID.Namespace, Name: core.RepairName(of.ID, 1), Target: of.ID, Policy: policy("workers", nil).ID, Owner: of.Owner,
			Started: noon, Sequence: sequence, Steps: policy("workers", nil).Steps,
		}
		for _, change := range changes {
			change(&r)
		}
		return r
	}
	earlier := func(r *core.Repair) { r.Started = ago(time.Second) }
	a, b, c := sick("a"), sick("b"), sick("c")
	leaving := sick("leaving")
	leaving.Deleting = true
	well := machine("well")
	cases := map[string]struct {
		reason  string
		most    int
		targets []core.Target
		running []core.Repair
		want    []string
	}{
		"alone": {
			"no other leader has recorded a repair", 1, []core.Target{a, b}, []core.Repair{recorded(a, 7)}, []string{"a"},
		},
		"the ledger's order": {
			"clocks of two leaders differ, and the ledger has one order", 1,
			[]core.Target{a, b}, []core.Repair{recorded(a, 8, earlier), recorded(b, 7)}, []string{"b"},
		},
		"an old one": {
			"a repair that has changed since has no known time, so it came first", 1,
			[]core.Target{a, b}, []core.Repair{recorded(a, 7), recorded(b, 0)}, []string{"b"},
		},
		"places for two": {
			"the third waits", 2,
			[]core.Target{a, b, c}, []core.Repair{recorded(c, 7), recorded(a, 8), recorded(b, 9)}, []string{"c", "a"},
		},
		"one is leaving": {
			"a begun repair takes its place", 1, []core.Target{a, leaving}, []core.Repair{recorded(leaving, 7), recorded(a, 8)}, nil,
		},
		"a target that is not seen here": {
			"it takes its place all the same", 1, []core.Target{a}, []core.Repair{recorded(c, 7), recorded(a, 8)}, nil,
		},
		"two repairs of strangers": {
			"each takes its place", 3, []core.Target{a, well},
			[]core.Repair{recorded(b, 6), recorded(c, 7), recorded(a, 8)}, []string{"a"},
		},
		"recovered meanwhile": {
			"nothing asks for it any more", 1, []core.Target{well}, []core.Repair{recorded(well, 7)}, nil,
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			members := make([]int, len(tc.targets))
			for i := range members {
				members[i] = i
			}
			p := policy("workers", members, maxInFlight(core.Count(tc.most)))
			cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: tc.targets}
			policies, fenced := core.Fenced([]core.Policy{p}, cluster, tc.running)
			var begin []string
			for _, act := range core.Decide(policies, fenced, noon).StepStarts {
				begin = append(begin, fenced.Repairs[act.Repair].Target.Name)
			}
			if diff := cmp.Diff(tc.want, begin); diff != "" {
				t.Errorf("%s; what may begin (-want +got):\n%s", tc.reason, diff)
			}
			if len(p.Members) != len(tc.targets) || len(cluster.Targets) != len(tc.targets) || cluster.Repairs != nil {
				t.Error("the world that it was made from has changed")
			}
		})
	}
}

// TestI4UnseenTargetsMayBeOfTheControlPlane: another leader repairs a target that this process does not
// see. It may be a member of the control plane, unless this process has seen that it is none. A
// member waits for it.
func TestI4UnseenTargetsMayBeOfTheControlPlane(t *testing.T) {
	worker, member := machine("worker"), machine("member", controlPlane)
	x := machine("x", dead, controlPlane, func(t *core.Target) { t.QuorumSurvives = core.Yes })
	p := policy("workers", []int{0}, unlimited)
	own := repair(x, p)
	cases := map[string]struct {
		stranger core.Target
		seen     []core.Target
		want     int
	}{
		"never seen":                                {worker, nil, 0},
		"a worker that is gone by now":              {worker, []core.Target{worker}, 1},
		"a member that is gone by now":              {member, []core.Target{member}, 0},
		"a namesake of a worker that was seen once": {worker, []core.Target{machine("worker", func(t *core.Target) { t.ID.UID = "another" })}, 0},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			var m core.Expectations
			theirs := repair(tc.stranger, p)
			laid(&m, noon, append(tc.seen, x), own, theirs)
			f := laid(&m, noon, []core.Target{x}, own, theirs)
			policies, fenced := core.Fenced([]core.Policy{p}, f, []core.Repair{own, theirs})
			d := core.Decide(policies, fenced, noon)
			if len(d.StepStarts) != tc.want {
				t.Errorf("%d acts, want %d: %v", len(d.StepStarts), tc.want, d.Refusals)
			}
		})
	}
	for own, want := range map[bool]int{true: 1, false: 0} { // Fettle's own request shows that its target was decided on as gone
		theirs := repair(worker, p)
		f := clusterOf([]core.Target{x}, repair(x, p))
		f.Requests = []core.Request{requestFor(p, worker, rebooting, func(q *core.Request) { q.Own = own })}
		policies, fenced := core.Fenced([]core.Policy{p}, f, []core.Repair{repair(x, p), theirs})
		if d := core.Decide(policies, fenced, noon); len(d.StepStarts) != want {
			t.Errorf("a request is Fettle's own: %t, and there are %d acts: %v", own, len(d.StepStarts), d.Refusals)
		}
	}
	worker.Node.Conditions, x.ControlPlane = nil, false
	f := clusterOf([]core.Target{x}, own)
	policies, fenced := core.Fenced([]core.Policy{p}, f, []core.Repair{own, repair(worker, p)})
	if d := core.Decide(policies, fenced, noon); len(d.StepStarts) != 1 {
		t.Errorf("a worker waits for a stranger where nothing limits their number: %v", d.Refusals)
	}
}

// TestNeedsFencing: the ledger is read live only where another leader could take the place.
func TestNeedsFencing(t *testing.T) {
	sick := machine("a", dead)
	member := sick
	member.ControlPlane = true
	byLabel := sick
	byLabel.ControlPlaneByLabel = true
	both := []int{0, 1}
	limited := policy("limited", both, maxInFlight(core.Percent(50)))
	unlimited := policy("unlimited", both, maxInFlight(core.Unlimited()))
	cases := map[string]struct {
		target   core.Target
		policies []core.Policy
		want     bool
	}{
		"a limit":                         {sick, []core.Policy{limited}, true},
		"no limit":                        {sick, []core.Policy{unlimited}, false},
		"no limit, and the control plane": {member, []core.Policy{unlimited}, true},
		"no limit, and a label alone":     {byLabel, []core.Policy{unlimited}, true},
		"a limit of others":               {sick, []core.Policy{unlimited, policy("second", []int{1})}, false},
		"a limit of a dry run":            {sick, []core.Policy{unlimited, policy("dry", both, dryRun)}, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: []core.Target{tc.target, machine("other")}}
			d := core.Decide(tc.policies, cluster, noon)
			if got := core.NeedsFencing(tc.policies, &cluster, d, []int{0}); got != tc.want {
				t.Errorf("contested: %t", got)
			}
			if core.NeedsFencing(tc.policies, &cluster, d, nil) {
				t.Error("nothing is to begin, and it is contested")
			}
		})
	}
}

// TestFencedRepairs: the running repairs are those of the API server, and the ended ones of the cache.
func TestFencedRepairs(t *testing.T) {
	a, p := machine("a"), policy("p", []int{0})
	done, cached, live := repair(a, p, ended(noon)), repair(a, p, number(2)), repair(a, p, number(3))
	_, f := core.Fenced([]core.Policy{p}, clusterOf([]core.Target{a}, done, cached), []core.Repair{live})
	if diff := cmp.Diff([]core.Repair{live, done}, f.Repairs); diff != "" {
		t.Errorf("the repairs (-want +got):\n%s", diff)
	}
}

// TestFencedTargets: the target of another leader's repair is added once, whatever repairs it had before.
func TestFencedTargets(t *testing.T) {
	p := check("p", nil, classic)
	gone := aNode("gone")
	f := clusterOf(nil, repair(gone, p, ended(ago(time.Hour))))
	f.UnlistedTemplates = []core.Reference{{APIVersion: rebooting.APIVersion, Kind: rebooting.Kind}}
	_, fenced := core.Fenced([]core.Policy{p}, f, []core.Repair{repair(gone, p, number(2)), repair(gone, p, number(3))})
	if len(fenced.Targets) != 1 || fenced.Targets[0].ID != gone.ID {
		t.Errorf("the targets are %v", fenced.Targets)
	}
}

// TestFencingOfItsOwnGroup: a target with a node of its own needs no fencing beside a group of two.
func TestFencingOfItsOwnGroup(t *testing.T) {
	p := policy("p", all(3), unlimited)
	m := machine("m", func(t *core.Target) { t.Node.Name = "n" })
	f := clusterOf([]core.Target{m, aNode("n"), machine("alone")})
	d := core.Decide([]core.Policy{p}, f, noon)
	for target, want := range []bool{true, true, false} {
		if got := core.NeedsFencing([]core.Policy{p}, &f, d, []int{target}); got != want {
			t.Errorf("target %d needs fencing: %t", target, got)
		}
	}
}
