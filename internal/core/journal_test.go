package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// told gives the kinds of what a pass has to tell.
func told(j *core.Journal, policies []core.Policy, f core.Fleet, now time.Time) []core.HappeningKind {
	var kinds []core.HappeningKind
	for _, h := range j.News(policies, &f, core.Decide(policies, f, now)) {
		kinds = append(kinds, h.Kind)
	}
	return kinds
}

// TestJournal: a state is told when it begins, not again while it lasts, and again when it has
// ended and begins anew.
func TestJournal(t *testing.T) {
	well := fleet([]core.Target{machine("m"), machine("n")})
	with := func(t core.Target) core.Fleet { return fleet([]core.Target{t, machine("n")}) }
	plain := []core.Policy{policy("p", all(2))}
	policies := func(changes ...func(*core.Policy)) []core.Policy {
		return []core.Policy{policy("p", all(2), changes...)}
	}
	orphan := with(machine("m", dead, ownedBy(core.ID{})))
	cases := map[string]struct {
		reason   string
		policies []core.Policy
		during   core.Fleet
		after    []core.Policy
		want     []core.HappeningKind
	}{
		"suspected":        {"a grace period begins", plain, with(machine("m", ready("False", noon))), plain, []core.HappeningKind{core.Suspected}},
		"a first start":    {"a machine that boots has its time", plain, with(machine("m", awaited(noon))), plain, nil},
		"no startup limit": {"time won't make it unhealthy", policies(anyStartup), with(machine("m", awaited(noon))), plain, nil},
		"claimed":          {"whoever repairs it is at work, and its node is well", plain, with(machine("m", claimed)), plain, nil},
		"claimed and sick": {"a grace period begins", plain, with(machine("m", claimed, ready("False", noon))), plain, []core.HappeningKind{core.Suspected}},
		"unhealthy":        {"it is repaired, and that is told", plain, with(machine("m", dead)), plain, nil},
		"unhealthy, aloud": {"no grace period has told it", policies(tellsUnhealthy), with(machine("m", dead)), plain, []core.HappeningKind{core.Suspected}},
		"unreadable":       {"somebody must do something", plain, with(machine("m", dead, unreadable("phase"))), plain, []core.HappeningKind{core.Unreadable}},
		"restricted":       {"a short circuit begins", policies(maxUnhealthy(core.Count(0))), with(machine("m", dead)), plain, []core.HappeningKind{core.Restricted}},
		"tight":            {"whoever is not healthy counts", policies(maxUnhealthy(core.Count(0))), with(machine("m", awaited(noon))), plain, []core.HappeningKind{core.Restricted}},
		"nobody failed":    {"somebody is being made", policies(maxUnhealthy(core.Count(0)), quiet), with(machine("m", awaited(noon))), plain, nil},
		"quiet, and none":  {"somebody is leaving", policies(maxUnhealthy(core.Count(0)), quiet), with(machine("m", dead, deleting)), plain, nil},
		"one has failed":   {"it would be repaired", policies(maxUnhealthy(core.Count(0)), quiet), with(machine("m", dead)), plain, []core.HappeningKind{core.Restricted}},
		"nobody to repair": {"a range in which nobody is holds nothing back", policies(inRange(1, 3)), well, plain, nil},
		"misconfigured":    {"a policy breaks", policies(problem("broken")), well, plain, []core.HappeningKind{core.Misconfigured}},
		"no owner":         {"somebody must do something", plain, orphan, plain, []core.HappeningKind{core.Held}},
		"no remedy":        {"somebody must do something", policies(noLadder), with(machine("m", dead)), plain, []core.HappeningKind{core.Held}},
		"quorum unknown":   {"somebody must do something", plain, with(machine("m", dead, controlPlane)), plain, []core.HappeningKind{core.Held}},
		"template gone":    {"somebody must do something", policies(unusable), with(machine("m", dead)), plain, []core.HappeningKind{core.Held}},
		"template unread":  {"it may be there", policies(unusable, unread), with(machine("m", dead)), plain, nil},
		"a dry run":        {"what would be done", policies(dryRun), with(machine("m", dead)), plain, []core.HappeningKind{core.Rehearsed}},
		"paused":           {"whoever paused it knows", policies(paused), with(machine("m", dead)), plain, nil},
		"paused and tight": {"whoever paused it knows", policies(paused, maxUnhealthy(core.Count(0))), with(machine("m", dead)), plain, nil},
		"waiting its turn": {"it will come", policies(maxInFlight(core.Count(0))), with(machine("m", dead)), plain, nil},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			var j core.Journal
			for i, pass := range []struct {
				policies []core.Policy
				fleet    core.Fleet
				want     []core.HappeningKind
			}{{c.policies, c.during, c.want}, {c.policies, c.during, nil}, {c.after, well, nil}, {c.policies, c.during, c.want}} {
				if diff := cmp.Diff(pass.want, told(&j, pass.policies, pass.fleet, noon)); diff != "" {
					t.Errorf("%s: pass %d (-want +got):\n%s", c.reason, i, diff)
				}
			}
		})
	}
}

