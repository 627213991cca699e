package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// goneID is a target that the worlds of these tests lack.
var goneID = ID{Kind: "Node", Name: "gone", UID: "gone-uid"}

// TestWhichRepairsOfTheGoneGoOn: while a remediator of Fettle's own request replaces the target, or requests can't be seen.
func TestWhichRepairsOfTheGoneGoOn(t *testing.T) {
	p := askingPolicy("p", nil, reboots)
	other := askingPolicy("p", nil, reimages)
	changed := func(of Policy, change func(*Policy)) *Policy { change(&of); return &of }
	replaces := func(changes ...func(*Request)) []Request {
		return []Request{requestOf(&p, goneID, reboots, append(changes, ofReplacing)...)}
	}
	two := repairOf(&p, goneID, steps(reboots, reimages))
	unlisted := []Reference{reboots.Template}
	for name, c := range map[string]struct {
		policy   *Policy
		repair   Repair
		requests []Request
		unlisted []Reference
		want     bool
	}{
		"nothing stands":                      {&p, repairOf(&p, goneID), nil, nil, false},
		"it is to be replaced":                {&p, repairOf(&p, goneID), replaces(), nil, true},
		"its request is not seen yet":         {&p, repairOf(&p, goneID), []Request{requestOf(&p, goneID, reboots, unseenYet)}, nil, true},
		"its failed request is not seen yet":  {&p, repairOf(&p, goneID), []Request{requestOf(&p, goneID, reboots, unseenYet, func(q *Request) { q.Succeeded = No })}, nil, true},
		"its request is to be withdrawn":      {&p, repairOf(&p, goneID), []Request{requestOf(&p, goneID, reboots)}, nil, true},
		"its request has failed":              {&p, repairOf(&p, goneID), []Request{requestOf(&p, goneID, reboots, func(q *Request) { q.Succeeded = No })}, nil, false},
		"another author has it replaced":      {&p, repairOf(&p, goneID), replaces(notOwn), nil, false},
		"its request is leaving":              {&p, repairOf(&p, goneID), replaces(onItsWay), nil, false},
		"its policy is a dry run":             {changed(p, func(p *Policy) { p.DryRun = true }), repairOf(&p, goneID), replaces(), nil, false},
		"its policy is unparsable":            {changed(p, func(p *Policy) { p.Unparsable = true }), repairOf(&p, goneID), nil, nil, true},
		"requests are unlisted":               {&p, repairOf(&p, goneID), nil, unlisted, true},
		"unlisted, of no policy":              {nil, repairOf(&p, goneID), nil, unlisted, false},
		"unlisted, of no step of the policy":  {&other, repairOf(&p, goneID), nil, unlisted, false},
		"unlisted, and another step is its":   {&other, two, nil, unlisted, false},
		"unlisted, and the policy has faults": {changed(other, func(p *Policy) { p.Problem = "it is nonsense" }), repairOf(&p, goneID), nil, unlisted, true},
		"unlisted, of a step for failed ones": {changed(other, func(p *Policy) { p.FailedSteps = []Step{reboots} }), repairOf(&p, goneID), nil, unlisted, true},
	} {
		var policies []Policy
		if c.policy != nil {
			policies = []Policy{*c.policy}
		}
		f := observed([]Target{nodeTarget("n", "False")}, []Repair{c.repair}, c.requests...)
		f.UnlistedTemplates = c.unlisted
		d := plannerOf(policies, f)
		if got := d.awaitingReplacement[0]; got != c.want {
			t.Errorf("%s: the repair goes on: %t", name, got)
		}
		f.Observed = Unknown
		if d := plannerOf(policies, f); len(d.awaitingReplacement) > 0 {
			t.Errorf("%s: the repair goes on while the cluster is not observed", name)
		}
	}
}

