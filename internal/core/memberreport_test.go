package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestMemberReportsOfPolicies: only policies that create requests have reports on members, and policies whose steps can't be read.
func TestMemberReportsOfPolicies(t *testing.T) {
	asks, deletes, unparsable := check("asks", []int{0}, classic), check("deletes", []int{0}), check("unparsable", []int{0}, noSteps)
	for name, c := range map[string]struct {
		policies []core.Policy
		want     [][]string
	}{
		"a policy that asks":                   {[]core.Policy{asks}, [][]string{{"unhealthy n"}}},
		"a policy that deletes":                {[]core.Policy{deletes}, [][]string{nil}},
		"a policy without steps":               {[]core.Policy{unparsable}, [][]string{{"unhealthy n"}}},
		"a policy that deletes, beside others": {[]core.Policy{deletes, asks, unparsable}, [][]string{nil, {"unhealthy n"}, {"unhealthy n"}}},
	} {
		f := clusterOf([]core.Target{aNode("n", dead)})
		d := core.Decide(c.policies, f, noon)
		var got [][]string
		for _, r := range d.Reports(c.policies, &f) {
			got = append(got, listedFor(r))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: members (-want +got):\n%s", name, diff)
		}
	}
}

// TestMemberReport: a report has the repair of the member or of another target of its group, and the policy's own requests.
func TestMemberReport(t *testing.T) {
	p, other := check("p", []int{0, 1}, escalating), check("other", nil, classic)
	n, m := aNode("n", dead), machine("m", func(t *core.Target) { t.Node.Name = "n" })
	well := aNode("n", ready("True", ago(2*time.Minute)))
	ofNode := repair(n, p, started(ago(time.Hour)))
	healthyAgain := ofNode
	healthyAgain.Recovered = ago(time.Minute)
	seenEarly := ofNode
	seenEarly.Recovered = ago(time.Hour)
	delay := func(d time.Duration) func(*core.Policy) { return func(p *core.Policy) { p.HealthyDelay = d } }
	delayed := check("p", []int{0, 1}, escalating, delay(time.Hour))
	agent := criteria(core.ConditionCriterion{Type: "Ready", Status: "False", For: patience}, core.ConditionCriterion{Type: "Disk", Status: "True", For: patience})
	settling := check("p", []int{0}, classic, agent)
	justTurned := aNode("n", condition("Disk", "False", ago(time.Second)))
	first, second := requestFor(p, n, rebooting), requestFor(p, n, reprovisioning)
	suspect := aNode("n", ready("False", ago(time.Second)))
	backwards := repair(n, p, func(r *core.Repair) { r.Steps = []core.Step{r.Steps[1], r.Steps[0]} })
	gone := requestFor(p, n, rebooting, leaving, requestedAt(noon))
	for name, c := range map[string]struct {
		policy  core.Policy
		targets []core.Target
		repairs []core.Repair
		request []core.Request
		want    core.MemberReport
	}{
		"unhealthy":                        {p, []core.Target{n}, nil, nil, core.MemberReport{Health: core.Unhealthy}},
		"of its repair":                    {p, []core.Target{n}, []core.Repair{ofNode}, nil, core.MemberReport{Health: core.Unhealthy, Repair: &ofNode, Lead: p.ID}},
		"of a repair of its machine":       {p, []core.Target{n, m}, []core.Repair{repair(m, other)}, nil, core.MemberReport{Health: core.Unhealthy, Lead: other.ID}},
		"a repair that has ended":          {p, []core.Target{n}, []core.Repair{repair(n, p, ended(noon))}, nil, core.MemberReport{Health: core.Unhealthy}},
		"the requests, in order of steps":  {p, []core.Target{n}, []core.Repair{ofNode}, []core.Request{second, first}, core.MemberReport{Health: core.Unhealthy, Repair: &ofNode, Lead: p.ID, Requests: []core.Request{first, second}}},
		"in the order of the repair's":     {p, []core.Target{n}, []core.Repair{backwards}, []core.Request{first, second}, core.MemberReport{Health: core.Unhealthy, Repair: &backwards, Lead: p.ID, Requests: []core.Request{second, first}}},
		"suspect":                          {p, []core.Target{suspect}, nil, nil, core.MemberReport{}},
		"suspect, under repair":            {p, []core.Target{suspect}, []core.Repair{ofNode}, nil, core.MemberReport{Health: core.Suspect, Repair: &ofNode, Lead: p.ID}},
		"recovering, one request stands":   {delayed, []core.Target{well}, nil, []core.Request{second, gone}, core.MemberReport{Health: core.Suspect, Requests: []core.Request{second, gone}, HealthySince: ago(2 * time.Minute), Delayed: true}},
		"by age first":                     {p, []core.Target{n}, nil, []core.Request{requestFor(p, n, rebooting, requestedAt(noon)), second}, core.MemberReport{Health: core.Unhealthy, Requests: []core.Request{second, requestFor(p, n, rebooting, requestedAt(noon))}}},
		"a request of none":                {p, []core.Target{n}, nil, []core.Request{requestFor(p, n, rebooting, anonymous)}, core.MemberReport{Health: core.Unhealthy, Requests: []core.Request{requestFor(p, n, rebooting, anonymous)}}},
		"a request of another":             {p, []core.Target{n}, nil, []core.Request{requestFor(other, n, rebooting)}, core.MemberReport{Health: core.Unhealthy}},
		"recovering":                       {p, []core.Target{well}, nil, []core.Request{first}, core.MemberReport{Health: core.Suspect, Requests: []core.Request{first}, HealthySince: ago(2 * time.Minute)}},
		"recovering, seen later":           {p, []core.Target{well}, []core.Repair{healthyAgain}, []core.Request{first}, core.MemberReport{Health: core.Suspect, Repair: &healthyAgain, Lead: p.ID, Requests: []core.Request{first}, HealthySince: ago(time.Minute)}},
		"recovering, seen early":           {p, []core.Target{well}, []core.Repair{seenEarly}, []core.Request{first}, core.MemberReport{Health: core.Suspect, Repair: &seenEarly, Lead: p.ID, Requests: []core.Request{first}, HealthySince: ago(2 * time.Minute)}},
		"recovering, delayed":              {delayed, []core.Target{well}, nil, []core.Request{first}, core.MemberReport{Health: core.Suspect, Requests: []core.Request{first}, HealthySince: ago(2 * time.Minute), Delayed: true}},
		"recovering, the request leaving":  {delayed, []core.Target{well}, nil, []core.Request{requestFor(p, n, rebooting, leaving)}, core.MemberReport{Health: core.Suspect, Requests: []core.Request{requestFor(p, n, rebooting, leaving)}, HealthySince: ago(2 * time.Minute)}},
		"recovering, a condition settling": {settling, []core.Target{justTurned}, nil, []core.Request{first}, core.MemberReport{Health: core.Suspect, Requests: []core.Request{first}, HealthySince: ago(time.Second), StableAt: noon.Add(59 * time.Second)}},
	} {
		f := clusterOf(c.targets, c.repairs...)
		f.Requests = c.request
		if c.want.Health != 0 {
			c.want.Target = n.ID
		}
		if c.want.Repair == nil && c.want.Lead != (core.ID{}) {
			c.want.Repair = &c.repairs[0]
		}
		policies := []core.Policy{c.policy, other}
		if len(c.targets) == 1 {
			policies[0].Members = []int{0}
		}
		d := core.Decide(policies, f, noon)
		var got core.MemberReport
		for _, r := range d.Reports(policies, &f)[0].Members {
			if r.Target == n.ID {
				got = r
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: the report (-want +got):\n%s", name, diff)
		}
	}
}

// TestReportsOfFormerMembers: the requests for a target that is no member are reported with its repair, in the order of the steps.
func TestReportsOfFormerMembers(t *testing.T) {
	p, other := check("p", nil, escalating), check("other", []int{0}, classic)
	n := aNode("n", dead)
	r := repair(n, p)
	first, second := requestFor(p, n, rebooting), requestFor(p, n, reprovisioning)
	first.ID.Name, second.ID.Name = "z", "a"
	for name, c := range map[string]struct {
		repairs []core.Repair
		want    core.MemberReport
	}{
		"of a repair": {[]core.Repair{r}, core.MemberReport{Repair: &r, Lead: p.ID, Requests: []core.Request{first, second}}},
		"of none":     {nil, core.MemberReport{Requests: []core.Request{second, first}}},
	} {
		f := clusterOf([]core.Target{n}, c.repairs...)
		f.Requests = []core.Request{first, second}
		c.want.Target, c.want.Health = n.ID, core.Gone
		d := core.Decide([]core.Policy{p, other}, f, noon)
		if diff := cmp.Diff([]core.MemberReport{c.want}, d.Reports([]core.Policy{p, other}, &f)[0].Members); diff != "" {
			t.Errorf("%s: the reports (-want +got):\n%s", name, diff)
		}
	}
}

// TestReportsOfSeveralFormerMembers: each has its own requests, and they are in the order of their names.
func TestReportsOfSeveralFormerMembers(t *testing.T) {
	p := check("p", nil, escalating)
	f := clusterOf(nil)
	f.Requests = []core.Request{
		requestFor(p, aNode("b"), rebooting), requestFor(p, aNode("a"), rebooting), requestFor(p, aNode("a"), reprovisioning), requestFor(p, aNode("b"), reprovisioning),
	}
	d := core.Decide([]core.Policy{p}, f, noon)
	want := []string{"gone a aImageTemplate aRebootTemplate", "gone b bImageTemplate bRebootTemplate"}
	got := listedFor(d.Reports([]core.Policy{p}, &f)[0])
	for i := range got {
		words := strings.Fields(got[i])
		slices.Sort(words[2:])
		got[i] = strings.Join(words, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the reports (-want +got):\n%s", diff)
	}
}
