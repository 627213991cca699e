package agent_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/selffence"
)

// passWithCrashes has time pass. A process that has died is started again a second later.
func (w *world) passWithCrashes(d time.Duration) {
	for end := w.now() + d; w.now() < end; {
		w.pass(time.Second)
		w.startAgain()
	}
}

func (w *world) startAgain() bool {
	w.mu.Lock()
	again := w.process.dead && w.reset == ""
	w.mu.Unlock()
	if again {
		w.process.end()
		w.start()
	}
	return again
}

// stopWithCrashes has the agent withdraw its promise.
func (w *world) stopWithCrashes() {
	for range 1000 {
		w.process.end()
		w.pass(time.Second)
		if w.startAgain() {
			continue
		}
		select {
		case err := <-w.process.ended:
			w.process.ended <- err
			if err != nil {
				w.t.Errorf("the agent ends with %v after a crash at %s", err, w.crashed)
			}
			return
		default:
		}
	}
	w.t.Errorf("the agent does not end after a crash at %s", w.crashed)
}

// everyCrash plays a story again and again. Each time a process of the agent dies at another call.
func everyCrash(t *testing.T, story func(*world)) {
	t.Helper()
	for crash, more := 1, true; more; crash++ {
		play(t, func(w *world) {
			w.crash = crash
			story(w)
			more = w.crashed != ""
		})
		if t.Failed() {
			return
		}
		if !more && crash < 20 {
			t.Errorf("the story has %d calls", crash)
		}
	}
}

// TestCrashes: wherever a process of the agent dies, the next one keeps the node up and keeps what was promised.
func TestCrashes(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(w *world) {
		w.start()
		w.passWithCrashes(12 * time.Second)
		w.runs()
		w.says(selffence.Promised)
		w.set(func() { w.timeout, w.policy.Watchdog.Timeout = 2*timeout, 2*timeout })
		w.passWithCrashes(2 * time.Minute)
		w.runs()
		w.says(selffence.Promised)
		if got := w.lease.Promise.Times.Watchdog; got != 2*timeout {
			t.Errorf("the promise is of a watchdog of %s after a crash at %s", got, w.crashed)
		}
		w.stopWithCrashes()
		w.runs()
		w.says(selffence.Withdrawn)
		if w.armed {
			t.Errorf("the watchdog is armed after a crash at %s", w.crashed)
		}
	})
}

// TestCrashesOfCondemned: wherever a process of a condemned agent dies, the node is reset.
func TestCrashesOfCondemned(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(w *world) {
		w.start()
		w.passWithCrashes(12 * time.Second)
		w.condemn()
		w.passWithCrashes(12 * time.Second)
		w.says(selffence.Condemned)
		if w.reset == "" {
			t.Errorf("the node runs after a crash at %s", w.crashed)
		}
	})
}

// TestCrashesWithoutAPI: a condemned agent that dies and can't be told again stays condemned once that is stored.
func TestCrashesWithoutAPI(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(w *world) {
		w.sysrq = errForbidden
		w.start()
		w.passWithCrashes(12 * time.Second)
		w.condemn()
		w.passWithCrashes(renewal + time.Second)
		w.set(func() { w.answer = answerLost })
		w.passWithCrashes(30 * time.Second)
		if w.reset == "" && w.remembers().Condemned {
			t.Errorf("the node runs after a crash at %s", w.crashed)
		}
	})
}

// TestCrashesWithLateWrites: a write of a process that has died may still arrive.
func TestCrashesWithLateWrites(t *testing.T) {
	t.Parallel()
	everyCrash(t, func(w *world) {
		w.start()
		w.passWithCrashes(8 * time.Second)
		w.set(func() { w.answer = requestLate })
		w.passWithCrashes(3 * time.Second)
		w.set(func() { w.answer = well })
		w.process.end()
		w.passWithCrashes(time.Second)
		w.set(func() {
			if w.late != nil {
				w.late()
				w.late = nil
			}
		})
		w.stopWithCrashes()
		w.says(selffence.Withdrawn)
	})
}

var errForbidden = &agent.UnavailableError{Reason: agent.NotReset, Err: errAway}
