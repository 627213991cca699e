package nodepromise

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestPausesAfterFailures of the Lease double up to half a minute. After a failure nothing is known of it. A read that succeeds does not make
// up for writes that fail.
func TestPausesAfterFailures(t *testing.T) {
	w := newWorld(t)
	p := &Promise{Node: "node-a"}
	down := errors.New("no answer")
	fails := func(writes bool, want ...time.Duration) {
		t.Helper()
		for _, pause := range want {
			p.lease = &coordinationv1.Lease{}
			w.noteFailure(p, down, writes)
			if got := p.Facts.RetryAt.Sub(noon); got != pause || p.lease != nil || !errors.Is(p.Failure, down) {
				t.Errorf("after %d failures the pause is %v, want %v, and the Lease is known as %v", p.failures, got, pause, p.lease)
			}
		}
	}
	fails(false, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second, 30*time.Second)
	w.noteFailure(p, nil, false)
	fails(true, 2*time.Second, 4*time.Second)
	w.noteFailure(p, nil, false)
	fails(true, 8*time.Second)
	w.noteFailure(p, nil, true)
	fails(false, 2*time.Second)
}
