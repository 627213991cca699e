package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRequestsThatDoNotGo are told of once, ten minutes after they were withdrawn, with what keeps them.
func TestRequestsThatDoNotGo(t *testing.T) {
	p := check("p", []int{0}, classic)
	well := aNode("n")
	left := func(at time.Time, changes ...func(*core.Request)) core.Request {
		return requestFor(p, well, rebooting, append([]func(*core.Request){leaving, func(q *core.Request) {
			q.LeavingSince, q.KeptBy = at, "example/finalizer"
		}}, changes...)...)
	}
	foreign := func(q *core.Request) { q.Own = false }
	free := func(q *core.Request) { q.KeptBy = "" }
	for name, c := range map[string]struct {
		policies []core.Policy
		request  core.Request
		stuck    bool
		events   int
		next     time.Time
	}{
		"for ten minutes":       {[]core.Policy{p}, left(ago(10 * time.Minute)), true, 1, time.Time{}},
		"for less":              {[]core.Policy{p}, left(ago(9 * time.Minute)), false, 0, noon.Add(time.Minute)},
		"and Fettle made none":  {[]core.Policy{p}, left(ago(time.Hour), foreign), false, 0, time.Time{}},
		"but nothing keeps it":  {[]core.Policy{p}, left(ago(time.Hour), free), false, 0, time.Time{}},
		"and its check is gone": {nil, left(ago(time.Hour)), true, 0, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := with([]core.Target{well}, nil, c.request)
			f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
			d := core.Decide(c.policies, f, noon)
			if got := len(d.Stuck) > 0; got != c.stuck || !d.NextAt.Equal(c.next) {
				t.Errorf("stuck: %t, want %t; it looks again at %s, want %s", got, c.stuck, d.NextAt, c.next)
			}
			var j core.Deduplicator
			var events []core.Event
			for range 2 {
				for _, h := range j.NewEvents(c.policies, &f, d) {
					if h.Kind == core.EventStuck {
						events = append(events, h)
					}
				}
			}
			if len(events) != c.events {
				t.Fatalf("it tells %+v", events)
			}
			if c.events > 0 && (events[0].Target != well.ID || !strings.Contains(events[0].Text, "Request remedies/n") || !strings.Contains(events[0].Text, "example/finalizer")) {
				t.Errorf("it tells %+v", events[0])
			}
			if c.events > 0 && !strings.Contains(d.Verdicts[0].Text(), "example/finalizer") {
				t.Errorf("the verdict says %q", d.Verdicts[0].Text())
			}
		})
	}
}

// TestRequestsOfMachinesThatDoNotGo are reported too, though they don't name their health check.
func TestRequestsOfMachinesThatDoNotGo(t *testing.T) {
	quiet := func(p *core.Policy) { classic(p); p.IgnoresRequests = true }
	elder, asker := check("elder", nil, quiet), check("asker", []int{0}, quiet, since(ago(time.Hour)))
	other := check("other", []int{0}, since(ago(48*time.Hour)), func(p *core.Policy) { p.Steps = []core.Step{ask(reprovisioning, 0)} })
	m := machine("m")
	left := requestFor(asker, m, rebooting, leaving, anonymous, func(q *core.Request) {
		q.LeavingSince, q.KeptBy = ago(time.Hour), "example/finalizer"
	})
	over := repair(m, asker, ended(ago(time.Hour)))
	for name, c := range map[string]struct {
		policies []core.Policy
		targets  []core.Target
		repairs  []core.Repair
		want     string
	}{
		"by the last repair":                     {[]core.Policy{elder, asker}, []core.Target{m}, []core.Repair{over}, "asker"},
		"by the last repair of what is gone":     {[]core.Policy{elder, check("asker", nil, quiet)}, nil, []core.Repair{over}, "asker"},
		"by the oldest with the step":            {[]core.Policy{asker, elder, other}, []core.Target{m}, nil, "elder"},
		"by the oldest, once the other is gone":  {[]core.Policy{elder}, nil, []core.Repair{over}, "elder"},
		"by none, where no other has that step":  {[]core.Policy{other}, []core.Target{m}, []core.Repair{over}, ""},
		"by the last repair, and not an earlier": {[]core.Policy{asker, elder}, []core.Target{m}, []core.Repair{repair(m, elder, started(ago(2*time.Hour)), ended(ago(2*time.Hour))), over}, "asker"},
	} {
		f := with(c.targets, c.repairs, left)
		f.Observed, f.ClockAgrees, f.Upgrading = core.Yes, core.Yes, core.No
		d := core.Decide(c.policies, f, noon)
		got, node := "", ""
		var j core.Deduplicator
		for _, h := range j.NewEvents(c.policies, &f, d) {
			if h.Kind == core.EventStuck {
				got, node = got+h.Policy.Name, node+h.Node
			}
		}
		if len(d.Stuck) != 1 || got != c.want || node != "" {
			t.Errorf("%s: it tells of %+v by %q and names node %q, want %q", name, d.Stuck, got, node, c.want)
		}
	}
}
