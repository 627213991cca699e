package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// fourOfFive is a policy whose five nodes must stay four.
func fourOfFive(p *core.Policy) {
	most := core.Percent(80)
	p.ShortCircuit = core.ShortCircuit{MinHealthy: &most}
}

func young(t *core.Target) { t.Created = ago(time.Minute) }

// behindWorld has a repair whose node is gone, a replacement that is healthy, and a node that fails next.
func behindWorld(p core.Policy, requests ...core.Request) core.Cluster {
	targets := []core.Target{aNode("b", dead), aNode("c"), aNode("d"), aNode("e"), aNode("f", young)}
	r := repair(aNode("a"), p, started(ago(time.Hour)), gaveUp(ago(30*time.Minute)))
	return core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: targets, Repairs: []core.Repair{r}, Requests: requests}
}

// TestGoneTargetEndsItsRepair: a request that its remediator does not let go of keeps no repair of a gone target running.
func TestGoneTargetEndsItsRepair(t *testing.T) {
	p := check("p", []int{0, 1, 2, 3, 4}, escalating, fourOfFive)
	a := aNode("a")
	stuck := requestFor(p, a, rebooting, says(core.No), leaving)
	stops := func(q *core.Request) { q.Stopped = ago(time.Minute) }
	unseen := func(q *core.Request) { q.ID.UID = "" }
	for name, c := range map[string]struct {
		requests []core.Request
		outcome  core.Outcome
	}{
		"replaced, and the first step is stuck": {[]core.Request{stuck, requestFor(p, a, reprovisioning, replaces, says(core.Yes))}, core.Succeeded},
		"succeeded, and expects no replacement": {[]core.Request{stuck, requestFor(p, a, reprovisioning, says(core.Yes))}, core.Succeeded},
		"the remediator failed":                 {[]core.Request{stuck, requestFor(p, a, reprovisioning, replaces, says(core.No))}, core.Withdrawn},
		"the remediator was told to stop":       {[]core.Request{requestFor(p, a, reprovisioning, replaces, stops)}, core.Withdrawn},
		"its time is over":                      {[]core.Request{requestFor(p, a, reprovisioning, replaces, requestedAt(ago(time.Hour)))}, core.Withdrawn},
		"it is stuck alone":                     {[]core.Request{stuck}, core.Withdrawn},
		"nothing stands":                        {nil, core.Withdrawn},
		"the replacement has yet to come":       {[]core.Request{stuck, requestFor(p, a, reprovisioning, replaces)}, 0},
		"the request has not been seen":         {[]core.Request{requestFor(p, a, reprovisioning, unseen)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := behindWorld(p, c.requests...)
			d := core.Decide([]core.Policy{p}, f, noon)
			got := core.Outcome(0)
			if len(d.Finishes) > 0 {
				got = d.Finishes[0].Outcome
			}
			if got != c.outcome {
				t.Errorf("it ends as %s, want %s: %q", got, c.outcome, actionTexts(f, d))
			}
			if saysReplaced := got == core.Succeeded && strings.Contains(d.Finishes[0].Text, "had it replaced"); saysReplaced != strings.HasPrefix(name, "replaced, and") {
				t.Errorf("it ends as %s, since %q", got, d.Finishes[0].Text)
			}
			for _, q := range c.requests {
				if taken := slices.ContainsFunc(d.Withdrawals, func(w core.Withdrawal) bool { return f.Requests[w.Request].ID == q.ID }); c.outcome != 0 && !q.Leaving && !taken {
					t.Errorf("%s is not withdrawn", q.ID)
				}
			}
		})
	}
}

// TestNamesakeIsAReplacement: a node that has come back under its name replaces the former node, once it is healthy.
func TestNamesakeIsAReplacement(t *testing.T) {
	p := check("p", []int{0}, escalating)
	for want, state := range map[core.Outcome]func(*core.Target){core.Succeeded: func(*core.Target) {}, 0: dead} {
		again := aNode("a", func(t *core.Target) { t.ID.UID = "later" }, state)
		f := with([]core.Target{again}, []core.Repair{repair(aNode("a"), p, started(ago(time.Minute)), gaveUp(ago(time.Minute)))}, requestFor(p, aNode("a"), reprovisioning, replaces))
		f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
		d := core.Decide([]core.Policy{p}, f, noon)
		got := core.Outcome(0)
		if len(d.Finishes) > 0 {
			got = d.Finishes[0].Outcome
		}
		if got != want {
			t.Errorf("it ends as %s, want %s: %q", got, want, actionTexts(f, d))
		}
	}
}

