package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// The worlds of these tests have nodes that remediators repair, on request.

var (
	rebooting      = core.Reference{APIVersion: "reboot.example/v1", Kind: "RebootTemplate", Namespace: "remedies", Name: "hard"}
	reprovisioning = core.Reference{APIVersion: "image.example/v1", Kind: "ImageTemplate", Namespace: "remedies", Name: "stable"}
)

func ask(template core.Reference, limit time.Duration) core.Step {
	return core.Step{Remedy: "Ask", Nature: core.CreateRequest, Template: template, Limit: limit}
}

// classic has one remediator, without a limit.
func classic(p *core.Policy) { p.Steps = []core.Step{ask(rebooting, 0)} }

// escalating has a second remediator, for when the first has failed or had its five minutes.
func escalating(p *core.Policy) {
	p.Steps = []core.Step{ask(rebooting, patience), ask(reprovisioning, 2*patience)}
}

// unparsable can't be read, and so permits nothing.
func unparsable(p *core.Policy) { p.Unparsable, p.Problem = true, "it is nonsense" }

func unlimited(p *core.Policy) { p.MaxInFlight = core.Unlimited() }

func check(name string, members []int, changes ...func(*core.Policy)) core.Policy {
	return policy(name, members, append([]func(*core.Policy){unlimited, func(p *core.Policy) { p.ID.Kind, p.ID.Namespace = "NodeCheck", "" }}, changes...)...)
}

// aNode is a node alone.
func aNode(name string, changes ...func(*core.Target)) core.Target {
	n := machine(name)
	n.ID, n.Owner = core.ID{Kind: "Node", Name: name, UID: name + "-uid"}, core.ID{}
	n.Node.Name, n.NodeReadAt = name, noon
	for _, change := range changes {
		change(&n)
	}
	return n
}

// requestFor is the request of a step of a policy about a target, a minute old.
func requestFor(p core.Policy, t core.Target, template core.Reference, changes ...func(*core.Request)) core.Request {
	q := core.Request{
		ID:     core.ID{Kind: "Request", Namespace: template.Namespace, Name: t.ID.Name, UID: t.ID.Name + template.Kind},
		Remedy: "Ask", Template: template, Target: t.ID, Policy: p.ID, Created: ago(time.Minute), Own: true,
	}
	for _, change := range changes {
		change(&q)
	}
	return q
}

func says(succeeded core.Tri) func(*core.Request) {
	return func(q *core.Request) { q.Succeeded = succeeded }
}
func succeededAt(at time.Time) func(*core.Request) {
	return func(q *core.Request) { q.SucceededSince = at }
}
func leaving(q *core.Request)                      { q.Leaving = true }
func replaces(q *core.Request)                     { q.Replaces = true }
func anonymous(q *core.Request)                    { q.Policy = core.ID{} }
func requestedAt(at time.Time) func(*core.Request) { return func(q *core.Request) { q.Created = at } }

// gaveUp has the first step of a repair given up at an instant, whose request was seen.
func gaveUp(at time.Time) func(*core.Repair) {
	return func(r *core.Repair) {
		r.Tried = append(r.Tried, core.StepRecord{Ended: at, Outcome: core.TimedOut})
		r.StepSeen = len(r.Tried)
	}
}

func recovered(at time.Time) func(*core.Repair) { return func(r *core.Repair) { r.Recovered = at } }

// actionTexts says what a decision does, each action in a line.
func actionTexts(f core.Cluster, d core.Decision) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, s := range d.Starts {
		say("start %s", f.Targets[s.Target].ID.Name)
	}
	for _, a := range d.StepStarts {
		say("step %d for %s", a.Step, f.Repairs[a.Repair].Target.Name)
	}
	for _, a := range d.Escalations {
		say("give up on %s: %s", f.Repairs[a.Repair].Target.Name, a.Outcome)
	}
	for _, w := range d.Withdrawals {
		say("withdraw %s", f.Requests[w.Request].ID.UID)
	}
	for _, n := range d.Notes {
		say("note %s: %t", f.Repairs[n.Repair].Target.Name, !n.Recovered.IsZero())
	}
	for _, h := range d.LeaseHolds {
		say("hold %s for %s as %s", f.Targets[h.Target].ID.Name, h.For, h.Holder)
	}
	for _, l := range d.LeaseReleases {
		say("release %s of %s", l.Node, l.Holder)
	}
	for _, e := range d.Finishes {
		say("end %s: %s", f.Repairs[e.Repair].Target.Name, e.Outcome)
	}
	for _, r := range d.Refusals {
		say("%s holds back %s", r.Gate, f.Targets[r.Target].ID.Name)
	}
	slices.Sort(lines)
	return lines
}

type remediationCase struct {
	reason string
	world  core.Cluster
	// wants are lines of actionTexts; next is when time alone changes that.
	wants []string
	next  time.Time
}

func (c remediationCase) run(t *testing.T, policies ...core.Policy) {
	t.Helper()
	c.world.Observed, c.world.ClockAgrees, c.world.Upgrading = core.Yes, core.Yes, core.No
	d := core.Decide(policies, c.world, noon)
	if diff := cmp.Diff(c.wants, actionTexts(c.world, d)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", c.reason, diff)
	}
	if !d.NextAt.Equal(c.next) {
		t.Errorf("%s: it looks again at %s, want %s", c.reason, d.NextAt, c.next)
	}
}

func with(targets []core.Target, repairs []core.Repair, requests ...core.Request) core.Cluster {
	return core.Cluster{Targets: targets, Repairs: repairs, Requests: requests}
}

