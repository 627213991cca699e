package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fettle-io/fettle/internal/core"
)

// authority returns the certificate of the server, as kubeconfigs have it.
func (s *server) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// attempts returns how many attempts to connect have listed the nodes, and how many have failed.
func (c *Connection) attempts() (connected, failed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected, c.failed
}

// wantAttempts checks the counts of attempts, and that the log has a line for each cluster that was connected or lost.
func (s *server) wantAttempts(c *Connection, connected, failed uint64, losses int) {
	s.Helper()
	logged := strings.Join(s.logged(), "\n")
	gotConnected, gotFailed := c.attempts()
	if gotConnected != connected || gotFailed != failed {
		s.Errorf("%d attempts connected and %d failed, want %d and %d", gotConnected, gotFailed, connected, failed)
	}
	begun, lost := strings.Count(logged, `"msg"="connected to a workload cluster"`), strings.Count(logged, `"msg"="no connection to a workload cluster`)
	if begun != int(connected) || lost != losses {
		s.Errorf("the log has %d connections and %d losses, want %d and %d:\n%s", begun, lost, connected, losses, logged)
	}
}

// feeds is a watch that brings these frames, each after its time since the watch began.
func feeds(at []time.Duration, frames ...[]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begins(w)
		began := clock()
		for i, frame := range frames {
			select {
			case <-time.After(at[i] - clock().Sub(began)):
				sends(w, frame)
			case <-r.Context().Done():
				lingers(r)
				return
			}
		}
		lingers(r)
	}
}

// TestSecretThatCannotBeRead is read again after growing pauses. It is logged once, and the message says what to do.
func TestSecretThatCannotBeRead(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for sentence, tc := range map[string]struct {
		err  error
		says string
	}{
		"it is missing":         {apierrors.NewNotFound(secrets, "east-kubeconfig"), "there is no Secret fleet/east-kubeconfig"},
		"it may not be read":    {apierrors.NewForbidden(secrets, "east-kubeconfig", errors.New("no")), "bind ClusterRole fettle-cluster-api-kubeconfigs"},
		"the API server is off": {errors.New("SECRET"), "Secret fleet/east-kubeconfig can't be read"},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serves(t)
				s.secretErr = tc.err
				c, end := s.connects()
				defer end()
				after(10 * time.Minute)
				if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, tc.says) || strings.Contains(why, "SECRET") {
					t.Errorf("it answers %s (%s), want %q", answers, why, tc.says)
				}
				s.wantGaps("secret", 0, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second)
				s.wantAttempts(c, 0, uint64(len(s.times("secret"))), 1)
			})
		})
	}
}

// TestAttemptsThatAreCutShortAreNotCounted: a cluster that is dropped has not failed.
func TestAttemptsThatAreCutShortAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.secretErr, s.onSecret = errors.New("the context has ended"), func(context.Context) { <-time.After(time.Minute) }
		c, end := s.connects()
		defer end()
		after(time.Second)
		c.Drop(c.cluster)
		after(time.Hour)
		s.wantAttempts(c, 0, 0, 0)
	})
}

// TestKubeconfigThatChangesIsFollowedAtOnce, without a pause and without a failure.
func TestKubeconfigThatChangesIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		c, end := s.connects()
		defer end()
		after(time.Second)
		s.mu.Lock()
		s.secret = append(s.secret, "# changed"...)
		s.mu.Unlock()
		after(4 * time.Minute)
		if gaps := s.gaps("secret"); len(gaps) != 2 || gaps[1] != 0 {
			t.Errorf("the Secret is read after %v, want twice at once", gaps)
		}
		s.wantKnown(c, "a")
		s.wantAttempts(c, 1, 0, 0) // the nodes counted all the time
	})
}

