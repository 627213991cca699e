package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// eventsOfPass returns the kinds of the new events of a pass.
func eventsOfPass(j *core.Deduplicator, policies []core.Policy, f core.Cluster, now time.Time) []core.EventKind {
	var kinds []core.EventKind
	for _, h := range j.NewEvents(policies, &f, core.Decide(policies, f, now)) {
		kinds = append(kinds, h.Kind)
	}
	return kinds
}

// TestDeduplicator: a state has an event when it begins, none while it lasts, and another when it begins
// again.
func TestDeduplicator(t *testing.T) {
	well := clusterOf([]core.Target{machine("m"), machine("n")})
	with := func(t core.Target) core.Cluster { return clusterOf([]core.Target{t, machine("n")}) }
	plain := []core.Policy{policy("p", all(2))}
	policies := func(changes ...func(*core.Policy)) []core.Policy {
		return []core.Policy{policy("p", all(2), changes...)}
	}
	orphan := with(machine("m", dead, ownedBy(core.ID{})))
	cases := map[string]struct {
		reason   string
		policies []core.Policy
		during   core.Cluster
		after    []core.Policy
		want     []core.EventKind
	}{
		"suspected":           {"a grace period begins", plain, with(machine("m", ready("False", noon))), plain, []core.EventKind{core.EventSuspected}},
		"a first start":       {"a machine that boots has its time", plain, with(machine("m", awaited(noon))), plain, nil},
		"no startup limit":    {"time won't make it unhealthy", policies(anyStartup), with(machine("m", awaited(noon))), plain, nil},
		"remediated":          {"its remediator is at work, and its node is well", plain, with(machine("m", externallyRemediated)), plain, nil},
		"remediated and sick": {"a grace period begins", plain, with(machine("m", externallyRemediated, ready("False", noon))), plain, []core.EventKind{core.EventSuspected}},
		"unhealthy":           {"it is repaired, and that is told", plain, with(machine("m", dead)), plain, nil},
		"unhealthy, aloud":    {"no grace period has told it", policies(emitsUnhealthyEvents), with(machine("m", dead)), plain, []core.EventKind{core.EventSuspected}},
		"unreadable":          {"a user must act", plain, with(machine("m", dead, unreadable("phase"))), plain, []core.EventKind{core.EventUnreadable}},
		"restricted":          {"a short circuit begins", policies(maxUnhealthy(core.Count(0))), with(machine("m", dead)), plain, []core.EventKind{core.EventShortCircuited}},
		"tight":               {"each member that is not healthy counts", policies(maxUnhealthy(core.Count(0))), with(machine("m", awaited(noon))), plain, []core.EventKind{core.EventShortCircuited}},
		"none failed":         {"a machine is being made", policies(maxUnhealthy(core.Count(0)), quiet), with(machine("m", awaited(noon))), plain, nil},
		"quiet, and none":     {"a machine is leaving", policies(maxUnhealthy(core.Count(0)), quiet), with(machine("m", dead, deleting)), plain, nil},
		"one has failed":      {"it would be repaired", policies(maxUnhealthy(core.Count(0)), quiet), with(machine("m", dead)), plain, []core.EventKind{core.EventShortCircuited}},
		"none to repair":      {"a range without a member holds nothing back", policies(inRange(1, 3)), well, plain, nil},
		"misconfigured":       {"a policy breaks", policies(problem("broken")), well, plain, []core.EventKind{core.EventMisconfigured}},
		"no owner":            {"a user must act", plain, orphan, plain, []core.EventKind{core.EventHeldBack}},
		"no remedy":           {"a user must act", policies(noSteps), with(machine("m", dead)), plain, []core.EventKind{core.EventHeldBack}},
		"quorum unknown":      {"a user must act", plain, with(machine("m", dead, controlPlane)), plain, []core.EventKind{core.EventHeldBack}},
		"template gone":       {"a user must act", policies(unusable), with(machine("m", dead)), plain, []core.EventKind{core.EventHeldBack}},
		"template unread":     {"it may be there", policies(unusable, unread), with(machine("m", dead)), plain, nil},
		"a dry run":           {"what would be done", policies(dryRun), with(machine("m", dead)), plain, []core.EventKind{core.EventDryRun}},
		"paused":              {"its user knows", policies(paused), with(machine("m", dead)), plain, nil},
		"paused and tight":    {"its user knows", policies(paused, maxUnhealthy(core.Count(0))), with(machine("m", dead)), plain, nil},
		"unread and leaving":  {"nothing is judged of it", plain, with(machine("m", unreadable("phase"), deleting)), plain, nil},
		"without a time":      {"it can be read", plain, with(machine("m", ready("False", time.Time{}))), plain, nil},
		"pending, no owner":   {"that is known", policies(unread), orphan, plain, []core.EventKind{core.EventHeldBack}},
		"broken and tight":    {"the problem is the cause", policies(problem("broken"), maxUnhealthy(core.Count(0))), with(machine("m", dead)), plain, []core.EventKind{core.EventMisconfigured}},
		"waiting its turn":    {"it will come", policies(maxInFlight(core.Count(0))), with(machine("m", dead)), plain, nil},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			var j core.Deduplicator
			for i, pass := range []struct {
				policies []core.Policy
				cluster  core.Cluster
				want     []core.EventKind
			}{{c.policies, c.during, c.want}, {c.policies, c.during, nil}, {c.after, well, nil}, {c.policies, c.during, c.want}} {
				if diff := cmp.Diff(pass.want, eventsOfPass(&j, pass.policies, pass.cluster, noon)); diff != "" {
					t.Errorf("%s: pass %d (-want +got):\n%s", c.reason, i, diff)
				}
			}
		})
	}
}

