package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// TestI15JudgementsAreBounded: for any number of policies, a pass makes no more verdicts than its bound. The order of
// the policies decides nothing. Nothing begins for a target that an unjudged policy selects.
func TestI15JudgementsAreBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawRemediation(rapidDice(r))
		for i := range w.policies {
			w.policies[i].ID.Namespace = rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "namespace")
		}
		most := rapid.IntRange(0, 30).Draw(r, "most")
		before := slices.Clone(w.policies)
		overlooked := selectedByUnjudged(&w, before, most)
		d := w.decide()
		if cost := len(d.Verdicts) + len(w.policies) - count(w.policies, func(p core.Policy) bool { return p.Unjudged }); cost > most && len(d.Verdicts) > 0 {
			r.Errorf("it judges %d times, and may %d times", cost, most)
		}
		for _, s := range d.Starts {
			if overlooked[s.Target] {
				r.Errorf("%s begins though a policy that is not judged selects it", s.Name)
			}
		}
		for _, a := range d.StepStarts {
			if overlooked[a.Target] {
				r.Errorf("a step for %s begins though a policy that is not judged selects it", w.cluster.Targets[a.Target].ID)
			}
		}
		shuffled := rapid.Permutation(before).Draw(r, "order")
		core.LimitVerdicts(shuffled, slices.Clone(w.cluster.Targets), most)
		if diff := cmp.Diff(judgedOf(w.policies), judgedOf(shuffled)); diff != "" {
			r.Errorf("in another order others are judged:\n%s", diff)
		}
	})
}