// TestRequestOfOneStep: a request stands until the target is healthy, and nothing else happens.
func TestRequestOfOneStep(t *testing.T) {
	p := check("p", []int{0}, classic)
	sick, well, suspect := aNode("n", dead), aNode("n"), aNode("n", ready("False", ago(time.Minute)))
	r := func(changes ...func(*core.Repair)) []core.Repair {
		return []core.Repair{repair(sick, p, append(changes, started(ago(time.Hour)))...)}
	}
	failedLast := gaveUpAs(core.Failed)
	theirs := func(q *core.Request) { q.Own = false }
	for name, c := range map[string]remediationCase{
		"a new one":              {"it is recorded first", with([]core.Target{sick}, nil), []string{"start n"}, time.Time{}},
		"recorded":               {"the request is made", with([]core.Target{sick}, r()), []string{"step 0 for n"}, time.Time{}},
		"asked":                  {"it has all the time", with([]core.Target{sick}, r(), requestFor(p, sick, rebooting)), nil, time.Time{}},
		"failed":                 {"there is no other", with([]core.Target{sick}, r(), requestFor(p, sick, rebooting, says(core.No))), []string{"give up on n: Failed"}, time.Time{}},
		"failed, of others":      {"its author may ask again", with([]core.Target{sick}, r(), requestFor(p, sick, rebooting, says(core.No), theirs)), []string{"LadderExhausted holds back n"}, time.Time{}},
		"failed, and given up":   {"there is no other", with([]core.Target{sick}, r(failedLast), requestFor(p, sick, rebooting, says(core.No))), []string{"LadderExhausted holds back n"}, time.Time{}},
		"failed, taken away":     {"a person wants it to be tried again", with([]core.Target{sick}, r(failedLast)), []string{"end n: Withdrawn"}, time.Time{}},
		"failed, and well":       {"it is withdrawn", with([]core.Target{well}, r(failedLast), requestFor(p, sick, rebooting, says(core.No))), []string{"withdraw nRebootTemplate"}, time.Time{}},
		"failed, well, and over": {"the step has not helped", with([]core.Target{well}, r(failedLast, recovered(noon))), []string{"end n: Withdrawn"}, time.Time{}},
		"being taken away":       {"its name is not free", with([]core.Target{sick}, r(), requestFor(p, sick, rebooting, leaving)), nil, time.Time{}},
		"step without template":  {"the ladder in the ledger counts too", with([]core.Target{sick}, r(func(r *core.Repair) { r.Steps = slices.Clone(r.Steps); r.Steps[0].Problem = "gone" })), []string{"TemplateUnusable holds back n"}, time.Time{}},
		"suspect":                {"it may be on its way", with([]core.Target{suspect}, r(), requestFor(p, sick, rebooting)), nil, noon.Add(4 * time.Minute)},
		"well":                   {"it is withdrawn", with([]core.Target{well}, r(), requestFor(p, sick, rebooting)), []string{"withdraw nRebootTemplate"}, time.Time{}},
		"well, being withdrawn":  {"once", with([]core.Target{well}, r(recovered(noon)), requestFor(p, sick, rebooting, leaving)), nil, time.Time{}},
		"well, withdrawn":        {"it has come to its end", with([]core.Target{well}, r(recovered(noon))), []string{"end n: Succeeded"}, time.Time{}},
		"well before asked":      {"nothing was done", with([]core.Target{well}, r()), []string{"end n: Recovered"}, time.Time{}},
		"the entry was lost":     {"a new one adopts it", with([]core.Target{sick}, nil, requestFor(p, sick, rebooting)), []string{"start n"}, time.Time{}},
		"well, the entry lost":   {"it is withdrawn all the same", with([]core.Target{well}, nil, requestFor(p, sick, rebooting)), []string{"withdraw nRebootTemplate"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, p) })
	}
}

// TestEscalation: a step that fails, or takes too long, gives way to the next.
func TestEscalation(t *testing.T) {
	p := check("p", []int{0}, escalating)
	sick := aNode("n", dead)
	second := requestFor(p, sick, reprovisioning)
	r := func(at time.Time, changes ...func(*core.Repair)) []core.Repair {
		return []core.Repair{repair(sick, p, append(changes, started(at))...)}
	}
	for name, c := range map[string]remediationCase{
		"in time":             {"it waits", with([]core.Target{sick}, r(ago(4*time.Minute)), requestFor(p, sick, rebooting, requestedAt(ago(4*time.Minute)))), nil, noon.Add(time.Minute)},
		"out of time":         {"at the deadline", with([]core.Target{sick}, r(ago(patience)), requestFor(p, sick, rebooting, requestedAt(ago(patience)))), []string{"give up on n: TimedOut"}, time.Time{}},
		"failed":              {"at once", with([]core.Target{sick}, r(ago(time.Minute)), requestFor(p, sick, rebooting, says(core.No))), []string{"give up on n: Failed"}, time.Time{}},
		"succeeded, not well": {"its word is not enough", with([]core.Target{sick}, r(ago(patience)), requestFor(p, sick, rebooting, says(core.Yes), requestedAt(ago(patience)))), []string{"give up on n: TimedOut"}, time.Time{}},
		"given up":            {"the next step is taken", with([]core.Target{sick}, r(ago(time.Hour), gaveUp(noon)), requestFor(p, sick, rebooting)), []string{"step 1 for n"}, time.Time{}},
		"the second, in time": {
			"it has time of its own", with([]core.Target{sick}, r(ago(time.Hour), gaveUp(ago(time.Minute))), requestFor(p, sick, rebooting), second), nil, noon.Add(9 * time.Minute),
		},
		"the second out of time": {
			"it is told to stop as well", with([]core.Target{sick}, r(ago(time.Hour), gaveUp(ago(2*patience))), requestFor(p, sick, rebooting), requestFor(p, sick, reprovisioning, requestedAt(ago(2*patience)))), []string{"give up on n: TimedOut"}, time.Time{},
		},
		"all given up": {
			"nothing is left to do", with([]core.Target{sick}, r(ago(time.Hour), gaveUp(ago(2*patience)), gaveUp(noon)), requestFor(p, sick, rebooting), second),
			[]string{"LadderExhausted holds back n"}, time.Time{},
		},
		"well after all": {
			"both are withdrawn", with([]core.Target{aNode("n")}, r(ago(time.Hour), gaveUp(ago(time.Minute))), requestFor(p, sick, rebooting), second),
			[]string{"withdraw nImageTemplate", "withdraw nRebootTemplate"}, time.Time{},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, p) })
	}
}

// TestI12WithdrawalsAreNotHeldBack: neither a pause, a problem, an upgrade nor a short circuit keeps a
// request about a healthy target. None of the limits stops a repair that has begun.
func TestI12WithdrawalsAreNotHeldBack(t *testing.T) {
	back := []string{"withdraw nRebootTemplate"}
	onward := []string{"step 1 for n"}
	for name, c := range map[string]struct {
		change func(*core.Policy)
		next   []string
	}{
		"paused":        {paused, []string{"Paused holds back n"}},
		"a problem":     {problem("spec.x is y"), []string{"InvalidSpec holds back n"}},
		"short circuit": {maxUnhealthy(core.Count(0)), onward},
		"in flight":     {maxInFlight(core.Count(0)), onward},
		"no template":   {func(p *core.Policy) { p.Steps = slices.Clone(p.Steps); p.Steps[1].Problem = "gone" }, []string{"TemplateUnusable holds back n"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := check("p", []int{0}, escalating, c.change)
			sick := aNode("n", dead)
			r := []core.Repair{repair(sick, p, started(ago(time.Hour)), gaveUp(ago(time.Minute)))}
			remediationCase{"recovery", with([]core.Target{aNode("n")}, r, requestFor(p, sick, rebooting)), back, time.Time{}}.run(t, p)
			remediationCase{"escalation", with([]core.Target{sick}, r, requestFor(p, sick, rebooting)), c.next, time.Time{}}.run(t, p)
		})
	}
}

