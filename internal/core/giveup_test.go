package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// threeTries has a pool given up after three failed replacements in a row.
func threeTries(p *core.Policy) {
	p.Backoff = core.Backoff{Base: time.Second, Limit: time.Second, GiveUpAfter: 3}
}

// byGroups has a pool given up as threeTries does, and judges by a group alone.
func byGroups(tests []core.ConditionTest) func(*core.Policy) {
	return func(p *core.Policy) { threeTries(p); groups(tests)(p) }
}

// byTheirOwn has a pool given up as threeTries does, and judges by a condition of the target's own object.
func byTheirOwn(p *core.Policy) {
	threeTries(p)
	p.Criteria.TargetConditions = []core.ConditionCriterion{{Type: "Healthy", Status: "False", For: patience}}
}

// ofItself adds a condition to a target's own object.
func ofItself(kind, status string, since time.Time) func(*core.Target) {
	return func(t *core.Target) {
		t.Conditions = append(t.Conditions, core.Condition{Type: kind, Status: status, Since: since})
	}
}

func marked(t *core.Target) { t.RemediationRequested = true }

func resumedAt(at time.Time) func(*core.Policy) {
	return func(p *core.Policy) { p.Backoff.ResumedAt = at }
}

func madeFrom(template string) func(*core.Target) {
	return func(t *core.Target) { t.OwnerTemplate = template }
}