// selectedByUnjudged rations a world, and returns of each target whether a policy that acts and is not judged selects its
// body.
func selectedByUnjudged(w *world, before []core.Policy, most int) []bool {
	w.policies = slices.Clone(before)
	core.LimitVerdicts(w.policies, w.cluster.Targets, most)
	groupOf, held := core.Groups(w.cluster.Targets), map[int]bool{}
	for i, p := range w.policies {
		for _, m := range before[i].Members {
			held[groupOf[m]] = held[groupOf[m]] || (p.Unjudged && !p.DryRun)
		}
	}
	selected := make([]bool, len(w.cluster.Targets))
	for i := range selected {
		selected[i] = held[groupOf[i]]
	}
	return selected
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

// judgedOf are the policies that are judged, by name.
func judgedOf(policies []core.Policy) []string {
	var names []string
	for i := range policies {
		if !policies[i].Unjudged {
			names = append(names, policies[i].ID.Namespace+"/"+policies[i].ID.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestRation: the oldest of each namespace goes first, and the first policy that does not fit ends it.
func TestRation(t *testing.T) {
	in := func(namespace, name string, age time.Duration, members ...int) core.Policy {
		return policy(name, members, since(ago(age)), func(p *core.Policy) { p.ID.Namespace = namespace })
	}
	all := []core.Policy{
		in("a", "old", 9*time.Hour, 0, 1), in("a", "middle", 8*time.Hour, 0, 1), in("a", "new", 7*time.Hour, 0, 1),
		in("b", "old", 2*time.Hour, 2, 3), in("b", "new", time.Hour, 2),
	}
	for most, want := range map[int][]string{
		14: {"a/middle", "a/new", "a/old", "b/new", "b/old"},
		13: {"a/middle", "a/old", "b/new", "b/old"},
		10: {"a/middle", "a/old", "b/old"}, // the new one of b would not fit, and that of a comes after it
		8:  {"a/old", "b/old"},
		6:  {"a/old", "b/old"},
		5:  {"a/old"},
		2:  nil,
	} {
		policies, targets := slices.Clone(all), []core.Target{machine("0"), machine("1"), machine("2"), machine("3")}
		core.LimitVerdicts(policies, targets, most)
		if got := judgedOf(policies); !slices.Equal(got, want) {
			t.Errorf("at most %d: %v are judged, want %v", most, got, want)
		}
	}
}

// TestOverlookedPoliciesAreReported, and count their targets as not healthy.
func TestOverlookedPoliciesAreReported(t *testing.T) {
	first := policy("first", []int{0, 1}, since(ago(48*time.Hour)))
	second := policy("second", []int{0})
	f := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: []core.Target{machine("x", dead), machine("y", dead)}}
	policies := []core.Policy{first, second}
	core.LimitVerdicts(policies, f.Targets, 3)
	d := core.Decide(policies, f, noon)
	if len(d.Starts) != 1 || f.Targets[d.Starts[0].Target].ID.Name != "y" {
		t.Errorf("it starts %+v, want y alone", d.Starts)
	}
	if len(d.Refusals) != 1 || d.Refusals[0].Policy != 1 || !strings.Contains(d.Refusals[0].Text(), "it is not judged") {
		t.Errorf("x is held back by %+v", d.Refusals)
	}
	if got := d.Tallies[1]; got.Total != 1 || got.Healthy != 0 || got.Permitted || got.RepairsAllowed() != 0 {
		t.Errorf("the tally of the policy that is not judged is %+v", got)
	}
	r := d.Reports(policies, &f)[1]
	if !r.Policy.Unjudged || !strings.Contains(r.Policy.Problem, "delete health checks that are not needed") {
		t.Errorf("the report says %q", r.Policy.Problem)
	}
}

// TestRehearsalsThatAreOverlookedHoldNothingBack, as dry runs that are judged don't.
func TestRehearsalsThatAreOverlookedHoldNothingBack(t *testing.T) {
	rehearsal := policy("rehearsal", []int{0}, func(p *core.Policy) { p.DryRun = true })
	policies := []core.Policy{policy("first", []int{0}, since(ago(48*time.Hour))), rehearsal}
	f := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: []core.Target{machine("x", dead)}}
	core.LimitVerdicts(policies, f.Targets, 2)
	if !policies[1].Unjudged {
		t.Fatal("the rehearsal is judged")
	}
	if d := core.Decide(policies, f, noon); len(d.Starts) != 1 {
		t.Errorf("it starts %+v, and refuses %+v", d.Starts, d.Refusals)
	}
}

// TestOverlookedPoliciesHoldBackGroups: a policy that is not judged holds back the whole group of each of its members.
func TestOverlookedPoliciesHoldBackGroups(t *testing.T) {
	node := aNode("n", dead)
	m := machine("m", dead)
	m.Node = node.Node
	policies := []core.Policy{policy("machines", []int{1}, since(ago(48*time.Hour))), check("nodes", []int{0}, classic)}
	f := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: []core.Target{node, m}}
	core.LimitVerdicts(policies, f.Targets, 2)
	if d := core.Decide(policies, f, noon); len(d.Starts) > 0 || len(d.Refusals) != 1 || !strings.Contains(d.Refusals[0].Text(), "it is not judged") {
		t.Errorf("it starts %+v, and refuses %+v", d.Starts, d.Refusals)
	}
}

// TestOverlookedPoliciesHoldBackFurtherSteps, and a step that is under way has its time.
func TestOverlookedPoliciesHoldBackFurtherSteps(t *testing.T) {
	sick := aNode("n", dead)
	p, other := check("p", []int{0}, escalating, since(ago(48*time.Hour))), check("other", []int{0})
	f := with([]core.Target{sick}, []core.Repair{repair(sick, p, started(ago(time.Hour)), gaveUp(noon))}, requestFor(p, sick, rebooting))
	f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
	policies := []core.Policy{p, other}
	core.LimitVerdicts(policies, f.Targets, 2)
	if did := actionTexts(f, core.Decide(policies, f, noon)); !slices.Equal(did, []string{"InvalidSpec holds back n"}) {
		t.Errorf("it does %q", did)
	}
}

// TestOverlookedPoliciesKeepWhatStands: a request is neither withdrawn nor followed by a further step while the policy that
// made it is not judged.
func TestOverlookedPoliciesKeepWhatStands(t *testing.T) {
	for name, target := range map[string]core.Target{"well": aNode("n"), "sick": aNode("n", dead)} {
		p := check("p", []int{0}, escalating)
		f := with([]core.Target{target}, []core.Repair{repair(target, p, started(ago(time.Hour)))}, requestFor(p, target, rebooting, says(core.No)))
		f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
		policies := []core.Policy{p}
		core.LimitVerdicts(policies, f.Targets, 0)
		if did := actionTexts(f, core.Decide(policies, f, noon)); len(did) > 0 {
			t.Errorf("%s: it does %q", name, did)
		}
		deletes := check("p", []int{0})
		f = with([]core.Target{target}, []core.Repair{repair(target, deletes, started(ago(time.Hour)))})
		f.Observed, f.ClockAgrees, f.Upgrading, policies = core.Yes, core.Yes, core.No, []core.Policy{deletes}
		core.LimitVerdicts(policies, f.Targets, 0)
		if did := actionTexts(f, core.Decide(policies, f, noon)); len(did) > 0 {
			t.Errorf("%s, a deletion: it does %q", name, did)
		}
	}
}

// TestMostJudgements: small clusters have room for hundreds of policies, and large ones for several per target.
func TestMostJudgements(t *testing.T) {
	for targets, want := range map[int]int{0: 100_000, 200: 100_000, 50_000: 400_000} {
		if got := core.MaxVerdicts(targets); got != want {
			t.Errorf("%d targets: %d", targets, got)
		}
	}
}

// BenchmarkTooManyPolicies is the flood that took half a second a pass: 5,000 policies over 200 targets.
func BenchmarkTooManyPolicies(b *testing.B) {
	var targets []core.Target
	members := make([]int, 200)
	for i := range members {
		members[i] = i
		targets = append(targets, machine(fmt.Sprint(i)))
	}
	all := make([]core.Policy, 5000)
	for i := range all {
		all[i] = policy(fmt.Sprint(i), members, since(ago(time.Duration(i)*time.Second)))
	}
	for _, most := range []int{core.MaxVerdicts(len(targets)), 1 << 30} {
		b.Run(fmt.Sprintf("most=%d", most), func(b *testing.B) {
			for b.Loop() {
				policies, f := slices.Clone(all), core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: slices.Clone(targets)}
				core.LimitVerdicts(policies, f.Targets, most)
				d := core.Decide(policies, f, noon)
				d.Reports(policies, &f)
			}
		})
	}
}
