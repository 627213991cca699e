package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestNotSelected: an agent that no policy selects any more withdraws and disarms, and promises again once one does.
func TestNotSelected(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.policy = nil
		w.start()
		w.told(agent.NotSelected)
		w.pass(5 * time.Minute)
		if w.armed || w.requests > 0 {
			t.Errorf("armed is %t, with %d requests", w.armed, w.requests)
		}
		p := settings()
		for range 2 {
			w.set(func() { w.policy = &p })
			w.pass(time.Minute)
			w.says(selffence.Promised)
			w.told(agent.Promising)
			w.set(func() { w.policy = nil })
			w.pass(time.Minute + time.Second)
			w.says(selffence.Withdrawn)
			w.told(agent.NotSelected)
			if w.armed {
				t.Error("the watchdog is armed")
			}
		}
		if err := w.stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
}

// TestPoliciesUnread: while the policies can't be read, nothing changes.
func TestPoliciesUnread(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.unread = errAway
		w.start()
		w.pass(time.Minute)
		if w.armed || w.requests > 0 || !slices.Equal(w.notes, []agent.Reason{agent.NoPolicies}) {
			t.Errorf("armed is %t, with %d requests; told %q", w.armed, w.requests, w.notes)
		}
		w.set(func() { w.unread = nil })
		w.pass(10 * time.Second)
		w.says(selffence.Promised)
		w.set(func() { w.unread = errAway })
		w.pass(10 * time.Minute)
		w.says(selffence.Promised)
		w.runs()
		if w.notes[len(w.notes)-1] != agent.NoPolicies {
			t.Errorf("people were told %q", w.notes)
		}
	})
}

// TestStopsIdle: an agent that has promised nothing ends at once.
func TestStopsIdle(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.unread = errAway
		w.start()
		began := w.now()
		if err := w.stop(); err != nil || w.now() != began {
			t.Errorf("stopping: %v after %s", err, w.now()-began)
		}
	})
}

// TestNoWatchdog: without a watchdog that will do there is no promise. It is tried again later.
func TestNoWatchdog(t *testing.T) {
	t.Parallel()
	for want, err := range map[agent.Reason]error{
		agent.Reason("WatchdogBusy"): &agent.UnavailableError{Reason: "WatchdogBusy", Err: errAway},
		agent.NoWatchdog:             errAway,
	} {
		for _, unfit := range []bool{false, true} {
			play(t, func(w *world) {
				w.opens, w.unfit = err, unfit
				w.start()
				w.pass(20 * time.Second)
				w.says("")
				if armed := w.armed; armed || w.requests > 1 {
					t.Errorf("armed is %t, with %d requests; it only reads the Lease", armed, w.requests)
				}
				if !slices.Contains(w.notes, want) {
					t.Errorf("people were told %q, and not %s", w.notes, want)
				}
				w.set(func() { w.opens = nil })
				w.pass(5 * time.Second)
				w.says("")
				w.pass(10 * time.Second)
				w.says(selffence.Promised)
				w.told(agent.Promising)
			})
		}
	}
}

// TestWatchdogLost: an agent that starts again and can't have its watchdog any more withdraws what it has promised. It pets each watchdog that it can open until then.
func TestWatchdogLost(t *testing.T) {
	t.Parallel()
	for _, unfit := range []bool{false, true} {
		play(t, func(w *world) {
			w.start()
			w.kill()
			w.opens, w.unfit, w.answer = errForbidden, unfit, fails
			w.start()
			w.pass(timeout - renewal/2 - time.Second)
			if unfit {
				w.pass(2 * timeout)
			}
			w.runs()
			w.set(func() { w.answer = well })
			w.pass(renewal / 2)
			w.says(selffence.Withdrawn)
		})
	}
}

// TestOtherTimeout: a watchdog that has another timeout than was promised leads to another promise.
func TestOtherTimeout(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.kill()
		w.timeout = 2 * timeout
		w.start()
		if !slices.Contains(w.notes, agent.WatchdogTimeout) {
			t.Errorf("people were told %q", w.notes)
		}
		w.pass(time.Minute)
		w.says(selffence.Promised)
		if got := w.lease.Promise.Times.Watchdog; got != 2*timeout {
			t.Errorf("the promise is of a watchdog of %s", got)
		}
		w.runs()
	})
}