// TestGivingUp: a pool is given up, and resumed. The last repair of the pool is the third in a row,
// and started an hour ago. The machine "heir" was created a second later and has not joined.
func TestGivingUp(t *testing.T) {
	heir := machine("heir", created(ago(time.Hour-time.Second)), awaited(ago(time.Hour-time.Second)), madeFrom("new"))
	last := past("old", ago(time.Hour), retry(2))
	of := func(template string) core.Repair {
		r := last
		r.OwnerTemplate = template
		return r
	}
	fails := func(at, since time.Duration) core.Target {
		return machine("heir", created(ago(at)), ready("False", ago(since)))
	}
	others := core.ID{Kind: "MachineSet", Namespace: "machines", Name: "others", UID: "others-uid"}
	for name, c := range map[string]struct {
		reason  string
		change  func(*core.Policy)
		targets []core.Target
		repair  core.Repair
		given   bool
		retry   int
	}{
		"the third failure":                          {"as many as are allowed", threeTries, []core.Target{heir}, last, true, 0},
		"the second failure":                         {"one is left", threeTries, []core.Target{heir}, past("old", ago(time.Hour), retry(1)), false, 2},
		"without a limit":                            {"never", func(*core.Policy) {}, []core.Target{heir}, last, false, 3},
		"made a day after the last":                  {"a person has deleted the one before", threeTries, []core.Target{heir}, past("old", ago(26*time.Hour), retry(2)), true, 0},
		"an older machine":                           {"its replacement would fail too", threeTries, []core.Target{machine("m", dead), heir}, last, true, 0},
		"an older machine alone":                     {"nothing shows that replacements fail", threeTries, []core.Target{machine("m", dead)}, last, false, 0},
		"a younger machine that works":               {"the pool makes such", threeTries, []core.Target{heir, machine("well", created(ago(time.Minute)))}, last, false, 0},
		"a machine that works, but older":            {"it was made before", threeTries, []core.Target{heir, machine("well", created(ago(2*time.Hour)))}, last, true, 0},
		"a machine that has lived for hours":         {"it failed long after it was made", threeTries, []core.Target{fails(23*time.Hour, 20*time.Hour)}, past("old", ago(24*time.Hour), retry(2)), false, 0},
		"a machine that said so after hours":         {"it had a node until then", threeTries, []core.Target{machine("heir", created(ago(23*time.Hour)), failed(ago(20*time.Hour)))}, past("old", ago(24*time.Hour), retry(2)), false, 0},
		"a machine that never joined":                {"it said so after hours, and has not worked", threeTries, []core.Target{machine("heir", created(ago(23*time.Hour)), nodeIs(core.NodeAwaited), failed(ago(20*time.Hour)))}, past("old", ago(24*time.Hour), retry(2)), true, 0},
		"a machine that lived, by a group":           {"it failed long after it was made", byGroups(tests(unready)), []core.Target{fails(23*time.Hour, 20*time.Hour)}, past("old", ago(24*time.Hour), retry(2)), false, 0},
		"a machine that failed soon, by one":         {"within an hour", byGroups(tests(unready)), []core.Target{fails(23*time.Hour, 22*time.Hour+time.Second)}, past("old", ago(24*time.Hour), retry(2)), true, 0},
		"one with a reason for hours":                {"the condition tells that it was well until then", byGroups(tests(frozen)), []core.Target{machine("heir", created(ago(23*time.Hour)), reasoned("KernelDeadlock", "True", "DockerHung", ago(20*time.Hour)), seen(frozen, ago(time.Hour)))}, past("old", ago(24*time.Hour), retry(2)), false, 0},
		"one with a reason soon":                     {"a restart may have set the sighting back", byGroups(tests(frozen)), []core.Target{machine("heir", created(ago(23*time.Hour)), reasoned("KernelDeadlock", "True", "DockerHung", ago(23*time.Hour)), seen(frozen, ago(time.Hour)))}, past("old", ago(24*time.Hour), retry(2)), true, 0},
		"one whose condition is missing":             {"only a process remembers since when, and forgets", byGroups(tests(mute)), []core.Target{machine("heir", created(ago(23*time.Hour)), seen(mute, ago(time.Hour)))}, past("old", ago(24*time.Hour), retry(2)), true, 0},
		"a machine that lived, by its own condition": {"it failed long after it was made", byTheirOwn, []core.Target{machine("heir", created(ago(23*time.Hour)), ofItself("Healthy", "False", ago(20*time.Hour)))}, past("old", ago(24*time.Hour), retry(2)), false, 0},
		"a machine that never joined, by its own":    {"it has not worked", byTheirOwn, []core.Target{machine("heir", created(ago(23*time.Hour)), nodeIs(core.NodeAwaited), ofItself("Healthy", "False", ago(20*time.Hour)))}, past("old", ago(24*time.Hour), retry(2)), true, 0},
		"a machine that works, and a person asks":    {"no criterion finds it unhealthy", threeTries, []core.Target{machine("heir", created(ago(23*time.Hour)), byHand)}, past("old", ago(24*time.Hour), retry(2)), false, 0},
		"a machine that works, and a person marks":   {"no criterion finds it unhealthy", threeTries, []core.Target{machine("heir", created(ago(23*time.Hour)), marked)}, past("old", ago(24*time.Hour), retry(2)), false, 0},
		"a machine that fails, and a person asks":    {"it has failed soon", threeTries, []core.Target{machine("heir", created(ago(23*time.Hour)), ready("False", ago(22*time.Hour+time.Second)), byHand)}, past("old", ago(24*time.Hour), retry(2)), true, 0},
		"a machine that has failed soon":             {"within an hour", threeTries, []core.Target{fails(23*time.Hour, 22*time.Hour+time.Second)}, past("old", ago(24*time.Hour), retry(2)), true, 0},
		"resumed since":                              {"a person says so", func(p *core.Policy) { threeTries(p); resumedAt(ago(time.Minute))(p) }, []core.Target{heir}, last, false, 0},
		"resumed in the same second":                 {"the repair is the first after that", func(p *core.Policy) { threeTries(p); resumedAt(ago(time.Hour))(p) }, []core.Target{heir}, past("old", ago(time.Hour-time.Millisecond), retry(2)), true, 0},
		"resumed at the very instant":                {"until then", func(p *core.Policy) { threeTries(p); resumedAt(ago(time.Hour))(p) }, []core.Target{heir}, last, false, 0},
		"resumed at a time to come":                  {"it would have no end until then", func(p *core.Policy) { threeTries(p); resumedAt(noon.Add(time.Hour))(p) }, []core.Target{heir}, last, true, 0},
		"resumed before":                             {"it has failed again", func(p *core.Policy) { threeTries(p); resumedAt(ago(time.Hour + time.Second))(p) }, []core.Target{heir}, last, true, 0},
		"another template":                           {"it may make other machines", threeTries, []core.Target{heir}, of("old"), false, 0},
		"the same template":                          {"nothing has changed", threeTries, []core.Target{heir}, of("new"), true, 0},
		"a template that was not known":              {"unknown is the same", threeTries, []core.Target{heir}, of(""), true, 0},
		"a template that is not known":               {"unknown is the same", threeTries, []core.Target{machine("heir", created(heir.Created), awaited(heir.Created))}, of("old"), true, 0},
		"another pool":                               {"it has no such repair", threeTries, []core.Target{machine("other", dead, ownedBy(others)), heir}, last, false, 0},
		"no pool":                                    {"it has no owner", func(p *core.Policy) { threeTries(p); needsNoOwner(p) }, []core.Target{machine("other", dead, ownedBy(core.ID{})), heir}, last, false, 0},
		"beside an older machine":                    {"whatever their order", threeTries, []core.Target{heir, machine("m", dead)}, last, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy("p", all(len(c.targets)), maxInFlight(core.Unlimited()), c.change)
			d := core.Decide([]core.Policy{p}, clusterOf(c.targets, c.repair), noon)
			if given := slices.Contains(refusedBy(d, 0), core.PoolGivenUp); given != c.given || given == slices.Contains(begun(d), 0) {
				t.Fatalf("%s: refused by %v, begun %v", c.reason, refusedBy(d, 0), begun(d))
			}
			if !c.given && d.Starts[0].Retry != c.retry {
				t.Errorf("%s: it begins as retry %d, want %d", c.reason, d.Starts[0].Retry, c.retry)
			}
		})
	}
}

