package core_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

func tried(of ...core.StepOutcome) func(*core.Repair) {
	return func(r *core.Repair) {
		for _, outcome := range of {
			r.Tried = append(r.Tried, core.StepRecord{Ended: ago(30 * time.Second), Outcome: outcome})
		}
	}
}

func withSteps(steps ...core.Step) func(*core.Repair) {
	return func(r *core.Repair) { r.Steps = steps }
}

func begunAt(at time.Time) func(*core.Repair) { return func(r *core.Repair) { r.Begun = at } }

// TestI14ForgedProgressOverridesNoLimit: a Repair claims to be under way. Before it deletes
// anything, every limit applies, as for a new repair.
func TestI14ForgedProgressOverridesNoLimit(t *testing.T) {
	destroys := core.Step{Remedy: "Delete"}
	forgeries := map[string][]func(*core.Repair){
		"a step given up":    {withSteps(destroys, destroys), tried(core.Failed)},
		"a first step's own": {withSteps(core.Step{Remedy: "Ask", Nature: core.CreateRequest}, destroys), tried(core.TimedOut)},
		"handed over":        {begunAt(ago(30 * time.Second))},
		"well for a moment":  {func(r *core.Repair) { r.Recovered = ago(time.Second) }},
	}
	gates := map[core.Gate]struct {
		change func(*core.Policy)
		target func(*core.Target)
	}{
		core.TooManyUnhealthy: {maxUnhealthy(core.Count(0)), func(*core.Target) {}},
		core.InFlightLimit:    {maxInFlight(core.Count(0)), func(*core.Target) {}},
		core.PolicyPaused:     {paused, func(*core.Target) {}},
		core.NoOwner:          {func(*core.Policy) {}, ownedBy(core.ID{})},
		core.Unconfirmed:      {func(*core.Policy) {}, readAt(time.Time{})},
		core.QuorumUnknown:    {func(*core.Policy) {}, controlPlane},
	}
	for forgery, changes := range forgeries {
		for gate, g := range gates {
			targets := machines(3, 3, dead, g.target)
			p := policy("p", all(3), maxInFlight(core.Count(3)), g.change)
			f := clusterOf(targets)
			for i := range targets {
				f.Repairs = append(f.Repairs, repair(targets[i], p, changes...))
			}
			d := core.Decide([]core.Policy{p}, f, noon)
			if len(d.StepStarts)+len(d.Starts) > 0 {
				t.Errorf("%s, behind the gate %s: %d repairs act and %d start", forgery, gate, len(d.StepStarts), len(d.Starts))
			}
		}
	}
}

// TestI14ForgedProgressOverridesNoLimitOfRequests: the same for steps that create a request or a
// mark, where nothing in the cluster shows that the repair is under way.
func TestI14ForgedProgressOverridesNoLimitOfRequests(t *testing.T) {
	handsOver := func(p *core.Policy) { p.Steps = []core.Step{{Remedy: "Mark", Nature: core.Annotate}} }
	for forgery, c := range map[string]struct {
		steps  func(*core.Policy)
		change func(*core.Repair)
	}{
		"a step given up": {escalating, tried(core.Failed)},
		"handed over":     {handsOver, begunAt(ago(30 * time.Second))},
	} {
		for gate, limit := range map[core.Gate]func(*core.Policy){
			core.TooManyUnhealthy: maxUnhealthy(core.Count(0)), core.InFlightLimit: maxInFlight(core.Count(0)), core.PolicyPaused: paused,
		} {
			sick, p := machine("m", dead), policy("p", []int{0}, c.steps, limit)
			d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, repair(sick, p, c.change)), noon)
			if len(d.StepStarts) > 0 || !slices.Contains(refusedBy(d, 0), gate) {
				t.Errorf("%s, behind the gate %s: acts %v, refused by %v", forgery, gate, d.StepStarts, refusedBy(d, 0))
			}
		}
	}
}