// TestStepIsNotGivenUpWhileTheNextIsHeldBack: no remediator would be at work on the node then. Limits hold back no next step of a
// repair for which something stands, and every step of one for which nothing does.
func TestStepIsNotGivenUpWhileTheNextIsHeldBack(t *testing.T) {
	excluded := func(t *core.Target) { t.Node.Excluded = true }
	waits := func(p *core.Policy) { p.WaitsForUpgrades = true }
	same := func(*core.Target) {}
	for name, c := range map[string]struct {
		change func(*core.Policy)
		target func(*core.Target)
		held   []string
		// unbegun is what holds back a repair for which nothing stands.
		unbegun []string
	}{
		"paused":            {paused, same, []string{"Paused holds back n"}, []string{"Paused holds back n"}},
		"a problem":         {problem("spec.x is y"), same, []string{"InvalidSpec holds back n"}, []string{"InvalidSpec holds back n"}},
		"upgrading":         {waits, func(t *core.Target) { t.Node.Upgrading = true }, []string{"TargetUpgrading holds back n"}, []string{"TargetUpgrading holds back n"}},
		"excluded":          {waits, excluded, []string{"Excluded holds back n"}, []string{"Excluded holds back n"}},
		"no template":       {func(p *core.Policy) { p.Steps = slices.Clone(p.Steps); p.Steps[1].Problem = "gone" }, same, []string{"TemplateUnusable holds back n"}, []string{"TemplateUnusable holds back n"}},
		"short circuit":     {maxUnhealthy(core.Count(0)), same, nil, []string{"TooManyUnhealthy holds back n"}},
		"several in flight": {maxInFlight(core.Count(0)), same, nil, []string{"InFlightLimit holds back n"}},
		"nothing":           {func(*core.Policy) {}, same, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := check("p", []int{0}, escalating, c.change)
			sick := aNode("n", dead, c.target)
			late, failed := requestFor(p, sick, rebooting, requestedAt(ago(time.Hour))), requestFor(p, sick, rebooting, says(core.No))
			begun, refused := repair(sick, p, started(ago(time.Hour))), repair(sick, p, started(ago(time.Hour)), attempts(3, ago(10*time.Minute)))
			for how, world := range map[string]core.Cluster{
				"its time is over": with([]core.Target{sick}, []core.Repair{begun}, late),
				"it failed":        with([]core.Target{sick}, []core.Repair{begun}, failed),
				"it never began":   with([]core.Target{sick}, []core.Repair{refused}),
			} {
				world.Observed, world.ClockAgrees, world.Upgrading = core.Yes, core.Yes, core.No
				d := core.Decide([]core.Policy{p}, world, noon)
				held := c.held
				if how == "it never began" {
					held = c.unbegun
				}
				if held == nil && len(d.Escalations) != 1 {
					t.Errorf("%s: it does %q, and does not give the step up", how, actionTexts(world, d))
				}
				if held != nil && (len(d.Escalations) > 0 || !slices.Equal(actionTexts(world, d), held)) {
					t.Errorf("%s: it does %q, want %q", how, actionTexts(world, d), held)
				}
			}
		})
	}
}

// TestHealthyDelay: the request stays for a while after the target is well, and the while begins anew
// when it falls ill again.
func TestHealthyDelay(t *testing.T) {
	sick, confirmed := aNode("n", dead), aNode("n", ready("True", ago(time.Minute)), func(t *core.Target) { t.ConfirmedHealthy = true })
	well := func(since time.Time) core.Target { return aNode("n", ready("True", since)) }
	for name, c := range map[string]struct {
		delay    time.Duration
		target   core.Target
		repaired func(*core.Repair)
		wants    []string
		next     time.Time
	}{
		"just well":           {patience, well(noon), recovered(time.Time{}), []string{"note n: true"}, noon.Add(patience)},
		"for a minute":        {patience, well(ago(time.Minute)), recovered(ago(time.Minute)), nil, noon.Add(4 * time.Minute)},
		"seen late":           {patience, well(ago(time.Hour)), recovered(ago(time.Minute)), nil, noon.Add(4 * time.Minute)},
		"flapped unseen":      {patience, well(ago(time.Minute)), recovered(ago(time.Hour)), nil, noon.Add(4 * time.Minute)},
		"over":                {patience, well(ago(patience)), recovered(ago(patience)), []string{"withdraw nRebootTemplate"}, time.Time{}},
		"ill again":           {patience, sick, recovered(ago(time.Minute)), []string{"note n: false"}, time.Time{}},
		"until confirmed":     {-1, well(ago(time.Hour)), recovered(ago(time.Hour)), nil, time.Time{}},
		"confirmed":           {-1, confirmed, recovered(ago(time.Minute)), []string{"withdraw nRebootTemplate"}, time.Time{}},
		"confirmed too early": {patience, confirmed, recovered(ago(time.Minute)), []string{"withdraw nRebootTemplate"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := check("p", []int{0}, classic, func(p *core.Policy) { p.HealthyDelay = c.delay })
			r := []core.Repair{repair(sick, p, started(ago(2*time.Hour)), c.repaired)}
			remediationCase{name, with([]core.Target{c.target}, r, requestFor(p, sick, rebooting)), c.wants, c.next}.run(t, p)
		})
	}
}

// TestNothingIsLeftBehind: targets that are gone or not selected any more, and health checks that are gone.
func TestNothingIsLeftBehind(t *testing.T) {
	p := check("p", []int{0}, classic)
	sick := aNode("n", dead)
	r := []core.Repair{repair(sick, p, started(ago(time.Hour)))}
	none := check("p", nil, classic)
	back := []string{"withdraw nRebootTemplate"}
	other := check("other", []int{0}, classic)
	for name, c := range map[string]struct {
		policies []core.Policy
		world    core.Cluster
		wants    []string
	}{
		"node deleted":                    {[]core.Policy{none}, with(nil, r, requestFor(p, sick, rebooting)), back},
		"node deleted, failed":            {[]core.Policy{none}, with(nil, r, requestFor(p, sick, rebooting, says(core.No))), append([]string{"end n: Withdrawn"}, back...)},
		"node deleted, leaving":           {[]core.Policy{none}, with(nil, r, requestFor(p, sick, rebooting, leaving)), []string{"end n: Withdrawn"}},
		"node deleted, withdrawn":         {[]core.Policy{none}, with(nil, r), []string{"end n: Withdrawn"}},
		"node to be replaced":             {[]core.Policy{none}, with(nil, r, requestFor(p, sick, rebooting, replaces)), nil},
		"node replaced":                   {[]core.Policy{none}, with(nil, r, requestFor(p, sick, rebooting, replaces, says(core.Yes))), append([]string{"end n: Succeeded"}, back...)},
		"node deleted, entry lost":        {[]core.Policy{none}, with(nil, nil, requestFor(p, sick, rebooting)), back},
		"a namesake":                      {[]core.Policy{p}, with([]core.Target{aNode("n", func(t *core.Target) { t.ID.UID = "later" })}, r, requestFor(p, sick, rebooting)), append([]string{"end n: Withdrawn"}, back...)},
		"not selected":                    {[]core.Policy{none}, with([]core.Target{sick}, r, requestFor(p, sick, rebooting)), back},
		"not selected, entry lost":        {[]core.Policy{none}, with([]core.Target{sick}, nil, requestFor(p, sick, rebooting)), back},
		"not selected, withdrawn":         {[]core.Policy{none}, with([]core.Target{sick}, r), []string{"end n: Withdrawn"}},
		"check gone":                      {nil, with([]core.Target{sick}, r, requestFor(p, sick, rebooting)), back},
		"check gone, entry lost":          {nil, with([]core.Target{sick}, nil, requestFor(p, sick, rebooting)), back},
		"check made anew, entry lost":     {[]core.Policy{check("p", []int{0}, classic, func(p *core.Policy) { p.ID.UID = "later" })}, with([]core.Target{aNode("n")}, nil, requestFor(p, sick, rebooting)), back},
		"anonymous, of a healthy target":  {[]core.Policy{p}, with([]core.Target{aNode("n")}, nil, requestFor(p, sick, rebooting, anonymous)), back},
		"anonymous, from another's forms": {[]core.Policy{p}, with([]core.Target{aNode("n")}, nil, requestFor(p, sick, reprovisioning, anonymous)), nil},
		"unnamed, another unparsable":     {[]core.Policy{p, check("q", nil, classic, unparsable)}, with([]core.Target{aNode("n")}, nil, requestFor(p, sick, rebooting, anonymous)), nil},
		"another's, another unparsable":   {[]core.Policy{p, check("q", nil, classic, unparsable)}, with([]core.Target{aNode("n")}, nil, requestFor(p, sick, rebooting)), back},
		"check unparsable, healthy":       {[]core.Policy{check("p", []int{0}, classic, unparsable)}, with([]core.Target{aNode("n")}, r, requestFor(p, sick, rebooting)), nil},
		"check unparsable, not selected":  {[]core.Policy{check("p", nil, classic, unparsable)}, with([]core.Target{sick}, r, requestFor(p, sick, rebooting)), nil},
		"check unparsable, not seen":      {[]core.Policy{check("p", nil, classic, unparsable)}, with(nil, r, requestFor(p, sick, rebooting)), nil},
		"check unparsable, repair lost":   {[]core.Policy{check("p", []int{0}, classic, unparsable)}, with([]core.Target{aNode("n")}, nil, requestFor(p, sick, rebooting)), nil},
		"check unparsable, no request":    {[]core.Policy{check("p", nil, classic, unparsable)}, with(nil, r), nil},
		"another check's": {
			[]core.Policy{check("p", []int{0}, classic), other}, with([]core.Target{sick}, []core.Repair{repair(sick, other, started(ago(time.Hour)))}, requestFor(other, sick, rebooting)), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			remediationCase{name, c.world, c.wants, time.Time{}}.run(t, c.policies...)
		})
	}
}

