package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/internal/watchdog"
)

// explainer is what a world knows of reasons that were stated.
type explainer struct {
	*world

	calls int
	why   promiselease.NoPromise
}

// explains has the agents of a world state their reasons.
func (w *world) explains() *explainer {
	e := &explainer{world: w}
	w.explainer = e
	return e
}

// Explain implements agent.Explainer.
func (e *explainer) Explain(ctx context.Context, b string, why promiselease.NoPromise) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	if e.armed || e.remembers().Agent.Bound {
		e.t.Errorf("the agent states %s while a promise may stand", why)
	}
	read := e.lease
	return e.process.send(ctx, func() {
		if read.State == selffence.Condemned {
			return
		}
		e.why = why
		e.arrives(selffence.Lease{Revision: read.Revision, State: selffence.Withdrawn, Promise: selffence.Promise{Boot: b}}, "")
	})
}

// states requires the reason that was stated last, and how often one was stated.
func (e *explainer) states(why promiselease.NoPromise, calls int) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why != why || e.calls != calls {
		e.t.Errorf("the agent has stated %q in %d calls, want %q in %d", e.why, e.calls, why, calls)
	}
}

func unavailable(r watchdog.Reason) error {
	return &agent.UnavailableError{Reason: agent.Reason(r), Err: errAway}
}

// TestExplains: an agent without a watchdog that will do states why, again after a while, and promises once it has one.
func TestExplains(t *testing.T) {
	t.Parallel()
	for _, unfit := range []bool{false, true} {
		play(t, func(w *world) {
			e := w.explains()
			w.opens, w.unfit = unavailable(watchdog.WatchdogBusy), unfit
			w.start()
			e.states(promiselease.WatchdogBusy, 1)
			w.says(selffence.Withdrawn)
			w.pass(9 * time.Minute)
			e.states(promiselease.WatchdogBusy, 1)
			w.pass(2 * time.Minute)
			e.states(promiselease.WatchdogBusy, 2)
			w.set(func() { w.opens = unavailable(watchdog.VirtualMachine) })
			w.pass(time.Minute)
			e.states(promiselease.VirtualMachine, 3)
			w.set(func() { w.opens = nil })
			w.pass(time.Minute)
			w.says(selffence.Promised)
			w.told(agent.Promising)
			w.pass(time.Hour)
			e.states(promiselease.VirtualMachine, 3)
		})
	}
}

// TestExplainsWithdrawal: an agent that has lost its watchdog withdraws first, and then states why.
func TestExplainsWithdrawal(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		e := w.explains()
		w.start()
		w.kill()
		w.opens, w.unfit = unavailable(watchdog.AlarmOnly), true
		w.start()
		w.says(selffence.Withdrawn)
		e.states(promiselease.AlarmOnly, 1)
	})
}

// TestExplainsUnread: an agent that can't read the policies states that, and nothing once it has read them.
func TestExplainsUnread(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		e := w.explains()
		w.unread = errAway
		w.start()
		e.states(promiselease.PolicyUnreadable, 1)
		w.set(func() { w.unread = nil })
		w.pass(10 * time.Second)
		w.says(selffence.Promised)
		w.set(func() { w.unread = errAway })
		w.pass(time.Hour)
		e.states(promiselease.PolicyUnreadable, 1)
		w.says(selffence.Promised)
	})
}

// TestExplainsNothing: an agent that no policy selects, and an agent that ends, state no reason.
func TestExplainsNothing(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		e := w.explains()
		w.policy = nil
		w.start()
		w.pass(time.Hour)
		p := settings()
		w.set(func() { w.policy = &p })
		w.pass(time.Minute)
		w.says(selffence.Promised)
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		w.says(selffence.Withdrawn)
		e.states("", 0)
	})
}

// TestExplainsNothingAtTheEnd: an agent that is to end sends no reason any more, though one is due since the node was suspended.
func TestExplainsNothingAtTheEnd(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		e := w.explains()
		w.opens = unavailable(watchdog.WatchdogBusy)
		w.start()
		e.states(promiselease.WatchdogBusy, 1)
		w.set(func() { w.began = w.began.Add(-time.Hour) })
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		e.states(promiselease.WatchdogBusy, 1)
	})
}

// TestExplainsNothingWhileArmed: a watchdog that won't do, and that can't be disarmed, resets the node if the agent ends. So there is more to say than why
// there is no promise.
func TestExplainsNothingWhileArmed(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		e := w.explains()
		w.opens, w.unfit, w.stuck = unavailable(watchdog.WatchdogBusy), true, errForbidden
		w.start()
		w.pass(5 * time.Minute)
		e.states("", 0)
	})
}

// TestExplainsAgain: after a failure the reason is stated again in a minute. A request that is carried out late takes no promise back.
func TestExplainsAgain(t *testing.T) {
	t.Parallel()
	for _, answer := range []answer{fails, requestLate, requestLost} {
		play(t, func(w *world) {
			e := w.explains()
			w.opens = unavailable(watchdog.WatchdogBusy)
			w.start()
			e.states(promiselease.WatchdogBusy, 1)
			w.set(func() { w.opens, w.answer = unavailable(watchdog.VirtualMachine), answer })
			w.pass(45 * time.Second)
			e.states(promiselease.WatchdogBusy, 2)
			w.pass(time.Minute)
			e.states(promiselease.WatchdogBusy, 3)
			if d := cmp.Diff([]agent.Reason{"WatchdogBusy", "VirtualMachine", agent.NoAnswer}, w.notes); d != "" {
				t.Error(d)
			}
			w.set(func() { w.answer, w.opens = well, nil })
			w.pass(time.Minute)
			w.says(selffence.Promised)
			w.set(func() {
				if w.late != nil {
					w.late()
				}
			})
			w.says(selffence.Promised)
		})
	}
}