// TestNodesAfterTheKubeconfigChanged: they count no more, until the new session has listed them, if the kubeconfig names another
// API server or can't be used. They go on to count if only the credentials changed, which providers renew every few minutes.
func TestNodesAfterTheKubeconfigChanged(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*server) []byte
		want   core.Tri
		says   string
	}{
		"other credentials": {func(s *server) []byte { return bytes.Replace(s.secret, []byte("token: t"), []byte("token: u"), 1) }, core.Yes, ""},
		"another API server": {
			func(s *server) []byte { return bytes.Replace(s.secret, []byte(s.URL), []byte(s.URL+"/"), 1) }, core.Unknown, movedProblem,
		},
		"another authority": {func(s *server) []byte {
			return bytes.Replace(s.secret, []byte("insecure-skip-tls-verify: true"), []byte("certificate-authority-data: "+base64.StdEncoding.EncodeToString(s.authority())), 1)
		}, core.Unknown, movedProblem},
		"nonsense": {func(*server) []byte { return []byte("nonsense") }, core.Unknown, "can't be used"},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serves(t)
				s.list = func(w http.ResponseWriter, r *http.Request) {
					if len(s.times("secret")) > 2 { // the first session, its comparison, the second session
						<-time.After(3 * time.Second)
					}
					s.honestList(w, r)
				}
				c, end := s.connects()
				defer end()
				after(time.Second)
				s.mu.Lock()
				s.secret = tc.change(s)
				s.mu.Unlock()
				for len(s.times("secret")) < 3 {
					after(100 * time.Millisecond)
				}
				if answers, why := c.Answers(); answers != tc.want || !strings.Contains(why, tc.says) || (tc.says == "") != (why == "") {
					t.Errorf("before the new list it answers %s (%s), want %s (%s)", answers, why, tc.want, tc.says)
				}
				if n := len(s.times("panic")); n != 0 {
					t.Errorf("%d sessions panicked", n)
				}
				if sentence != "nonsense" {
					after(4 * time.Second)
					s.wantKnown(c, "a")
				}
			})
		})
	}
}

// TestPausesAfterSessionsThatLast: a session that lasts for as long as the longest pause resets the pauses. A session that ends
// at a bound must last longer.
func TestPausesAfterSessionsThatLast(t *testing.T) {
	bookmark, heavy := eventOf(t, watch.Bookmark, nodeNamed("a")), make([]byte, nodeBytes+1)
	timing := Timing{}.orDefault()
	for sentence, tc := range map[string]struct {
		feed   http.HandlerFunc
		lasts  time.Duration
		pauses []time.Duration
	}{
		"as long as the longest pause": {
			feeds([]time.Duration{timing.MaxPause}, []byte("\xff")), timing.MaxPause, []time.Duration{time.Second},
		},
		"less than that": {
			feeds([]time.Duration{timing.MaxPause - 1}, []byte("\xff")), timing.MaxPause - 1, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second},
		},
		"to a bound, as long as a watch may be silent": {
			feeds([]time.Duration{time.Minute, timing.WatchSilence}, bookmark, heavy), timing.WatchSilence, []time.Duration{time.Second},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serves(t)
				s.feed = tc.feed
				_, end := s.connects()
				defer end()
				after(20 * time.Minute)
				s.wantGaps("list", tc.lasts, tc.pauses...)
			})
		})
	}
}

// TestListsOfASessionThatLastsArePromptAgain, once it has lasted for as long as a watch may be silent.
func TestListsOfASessionThatLastsArePromptAgain(t *testing.T) {
	silence := Timing{}.orDefault().WatchSilence
	for lasts, slow := range map[time.Duration]bool{silence: false, silence - 1: true} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t)
			s.feed = feeds([]time.Duration{time.Minute, lasts}, eventOf(t, watch.Bookmark, nodeNamed("a")), []byte("\xff"))
			c, end := s.connects()
			defer end()
			after(time.Second)
			c.listsSlowly.Store(true)
			after(lasts)
			if c.listsSlowly.Load() != slow {
				t.Errorf("after %s its lists begin among the slow: %t, want %t", lasts, c.listsSlowly.Load(), slow)
			}
		})
	}
}

// TestCredentialsThatExpireAreReadAnewAtOnce after a session that has lasted. Credentials that never worked are read anew after pauses.
func TestCredentialsThatExpireAreReadAnewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		bookmark := eventOf(t, watch.Bookmark, nodeNamed("a"))
		s.feed = func(w http.ResponseWriter, r *http.Request) {
			if len(s.times("watch")) == 1 {
				briefly(time.Minute, bookmark)(w, r)
				return
			}
			http.Error(w, "no", http.StatusUnauthorized)
		}
		c, end := s.connects()
		defer end()
		after(time.Minute + time.Second)
		if gaps := s.gaps("secret"); !slices.Equal(gaps, []time.Duration{time.Minute}) {
			t.Errorf("the Secret is read after %v", gaps)
		}
		after(2 * time.Second)
		if gaps := s.gaps("secret"); len(gaps) != 2 || gaps[1] < 3*time.Second/2 || gaps[1] > 5*time.Second/2 {
			t.Errorf("the Secret is read after %v", gaps)
		}
		if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "does not accept the credentials") {
			t.Errorf("it answers %s (%s)", answers, why)
		}
	})
}

// TestDroppedClusterIsUnknownAtOnce, and that is no failure.
func TestDroppedClusterIsUnknownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		c, end := s.connects()
		defer end()
		after(time.Second)
		c.Drop(c.cluster)
		synctest.Wait()
		if answers, why := c.Answers(); answers != core.Unknown || why != "" {
			t.Errorf("it answers %s (%s)", answers, why)
		}
		s.wantAttempts(c, 1, 0, 0)
	})
}