// TestI14StepsThatDestroyPassEveryGate: a step that deletes its target passes every gate and takes
// its turn, even in a repair that is really under way.
func TestI14StepsThatDestroyPassEveryGate(t *testing.T) {
	inTheEnd := func(p *core.Policy) { p.Steps = []core.Step{ask(rebooting, patience), {Remedy: "Delete"}} }
	for gate, limit := range map[core.Gate]func(*core.Policy){
		0: maxInFlight(core.Count(2)), core.TooManyUnhealthy: maxUnhealthy(core.Count(0)), core.InFlightLimit: maxInFlight(core.Count(1)),
	} {
		targets := machines(2, 2, dead)
		p := policy("p", all(2), inTheEnd, limit)
		f := clusterOf(targets)
		for i := range targets {
			f.Repairs = append(f.Repairs, repair(targets[i], p, started(ago(time.Duration(i+1)*time.Hour)), gaveUp(noon)))
			f.Requests = append(f.Requests, requestFor(p, targets[i], rebooting))
		}
		d := core.Decide([]core.Policy{p}, f, noon)
		if want := map[core.Gate]int{0: 2, core.InFlightLimit: 1}[gate]; len(d.StepStarts) != want {
			t.Errorf("behind the gate %s: acts %v, want %d; refusals %v", gate, d.StepStarts, want, d.Refusals)
		}
	}
}

// TestI14ForgedRepairsTakeTurns: repairs that claim to be under way take turns before they delete.
// So three of them are never more than the limit at a time, and the oldest goes first.
func TestI14ForgedRepairsTakeTurns(t *testing.T) {
	targets := machines(3, 3, dead)
	p := policy("p", all(3))
	f := clusterOf(targets)
	for i := range targets {
		f.Repairs = append(f.Repairs, repair(targets[i], p, started(ago(time.Duration(i+1)*time.Minute)), withSteps(core.Step{Remedy: "Delete"}, core.Step{Remedy: "Delete"}), tried(core.Failed)))
	}
	d := core.Decide([]core.Policy{p}, f, noon)
	if len(d.StepStarts) != 1 || d.StepStarts[0].Target != 2 {
		t.Errorf("acts %v, want the oldest alone", d.StepStarts)
	}
}

// TestI14StepsAreThoseOfTheHealthCheck: a step begins only where the leading health check has it,
// whatever the Repair says. A repair with another step ends, so that the target is repaired by the
// steps of the health check.
func TestI14StepsAreThoseOfTheHealthCheck(t *testing.T) {
	slow := core.Reference{APIVersion: "fix.example/v1", Kind: "Fix", Name: "slow"}
	quick := core.Reference{APIVersion: "fix.example/v1", Kind: "Fix", Name: "quick"}
	asks := func(template core.Reference) core.Step {
		return core.Step{Remedy: "Ask", Nature: core.CreateRequest, Template: template}
	}
	mark := core.Step{Remedy: "Mark", Nature: core.Annotate}
	byAsking := policy("p", []int{0}, func(p *core.Policy) { p.Steps = []core.Step{asks(quick)} })
	byMarking := policy("p", []int{0}, func(p *core.Policy) { p.Steps, p.FailedSteps = []core.Step{mark}, []core.Step{{Remedy: "Delete"}} })
	sick := machine("m", dead)
	cases := map[string]struct {
		policy  core.Policy
		target  core.Target
		steps   []core.Step
		records func(*core.Repair)
		acts    int
	}{
		"its own step":              {byAsking, sick, []core.Step{asks(quick)}, tried(), 1},
		"its own, by another limit": {byAsking, sick, []core.Step{{Remedy: "Ask", Nature: core.CreateRequest, Template: quick, Limit: time.Hour}}, tried(), 1},
		"another template":          {byAsking, sick, []core.Step{asks(slow)}, tried(), 0},
		"another remedy":            {byAsking, sick, []core.Step{{Remedy: "Delete"}}, tried(), 0},
		"another remedy, later":     {byAsking, sick, []core.Step{asks(quick), {Remedy: "Delete"}}, tried(core.Failed), 0},
		"a disguise":                {policy("p", []int{0}), sick, []core.Step{{Remedy: "Delete", Nature: core.CreateRequest}}, tried(), 0},
		"steps for what has failed": {byMarking, sick, []core.Step{{Remedy: "Delete"}}, tried(), 0},
		"the same, and it has":      {byMarking, machine("m", dead, failed(ago(time.Hour))), []core.Step{{Remedy: "Delete"}}, tried(), 1},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := core.Decide([]core.Policy{tc.policy}, clusterOf([]core.Target{tc.target}, repair(tc.target, tc.policy, withSteps(tc.steps...), tc.records)), noon)
			if len(d.StepStarts) != tc.acts || len(d.Finishes) != 1-tc.acts {
				t.Fatalf("acts %v, finishes %v; want %d of the former", d.StepStarts, d.Finishes, tc.acts)
			}
			if tc.acts == 0 && d.Finishes[0].Outcome != core.Withdrawn {
				t.Errorf("it ends as %s", d.Finishes[0].Outcome)
			}
		})
	}
}

