package pass_test

import (
	"fmt"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// written makes a pass, and returns how many statuses it writes and how many it leaves for later, and when the next pass is due.
func (w *world) written() string {
	now, later := 0, 0
	p := w.begins()
	for calls := p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
		if calls[0].Kind == pass.WriteStatuses {
			for i := range calls[0].Reports {
				if calls[0].Reports[i].Deferred {
					later++
				} else {
					now++
				}
			}
		}
		p.Done(calls[0], w.answers(calls[0]))
	}
	rec := &record{}
	rec.ends(p, w.now)
	return fmt.Sprintf("%d now, %d later, %s", now, later, rec.next)
}

// unjudgedWorld has policies that are not judged, and one judged policy.
func unjudgedWorld(n, selected int) *world {
	w := newWorld()
	w.policies = []core.Policy{policy("judged", "delete")}
	for i := range n {
		p := policy(fmt.Sprint("p", i), "delete")
		p.Unjudged, p.Unparsable, p.Problem, p.Selected = true, true, "it is not judged", selected
		w.policies = append(w.policies, p)
	}
	return w
}

// TestUnjudgedStatuses: one pass writes two hundred statuses of policies that are not judged and say so for the first time. A status that
// says so already is not counted, unless it says another number of targets, or could not be written.
func TestUnjudgedStatuses(t *testing.T) {
	for _, selected := range []int{0, 3} {
		w := unjudgedWorld(401, selected)
		equal(t, "first pass", w.written(), "201 now, 201 later, in 1s")
		equal(t, "second pass", w.written(), "401 now, 1 later, in 1s")
		equal(t, "third pass", w.written(), "402 now, 0 later, never")
		equal(t, "fourth pass", w.written(), "402 now, 0 later, never")
		for i := range w.policies {
			w.policies[i].Selected++
		}
		equal(t, "pass after a change", w.written(), "201 now, 201 later, in 1s")
	}
	w := unjudgedWorld(200, 3)
	equal(t, "two hundred", w.written(), "201 now, 0 later, never")
	w = unjudgedWorld(401, 3)
	w.written()
	w.fates["WriteStatuses"] = ending{name: "fails"}
	equal(t, "failing pass", w.written(), "401 now, 1 later, in 1s")
	delete(w.fates, "WriteStatuses")
	equal(t, "pass after a failure", w.written(), "401 now, 1 later, in 1s")
	w = unjudgedWorld(401, 3)
	w.unwritten["p0"] = true
	w.written()
	equal(t, "pass after an unwritten status", w.written(), "400 now, 2 later, in 1s")
}
