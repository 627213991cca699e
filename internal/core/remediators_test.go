package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// awaiting has the requests of a policy wait for the end of marks.
func awaiting(p *core.Policy) { p.RequestsAwaitMarks = true }

func claimed(t *core.Target) { t.Claimed, t.Claimant = true, "PowerRemediation m has claimed it" }

// TestTwoRemediatorsNeverWorkOnOneTarget: a claimed target gets no mark, and a marked one no request of a policy that
// waits for marks.
func TestTwoRemediatorsNeverWorkOnOneTarget(t *testing.T) {
	marks, asks := check("p", []int{0}, needsNoOwner), check("p", []int{0}, classic, awaiting)
	careless, deletes := check("p", []int{0}, classic), check("p", []int{0})
	both := check("p", []int{0}, escalating, awaiting)
	sick := machine("m", dead)
	recorded := func(p core.Policy, changes ...func(*core.Repair)) []core.Repair {
		return []core.Repair{repair(sick, p, changes...)}
	}
	held := []string{"AnotherRemediator holds back m"}
	for name, c := range map[string]struct {
		policy core.Policy
		world  core.Cluster
		want   []string
	}{
		"a claimed one is to be marked":          {marks, with([]core.Target{machine("m", dead, claimed)}, nil), held},
		"its mark is recorded":                   {marks, with([]core.Target{machine("m", dead, claimed)}, recorded(marks)), held},
		"it is to be marked again":               {marks, with([]core.Target{machine("m", dead, claimed)}, recorded(marks, begunAt(ago(time.Minute)))), held},
		"nothing has claimed it":                 {marks, with([]core.Target{sick}, nil), []string{"start m"}},
		"a claimed one gets a request":           {asks, with([]core.Target{machine("m", dead, claimed)}, nil), []string{"start m"}},
		"a claimed one is deleted":               {deletes, with([]core.Target{machine("m", dead, claimed)}, nil), []string{"start m"}},
		"a marked one gets a request":            {asks, with([]core.Target{machine("m", dead, externallyRemediated)}, nil), held},
		"its request is recorded":                {asks, with([]core.Target{machine("m", dead, externallyRemediated)}, recorded(asks)), held},
		"its mark is gone":                       {asks, with([]core.Target{sick}, recorded(asks)), []string{"step 0 for m"}},
		"of a policy that does not wait":         {careless, with([]core.Target{machine("m", dead, externallyRemediated)}, nil), []string{"start m"}},
		"a marked one is deleted":                {check("p", []int{0}, awaiting), with([]core.Target{machine("m", dead, externallyRemediated)}, nil), []string{"start m"}},
		"a marked one is marked":                 {marks, with([]core.Target{machine("m", dead, externallyRemediated)}, nil), []string{"start m"}},
		"the setting has changed since its mark": {asks, with([]core.Target{machine("m", dead, externallyRemediated)}, recorded(marks, begunAt(ago(time.Minute)))), nil},
		"and the mark is gone":                   {asks, with([]core.Target{sick}, recorded(marks, begunAt(ago(time.Minute)))), []string{"end m: Withdrawn"}},
		"and the mark was recorded alone":        {asks, with([]core.Target{machine("m", dead, externallyRemediated)}, recorded(marks)), []string{"end m: Withdrawn"}},
		"the setting has changed since its request": {marks, with([]core.Target{machine("m", dead, claimed)}, recorded(asks),
			requestFor(asks, sick, rebooting)), nil},
		"a further step of a marked one": {both, with([]core.Target{machine("m", dead, externallyRemediated)}, recorded(both, tried(core.Failed)),
			requestFor(both, sick, rebooting, says(core.No))), held},
		"a further step of another": {both, with([]core.Target{sick}, recorded(both, tried(core.Failed)),
			requestFor(both, sick, rebooting, says(core.No))), []string{"step 1 for m"}},
	} {
		t.Run(name, func(t *testing.T) { remediationCase{name, c.world, c.want, time.Time{}}.run(t, c.policy) })
	}
}

// TestWhoElseWorksOnATarget: the refusal says which remediator does.
func TestWhoElseWorksOnATarget(t *testing.T) {
	for want, c := range map[string]struct {
		policy core.Policy
		target core.Target
	}{
		"another remediator works on it, since PowerRemediation m has claimed it; it follows when that remediator is done":      {check("p", []int{0}, needsNoOwner), machine("m", dead, claimed)},
		"another remediator works on it, since it is marked for an outside remediator; it follows when that remediator is done": {check("p", []int{0}, classic, awaiting), machine("m", dead, externallyRemediated)},
	} {
		f := with([]core.Target{c.target}, nil)
		f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
		d := core.Decide([]core.Policy{c.policy}, f, noon)
		if len(d.Refusals) != 1 || d.Refusals[0].Text() != want || d.Refusals[0].Policy != 0 {
			t.Errorf("refusals are %+v, want a single one with the text %q", d.Refusals, want)
		}
	}
}
