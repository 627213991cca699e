package agent_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestPromises: the agent arms the watchdog, promises, renews and pets, and withdraws before it disarms.
func TestPromises(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.says(selffence.Promised)
		w.told(agent.Promising)
		if w.lease.Promise != promised() || w.device != identity || w.lease.Revision != 1 {
			t.Errorf("the Lease is %+v with %q", w.lease, w.device)
		}
		w.pass(10 * time.Minute)
		w.runs()
		if want := int(10 * time.Minute / renewal); w.writes < want-1 || w.writes > want+1 || w.requests > want+2 {
			t.Errorf("the agent has written %d times with %d requests in ten minutes, want about %d", w.writes, w.requests, want)
		}
		if want := int(10 * time.Minute / timeout * 4); w.pets < want-1 || w.pets > want+2 {
			t.Errorf("the agent has petted %d times in ten minutes, want about %d", w.pets, want)
		}
		if err := w.stop(); err != nil || w.armed {
			t.Errorf("stopping: %v, armed is %t", err, w.armed)
		}
		w.says(selffence.Withdrawn)
		w.told(agent.Disarmed)
	})
}

// TestCondemned: an agent that learns that it is condemned pets no more, and resets the node at once.
func TestCondemned(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.pass(time.Minute)
		w.condemn()
		began := w.now()
		w.pass(renewal + time.Second)
		if w.reset != "sysrq" || w.at-began > renewal {
			t.Errorf("the node was reset by %q after %s", w.reset, w.at-began)
		}
		w.told(agent.Condemned)
		if slices.Contains(w.notes, agent.EarlierBoot) {
			t.Errorf("people were told %q", w.notes)
		}
	})
}

// TestWatchdogResets: where nothing else resets a condemned node, the watchdog does, also after a restart of the agent.
func TestWatchdogResets(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.sysrq = errors.New("forbidden")
		w.start()
		w.pass(time.Minute)
		w.condemn()
		w.pass(renewal + time.Second)
		w.told(agent.NotReset)
		w.kill()
		w.answer = fails
		w.start()
		w.pass(2 * timeout)
		if w.reset != "watchdog" {
			t.Errorf("the node was reset by %q", w.reset)
		}
	})
}

// TestStopsCondemned: a condemned agent that is to end doesn't disarm.
func TestStopsCondemned(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.sysrq = errors.New("forbidden")
		w.start()
		w.condemn()
		if err := w.stop(); !errors.Is(err, agent.ErrArmed) {
			t.Errorf("the agent ends with %v", err)
		}
		w.pass(timeout)
		if w.reset != "watchdog" {
			t.Errorf("the node was reset by %q", w.reset)
		}
	})
}

// TestHoldsWithoutAPI: an untimed promise goes on while the API server is away, also after a restart.
func TestHoldsWithoutAPI(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]answer{"requests are lost": requestLost, "answers are lost": answerLost, "requests fail": fails} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.start()
				w.pass(time.Minute)
				w.set(func() { w.answer, w.unread = how, errAway })
				w.pass(10 * time.Minute)
				w.runs()
				w.told(agent.NoAnswer)
				w.kill()
				w.pass(timeout / 2)
				w.start()
				w.pass(10 * time.Minute)
				w.runs()
				w.set(func() { w.answer = well })
				w.pass(renewal)
				w.says(selffence.Promised)
				w.told(agent.Promising)
			})
		})
	}
}

// TestFewRequestsWithoutAPI: an agent without answers sends few requests.
func TestFewRequestsWithoutAPI(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.set(func() { w.answer = fails })
		before := w.requests
		w.pass(10 * time.Minute)
		if most := int(2 * 10 * time.Minute / renewal); w.requests-before > most+1 || w.requests-before < most/2 {
			t.Errorf("the agent has sent %d requests in ten minutes, want at most %d", w.requests-before, most)
		}
	})
}

// TestStopsWithoutAPI: an agent whose withdrawal isn't confirmed doesn't disarm.
func TestStopsWithoutAPI(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.set(func() { w.answer = requestLost })
		began := w.now()
		if err := w.stop(); !errors.Is(err, agent.ErrArmed) {
			t.Errorf("the agent ends with %v", err)
		}
		if took := w.now() - began; took < 20*time.Second || took > 23*time.Second {
			t.Errorf("the agent has tried for %s", took)
		}
		w.runs()
		w.set(w.process.die)
		w.pass(timeout)
		if w.reset != "watchdog" {
			t.Errorf("the node was reset by %q", w.reset)
		}
	})
}

// TestStopsOnceAnswered: a withdrawal whose answer was lost is confirmed by reading the Lease.
func TestStopsOnceAnswered(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.set(func() { w.answer = answerLost })
		w.process.end()
		w.pass(6 * time.Second)
		w.says(selffence.Withdrawn)
		if !w.armed {
			t.Error("the watchdog was disarmed before the answer")
		}
		w.set(func() { w.answer = well })
		if err := w.stop(); err != nil || w.armed {
			t.Errorf("stopping: %v, armed is %t", err, w.armed)
		}
		w.runs()
	})
}

// TestLateWithdrawal: a withdrawal that arrives late comes before the next write, or is refused.
func TestLateWrites(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.start()
		w.pass(renewal - time.Second)
		w.set(func() { w.answer = requestLate })
		w.pass(2 * time.Second) // a renewal is under way
		w.process.end()
		w.pass(3 * time.Second)
		w.set(func() {
			if w.late == nil {
				t.Error("no renewal is under way")
				return
			}
			w.answer = well
			w.late()
			w.late = nil
		})
		if err := w.stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		w.says(selffence.Withdrawn)
	})
}
