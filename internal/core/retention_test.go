package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRetention: repairs that no back-off reads are kept by age and by number.
func TestRetention(t *testing.T) {
	old := func(name, namespace string, age time.Duration) core.Repair {
		r := past(name, ago(age))
		r.Namespace, r.Ended, r.Owner = namespace, ago(age), core.ID{}
		return r
	}
	running := repair(machine("r"), policy("p", nil), started(ago(1000*time.Hour)))
	hours := func(h ...int) []core.Repair {
		var rs []core.Repair
		for i, n := range h {
			rs = append(rs, old(string(rune('a'+i)), "n", time.Duration(n)*time.Hour))
		}
		return rs
	}
	cases := map[string]struct {
		reason  string
		keep    core.Retention
		repairs []core.Repair
		expired []int
		next    time.Time
	}{
		"nothing":                {"no repairs", core.Retention{For: time.Hour, Max: 5}, nil, nil, time.Time{}},
		"running ones are kept":  {"they are not finished", core.Retention{}, []core.Repair{running}, nil, time.Time{}},
		"young ones are kept":    {"by age", core.Retention{For: 24 * time.Hour, Max: 5}, hours(3, 1), nil, noon.Add(21 * time.Hour)},
		"at the hour they go":    {"at its end, not after it", core.Retention{For: 3 * time.Hour, Max: 5}, hours(3, 1), []int{0}, noon.Add(2 * time.Hour)},
		"too many, oldest first": {"by number", core.Retention{For: 24 * time.Hour, Max: 2}, hours(2, 9, 3, 1), []int{1, 2}, noon.Add(22 * time.Hour)},
		"each namespace has its own number": {
			"by namespace", core.Retention{For: 24 * time.Hour, Max: 1},
			[]core.Repair{old("a", "m", time.Hour), old("b", "n", 2*time.Hour), old("c", "n", 3*time.Hour)}, []int{2}, noon.Add(22 * time.Hour),
		},
		"running ones don't count": {"by number", core.Retention{For: 24 * time.Hour, Max: 1}, append(hours(2), running), nil, noon.Add(22 * time.Hour)},
		"none are kept":            {"zero", core.Retention{}, hours(1, 2), []int{1, 0}, time.Time{}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			expired, next := c.keep.Expired(&core.Cluster{Repairs: c.repairs}, nil, noon)
			if len(expired) == 0 {
				expired = nil
			}
			if diff := cmp.Diff(c.expired, expired); diff != "" {
				t.Errorf("%s: expired (-want +got):\n%s", c.reason, diff)
			}
			if !next.Equal(c.next) {
				t.Errorf("%s: next %v, want %v", c.reason, next, c.next)
			}
		})
	}
}

