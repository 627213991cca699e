package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestJittered: from half to one and a half of a time, by the name of the node.
func TestJittered(t *testing.T) {
	t.Parallel()
	for node, want := range map[string]time.Duration{"a": 330 * time.Second, "b": 190 * time.Second} { // the hashes begin with 202 and 62
		if got := jittered(node, 256*time.Second); got != want {
			t.Errorf("of node %s it is %s, want %s", node, got, want)
		}
	}
}

// TestReviewsAgain: an agent with too few witnesses reviews them again after three renewals, then after twice as long each time, and after ten
// minutes at most.
func TestReviewsAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		short   int
		renewal time.Duration
		want    time.Duration
	}{
		{1, 5 * time.Second, 15 * time.Second}, {2, 5 * time.Second, 30 * time.Second}, {6, 5 * time.Second, 480 * time.Second}, {7, 5 * time.Second, 10 * time.Minute},
		{100, 5 * time.Second, 10 * time.Minute}, {1, 0, 3 * time.Second}, {1, time.Second, 3 * time.Second}, {1, time.Hour, 10 * time.Minute},
	} {
		if got := (&node{Config: Config{Node: "a"}}).again(&review{short: tc.short}, tc.renewal); got != jittered("a", tc.want) {
			t.Errorf("after %d reviews, with a renewal of %s, it is %s", tc.short, tc.renewal, got)
		}
	}
}

// crowd is many nodes that promise something. A deaf one answers no question.
type crowd struct {
	followed

	all      map[string]promiselease.Record
	control  map[string]bool
	deaf     map[string]bool
	unplaced map[string]bool
	zones    map[string]string
	unlisted error

	mu     sync.Mutex
	asked  []string
	placed []string
}

// newCrowd returns a crowd of nodes n0, n1 and so on, all of which serve.
func newCrowd(size int) *crowd {
	c := &crowd{all: map[string]promiselease.Record{}, control: map[string]bool{}, deaf: map[string]bool{}, unplaced: map[string]bool{}}
	for i := range size {
		r := promiseOfA(selffence.Promised)
		r.Witnessed = 7
		c.all[fmt.Sprint("n", i)] = r
	}
	return c
}

func (c *crowd) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	return c.all, 9, c.unlisted
}

func (c *crowd) First(context.Context, int) (map[string]promiselease.Record, int, error) {
	return nil, len(c.all), nil
}

func (c *crowd) Place(_ context.Context, node string) (Place, error) {
	c.placed = append(c.placed, node)
	if c.unplaced[node] {
		return Place{}, errors.New("no answer")
	}
	return Place{Control: c.control[node], Zone: c.zones[node]}, nil
}

func (c *crowd) Ask(_ context.Context, node, _ string, _ []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, node)
	if c.deaf[node] {
		return nil, errors.New("no answer")
	}
	return []byte(`{"agrees":false}`), nil
}

// reviews returns the agent of a node that chooses witnesses among a crowd, and what it knows of them.
func (c *crowd) reviews(name string, demanded ...int) (*node, *review) {
	n := &node{
		Config:   Config{Node: name, Others: c, Peers: c, Witness: NewWitness(), Boottime: func() time.Duration { return 0 }},
		demanded: demanded, limit: time.Second, woken: make(chan struct{}, 1),
	}
	r := n.newReview()
	return n, r
}

// TestAReviewIsBounded: of a large fleet sixteen agents are asked and placed, besides the witnesses of now.
func TestAReviewIsBounded(t *testing.T) {
	t.Parallel()
	c := newCrowd(40)
	n, r := c.reviews("n0", 3)
	serving := n.servingOthers(c.all)
	n.members = membersOf([]string{serving[0], serving[16], serving[30]})
	if pause, _, _ := n.reviewOnce(t.Context(), r); pause != jittered("n0", 10*time.Minute) {
		t.Errorf("the pause is %s", pause)
	}
	if want := append(slices.Clone(serving[:16]), serving[16], serving[30]); len(c.asked) != len(want) || slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(c.asked, name) }) {
		t.Errorf("it asks %q, want %q", c.asked, want)
	}
}

