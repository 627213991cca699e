package pass_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// record is what one pass has done.
type record struct {
	// lines has all of the following in their order.
	lines []string
	// calls are the names of the calls, and events the events in short.
	calls, events, failures []string
	next                    string
}

// ending is a way in which a call may end. The zero ending grants it.
type ending struct {
	name string
	// granted is set when the call takes effect, though its answer is an error.
	granted                   bool
	skipped, cutOff, panicked bool
	// no is set when the call has an answer that permits nothing.
	no bool
}

func endings() []ending {
	return []ending{
		{name: "fails"}, {name: "is lost", granted: true}, {name: "is skipped", skipped: true}, {name: "is cut off", granted: true, cutOff: true},
		{name: "panics", granted: true, panicked: true}, {name: "answers no", no: true},
	}
}

// ends returns the result of a call that ends in a way.
func (w *world) ends(c pass.Call, how ending) pass.Result {
	r := pass.Result{Err: errDown, Skipped: how.skipped, CutOff: how.cutOff, Panicked: how.panicked}
	switch {
	case how == ending{}:
		r = w.does(c)
	case how.no:
		r = w.refuses(c)
	case how.granted:
		w.does(c)
		r.Err = errLost
	}
	r.Clock, r.Began = w.clock(), w.now
	return r
}

// refuses returns an answer to a call that permits nothing.
func (w *world) refuses(c pass.Call) pass.Result {
	switch c.Kind { //nolint:exhaustive // the others have no such answer
	case pass.ReadNode:
		return pass.Result{Node: node(c.Target.ID.Name, "True", w.now)}
	case pass.ReadQuorum:
		return pass.Result{Survives: core.No}
	case pass.WriteStatuses:
		unwritten := map[core.ID]error{}
		for i := range c.Reports {
			unwritten[c.Reports[i].Policy.ID] = errDown
		}
		return pass.Result{Unwritten: unwritten}
	case pass.StartRemedy, pass.WithdrawRequest:
		return pass.Result{RemedyResult: core.Stale}
	case pass.WriteConditions:
		return pass.Result{OK: true}
	}
	return pass.Result{}
}

// runs makes the calls of one pass in the order in which they are returned. The call at a place ends in a way; none does at -1.
func (w *world) runs(place int, how ending) *record {
	p, rec := w.begins(), &record{}
	rec.sees(p)
	for calls := p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
		c := calls[0]
		var r pass.Result
		if len(rec.calls) == place {
			r = w.ends(c, how)
		} else {
			r = w.answers(c)
		}
		if p.Over() {
			rec.lines = append(rec.lines, "the pass is over before this call is answered")
		}
		rec.calls = append(rec.calls, callName(c))
		line := fmt.Sprintf("%s: %s", c.Stage, callName(c))
		if with := arguments(&c); with != "" {
			line += " (" + with + ")"
		}
		rec.lines = append(rec.lines, line+": "+answerText(&r, c.Kind))
		p.Done(c, r)
		rec.sees(p)
	}
	rec.ends(p, w.now)
	return rec
}

// sees takes in the events of a pass.
func (rec *record) sees(p *pass.Pass) {
	for _, e := range p.Events() {
		rec.events = append(rec.events, shortText(&e))
		rec.lines = append(rec.lines, "    "+eventText(&e))
	}
}

// ends takes in how a pass has ended.
func (rec *record) ends(p *pass.Pass, now time.Time) {
	for _, errs := range p.Failures() {
		if len(errs) == 0 {
			rec.lines = append(rec.lines, "failed, and no error says why")
		}
		for _, err := range errs {
			rec.failures = append(rec.failures, err.Error())
			rec.lines = append(rec.lines, "failed: "+err.Error())
		}
	}
	for _, r := range p.Decision().Refusals {
		rec.lines = append(rec.lines, fmt.Sprintf("%s held by %s", p.Cluster().Targets[r.Target].ID.Name, r.Gate))
	}
	rec.next = "never"
	if at := p.Next(); !at.IsZero() {
		rec.next = "in " + at.Sub(now).String()
	}
	rec.lines = append(rec.lines, "next pass: "+rec.next)
	if !p.Over() {
		rec.lines = append(rec.lines, "the pass is not over")
	}
}

// clone returns a world that shares nothing that changes.
func (w *world) clone() *world {
	twin := *w
	twin.state = w.state.Clone()
	twin.policies, twin.targets = slices.Clone(w.policies), slices.Clone(w.targets)
	twin.stored, twin.cached, twin.requests = slices.Clone(w.stored), slices.Clone(w.cached), slices.Clone(w.requests)
	twin.live, twin.quorum, twin.changed = maps.Clone(w.live), maps.Clone(w.quorum), maps.Clone(w.changed)
	twin.replacing = maps.Clone(w.replacing)
	twin.leases, twin.deleted = maps.Clone(w.leases), maps.Clone(w.deleted)
	return &twin
}

// outcomes makes the next pass once for each of its calls and each way in which the call may end, on a copy of the
// world. It returns a line for each of them. The line has the differences from the pass in which all calls are
// granted. It also has those of the pass a second later, before the caches catch up. It leaves out the calls about
// other targets than the named ones, where any is named.
func (w *world) outcomes(names []string) []string {
	usual := w.clone()
	first := usual.runs(-1, ending{})
	second := usual.follows()
	var lines []string
	for place, name := range first.calls {
		if _, about, some := strings.Cut(name, " "); some && len(names) > 0 && !slices.Contains(names, about) {
			continue
		}
		reported := map[string]int{}
		for _, how := range endings() {
			twin := w.clone()
			rec := twin.runs(place, how)
			effect := rec.differs(first) + "; then " + twin.follows().differs(second)
			if at, same := reported[effect]; same {
				lines[at] = strings.Replace(lines[at], ": ", ", "+how.name+": ", 1)
				continue
			}
			reported[effect] = len(lines)
			lines = append(lines, name+" "+how.name+": "+effect)
		}
	}
	return lines
}

// follows makes the next pass a second later.
func (w *world) follows() *record {
	w.now = w.now.Add(time.Second)
	return w.runs(-1, ending{})
}

// differs returns in words how a record differs from another.
func (rec *record) differs(other *record) string {
	var all []string
	add := func(what string, these []string) {
		if len(these) > 0 {
			all = append(all, what+" "+strings.Join(these, ", "))
		}
	}
	add("without", without(other.calls, rec.calls))
	add("with", without(rec.calls, other.calls))
	add("no event", without(other.events, rec.events))
	add("event", without(rec.events, other.events))
	add("failed:", without(rec.failures, other.failures))
	if rec.next != other.next {
		all = append(all, "next pass "+rec.next)
	}
	if len(all) == 0 {
		return "the same"
	}
	return strings.Join(all, "; ")
}

// without returns the elements of a list that another lacks. Equal elements count each.
func without(all, these []string) []string {
	left := slices.Clone(these)
	var found []string
	for _, s := range all {
		if i := slices.Index(left, s); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			found = append(found, s)
		}
	}
	return found
}