// TestI14ForgedExhaustionBlocksNothing: a repair is out of steps only when those of the health
// check are exhausted.
func TestI14ForgedExhaustionBlocksNothing(t *testing.T) {
	limited := core.Step{Remedy: "Mark", Nature: core.Annotate, Limit: time.Minute}
	without := limited
	without.Limit = 0
	sick := machine("m", dead)
	cases := map[string]struct {
		health, repair []core.Step
		gates          []core.Gate
	}{
		"all of them":             {[]core.Step{limited}, []core.Step{limited}, []core.Gate{core.StepsExhausted}},
		"others":                  {[]core.Step{{Remedy: "Delete"}}, []core.Step{limited}, nil},
		"fewer":                   {[]core.Step{limited, {Remedy: "Ask", Nature: core.CreateRequest, Limit: time.Hour}}, []core.Step{limited}, nil},
		"a step without end":      {[]core.Step{without}, []core.Step{limited}, nil},
		"the same, without limit": {[]core.Step{without}, []core.Step{without}, nil},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := policy("p", []int{0}, func(p *core.Policy) { p.Steps = tc.health })
			d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, repair(sick, p, withSteps(tc.repair...), tried(core.Failed))), noon)
			if diff := cmp.Diff(tc.gates, refusedBy(d, 0)); diff != "" {
				t.Errorf("refused by (-want +got):\n%s", diff)
			}
			if ends := len(tc.gates) == 0; ends != (len(d.Finishes) == 1) {
				t.Errorf("finishes %v", d.Finishes)
			}
		})
	}
}

// TestI14ForgedRepairOfATargetThatNeverWas: a Repair names a kind that can't be listed. That blocks
// nothing, in a decision and before a remedy begins, unless the leading health check has that step
// (I4).
func TestI14ForgedRepairOfATargetThatNeverWas(t *testing.T) {
	secret := core.Reference{APIVersion: "infra.example/v1", Kind: "SecretTemplate", Namespace: "machines", Name: "x"}
	p, gone := check("p", all(5), escalating, fourOfFive), check("gone", nil)
	for name, tc := range map[string]struct {
		lead   core.Policy
		steps  []core.Step
		starts int
	}{
		"of the health check":                {p, []core.Step{ask(secret, 0)}, 1},
		"of no health check":                 {gone, p.Steps, 1},
		"of the health check, with its step": {p, p.Steps, 0},
	} {
		for _, member := range []bool{false, true} {
			targets := []core.Target{aNode("b", dead), aNode("c"), aNode("d"), aNode("e"), aNode("f")}
			if member {
				controlPlane(&targets[0])
			}
			f := clusterOf(targets, repair(aNode("ghost"), tc.lead, withSteps(tc.steps...)))
			for _, s := range tc.steps {
				f.UnlistedTemplates = append(f.UnlistedTemplates, core.Reference{APIVersion: s.Template.APIVersion, Kind: s.Template.Kind})
			}
			quorumOf(&f, core.Yes)
			d := core.Decide([]core.Policy{p}, f, noon)
			if len(d.Starts) != tc.starts {
				t.Errorf("%s, member of the control plane: %t: %q", name, member, actionTexts(f, d))
			}
			next := repair(f.Targets[0], p, started(noon), number(2), withSteps(ask(core.Reference{}, 0)))
			p := p
			p.Steps = append(slices.Clone(p.Steps), next.Steps...)
			policies, fenced := core.Fenced([]core.Policy{p}, f, append(slices.Clone(f.Repairs), next))
			if d = core.Decide(policies, fenced, noon); len(d.StepStarts) != tc.starts {
				t.Errorf("%s, member of the control plane: %t, at the fence: %q", name, member, actionTexts(fenced, d))
			}
		}
	}
}

