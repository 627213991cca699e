package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

const bootOfA = "0f8fad5b-d9cb-469f-a165-70867728950e"

func promiseOfA(s selffence.State) promiselease.Record {
	return promiselease.Record{Lease: selffence.Lease{State: s, Promise: selffence.Promise{Boot: bootOfA}}}
}

// TestWitnessAnswers: a witness answers about the node that asks, as it has read its Lease last.
func TestWitnessAnswers(t *testing.T) {
	t.Parallel()
	w := NewWitness()
	agrees := func(node, boot string) bool {
		t.Helper()
		text, err := w.Answer(t.Context(), node, []byte(`{"boot":"`+boot+`"}`))
		var a answerTo
		if err != nil || decodeOnly(text, &a) != nil {
			t.Errorf("the answer is %s, %v", text, err)
		}
		return a.Agrees
	}
	w.isAway(true)
	w.changed("a", promiseOfA(selffence.Promised), 8)
	if agrees("a", bootOfA) || w.read() != 0 {
		t.Error("a witness agrees that has not listed the Leases")
	}
	if !w.listed(map[string]promiselease.Record{"a": promiseOfA(selffence.Promised)}, 9, w.begins()) {
		t.Error("a list counts for nothing")
	}
	if !agrees("a", bootOfA) || agrees("b", bootOfA) || agrees("a", "another") || w.read() != 9 {
		t.Error("a witness agrees to the boot that it has read of the node that asks, and to no other")
	}
	w.isAway(false)
	if agrees("a", bootOfA) {
		t.Error("a witness agrees that reaches the API server")
	}
	w.isAway(true)
	for _, change := range []promiselease.Record{promiseOfA(selffence.Condemned), promiseOfA(selffence.Withdrawn), {}} {
		w.changed("a", promiseOfA(selffence.Promised), 10)
		w.changed("", promiselease.Record{}, 11)
		if !agrees("a", bootOfA) || w.read() != 11 {
			t.Error("a change of nothing changes an answer")
		}
		w.changed("a", change, 12)
		if agrees("a", bootOfA) {
			t.Errorf("a witness agrees that has read %+v", change)
		}
	}
	w.changed("a", promiseOfA(selffence.Promised), 13)
	w.listed(nil, 5, w.begins())
	if agrees("a", bootOfA) || w.read() != 5 {
		t.Error("what was read before a list counts")
	}
	w.listed(map[string]promiselease.Record{"a": promiseOfA(selffence.Promised)}, 14, w.begins())
	begun := w.begins()
	w.forgets()
	if agrees("a", bootOfA) || w.read() != 0 {
		t.Error("a witness agrees that has forgotten what it read")
	}
	if w.listed(map[string]promiselease.Record{"a": promiseOfA(selffence.Promised)}, 15, begun) || agrees("a", bootOfA) || w.read() != 0 {
		t.Error("a list that began before the witness forgot what it read counts")
	}
}

// followed is the Leases of all nodes, and counts how often they were followed.
type followed struct {
	Others

	times int
}

func (f *followed) Follow(context.Context, uint64, func(string, promiselease.Record, uint64)) error {
	f.times++
	return nil
}

// TestForgotBeforeFollowing: a witness that has forgotten what it listed lists anew, and does not follow the Leases for minutes without agreeing.
func TestForgotBeforeFollowing(t *testing.T) {
	t.Parallel()
	f := &followed{}
	n := &node{Config: Config{Others: f, Witness: NewWitness()}, woken: make(chan struct{}, 1)}
	n.Witness.listed(nil, 7, n.Witness.begins())
	n.follow(t.Context(), 7, time.Minute)
	n.Witness.forgets()
	n.follow(t.Context(), 7, time.Minute)
	if f.times != 1 {
		t.Errorf("the Leases were followed %d times", f.times)
	}
}

// listing is the Leases of all nodes, and what the witness has read when its agent asks others.
type listing struct {
	followed

	node *node
	read []uint64
}

func (*listing) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	all := map[string]promiselease.Record{}
	for _, node := range []string{"b", "c", "d"} {
		r := promiseOfA(selffence.Promised)
		r.Witnessed, r.Promise.Witnesses = 7, selffence.Members{"a"}
		all[node] = r
	}
	return all, 9, nil
}

func (*listing) First(context.Context, int) (map[string]promiselease.Record, int, error) {
	return nil, 0, nil
}
func (*listing) Place(context.Context, string) (Place, error) { return Place{}, nil }

func (a *listing) Ask(context.Context, string, string, []byte) ([]byte, error) {
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	a.read = append(a.read, a.node.Witness.read())
	return []byte(`{"agrees":false}`), nil
}

// TestListedBeforeAsking: a witness knows what it has listed before its agent asks others, whose answers may take a while.
func TestListedBeforeAsking(t *testing.T) {
	t.Parallel()
	a := &listing{}
	a.node = &node{
		Config:   Config{Node: "a", Others: a, Peers: a, Witness: NewWitness(), Boottime: func() time.Duration { return 0 }},
		demanded: []int{3}, limit: time.Minute, woken: make(chan struct{}, 1),
	}
	if _, serves, since := a.node.reviewOnce(t.Context(), a.node.newReview()); !serves || since != 9 {
		t.Errorf("it serves: %t, since %d", serves, since)
	}
	if len(a.read) != 3 || slices.Contains(a.read, 0) {
		t.Errorf("the witness has read %d", a.read)
	}
	if a.node.members != membersOf([]string{"b", "c", "d"}) {
		t.Errorf("the witnesses are %q", a.node.members)
	}
}

func TestNoQuestions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{", "[]", `{"boot":1}`, `{"boot":"a"} {}`, `{"boot":"a","node":"b"}`, `{"boot":"` + strings.Repeat("a", maxQuestion) + `"}`,
	} {
		if got, err := NewWitness().Answer(t.Context(), "a", []byte(text)); err == nil {
			t.Errorf("the answer to %.40q is %s", text, got)
		}
	}
}
