package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestPlacesGrowOld: a place counts for half an hour, and longer while it can't be read.
func TestPlacesGrowOld(t *testing.T) {
	t.Parallel()
	c := newCrowd(0)
	c.control["a"] = true
	n, r := c.reviews("x")
	now := time.Hour
	n.Boottime = func() time.Duration { return now }
	for _, step := range []struct {
		passes   time.Duration
		unplaced bool
		reads    int
	}{{0, false, 1}, {30*time.Minute - 1, false, 0}, {1, true, 1}, {0, false, 1}, {0, false, 0}} {
		now += step.passes
		c.placed, c.unplaced["a"] = nil, step.unplaced
		if got := n.placesOf(t.Context(), r, []string{"a"}); !got["a"].Control || len(c.placed) != step.reads {
			t.Errorf("at %s the places are %v, and were read %d times, want %d", now, got, len(c.placed), step.reads)
		}
	}
}

// TestWidens: the bounds of a review double twice at most, while fewer agents answer than one more than a promise names. This one counts if it serves.
func TestWidens(t *testing.T) {
	t.Parallel()
	r := &review{}
	for _, step := range []struct {
		others int
		serves bool
		want   int
	}{{3, false, 32}, {2, true, 64}, {0, false, 64}, {3, true, 16}, {4, false, 16}, {3, false, 32}} {
		r.noteAnswering(step.others, 3, step.serves)
		if r.widened(maxPlaces) != step.want {
			t.Errorf("after %+v the bound is %d", step, r.widened(maxPlaces))
		}
	}
}

// TestPausesWithoutASpareWitness: a review follows soon if only a majority of the witnesses is left, and less soon each time.
func TestPausesWithoutASpareWitness(t *testing.T) {
	t.Parallel()
	three, five := []string{"a", "b", "c"}, []string{"a", "b", "c", "d", "e"}
	for sentence, tc := range map[string]struct {
		members, missed []string
		bare            int
		want            time.Duration
		then            int
	}{
		"all answer":           {three, nil, 5, 10 * time.Minute, 0},
		"one of three is left": {three, []string{"b"}, 0, time.Minute, 1},
		"for the second time":  {three, []string{"b"}, 1, 2 * time.Minute, 2},
		"for the fourth time":  {three, []string{"b"}, 3, 8 * time.Minute, 4},
		"for the fifth time":   {three, []string{"b"}, 4, 10 * time.Minute, 5},
		"for long":             {three, []string{"b"}, 1000, 10 * time.Minute, 1001},
		"one of five":          {five, []string{"b"}, 5, 10 * time.Minute, 0},
		"two of five":          {five, []string{"b", "e"}, 0, time.Minute, 1},
		"another one":          {three, []string{"x"}, 5, 10 * time.Minute, 0},
		"the only one answers": {three[:1], nil, 5, 10 * time.Minute, 0},
	} {
		r := &review{missed: map[string]bool{}, bare: tc.bare}
		for _, name := range tc.missed {
			r.missed[name] = true
		}
		if got := r.pause(tc.members); got != tc.want || r.bare != tc.then {
			t.Errorf("%s: the pause is %s, and %d reviews have found none to spare", sentence, got, r.bare)
		}
	}
}

// TestNothingIsDemanded: while no witnesses are demanded, an agent looks at nothing, and forgets which were missed.
func TestNothingIsDemanded(t *testing.T) {
	t.Parallel()
	for renewal, want := range map[time.Duration]time.Duration{0: time.Second, 5 * time.Second: 5 * time.Second} {
		n, r := newCrowd(5).reviews("n0")
		n.agent.Renewal, r.short, r.missed["a"], r.gone["a"] = renewal, 3, true, true
		pause, serves, since := n.reviewOnce(t.Context(), r)
		if pause != want || serves || since != 0 || r.short != 0 || len(r.missed)+len(r.gone) > 0 {
			t.Errorf("the pause is %s, it serves %t since %d, and knows %+v", pause, serves, since, r)
		}
	}
}

// first is a crowd of a large fleet, whose first Leases are all that matter. Its revision is the lowest.
type first struct {
	*crowd

	count int
}

func (f first) First(context.Context, int) (map[string]promiselease.Record, int, error) {
	return maps.Clone(f.all), f.count, nil
}

func (f first) Of(context.Context, []string) (map[string]promiselease.Record, error) { return nil, nil }

