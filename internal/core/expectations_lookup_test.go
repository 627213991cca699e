package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestPausesBetweenLookups: the pauses between live reads of a node that the cache lacks double up to a
// minute. They start shorter after a read that failed.
func TestPausesBetweenLookups(t *testing.T) {
	read := machine("m").Node
	unread := core.Node{State: core.NodeUnseen, Name: read.Name}
	s := time.Second
	for name, c := range map[string]struct {
		found  core.Node
		pauses []time.Duration
	}{
		"each read succeeds": {read, []time.Duration{10 * s, 20 * s, 40 * s, 60 * s, 60 * s}},
		"each read fails":    {unread, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}},
	} {
		var e core.Expectations
		now := noon
		for i, pause := range c.pauses {
			lacking := laid(&e, now, []core.Target{machine("m", nodeIs(core.NodeUnseen))}).Targets[0]
			if lacking.Node.State != core.NodeUnseen || !lacking.NodeReadAgain.IsZero() || lacking.NodeUnreadable {
				t.Errorf("%s: read %d is not due: %+v", name, i, lacking)
			}
			again := e.KeepLookup(lacking.ID, c.found, now)
			if want := now.Add(pause); !again.Equal(want) {
				t.Errorf("%s: after read %d it is read again at %s, want %s", name, i, again, want)
			}
			meanwhile := laid(&e, again.Add(-1), []core.Target{machine("m", nodeIs(core.NodeUnseen))}).Targets[0]
			fails := c.found.State == core.NodeUnseen
			if !meanwhile.NodeReadAgain.Equal(again) || meanwhile.NodeUnreadable != fails || (meanwhile.Node.State == core.NodePresent) == fails {
				t.Errorf("%s: after read %d the target is %+v", name, i, meanwhile)
			}
			if !fails && (!meanwhile.NodeReadAt.Equal(now) || meanwhile.Node.UID != read.UID) {
				t.Errorf("%s: after read %d the node is %+v, read at %s", name, i, meanwhile.Node, meanwhile.NodeReadAt)
			}
			now = again
		}
	}
}

// TestLookupsAreOfOneNode: another node of the target, and a node that the cache has, are read at once.
func TestLookupsAreOfOneNode(t *testing.T) {
	unseen := func(node string) []core.Target {
		return []core.Target{machine("m", nodeIs(core.NodeUnseen), func(t *core.Target) { t.Node.Name = node })}
	}
	var e core.Expectations
	laid(&e, noon, unseen("a"))
	if again := e.KeepLookup(machine("m").ID, machine("m").Node, noon); again.IsZero() {
		t.Error("the lookup is not kept")
	}
	if got := laid(&e, noon, unseen("b")).Targets[0]; got.Node.State != core.NodeUnseen || !got.NodeReadAgain.IsZero() {
		t.Errorf("the lookup of another node counts: %+v", got)
	}
	laid(&e, noon, []core.Target{machine("m")})
	if again := e.KeepLookup(machine("m").ID, machine("m").Node, noon); !again.IsZero() {
		t.Errorf("a node that the cache has is read again at %s", again)
	}
}

// TestNodeThatWasFoundIsGoneAnew: a node that a live read found, and a later one did not, is gone since
// the later read.
func TestNodeThatWasFoundIsGoneAnew(t *testing.T) {
	m := machine("m")
	for name, want := range map[core.NodeState]time.Time{core.NodePresent: noon.Add(time.Minute), core.NodeUnseen: noon} {
		var e core.Expectations
		e.KeepNodeGone(m.ID, m.Node.Name, noon)
		e.KeepLookup(m.ID, core.Node{State: name}, noon.Add(time.Second))
		if got := e.KeepNodeGone(m.ID, m.Node.Name, noon.Add(time.Minute)); !got.Equal(want) {
			t.Errorf("after a read that finds it %s, it is gone since %s, want %s", name, got, want)
		}
	}
}