// TestHowLongAReplacementIsAwaited: until its remediator says how it ended, its time is over, or the replacement is there.
func TestHowLongAReplacementIsAwaited(t *testing.T) {
	minute := limited(reboots, 40*time.Minute)
	p := askingPolicy("p", nil, minute, limited(reimages, time.Minute))
	long := func(q *Request) { q.Created = atNoon.Add(-time.Hour) }
	r := func(changes ...func(*Repair)) *Repair {
		r := repairOf(&p, goneID, append([]func(*Repair){func(r *Repair) { r.Started = atNoon.Add(-time.Hour) }}, changes...)...)
		return &r
	}
	ask := func(s Step, changes ...func(*Request)) Request {
		return requestOf(&p, goneID, s, append([]func(*Request){ofReplacing}, changes...)...)
	}
	namesake := nodeTarget("gone", "True", func(t *Target) { t.ID.UID = "later" })
	other := Step{Remedy: "Other", Nature: CreateRequest}
	for name, c := range map[string]struct {
		request Request
		repair  *Repair
		targets []Target
		clock   Tri
		want    bool
		next    time.Time
	}{
		"of no repair":                      {ask(minute), nil, nil, Yes, true, time.Time{}},
		"it does not replace":               {requestOf(&p, goneID, minute), nil, nil, Yes, false, time.Time{}},
		"it succeeded":                      {ask(minute, saysItself(Yes)), nil, nil, Yes, false, time.Time{}},
		"it was told to stop":               {ask(minute, wasStopped), nil, nil, Yes, false, time.Time{}},
		"for no step of the repair":         {ask(other, long), r(triedSteps(1)), nil, Yes, true, time.Time{}},
		"for a step that was given up":      {ask(minute), r(triedSteps(1)), nil, Yes, false, time.Time{}},
		"for a step to come":                {ask(reimages, long), r(), nil, Yes, true, time.Time{}},
		"in its time":                       {ask(minute), r(), nil, Yes, true, atNoon.Add(39 * time.Minute)},
		"after its time":                    {ask(minute, long), r(), nil, Yes, false, time.Time{}},
		"after its time, by a wrong clock":  {ask(minute, long), r(), nil, No, true, time.Time{}},
		"without a limit":                   {ask(reboots, long), r(steps(reboots)), nil, Yes, true, time.Time{}},
		"its replacement is healthy":        {ask(minute), r(), []Target{namesake}, Yes, false, time.Time{}},
		"another healthy node is no such":   {ask(minute), r(), []Target{nodeTarget("n", "True")}, Yes, true, atNoon.Add(39 * time.Minute)},
		"its replacement has no known name": {ask(minute, func(q *Request) { q.Target.UID = "later" }), nil, []Target{namesake}, Yes, true, time.Time{}},
	} {
		all := askingPolicy("all", all(len(c.targets)))
		f := observed(c.targets, nil)
		f.ClockAgrees = c.clock
		d := plannerOf([]Policy{all}, f)
		d.next = time.Time{}
		if got := d.awaitsReplacement(&c.request, c.repair); got != c.want || !d.next.Equal(c.next) {
			t.Errorf("%s: it is awaited: %t, and the next pass is at %s, want %s", name, got, d.next, c.next)
		}
	}
}

// goneRepairs returns running repairs of targets that are gone, which started some seconds after noon and wait for a replacement.
func goneRepairs(p *Policy, started ...time.Duration) ([]Repair, []Request) {
	var repairs []Repair
	var requests []Request
	for i, at := range started {
		id := ID{Kind: "Node", Name: fmt.Sprint("gone-", i), UID: fmt.Sprint("gone-uid-", i)}
		repairs = append(repairs, repairOf(p, id, func(r *Repair) { r.Started = atNoon.Add(at) }))
		requests = append(requests, requestOf(p, id, p.Steps[0], ofReplacing))
	}
	return repairs, requests
}