func anyStartup(p *core.Policy)     { p.Criteria.NodeStartup = 0 }
func tellsUnhealthy(p *core.Policy) { p.TellsUnhealthy = true }

// TestJournalTellsOfOneIllnessOnce, however it goes on: a grace period, its end, and a repair.
func TestJournalTellsOfOneIllnessOnce(t *testing.T) {
	suspect, sick := machine("m", ready("False", noon)), machine("m", dead)
	p := []core.Policy{policy("p", []int{0}, tellsUnhealthy)}
	under := repair(sick, p[0], started(noon))
	tells := func(sentence string, j *core.Journal, target core.Target, want int, repairs ...core.Repair) {
		t.Helper()
		f := fleet([]core.Target{target}, repairs...)
		found := 0
		for _, h := range j.News(p, &f, core.Decide(p, f, noon)) {
			if h.Kind == core.Suspected {
				found++
			}
		}
		if found != want {
			t.Errorf("%s: told %d times, want %d", sentence, found, want)
		}
	}
	var j core.Journal
	tells("it may become unhealthy", &j, suspect, 1)
	tells("it is", &j, sick, 0)
	tells("its repair begins", &j, sick, 0, under)
	tells("its repair is deleted", &j, sick, 0)
	tells("it is well", &j, machine("m"), 0)
	tells("it fails anew", &j, sick, 1)

	var afterwards core.Journal
	tells("whoever leads next finds the repair", &afterwards, sick, 0, under)
	tells("and that it is deleted", &afterwards, sick, 0)
}

// unusable is a policy with a step that can't be taken; of one that is unread that is not known yet.
func unusable(p *core.Policy) {
	p.Ladder = []core.Step{{Remedy: "ask", Nature: core.Requests, Problem: "the template is missing", Missing: true}}
}

func unread(p *core.Policy) { p.Ladder[0].Pending = true }

func inRange(from, to int) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{Range: &core.Range{From: from, To: to}} }
}

// quiet policies tell that the short circuit holds only when somebody fails.
func quiet(p *core.Policy) { p.QuietWhileNoneFails = true }

// TestJournalTellsOfTheFirstFailure: a short circuit that has held before anybody failed is told of then.
func TestJournalTellsOfTheFirstFailure(t *testing.T) {
	var j core.Journal
	p := []core.Policy{policy("p", all(2), quiet, maxUnhealthy(core.Count(0)))}
	f := fleet([]core.Target{machine("a", ready("False", noon)), machine("b", ready("False", noon))})
	for i, pass := range []struct {
		now  time.Time
		want []core.HappeningKind
	}{
		{noon, []core.HappeningKind{core.Suspected, core.Suspected}},
		{noon.Add(patience), []core.HappeningKind{core.Restricted}},
		{noon.Add(2 * patience), nil},
	} {
		if diff := cmp.Diff(pass.want, told(&j, p, f, pass.now)); diff != "" {
			t.Errorf("pass %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestJournalNamesWhatItIsAbout(t *testing.T) {
	var j core.Journal
	p := policy("p", []int{0})
	m := machine("m", dead, ownedBy(core.ID{}))
	f := fleet([]core.Target{m})
	got := j.News([]core.Policy{p}, &f, core.Decide([]core.Policy{p}, f, noon))
	want := []core.Happening{{
		Kind: core.Held, Policy: p.ID, Target: m.ID, Node: "m-node", Gate: core.NoOwner, Text: core.Refusal{Gate: core.NoOwner}.Text(),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("news (-want +got):\n%s", diff)
	}
}

// TestJournalTellsANewProblem: it is another one, though the policy is the same.
func TestJournalTellsANewProblem(t *testing.T) {
	var j core.Journal
	f := fleet(nil)
	for i, text := range []string{"first", "second"} {
		if got := told(&j, []core.Policy{policy("p", nil, problem(text))}, f, noon); len(got) != 1 {
			t.Errorf("problem %d: told %v, want one", i, got)
		}
	}
}

// TestJournalTellsOfEachTarget: two grace periods are two states.
func TestJournalTellsOfEachTarget(t *testing.T) {
	var j core.Journal
	p := []core.Policy{policy("p", all(2))}
	one := fleet([]core.Target{machine("a", ready("False", noon)), machine("b")})
	two := fleet([]core.Target{machine("b", ready("False", noon)), machine("a", ready("False", noon))})
	told(&j, p, one, noon)
	if got := told(&j, p, two, noon); len(got) != 1 {
		t.Errorf("told %v, want b alone: a was told, and its index means nothing", got)
	}
}