// TestReplacementWaitsForTheRemediatorAtWork: a node that has come back under its name, and its machine, get no repair
// of their own while the remediator of the former node is at work (I2). The name of its request is taken, too.
func TestReplacementWaitsForTheRemediatorAtWork(t *testing.T) {
	p := check("p", []int{0}, classic)
	again := aNode("a", func(t *core.Target) { t.ID.UID = "later" }, dead)
	ofAgain := machine("m", dead, func(t *core.Target) { t.Node.Name = "a" })
	former := []core.Repair{repair(aNode("a"), p, started(ago(time.Minute)))}
	replacing := requestFor(p, aNode("a"), rebooting, replaces)
	second := requestFor(p, aNode("a"), reprovisioning, replaces)
	brief := check("p", []int{0}, func(p *core.Policy) { p.Steps = []core.Step{ask(rebooting, patience)} })
	limited := []core.Repair{repair(aNode("a"), brief, started(ago(time.Hour)))}
	late := requestFor(p, aNode("a"), rebooting, replaces, requestedAt(ago(time.Hour)))
	for name, c := range map[string]struct {
		targets  []core.Target
		repairs  []core.Repair
		requests []core.Request
		want     []string
	}{
		"its request stands":                 {[]core.Target{again}, former, []core.Request{replacing}, []string{"AnotherRemediator holds back a"}},
		"its time is over":                   {[]core.Target{again}, limited, []core.Request{late}, []string{"end a: Withdrawn", "start a", "withdraw aRebootTemplate"}},
		"it is about a node that is there":   {[]core.Target{ofAgain, aNode("a")}, nil, []core.Request{replacing}, []string{"start m", "withdraw aRebootTemplate"}},
		"two requests":                       {[]core.Target{again}, former, []core.Request{replacing, second}, []string{"AnotherRemediator holds back a"}},
		"its repair was deleted":             {[]core.Target{again}, nil, []core.Request{replacing}, []string{"AnotherRemediator holds back a"}},
		"it asks for the machine":            {[]core.Target{ofAgain}, former, []core.Request{replacing}, []string{"AnotherRemediator holds back m"}},
		"the new node was recorded already":  {[]core.Target{again}, append(former, repair(again, p)), []core.Request{replacing}, []string{"AnotherRemediator holds back a"}},
		"it has failed":                      {[]core.Target{again}, former, []core.Request{requestFor(p, aNode("a"), rebooting, replaces, says(core.No))}, []string{"end a: Withdrawn", "start a", "withdraw aRebootTemplate"}},
		"it leaves":                          {[]core.Target{again}, nil, []core.Request{requestFor(p, aNode("a"), rebooting, replaces, leaving)}, []string{"start a"}},
		"Fettle did not make it":             {[]core.Target{again}, nil, []core.Request{requestFor(p, aNode("a"), rebooting, replaces, foreign)}, []string{"start a"}},
		"it replaces another node":           {[]core.Target{again}, nil, []core.Request{requestFor(p, aNode("b"), rebooting, replaces)}, []string{"start a"}},
		"it expects no replacement":          {[]core.Target{again}, nil, []core.Request{requestFor(p, aNode("a"), rebooting)}, []string{"AnotherRemediator holds back a", "withdraw aRebootTemplate"}},
		"it replaces a machine":              {[]core.Target{machine("m", dead, func(t *core.Target) { t.ID.UID = "later" })}, nil, []core.Request{requestFor(p, machine("m"), rebooting, replaces)}, []string{"AnotherRemediator holds back m"}},
		"it is about a machine of that name": {[]core.Target{ofAgain}, nil, []core.Request{requestFor(p, machine("a"), rebooting, replaces)}, []string{"start m"}},
	} {
		t.Run(name, func(t *testing.T) {
			remediationCase{name, with(c.targets, c.repairs, c.requests...), c.want, time.Time{}}.run(t, p)
		})
	}
}

// TestReplacementWaitsNoLongerThanTheLimit: a request that belongs to no repair is withdrawn when its step is over, and the
// repair of the next node of that name goes on.
func TestReplacementWaitsNoLongerThanTheLimit(t *testing.T) {
	p := check("p", []int{0}, func(p *core.Policy) { p.Steps = []core.Step{ask(rebooting, patience)} })
	again := aNode("a", func(t *core.Target) { t.ID.UID = "later" }, dead)
	for name, c := range map[string]struct {
		age  time.Duration
		want []string
		next time.Time
	}{
		"in time":          {time.Minute, []string{"AnotherRemediator holds back a"}, noon.Add(patience - time.Minute)},
		"its time is over": {patience, []string{"start a", "withdraw aRebootTemplate"}, time.Time{}},
	} {
		q := requestFor(p, aNode("a"), rebooting, replaces, requestedAt(ago(c.age)))
		remediationCase{name, with([]core.Target{again}, nil, q), c.want, c.next}.run(t, p)
	}
	q := requestFor(p, aNode("a"), rebooting, replaces, requestedAt(ago(patience)))
	f := with([]core.Target{again}, nil, q)
	f.Observed, f.Upgrading, f.ClockAgrees = core.Yes, core.No, core.No
	if d := core.Decide([]core.Policy{p}, f, noon); len(d.Withdrawals) > 0 {
		t.Error("by a wrong clock its time is over")
	}
}