// TestGivingUpATarget: a node whose repairs have not lasted is given up alone, until a user resumes
// it, or for an hour.
func TestGivingUpATarget(t *testing.T) {
	for name, c := range map[string]struct {
		since  time.Duration
		retry  int
		resume time.Time
		given  bool
	}{
		"a third time": {30 * time.Minute, 2, time.Time{}, true}, "a second time": {30 * time.Minute, 1, time.Time{}, false},
		"much later": {45 * time.Minute, 2, time.Time{}, false}, "resumed": {30 * time.Minute, 2, ago(time.Minute), false},
		"resumed before that": {30 * time.Minute, 2, ago(10 * time.Hour), true},
	} {
		t.Run(name, func(t *testing.T) {
			n, other := aNode("n", ready("False", ago(90*time.Minute-c.since))), aNode("o", ready("False", ago(10*time.Minute)))
			p := check("p", []int{0, 1}, needsNoOwner, threeTries, resumedAt(c.resume))
			r := repair(n, p, started(ago(2*time.Hour)), ended(ago(110*time.Minute)), retry(c.retry))
			d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{n, other}, r), noon)
			if slices.Contains(refusedBy(d, 0), core.PoolGivenUp) != c.given || slices.Contains(begun(d), 0) == c.given || !slices.Contains(begun(d), 1) {
				t.Errorf("refused by %v, begun %v", refusedBy(d, 0), begun(d))
			}
			f := clusterOf([]core.Target{n, other}, r)
			reports := d.Reports([]core.Policy{p}, &f)
			if given := reports[0].GivenUp; (len(given) == 1 && given[0] == n.ID) != c.given {
				t.Errorf("the report names %v", given)
			}
		})
	}
}

