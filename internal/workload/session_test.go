package workload

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/fettle-io/fettle/internal/core"
)

// TestSilentClustersAreProbed exactly when they have been silent for long enough, and clusters that send are not.
func TestSilentClustersAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		_, end := s.connects()
		defer end()
		after(time.Minute + time.Second)
		probes := s.gaps("ready")
		if len(probes) != 6 {
			t.Errorf("it is probed %d times within a minute, want 6", len(probes))
		}
		for _, gap := range probes {
			if gap != 10*time.Second {
				t.Errorf("it is probed after %v, want 10s each", probes)
				break
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		bookmark := eventOf(t, watch.Bookmark, nodeNamed("a"))
		s.feed = func(w http.ResponseWriter, r *http.Request) {
			begins(w)
			for r.Context().Err() == nil {
				<-time.After(4 * time.Second)
				sends(w, bookmark)
			}
			lingers(r)
		}
		_, end := s.connects()
		defer end()
		after(10 * time.Minute)
		if n := len(s.times("ready")); n != 1 {
			t.Errorf("it is probed %d times, want once, before the first list", n)
		}
	})
}

// TestProbesThatAreNotAnswered end a session after their timeout.
func TestProbesThatAreNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.ready = func(w http.ResponseWriter, r *http.Request) {
			if len(s.times("ready")) == 1 {
				honestReady(w, r)
				return
			}
			lingers(r)
		}
		c, end := s.connects()
		defer end()
		after(15*time.Second - time.Millisecond)
		if answers, why := c.Answers(); answers != core.Yes {
			t.Errorf("before the timeout it answers %s (%s)", answers, why)
		}
		after(2 * time.Millisecond)
		if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "it takes too long") {
			t.Errorf("after the timeout it answers %s (%s)", answers, why)
		}
	})
}

// TestSecretIsComparedNowAndThen, and a Secret that can't be read just now changes nothing.
func TestSecretIsComparedNowAndThen(t *testing.T) {
	for sentence, err := range map[string]error{"it is the same": nil, "it can't be read": errors.New("down")} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serves(t)
				c, end := s.connects()
				defer end()
				after(time.Second)
				s.mu.Lock()
				s.secretErr = err
				s.mu.Unlock()
				after(time.Hour)
				s.wantGaps("secret", 0, 3*time.Minute)
				s.wantKnown(c, "a")
				s.wantAttempts(c, 1, 0, 0)
			})
		})
	}
}

// TestReadingTheSecretEndsInTime, when the API server of the management cluster does not answer.
func TestReadingTheSecretEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.onSecret = func(ctx context.Context) { <-ctx.Done() }
		s.secretErr = context.DeadlineExceeded
		c, end := s.connects()
		defer end()
		after(5 * time.Minute)
		s.wantGaps("secret", 10*time.Second, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second)
		if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "can't be read: it takes too long") {
			t.Errorf("it answers %s (%s)", answers, why)
		}
	})
}

// TestSessionEndsWithAllThatItBegan: once a session has ended, no watch of it is left.
func TestSessionEndsWithAllThatItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		var watching atomic.Int32
		s.feed = func(w http.ResponseWriter, r *http.Request) {
			watching.Add(1)
			defer watching.Add(-1)
			begins(w)
			<-r.Context().Done()
		}
		c, end := s.connects()
		defer end()
		after(time.Second)
		if watching.Load() != 1 {
			t.Fatalf("%d watches run", watching.Load())
		}
		c.Drop(c.cluster)
		after(time.Second)
		if watching.Load() != 0 {
			t.Errorf("%d watches run after the connection was dropped", watching.Load())
		}
	})
}
