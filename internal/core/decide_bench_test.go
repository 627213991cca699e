package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// The cluster on which one decision should take at most 50 ms.
const (
	benchTargets  = 50_000
	benchPolicies = 50
)

// BenchmarkDecide takes one decision on 50,000 targets and 50 policies. The limit of 50 ms is for
// the disjoint shape, in which every target has one policy. The overlapping shape has five times
// the verdicts.
func BenchmarkDecide(b *testing.B) {
	shapes := []struct {
		name    string
		members int
	}{
		{"disjoint", benchTargets / benchPolicies},
		{"overlapping", 5 * benchTargets / benchPolicies},
	}
	states := []struct {
		name   string
		change func(i int, t *core.Target)
	}{
		{"healthy", func(int, *core.Target) {}},
		{"one percent unhealthy", func(i int, t *core.Target) {
			if i%100 == 0 {
				breakNode(t)
			}
		}},
		{"storm", func(i int, t *core.Target) {
			if i%2 == 0 {
				breakNode(t)
			}
		}},
	}
	for _, shape := range shapes {
		for _, state := range states {
			b.Run(shape.name+"/"+state.name, func(b *testing.B) {
				world := clusterOf(benchTargetsOf(state.change))
				policies := benchChecks(shape.members)
				b.ReportAllocs()
				for b.Loop() {
					if d := core.Decide(policies, world, noon); len(d.Verdicts) != shape.members*benchPolicies {
						b.Fatalf("%d verdicts, want %d", len(d.Verdicts), shape.members*benchPolicies)
					}
				}
			})
		}
	}
}

// benchTargetsOf returns targets with a pool for each policy, and with the conditions that a
// kubelet reports.
func benchTargetsOf(change func(int, *core.Target)) []core.Target {
	targets := make([]core.Target, benchTargets)
	for i := range targets {
		owner := core.ID{Kind: "MachineSet", Namespace: "machines", Name: fmt.Sprint("set-", i%benchPolicies), UID: fmt.Sprint("set-uid-", i%benchPolicies)}
		targets[i] = machine(fmt.Sprintf("worker-%05d", i), ownedBy(owner),
			condition("MemoryPressure", "False", ago(24*time.Hour)),
			condition("DiskPressure", "False", ago(24*time.Hour)),
			condition("PIDPressure", "False", ago(24*time.Hour)))
		change(i, &targets[i])
	}
	return targets
}

// breakNode makes a target's node not Ready for longer than any policy allows.
func breakNode(t *core.Target) {
	t.Node.Conditions[0] = core.Condition{Type: "Ready", Status: "False", Since: ago(time.Hour)}
}

// benchChecks returns policies that select this many targets each. The first member of each follows
// the members that the policy before has alone.
func benchChecks(members int) []core.Policy {
	policies := make([]core.Policy, benchPolicies)
	for i := range policies {
		selected := make([]int, members)
		for j := range selected {
			selected[j] = (i*benchTargets/benchPolicies + j) % benchTargets
		}
		policies[i] = policy(fmt.Sprintf("check-%02d", i), selected,
			maxUnhealthy(core.Percent(40)), maxInFlight(core.Unlimited()))
	}
	return policies
}
