package agent_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/selffence"
)

// serving returns the nodes whose agents read all Leases.
func (f *fleet) serving() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(f.leases)) {
		if f.leases[name].Witnessed > 0 {
			all = append(all, name)
		}
	}
	return all
}

// playLargeFleet runs a story with some nodes of a fleet of 5,000, once their promises are timed.
func playLargeFleet(t *testing.T, story func(*fleet)) {
	t.Helper()
	playFleet(t, 9, func(f *fleet) {
		f.set(func() { f.more = 4991 })
		f.pass(2 * time.Hour) // until the agents of these nodes are candidates: few of 5,000 are at first
		f.promise("a")
		story(f)
	})
}

// TestFewList: in a large fleet the witnesses alone list all Leases, once there are enough. The others find the same witnesses without that.
func TestFewList(t *testing.T) {
	t.Parallel()
	playLargeFleet(t, func(f *fleet) {
		f.set(func() { clear(f.listed) })
		f.pass(2 * time.Hour)
		witnesses := f.serving()
		f.set(func() {
			if got := slices.Sorted(maps.Keys(f.listed)); !slices.Equal(got, witnesses) || len(witnesses) < 4 || len(witnesses) > 6 {
				t.Errorf("the nodes %q list all Leases, and %q are witnesses", got, witnesses)
			}
		})
		f.promise("a")
		f.set(func() { f.away = true })
		f.pass(time.Hour)
		if got := f.resets(); len(got) > 0 {
			t.Errorf("the nodes %q were reset", got)
		}
	})
}

// TestWitnessLostOfMany: in a large fleet too, a witness that is gone is replaced, also where another agent has to become one for that.
func TestWitnessLostOfMany(t *testing.T) {
	t.Parallel()
	playLargeFleet(t, func(f *fleet) {
		for range 3 {
			lost := f.serving()[0]
			f.set(func() {
				f.nodes[lost].dead = true
				r := f.leases[lost]
				r.State = selffence.Withdrawn
				f.stores(lost, r)
			})
			f.pass(5 * time.Hour)
			f.set(func() {
				for name, r := range f.leases {
					if f.nodes[name].dead {
						delete(f.leases, name)
					} else if !r.Promise.Timed || slices.Contains(r.Promise.Witnesses[:], lost) {
						t.Errorf("without %s, node %s promises %+v", lost, name, r.Promise)
					}
				}
			})
		}
		if got := f.serving(); len(got) < 4 {
			t.Errorf("the witnesses are %q", got)
		}
	})
}

// TestNamedWitnessOfMany: a witness that has restarted, and that agents still name, is a witness again within hours at the latest.
func TestNamedWitnessOfMany(t *testing.T) {
	t.Parallel()
	playLargeFleet(t, func(f *fleet) {
		f.set(func() { clear(f.listed) })
		f.pass(9 * time.Hour)
		f.set(func() {
			if len(f.listed) != len(f.nodes) {
				t.Errorf("within nine hours, the nodes %v have listed all Leases", f.listed)
			}
		})
	})
}

// TestControlPlaneOfMany: each agent of the control plane is a witness, however many nodes there are.
func TestControlPlaneOfMany(t *testing.T) {
	t.Parallel()
	playFleet(t, 9, func(f *fleet) {
		f.set(func() {
			f.more = 19000
			for _, name := range []string{"f", "g", "h", "i"} {
				f.nodes[name].place.Control = true
			}
		})
		f.promise("a")
		if got := f.serving(); !slices.Equal(got, []string{"f", "g", "h", "i"}) {
			t.Errorf("the witnesses are %q", got)
		}
	})
}

// TestCandidates: the nodes with the lowest hashes are candidates, and more of them after each review that has found too few witnesses.
func TestCandidates(t *testing.T) {
	t.Parallel()
	count := func(reviews, nodes int) int {
		n := 0
		for i := range nodes {
			if agent.Candidate(fmt.Sprintf("node-%d", i), nodes, reviews) {
				n++
			}
		}
		return n
	}
	for reviews, want := range map[int]int{0: 64, 1: 128, 4: 1024, 7: 5000, 12: 5000, 100: 5000} {
		if got := count(reviews, 5000); got < want*3/4 || got > want*5/4 {
			t.Errorf("after %d reviews %d nodes are candidates, want about %d", reviews, got, want)
		}
	}
	if got := count(0, 64); got != 64 {
		t.Errorf("%d of 64 nodes are candidates", got)
	}
}

// TestReadsFewLeases: the first Leases say how many there are, and others are read by their names, from what the API server has in memory.
func TestReadsFewLeases(t *testing.T) {
	t.Parallel()
	counted := func(next string, rest *int64) reply {
		return reply{http.StatusOK, coordinationv1.LeaseList{
			ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: next, RemainingItemCount: rest}, Items: []coordinationv1.Lease{leaseAt(t, "a", 5), leaseAt(t, "b", 6)},
		}}
	}
	for what, c := range map[string]struct {
		answer reply
		count  int
	}{
		"all":           {counted("", nil), 2},
		"more":          {counted("x", new(int64(7))), 9},
		"an unknown":    {counted("x", nil), 0},
		"more than can": {counted("x", new(int64(1<<62))), 20002},
	} {
		s := serve(t, c.answer)
		some, count, err := agent.NewAllLeases(s.Server).First(t.Context(), 2)
		if err != nil || count != c.count || len(some) != 2 || some["a"].Revision != 5 || some["b"].Promise != promised() {
			t.Errorf("%s: the Leases are %+v of %d, %v", what, some, count, err)
		}
		if lines := s.lines(); len(lines) != 1 || lines[0] != "GET "+theLease+"?limit=2" {
			t.Errorf("the requests are %q", lines)
		}
	}
	s := serve(t, reply{http.StatusOK, leaseAt(t, "a", 5)}, status(404, metav1.StatusReasonNotFound), reply{http.StatusOK, leaseAt(t, "a", 5)})
	all, err := agent.NewAllLeases(s.Server).Of(t.Context(), []string{"a", "b", "c"})
	if err != nil || len(all) != 1 || all["a"].Revision != 5 {
		t.Errorf("the Leases are %+v, %v", all, err)
	}
	if lines := s.lines(); len(lines) != 3 || lines[1] != "GET "+theLease+"/b?resourceVersion=0" {
		t.Errorf("the requests are %q", lines)
	}
	for what, answer := range map[string]reply{"a refusal": status(403, metav1.StatusReasonForbidden), "no answer": {}} {
		if _, _, err := agent.NewAllLeases(serve(t, answer).Server).First(t.Context(), 2); err == nil {
			t.Errorf("%s is a list", what)
		}
		if _, err := agent.NewAllLeases(serve(t, answer).Server).Of(t.Context(), []string{"a"}); err == nil {
			t.Errorf("%s is a Lease", what)
		}
	}
}
