package workload

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/fettle-io/fettle/internal/core"
)

// wantGaps checks the times between requests. Each must be a pause, spread by a quarter either way, after a watch that lasted
// so long. The last pause repeats.
func (s *server) wantGaps(what string, lasted time.Duration, pauses ...time.Duration) {
	s.Helper()
	gaps := s.gaps(what)
	if len(gaps) <= len(pauses) {
		s.Errorf("there are only %d requests for a %s", len(gaps)+1, what)
	}
	for i, gap := range gaps {
		pause := pauses[min(i, len(pauses)-1)]
		if gap < lasted+pause*3/4 || gap > lasted+pause*5/4 {
			s.Errorf("%s %d of %d comes %s after the one before, want %s to %s", what, i+1, len(gaps), gap, lasted+pause*3/4, lasted+pause*5/4)
			return
		}
	}
}

// TestWatchesThatEndEarlyAreBegunAfterGrowingPauses: the nodes still count, since no pause is longer than a cluster
// may be silent.
func TestWatchesThatEndEarlyAreBegunAfterGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.feed = briefly(time.Millisecond, eventOf(t, watch.Bookmark, nodeNamed("a")))
		c, end := s.connects()
		defer end()
		after(10 * time.Minute)
		s.wantGaps("watch", time.Millisecond, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 10*time.Second)
		if answers, why := c.Answers(); answers != core.Yes || len(s.times("list")) != 1 {
			t.Errorf("it answers %s (%s) after %d lists", answers, why, len(s.times("list")))
		}
	})
}

// TestWatchesThatLastAreBegunAtOnce, and the pauses begin anew after one.
func TestWatchesThatLastAreBegunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		bookmark := eventOf(t, watch.Bookmark, nodeNamed("a"))
		lasts := []time.Duration{time.Millisecond, time.Millisecond, 30 * time.Second, time.Minute, time.Millisecond, time.Millisecond, time.Hour}
		s.feed = func(w http.ResponseWriter, r *http.Request) { briefly(lasts[len(s.times("watch"))-1], bookmark)(w, r) }
		_, end := s.connects()
		defer end()
		after(2 * time.Minute)
		pauses := []time.Duration{time.Second, 2 * time.Second, 0, 0, time.Second, 2 * time.Second}
		for i, gap := range s.gaps("watch") {
			if pause := gap - lasts[i]; pause < pauses[i]*3/4 || pause > pauses[i]*5/4 {
				t.Errorf("after watch %d there is a pause of %s, want 3/4 to 5/4 of %s", i, pause, pauses[i])
			}
		}
		if n := len(s.times("watch")); n != len(lasts) {
			t.Errorf("there were %d watches, want %d", n, len(lasts))
		}
	})
}

// TestClustersThatAreOutOfDateAreListedAfterGrowingPauses: the nodes don't count in a pause, since no watch runs.
func TestClustersThatAreOutOfDateAreListedAfterGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.feed = briefly(15*time.Second, expired(t))
		c, end := s.connects()
		defer end()
		after(15*time.Second + time.Millisecond)
		if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "out of date") {
			t.Errorf("in a pause it answers %s (%s)", answers, why)
		}
		after(10 * time.Minute)
		s.wantGaps("list", 15*time.Second, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second)
	})
}

// TestClustersThatAreRestlessAreLeftForMinutes: each watch is out of date right after its list.
func TestClustersThatAreRestlessAreLeftForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.feed = briefly(time.Millisecond, expired(t))
		c, end := s.connects()
		defer end()
		after(time.Hour)
		pauses := []time.Duration{time.Second}
		for pauses[len(pauses)-1] < 256*time.Second {
			pauses = append(pauses, 2*pauses[len(pauses)-1])
		}
		s.wantGaps("list", time.Millisecond, append(pauses, 300*time.Second)...)
		if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "out of date right after a list") {
			t.Errorf("it answers %s (%s)", answers, why)
		}
	})
}

// TestOneOutdatedWatchIsReplacedAtOnce by a list, when the cluster has been watched for long.
func TestOneOutdatedWatchIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		c, end := s.connects() // the watch brings nothing for three minutes
		defer end()
		after(3*time.Minute + time.Millisecond)
		if answers, why := c.Answers(); answers != core.Yes || len(s.times("list")) != 2 {
			t.Errorf("it answers %s (%s) after %d lists", answers, why, len(s.times("list")))
		}
	})
}

// TestWatchesThatBringNothing: a watch that ends at once is an error. After a watch that lasted, the next one
// begins at the same revision.
func TestWatchesThatBringNothing(t *testing.T) {
	for lasts, want := range map[time.Duration]core.Tri{0: core.Unknown, atOnce - time.Second: core.Unknown, atOnce: core.Yes} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t)
			s.feed = func(w http.ResponseWriter, _ *http.Request) {
				begins(w)
				<-time.After(lasts)
			}
			c, end := s.connects()
			defer end()
			after(lasts + 100*time.Millisecond)
			answers, why := c.Answers()
			if answers != want || (want != core.Yes) != strings.Contains(why, "ends watches as soon as they have begun") {
				t.Errorf("after a watch of %s it answers %s (%s), want %s", lasts, answers, why, want)
			}
		})
	}
}

