package powercycle

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"

	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// TestSessionsOfARemediation: a reconcile finds the session of the reconcile before, and a remediation of the same name gets another.
func TestSessionsOfARemediation(t *testing.T) {
	s := newSessions(fencednode.NewClaims())
	first := s.of(keyA, "1", "node-a")
	if s.of(keyA, "1", "node-a") != first || s.of(keyB, "1", "node-a") == first {
		t.Error("a session is not that of its remediation")
	}
	s.keep(first, remediation())
	if s.of(keyA, "2", "node-a") == first || s.written(keyA) != nil {
		t.Error("a remediation has the session of an earlier one of its name")
	}
}

// TestOneRemediationClaimsANode until it is forgotten, has ended, or turns out to be for another node.
func TestOneRemediationClaimsANode(t *testing.T) {
	for sentence, tc := range map[string]struct {
		release func(*sessions) []types.NamespacedName
		woken   []types.NamespacedName
	}{
		"forgotten": {func(s *sessions) []types.NamespacedName { return s.forget(keyA) }, []types.NamespacedName{keyB}},
		"ended":     {func(s *sessions) []types.NamespacedName { return s.end(keyA) }, []types.NamespacedName{keyB}},
		"for another node": {func(s *sessions) []types.NamespacedName {
			s.of(keyA, "1", "node-b")
			return nil
		}, nil},
	} {
		s := newSessions(fencednode.NewClaims())
		s.of(keyA, "1", "node-a")
		s.of(keyB, "2", "node-a")
		for range 2 {
			if s.claim("node-a", keyA) != holderOf(keyA) || s.claim("node-a", keyB) != holderOf(keyA) {
				t.Errorf("%s: the first to claim a node does not hold it", sentence)
			}
		}
		if s.end(keyB) != nil || s.claim("node-a", keyB) != holderOf(keyA) {
			t.Errorf("%s: a remediation that holds nothing has released the node", sentence)
		}
		s.of(keyA, "1", "node-a")
		if s.claim("node-a", keyB) != holderOf(keyA) {
			t.Errorf("%s: another reconcile of the holder has released the node", sentence)
		}
		if woken := tc.release(s); !slices.Equal(woken, tc.woken) {
			t.Errorf("%s: the release wakes %v, want %v", sentence, woken, tc.woken)
		}
		if s.claim("node-a", keyB) != holderOf(keyB) {
			t.Errorf("%s: the node was not released", sentence)
		}
	}
}

// TestForgetOfAnotherLeavesTheClaim, also where that remediation was never known.
func TestForgetOfAnotherLeavesTheClaim(t *testing.T) {
	s := newSessions(fencednode.NewClaims())
	s.of(keyA, "1", "node-a")
	s.of(keyB, "2", "node-a")
	s.claim("node-a", keyA)
	if woken := s.forget(keyB); woken != nil || s.claim("node-a", keyB) != holderOf(keyA) {
		t.Errorf("the claim went with another remediation, which woke %v", woken)
	}
	unknown := types.NamespacedName{Name: "unknown"}
	if s.forget(unknown) != nil || s.end(unknown) != nil || s.written(unknown) != nil {
		t.Error("a remediation that is not known has a session")
	}
}

// TestTheLongestWaiterIsNext: the end of a claim wakes one remediation, the first that has begun to wait. Each later one has its turn.
func TestTheLongestWaiterIsNext(t *testing.T) {
	key := func(i int) types.NamespacedName { return types.NamespacedName{Name: strconv.Itoa(i)} }
	for name, ends := range map[string]func(*sessions, types.NamespacedName) []types.NamespacedName{"ended": (*sessions).end, "forgotten": (*sessions).forget} {
		s := newSessions(fencednode.NewClaims())
		for _, i := range []int{3, 1, 4, 0, 2} {
			s.of(key(i), "uid", "node-a")
		}
		s.of(key(5), "uid", "node-b")
		s.claim("node-b", key(5))
		for _, i := range []int{3, 1, 4, 1, 0} { // one tries again, and another waits for nothing
			s.claim("node-a", key(i))
		}
		for _, i := range []int{3, 1, 4} {
			if s.isBehind(key(i), "uid") != (i != 3) || s.isBehind(key(i), "later") {
				t.Errorf("%s: %d is behind: %t", name, i, s.isBehind(key(i), "uid"))
			}
		}
		for _, want := range []int{1, 4, 0} {
			holder := s.claim("node-a", key(want)).NamespacedName
			woken := ends(s, holder)
			if !slices.Equal(woken, []types.NamespacedName{key(want)}) || s.isBehind(key(want), "uid") {
				t.Errorf("%s: the end of %v wakes %v, want %d", name, holder, woken, want)
			}
			s.claim("node-a", key(want))
		}
		if woken := ends(s, key(0)); woken != nil || s.isBehind(key(5), "uid") || s.isBehind(key(9), "uid") {
			t.Errorf("%s: the last end wakes %v", name, woken)
		}
	}
}