// TestStateLost: an agent that can't read what was stored doesn't pet before it has read its Lease.
func TestStateLost(t *testing.T) {
	t.Parallel()
	lost := []byte("{}")
	for name, c := range map[string]struct {
		away      bool
		condemned bool
		want      string
	}{
		"the API server is away": {true, false, "watchdog"},
		"the API server answers": {false, false, ""},
		"the node is condemned":  {false, true, "sysrq"},
		"it is, and is not told": {true, true, "watchdog"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.start()
				w.pass(7 * time.Second)
				w.kill()
				if c.condemned {
					w.condemn()
				}
				w.set(func() {
					w.stored = lost
					if c.away {
						w.answer = fails
					}
				})
				w.start()
				if !slices.Contains(w.notes, agent.StateLost) {
					t.Errorf("people were told %q", w.notes)
				}
				w.pass(time.Minute)
				if w.reset != c.want {
					t.Errorf("the node was reset by %q, want %q", w.reset, c.want)
				}
				if c.want == "" {
					w.says(selffence.Promised)
				}
			})
		})
	}
}

// TestStopsLost: an agent that doesn't know what it has promised withdraws that when it is to end.
func TestStopsLost(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.kill()
		w.stored, w.answer, w.unread = []byte("{}"), fails, errAway
		w.start()
		w.process.end()
		w.pass(time.Second)
		w.set(func() { w.answer = well })
		if err := w.stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		w.says(selffence.Withdrawn)
	})
}

// TestEarlierBoot: the agent replaces the promise of an earlier boot. If it is condemned, the agent waits until the Lease is free.
func TestEarlierBoot(t *testing.T) {
	t.Parallel()
	earlier := selffence.Promise{Boot: strings.Repeat("0", 8) + boot[8:], Timed: true, Times: selffence.Times{Validity: time.Second, Watchdog: time.Second}}
	for _, state := range []selffence.State{selffence.Promised, selffence.Withdrawn} {
		play(t, func(w *world) {
			w.lease = selffence.Lease{Revision: 7, State: state, Promise: earlier}
			w.start()
			w.says(selffence.Promised)
			if w.lease.Promise != promised() || slices.Contains(w.notes, agent.EarlierBoot) {
				t.Errorf("the Lease is %+v, and people were told %q", w.lease, w.notes)
			}
		})
	}
	play(t, func(w *world) {
		w.lease = selffence.Lease{Revision: 7, State: selffence.Condemned, Promise: earlier, By: "uid"}
		w.start()
		w.pass(10 * time.Minute)
		w.runs()
		w.says(selffence.Condemned)
		w.told(agent.EarlierBoot)
		if most := int(2 * 10 * time.Minute / renewal); w.writes > 0 || w.requests > most+1 {
			t.Errorf("the agent has written %d times with %d requests, want at most %d", w.writes, w.requests, most)
		}
		w.set(func() { w.lease.Revision, w.lease.State, w.lease.By = 8, selffence.Withdrawn, "" })
		w.pass(renewal)
		w.says(selffence.Promised)
		w.told(agent.Promising)
	})
}

// TestStoredTimedPromise: a timed promise that an earlier process has made binds the agent until it is replaced. This agent makes none.
func TestStoredTimedPromise(t *testing.T) {
	t.Parallel()
	old := promised()
	old.Timed, old.Times.Validity = true, 30*time.Second
	timed := func(s *agent.State) { s.Agent.Stated, s.Agent.Sent = old, old }
	for name, c := range map[string]struct {
		away bool
		age  time.Duration
		want string
		at   time.Duration
	}{
		"the API server is away":     {true, 0, "watchdog", 30*time.Second + timeout},
		"the API server answers":     {false, 0, "", 0},
		"the grant is over":          {false, 45 * time.Second, "", 0},
		"the grant is over for long": {true, 45 * time.Second, "watchdog", timeout},
		"the promise is overdue":     {false, time.Minute, "sysrq", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.stored, w.timed = stored(func(s *agent.State) { timed(s); s.Agent.Granted -= c.age }), true
				w.lease = selffence.Lease{Revision: 7, State: selffence.Promised, Promise: old}
				w.armed, w.fires = true, w.now()+timeout
				began := w.now()
				if c.away {
					w.answer = fails
				}
				w.start()
				w.pass(time.Minute)
				if w.reset != c.want {
					t.Errorf("the node was reset by %q, want %q", w.reset, c.want)
				}
				if d := w.at - began; c.want != "" && (d > c.at || d < c.at-timeout/4) {
					t.Errorf("the node was reset after %s, want %s", d, c.at)
				}
				if c.want == "" && w.lease.Promise != promised() {
					t.Errorf("the Lease is %+v", w.lease)
				}
			})
		})
	}
}