// TestPairsOfReplacements: members that were created since a repair started stand for its target, as far as whole seconds tell.
func TestPairsOfReplacements(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		started, created []time.Duration
		want             int // are yet to come
	}{
		"none has come":                    {[]time.Duration{10 * second}, []time.Duration{9 * second}, 1},
		"one has come":                     {[]time.Duration{10 * second}, []time.Duration{11 * second, 0}, 0},
		"one has come in the same second":  {[]time.Duration{10*second + second/2}, []time.Duration{10 * second}, 0},
		"one came in the second before":    {[]time.Duration{11*second + second/2}, []time.Duration{10 * second}, 1},
		"one came before the later repair": {[]time.Duration{10 * second, 20 * second}, []time.Duration{15 * second}, 1},
		"one came after both":              {[]time.Duration{10 * second, 20 * second}, []time.Duration{25 * second}, 1},
		"one came between the first two":   {[]time.Duration{10 * second, 20 * second, 30 * second}, []time.Duration{15 * second}, 2},
		"two came before the last repair":  {[]time.Duration{10 * second, 20 * second, 30 * second}, []time.Duration{15 * second, 25 * second}, 1},
		"both have come":                   {[]time.Duration{10 * second, 20 * second}, []time.Duration{15 * second, 25 * second}, 0},
	} {
		var targets []Target
		for i, at := range c.created {
			targets = append(targets, nodeTarget(fmt.Sprint("n-", i), "True", func(t *Target) { t.Created = atNoon.Add(at) }))
		}
		p := askingPolicy("p", append(all(len(targets)), none, len(targets)), reboots)
		repairs, requests := goneRepairs(&p, c.started...)
		d := plannerOf([]Policy{p}, observed(targets, repairs, requests...))
		if tally := d.tallies[0]; tally.AwaitingReplacement != c.want || tally.InFlight != len(repairs) {
			t.Errorf("%s: %d are yet to come, want %d, and %d are in flight", name, tally.AwaitingReplacement, c.want, tally.InFlight)
		}
	}
}

// TestPairsOfReplacementsAreAsManyAsCanBe: no other way of pairing finds a member for more of the targets that are gone.
func TestPairsOfReplacementsAreAsManyAsCanBe(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 124))
	some := func() []time.Duration {
		at := make([]time.Duration, dice.IntN(6))
		for i := range at {
			at[i] = time.Duration(dice.IntN(8)) * time.Second
		}
		return at
	}
	for range 500 {
		started, created := some(), some()
		var targets []Target
		for i, at := range created {
			targets = append(targets, nodeTarget(fmt.Sprint("n-", i), "True", func(t *Target) { t.Created = atNoon.Add(at) }))
		}
		p := askingPolicy("p", all(len(targets)), reboots)
		repairs, requests := goneRepairs(&p, started...)
		d := plannerOf([]Policy{p}, observed(targets, repairs, requests...))
		if got, want := d.tallies[0].AwaitingReplacement, len(started)-mostPairs(started, created); got != want {
			t.Fatalf("repairs started at %s, members were created at %s: %d are yet to come, want %d", started, created, got, want)
		}
	}
}

// mostPairs tries each way to pair repairs with members that were created since.
func mostPairs(started, created []time.Duration) int {
	if len(started) == 0 {
		return 0
	}
	most := mostPairs(started[1:], created)
	for i, at := range created {
		if at >= started[0] {
			most = max(most, 1+mostPairs(started[1:], slices.Delete(slices.Clone(created), i, i+1)))
		}
	}
	return most
}

// TestReplacedTargetOpensNoRange: a target whose replacement has come does not count, so it does not help to reach the lower end
// of a range of unhealthy targets.
func TestReplacedTargetOpensNoRange(t *testing.T) {
	targets := []Target{
		nodeTarget("replacement", "True", func(t *Target) { t.Created = atNoon.Add(15 * time.Second) }), nodeTarget("broken", "False"),
	}
	for from, permitted := range map[int]bool{2: true, 3: false} {
		p := askingPolicy("p", all(len(targets)), reboots)
		p.ShortCircuit = ShortCircuit{Range: &Range{From: from, To: 5}}
		repairs, requests := goneRepairs(&p, 10*time.Second, 20*time.Second)
		d := plannerOf([]Policy{p}, observed(targets, repairs, requests...))
		if tally := d.tallies[0]; tally.Permitted != permitted || tally.Unhealthy() != 2 {
			t.Errorf("from %d on, repairs are permitted: %t, while %d count as unhealthy", from, tally.Permitted, tally.Unhealthy())
		}
	}
}

