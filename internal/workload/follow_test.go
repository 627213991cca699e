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
		lasts := []time.Duration{time.Millisecond, time.Millisecond, time.Minute, time.Minute, time.Millisecond, time.Millisecond, time.Hour}
		s.feed = func(w http.ResponseWriter, r *http.Request) { briefly(lasts[len(s.times("watch"))-1], bookmark)(w, r) }
		_, end := s.connects()
		defer end()
		after(2*time.Minute + 30*time.Second)
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