// TestWitnessesOfEarlier: an agent that can't ask the witnesses of an earlier process goes on to try the API server.
func TestWitnessesOfEarlier(t *testing.T) {
	t.Parallel()
	old := promised()
	old.Timed, old.Times.Validity, old.Witnesses = true, 30*time.Second, selffence.Members{"x", "y", "z"}
	play(t, func(w *world) {
		w.stored, w.timed = stored(func(s *agent.State) { s.Agent.Stated, s.Agent.Sent = old, old }), true
		w.lease, w.answer = selffence.Lease{Revision: 7, State: selffence.Promised, Promise: old}, fails
		w.start()
		w.pass(20 * time.Second)
		w.set(func() { w.answer = well })
		w.pass(renewal)
		w.runs()
		if w.lease.Promise != promised() {
			t.Errorf("the Lease is %+v", w.lease)
		}
	})
}

// TestUncertainPromise: while either of two promises may stand, the agent makes no third one.
func TestUncertainPromise(t *testing.T) {
	t.Parallel()
	one, two := promised(), promised()
	one.Timed, one.Times.Validity = true, 30*time.Second
	two.Timed, two.Times.Validity = true, 20*time.Second
	play(t, func(w *world) {
		w.stored, w.timed = stored(func(s *agent.State) { s.Agent.Stated, s.Agent.Sent = one, two }), true
		w.lease, w.answer = selffence.Lease{Revision: 7, State: selffence.Promised, Promise: one}, well
		w.start()
		w.pass(renewal)
		if w.last.Promise != two {
			t.Errorf("the agent writes %+v first", w.last)
		}
		w.pass(renewal)
		if w.last.Promise != promised() {
			t.Errorf("the agent writes %+v then", w.last)
		}
	})
}

// TestNotStored: nothing is sent that can't be stored. A promise that is stored is renewed.
func TestNotStored(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.broken = errForbidden
		w.start()
		w.pass(time.Minute)
		w.says("")
		w.told(agent.StateNotStored)
		w.runs()
		w.set(func() { w.broken = nil })
		w.pass(renewal)
		w.says(selffence.Promised)
		w.pass(renewal)
		w.set(func() { w.broken = errForbidden })
		before := w.writes
		w.pass(time.Minute)
		if w.writes < before+10 {
			t.Errorf("the agent has renewed %d times in a minute", w.writes-before)
		}
		if err := w.stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		w.says(selffence.Withdrawn)
	})
}

// TestSettingsChange: the time between two grants changes at once. A timed promise that is demanded is not made, and people are told.
func TestSettingsChange(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.set(func() {
			w.policy.Renewal, w.policy.Reset, w.policy.Witnesses, w.policy.Validity = 2*renewal, true, 3, time.Minute
		})
		w.pass(time.Minute)
		before := w.writes
		w.pass(time.Minute)
		if n := w.writes - before; n < 5 || n > 7 {
			t.Errorf("the agent has renewed %d times in a minute, want 6", n)
		}
		w.told(agent.NoWitnesses)
		if w.lease.Promise != promised() {
			t.Errorf("the Lease is %+v", w.lease)
		}
		w.runs()
		w.kill()
		w.set(func() { w.answer, w.unread = fails, errAway })
		before = w.requests
		w.start()
		w.pass(time.Minute)
		if n := w.requests - before; n < 11 || n > 13 {
			t.Errorf("the agent has sent %d requests in a minute after a restart, want 12", n)
		}
	})
}

// TestOtherWriters: the agent goes on where the Lease is written, or deleted, by others.
func TestOtherWriters(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.set(func() { w.lease.Revision += 5 })
		w.pass(renewal)
		w.pass(renewal)
		if w.lease.Revision != 7 {
			t.Errorf("the Lease has revision %d, want 7", w.lease.Revision)
		}
		w.set(func() { w.lease = selffence.Lease{} })
		w.pass(renewal)
		w.says(selffence.Promised)
		w.runs()
	})
}

// TestContested: another writer that writes the Lease all the time doesn't make the agent send requests all the time.
func TestContested(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.contested = true
		before := w.requests
		w.pass(time.Minute)
		if n := w.requests - before; n < 40 || n > 50 {
			t.Errorf("the agent has sent %d requests in a minute", n)
		}
	})
}

// TestPetsFail: people are told once, and again if it happens again.
func TestPetsFail(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		for _, err := range []error{errForbidden, nil, errForbidden, nil} {
			w.set(func() { w.petsFail = err })
			w.pass(timeout)
		}
		n := 0
		for _, r := range w.notes {
			if r == agent.NotPetted {
				n++
			}
		}
		if n != 2 {
			t.Errorf("people were told %q", w.notes)
		}
	})
}