func (f first) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	return f.all, 1, nil
}

// TestReviews: which witnesses a review chooses, when the next one follows, and whether the agent serves. The fleet is n0, n1 and so on.
func TestReviews(t *testing.T) {
	t.Parallel()
	three, five := []int{3}, []int{5, 3}
	for sentence, tc := range map[string]struct {
		node        string
		size, large int
		demanded    []int
		deaf        []string
		members     int
		serves      bool
		since       uint64
		short, wide int
	}{
		"enough, and it serves":             {"n0", 5, 0, three, nil, 3, true, 1, 0, 0},
		"enough, and it does not serve":     {"x", 4, 0, three, nil, 3, false, 1, 0, 0},
		"none to replace another":           {"x", 3, 0, three, nil, 3, false, 1, 0, 1},
		"too few":                           {"n0", 3, 0, three, nil, 0, true, 1, 1, 1},
		"five":                              {"n0", 6, 0, five, nil, 5, true, 1, 0, 0},
		"five promise, and three answer":    {"n0", 6, 0, five, []string{"n1", "n2"}, 0, true, 1, 1, 1},
		"four promise, and three answer":    {"n0", 5, 0, five, []string{"n1"}, 3, true, 1, 1, 1},
		"four promise":                      {"n0", 5, 0, five, nil, 3, true, 1, 1, 1},
		"few Leases have enough":            {"n0", 7, 300, five, nil, 5, false, 0, 0, 0},
		"few Leases, of which three answer": {"n0", 7, 300, five, []string{"n1", "n2", "n3"}, 0, false, 0, 1, 1},
		"few Leases have too few":           {"a", 4, 300, five, nil, 0, false, 0, 1, 1},
		"and it may become one":             {"x", 5, 300, five, nil, 5, false, 1, 0, 1},
	} {
		c := newCrowd(tc.size)
		for _, name := range tc.deaf {
			c.deaf[name] = true
		}
		n, r := c.reviews(tc.node, tc.demanded...)
		if n.Others = (first{c, tc.size + tc.large}); tc.large > 0 {
			n.agent.Renewal = time.Hour
		}
		pause, serves, since := n.reviewOnce(t.Context(), r)
		want := jittered(tc.node, 10*time.Minute)
		if tc.short > 0 && tc.large == 0 {
			want = jittered(tc.node, 3*time.Second)
		}
		if got := len(namesOf(n.members)); got != tc.members || serves != tc.serves || since != tc.since || pause != want {
			t.Errorf("%s: there are %d witnesses, it serves %t since %d, and the pause is %s", sentence, got, serves, since, pause)
		}
		if r.short != tc.short || r.wide != tc.wide || n.urgent != tc.serves || len(n.woken) != 1 || (n.Witness.read() > 0) != tc.serves {
			t.Errorf("%s: %d and %d reviews were short, urgent is %t, and the witness has read up to %d", sentence, r.short, r.wide, n.urgent, n.Witness.read())
		}
	}
}

// TestAReviewKeepsWhatIsUrgent, and a later one with enough witnesses ends a series of short ones.
func TestAReviewKeepsWhatIsUrgent(t *testing.T) {
	t.Parallel()
	n, r := newCrowd(4).reviews("x", 3)
	if r.survey != jittered("x", 6*time.Hour) {
		t.Errorf("all Leases are listed at %s", r.survey)
	}
	n.urgent, r.short = true, 5
	n.reviewOnce(t.Context(), r)
	if !n.urgent || r.short != 0 {
		t.Errorf("urgent is %t, and %d reviews were short", n.urgent, r.short)
	}
}

// meanwhile is a crowd during whose review something happens.
type meanwhile struct {
	*crowd

	lists, asks func()
}

func (m meanwhile) List(ctx context.Context) (map[string]promiselease.Record, uint64, error) {
	m.lists()
	return m.crowd.List(ctx)
}

func (m meanwhile) Ask(ctx context.Context, node, path string, body []byte) ([]byte, error) {
	m.asks()
	return m.crowd.Ask(ctx, node, path, body)
}