// TestTextOfAwaitedReplacements: three are named, the oldest repairs first.
func TestTextOfAwaitedReplacements(t *testing.T) {
	p := askingPolicy("p", nil, reboots)
	one := "node gone-%d is gone, and its repair goes on: Request gone-%d has not said yet that it is replaced"
	three := fmt.Sprintf(one+"; "+one+"; "+one, 0, 0, 1, 1, 2, 2)
	for n, want := range map[int]string{1: fmt.Sprintf(one, 0, 0), 3: three, 4: three + "; and 1 more are", 8: three + "; and 5 more are"} {
		var started []time.Duration
		for i := range n {
			started = append(started, time.Duration(i)*time.Second)
		}
		repairs, requests := goneRepairs(&p, started...)
		d := plannerOf([]Policy{p}, observed(nil, repairs, requests...))
		if got := d.tallies[0].Waits; got != want {
			t.Errorf("of %d: %q, want %q", n, got, want)
		}
	}
	unseen := "the request to its remediator can't be seen"
	for name, c := range map[string]struct {
		requests []Request
		want     string
	}{
		"none":                {nil, unseen},
		"another author's":    {[]Request{requestOf(&p, goneID, reboots, ofReplacing, notOwn)}, unseen},
		"a leaving one":       {[]Request{requestOf(&p, goneID, reboots, ofReplacing, onItsWay)}, unseen},
		"its own stands":      {[]Request{requestOf(&p, goneID, reboots, ofReplacing)}, "Request gone has not said yet that it is replaced"},
		"its own is needless": {[]Request{requestOf(&p, goneID, reboots)}, "Request gone is not withdrawn yet"},
		"its own is not seen": {[]Request{requestOf(&p, goneID, reboots, ofReplacing, unseenYet)}, "the request to its remediator has not been seen yet"},
	} {
		d := plannerOf([]Policy{p}, observed(nil, []Repair{repairOf(&p, goneID)}, c.requests...))
		if got := d.waitsOn(0); got != c.want {
			t.Errorf("%s: it waits since %q, want %q", name, got, c.want)
		}
	}
}

// TestEndsOfRepairsOfTheGone: requests are withdrawn without a target, and what no policy leads ends in portions.
func TestEndsOfRepairsOfTheGone(t *testing.T) {
	p := askingPolicy("p", nil, reboots)
	d := plannerOf([]Policy{p}, observed([]Target{nodeTarget("n", "True")}, []Repair{repairOf(&p, goneID)}, requestOf(&p, goneID, reboots)))
	d.targetGone(0)
	if w := d.decision.Withdrawals; len(w) != 1 || w[0].Target != none || w[0].Policy != 0 {
		t.Errorf("the withdrawals are %+v", w)
	}
	repairs, _ := goneRepairs(&p, make([]time.Duration, maxUnledEnded+2)...)
	d = plannerOf(nil, observed(nil, repairs))
	for i := range repairs {
		d.targetGone(i)
	}
	if got := len(d.decision.Finishes); got != maxUnledEnded {
		t.Errorf("%d repairs without a policy end, want %d", got, maxUnledEnded)
	}
}

// TestEffectOnTheGone: only Fettle's own request, in a step that was not given up, has replaced a target or has helped.
func TestEffectOnTheGone(t *testing.T) {
	p := askingPolicy("p", nil, reboots, reimages)
	namesake := nodeTarget("gone", "True", func(t *Target) { t.ID.UID = "later" })
	for name, c := range map[string]struct {
		request Request
		tried   int
		targets []Target
		want    EndReason
	}{
		"it says nothing":             {requestOf(&p, goneID, reboots), 0, nil, ""},
		"it succeeded":                {requestOf(&p, goneID, reboots, saysItself(Yes)), 0, nil, RemediatorSucceeded},
		"it succeeded in replacing":   {requestOf(&p, goneID, reboots, ofReplacing, saysItself(Yes)), 0, nil, TargetReplaced},
		"the replacement is there":    {requestOf(&p, goneID, reboots, ofReplacing), 0, []Target{namesake}, TargetReplaced},
		"another author's succeeded":  {requestOf(&p, goneID, reboots, saysItself(Yes), notOwn), 0, nil, ""},
		"a step that was given up":    {requestOf(&p, goneID, reboots, saysItself(Yes)), 1, nil, ""},
		"the step after it succeeded": {requestOf(&p, goneID, reimages, saysItself(Yes)), 1, nil, RemediatorSucceeded},
	} {
		r := repairOf(&p, goneID, triedSteps(c.tried))
		d := plannerOf([]Policy{askingPolicy("all", all(len(c.targets)))}, observed(c.targets, nil))
		if diff := cmp.Diff(c.want, d.replaced(&c.request, &r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for want, r := range map[bool]*Repair{true: {Steps: []Step{reboots}, Tried: make([]StepRecord, 3)}, false: {}} {
		if got := r.lastStepCreatesRequest(); got != want {
			t.Errorf("with %d steps the last one creates a request: %t", len(r.Steps), got)
		}
	}
}