// TestPartlyDisarmed: a watchdog that may have stopped, although disarming it has failed, is petted on and not promised again. Once it is disarmed, it
// is opened anew.
func TestPartlyDisarmed(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{true, false} {
		play(t, func(w *world) {
			w.stuck, w.stops = errForbidden, stopped
			w.start()
			w.set(func() { w.policy = nil })
			w.pass(5 * time.Minute)
			w.told(agent.NotDisarmed)
			p := settings()
			w.set(func() { w.policy = &p })
			w.pass(5 * time.Minute)
			w.says(selffence.Withdrawn)
			w.runs()
			w.set(func() { w.stuck = nil })
			w.pass(5 * time.Minute)
			w.says(selffence.Promised)
			w.set(func() {
				if !w.armed {
					t.Error("the watchdog is not armed")
				}
			})
			w.runs()
		})
	}
}

// TestNotDisarmed: a watchdog that can't be disarmed is petted on, and promised again when a policy demands it.
func TestNotDisarmed(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.stuck = &agent.UnavailableError{Reason: agent.NoWayOut, Err: errForbidden}
		w.start()
		w.set(func() { w.policy = nil })
		w.pass(5 * time.Minute)
		w.says(selffence.Withdrawn)
		w.told(agent.NotDisarmed)
		w.runs()
		p := settings()
		w.set(func() { w.policy = &p })
		w.pass(time.Minute)
		w.says(selffence.Promised)
		w.runs()
		if err := w.stop(); !errors.Is(err, agent.ErrArmed) {
			t.Errorf("the agent ends with %v", err)
		}
		w.says(selffence.Withdrawn)
		w.runs()
	})
}

// TestResetsAgain: a reset that fails is tried again every second.
func TestResetsAgain(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.sysrq = errForbidden
		w.start()
		w.condemn()
		w.pass(renewal)
		w.pass(4 * time.Second)
		if w.resets != 5 {
			t.Errorf("the agent has tried %d times in 4 seconds", w.resets)
		}
	})
}

// TestUnavailable: the error of a watchdog says why.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	if got := errForbidden.Error(); got != "NotReset: "+errAway.Error() || !errors.Is(errForbidden, errAway) {
		t.Errorf("the error says %q", got)
	}
}

// TestTooLate: an agent that may not pet any more at the moment it opens the watchdog tries again, and withdraws nothing.
func TestTooLate(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.kill()
		w.tooLate = true
		w.start()
		w.pass(renewal / 2)
		w.says(selffence.Promised)
		w.set(func() { w.tooLate = false })
		w.pass(time.Minute)
		w.says(selffence.Promised)
		w.runs()
	})
}

// TestLeaseDeleted: an agent whose Lease was deleted disarms, since nothing can bring its promise back.
func TestLeaseDeleted(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.set(func() { w.lease = selffence.Lease{} })
		before := w.writes
		if err := w.stop(); err != nil || w.armed {
			t.Errorf("stopping: %v, armed is %t", err, w.armed)
		}
		w.says("")
		if w.writes != before {
			t.Error("the agent has written")
		}
		w.runs()
	})
}

// TestLeaseMayBeCreated: an agent whose request to create its Lease may still be carried out creates the Lease, so that it can withdraw.
func TestLeaseMayBeCreated(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		play(t, func(w *world) {
			w.start()
			w.set(func() { w.lease, w.answer = selffence.Lease{}, well })
			w.pass(renewal - time.Second)
			w.set(func() { w.answer = well })
			w.pass(time.Second) // the write conflicts, and the Lease is found to be missing
			w.set(func() { w.answer, w.lease = requestLate, selffence.Lease{} })
			w.pass(2 * renewal)
			w.set(func() { w.answer = requestLost })
			if restarts {
				w.kill()
				w.start()
			}
			w.process.end()
			w.pass(time.Second)
			if !w.remembers().Creates {
				t.Error("the agent does not remember that it creates the Lease")
			}
			w.set(func() { w.answer = well })
			if err := w.stop(); err != nil || w.armed {
				t.Errorf("stopping: %v, armed is %t", err, w.armed)
			}
			w.says(selffence.Withdrawn)
			if w.late == nil || !w.stale() {
				t.Error("the late request could still be carried out")
			}
			w.runs()
		})
	}
}