// TestEndsSayWhatIsKnown: another leader may have requested the repair and withdrawn it, and could not record it.
func TestEndsSayWhatIsKnown(t *testing.T) {
	well := aNode("n")
	asks, destroys := check("p", []int{0}, classic), check("p", []int{0})
	for want, p := range map[string]core.Policy{"no remediation request about it exists": asks, "nothing was done to it": destroys} {
		f := with([]core.Target{well}, []core.Repair{repair(well, p)})
		f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Finishes) != 1 || !strings.Contains(d.Finishes[0].Text, want) {
			t.Errorf("it ends as %+v, and the text should say that %s", d.Finishes, want)
		}
	}
}

// TestUnseenRequests: a request that can't be seen may stand, so its repair is left as it is.
func TestUnseenRequests(t *testing.T) {
	p := check("p", []int{0}, classic)
	for name, target := range map[string]core.Target{"sick": aNode("n", dead), "well": aNode("n")} {
		world := with([]core.Target{target}, []core.Repair{repair(target, p)})
		world.UnlistedTemplates = []core.Reference{{APIVersion: rebooting.APIVersion, Kind: rebooting.Kind}}
		remediationCase{name, world, []string{"RequestsUnseen holds back n"}, time.Time{}}.run(t, p)
	}
}

// TestLeases: another holder's lease holds a repair back, Fettle's own is renewed when half of it is over.
func TestLeases(t *testing.T) {
	p := check("p", []int{0}, classic, func(p *core.Policy) { p.Holder = "p" })
	leased := func(holder string, until time.Time) core.Target {
		return aNode("n", dead, func(t *core.Target) { t.Lease = core.Lease{Holder: holder, Until: until} })
	}
	later := noon.Add(time.Hour)
	hold := []string{"hold n for 11m0s as p"}
	sick := aNode("n", dead)
	r := []core.Repair{repair(sick, p)}
	for name, c := range map[string]remediationCase{
		"theirs":                {"they are at work", with([]core.Target{leased("maintenance", later)}, nil), []string{"LeaseHeld holds back n"}, later},
		"theirs, over":          {"they have let it expire", with([]core.Target{leased("maintenance", noon)}, nil), []string{"start n"}, time.Time{}},
		"ours from before":      {"it is ours", with([]core.Target{leased("p", later)}, nil), []string{"start n"}, time.Time{}},
		"at work":               {"it has half an hour", with([]core.Target{leased("p", later)}, r, requestFor(p, sick, rebooting)), nil, later.Add(-5*time.Minute - 30*time.Second)},
		"at work, half over":    {"it is renewed", with([]core.Target{leased("p", noon.Add(5*time.Minute))}, r, requestFor(p, sick, rebooting)), hold, time.Time{}},
		"at work, lost":         {"it is taken again", with([]core.Target{sick}, r, requestFor(p, sick, rebooting)), hold, time.Time{}},
		"at work, they took it": {"they keep it", with([]core.Target{leased("maintenance", later)}, r, requestFor(p, sick, rebooting)), nil, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, p) })
	}
}

// TestLeasesAreHeededForOthers: a health check of machines heeds none by itself, but one of nodes beside it does, and the gates of
// both are checked.
func TestLeasesAreHeededForOthers(t *testing.T) {
	later := noon.Add(time.Hour)
	leased := func(t *core.Target) { t.Lease = core.Lease{Holder: "maintenance", Until: later} }
	m, n := machine("m", dead, leased), aNode("n", leased)
	m.Node.Name = "n"
	machines := policy("machines", []int{0}, since(ago(48*time.Hour)))
	holds := func(p *core.Policy) { p.Holder = "nodes" }
	for name, c := range map[string]struct {
		nodes core.Policy
		wants []string
		next  time.Time
	}{
		"with a holder":    {check("nodes", []int{1}, classic, holds), []string{"LeaseHeld holds back m"}, later},
		"without a holder": {check("nodes", []int{1}, classic), []string{"start m"}, time.Time{}},
		"a dry run":        {check("nodes", []int{1}, classic, holds, dryRun), []string{"start m"}, time.Time{}},
		"of other nodes":   {check("nodes", nil, classic, holds), []string{"start m"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			remediationCase{name, with([]core.Target{m, n}, nil), c.wants, c.next}.run(t, machines, c.nodes)
		})
	}
}

// TestNoLeaseIsLeftBehind: a lease that no repair accounts for is released, though not before its repair could have
// been seen.
func TestNoLeaseIsLeftBehind(t *testing.T) {
	p := check("p", []int{0}, classic, func(p *core.Policy) { p.Holder = "p" })
	n := aNode("n")
	sick := aNode("n", dead)
	ended := repair(n, p, func(r *core.Repair) { r.Ended, r.Outcome = ago(time.Minute), core.Succeeded })
	ofGone := ended
	ofGone.Policy, ofGone.Holder = core.ID{Kind: "NodeCheck", Name: "gone", UID: "gone-uid"}, "fettle.io/NodeCheck-gone"
	lease := func(f core.Cluster, holder string, renewed time.Time) core.Cluster {
		f.Leases = []core.NodeLease{{Node: "n", Holder: holder, Renewed: renewed}}
		return f
	}
	alone, give := with([]core.Target{n}, nil), []string{"release n of p"}
	old := lease(alone, "p", ago(time.Minute))
	old.Age = 10 * time.Second
	unseen := lease(alone, "p", ago(time.Hour))
	unseen.UnlistedTemplates = []core.Reference{rebooting}
	for name, c := range map[string]remediationCase{
		"left long ago":           {"", lease(alone, "p", ago(time.Hour)), give, time.Time{}},
		"left just now":           {"its repair may not be seen yet", lease(alone, "p", ago(time.Second)), nil, noon.Add(59 * time.Second)},
		"at its time":             {"act at the deadline", lease(alone, "p", ago(time.Minute)), give, time.Time{}},
		"by old caches":           {"they may have shown a request since", old, nil, noon.Add(10 * time.Second)},
		"it does not say when":    {"", lease(alone, "p", time.Time{}), give, time.Time{}},
		"another holder's":        {"", lease(alone, "maintenance", ago(time.Hour)), nil, time.Time{}},
		"without a holder":        {"", lease(alone, "", ago(time.Hour)), nil, time.Time{}},
		"after its repair":        {"", lease(with([]core.Target{n}, []core.Repair{ended}), "p", ago(time.Hour)), give, time.Time{}},
		"of a policy that went":   {"the ledger knows it", lease(with(nil, []core.Repair{ofGone}), "fettle.io/NodeCheck-gone", ago(time.Hour)), []string{"release n of fettle.io/NodeCheck-gone"}, time.Time{}},
		"of another controller":   {"it has the same policy, and a name of its own", lease(with(nil, []core.Repair{ofGone}), "NodeCheck-gone", ago(time.Hour)), nil, time.Time{}},
		"of an unknown holder":    {"it may be another's", lease(alone, "fettle.io/NodeCheck-gone", ago(time.Hour)), nil, time.Time{}},
		"a request stands":        {"", lease(with([]core.Target{sick}, nil, requestFor(p, sick, rebooting)), "p", ago(time.Hour)), []string{"start n"}, time.Time{}},
		"requests can't be seen":  {"one may stand", unseen, nil, time.Time{}},
		"under repair":            {"", lease(with([]core.Target{sick}, []core.Repair{repair(sick, p)}), "p", ago(time.Hour)), []string{"step 0 for n"}, time.Time{}},
		"another node's is under": {"", lease(with([]core.Target{aNode("m", dead)}, []core.Repair{repair(aNode("m"), p)}), "p", ago(time.Hour)), []string{"release n of p", "step 0 for m"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, p) })
	}
}