// TestReplacementOfADryRun: the remediator of a health check that only rehearses by now is at work all the same.
func TestReplacementOfADryRun(t *testing.T) {
	dry, p := check("p", nil, classic, dryRun), check("q", []int{0}, classic)
	again := aNode("a", func(t *core.Target) { t.ID.UID = "later" }, dead)
	former := repair(aNode("a"), dry, started(ago(time.Minute)))
	q := requestFor(dry, aNode("a"), rebooting, replaces)
	for name, repairs := range map[string][]core.Repair{"its repair ends": {former}, "its repair has ended": nil} {
		f := with([]core.Target{again}, repairs, q)
		f.Observed, f.Upgrading, f.ClockAgrees = core.Yes, core.No, core.Yes
		d := core.Decide([]core.Policy{dry, p}, f, noon)
		if got := actionTexts(f, d); len(d.Starts) > 0 || !slices.Contains(got, "AnotherRemediator holds back a") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestFirstRequestHoldsTheReplacement: in any order of the requests the oldest is named (I7).
func TestFirstRequestHoldsTheReplacement(t *testing.T) {
	p := check("p", []int{0}, classic)
	again := aNode("a", func(t *core.Target) { t.ID.UID = "later" }, dead)
	older := requestFor(p, aNode("a"), rebooting, replaces, requestedAt(ago(time.Hour)), func(q *core.Request) { q.ID.Name = "z" })
	younger := requestFor(p, aNode("a"), reprovisioning, replaces)
	for _, requests := range [][]core.Request{{older, younger}, {younger, older}} {
		f := with([]core.Target{again}, nil, requests...)
		f.Observed, f.Upgrading, f.ClockAgrees = core.Yes, core.No, core.Yes
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Refusals) != 1 || !strings.HasPrefix(d.Refusals[0].Detail, older.ID.String()+" still replaces Node a") {
			t.Errorf("the refusals are %+v", d.Refusals)
		}
	}
}

// TestGoneTargetKeepsItsPlace: until its replacement stands, a target that is gone counts, in a decision as in the
// one before a remedy begins. So nothing is recorded that waits without a word (I3, I9).
func TestGoneTargetKeepsItsPlace(t *testing.T) {
	oneAtATime := func(p *core.Policy) { p.MaxInFlight = core.Count(1) }
	for name, c := range map[string]struct {
		changes  []func(*core.Policy)
		replaced bool
		refusals []string
		detail   string
	}{
		"not replaced, four of five healthy": {[]func(*core.Policy){fourOfFive}, false, []string{"TooManyUnhealthy holds back b"}, "node a is gone"},
		"replaced, four of five healthy":     {[]func(*core.Policy){fourOfFive}, true, []string{"start b"}, ""},
		"replaced, one at a time":            {[]func(*core.Policy){oneAtATime}, true, []string{"InFlightLimit holds back b"}, "node a is gone"},
		"not replaced, one at a time":        {[]func(*core.Policy){oneAtATime}, false, []string{"InFlightLimit holds back b"}, "Request remedies/a"},
	} {
		t.Run(name, func(t *testing.T) {
			p := check("p", []int{0, 1, 2, 3, 4}, append(c.changes, escalating)...)
			f := behindWorld(p, requestFor(p, aNode("a"), reprovisioning, replaces))
			if !c.replaced {
				p.Members, f.Targets = p.Members[:4], f.Targets[:4]
			}
			d := core.Decide([]core.Policy{p}, f, noon)
			if diff := cmp.Diff(c.refusals, actionTexts(f, d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, r := range d.Refusals {
				if !strings.Contains(r.Text(), c.detail) {
					t.Errorf("it does not name what has the place: %s", r.Text())
				}
			}
			if d.Tallies[0].InFlight < 1 {
				t.Errorf("%d are in flight", d.Tallies[0].InFlight)
			}
		})
	}
}

// TestGoneTargetWhoseRequestLeavesHasNoPlace: once the request for a replacement is withdrawn, by a person too, nothing is awaited.
// That its finalizers keep the object holds back no repair.
func TestGoneTargetWhoseRequestLeavesHasNoPlace(t *testing.T) {
	p := check("p", []int{0, 1, 2, 3}, escalating, func(p *core.Policy) { p.MaxInFlight = core.Count(1) })
	f := behindWorld(p, requestFor(p, aNode("a"), reprovisioning, replaces, leaving))
	f.Targets = f.Targets[:4]
	d := core.Decide([]core.Policy{p}, f, noon)
	if diff := cmp.Diff([]string{"end a: Withdrawn", "start b"}, actionTexts(f, d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestI05WrongClockEndsNoReplacement: a target that is gone has its place until its remediator's time is over by a clock that
// agrees (I3).
func TestI05WrongClockEndsNoReplacement(t *testing.T) {
	p := check("p", []int{0, 1, 2, 3}, escalating, func(p *core.Policy) { p.MaxInFlight = core.Count(1) })
	for agrees, wants := range map[core.Tri][]string{
		core.Yes:     {"end a: Withdrawn", "start b", "withdraw aImageTemplate"},
		core.No:      {"ClockSkewed holds back b", "InFlightLimit holds back b"},
		core.Unknown: {"ClockUnknown holds back b", "InFlightLimit holds back b"},
	} {
		f := behindWorld(p, requestFor(p, aNode("a"), reprovisioning, replaces))
		f.Targets, f.ClockAgrees = f.Targets[:4], agrees
		later := noon.Add(time.Hour)
		f.Targets[0].NodeReadAt = later
		d := core.Decide([]core.Policy{p}, f, later)
		if diff := cmp.Diff(wants, actionTexts(f, d)); diff != "" {
			t.Errorf("the clock agrees: %s (-want +got):\n%s", agrees, diff)
		}
	}
}

// TestI4DepartedMembersAreOut: a member of the control plane waits until the replacement of another stands. Of a target that
// was never seen it is not known that it is none.
func TestI4DepartedMembersAreOut(t *testing.T) {
	p := check("p", []int{0, 1, 2, 3, 4}, escalating)
	for worker, want := range map[bool]string{true: "start b", false: "ControlPlaneBusy holds back b"} {
		f := behindWorld(p, requestFor(p, aNode("a"), reprovisioning, replaces))
		f.Targets[0].ControlPlane = true
		f.Workers = map[core.ID]bool{aNode("a").ID: worker}
		quorumOf(&f, core.Yes)
		d := core.Decide([]core.Policy{p}, f, noon)
		if diff := cmp.Diff([]string{want}, actionTexts(f, d)); diff != "" {
			t.Errorf("a worker is gone: %t (-want +got):\n%s", worker, diff)
		}
	}
}

// TestFenceAgreesAboutTheGone: the second decision holds back no start of the first one because the target of another repair is gone.
func TestFenceAgreesAboutTheGone(t *testing.T) {
	p := check("p", []int{0, 1, 2, 3, 4}, escalating, fourOfFive)
	waits := requestFor(p, aNode("a"), reprovisioning, replaces)
	over := requestFor(p, aNode("a"), rebooting, leaving)
	for name, q := range map[string]core.Request{"waits for its replacement": waits, "stuck": over} {
		t.Run(name, func(t *testing.T) {
			f := behindWorld(p, q)
			next := repair(f.Targets[0], p, started(noon))
			next.Sequence = 2
			running := append(slices.Clone(f.Repairs), next)
			policies, fenced := core.Fenced([]core.Policy{p}, f, running)
			d := core.Decide(policies, fenced, noon)
			if !slices.ContainsFunc(d.StepStarts, func(a core.StepStart) bool { return fenced.Repairs[a.Repair].Target.Name == "b" }) {
				t.Errorf("b waits without a word: %q", actionTexts(fenced, d))
			}
		})
	}
}

// TestI9FenceAgreesAboutTheUnseen: a repair of a target that is gone, whose requests can't be seen, counts in the
// decision and in the second one before a remedy begins. It also does once the health check has a step of another
// remediator.
func TestI9FenceAgreesAboutTheUnseen(t *testing.T) {
	most := func(p *core.Policy) { p.MaxInFlight = core.Count(3) }
	p := check("p", all(5), escalating, fourOfFive, most)
	edited := check("p", all(5), classic, fourOfFive, most)
	spelled := check("p", all(5), unparsable, fourOfFive, most)
	other := check("other", all(5), classic, fourOfFive, most)
	for name, policies := range map[string][]core.Policy{"edited": {edited}, "unparsable by now": {spelled, other}} {
		f := behindWorld(p)
		if name == "edited" {
			f.UnlistedTemplates = []core.Reference{{APIVersion: reprovisioning.APIVersion, Kind: reprovisioning.Kind}}
		}
		next := repair(f.Targets[0], edited, started(noon))
		next.Sequence = 2
		before := core.Decide(policies, f, noon)
		after, fenced := core.Fenced(policies, f, append(slices.Clone(f.Repairs), next))
		d := core.Decide(after, fenced, noon)
		for i := range policies {
			if was, is := before.Tallies[i].Unhealthy(), d.Tallies[i].Unhealthy(); was != is {
				t.Errorf("%s: %d count as unhealthy in the decision, and %d at the fence", name, was, is)
			}
		}
		if begins := slices.ContainsFunc(d.StepStarts, func(a core.StepStart) bool { return fenced.Repairs[a.Repair].Target.Name == "b" }); begins != (len(before.Starts) == 1) {
			t.Errorf("%s: it starts %v, and the fence does %q", name, before.Starts, actionTexts(fenced, d))
		}
	}
}

// TestFailsAgainAsItIsRelieved: the failure of a target whose request was withdrawn since it was healthy is another one. The
// same repair makes no second request for it without a pause (I12).
func TestFailsAgainAsItIsRelieved(t *testing.T) {
	p := check("p", []int{0}, classic)
	sick, suspect := aNode("n", dead), aNode("n", ready("False", ago(time.Minute)))
	healed := []core.Repair{repair(sick, p, started(ago(time.Hour)), recovered(ago(time.Second)))}
	for name, c := range map[string]struct {
		world core.Cluster
		wants []string
	}{
		"it has let go":                   {with([]core.Target{sick}, healed), []string{"end n: Succeeded"}},
		"it lets go":                      {with([]core.Target{sick}, healed, requestFor(p, sick, rebooting, leaving)), nil},
		"it lets go, suspected":           {with([]core.Target{suspect}, healed, requestFor(p, sick, rebooting, leaving)), nil},
		"it was not withdrawn yet":        {with([]core.Target{sick}, healed, requestFor(p, sick, rebooting)), []string{"note n: false"}},
		"withdrawn while it is unhealthy": {with([]core.Target{sick}, []core.Repair{repair(sick, p)}), []string{"step 0 for n"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.world
			f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
			d := core.Decide([]core.Policy{p}, f, noon)
			if diff := cmp.Diff(c.wants, actionTexts(f, d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRepeatedFailureKeepsItsDistance from its last repair, however that one ended, and the refusal blames no replacement.
func TestRepeatedFailureKeepsItsDistance(t *testing.T) {
	p := check("p", []int{0}, escalating, func(p *core.Policy) { p.Backoff = core.Backoff{Base: time.Minute, Limit: time.Hour} })
	sick := aNode("n", dead)
	spent := func(r *core.Repair) { r.Outcome = core.Withdrawn }
	for name, changes := range map[string][]func(*core.Repair){
		"it had succeeded":                {},
		"all of its steps had been tried": {gaveUp(ago(2 * time.Minute)), gaveUp(ago(2 * time.Minute)), spent},
	} {
		f := clusterOf([]core.Target{sick}, repair(sick, p, append([]func(*core.Repair){started(ago(time.Hour)), ended(ago(time.Second))}, changes...)...))
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Starts) > 0 || len(d.Refusals) != 1 || d.Refusals[0].Gate != core.BackingOff {
			t.Fatalf("%s: it does %q", name, actionTexts(f, d))
		}
		if text := d.Refusals[0].Text(); strings.Contains(text, "replacement") || !strings.Contains(text, "again within an hour of its last repair") {
			t.Errorf("%s: it says that %s", name, text)
		}
	}
}

// TestStepsThatDidNotHelp: a repair whose steps were all given up did not succeed, whatever made its target healthy.
func TestStepsThatDidNotHelp(t *testing.T) {
	p := check("p", []int{0}, escalating)
	well := aNode("n")
	for want, records := range map[core.Outcome]int{core.Succeeded: 1, core.Withdrawn: 2} {
		changes := []func(*core.Repair){started(ago(time.Hour)), recovered(ago(time.Second))}
		for range records {
			changes = append(changes, gaveUp(ago(time.Minute)))
		}
		f := clusterOf([]core.Target{well}, repair(well, p, changes...))
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Finishes) != 1 || d.Finishes[0].Outcome != want {
			t.Errorf("after %d of 2 steps it ends as %+v", records, d.Finishes)
		}
		if want == core.Withdrawn && !strings.Contains(d.Finishes[0].Text, "by other means") {
			t.Errorf("it says %q", d.Finishes[0].Text)
		}
	}
}

// TestLeftToPeople: a node whose steps were all tried is unhealthy and has no place in flight. Where only a record says so,
// it has its place still (I14), and of the control plane it is out (I4).
func TestLeftToPeople(t *testing.T) {
	stops := func(q *core.Request) { q.Stopped = ago(time.Minute) }
	one := func(p *core.Policy) { p.MaxInFlight = core.Count(1) }
	two := []func(*core.Repair){gaveUp(ago(time.Minute)), gaveUp(ago(time.Minute))}
	exhausted, free, taken := "LadderExhausted holds back a", "start b", "InFlightLimit holds back b"
	unseen := func(r *core.Repair) { r.StepSeen = 1 }
	for name, c := range map[string]struct {
		steps    func(*core.Policy)
		repaired []func(*core.Repair)
		requests []func(*core.Request)
		member   func(*core.Target)
		wants    []string
	}{
		"told to stop":                  {escalating, two, []func(*core.Request){stops}, nil, []string{exhausted, free}},
		"the remediator is done":        {escalating, two, []func(*core.Request){says(core.Yes)}, nil, []string{exhausted, free}},
		"nothing stands any more":       {escalating, two, nil, nil, []string{exhausted, free}},
		"no remediator was told":        {escalating, two, []func(*core.Request){says(core.Unknown)}, nil, []string{taken, exhausted}},
		"one step, which failed":        {classic, nil, []func(*core.Request){says(core.No)}, nil, []string{"give up on a: Failed", free}},
		"one step, which was given up":  {classic, []func(*core.Repair){gaveUpAs(core.Failed)}, []func(*core.Request){says(core.No)}, nil, []string{exhausted, free}},
		"the last was never seen":       {escalating, []func(*core.Repair){gaveUp(ago(time.Hour)), gaveUpAs(core.TimedOut), unseen}, nil, nil, []string{taken, exhausted}},
		"the last, not seen for long":   {escalating, []func(*core.Repair){gaveUp(ago(time.Hour)), gaveUp(ago(time.Minute)), unseen}, nil, nil, []string{exhausted, free}},
		"one step, just done":           {classic, nil, []func(*core.Request){says(core.Yes)}, nil, []string{taken}},
		"one step, done for long":       {classic, nil, []func(*core.Request){says(core.Yes), requestedAt(ago(time.Hour)), succeededAt(ago(10 * time.Minute))}, nil, []string{exhausted, free}},
		"one step, done after long":     {classic, nil, []func(*core.Request){says(core.Yes), requestedAt(ago(time.Hour)), succeededAt(ago(9 * time.Minute))}, nil, []string{taken}},
		"one step, done some time":      {classic, nil, []func(*core.Request){says(core.Yes), requestedAt(ago(10 * time.Minute))}, nil, []string{exhausted, free}},
		"one step, under way":           {classic, nil, []func(*core.Request){says(core.Unknown)}, nil, []string{taken}},
		"one step, not asked for":       {classic, nil, nil, nil, []string{taken, "step 0 for a"}},
		"a step is left":                {escalating, two[:1], []func(*core.Request){stops}, nil, []string{taken, "step 1 for a"}},
		"a member of the control plane": {escalating, two, []func(*core.Request){stops}, controlPlane, []string{"ControlPlaneBusy holds back b", exhausted}},
	} {
		t.Run(name, func(t *testing.T) {
			p := check("p", []int{0, 1}, c.steps, one)
			a, b := aNode("a", dead), aNode("b", dead)
			if c.member != nil {
				c.member(&a)
				c.member(&b)
			}
			f := clusterOf([]core.Target{a, b}, repair(a, p, append(slices.Clone(c.repaired), started(ago(time.Hour)))...))
			quorumOf(&f, core.Yes)
			if len(c.requests) > 0 {
				f.Requests = append(f.Requests, requestFor(p, a, rebooting, c.requests...))
			}
			d := core.Decide([]core.Policy{p}, f, noon)
			got := actionTexts(f, d)
			slices.Sort(c.wants)
			if diff := cmp.Diff(c.wants, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if u := d.Tallies[0].Unhealthy(); u != 2 {
				t.Errorf("%d count as unhealthy", u)
			}
		})
	}
}

// TestLeftToPeopleSaysWhoseItIs: the reason says whether the place of the target is free, and what keeps it if not.
func TestLeftToPeopleSaysWhoseItIs(t *testing.T) {
	stops := func(q *core.Request) { q.Stopped = ago(time.Minute) }
	foreign := func(q *core.Request) { q.Own, q.ID.Name = false, "theirs" }
	two := []func(*core.Repair){gaveUp(ago(time.Minute)), gaveUp(ago(time.Minute))}
	for name, c := range map[string]struct {
		steps    func(*core.Policy)
		repaired []func(*core.Repair)
		requests []func(*core.Request)
		inFlight int
		want     string
	}{
		"both steps": {escalating, two, []func(*core.Request){stops}, 0,
			"all 2 steps of its repair were tried to no avail, so it counts as unhealthy and no longer as under repair; repair it by hand"},
		"one step, and an owner that is not asked": {outside, nil, []func(*core.Request){says(core.No)}, 0,
			"the only step of its repair was tried to no avail, so it counts as unhealthy and no longer as under repair; repair it by hand"},
		"one step": {classic, []func(*core.Repair){gaveUpAs(core.Failed)}, []func(*core.Request){says(core.No)}, 0,
			"the only step of its repair was tried to no avail, so it counts as unhealthy and no longer as under repair; repair it by hand"},
		"another's remediator is at work": {escalating, two, []func(*core.Request){stops, foreign}, 1,
			"all 2 steps of its repair were tried to no avail, so it counts as unhealthy; it counts as under repair until Request remedies/theirs, which Fettle did not make, says how it ended or is gone; repair it by hand"},
		"another's remediator is done": {escalating, two, []func(*core.Request){stops, func(q *core.Request) { foreign(q); says(core.Yes)(q) }}, 0,
			"all 2 steps of its repair were tried to no avail, so it counts as unhealthy and no longer as under repair; repair it by hand"},
	} {
		p := check("p", []int{0}, c.steps)
		a := aNode("a", dead)
		f := clusterOf([]core.Target{a}, repair(a, p, append(slices.Clone(c.repaired), started(ago(time.Hour)))...))
		for _, change := range c.requests {
			f.Requests = append(f.Requests, requestFor(p, a, rebooting, change))
		}
		d := core.Decide([]core.Policy{p}, f, noon)
		if got := d.Tallies[0].InFlight; got != c.inFlight || len(d.Refusals) != 1 || d.Refusals[0].Text() != c.want {
			t.Errorf("%s: %d are in flight, want %d, and it is told by %+v", name, got, c.inFlight, d.Refusals)
		}
	}
}

// TestI05WrongClockLeavesNothingToPeople: a remediator that is done has its time by a clock that agrees.
func TestI05WrongClockLeavesNothingToPeople(t *testing.T) {
	p := check("p", []int{0, 1}, classic, func(p *core.Policy) { p.MaxInFlight = core.Count(1) })
	a, b := aNode("a", dead), aNode("b", dead)
	for agrees, want := range map[core.Tri]int{core.Yes: 0, core.No: 1, core.Unknown: 1} {
		f := clusterOf([]core.Target{a, b}, repair(a, p, started(ago(time.Hour))))
		f.Requests, f.ClockAgrees = []core.Request{requestFor(p, a, rebooting, says(core.Yes), requestedAt(ago(time.Hour)))}, agrees
		if d := core.Decide([]core.Policy{p}, f, noon); d.Tallies[0].InFlight-len(d.Starts) != want {
			t.Errorf("the clock agrees: %s, %d in flight: %q", agrees, d.Tallies[0].InFlight, actionTexts(f, d))
		}
	}
	f := clusterOf([]core.Target{a, b}, repair(a, p, started(ago(time.Hour))))
	f.Requests = []core.Request{requestFor(p, a, rebooting, says(core.Yes))}
	if d := core.Decide([]core.Policy{p}, f, noon); !d.NextAt.Equal(noon.Add(9 * time.Minute)) {
		t.Errorf("it looks again at %s", d.NextAt)
	}
}

// TestExhaustedRepairFreesOnePlace: two repairs that are left to people, and whose entries alone are left, free no place for
// more than the limit.
func TestExhaustedRepairFreesOnePlace(t *testing.T) {
	p := check("p", []int{0, 1, 2, 3}, escalating, func(p *core.Policy) { p.MaxInFlight = core.Count(1) })
	targets := []core.Target{aNode("a", dead), aNode("b", dead), aNode("c", dead), aNode("d", dead)}
	spent := []func(*core.Repair){started(ago(time.Hour)), gaveUp(ago(time.Minute)), gaveUp(ago(time.Minute))}
	f := clusterOf(targets, repair(targets[2], p, started(ago(2*time.Hour))), repair(targets[0], p, spent...), repair(targets[1], p, spent...), repair(targets[3], p, started(ago(90*time.Minute))))
	d := core.Decide([]core.Policy{p}, f, noon)
	if len(d.StepStarts) != 1 || d.Tallies[0].InFlight != 2 {
		t.Errorf("%d are in flight: %q", d.Tallies[0].InFlight, actionTexts(f, d))
	}
}

// TestI3SpentRepairHidesNoMark: a repair of a node that is left to people frees the place of the node. Its machine keeps its own
// place while a mark for its owner stands.
func TestI3SpentRepairHidesNoMark(t *testing.T) {
	stops := func(q *core.Request) { q.Stopped = ago(time.Minute) }
	one := func(p *core.Policy) { p.MaxInFlight = core.Count(1) }
	for given, places := range map[int][]int{1: {1, 1}, 2: {0, 1}} {
		m, other := machine("m", dead), machine("o", dead)
		n := aNode("m-node", dead)
		nodes, owners := check("nodes", []int{1}, escalating, one), policy("owners", []int{0, 2}, asksOwner, one)
		r := repair(n, nodes, started(ago(time.Hour)))
		for range given {
			gaveUp(ago(time.Minute))(&r)
		}
		f := with([]core.Target{m, n, other}, []core.Repair{r}, markOn(m, ago(time.Hour)), requestFor(nodes, n, reprovisioning, stops))
		f.Observed, f.ClockAgrees = core.Yes, core.Yes
		d := core.Decide([]core.Policy{nodes, owners}, f, noon)
		if got := []int{d.Tallies[0].InFlight, d.Tallies[1].InFlight}; !slices.Equal(got, places) || len(d.Starts) > 0 {
			t.Errorf("%d of 2 steps given up: %d are in flight, want %d: %q", given, got, places, actionTexts(f, d))
		}
	}
}

// TestDepartedAreListed: the requests for a target that is gone are reported by its name until they are gone, by UID.
func TestDepartedAreListed(t *testing.T) {
	p, other := check("p", []int{0}, escalating), check("other", nil, escalating)
	again := aNode("a", func(t *core.Target) { t.ID.UID = "later" })
	f := behindWorld(p, requestFor(p, aNode("a"), rebooting, leaving), requestFor(p, aNode("a"), reprovisioning, replaces), requestFor(p, again, rebooting))
	f.Targets = append(f.Targets[1:], again)
	p.Members = []int{0, 1, 2, 3, 4}
	d := core.Decide([]core.Policy{p, other}, f, noon)
	reports := d.Reports([]core.Policy{p, other}, &f)
	var got []string
	for _, c := range reports[0].Members {
		line := c.Health.String() + " " + c.Target.UID
		for _, q := range c.Requests {
			line += " " + q.ID.UID
		}
		got = append(got, line)
	}
	want := []string{"gone a-uid aRebootTemplate aImageTemplate", "suspect later aRebootTemplate"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	if len(reports[1].Members) > 0 {
		t.Errorf("the other policy has %+v", reports[1].Members)
	}
}

// listedFor returns the cases of a report, one line each.
func listedFor(r core.PolicyReport) []string {
	var lines []string
	for _, c := range r.Members {
		line := c.Health.String() + " " + c.Target.Name
		for _, q := range c.Requests {
			line += " " + q.ID.UID
		}
		lines = append(lines, line)
	}
	return lines
}

// TestDepartedOfOnePolicy: a target that leaves the selector of a policy is listed for it until its last request is
// gone. That holds also while another policy selects the target.
func TestDepartedOfOnePolicy(t *testing.T) {
	a := aNode("a", dead)
	for name, c := range map[string]struct {
		change       func(*core.Request)
		members      []int
		left, member []string
	}{
		"its request stands":     {func(*core.Request) {}, nil, []string{"gone a aRebootTemplate"}, []string{"unhealthy a"}},
		"its request is leaving": {leaving, nil, []string{"gone a aRebootTemplate"}, []string{"unhealthy a"}},
		"of a namesake":          {func(q *core.Request) { q.Target.UID = "earlier" }, []int{0}, []string{"unhealthy a", "gone a aRebootTemplate"}, []string{"unhealthy a"}},
		"it selects the target":  {leaving, []int{0}, []string{"unhealthy a aRebootTemplate"}, []string{"unhealthy a"}},
		"of an earlier policy":   {func(q *core.Request) { q.Policy.UID = "earlier" }, nil, nil, []string{"unhealthy a"}},
		"of another policy":      {func(q *core.Request) { q.Policy.Name = "third" }, nil, nil, []string{"unhealthy a"}},
	} {
		t.Run(name, func(t *testing.T) {
			policies := []core.Policy{check("p", c.members, escalating), check("other", []int{0}, escalating)}
			f := clusterOf([]core.Target{a})
			f.Requests = []core.Request{requestFor(policies[0], a, rebooting, c.change)}
			d := core.Decide(policies, f, noon)
			reports := d.Reports(policies, &f)
			for i, want := range [][]string{c.left, c.member} {
				if diff := cmp.Diff(want, listedFor(reports[i])); diff != "" {
					t.Errorf("cases of %s (-want +got):\n%s", policies[i].ID, diff)
				}
			}
		})
	}
}

// TestI14ForeignRequestsOfTheDepartedAreNotListed: a tenant who may create objects of a remediator's kind can name a node that
// never existed. No health check is under remediation for that, or its specification could not be changed.
func TestI14ForeignRequestsOfTheDepartedAreNotListed(t *testing.T) {
	p := check("p", []int{0}, escalating)
	a, never := aNode("a"), aNode("never")
	f := clusterOf([]core.Target{a})
	foreign := func(q *core.Request) { q.Own, q.ID.UID = false, "foreign" }
	f.Requests = []core.Request{requestFor(p, never, rebooting, foreign)}
	for _, want := range [][]string{nil, {"gone never neverRebootTemplate"}} {
		d := core.Decide([]core.Policy{p}, f, noon)
		if diff := cmp.Diff(want, listedFor(d.Reports([]core.Policy{p}, &f)[0])); diff != "" {
			t.Errorf("cases (-want +got):\n%s", diff)
		}
		f.Requests = append(f.Requests, requestFor(p, never, rebooting))
	}
}