// TestStatable: the reasons of a watchdog that will not do are those of Leases. Others are never the reason for no promise.
func TestStatable(t *testing.T) {
	t.Parallel()
	never := []watchdog.Reason{watchdog.MayNotPet, watchdog.NoWayOut, watchdog.NoSysrq}
	for _, r := range []watchdog.Reason{
		watchdog.NoWatchdog, watchdog.WatchdogBusy, watchdog.WatchdogForbidden, watchdog.SoftwareWatchdog, watchdog.AlarmOnly, watchdog.WatchdogStopsOnClose,
		watchdog.WatchdogTimeout, watchdog.WatchdogFailed, watchdog.MayNotPet, watchdog.NoWayOut, watchdog.VirtualMachine, watchdog.MachineUnknown, watchdog.NoSysrq,
	} {
		want := promiselease.NoPromise(r)
		if slices.Contains(never, r) {
			want = promiselease.WatchdogFailed
		}
		if got := agent.Statable(agent.Reason(r)); got != want {
			t.Errorf("%s is stated as %s", r, got)
		}
	}
}

// TestLeaseExplains: a reason replaces what is withdrawn, and promises of earlier boots.
func TestLeaseExplains(t *testing.T) {
	t.Parallel()
	const earlier = "11111111-d9cb-469f-a165-70867728950e"
	lease := func(state selffence.State, boot string, why promiselease.NoPromise) reply {
		return stores(t, 7, func(r *promiselease.Record, l *coordinationv1.Lease) {
			r.State, r.Why, r.Promise = state, why, selffence.Promise{Boot: boot}
			if state == selffence.Condemned {
				r.By = "u"
			}
			if state == selffence.Promised {
				r.Promise = promised()
				r.Promise.Boot = boot
			}
		})
	}
	get, put, post := "GET "+theLease+"/n", "PUT "+theLease+"/n", "POST "+theLease
	for name, c := range map[string]struct {
		read, written reply
		requests      []string
		fails         bool
	}{
		"no Lease":                     {status(404, metav1.StatusReasonNotFound), reply{201, "{}"}, []string{get, post}, false},
		"created by another":           {status(404, metav1.StatusReasonNotFound), status(409, metav1.StatusReasonAlreadyExists), []string{get, post}, true},
		"withdrawn":                    {lease(selffence.Withdrawn, boot, ""), reply{200, "{}"}, []string{get, put}, false},
		"withdrawn by an earlier boot": {lease(selffence.Withdrawn, earlier, promiselease.VirtualMachine), reply{200, "{}"}, []string{get, put}, false},
		"another reason":               {lease(selffence.Withdrawn, boot, promiselease.NoWatchdog), reply{200, "{}"}, []string{get, put}, false},
		"the same reason":              {lease(selffence.Withdrawn, boot, promiselease.VirtualMachine), reply{}, []string{get}, false},
		"promised":                     {lease(selffence.Promised, boot, ""), reply{}, []string{get}, false},
		"promised by an earlier boot":  {lease(selffence.Promised, earlier, ""), reply{200, "{}"}, []string{get, put}, false},
		"condemned":                    {lease(selffence.Condemned, boot, ""), reply{}, []string{get}, false},
		"an earlier boot is condemned": {lease(selffence.Condemned, earlier, ""), reply{}, []string{get}, false},
		"changed meanwhile":            {lease(selffence.Withdrawn, boot, ""), status(409, metav1.StatusReasonConflict), []string{get, put}, true},
		"the Lease can't be read":      {status(403, metav1.StatusReasonForbidden), reply{}, []string{get}, true},
		"the Lease can't be decoded":   {reply{200, "{}"}, reply{}, []string{get}, true},
		"the reason is refused":        {lease(selffence.Withdrawn, boot, ""), status(403, metav1.StatusReasonForbidden), []string{get, put}, true},
		"the API server stays silent":  {reply{}, reply{}, []string{get}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.read, c.written)
			if err := agent.NewLeases(s.Server, "n", at).Explain(t.Context(), boot, promiselease.VirtualMachine); (err != nil) != c.fails {
				t.Error(err)
			}
			if d := cmp.Diff(c.requests, s.lines()); d != "" {
				t.Error(d)
			}
			if len(c.requests) < 2 {
				return
			}
			var l coordinationv1.Lease
			if err := json.Unmarshal([]byte(s.requests[1].body), &l); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{
				annotation.PromiseState: "Withdrawn", annotation.PromiseBoot: boot, annotation.PromiseTimed: "false", annotation.NoPromiseReason: "VirtualMachine",
			}
			version, uid := "7", "u"
			if c.requests[1] == post {
				version, uid = "", ""
			}
			if d := cmp.Diff(want, l.Annotations); d != "" || l.ResourceVersion != version || string(l.UID) != uid || l.Name != "n" {
				t.Errorf("the agent writes %+v: %s", l, d)
			}
		})
	}
}

// TestNothingToExplain: no reason that a Lease can't state is sent.
func TestNothingToExplain(t *testing.T) {
	t.Parallel()
	s := serve(t, status(404, metav1.StatusReasonNotFound))
	if err := agent.NewLeases(s.Server, "n", at).Explain(t.Context(), boot, "because"); err == nil || len(s.lines()) != 1 {
		t.Errorf("it is stated: %v, %q", err, s.lines())
	}
}