// TestWithdrawnAndLateWrite: a Lease that is still withdrawn doesn't show that a promise which got no answer won't be carried out. The agent disarms
// only after another withdrawal.
func TestWithdrawnAndLateWrite(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		play(t, func(w *world) {
			w.start()
			w.set(func() { w.policy = nil })
			w.pass(2 * time.Minute)
			w.says(selffence.Withdrawn)
			p := settings()
			w.set(func() { w.policy, w.answer = &p, requestLate })
			for range 120 {
				if w.late == nil {
					w.pass(time.Second)
				}
			}
			if w.late == nil || w.stale() {
				t.Fatal("no promise is under way")
			}
			w.set(func() { w.answer = well })
			if restarts {
				w.kill()
				w.set(func() { w.answer = fails })
				w.start()
				w.process.end()
				w.pass(time.Second)
				w.set(func() { w.answer = well })
			}
			if err := w.stop(); err != nil || w.armed {
				t.Errorf("stopping: %v, armed is %t", err, w.armed)
			}
			w.says(selffence.Withdrawn)
			if !w.stale() {
				t.Error("the late request could still be carried out")
			}
			w.runs()
		})
	}
}

// TestWithdrawnUnstored: a withdrawal that could not be stored is stored before the watchdog is disarmed, or as soon as that succeeds. Otherwise a later process
// would keep the promise.
func TestWithdrawnUnstored(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.pass(renewal)
		w.set(func() { w.policy, w.broken = nil, errForbidden })
		w.pass(2 * time.Minute)
		w.says(selffence.Withdrawn)
		if w.armed || !w.remembers().Agent.Bound || !slices.Contains(w.notes, agent.StateNotStored) {
			t.Errorf("armed is %t, and %+v is stored; told %q", w.armed, w.remembers(), w.notes)
		}
		w.set(func() { w.broken = nil })
		w.pass(time.Minute)
		if w.remembers().Agent.Bound {
			t.Errorf("%+v is stored", w.remembers())
		}
	})
}

// TestCreationNotStored: a Lease that was deleted is created again only once that is stored. A later process has to know that the request may still be
// carried out.
func TestCreationNotStored(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} { // whether an earlier process has stored it
		play(t, func(w *world) {
			w.stored, w.broken = stored(func(s *agent.State) { s.Creates = known }), errForbidden
			w.start()
			w.pass(4 * renewal)
			if created := w.lease.State == selffence.Promised; created != known {
				t.Errorf("stored before: %t, and the Lease is %+v; told %q", known, w.lease, w.notes)
			}
			w.set(func() { w.broken = nil })
			w.pass(4 * renewal)
			w.says(selffence.Promised)
			w.runs()
		})
	}
}

// TestWatchdogOutOfBounds: the watchdog has rounded its timeout to a time that no timed promise may have, and people are told.
func TestWatchdogOutOfBounds(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.policy.Reset, w.policy.Witnesses, w.timeout = true, 3, 2*time.Hour
		w.start()
		w.says(selffence.Promised)
		w.told(agent.TimesOutOfBounds)
	})
}

// TestDisarmsAgain: disarming that fails is tried again every five seconds.
func TestDisarmsAgain(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.stuck = errForbidden
		w.start()
		w.set(func() { w.policy = nil })
		w.pass(2 * time.Minute)
		before := w.disarms
		w.pass(time.Minute)
		if n := w.disarms - before; n < 12 || n > 13 {
			t.Errorf("it was tried %d times in a minute", n)
		}
	})
}

// TestNothingIsStoredTwice: a condemned node that can't be reset stores that once.
func TestNothingIsStoredTwice(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.sysrq = errForbidden
		w.start()
		w.condemn()
		w.pass(renewal)
		before := w.saves
		w.pass(4 * time.Second)
		if w.saves != before {
			t.Errorf("it is stored %d times more", w.saves-before)
		}
	})
}

// ending is policies that can't be read before the agent has ended, and take another second then.
type ending struct {
	*process

	ended *bool
}

func (e ending) Find(ctx context.Context) (agent.Settings, bool, error) {
	<-ctx.Done()
	<-time.After(time.Second)
	e.set(func() { *e.ended = true })
	return agent.Settings{}, false, ctx.Err()
}

// TestTheEndComesLast: once an agent has ended, nothing of it runs any more.
func TestTheEndComesLast(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		var ended bool
		p := &process{world: w, end: cancel, ended: make(chan error, 1)}
		w.process = p
		err := agent.Run(ctx, agent.Config{Boot: boot, Hardware: p, Grantor: p, Policies: ending{p, &ended}, Store: p, Boottime: w.now, Tell: p.tell, StopWithin: time.Second})
		if err != nil || !ended || slices.Contains(w.notes, agent.NoPolicies) {
			t.Errorf("it ends with %v before the rest: %t; told %q", err, !ended, w.notes)
		}
	})
}
