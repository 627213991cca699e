package agent_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
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

// playLargeFleet runs a story with some nodes of a fleet of 400, once their promises are timed.
func playLargeFleet(t *testing.T, story func(*fleet)) {
	t.Helper()
	playFleet(t, 7, func(f *fleet) {
		f.set(func() { f.more = 393 })
		f.pass(20 * time.Minute) // until the agents of these nodes are candidates: one in six is at first
		f.promise("a")
		story(f)
	})
}

// TestFewList: in a large fleet the witnesses alone list all Leases, once there are enough. The others find the same witnesses without that.
func TestFewList(t *testing.T) {
	t.Parallel()
	playLargeFleet(t, func(f *fleet) {
		f.set(func() { clear(f.listed) })
		f.pass(40 * time.Minute)
		witnesses := f.serving()
		f.set(func() {
			if got := slices.Sorted(maps.Keys(f.listed)); !slices.Equal(got, witnesses) || len(witnesses) < 4 || len(witnesses) > 6 {
				t.Errorf("the nodes %q list all Leases, and %q are witnesses", got, witnesses)
			}
		})
		f.promise("a")
	})
}

// TestWitnessLostOfMany: in a large fleet too a witness that is gone is replaced. Another agent becomes one for that.
func TestWitnessLostOfMany(t *testing.T) {
	t.Parallel()
	playLargeFleet(t, func(f *fleet) {
		lost := f.serving()[0]
		f.set(func() {
			f.nodes[lost].dead = true
			r := f.leases[lost]
			r.State = selffence.Withdrawn
			f.stores(lost, r)
		})
		f.pass(80 * time.Minute)
		f.set(func() {
			for name, r := range f.leases {
				if name != lost && (!r.Promise.Timed || slices.Contains(r.Promise.Witnesses[:], lost)) {
					t.Errorf("without %s, node %s promises %+v", lost, name, r.Promise)
				}
			}
		})
		if got := slices.DeleteFunc(f.serving(), func(name string) bool { return name == lost }); len(got) < 4 {
			t.Errorf("the witnesses are %q", got)
		}
	})
}

// fewLeases is the Leases of a fleet whose witnesses are some nodes. The first Lease is of node a, and names a part of them.
type fewLeases struct {
	agent.LeaseLister

	count     int
	named     []string
	witnesses []string
	control   bool
	plane     []string
	fails     error
	failsLate error
	read      []string
	listed    int
}

func (l *fewLeases) First(_ context.Context, most int) (map[string]promiselease.Record, int, error) {
	if most != 16 {
		l.fails = errAway
	}
	return map[string]promiselease.Record{"a": {Lease: selffence.Lease{State: selffence.Promised, Promise: naming(l.named)}}}, l.count, l.fails
}

func naming(names []string) selffence.Promise {
	var p selffence.Promise
	copy(p.Witnesses[:], names)
	return p
}

// Of returns Leases of witnesses, each of which names the first five but itself.
func (l *fewLeases) Of(_ context.Context, nodes []string) (map[string]promiselease.Record, error) {
	all := map[string]promiselease.Record{}
	for _, node := range nodes {
		l.read = append(l.read, node)
		if slices.Contains(l.witnesses, node) {
			others := slices.DeleteFunc(slices.Clone(l.witnesses), func(name string) bool { return name == node })
			all[node] = promiselease.Record{Witnessed: 7, Lease: selffence.Lease{State: selffence.Promised, Promise: naming(others)}}
		}
	}
	return all, l.failsLate
}

func (l *fewLeases) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	l.listed++
	return map[string]promiselease.Record{}, 9, nil
}

func (l *fewLeases) Place(_ context.Context, node string) (agent.Place, error) {
	return agent.Place{Control: l.control || slices.Contains(l.plane, node)}, nil
}

// low and high are nodes with a low hash of their names, and with a high one.
const (
	low  = "node-369"
	high = "node-0"
)