// TestI06RestartResumesNoTarget: a process that has just started does not know since when a
// condition has been missing. An old failure does not become a new one by that.
func TestI06RestartResumesNoTarget(t *testing.T) {
	sight := func(test core.ConditionTest, since time.Time, turned bool) func(*core.Target) {
		return func(t *core.Target) {
			seen(test, since)(t)
			t.TestsSeen[0].StartSeen = turned
		}
	}
	hung := func(since time.Time) func(*core.Target) {
		return reasoned("KernelDeadlock", "True", "DockerHung", since)
	}
	for name, c := range map[string]struct {
		test  core.ConditionTest
		node  core.Target
		given bool
	}{
		"missing soon after":              {mute, aNode("n", sight(mute, ago(90*time.Minute), true)), true},
		"missing long after":              {mute, aNode("n", sight(mute, ago(10*time.Minute), true)), false},
		"missing before a restart":        {mute, aNode("n", sight(mute, ago(10*time.Minute), false)), true},
		"a reason soon after":             {frozen, aNode("n", hung(ago(3*time.Hour)), sight(frozen, ago(90*time.Minute), true)), true},
		"a reason long after":             {frozen, aNode("n", hung(ago(3*time.Hour)), sight(frozen, ago(10*time.Minute), true)), false},
		"a reason before a restart":       {frozen, aNode("n", hung(ago(3*time.Hour)), sight(frozen, ago(10*time.Minute), false)), true},
		"a condition that turned since":   {frozen, aNode("n", hung(ago(20*time.Minute)), sight(frozen, ago(10*time.Minute), false)), false},
		"a condition that turned so soon": {frozen, aNode("n", hung(ago(90*time.Minute)), sight(frozen, ago(10*time.Minute), false)), true},
	} {
		p := check("p", all(1), needsNoOwner, threeTries, groups(tests(c.test)))
		r := repair(c.node, p, started(ago(2*time.Hour)), ended(ago(110*time.Minute)), retry(2))
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{c.node}, r), noon)
		if slices.Contains(refusedBy(d, 0), core.PoolGivenUp) != c.given || slices.Contains(begun(d), 0) == c.given {
			t.Errorf("%s: refused by %v, begun %v", name, refusedBy(d, 0), begun(d))
		}
	}
}

// TestI14ResumedByEachThatGivesUp: the right to resume one health check does not resume another.
func TestI14ResumedByEachThatGivesUp(t *testing.T) {
	heir := machine("heir", created(ago(time.Minute)), failed(ago(time.Minute)))
	last := past("old", ago(10*time.Minute), retry(2))
	never, tenTries := func(p *core.Policy) { p.Backoff.GiveUpAfter = 0 }, func(p *core.Policy) { p.Backoff.GiveUpAfter = 10 }
	for name, c := range map[string]struct {
		changes []func(*core.Policy)
		given   []core.Gate
		retry   int
	}{
		"one of two":        {[]func(*core.Policy){resumedAt(ago(time.Minute)), resumedAt(time.Time{})}, []core.Gate{core.PoolGivenUp}, 0},
		"both":              {[]func(*core.Policy){resumedAt(ago(time.Minute)), resumedAt(ago(2 * time.Minute))}, nil, 0},
		"both, one earlier": {[]func(*core.Policy){resumedAt(ago(time.Minute)), resumedAt(ago(20 * time.Minute))}, []core.Gate{core.PoolGivenUp}, 0},
		"one will be":       {[]func(*core.Policy){resumedAt(ago(time.Minute)), func(p *core.Policy) { tenTries(p); resumedAt(noon.Add(time.Minute))(p) }}, nil, 3},
		"all that give up":  {[]func(*core.Policy){never, resumedAt(ago(time.Minute))}, nil, 0},
		"a policy that has not given up is not resumed":     {[]func(*core.Policy){resumedAt(ago(time.Minute)), tenTries}, nil, 3},
		"a policy that has not given up was resumed before": {[]func(*core.Policy){resumedAt(ago(time.Minute)), func(p *core.Policy) { tenTries(p); resumedAt(ago(20 * time.Minute))(p) }}, nil, 3},
		"the first has not given up and is not resumed":     {[]func(*core.Policy){tenTries, resumedAt(ago(time.Minute))}, nil, 3},
		"the first has not given up and was resumed before": {[]func(*core.Policy){func(p *core.Policy) { tenTries(p); resumedAt(ago(20 * time.Minute))(p) }, resumedAt(ago(time.Minute))}, nil, 3},
		"a dry run does not count":                          {[]func(*core.Policy){resumedAt(ago(time.Minute)), func(p *core.Policy) { tenTries(p); dryRun(p) }}, nil, 0},
		"none gives up":                                     {[]func(*core.Policy){never, never}, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			policies := []core.Policy{policy("a", []int{0}, threeTries, c.changes[0]), policy("b", []int{0}, threeTries, c.changes[1])}
			f := clusterOf([]core.Target{heir}, last)
			d := core.Decide(policies, f, noon)
			if diff := cmp.Diff(c.given, refusedBy(d, 0)); diff != "" {
				t.Fatalf("refused (-want +got):\n%s", diff)
			}
			if c.given == nil && (len(d.Starts) != 1 || d.Starts[0].Retry != c.retry) {
				t.Errorf("starts %v, want one as retry %d", d.Starts, c.retry)
			}
			reports := d.Reports(policies, &f)
			if want := len(c.given); len(reports[0].GivenUp)+len(reports[1].GivenUp) != want {
				t.Errorf("the reports name %v and %v, want %d", reports[0].GivenUp, reports[1].GivenUp, want)
			}
		})
	}
}