func anyStartup(p *core.Policy)           { p.Criteria.NodeStartup = 0 }
func emitsUnhealthyEvents(p *core.Policy) { p.EmitsUnhealthyEvents = true }

// TestOneEventPerFailure: a duration, its end, and a repair have one event together.
func TestOneEventPerFailure(t *testing.T) {
	suspect, sick := machine("m", ready("False", noon)), machine("m", dead)
	p := []core.Policy{policy("p", []int{0}, emitsUnhealthyEvents)}
	under := repair(sick, p[0], started(noon))
	tells := func(sentence string, j *core.Deduplicator, target core.Target, want int, repairs ...core.Repair) {
		t.Helper()
		f := clusterOf([]core.Target{target}, repairs...)
		found := 0
		for _, h := range j.NewEvents(p, &f, core.Decide(p, f, noon)) {
			if h.Kind == core.EventSuspected {
				found++
			}
		}
		if found != want {
			t.Errorf("%s: told %d times, want %d", sentence, found, want)
		}
	}
	var j core.Deduplicator
	tells("it may become unhealthy", &j, suspect, 1)
	tells("it is", &j, sick, 0)
	tells("its repair begins", &j, sick, 0, under)
	tells("its repair is deleted", &j, sick, 0)
	tells("it is well", &j, machine("m"), 0)
	tells("it fails anew", &j, sick, 1)

	var afterwards core.Deduplicator
	tells("the next leader finds the repair", &afterwards, sick, 0, under)
	tells("and that it is deleted", &afterwards, sick, 0)
}

// unusable has a step that can't be taken. With unread, that is not known yet.
func unusable(p *core.Policy) {
	p.Steps = []core.Step{{Remedy: "ask", Nature: core.CreateRequest, Problem: "the template is missing", Missing: true}}
}

func unread(p *core.Policy) { p.Steps[0].Pending = true }

func inRange(from, to int) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{Range: &core.Range{From: from, To: to}} }
}

// quiet policies have an event for the short circuit only once a member fails.
func quiet(p *core.Policy) { p.QuietWhileNoneFails = true }