// TestOneHolderAtATime: whatever happens, a node has one holder, and a holder has one node.
func TestOneHolderAtATime(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := newSessions(fencednode.NewClaims())
	node := map[types.NamespacedName]string{}
	for range 5000 {
		key := types.NamespacedName{Name: strconv.Itoa(r.IntN(4))}
		switch r.IntN(4) {
		case 0:
			node[key] = "node-" + strconv.Itoa(r.IntN(2))
			s.of(key, "uid", node[key])
		case 1:
			s.forget(key)
			delete(node, key)
		case 2:
			s.end(key)
		default:
			if node[key] != "" {
				s.claim(node[key], key)
			}
		}
		for i := range 8 {
			claimed, holder := "node-"+strconv.Itoa(i%2), types.NamespacedName{Name: strconv.Itoa(i / 2)}
			if s.claims.Holds(claimed, holderOf(holder)) && node[holder] != claimed {
				t.Fatalf("%v holds %s, and is for %q", holder, claimed, node[holder])
			}
		}
	}
}

func TestWake(t *testing.T) {
	s := newSessions(fencednode.NewClaims())
	a := s.of(keyA, "1", "node-a")
	b := s.of(keyB, "2", "node-b")
	if woken := s.wake("node-a"); !slices.Equal(woken, []types.NamespacedName{keyA}) {
		t.Errorf("it wakes %v", woken)
	}
	if s.wakesOf(a) != 1 || s.wakesOf(b) != 0 {
		t.Errorf("the sessions were woken %d and %d times", s.wakesOf(a), s.wakesOf(b))
	}
}

// TestInterruptible: only what runs while the workload is released ends when the node changes, also where the change came before.
func TestInterruptible(t *testing.T) {
	s := newSessions(fencednode.NewClaims())
	known := s.of(keyA, "1", "node-a")
	held, done := s.interruptible(t.Context(), known, 0, false)
	s.wake("node-a")
	if held.Err() != nil {
		t.Error("what runs while nothing is released was interrupted")
	}
	done()
	missed, done := s.interruptible(t.Context(), known, 0, true)
	if missed.Err() == nil {
		t.Error("a change since the node was read was missed")
	}
	done()
	running, done := s.interruptible(t.Context(), known, 1, true)
	if running.Err() != nil {
		t.Error("it was interrupted by a change that is known")
	}
	s.wake("node-b")
	if running.Err() != nil {
		t.Error("it was interrupted by a change of another node")
	}
	s.wake("node-a")
	if running.Err() != context.Canceled {
		t.Errorf("it was not interrupted: %v", running.Err())
	}
	done()
	ended, done := s.interruptible(t.Context(), known, 2, true)
	done()
	if ended.Err() == nil || known.interrupt != nil {
		t.Error("what has ended can still be interrupted")
	}
}

// TestKeep stores a copy of another revision only.
func TestKeep(t *testing.T) {
	s := newSessions(fencednode.NewClaims())
	known := s.of(keyA, "r-uid", "node-a")
	r := remediation(func(r *v1alpha1.PowerRemediation) { r.ResourceVersion = "1" })
	s.keep(known, r)
	first := s.written(keyA)
	if first == r || first.ResourceVersion != "1" {
		t.Errorf("it has kept %v", first)
	}
	s.keep(known, r)
	if s.written(keyA) != first {
		t.Error("the same revision was copied again")
	}
	r.ResourceVersion = "2"
	s.keep(known, r)
	if got := s.written(keyA); got.ResourceVersion != "2" || first.ResourceVersion != "1" {
		t.Errorf("it has kept %v", got)
	}
}