// TestI06RetentionKeepsPoolsGivenUp: the last repair of a given-up pool is kept while a machine of
// it is not healthy, whatever the flags. No other repair is kept for that.
func TestI06RetentionKeepsPoolsGivenUp(t *testing.T) {
	heir := machine("heir", created(ago(70*time.Hour)), awaited(ago(70*time.Hour)))
	f := clusterOf([]core.Target{heir}, past("a", ago(102*time.Hour)), past("b", ago(101*time.Hour), retry(1)), past("c", ago(100*time.Hour), retry(2)), past("d", ago(69*time.Hour)))
	p := policy("p", []int{0}, threeTries)
	d := core.Decide([]core.Policy{p}, f, noon)
	if !slices.Contains(refusedBy(d, 0), core.PoolGivenUp) {
		t.Fatalf("refused by %v", refusedBy(d, 0))
	}
	expired, _ := core.Retention{}.Expired(&f, d.Verdicts, noon)
	if diff := cmp.Diff([]int{0, 1}, expired); diff != "" {
		t.Errorf("expired (-want +got):\n%s", diff)
	}
	f.Targets = append(f.Targets, machine("well", created(ago(time.Hour))))
	f.Targets[0] = machine("joined", created(heir.Created))
	d = core.Decide([]core.Policy{policy("p", all(2), threeTries)}, f, noon)
	expired, _ = core.Retention{}.Expired(&f, d.Verdicts, noon)
	if diff := cmp.Diff([]int{0, 1, 2, 3}, expired); diff != "" {
		t.Errorf("with a pool that is well, expired (-want +got):\n%s", diff)
	}
}

// TestResumedAtATimeToCome: a pass runs when that time comes, and repairs then.
func TestResumedAtATimeToCome(t *testing.T) {
	f := clusterOf([]core.Target{machine("heir", created(ago(time.Minute)), failed(ago(time.Minute)))}, past("old", ago(10*time.Minute), retry(2)))
	policies := []core.Policy{policy("p", []int{0}, threeTries, resumedAt(noon.Add(time.Minute)))}
	d := core.Decide(policies, f, noon)
	if diff := cmp.Diff([]core.Gate{core.PoolGivenUp}, refusedBy(d, 0)); diff != "" || !d.NextAt.Equal(noon.Add(time.Minute)) {
		t.Errorf("next at %s, refused by (-want +got):\n%s", d.NextAt, diff)
	}
	f.Targets[0].NodeReadAt = d.NextAt
	if d := core.Decide(policies, f, d.NextAt); len(d.Starts) != 1 {
		t.Errorf("then it is not repaired: %+v", d.Refusals)
	}
}
