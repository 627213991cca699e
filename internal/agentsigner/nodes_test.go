package agentsigner

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

func noon() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

// TestWaiting: the requests of a node wait in order, each once, and not too many of them.
func TestWaiting(t *testing.T) {
	t.Parallel()
	n := newNodes()
	if name, rest := n.first("a", noon()); name != "" || rest != 0 {
		t.Errorf("%q waits, for %s", name, rest)
	}
	var want []string
	for i := range maxWaiting + 1 {
		name := fmt.Sprint("r", i)
		want = append(want, name)
		n.add("a", name)
		n.add("a", name)
		n.add("b", "other")
	}
	for _, name := range want[:maxWaiting] {
		if first, rest := n.first("a", noon()); first != name || rest != 0 {
			t.Errorf("%q is first, in %s, want %s", first, rest, name)
		}
		n.answered("a", name, false, noon())
	}
	if first, _ := n.first("a", noon()); first != "" {
		t.Errorf("%q waits too", first)
	}
	if len(n.of) != 1 {
		t.Errorf("after all requests of a node were answered, %d nodes are known", len(n.of))
	}
	if first, _ := n.first("b", noon()); first != "other" {
		t.Errorf("of the other node %q is first", first)
	}
}

// TestFailed: a request that could not be answered lets the others of its node go first.
func TestFailed(t *testing.T) {
	t.Parallel()
	n := newNodes()
	for _, name := range []string{"x", "y"} {
		n.add("a", name)
	}
	n.failed("a", "x")
	if got := n.of["a"].waiting; !slices.Equal(got, []string{"y", "x"}) {
		t.Errorf("these wait: %q", got)
	}
}

// TestRest: after a denial the other requests of the node wait, and those of other nodes don't.
func TestRest(t *testing.T) {
	t.Parallel()
	n := newNodes()
	for _, name := range []string{"x", "y"} {
		n.add("a", name)
		n.add("b", name)
	}
	n.answered("a", "x", true, noon())
	for after, want := range map[time.Duration]time.Duration{0: afterDenial, afterDenial - 1: 1, afterDenial: 0} {
		if first, rest := n.first("a", noon().Add(after)); rest != want || (first == "") != (want > 0) {
			t.Errorf("after %s %q is first, in %s", after, first, rest)
		}
	}
	if first, rest := n.first("b", noon()); first != "x" || rest != 0 {
		t.Errorf("of the other node %q is first, in %s", first, rest)
	}
}

// TestIssued: a node gets so many certificates within any hour.
func TestIssued(t *testing.T) {
	t.Parallel()
	n := newNodes()
	at := func(i int) time.Time { return noon().Add(time.Duration(i) * time.Minute) }
	for i := range maxIssued {
		if !n.mayIssue("a", at(i)) {
			t.Errorf("certificate %d is refused", i)
		}
		n.issues("a", at(i))
	}
	if n.mayIssue("a", noon().Add(issuedWithin-1)) || !n.mayIssue("b", at(maxIssued)) {
		t.Error("the node gets another one, or the other node none")
	}
	if !n.mayIssue("a", noon().Add(issuedWithin)) {
		t.Error("the first one counts for too long")
	}
	n.issues("a", noon().Add(issuedWithin))
	if n.mayIssue("a", noon().Add(issuedWithin)) || !n.mayIssue("a", at(1).Add(issuedWithin)) {
		t.Error("the second one does not count for an hour")
	}
}

// TestForget: of a node nothing is kept once nothing counts.
func TestForget(t *testing.T) {
	t.Parallel()
	n := newNodes()
	n.add("waits", "x")
	n.issues("issued", noon())
	n.answered("denied", "x", true, noon())
	n.answered("answered", "x", false, noon())
	for after, want := range map[time.Duration]int{0: 3, afterDenial: 2, issuedWithin - 1: 2, issuedWithin: 1} {
		copied := newNodes()
		maps.Copy(copied.of, n.of)
		copied.forget(noon().Add(after))
		if len(copied.of) != want {
			t.Errorf("after %s %d nodes are kept, want %d", after, len(copied.of), want)
		}
	}
}