// TestWhoListsAll: which agents list all Leases, in a review of an agent that is no witness.
func TestWhoListsAll(t *testing.T) {
	t.Parallel()
	five := []string{"b", "c", "d", "e", "f"}
	four, three := five[:4], five[:3]
	for what, c := range map[string]struct {
		node   string
		leases fewLeases
		now    time.Duration
		want   string
	}{
		"enough witnesses":           {low, fewLeases{count: 5000, named: three, witnesses: four}, 0, "no b c d e"},
		"a witness that is gone":     {high, fewLeases{count: 5000, named: []string{"b", "x"}, witnesses: four}, 0, "no b c d e x"},
		"too few, of a low hash":     {low, fewLeases{count: 5000, named: three, witnesses: three}, 0, "all b c d"},
		"too few, of a high hash":    {high, fewLeases{count: 5000, named: three, witnesses: three}, 0, "no b c d"},
		"none":                       {high, fewLeases{count: 5000}, 0, "no "},
		"one page":                   {high, fewLeases{count: 250, named: three, witnesses: four}, 0, "all "},
		"one more":                   {high, fewLeases{count: 251, named: three, witnesses: four}, 0, "no b c d e"},
		"unknown how many":           {high, fewLeases{named: three, witnesses: four}, 0, "all "},
		"named, as after a restart":  {high, fewLeases{count: 5000, named: []string{"b", high}, witnesses: four}, 0, "all b c d e " + high},
		"of the control plane":       {high, fewLeases{count: 5000, named: three, witnesses: four, control: true}, 0, "all b c d e"},
		"enough beside the plane":    {low, fewLeases{count: 5000, named: five, witnesses: five, plane: three[:2]}, 0, "no b c d e f"},
		"too few beside the plane":   {low, fewLeases{count: 5000, named: five, witnesses: five, plane: three}, 0, "all b c d e f"},
		"nine hours later":           {high, fewLeases{count: 5000, named: three, witnesses: four}, 9 * time.Hour, "all "},
		"three hours later":          {high, fewLeases{count: 5000, named: three, witnesses: four}, 3*time.Hour - 1, "no b c d e"},
		"no answer":                  {low, fewLeases{count: 5000, fails: errAway}, 0, "fails "},
		"no answer about a witness":  {low, fewLeases{count: 5000, named: three[:1], failsLate: errAway}, 0, "fails b"},
		"no answer at the last step": {low, fewLeases{count: 5000, named: three, fails: errAway}, 0, "fails "},
	} {
		var all bool
		var since uint64
		var now time.Duration
		begun := agent.Config{Node: c.node, Others: &c.leases, Boottime: func() time.Duration { return now }, Store: nothing{}}
		review := agent.NewReview(begun, false)
		now = c.now
		since, err := review(t.Context(), 3)
		all = c.leases.listed == 1
		slices.Sort(c.leases.read)
		got := map[bool]string{true: "all ", false: "no "}[all]
		if err != nil {
			got = "fails "
		}
		if got += strings.Join(c.leases.read, " "); got != c.want || all != (since > 0) {
			t.Errorf("%s: it is %q at %d (%v), want %q", what, got, since, err, c.want)
		}
		if all {
			if _, err := review(t.Context(), 3); err != nil || c.now > 0 && c.leases.listed != 1 {
				t.Errorf("%s: it lists all again", what)
			}
		}
	}
}

// TestScarce: while there are too few witnesses, more agents list all Leases with each review.
func TestScarce(t *testing.T) {
	t.Parallel()
	l := &fewLeases{count: 5000, named: []string{"b"}, witnesses: []string{"b"}}
	review := agent.NewReview(agent.Config{Node: high, Others: l, Boottime: func() time.Duration { return 0 }, Store: nothing{}}, false)
	times := func() (reviews int) {
		for l.listed = 0; l.listed == 0; reviews++ {
			_, _ = review(t.Context(), 3)
		}
		return reviews
	}
	if got := times(); got != 7 {
		t.Errorf("it lists all in review %d", got)
	}
	if got := times(); got != 1 {
		t.Errorf("it lists all again in review %d", got)
	}
	l.witnesses = []string{"b", "c", "d", "e"}
	_, _ = review(t.Context(), 3)
	l.witnesses = nil
	if got := times(); got != 7 {
		t.Errorf("it lists all in review %d, after one with enough witnesses", got)
	}
}

// swamped is the Leases of a large fleet. Of the first ones, three are of an attacker, and name others.
type swamped struct {
	*fewLeases

	first map[string]promiselease.Record
	// all is what a full list has. It may be nil.
	all map[string]promiselease.Record
}

func (l *swamped) First(context.Context, int) (map[string]promiselease.Record, int, error) {
	return maps.Clone(l.first), l.count, nil
}

func (l *swamped) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	l.listed++
	return l.all, 9, nil
}

// ofNodes returns records of nodes that promise something, and name witnesses.
func ofNodes(prefix string, names ...[]string) map[string]promiselease.Record {
	all := map[string]promiselease.Record{}
	for i, of := range names {
		all[fmt.Sprint(prefix, i)] = promiselease.Record{Lease: selffence.Lease{State: selffence.Promised, Promise: naming(of)}}
	}
	return all
}

// TestInventedWitnesses: the names of three Leases don't keep an agent from reading the Leases of the witnesses that most name.
func TestInventedWitnesses(t *testing.T) {
	t.Parallel()
	var invented []string
	for i := 0; len(invented) < 15; i++ { // with lower hashes than any witness
		if name := fmt.Sprint("invented-", i); agent.Candidate(name, 1<<14, 0) {
			invented = append(invented, name)
		}
	}
	witnesses := []string{"w0", "w1", "w2", "w3", "w4", "w5"}
	first := ofNodes("a", witnesses[:5], witnesses[:5]) // the witnesses alone name the last one
	maps.Copy(first, ofNodes("x", invented[:5], invented[5:10], invented[10:]))
	l := &swamped{fewLeases: &fewLeases{count: 5000, witnesses: witnesses}, first: first}
	review := agent.NewReview(agent.Config{Node: high, Others: l, Boottime: func() time.Duration { return 0 }, Store: nothing{}}, false)
	for range 20 {
		l.read = nil
		if _, err := review(t.Context(), 5); err != nil || l.listed > 0 || len(l.read) != 16 {
			t.Fatalf("it reads %q, and lists all %d times (%v)", l.read, l.listed, err)
		}
		for _, witness := range witnesses {
			if !slices.Contains(l.read, witness) {
				t.Errorf("it reads %q, without %s", l.read, witness)
			}
		}
	}
}

