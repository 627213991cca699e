package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

func TestRunningRepair(t *testing.T) {
	sick, p := machine("m", dead), policy("p", []int{0})
	type want struct {
		Acts    int
		Ends    []core.Outcome
		Refused []core.Gate
	}
	withdrawn, recovered, succeeded := []core.Outcome{core.Withdrawn}, []core.Outcome{core.Recovered}, []core.Outcome{core.Succeeded}
	other := policy("other", []int{0}, since(ago(48*time.Hour)))
	cases := map[string]struct {
		reason   string
		policies []core.Policy
		targets  []core.Target
		repair   core.Repair
		want     want
	}{
		"not begun, and still requested": {"it begins", []core.Policy{p}, []core.Target{sick}, repair(sick, p), want{Acts: 1}},
		"begun":                          {"it goes on to its own end", []core.Policy{p}, []core.Target{machine("m", dead, deleting)}, repair(sick, p), want{}},
		"begun, and healthy since":       {"a deletion can't be undone", []core.Policy{p}, []core.Target{machine("m", deleting)}, repair(sick, p), want{}},
		"begun, and the policy gone":     {"it goes on to its own end", nil, []core.Target{machine("m", dead, deleting)}, repair(sick, p), want{}},
		"the target gone":                {"its owner replaces it", []core.Policy{p}, []core.Target{machine("new")}, repair(sick, p), want{Ends: succeeded}},
		"a namesake":                     {"another UID is another target", []core.Policy{p}, []core.Target{machine("m", func(t *core.Target) { t.ID.UID = "2" })}, repair(sick, p), want{Ends: succeeded}},
		"healthy again":                  {"nothing was done to it", []core.Policy{p}, []core.Target{machine("m")}, repair(sick, p), want{Ends: recovered}},
		"suspect again":                  {"its clock started anew", []core.Policy{p}, []core.Target{machine("m", ready("False", noon))}, repair(sick, p), want{Ends: recovered}},
		"unknown":                        {"it waits for facts", []core.Policy{p}, []core.Target{machine("m", nodeIs(core.NodeUnseen))}, repair(sick, p), want{}},
		"policy gone":                    {"no policy asks", nil, []core.Target{sick}, repair(sick, p), want{Ends: withdrawn}},
		"policy deselects":               {"no policy asks", []core.Policy{policy("p", nil)}, []core.Target{sick}, repair(sick, p), want{Ends: withdrawn}},
		"policy made anew":               {"a namesake asks for itself", []core.Policy{policy("p", []int{0}, func(p *core.Policy) { p.ID.UID = "2" })}, []core.Target{sick}, repair(sick, p), want{Ends: withdrawn}},
		"policy turned to a dry run":     {"it has no effect any more", []core.Policy{policy("p", []int{0}, dryRun)}, []core.Target{sick}, repair(sick, p), want{Ends: withdrawn}},
		"an older policy came":           {"who began leads to the end", []core.Policy{other, p}, []core.Target{sick}, repair(sick, p), want{Acts: 1}},
		"not begun, short-circuited":     {"requested again from the start", []core.Policy{policy("p", []int{0}, maxUnhealthy(core.Count(0)))}, []core.Target{sick}, repair(sick, p), want{Refused: []core.Gate{core.TooManyUnhealthy}}},
		"not begun, paused":              {"requested again from the start", []core.Policy{policy("p", []int{0}, paused)}, []core.Target{sick}, repair(sick, p), want{Refused: []core.Gate{core.PolicyPaused}}},
		"healthy, paused":                {"I12: no gate holds back recovery", []core.Policy{policy("p", []int{0}, paused)}, []core.Target{machine("m")}, repair(sick, p), want{Ends: recovered}},
		"healthy, pausing":               {"I12: no pause does", []core.Policy{p}, []core.Target{machine("m")}, repair(sick, p, attempts(3, noon)), want{Ends: recovered}},
		"not begun, node read long ago":  {"nothing on a cached word", []core.Policy{p}, []core.Target{machine("m", dead, readAt(time.Time{}))}, repair(sick, p), want{Refused: []core.Gate{core.Unconfirmed}}},
		"refused a moment ago":           {"after a pause", []core.Policy{p}, []core.Target{sick}, repair(sick, p, attempts(1, ago(999*time.Millisecond))), want{Refused: []core.Gate{core.AttemptPause}}},
		"refused a second ago":           {"the pause is over", []core.Policy{p}, []core.Target{sick}, repair(sick, p, attempts(1, ago(time.Second))), want{Acts: 1}},
		"refused often":                  {"at most five minutes", []core.Policy{p}, []core.Target{sick}, repair(sick, p, attempts(99, ago(patience))), want{Acts: 1}},
		"refused by a clock ahead":       {"clocks differ a little", []core.Policy{p}, []core.Target{sick}, repair(sick, p, attempts(1, noon.Add(time.Minute))), want{Refused: []core.Gate{core.AttemptPause}}},
		"no place":                       {"it has its place, and there is none", []core.Policy{policy("p", []int{0}, maxInFlight(core.Count(0)))}, []core.Target{sick}, repair(sick, p), want{Refused: []core.Gate{core.InFlightLimit}}},
		"ended":                          {"the past", []core.Policy{policy("p", []int{0}, paused)}, []core.Target{sick}, repair(sick, p, ended(noon)), want{Refused: []core.Gate{core.PolicyPaused}}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := core.Decide(c.policies, clusterOf(c.targets, c.repair), noon)
			got := want{Acts: len(d.StepStarts), Refused: refusedBy(d, 0)}
			for _, f := range d.Finishes {
				got.Ends = append(got.Ends, f.Outcome)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if len(d.Starts) > 0 {
				t.Errorf("%s: %v start, though the target has or had its repair", c.reason, begun(d))
			}
		})
	}
}

