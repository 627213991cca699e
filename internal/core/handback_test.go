package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// outside has a step of a remediator without a limit, and one of the owner for when the remediator
// has given the target up.
func outside(p *core.Policy) { p.Steps = []core.Step{ask(rebooting, 0), mark} }

func handedBack(at time.Time) func(*core.Target) {
	return func(t *core.Target) { t.HandedBack = at }
}

// requestOfOwner returns the request to the owner of a target to replace it.
func requestOfOwner(of core.Target) core.Request {
	return core.Request{ID: core.ID{Kind: "Machine", Name: of.ID.Name, UID: "mark"}, Remedy: mark.Remedy, Target: of.ID, Created: noon, Own: true}
}

// TestI03HandBackPassesTheGatesOfAFirstStep: a remediator gives a target up, so the next step marks
// it for the owner, which deletes it. That is a step of its own, which any gate holds back.
func TestI03HandBackPassesTheGatesOfAFirstStep(t *testing.T) {
	p := policy("p", []int{0, 1}, outside)
	gaveUp := gaveUpAs(core.Failed)
	const first, second, anew = "give up on a: Failed", "step 1 for a", "end a: Withdrawn"
	for name, c := range map[string]struct {
		policy  func(*core.Policy)
		target  func(*core.Target)
		request func(*core.Request)
		stands  bool
		cluster func(*core.Cluster)
		// before are the actions while the remediator works, after those once it has given the
		// target up.
		before, after []string
	}{
		"handed back":                      {before: []string{first}, after: []string{second}},
		"not handed back":                  {target: handedBack(time.Time{}), after: []string{anew}},
		"handed back in an earlier case":   {target: handedBack(ago(time.Hour)), after: []string{anew}},
		"the remediator failed alone":      {target: handedBack(time.Time{}), request: says(core.No), before: []string{"LadderExhausted holds back a"}, after: []string{anew}},
		"it is handed back, having failed": {request: says(core.No), before: []string{first}, after: []string{second}},
		"asked by other people":            {request: func(q *core.Request) { q.Own = false }, after: []string{second}},
		"the health check is paused":       {policy: func(p *core.Policy) { p.Paused = true }, before: []string{"Paused holds back a"}, after: []string{"Paused holds back a"}},
		"the clock is wrong":               {cluster: func(f *core.Cluster) { f.ClockAgrees = core.No }, before: []string{"ClockSkewed holds back a"}, after: []string{"ClockSkewed holds back a"}},
		"the short circuit is shut":        {policy: maxUnhealthy(core.Count(0)), before: []string{first}, after: []string{"TooManyUnhealthy holds back a"}},
		"no place is left":                 {policy: maxInFlight(core.Count(0)), before: []string{first}, after: []string{"InFlightLimit holds back a"}},
		"its own place":                    {policy: maxInFlight(core.Count(1)), before: []string{first}, after: []string{second}},
		"no owner would replace it":        {target: func(t *core.Target) { t.Owner = core.ID{} }, before: []string{first}, after: []string{"NoOwner holds back a"}},
		"its node was not read":            {target: func(t *core.Target) { t.NodeReadAt = time.Time{} }, before: []string{first}, after: []string{"Unconfirmed holds back a"}},
		"the owner has a request already":  {stands: true, before: []string{first}},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			if c.policy != nil {
				c.policy(&p)
			}
			a, b := machine("a", dead, handedBack(noon)), machine("b")
			if c.target != nil {
				c.target(&a)
			}
			q := requestFor(p, a, rebooting)
			if c.request != nil {
				c.request(&q)
			}
			for i, want := range [][]string{c.before, c.after} {
				r := repair(a, p, started(ago(30*time.Minute)))
				requests := []core.Request{q}
				if i == 1 {
					gaveUp(&r)
				}
				if i == 1 && c.stands {
					requests = append(requests, requestOfOwner(a))
				}
				f := with([]core.Target{a, b}, []core.Repair{r}, requests...)
				f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
				if c.cluster != nil {
					c.cluster(&f)
				}
				if diff := cmp.Diff(want, actionTexts(f, core.Decide([]core.Policy{p}, f, noon))); diff != "" {
					t.Errorf("after %d steps (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// gaveUpAs has the first step of a repair given up a moment ago.
func gaveUpAs(outcome core.StepOutcome) func(*core.Repair) {
	return func(r *core.Repair) {
		r.Tried = append(r.Tried, core.StepRecord{Ended: ago(time.Second), Outcome: outcome})
		r.StepSeen = len(r.Tried)
	}
}

// TestHandBacksTakeTurns: two targets were handed back, and one at a time may be replaced. The
// older repair goes first, and neither waits for the other for ever.
func TestHandBacksTakeTurns(t *testing.T) {
	p := policy("p", []int{0, 1}, outside, maxInFlight(core.Count(1)))
	a, b := machine("a", dead, handedBack(noon)), machine("b", dead, handedBack(noon))
	older, younger := repair(a, p, started(ago(30*time.Minute))), repair(b, p, started(ago(20*time.Minute)))
	gaveUpAs(core.Failed)(&older)
	gaveUpAs(core.Failed)(&younger)
	remediationCase{"both wait", with([]core.Target{a, b}, []core.Repair{older, younger}, requestFor(p, a, rebooting), requestFor(p, b, rebooting)),
		[]string{"InFlightLimit holds back b", "step 1 for a"}, noon.Add(time.Minute)}.run(t, p)
}

// TestRequestOfOwnerStaysInFlight: the target has a mark, so an older repair that waits has no
// place.
func TestRequestOfOwnerStaysInFlight(t *testing.T) {
	p := policy("p", []int{0, 1}, outside, maxInFlight(core.Count(1)))
	a, b := machine("a", dead, handedBack(noon)), machine("b", dead, handedBack(noon))
	older, younger := repair(a, p, started(ago(30*time.Minute))), repair(b, p, started(ago(20*time.Minute)))
	gaveUpAs(core.Failed)(&older)
	gaveUpAs(core.Failed)(&younger)
	owner := requestOfOwner(b)
	remediationCase{"the younger has begun", with([]core.Target{a, b}, []core.Repair{older, younger}, requestFor(p, a, rebooting), requestFor(p, b, rebooting), owner),
		[]string{"InFlightLimit holds back a"}, time.Time{}}.run(t, p)
}

// TestHandedBackTargetRecovers: the requests to the remediator and to the owner are withdrawn.
func TestHandedBackTargetRecovers(t *testing.T) {
	p := policy("p", []int{0}, outside)
	a := machine("a", handedBack(noon))
	r := repair(a, p, started(ago(30*time.Minute)))
	gaveUpAs(core.Failed)(&r)
	owner := requestOfOwner(a)
	remediationCase{"it is healthy", with([]core.Target{a}, []core.Repair{r}, requestFor(p, a, rebooting), owner),
		[]string{"withdraw aRebootTemplate", "withdraw mark"}, time.Time{}}.run(t, p)
}

// TestHandedBackMachineIsReplaced: once the owner has a request, a machine that is gone has been
// replaced, whatever its remediator did before. Until then no replacement is known.
func TestHandedBackMachineIsReplaced(t *testing.T) {
	p := policy("p", []int{0}, outside)
	for want, change := range map[core.Outcome]func(*core.Repair){core.Withdrawn: func(*core.Repair) {}, core.Succeeded: gaveUpAs(core.Failed)} {
		r := repair(machine("a"), p, started(ago(30*time.Minute)))
		change(&r)
		f := with([]core.Target{machine("b")}, []core.Repair{r})
		f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Finishes) != 1 || d.Finishes[0].Outcome != want {
			t.Errorf("after %d steps it ends as %+v, want %s", len(r.Tried), d.Finishes, want)
		}
	}
}