// TestPlacesAreRead: the place of a node is read once, and again once many were read since. A node without one is read again.
func TestPlacesAreRead(t *testing.T) {
	t.Parallel()
	c := newCrowd(0)
	c.control["a"], c.unplaced["b"] = true, true
	n, r := c.reviews("x")
	for range 2 {
		if got := n.placesOf(t.Context(), r, []string{"a", "b"}); len(got) != 1 || !got["a"].Control {
			t.Errorf("the places are %v", got)
		}
	}
	if want := []string{"a", "b", "b"}; !slices.Equal(c.placed, want) {
		t.Errorf("read were %q, want %q", c.placed, want)
	}
	for _, step := range []struct{ more, want int }{{63, 0}, {1, 1}, {0, 0}} { // as many places are known as is the most, one more, and few
		for i := range step.more {
			n.placesOf(t.Context(), r, []string{fmt.Sprint("more", step.more, "-", i)})
		}
		before := len(c.placed)
		n.placesOf(t.Context(), r, []string{"a"})
		if len(c.placed)-before != step.want {
			t.Errorf("after %d more, the place of a is read %d times", step.more, len(c.placed)-before)
		}
	}
}

// TestWhoServes: the agent that a promise names, each of the control plane, and the best of the others. An agent that promises nothing does not.
func TestWhoServes(t *testing.T) {
	t.Parallel()
	c := newCrowd(40)
	first := promising(c.all)
	for sentence, tc := range map[string]struct {
		node    string
		change  func(map[string]promiselease.Record)
		control bool
		want    bool
	}{
		"the best":                      {first[0], func(map[string]promiselease.Record) {}, false, true},
		"the last of four":              {first[3], func(map[string]promiselease.Record) {}, false, true},
		"the fifth":                     {first[4], func(map[string]promiselease.Record) {}, false, false},
		"of the control plane":          {first[30], func(map[string]promiselease.Record) {}, true, true},
		"named by a promise":            {first[30], func(all map[string]promiselease.Record) { names30(all, first, selffence.Promised) }, false, true},
		"named, and that is revoked":    {first[30], func(all map[string]promiselease.Record) { names30(all, first, selffence.Condemned) }, false, true},
		"named, and that is withdrawn":  {first[30], func(all map[string]promiselease.Record) { names30(all, first, selffence.Withdrawn) }, false, false},
		"it promises nothing":           {first[0], func(all map[string]promiselease.Record) { delete(all, first[0]) }, false, false},
		"of the plane, without promise": {first[0], func(all map[string]promiselease.Record) { delete(all, first[0]) }, true, false},
	} {
		c := newCrowd(40)
		tc.change(c.all)
		c.control[tc.node] = tc.control
		n, r := c.reviews(tc.node, 3)
		if got := n.serves(t.Context(), r, c.all, 3); got != tc.want {
			t.Errorf("%s: it serves: %t", sentence, got)
		}
	}
}

// names30 has the promise of the second node name the thirtieth.
func names30(all map[string]promiselease.Record, first []string, state selffence.State) {
	r := all[first[1]]
	r.State, r.Promise.Witnesses = state, selffence.Members{first[30]}
	all[first[1]] = r
}

// TestAWitnessThatCanNotList goes on with what it has read. Another agent reviews its witnesses later and later.
func TestAWitnessThatCanNotList(t *testing.T) {
	t.Parallel()
	for _, knows := range []bool{false, true} {
		c := newCrowd(5)
		c.unlisted = errors.New("no answer")
		n, r := c.reviews("n0", 3)
		n.agent.Renewal = 5 * time.Second
		if knows {
			n.Witness.listed(c.all, 1, n.Witness.begins())
		}
		want := jittered("n0", 15*time.Second)
		if knows {
			want = time.Second
		}
		if pause, serves, since := n.reviewOnce(t.Context(), r); pause != want || serves != knows || since != 0 || r.short != 1 {
			t.Errorf("has read %t: the pause is %s, it serves %t since %d, and %d reviews were short", knows, pause, serves, since, r.short)
		}
	}
}

// TestAReviewEndsInTime, and each question in the time between two grants.
func TestAReviewEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now() //nolint:forbidigo // the clock of the bubble
		n, r := newCrowd(0).reviews("a", 3)
		n.Others = hangs{}
		n.reviewOnce(t.Context(), r)
		if took := time.Since(begun); took != 30*time.Second { //nolint:forbidigo // the same
			t.Errorf("it takes %s", took)
		}
	})
}

// hangs answers nothing before the context has ended.
type hangs struct{ Others }

func (hangs) First(ctx context.Context, _ int) (map[string]promiselease.Record, int, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}