// TestWatchGoesOnWhereTheLastOneEnded, and begins again there after a watch that brought nothing.
func TestWatchGoesOnWhereTheLastOneEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		later := nodeNamed("a")
		later.ResourceVersion = "9"
		s.feed = func(w http.ResponseWriter, r *http.Request) {
			if len(s.times("watch")) == 1 {
				briefly(time.Minute, eventOf(t, watch.Modified, later))(w, r)
				return
			}
			begins(w)
			<-time.After(time.Minute)
		}
		_, end := s.connects()
		defer end()
		after(2*time.Minute + time.Second)
		var revisions []string
		for _, request := range s.requests("watch") {
			at, err := url.Parse(request)
			if err != nil {
				t.Fatal(err)
			}
			revisions = append(revisions, at.Query().Get("resourceVersion"))
		}
		if got := strings.Join(revisions, " "); got != "7 9 9" {
			t.Errorf("watches begin at %s", got)
		}
	})
}

// TestPausesBetweenListsBeginAnew after a watch that has lasted for as long as a watch may be silent.
func TestPausesBetweenListsBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		lasts := []time.Duration{15 * time.Second, 15 * time.Second, 3 * time.Minute, 15 * time.Second, 15 * time.Second, time.Hour}
		s.feed = func(w http.ResponseWriter, r *http.Request) {
			at := lasts[len(s.times("watch"))-1]
			feeds([]time.Duration{at - time.Second, at}, eventOf(t, watch.Bookmark, nodeNamed("a")), expired(t))(w, r)
		}
		_, end := s.connects()
		defer end()
		after(5 * time.Minute)
		pauses := []time.Duration{time.Second, 2 * time.Second, 0, time.Second, 2 * time.Second}
		gaps := s.gaps("list")
		if len(gaps) != len(pauses) {
			t.Fatalf("the times between lists are %v", gaps)
		}
		for i, gap := range gaps {
			if pause := gap - lasts[i]; pause < pauses[i]*3/4 || pause > pauses[i]*5/4 {
				t.Errorf("after watch %d there is a pause of %s, want 3/4 to 5/4 of %s", i, pause, pauses[i])
			}
		}
	})
}

// TestWatchesThatAreOutOfDateAtOnce end the session. A watch that lasts as long as the time before a probe does not.
func TestWatchesThatAreOutOfDateAtOnce(t *testing.T) {
	for lasts, says := range map[time.Duration]string{10 * time.Second: "are listed again after a pause", 10*time.Second - 1: "ends each watch as out of date right after a list"} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t)
			s.feed = briefly(lasts, expired(t))
			c, end := s.connects()
			defer end()
			after(lasts + time.Millisecond)
			if _, why := c.Answers(); !strings.Contains(why, says) {
				t.Errorf("after a watch of %s it answers %q", lasts, why)
			}
		})
	}
}

// TestEventsThatStall in their middle end the session after a time, and the cluster is unknown.
func TestEventsThatStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.feed = func(w http.ResponseWriter, r *http.Request) {
			begins(w)
			_, _ = w.Write([]byte{0, 0, 0, 9, 'a'})
			_ = http.NewResponseController(w).Flush()
			lingers(r)
		}
		c, end := s.connects()
		defer end()
		after(15*time.Second - time.Millisecond)
		s.wantKnown(c, "a")
		after(2 * time.Millisecond)
		s.wantBound(c, "time", "stopped in the middle of an event for 15s")
		if known := c.knows("a"); len(known) > 0 {
			t.Errorf("%v is stored still", known)
		}
	})
}

// TestNodesStayWhenAClusterIsLost by an error that is not about a bound: they are unknown, and the next list replaces them.
func TestNodesStayWhenAClusterIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.feed = feeds([]time.Duration{time.Second}, []byte("\xff"))
		c, end := s.connects()
		after(time.Second + time.Millisecond)
		if answers, _ := c.Answers(); answers != core.Unknown || len(c.knows("a")) != 1 || c.budget.held() == 0 {
			t.Errorf("it answers %s, and stored are %v", answers, c.knows("a"))
		}
		end()
		if len(c.knows("a")) != 0 || c.budget.held() != 0 || c.currentAPI() != nil {
			t.Errorf("after the end stored are %v of %d bytes", c.knows("a"), c.budget.held())
		}
	})
}

// TestSessionsEndBeforeTheNextBegins: a session waits for its goroutines, also where one is busy with a node.
func TestSessionsEndBeforeTheNextBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.ready = func(w http.ResponseWriter, r *http.Request) {
			if len(s.times("ready")) == 2 {
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			honestReady(w, r)
		}
		s.onWake = func() {
			if len(s.times("ready")) == 1 && len(s.times("list")) == 1 {
				<-time.After(time.Minute)
			}
		}
		_, end := s.connects()
		defer end()
		after(2 * time.Minute)
		if gaps := s.gaps("secret"); len(gaps) == 0 || gaps[0] < time.Minute {
			t.Errorf("the Secret is read after %v", gaps)
		}
	})
}

// TestClustersThatAreNotReady are tried again after growing pauses: the time before the first list counts for nothing.
func TestClustersThatAreNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		s.ready = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }
		_, end := s.connects()
		defer end()
		after(10 * time.Minute)
		s.wantGaps("ready", 0, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second)
		if n := len(s.times("list")); n != 0 {
			t.Errorf("nodes are listed %d times", n)
		}
	})
}

// TestLargeAnswersToAProbe are bounded as errors are.
func TestLargeAnswersToAProbe(t *testing.T) {
	for size, fits := range map[int]bool{errorBytes: true, errorBytes + 1: false} {
		synctest.Test(t, func(t *testing.T) {
			s := serves(t)
			s.ready = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }
			c, end := s.connects()
			defer end()
			after(100 * time.Millisecond)
			if answers, why := c.Answers(); (answers == core.Yes) != fits || (why == "") != fits {
				t.Errorf("after an answer of %d bytes it answers %s (%s)", size, answers, why)
			}
		})
	}
}