// TestHandedOver: a target is marked once, and its repair lasts until the mark is taken away.
func TestHandedOver(t *testing.T) {
	p := policy("p", []int{0}, needsNoOwner)
	sick, well := machine("m", dead), machine("m")
	mark := func(t core.Target) core.Target { t.ExternallyRemediated = true; return t }
	begun := func(r *core.Repair) { r.Begun = ago(time.Minute) }
	for name, c := range map[string]remediationCase{
		"recorded":            {"it is marked", with([]core.Target{sick}, []core.Repair{repair(sick, p)}), []string{"step 0 for m"}, time.Time{}},
		"marked":              {"it is in their hands", with([]core.Target{mark(sick)}, []core.Repair{repair(sick, p, begun)}), nil, time.Time{}},
		"marked, well":        {"until they say so", with([]core.Target{mark(well)}, []core.Repair{repair(sick, p, begun)}), nil, time.Time{}},
		"unmarked, well":      {"they have said so", with([]core.Target{well}, []core.Repair{repair(sick, p, begun)}), []string{"end m: Succeeded"}, time.Time{}},
		"unmarked, still ill": {"it is marked again", with([]core.Target{sick}, []core.Repair{repair(sick, p, begun)}), []string{"step 0 for m"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, p) })
	}
}

// TestHandsOff: no request about a target is stopped or withdrawn while its health check is in dry run, or while a
// user has taken the target out of health checking. That holds for requests of all authors.
func TestHandsOff(t *testing.T) {
	acting, dry := check("p", []int{0}, escalating), check("p", []int{0}, escalating, dryRun)
	sick, well := aNode("n", dead), aNode("n")
	skipped := aNode("n", dead, func(t *core.Target) { t.Skipped = true })
	none := check("p", nil, escalating)
	begun := repair(sick, acting, started(ago(time.Hour)))
	q := requestFor(acting, sick, rebooting)
	anonymous := q
	anonymous.Policy = core.ID{}
	lease := with([]core.Target{well}, nil)
	lease.Leases = []core.NodeLease{{Node: "n", Holder: core.HolderOf(dry.ID), Renewed: ago(time.Hour)}}
	held := dry
	held.Holder = core.HolderOf(dry.ID)
	for name, c := range map[string]struct {
		policy core.Policy
		world  core.Cluster
		want   []string
	}{
		"rehearses, under way":   {dry, with([]core.Target{sick}, []core.Repair{begun}, q), []string{"end n: Withdrawn"}},
		"rehearses, no entry":    {dry, with([]core.Target{sick}, nil, q), nil},
		"rehearses, well":        {dry, with([]core.Target{well}, nil, q), nil},
		"rehearses, anonymous":   {dry, with([]core.Target{well}, nil, anonymous), nil},
		"rehearses, target gone": {dry, with(nil, []core.Repair{begun}, q), []string{"end n: Withdrawn"}},
		"rehearses, deselected":  {check("p", nil, escalating, dryRun), with([]core.Target{sick}, nil, q), nil},
		"rehearses, its lease":   {held, lease, nil},
		"acts, well":             {acting, with([]core.Target{well}, nil, q), []string{"withdraw nRebootTemplate"}},
		"acts, deselected":       {none, with([]core.Target{sick}, []core.Repair{begun}, q), []string{"withdraw nRebootTemplate"}},
		"taken out":              {none, with([]core.Target{skipped}, []core.Repair{begun}, anonymous), []string{"end n: Withdrawn"}},
		"taken out, no repair":   {none, with([]core.Target{skipped}, nil, anonymous), nil},
		"let in again":           {acting, with([]core.Target{sick}, nil, anonymous), []string{"start n"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.world.Observed, c.world.ClockAgrees, c.world.Upgrading = core.Yes, core.Yes, core.No
			d := core.Decide([]core.Policy{c.policy}, c.world, noon)
			if diff := cmp.Diff(c.want, actionTexts(c.world, d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, f := range d.Finishes {
				if f.RecordOnly != c.policy.DryRun {
					t.Errorf("it ends with hands off: %t", f.RecordOnly)
				}
			}
		})
	}
}

// TestHandedOverAndFailedSince: its remediator may never give it back, so it is repaired like a target that can't recover.
func TestHandedOverAndFailedSince(t *testing.T) {
	deletion := func(p *core.Policy) { p.FailedSteps = []core.Step{{Remedy: "Delete", Nature: core.Delete}} }
	marks := policy("p", []int{0}, func(p *core.Policy) { p.Steps = []core.Step{{Remedy: "Mark", Nature: core.Annotate}} })
	both := marks
	deletion(&both)
	lost := machine("m", failed(noon), externallyRemediated)
	begun := func(r *core.Repair) { r.Begun = ago(time.Minute) }
	over := func(r *core.Repair) { r.Ended, r.Outcome = noon, core.Withdrawn }
	deletes := func(r *core.Repair) { r.Steps = both.FailedSteps }
	for name, c := range map[string]struct {
		world  core.Cluster
		policy core.Policy
		want   []string
	}{
		"it is deleted next":      {with([]core.Target{lost}, []core.Repair{repair(lost, both, begun)}), both, []string{"end m: Withdrawn"}},
		"the pass after that":     {with([]core.Target{lost}, []core.Repair{repair(lost, both, begun, over)}), both, []string{"start m"}},
		"its deletion under way":  {with([]core.Target{lost}, []core.Repair{repair(lost, both, begun, deletes)}), both, []string{"step 0 for m"}},
		"nothing else to be done": {with([]core.Target{lost}, []core.Repair{repair(lost, marks, begun)}), marks, nil},
	} {
		t.Run(name, func(t *testing.T) {
			remediationCase{name, c.world, c.want, time.Time{}}.run(t, c.policy)
		})
	}
}

// TestOneGroup: a node and its machine are repaired once, and every health check of either counts.
func TestOneGroup(t *testing.T) {
	both := func(changes ...func(*core.Target)) []core.Target {
		m := machine("m", append(changes, dead)...)
		m.Node.Name = "n"
		return []core.Target{m, aNode("n", append(changes, dead)...)}
	}
	older := policy("machines", []int{0}, since(ago(48*time.Hour)))
	younger := check("nodes", []int{1}, classic)
	oldest := check("nodes", []int{1}, classic, since(ago(72*time.Hour)))
	well := both()
	well[0].Node, well[1].Node = machine("n").Node, aNode("n").Node
	well[0].Node.Name = "n"
	for name, c := range map[string]struct {
		policies []core.Policy
		world    core.Cluster
		wants    []string
	}{
		"the machine's check is older":  {[]core.Policy{older, younger}, with(both(), nil), []string{"start m"}},
		"the node's check is older":     {[]core.Policy{older, oldest}, with(both(), nil), []string{"start n"}},
		"the other one is paused":       {[]core.Policy{older, check("nodes", []int{1}, classic, paused)}, with(both(), nil), []string{"Paused holds back m"}},
		"the other one short-circuits":  {[]core.Policy{policy("machines", []int{0}, since(ago(48*time.Hour)), maxUnhealthy(core.Count(0))), oldest}, with(both(), nil), []string{"TooManyUnhealthy holds back n"}},
		"the machine is being repaired": {[]core.Policy{older, oldest}, with(both(deleting), []core.Repair{repair(both()[0], older)}), nil},
		"excluded":                      {[]core.Policy{older, younger}, with(both(func(t *core.Target) { t.Node.Excluded = true }), nil), []string{"Excluded holds back m"}},
		"two of them run": {
			[]core.Policy{older, oldest},
			with(both(), []core.Repair{
				repair(both()[1], oldest, started(ago(time.Hour))), repair(both()[0], older, started(ago(time.Minute))),
			}, requestFor(oldest, both()[1], rebooting)),
			[]string{"end m: Withdrawn"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			remediationCase{name, c.world, c.wants, time.Time{}}.run(t, c.policies...)
		})
	}
	if got := core.SiblingOf(&core.Cluster{Targets: both()}, 1).Name; got != "m" {
		t.Errorf("the sibling of the node is %q, want its machine", got)
	}
	disputed := both()
	disputed[0].Problem = "another machine refers to its node"
	if got := core.SiblingOf(&core.Cluster{Targets: disputed}, 1); got != (core.ID{}) {
		t.Errorf("the sibling of the node is %q, though it is not known whether that is its machine", got.Name)
	}
}

// TestI4OneOfTheControlPlaneOverAllHealthChecks: also over health checks that don't know each other, and with
// the requests of other authors.
func TestI4OneOfTheControlPlaneOverAllHealthChecks(t *testing.T) {
	cp := func(name string, survives core.Tri, changes ...func(*core.Target)) core.Target {
		return aNode(name, append(changes, dead, controlPlane, func(t *core.Target) { t.QuorumSurvives = survives })...)
	}
	byLabel := func(t core.Target) core.Target {
		t.ControlPlane, t.ControlPlaneByLabel = false, true
		return t
	}
	a, b := check("a", []int{0}, classic, since(ago(72*time.Hour))), check("b", []int{1}, classic)
	for name, c := range map[string]struct {
		world core.Cluster
		wants []string
		next  time.Time
	}{
		"a label alone asks for quorum":        {with([]core.Target{byLabel(cp("x", core.Unknown)), cp("y", core.Yes)}, nil), []string{"ControlPlaneBusy holds back x", "QuorumUnknown holds back x", "start y"}, noon.Add(15 * time.Second)},
		"a label alone waits for others":       {with([]core.Target{byLabel(cp("x", core.Yes)), aNode("y", controlPlane, externallyRemediated)}, nil), []string{"ControlPlaneBusy holds back x"}, time.Time{}},
		"a label alone holds none back":        {with([]core.Target{byLabel(aNode("x", externallyRemediated)), cp("y", core.Yes)}, nil), []string{"start y"}, time.Time{}},
		"a label alone goes last":              {with([]core.Target{byLabel(cp("x", core.Yes)), cp("y", core.Yes)}, nil), []string{"ControlPlaneBusy holds back x", "start y"}, time.Time{}},
		"labels alone go one at a time":        {with([]core.Target{byLabel(cp("x", core.Yes)), byLabel(cp("y", core.Yes))}, nil), []string{"ControlPlaneBusy holds back y", "start x"}, time.Time{}},
		"a label alone is under repair":        {with([]core.Target{byLabel(cp("x", core.Yes)), byLabel(cp("y", core.Yes))}, []core.Repair{repair(cp("x", core.Yes), a)}, requestFor(a, cp("x", core.Yes), rebooting)), []string{"ControlPlaneBusy holds back y"}, time.Time{}},
		"a label alone is one of two recorded": {with([]core.Target{byLabel(cp("x", core.Yes)), byLabel(cp("y", core.Yes))}, []core.Repair{repair(cp("x", core.Yes), a), repair(cp("y", core.Yes), b)}), []string{"ControlPlaneBusy holds back y", "step 0 for x"}, time.Time{}},
		"a label alone is recorded before":     {with([]core.Target{byLabel(cp("x", core.Yes)), cp("y", core.Yes)}, []core.Repair{repair(cp("x", core.Yes), a), repair(cp("y", core.Yes), b)}), []string{"ControlPlaneBusy holds back x", "step 0 for y"}, time.Time{}},
		"labels alone are of two namespaces":   {with([]core.Target{byLabel(cp("x", core.Yes)), byLabel(cp("y", core.Yes, func(t *core.Target) { t.ID.Namespace = "tenant" }))}, nil), []string{"start x", "start y"}, time.Time{}},
		"two fail":                             {with([]core.Target{cp("x", core.Yes), cp("y", core.Yes)}, nil), []string{"ControlPlaneBusy holds back y", "start x"}, time.Time{}},
		"one is under repair":                  {with([]core.Target{cp("x", core.Yes), cp("y", core.Yes)}, []core.Repair{repair(cp("x", core.Yes), a)}, requestFor(a, cp("x", core.Yes), rebooting)), []string{"ControlPlaneBusy holds back y"}, time.Time{}},
		"one has a request":                    {with([]core.Target{aNode("x", controlPlane), cp("y", core.Yes)}, nil, requestFor(a, cp("x", core.Yes), rebooting)), []string{"ControlPlaneBusy holds back y", "withdraw xRebootTemplate"}, time.Time{}},
		"it has one itself":                    {with([]core.Target{cp("x", core.Yes), cp("y", core.Yes)}, nil, requestFor(a, cp("x", core.Yes), rebooting)), []string{"ControlPlaneBusy holds back y", "start x"}, time.Time{}},
		"one is marked":                        {with([]core.Target{aNode("x", controlPlane, externallyRemediated), cp("y", core.Yes)}, nil), []string{"ControlPlaneBusy holds back y"}, time.Time{}},
		"it is marked itself":                  {with([]core.Target{cp("x", core.Yes), cp("y", core.Yes, externallyRemediated)}, nil), []string{"ControlPlaneBusy holds back x", "start y"}, time.Time{}},
		"quorum would be lost":                 {with([]core.Target{cp("x", core.No), cp("y", core.Yes)}, nil), []string{"QuorumLost holds back x", "start y"}, noon.Add(15 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			remediationCase{name, c.world, c.wants, c.next}.run(t, a, b)
		})
	}
}

// TestUpgradesAreWaitedFor: a health check that says so waits for upgrades of the cluster and of the node. It waits
// too while it is not known whether there is one.
func TestUpgradesAreWaitedFor(t *testing.T) {
	waits := check("p", []int{0}, classic, func(p *core.Policy) { p.WaitsForUpgrades = true })
	for name, c := range map[string]struct {
		upgrading core.Tri
		node      bool
		policy    core.Policy
		want      []string
	}{
		"cluster":   {core.Yes, false, waits, []string{"ClusterUpgrading holds back n"}},
		"not known": {core.Unknown, false, waits, []string{"ClusterUpgrading holds back n"}},
		"node":      {core.No, true, waits, []string{"TargetUpgrading holds back n"}},
		"nothing":   {core.No, false, waits, []string{"start n"}},
		"no matter": {core.Yes, true, check("p", []int{0}, classic), []string{"start n"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := with([]core.Target{aNode("n", dead, func(t *core.Target) { t.Node.Upgrading = c.node })}, nil)
			f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, c.upgrading
			if diff := cmp.Diff(c.want, actionTexts(f, core.Decide([]core.Policy{c.policy}, f, noon))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRelapses: a node that keeps failing is repaired after pauses that grow, where its health check says so.
func TestRelapses(t *testing.T) {
	backoff := func(p *core.Policy) { p.Backoff = core.Backoff{Base: time.Minute, Limit: time.Hour} }
	sick := aNode("n", ready("False", ago(6*time.Minute)))
	past := func(p core.Policy, at time.Time, n int) core.Repair {
		return repair(sick, p, started(at.Add(-time.Minute)), ended(at), retry(n), number(1))
	}
	for name, c := range map[string]struct {
		ended time.Time
		retry int
		paces bool
		wants []string
		next  time.Time
	}{
		"a minute ago":           {ago(time.Minute), 0, true, []string{"start n"}, time.Time{}},
		"half a minute ago":      {ago(30 * time.Second), 0, true, []string{"BackingOff holds back n"}, noon.Add(30 * time.Second)},
		"for the third time":     {ago(time.Minute), 2, true, []string{"BackingOff holds back n"}, noon.Add(3 * time.Minute)},
		"long ago":               {ago(2 * time.Hour), 7, true, []string{"start n"}, time.Time{}},
		"where nothing paces it": {ago(time.Second), 7, false, []string{"start n"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := check("p", []int{0}, classic, func(p *core.Policy) { p.Backoff = core.Backoff{} })
			if c.paces {
				backoff(&p)
			}
			remediationCase{name, with([]core.Target{sick}, []core.Repair{past(p, c.ended, c.retry)}), c.wants, c.next}.run(t, p)
		})
	}
}

// TestI11NodeIsGoneWithItsName: nothing is repaired for a node that the API server does not have any more,
// or has under another UID. A request for it by its name would have a namesake repaired that no policy has
// judged.
func TestI11NodeIsGoneWithItsName(t *testing.T) {
	p := check("p", []int{0}, escalating)
	sick, gone := aNode("n", dead), aNode("n", nodeIs(core.NodeGone))
	r := func(changes ...func(*core.Repair)) []core.Repair {
		return []core.Repair{repair(sick, p, append(changes, started(ago(time.Hour)))...)}
	}
	for name, world := range map[string]core.Cluster{
		"not under repair": with([]core.Target{gone}, nil),
		"recorded":         with([]core.Target{gone}, r()),
		"asked":            with([]core.Target{gone}, r(), requestFor(p, sick, rebooting)),
		"given up":         with([]core.Target{gone}, r(gaveUp(noon)), requestFor(p, sick, rebooting)),
	} {
		t.Run(name, func(t *testing.T) {
			remediationCase{"it ends when the cache shows it too", world, nil, time.Time{}}.run(t, p)
		})
	}
	v := core.Decide([]core.Policy{p}, clusterOf([]core.Target{gone}), noon).Verdicts[0]
	if v.Health != core.Gone || v.Text() != "the node no longer exists" {
		t.Errorf("the verdict is %s: %s", v.Health, v.Text())
	}
}

// TestStepHasItsTime: a step may have been held back, or a user may have deleted its request. The time of the
// step then runs from its request, and not from when it was due.
func TestStepHasItsTime(t *testing.T) {
	p := check("p", []int{0}, escalating)
	sick := aNode("n", dead)
	late := func(template core.Reference) core.Request {
		return requestFor(p, sick, template, requestedAt(ago(time.Minute)))
	}
	for name, c := range map[string]remediationCase{
		"the first": {
			"recorded an hour ago", with([]core.Target{sick}, []core.Repair{repair(sick, p, started(ago(time.Hour)))}, late(rebooting)),
			nil, noon.Add(4 * time.Minute),
		},
		"the second": {
			"due since an hour", with([]core.Target{sick}, []core.Repair{repair(sick, p, started(ago(2*time.Hour)), gaveUp(ago(time.Hour)))}, late(reprovisioning)),
			nil, noon.Add(9 * time.Minute),
		},
		"older than the repair": {
			"a lost entry", with([]core.Target{sick}, []core.Repair{repair(sick, p)}, requestFor(p, sick, rebooting, requestedAt(ago(time.Hour)))),
			nil, noon.Add(4 * time.Minute),
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t, p) })
	}
}

// TestRequestsNotSeenYet: a request that no cache shows yet can't be changed. It is looked for again when it
// isn't believed in any more, since nothing else may tell that a user has deleted it at once.
func TestRequestsNotSeenYet(t *testing.T) {
	p := check("p", []int{0}, escalating)
	sick, well := aNode("n", dead), aNode("n")
	unseen := func(q *core.Request) { q.ID, q.Created = core.ID{}, ago(10*time.Second) }
	r := func(changes ...func(*core.Repair)) []core.Repair {
		return []core.Repair{repair(sick, p, append(changes, started(ago(time.Hour)))...)}
	}
	failed := requestFor(p, sick, rebooting, says(core.No), unseen)
	for name, c := range map[string]remediationCase{
		"waited for": {"it is not believed in for ever", with([]core.Target{sick}, r(), requestFor(p, sick, rebooting, unseen)), nil, noon.Add(50 * time.Second)},
		"given up":   {"no remediator could be told to stop", with([]core.Target{sick}, r(), failed), nil, noon.Add(50 * time.Second)},
		"withdrawn":  {"it can't be named", with([]core.Target{well}, r(recovered(noon)), requestFor(p, sick, rebooting, unseen)), nil, noon.Add(50 * time.Second)},
		"no repair":  {"its repair was deleted", with([]core.Target{well}, nil, requestFor(p, sick, rebooting, unseen)), nil, noon.Add(50 * time.Second)},
		"no target":  {"it is gone too", with(nil, nil, requestFor(p, sick, rebooting, unseen)), nil, noon.Add(50 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			var m core.Expectations
			m.ExpectRequest(c.world.Requests[0], ago(10*time.Second))
			c.world.Requests, c.world.Observed = nil, core.Yes
			m.Overlay(&c.world, noon)
			c.run(t, p)
		})
	}
}

// TestRelapsesThatEndedAtOnce: of two repairs that ended in the same instant, the one with more retries paces
// the next. The order of the ledger changes nothing (I7).
func TestRelapsesThatEndedAtOnce(t *testing.T) {
	p := check("p", []int{0}, classic, func(p *core.Policy) { p.Backoff = core.Backoff{Base: time.Minute, Limit: time.Hour} })
	sick := aNode("n", ready("False", ago(6*time.Minute)))
	past := func(n int) core.Repair {
		return repair(sick, p, started(ago(2*time.Minute)), ended(ago(time.Minute)), retry(n), number(n+1))
	}
	for name, repairs := range map[string][]core.Repair{"rising": {past(0), past(2)}, "falling": {past(2), past(0)}} {
		remediationCase{name, with([]core.Target{sick}, repairs), []string{"BackingOff holds back n"}, noon.Add(3 * time.Minute)}.run(t, p)
	}
}

// TestStepThatAnotherLeaderRecorded: the other leader begins the step for a moment. It may have made and withdrawn the request already.
func TestStepThatAnotherLeaderRecorded(t *testing.T) {
	foreign := func(r *core.Repair) { r.RecordedElsewhere = true }
	started := func(ago time.Duration) func(*core.Repair) {
		return func(r *core.Repair) { r.Started = noon.Add(-ago) }
	}
	deleting := func(p *core.Policy) { p.Steps = []core.Step{{Remedy: "Delete", Nature: core.Delete}} }
	takes := []string{"step 0 for x"}
	cases := map[string]struct {
		steps  func(*core.Policy)
		repair []func(*core.Repair)
		want   []string
		next   time.Time
	}{
		"a moment ago":               {classic, []func(*core.Repair){foreign, started(time.Second)}, nil, noon.Add(4 * time.Second)},
		"a while ago":                {classic, []func(*core.Repair){foreign, started(5 * time.Second)}, takes, time.Time{}},
		"by this process":            {classic, []func(*core.Repair){started(time.Second)}, takes, time.Time{}},
		"a further step":             {escalating, []func(*core.Repair){foreign, started(time.Hour), gaveUp(ago(time.Second))}, nil, noon.Add(4 * time.Second)},
		"what a revision keeps from": {deleting, []func(*core.Repair){foreign, started(time.Second)}, takes, time.Time{}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			x, p := aNode("x", dead), check("p", []int{0}, c.steps)
			x.Owner = core.ID{Kind: "Set", Name: "s", UID: "s-uid"}
			f := clusterOf([]core.Target{x}, repair(x, p, c.repair...))
			d := core.Decide([]core.Policy{p}, f, noon)
			if got := actionTexts(f, d); !slices.Equal(got, c.want) {
				t.Errorf("it does %q, want %q", got, c.want)
			}
			if !c.next.IsZero() && !d.NextAt.Equal(c.next) {
				t.Errorf("it looks again at %s, want %s", d.NextAt, c.next)
			}
		})
	}
}

// TestRecoveryIsLeftToTheLeaderThatRecordedTheStep: a leader has seen the target fail, and recorded a step. Another leader that has not
// seen the failure does not end the repair for a moment. A request that stands is withdrawn all the same (I12).
func TestRecoveryIsLeftToTheLeaderThatRecordedTheStep(t *testing.T) {
	foreign := func(r *core.Repair) { r.RecordedElsewhere = true }
	started := func(ago time.Duration) func(*core.Repair) {
		return func(r *core.Repair) { r.Started = noon.Add(-ago) }
	}
	well, suspect := ready("True", ago(time.Hour)), ready("False", ago(time.Second))
	ends, withdraws := []string{"end x: Recovered"}, []string{"withdraw xRebootTemplate"}
	cases := map[string]struct {
		node    func(*core.Target)
		repair  []func(*core.Repair)
		request bool
		want    []string
		next    time.Time
	}{
		"a moment ago":                 {well, []func(*core.Repair){foreign, started(time.Second)}, false, nil, noon.Add(4 * time.Second)},
		"a while ago":                  {well, []func(*core.Repair){foreign, started(5 * time.Second)}, false, ends, time.Time{}},
		"by this process":              {well, []func(*core.Repair){started(time.Second)}, false, ends, time.Time{}},
		"a further step":               {well, []func(*core.Repair){foreign, started(time.Hour), gaveUp(ago(time.Second))}, false, nil, noon.Add(4 * time.Second)},
		"suspect, a moment ago":        {suspect, []func(*core.Repair){foreign, started(time.Second)}, false, nil, noon.Add(4 * time.Second)},
		"suspect, a while ago":         {suspect, []func(*core.Repair){foreign, started(5 * time.Second)}, false, ends, time.Time{}},
		"suspect, by this process":     {suspect, []func(*core.Repair){started(time.Second)}, false, ends, time.Time{}},
		"with a request, a moment ago": {well, []func(*core.Repair){foreign, started(time.Second)}, true, withdraws, time.Time{}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			x, p := aNode("x", c.node), check("p", []int{0}, escalating)
			f := clusterOf([]core.Target{x}, repair(x, p, c.repair...))
			if c.request {
				f.Requests = []core.Request{requestFor(p, x, rebooting)}
			}
			d := core.Decide([]core.Policy{p}, f, noon)
			if got := actionTexts(f, d); !slices.Equal(got, c.want) {
				t.Errorf("it does %q, want %q", got, c.want)
			}
			if !c.next.IsZero() && !d.NextAt.Equal(c.next) {
				t.Errorf("it looks again at %s, want %s", d.NextAt, c.next)
			}
		})
	}
}

// TestRequestedTargetIsInFlight: a user has deleted a repair, and its node is no hindrance to itself. To
// another node it is.
func TestRequestedTargetIsInFlight(t *testing.T) {
	x, y := aNode("x", dead), aNode("y", dead)
	p := check("p", []int{0, 1}, escalating, func(p *core.Policy) { p.MaxInFlight = core.Count(1) })
	for _, of := range []core.Target{x, y} {
		f := clusterOf([]core.Target{x, y})
		f.Requests = []core.Request{requestFor(p, of, rebooting)}
		d := core.Decide([]core.Policy{p}, f, noon)
		other := map[string]string{"x": "y", "y": "x"}[of.ID.Name]
		if got, want := actionTexts(f, d), []string{"InFlightLimit holds back " + other, "start " + of.ID.Name}; !slices.Equal(got, want) {
			t.Errorf("%s is requested: it does %q, want %q", of.ID.Name, got, want)
		}
		if got := d.Tallies[0].InFlight; got != 1 {
			t.Errorf("%s is requested: %d are in flight", of.ID.Name, got)
		}
	}
}

// TestQuorumIsCheckedAgain: no watch shows the quorum. So while it holds back a repair it is read again after a
// pause, and not in each pass.
func TestQuorumIsCheckedAgain(t *testing.T) {
	p := check("p", []int{0}, classic)
	for _, survives := range []core.Tri{core.No, core.Unknown} {
		x := aNode("x", dead, controlPlane)
		f := clusterOf([]core.Target{x})
		quorumOf(&f, survives)
		d := core.Decide([]core.Policy{p}, f, noon)
		if len(d.Refusals) != 1 || len(d.Starts) > 0 || !d.NextAt.Equal(noon.Add(15*time.Second)) {
			t.Fatalf("quorum is %s: it refuses %+v and looks again at %s", survives, d.Refusals, d.NextAt)
		}
		d = core.Decide([]core.Policy{p}, f, d.NextAt)
		if !slices.Equal(d.QuorumReads, []int{0}) {
			t.Errorf("quorum was %s: it asks for that of %v", survives, d.QuorumReads)
		}
	}
}
