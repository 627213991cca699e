package core

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hours returns the instant some hours before noon.
func hours(before float64) time.Time { return atNoon.Add(-time.Duration(before * float64(time.Hour))) }

// ofPool returns an ended repair of a machine of the pool "pool", which started at an instant.
func ofPool(name string, started time.Time, changes ...func(*Repair)) Repair {
	r := Repair{
		Name: name, Target: ID{Kind: "Machine", Name: name, UID: name}, Owner: ID{Kind: "MachineSet", Name: "pool", UID: "pool"},
		Steps: []Step{{Remedy: "Delete"}}, Started: started, Ended: started.Add(time.Second), Outcome: Succeeded,
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// heirOf returns a machine of the pool that was created at an instant.
func heirOf(name string, created time.Time) Target {
	return Target{ID: ID{Kind: "Machine", Name: name, UID: name}, Owner: ID{Kind: "MachineSet", Name: "pool", UID: "pool"}, Created: created}
}

// TestRepairsThatCount: repairs count that started within the hour before a target failed, and not after it was created.
func TestRepairsThatCount(t *testing.T) {
	ill := func(since time.Time) Verdict { return Verdict{Health: Unhealthy, Reason: ConditionMet, Since: since} }
	doubtful := func(since time.Time) Verdict { return Verdict{Health: Suspect, Reason: ConditionMet, Since: since} }
	for name, c := range map[string]struct {
		created  []time.Time
		verdicts []Verdict
		started  time.Time
		want     bool
	}{
		"within the hour":                   {[]time.Time{hours(10)}, []Verdict{ill(hours(9.5))}, hours(10.25), true},
		"an hour before":                    {[]time.Time{hours(10)}, []Verdict{ill(hours(9.5))}, hours(10.5), false},
		"in the second of its creation":     {[]time.Time{hours(10)}, []Verdict{ill(hours(9.5))}, hours(10).Add(time.Second - 1), true},
		"a second after its creation":       {[]time.Time{hours(10)}, []Verdict{ill(hours(9.5))}, hours(10).Add(time.Second), false},
		"a suspect may have failed earlier": {[]time.Time{hours(10)}, []Verdict{doubtful(hours(9.5))}, hours(10.75), true},
		"at an unknown time":                {[]time.Time{hours(10)}, []Verdict{ill(time.Time{})}, hours(10.75), true},
		"at an unknown time, long before":   {[]time.Time{hours(10)}, []Verdict{ill(time.Time{})}, hours(12), false},
		"the older of two":                  {[]time.Time{hours(5), hours(10)}, []Verdict{doubtful(hours(1)), doubtful(hours(1))}, hours(10.5), true},
		"the younger of two":                {[]time.Time{hours(5), hours(10)}, []Verdict{doubtful(hours(1)), doubtful(hours(1))}, hours(5.5), true},
		"between the two":                   {[]time.Time{hours(5), hours(10)}, []Verdict{doubtful(hours(1)), doubtful(hours(1))}, hours(7), false},
		"an adopted target":                 {[]time.Time{hours(5), hours(10)}, []Verdict{ill(hours(20)), doubtful(hours(1))}, hours(7), true},
	} {
		for outcome, want := range map[Outcome]bool{Succeeded: c.want, Recovered: false} {
			f := &Cluster{Repairs: []Repair{ofPool("a", c.started, func(r *Repair) { r.Outcome = outcome }), ofPool("last", hours(0))}}
			for i, at := range c.created {
				f.Targets = append(f.Targets, heirOf(string(rune('m'+i)), at))
				c.verdicts[i].Target = i
			}
			if got := needsOf(f, c.verdicts, atNoon).counts(0); got != want {
				t.Errorf("%s: a repair that %s counts: %t", name, outcome, got)
			}
		}
	}
}

// TestMergedSpans: they are in order, without overlap and without spans in which no repair can have started.
func TestMergedSpans(t *testing.T) {
	type pair struct{ after, before int }
	for name, c := range map[string]struct{ spans, want []pair }{
		"none":      {nil, nil},
		"one":       {[]pair{{1, 2}}, []pair{{1, 2}}},
		"an order":  {[]pair{{5, 6}, {1, 2}}, []pair{{1, 2}, {5, 6}}},
		"an empty":  {[]pair{{3, 3}, {4, 2}}, nil},
		"beside":    {[]pair{{1, 3}, {3, 5}}, []pair{{1, 3}, {3, 5}}},
		"overlap":   {[]pair{{3, 8}, {1, 5}}, []pair{{1, 8}}},
		"within":    {[]pair{{1, 9}, {3, 5}, {8, 10}}, []pair{{1, 10}}},
		"the first": {[]pair{{4, 6}, {2, 5}, {0, 1}}, []pair{{0, 1}, {2, 6}}},
	} {
		var spans []span
		for _, s := range c.spans {
			spans = append(spans, span{time.Unix(int64(s.after), 0), time.Unix(int64(s.before), 0)})
		}
		var got []pair
		for _, s := range merged(spans) {
			got = append(got, pair{int(s.after.Unix()), int(s.before.Unix())})
		}
		if !cmp.Equal(c.want, got, cmp.AllowUnexported(pair{})) {
			t.Errorf("%s: merged are %v, want %v", name, got, c.want)
		}
	}
}

// TestRepairsThatServedRequests: they are needed until the request would lapse, by any of two clocks.
func TestRepairsThatServedRequests(t *testing.T) {
	at := hours(0.5)
	left := func(r *Repair) { r.Outcome, r.Owner = Withdrawn, ID{} }
	asked := func(q time.Time) Target { m := heirOf("a", hours(9)); m.RepairRequest.At = q; return m }
	for name, c := range map[string]struct {
		target Target
		repair Repair
		want   time.Time
	}{
		"none":                     {asked(time.Time{}), ofPool("a", hours(0.4), left), time.Time{}},
		"it ended since":           {asked(at), ofPool("a", hours(0.4), left), at.Add(2 * time.Hour)},
		"it ended before":          {asked(at), ofPool("a", hours(0.6), left), time.Time{}},
		"it began with it":         {asked(at), ofPool("a", hours(0.6), left, func(r *Repair) { r.Requested = at }), at.Add(2 * time.Hour)},
		"of another target":        {asked(at), ofPool("b", hours(0.4), left), time.Time{}},
		"the request is long over": {asked(hours(3)), ofPool("a", hours(0.4), left), time.Time{}},
	} {
		n := needsOf(&Cluster{Targets: []Target{c.target}, Repairs: []Repair{c.repair}}, nil, atNoon)
		if got := n.until(0); !got.Equal(c.want) {
			t.Errorf("%s: it is needed until %s, want %s", name, got, c.want)
		}
	}
}

// TestRepairsByWhichAPoolMayBeGivenUp: while a target that may be a replacement may still fail, or has.
func TestRepairsByWhichAPoolMayBeGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		created, started time.Time
		want             time.Time
	}{
		"it is failing for an hour":    {hours(1), hours(2), forever},
		"it is failing for less":       {hours(1).Add(time.Second), hours(2), atNoon.Add(time.Second)},
		"made in the same second":      {hours(10).Add(2 * time.Second), hours(10).Add(2500 * time.Millisecond), forever},
		"made in the second before":    {hours(10).Add(2 * time.Second), hours(10).Add(3500 * time.Millisecond), time.Time{}},
		"made before the repair began": {hours(10), hours(9), time.Time{}},
	} {
		f := &Cluster{Targets: []Target{heirOf("m", c.created)}, Repairs: []Repair{ofPool("a", c.started)}}
		n := needsOf(f, []Verdict{{Health: Suspect}}, atNoon)
		if got := n.lasting[0]; !got.Equal(c.want) {
			t.Errorf("%s: it is needed until %s, want %s", name, got, c.want)
		}
	}
}

// TestRetentionOfAsManyAsAreKept: a repair that back-off reads for a shorter time is kept by age where there are not too many.
func TestRetentionOfAsManyAsAreKept(t *testing.T) {
	r := ofPool("a", hours(1.5))
	for most, want := range map[int]time.Time{2: r.Ended.Add(100 * time.Hour), 1: r.Ended.Add(100 * time.Hour), 0: atNoon.Add(30 * time.Minute)} {
		expired, next := Retention{For: 100 * time.Hour, Max: most}.Expired(&Cluster{Repairs: []Repair{r}}, nil, atNoon)
		if len(expired) > 0 || !next.Equal(want) {
			t.Errorf("at most %d: expired are %v, and next is %s, want %s", most, expired, next, want)
		}
	}
}