// TestI14NamesakesOfATarget: a Repair with the UID of a target and another name, namespace or kind
// is not about it.
func TestI14NamesakesOfATarget(t *testing.T) {
	sick, p := machine("m", dead), policy("p", []int{0})
	for sentence, change := range map[string]func(*core.ID){
		"another name":      func(id *core.ID) { id.Name = "other" },
		"another namespace": func(id *core.ID) { id.Namespace = "tenant" },
		"another kind":      func(id *core.ID) { id.Kind = "Node" },
	} {
		forged := func(changes ...func(*core.Repair)) core.Repair {
			r := repair(sick, p, changes...)
			change(&r.Target)
			return r
		}
		for when, r := range map[string]core.Repair{
			"running": forged(number(9)), "exhausted": forged(number(9), tried(core.Failed)),
			"ended": forged(number(9), ended(ago(time.Second)), withSteps(core.Step{Remedy: "Mark", Nature: core.Annotate}), func(r *core.Repair) { r.Owner.Namespace = "tenant" }),
		} {
			d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}, r), noon)
			if len(d.Starts) != 1 || d.Starts[0].Name != core.RepairName(sick.ID, 1) || d.Starts[0].Retry != 0 {
				t.Errorf("%s, %s: starts %+v, refusals %v; want the first repair of the target", sentence, when, d.Starts, d.Refusals)
			}
		}
	}
}

// TestI14ForgedHistoryDelaysNothing: a finished repair counts for the back-off of its own pool. A
// repair whose end is over an hour in the future does not count at all.
func TestI14ForgedHistoryDelaysNothing(t *testing.T) {
	sick, p := machine("m", dead, created(ago(time.Minute))), policy("p", []int{0})
	elsewhere := func(r *core.Repair) { r.Owner.Namespace = "tenant" }
	later := func(r *core.Repair) { r.Ended = noon.Add(time.Hour + time.Second) }
	lasted := withSteps(core.Step{Remedy: "Mark", Nature: core.Annotate})
	for sentence, r := range map[string]core.Repair{
		"the owner's UID in another namespace": repair(machine("old"), p, started(ago(2*time.Minute)), ended(ago(time.Second)), retry(99), elsewhere),
		"an end in the future":                 repair(sick, p, number(2), started(ago(2*time.Minute)), ended(ago(time.Second)), retry(99), lasted, later),
		"an end in the future, in the pool":    repair(machine("old"), p, started(ago(2*time.Minute)), ended(ago(time.Second)), retry(99), later),
	} {
		var m core.Expectations
		for _, at := range []time.Time{noon, noon.Add(time.Minute)} {
			sick.NodeReadAt = at
			if d := core.Decide([]core.Policy{p}, laid(&m, at, []core.Target{sick}, r), at); len(d.Starts) != 1 {
				t.Errorf("%s, at %s: starts %+v, refusals %v", sentence, at, d.Starts, d.Refusals)
			}
		}
	}
}