// TestEnoughByAFullList: an agent that has found enough witnesses by a full list alone makes no other one, until it sees fewer witnesses than then.
func TestEnoughByAFullList(t *testing.T) {
	t.Parallel()
	var now time.Duration
	l := &swamped{fewLeases: &fewLeases{count: 5000, witnesses: []string{"w0", "w1"}}, first: ofNodes("a", []string{"w0", "w1"}), all: map[string]promiselease.Record{}}
	for i := range 4 {
		l.all[fmt.Sprint("w", i)] = promiselease.Record{Witnessed: 7, Lease: selffence.Lease{State: selffence.Promised}}
	}
	review := agent.NewReview(agent.Config{Node: low, Others: l, Boottime: func() time.Duration { return now }, Store: nothing{}}, false)
	times := func() int {
		l.listed = 0
		for range 10 {
			if _, err := review(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		return l.listed
	}
	for _, step := range []struct {
		what   string
		change func()
		listed int
	}{
		{"enough by a full list", func() {}, 1},
		{"another witness is gone", func() { l.witnesses = l.witnesses[:1] }, 1},
		{"all that it sees are gone", func() { l.witnesses = nil }, 1},
		{"a full list has too few", func() { now += 9 * time.Hour; delete(l.all, "w3") }, 10},
	} {
		step.change()
		if got := times(); got != step.listed {
			t.Errorf("%s: it lists all in %d of 10 reviews, want %d", step.what, got, step.listed)
		}
	}
}

// TestReadsOfAWitness: an agent that is a witness lists all Leases each time, also while no Lease that it would read names it.
func TestReadsOfAWitness(t *testing.T) {
	t.Parallel()
	l := &fewLeases{count: 5000, named: []string{"b"}, witnesses: []string{"b", "c", "d", "e"}}
	review := agent.NewReview(agent.Config{Node: high, Others: l, Boottime: func() time.Duration { return 0 }, Store: nothing{}}, true)
	for i := range 3 {
		if since, err := review(t.Context(), 3); since == 0 || err != nil || l.listed != i+1 || len(l.read) > 0 {
			t.Errorf("it reads %q, and has listed all %d times", l.read, l.listed)
		}
	}
}

// TestOwnWitnesses: an agent reads the Leases of its own witnesses, also where no other names them.
func TestOwnWitnesses(t *testing.T) {
	t.Parallel()
	l := &fewLeases{count: 5000, named: []string{"b"}, witnesses: []string{"x", "y"}}
	review := agent.NewReview(agent.Config{Node: high, Others: l, Boottime: func() time.Duration { return 0 }, Store: nothing{}}, false, "x", "y")
	if _, err := review(t.Context(), 3); err != nil || !slices.Equal(slices.Sorted(slices.Values(l.read)), []string{"b", "x", "y"}) {
		t.Errorf("it reads %q (%v)", l.read, err)
	}
}

// TestFewAreBounded: however many witnesses promises name, an agent reads the Leases of 16.
func TestFewAreBounded(t *testing.T) {
	t.Parallel()
	l := &fewLeases{count: 5000, named: []string{"n0", "n1", "n2"}}
	for i := range 100 {
		l.witnesses = append(l.witnesses, fmt.Sprintf("n%d", i))
	}
	chain := &chained{l}
	_, _ = agent.NewReview(agent.Config{Node: high, Others: chain, Boottime: func() time.Duration { return 0 }, Store: nothing{}}, false)(t.Context(), 3)
	if len(l.read) != 16 {
		t.Errorf("it reads %q", l.read)
	}
}

// chained is Leases of which each names the next.
type chained struct{ *fewLeases }

func (l *chained) Of(_ context.Context, nodes []string) (map[string]promiselease.Record, error) {
	all := map[string]promiselease.Record{}
	for _, node := range nodes {
		l.read = append(l.read, node)
		var i int
		_, _ = fmt.Sscanf(node, "n%d", &i)
		all[node] = promiselease.Record{Lease: selffence.Lease{Promise: naming([]string{fmt.Sprintf("n%d", i+1)})}}
	}
	return all, nil
}

// nothing is a store without a state.
type nothing struct{}

func (nothing) Load(boot string) (agent.State, error) { return agent.State{Boot: boot}, nil }
func (nothing) Save(agent.State) error                { return nil }

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