func TestAttemptPausesDouble(t *testing.T) {
	m, p := machine("m", dead), policy("p", []int{0})
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute} {
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m}, repair(m, p, attempts(n, noon))), noon)
		if !d.NextAt.Equal(noon.Add(want)) {
			t.Errorf("after %d refused calls the next is at %v, want after %v", n, d.NextAt, want)
		}
	}
}

// TestDuplicateRepairs: of two running repairs of one target the older one stays.
func TestDuplicateRepairs(t *testing.T) {
	m, p := machine("m", dead), policy("p", []int{0})
	older := repair(m, p, number(2), started(ago(2*time.Minute)))
	younger := repair(m, p, number(1), started(ago(time.Minute)))
	for name, target := range map[string]core.Target{"not begun": m, "begun": machine("m", dead, deleting)} {
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{target}, younger, older), noon)
		want := []core.Finish{{Repair: 0, Outcome: core.Withdrawn, Reason: core.OlderRepairOfTarget, Text: "an older repair of the same target is running"}}
		if diff := cmp.Diff(want, d.Finishes); diff != "" {
			t.Errorf("%s: finishes (-want +got):\n%s", name, diff)
		}
	}
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m}, younger, older), noon)
	if len(d.StepStarts) != 1 || d.StepStarts[0].Repair != 1 {
		t.Errorf("acts %v, want the older repair alone", d.StepStarts)
	}
}

// TestRepairsNotBegunDoNotWaitForEachOther: two repairs are recorded, neither has begun, and the
// limit allows one. The limit was lowered, or two leaders recorded one each. The older goes first.
func TestRepairsNotBegunDoNotWaitForEachOther(t *testing.T) {
	one := func(changes ...func(*core.Target)) core.Decision {
		a, b := machine("a", append(changes, dead)...), machine("b", append(changes, dead)...)
		p := policy("p", all(2))
		f := clusterOf([]core.Target{a, b}, repair(a, p, started(ago(time.Minute))), repair(b, p, started(ago(2*time.Minute))))
		quorumOf(&f, core.Yes)
		return core.Decide([]core.Policy{p}, f, noon)
	}
	for name, d := range map[string]core.Decision{"workers": one(), "control plane": one(controlPlane)} {
		if len(d.StepStarts) != 1 || d.StepStarts[0].Target != 1 {
			t.Errorf("%s: acts %v, want the older repair, of target 1; refusals: %v", name, d.StepStarts, d.Refusals)
		}
	}
}

// TestNumbersGoOn: the next repair of a target has the next number, whatever became of the others.
func TestNumbersGoOn(t *testing.T) {
	m, p := machine("m", dead), policy("p", []int{0})
	cases := map[string]struct {
		repairs []core.Repair
		want    int
	}{
		"the first":            {nil, 1},
		"after the first":      {[]core.Repair{repair(m, p, ended(noon))}, 2},
		"after a gap":          {[]core.Repair{repair(m, p, number(7), ended(noon)), repair(m, p, number(3), ended(noon))}, 8},
		"a foreign name":       {[]core.Repair{repair(m, p, ended(noon), func(r *core.Repair) { r.Name = "by-hand" })}, 1},
		"a name without dash":  {[]core.Repair{repair(m, p, ended(noon), func(r *core.Repair) { r.Name = "5" })}, 6},
		"of another target":    {[]core.Repair{repair(machine("n"), p, number(9), ended(noon))}, 1},
		"no number to be had":  {[]core.Repair{repair(m, p, ended(noon), func(r *core.Repair) { r.Name = "" })}, 1},
		"the last of all":      {[]core.Repair{repair(m, p, ended(noon), func(r *core.Repair) { r.Name = "m-9223372036854775807" })}, 1},
		"a number that is big": {[]core.Repair{repair(m, p, ended(noon), func(r *core.Repair) { r.Name = "m-99999999999999999999" })}, 1},
	}
	for sentence, c := range cases {
		for i := range c.repairs {
			c.repairs[i].Owner = core.ID{}
		}
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m}, c.repairs...), noon)
		if len(d.Starts) != 1 || d.Starts[0].Name != core.RepairName(m.ID, c.want) {
			t.Errorf("%s: starts %v, want one named %s", sentence, d.Starts, core.RepairName(m.ID, c.want))
		}
	}
}

// TestStepThatDestroysNeedsNoSecondPlace: a running repair has its place in flight. A further step
// that deletes the target waits for other repairs, and not for its own.
func TestStepThatDestroysNeedsNoSecondPlace(t *testing.T) {
	ask := core.Step{Remedy: "Ask", Nature: core.CreateRequest, Template: core.Reference{Kind: "Fix", Name: "one"}, Limit: time.Minute}
	p := policy("p", all(2), func(p *core.Policy) { p.Steps = []core.Step{ask, {Remedy: "Delete"}} })
	sick := machine("m", dead)
	request := core.Request{
		ID: core.ID{Kind: "Fix", Name: "one-m", UID: "request"}, Remedy: "Ask", Template: ask.Template, Target: sick.ID, Policy: p.ID,
		Created: ago(2 * time.Minute), Own: true,
	}
	for other, want := range map[string]int{"well": 1, "leaving": 0} {
		second := machine("other")
		if other == "leaving" {
			second = machine("other", dead, deleting)
		}
		f := clusterOf([]core.Target{sick, second}, repair(sick, p, started(ago(2*time.Minute))))
		f.Requests = []core.Request{request}
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Escalations) != want {
			t.Errorf("while the other one is %s: it advances %d times, and is refused by %v", other, len(d.Escalations), refusedBy(d, 0))
		}
	}
}