// TestRetentionKeepsWhatBackOffReads, whatever the flags, and no more than that.
func TestRetentionKeepsWhatBackOffReads(t *testing.T) {
	lasted := func(r *core.Repair) {
		r.Owner, r.Steps = core.ID{}, []core.Step{{Remedy: "Mark", Nature: core.Annotate}}
	}
	recovered := func(r *core.Repair) { r.Outcome = core.Recovered }
	well := machine("well")
	sick := machine("sick", created(ago(50*time.Hour)), failed(ago(49*time.Hour+30*time.Minute)))
	booting := machine("booting", created(ago(50*time.Hour)), nodeIs(core.NodeUnseen), readAt(time.Time{}))
	suspect := machine("suspect", created(ago(50*time.Hour)), ready("False", ago(time.Minute)))
	premature := machine("premature", created(ago(50*time.Hour)), func(t *core.Target) { t.Premature = "the cluster is not up" })
	adopted, inBetween := machine("adopted", created(ago(40*time.Hour)), failed(ago(50*time.Hour))), machine("between", created(ago(48*time.Hour)), failed(ago(49*time.Hour)))
	soon := noon.Add(time.Hour)
	cases := map[string]struct {
		reason  string
		targets []core.Target
		repairs []core.Repair
		expired []int
		next    time.Time
	}{
		"of a pool, an hour ago":  {"its replacement may fail now, by another clock", []core.Target{well}, []core.Repair{past("a", ago(time.Hour))}, nil, soon},
		"of a pool, long ago":     {"a failure is a new one by now", []core.Target{well}, []core.Repair{past("a", ago(2*time.Hour))}, []int{0}, time.Time{}},
		"of a pool without need":  {"nothing was done", []core.Target{well}, []core.Repair{past("a", ago(time.Hour), recovered)}, []int{0}, time.Time{}},
		"of no pool":              {"nothing is read of it", []core.Target{well}, []core.Repair{past("a", ago(time.Hour), func(r *core.Repair) { r.Owner = core.ID{} })}, []int{0}, time.Time{}},
		"of a target that stayed": {"it may fail again now", []core.Target{well}, []core.Repair{past("well", ago(time.Hour), lasted, number(1)), past("well", ago(30*time.Minute), lasted, number(2))}, []int{0}, noon.Add(90*time.Minute + time.Second)},
		"of one in good health":   {"a failure is a new one by now", []core.Target{well}, []core.Repair{past("well", ago(3*time.Hour), lasted)}, []int{0}, time.Time{}},
		"of a target that fails":  {"it is due when a person lets it be repaired", []core.Target{sick}, []core.Repair{past("sick", ago(50*time.Hour), lasted)}, nil, time.Time{}},
		"before a target that has failed": {
			"its replacement, which waits since then; the one before that is too long ago, and the one after it was made is not its own", []core.Target{sick},
			[]core.Repair{past("a", ago(50*time.Hour+time.Minute)), past("b", ago(50*time.Hour+31*time.Minute)), past("c", ago(50*time.Hour-time.Minute)), past("d", ago(40*time.Hour))},
			[]int{1, 2}, time.Time{},
		},
		"before a suspect":                          {"another condition may have lasted longer", []core.Target{suspect}, []core.Repair{past("a", ago(50*time.Hour+59*time.Minute)), past("b", ago(45*time.Hour))}, nil, time.Time{}},
		"before a target that is not judged so far": {"", []core.Target{premature}, []core.Repair{past("a", ago(50*time.Hour+59*time.Minute)), past("b", ago(45*time.Hour))}, nil, time.Time{}},
		"before two targets that have failed": {
			"what counts for either, and what is no younger than either and tried as often", []core.Target{adopted, inBetween},
			[]core.Repair{past("a", ago(52*time.Hour)), past("b", ago(44*time.Hour)), past("c", ago(30*time.Hour)), past("d", ago(53*time.Hour)), past("e", ago(35*time.Hour), retry(1))}, []int{3, 4}, time.Time{},
		},
		"before a target that is not judged": {
			"when it failed is not known yet", []core.Target{booting}, []core.Repair{past("a", ago(50*time.Hour+59*time.Minute)), past("b", ago(51*time.Hour)), past("c", ago(45*time.Hour))},
			[]int{1}, time.Time{},
		},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := clusterOf(c.targets, c.repairs...)
			d := core.Decide([]core.Policy{policy("p", all(len(c.targets)), paused)}, f, noon)
			expired, next := core.Retention{}.Expired(&f, d.Verdicts, noon)
			slices.Sort(expired)
			if diff := cmp.Diff(c.expired, expired); diff != "" {
				t.Errorf("%s: expired (-want +got):\n%s", c.reason, diff)
			}
			if !next.Equal(c.next) {
				t.Errorf("%s: next %v, want %v", c.reason, next, c.next)
			}
		})
	}
}

// TestRetentionKeepsWhatGivesUp: by the repair "a", which is long ago, a pool is given up now or when one of its targets fails.
func TestRetentionKeepsWhatGivesUp(t *testing.T) {
	heir := machine("heir", created(ago(50*time.Hour)), awaited(ago(50*time.Hour)))
	madeOf := func(template string) func(*core.Repair) {
		return func(r *core.Repair) { r.OwnerTemplate = template }
	}
	beside := func(target string) func(*core.Repair) {
		return func(r *core.Repair) { r.CreatedSameSecond = []string{target} }
	}
	a := past("a", ago(60*time.Hour), retry(2))
	for name, c := range map[string]struct {
		reason  string
		targets []core.Target
		after   []core.Repair
		kept    bool
		next    time.Time
	}{
		"alone":                      {"it is the last", []core.Target{heir}, nil, true, time.Time{}},
		"before one as long":         {"that counts instead", []core.Target{heir}, []core.Repair{past("b", ago(55*time.Hour), retry(2))}, false, time.Time{}},
		"before a shorter one":       {"that may not suffice", []core.Target{heir}, []core.Repair{past("b", ago(55*time.Hour), retry(1))}, true, time.Time{}},
		"of another template":        {"a target of its own template may fail", []core.Target{heir}, []core.Repair{past("b", ago(55*time.Hour), retry(2), madeOf("new"))}, true, time.Time{}},
		"before one of the heir":     {"that has not made the heir", []core.Target{heir}, []core.Repair{past("heir", ago(55*time.Hour), retry(2))}, true, time.Time{}},
		"before a younger one":       {"nor has that", []core.Target{heir}, []core.Repair{past("b", ago(45*time.Hour), retry(2))}, true, time.Time{}},
		"before one beside the heir": {"nor has that", []core.Target{heir}, []core.Repair{past("b", ago(50*time.Hour), retry(2), beside("heir-uid"))}, true, time.Time{}},
		"the heir failed late":       {"it has never joined", []core.Target{machine("heir", created(ago(50*time.Hour)), nodeIs(core.NodeAwaited), failed(ago(40*time.Hour)))}, nil, true, time.Time{}},
		"a healthy pool":             {"each has lived for a while", []core.Target{machine("well")}, nil, false, time.Time{}},
		"a young pool":               {"it may fail soon", []core.Target{machine("well"), machine("young", created(ago(time.Minute)))}, nil, true, noon.Add(59 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(c.targets, append([]core.Repair{a}, c.after...)...)
			d := core.Decide([]core.Policy{policy("p", all(len(c.targets)), paused)}, f, noon)
			expired, next := core.Retention{}.Expired(&f, d.Verdicts, noon)
			if kept := !slices.Contains(expired, 0); kept != c.kept || !next.Equal(c.next) {
				t.Errorf("%s: kept %t until %v, want %t until %v", c.reason, kept, next, c.kept, c.next)
			}
		})
	}
}