// TestI14QuorumIsCheckedForEachStep: a further step of a repair of the control plane must pass
// the quorum gate as the first one.
func TestI14QuorumIsCheckedForEachStep(t *testing.T) {
	ask := func(name string, limit time.Duration) core.Step {
		return core.Step{Remedy: "Ask", Nature: core.CreateRequest, Template: core.Reference{Kind: "Fix", Name: name}, Limit: limit}
	}
	p := policy("p", []int{0}, func(p *core.Policy) { p.Steps = []core.Step{ask("one", time.Minute), ask("two", 0)} })
	sick := machine("m", dead, controlPlane)
	request := core.Request{
		ID: core.ID{Kind: "Fix", Name: "one-m", UID: "request"}, Remedy: "Ask", Template: p.Steps[0].Template, Target: sick.ID, Policy: p.ID,
		Created: ago(2 * time.Minute), Own: true,
	}
	for survives, want := range map[core.Tri]core.Gate{core.Unknown: core.QuorumUnknown, core.No: core.QuorumLost, core.Yes: 0} {
		for sentence, r := range map[string]core.Repair{"to be given up": repair(sick, p), "to begin": repair(sick, p, tried(core.TimedOut))} {
			f := clusterOf([]core.Target{sick}, r)
			quorumOf(&f, survives)
			f.Requests = []core.Request{request}
			d := core.Decide([]core.Policy{p}, f, noon)
			var gate core.Gate
			if gates := refusedBy(d, 0); len(gates) > 0 {
				gate = gates[0]
			}
			if gate != want || (len(d.StepStarts)+len(d.Escalations) > 0) != (want == 0) {
				t.Errorf("%s, quorum survives: %s: acts %v, advances %v, refused by %v", sentence, survives, d.StepStarts, d.Escalations, refusedBy(d, 0))
			}
		}
	}
}

// TestI14IdleLeasesOfOthers: a Repair names a health check. Its name alone releases no lease.
func TestI14IdleLeasesOfOthers(t *testing.T) {
	p := policy("p", nil)
	for sentence, change := range map[string]func(*core.Repair){
		"by its name alone":   func(r *core.Repair) { r.Policy.Kind, r.Policy.Name = "node", "maintenance" },
		"by its holder alone": func(r *core.Repair) { r.Holder = "node-maintenance" },
	} {
		f := clusterOf([]core.Target{machine("m")}, repair(machine("gone"), p, ended(ago(time.Hour)), change))
		f.Leases = []core.NodeLease{{Node: "n", Holder: "node-maintenance", Renewed: ago(time.Hour)}}
		if d := core.Decide([]core.Policy{p}, f, noon); len(d.LeaseReleases) > 0 {
			t.Errorf("%s: it gives back %v", sentence, d.LeaseReleases)
		}
	}
}

// TestI15FloodWithoutTargetsEndsBitByBit: Repairs without a target and without a health check end
// some at a time. So a pass takes no longer, however many there are.
func TestI15FloodWithoutTargetsEndsBitByBit(t *testing.T) {
	p, gone := policy("p", nil), policy("gone", nil)
	f := clusterOf(nil)
	for i := range 1000 {
		r := repair(machine("m"), gone)
		r.Target.UID = strconv.Itoa(i)
		f.Repairs = append(f.Repairs, r)
	}
	f.Repairs = append(f.Repairs, repair(machine("led"), p))
	d := core.Decide([]core.Policy{p}, f, noon)
	if len(d.Finishes) > 100 || len(d.Finishes) < 10 {
		t.Errorf("%d repairs end in one pass", len(d.Finishes))
	}
	if !slices.ContainsFunc(d.Finishes, func(f core.Finish) bool { return f.Repair == 1000 }) {
		t.Error("a repair that a health check leads waits for the others")
	}
}