// TestEventOfTheFirstFailure: the short circuit stopped repairs before any member failed.
// Its event comes with the first failure.
func TestEventOfTheFirstFailure(t *testing.T) {
	var j core.Deduplicator
	p := []core.Policy{policy("p", all(2), quiet, maxUnhealthy(core.Count(0)))}
	f := clusterOf([]core.Target{machine("a", ready("False", noon)), machine("b", ready("False", noon))})
	for i, pass := range []struct {
		now  time.Time
		want []core.EventKind
	}{
		{noon, []core.EventKind{core.EventSuspected, core.EventSuspected}},
		{noon.Add(patience), []core.EventKind{core.EventShortCircuited}},
		{noon.Add(2 * patience), nil},
	} {
		if diff := cmp.Diff(pass.want, eventsOfPass(&j, p, f, pass.now)); diff != "" {
			t.Errorf("pass %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestEventsNameTheirObjects(t *testing.T) {
	var j core.Deduplicator
	p := policy("p", []int{0})
	m := machine("m", dead, ownedBy(core.ID{}))
	f := clusterOf([]core.Target{m})
	got := j.NewEvents([]core.Policy{p}, &f, core.Decide([]core.Policy{p}, f, noon))
	want := []core.Event{{
		Kind: core.EventHeldBack, Policy: p.ID, Target: m.ID, Node: "m-node", Gate: core.NoOwner, Text: core.Refusal{Gate: core.NoOwner}.Text(),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
}

// TestEventOfANewProblem: another problem of the same policy has an event of its own.
func TestEventOfANewProblem(t *testing.T) {
	var j core.Deduplicator
	f := clusterOf(nil)
	for i, text := range []string{"first", "second"} {
		if got := eventsOfPass(&j, []core.Policy{policy("p", nil, problem(text))}, f, noon); len(got) != 1 {
			t.Errorf("problem %d: told %v, want one", i, got)
		}
	}
}

// TestEventPerTarget: two suspect targets have an event each.
func TestEventPerTarget(t *testing.T) {
	var j core.Deduplicator
	p := []core.Policy{policy("p", all(2))}
	one := clusterOf([]core.Target{machine("a", ready("False", noon)), machine("b")})
	two := clusterOf([]core.Target{machine("b", ready("False", noon)), machine("a", ready("False", noon))})
	eventsOfPass(&j, p, one, noon)
	if got := eventsOfPass(&j, p, two, noon); len(got) != 1 {
		t.Errorf("told %v, want b alone: a was told, and its index means nothing", got)
	}
}

// TestEventPerState: a state that a decision has twice has one event.
func TestEventPerState(t *testing.T) {
	p := []core.Policy{policy("p", []int{0})}
	f := clusterOf([]core.Target{machine("m", dead)})
	held := core.Refusal{Gate: core.NoOwner}
	d := core.Decision{Tallies: make([]core.Tally, 1), Refusals: []core.Refusal{held, held}}
	d.Tallies[0].Permitted = true
	var j core.Deduplicator
	if got := j.NewEvents(p, &f, d); len(got) != 1 {
		t.Errorf("the events are %+v", got)
	}
}

// TestEventOfADryRunNamesItsRemedy: that is the remedy of the first step, if there is one.
func TestEventOfADryRunNamesItsRemedy(t *testing.T) {
	p := []core.Policy{policy("p", []int{0}, dryRun)}
	f := clusterOf([]core.Target{machine("m", dead)})
	for want, steps := range map[string][]core.Step{"": nil, "Ask": {{Remedy: "Ask"}}, "First": {{Remedy: "First"}, {Remedy: "Second"}}} {
		d := core.Decision{Tallies: make([]core.Tally, 1), DryRunStarts: []core.Start{{Steps: steps}}}
		d.Tallies[0].Permitted = true
		var j core.Deduplicator
		if got := j.NewEvents(p, &f, d); len(got) != 1 || got[0].Remedy != want {
			t.Errorf("the events are %+v, want one of remedy %q", got, want)
		}
	}
}

// TestEventOfAStuckRequestNamesItsNode: a request about a node has the node's name in its event.
func TestEventOfAStuckRequestNamesItsNode(t *testing.T) {
	p := []core.Policy{policy("p", nil)}
	for _, target := range []core.Target{aNode("n"), machine("m")} {
		f := core.Cluster{Requests: []core.Request{markOn(target, noon)}}
		d := core.Decision{Tallies: make([]core.Tally, 1), Stuck: []core.Stuck{{}, {Policy: -1}}}
		d.Tallies[0].Permitted = true
		want := ""
		if target.ID.Kind == "Node" {
			want = "n"
		}
		var j core.Deduplicator
		if got := j.NewEvents(p, &f, d); len(got) != 1 || got[0].Kind != core.EventStuck || got[0].Node != want {
			t.Errorf("the events about %s are %+v, want node %q", target.ID, got, want)
		}
	}
}