// TestRetentionBesideAFlood: repairs that back-off reads don't count towards the number, so that they push nothing out, and
// are counted once back-off reads them no more.
func TestRetentionBesideAFlood(t *testing.T) {
	var f core.Cluster
	for i := range 5 {
		f.Repairs = append(f.Repairs, past(fmt.Sprintf("needed-%d", i), ago(time.Hour)), past(fmt.Sprintf("old-%d", i), ago(time.Duration(10+i)*time.Hour)))
	}
	keep := core.Retention{For: 24 * time.Hour, Max: 3}
	expired, next := keep.Expired(&f, nil, noon)
	if diff := cmp.Diff([]int{9, 7}, expired); diff != "" || !next.Equal(noon.Add(time.Hour)) {
		t.Errorf("next is %s, expired (-want +got):\n%s", next, diff)
	}
	expired, _ = keep.Expired(&f, nil, next)
	if diff := cmp.Diff([]int{9, 7, 5, 3, 1, 0, 2}, expired); diff != "" {
		t.Errorf("later, expired (-want +got):\n%s", diff)
	}
}

// TestRetentionOfTargetsThatAreNotJudged: their health checks are too many. When one of them is judged again, what counts for
// it is there.
func TestRetentionOfTargetsThatAreNotJudged(t *testing.T) {
	m := machine("m", created(ago(50*time.Hour)))
	m.UnjudgedPolicy = &core.ID{Name: "overlooked"}
	f := clusterOf([]core.Target{m}, past("a", ago(50*time.Hour+time.Minute)))
	if expired, _ := (core.Retention{}).Expired(&f, nil, noon); len(expired) > 0 {
		t.Errorf("expired: %v", expired)
	}
}

// TestI06RetentionForgetsNoBackOff: whatever the flags, the pauses are the same as if nothing were deleted,
// now and when a target fails later.
func TestI06RetentionForgetsNoBackOff(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapidDice(r)
		w := drawWorld(d)
		for i := range w.cluster.Repairs {
			ageRepair(d, &w.cluster, i)
			w.cluster.Repairs[i].OwnerTemplate = oneOf(d, "", "", "old", "new")
		}
		for i := range w.cluster.Targets {
			w.cluster.Targets[i].OwnerTemplate = oneOf(d, "", "", "old", "new")
		}
		expired, _ := core.Retention{}.Expired(&w.cluster, w.decide().Verdicts, w.now)
		kept := w
		kept.cluster.Repairs = nil
		for i := range w.cluster.Repairs {
			if !slices.Contains(expired, i) {
				kept.cluster.Repairs = append(kept.cluster.Repairs, w.cluster.Repairs[i])
			}
		}
		later := w.now.Add(oneOf(d, 0, time.Minute, 30*time.Minute, 59*time.Minute, time.Hour, 2*time.Hour, 26*time.Hour))
		targets := refreshed(w.cluster, later).Targets
		if n := len(targets); n > 0 {
			failed(w.now.Add(oneOf(d, 0, later.Sub(w.now)/2, later.Sub(w.now))))(&targets[d(n)])
		}
		w.cluster.Targets, kept.cluster.Targets, w.now, kept.now = targets, targets, later, later
		if diff := cmp.Diff(pausesOf(w), pausesOf(kept)); diff != "" {
			r.Fatalf("pauses after %s (-nothing deleted +some deleted):\n%s", later.Sub(noon), diff)
		}
	})
}

// ageRepair has an ended repair begin at a time that is near the creation of a target, or an hour away.
func ageRepair(d dice, f *core.Cluster, i int) {
	r := &f.Repairs[i]
	if len(f.Targets) == 0 || r.Running() {
		return
	}
	at := f.Targets[d(len(f.Targets))].Created
	if at.IsZero() {
		return
	}
	r.Started = at.Add(-oneOf(d, 0, time.Second, time.Minute, 59*time.Minute+59*time.Second, time.Hour, 2*time.Hour))
	r.Ended = r.Started.Add(oneOf(d, time.Second, time.Minute, time.Hour))
	r.Steps = oneOf(d, r.Steps, []core.Step{{Remedy: "Mark", Nature: core.Annotate}})
	r.Outcome = oneOf(d, core.Succeeded, core.Succeeded, core.Recovered, core.Withdrawn)
}

// pausesOf returns all that back-off says, by target and policy.
func pausesOf(w world) []string {
	var pauses []string
	s, d := spoken(w, w.decide()), w.decide()
	for _, x := range slices.Concat(d.Starts, d.DryRunStarts) {
		pauses = append(pauses, fmt.Sprintf("%d %d begins as retry %d", x.Target, x.Policy, x.Retry))
	}
	for _, line := range s.Refusals {
		if strings.Contains(line, core.BackingOff.String()) {
			pauses = append(pauses, line)
		}
	}
	slices.Sort(pauses)
	return pauses
}