// TestChangedDuringAReview: an agent that needs no witnesses any more chooses none. A witness that has forgotten its list lists again soon.
func TestChangedDuringAReview(t *testing.T) {
	t.Parallel()
	c := newCrowd(5)
	n, r := c.reviews("n0", 3)
	n.Others, n.Peers = meanwhile{c, n.Witness.forgets, func() {}}, c
	n.limit = 7 * time.Second
	if pause, serves, since := n.reviewOnce(t.Context(), r); pause != 7*time.Second || serves || since != 0 || r.survey != 0 || n.members != (selffence.Members{}) {
		t.Errorf("the pause is %s, it serves %t since %d, with all Leases at %s", pause, serves, since, r.survey)
	}
	n.Others = c
	n.Peers = meanwhile{c, func() {}, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.demanded = nil
	}}
	n.reviewOnce(t.Context(), r)
	if n.members != (selffence.Members{}) {
		t.Errorf("the witnesses are %q", n.members)
	}
}

// TestWhoIsMissed: a witness that does not answer is missed, and gone the second time. Once it answers again it is neither.
func TestWhoIsMissed(t *testing.T) {
	t.Parallel()
	c := newCrowd(6)
	n, r := c.reviews("x", 3)
	current := []string{"n1", "n2", "gone"}
	for _, step := range []struct {
		deaf         bool
		missed, gone []string
	}{{true, []string{"gone", "n1"}, nil}, {true, []string{"gone", "n1"}, []string{"gone", "n1"}}, {false, []string{"gone"}, []string{"gone"}}, {true, []string{"gone", "n1"}, []string{"gone"}}} {
		c.deaf["n1"], c.asked = step.deaf, nil
		fit, _ := n.fit(t.Context(), r, c.all, current)
		gone := slices.DeleteFunc(slices.Sorted(maps.Keys(r.gone)), func(name string) bool { return !r.gone[name] })
		if !slices.Equal(slices.Sorted(maps.Keys(r.missed)), step.missed) || !slices.Equal(gone, step.gone) {
			t.Errorf("missed are %v, and gone %v, want %v and %v", r.missed, gone, step.missed, step.gone)
		}
		if slices.Contains(fit, "n1") == step.deaf || len(c.asked) != 6 || slices.Contains(c.asked, "gone") {
			t.Errorf("fit are %q of %q", fit, c.asked)
		}
	}
}

// TestSixteenAreFit at most, also where the agent asks a seventeenth, which is a witness now.
func TestSixteenAreFit(t *testing.T) {
	t.Parallel()
	for _, current := range []int{0, 16, 20} {
		c := newCrowd(40)
		n, r := c.reviews("n0", 3)
		serving := n.servingOthers(c.all)
		fit, places := n.fit(t.Context(), r, c.all, serving[current:current+1])
		want := max(16, min(current+1, 17))
		if len(fit) != 16 || slices.Contains(fit, serving[16]) || len(c.asked) != want || len(places) != want {
			t.Errorf("%d are fit, %d were asked, and %d are placed", len(fit), len(c.asked), len(places))
		}
	}
}

// TestWhereOthersListen: an agent keeps the addresses of the agents that it asks, of its witnesses, and of the witnesses of a promise that was replaced.
func TestWhereOthersListen(t *testing.T) {
	t.Parallel()
	c := newCrowd(3)
	n, r := c.reviews("x", 3)
	var told []Reason
	n.Tell = func(note Note) { told = append(told, note.Reason) }
	at := netip.MustParseAddrPort("192.0.2.1:9643")
	for _, name := range []string{"n0", "n1", "n2", "old", "current", "other"} {
		record := c.all[name]
		record.Address = at
		c.all[name] = record
	}
	old := selffence.Promise{Boot: bootOfA, Timed: true, Times: selffence.Times{Validity: time.Minute, Watchdog: time.Minute}, Witnesses: selffence.Members{"old"}}
	n.agent.AgentState = selffence.AgentState{Bound: true, Stated: old, Sent: old}
	dir := t.TempDir()
	n.Addresses = NewAddresses(Directory(dir))
	n.fit(t.Context(), r, c.all, []string{"current"})
	if len(told) > 0 {
		t.Errorf("people were told %v", told)
	}
	if got, want := slices.Sorted(maps.Keys(n.Addresses.known)), []string{"current", "n0", "n1", "n2", "old"}; !slices.Equal(got, want) {
		t.Errorf("known are the addresses of %q, want %q", got, want)
	}
	n.Addresses = NewAddresses(Directory(dir + "/missing"))
	n.fit(t.Context(), r, c.all, nil)
	if !slices.Equal(told, []Reason{StateNotStored}) {
		t.Errorf("people were told %v", told)
	}
}
