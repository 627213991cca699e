package writers

import (
	"fmt"
	"testing"
	"time"
)

// noon is when these tests take place.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// fixture passes versions of one health check to a history.
type fixture struct {
	t      *testing.T
	w      history
	now    time.Time
	writes map[string]time.Time
	latest string // the manager of the latest write
}

func newFixture(t *testing.T, before ...string) *fixture {
	t.Helper()
	s := &fixture{t: t, now: noon, writes: map[string]time.Time{}}
	for _, manager := range before {
		s.writes[manager] = noon.Add(-time.Hour)
	}
	s.show()
	return s
}

// show passes the present version of the health check.
func (s *fixture) show() (time.Duration, bool) {
	var writes []Write
	for manager, at := range s.writes {
		writes = append(writes, Write{manager, at, manager == s.latest})
	}
	return s.w.observe(writes, s.now)
}

// write has a manager write a second after the last event.
func (s *fixture) write(manager string) (time.Duration, bool) {
	s.now = s.now.Add(time.Second)
	s.writes[manager], s.latest = s.now.Truncate(time.Second), manager
	return s.show()
}

// finds compares the finding of a pass.
func (s *fixture) finds(sentence string, want Finding) time.Duration {
	s.t.Helper()
	got, again := s.w.find(true, s.now)
	if got != want {
		s.t.Errorf("%s: found %+v, want %+v", sentence, got, want)
	}
	return again
}

func TestAnotherControllerIsFound(t *testing.T) {
	s := newFixture(t, "manager")
	for i := range minWrites {
		if i > 0 {
			s.finds("a write or two", Finding{})
		}
		if wait, due := s.write("manager"); !due || wait != 0 {
			t.Errorf("after a write a pass is due: %t, after %s", due, wait)
		}
	}
	if again := s.finds("it writes on", Finding{Manager: "manager", News: true}); again != QuietPeriod {
		t.Errorf("it is looked at again after %s", again)
	}
	if again := s.finds("it is told", Finding{Manager: "manager"}); again != 0 {
		t.Errorf("it is looked at again after %s, as is due already", again)
	}
}

func TestFalseAlarms(t *testing.T) {
	t.Run("what was written before Fettle began", func(t *testing.T) {
		s := newFixture(t, "manager", "kubectl-edit")
		for range minWrites {
			if _, due := s.show(); due {
				t.Error("the same version again is a pass")
			}
		}
		s.finds("nothing was written", Finding{})
	})
	t.Run("the last writes of a controller that ends", func(t *testing.T) {
		s := newFixture(t)
		s.write("manager")
		s.write("manager")
		s.finds("it has ended", Finding{})
	})
	t.Run("several people", func(t *testing.T) {
		s := newFixture(t)
		for _, manager := range []string{"kubectl-edit", "kubectl-patch", "dashboard", "kubectl-edit"} {
			s.write(manager)
		}
		s.finds("none of them writes on", Finding{})
	})
	t.Run("a person now and then", func(t *testing.T) {
		s := newFixture(t)
		for range 2 * minWrites {
			s.write("kubectl-edit")
			s.now = s.now.Add(writeWindow)
			s.finds("once an hour", Finding{})
		}
	})
}

// TestWritesOfAnotherControllerArePaced: two controllers that undo each other's writes don't do so without a pause.
func TestWritesOfAnotherControllerArePaced(t *testing.T) {
	s := newFixture(t)
	for range minWrites {
		s.write("manager")
	}
	s.finds("it is known", Finding{Manager: "manager", News: true})
	if wait, due := s.write("manager"); !due || wait != minPassInterval {
		t.Errorf("a pass is due: %t, after %s, want after %s", due, wait, minPassInterval)
	}
	if _, due := s.write("manager"); due {
		t.Error("a second pass is due beside the first")
	}
	s.finds("it goes on", Finding{Manager: "manager"})
	if wait, due := s.write("manager"); !due || wait != minPassInterval {
		t.Errorf("after the pass one is due: %t, after %s, want after %s", due, wait, minPassInterval)
	}
}

// TestSecondWriteWithinASecond: managed fields have times in whole seconds, so a second write within one has the time
// of the first. A pass is due later, as for any write of another controller, and the write does not count as one.
func TestSecondWriteWithinASecond(t *testing.T) {
	for name, before := range map[string]int{"of another controller": minWrites, "of a user": 1} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			for range before {
				s.write("manager")
			}
			known, _ := s.w.find(true, s.now)
			for range minWrites {
				if wait, due := s.show(); !due || wait != minPassInterval {
					t.Errorf("a pass is due: %t, after %s, want after %s", due, wait, minPassInterval)
				}
				if _, due := s.show(); due {
					t.Error("a second pass is due beside the first")
				}
				s.finds("the write counts once", Finding{Manager: known.Manager})
			}
			s.latest = "fettle"
			if _, due := s.show(); due {
				t.Error("a pass is due for a write of Fettle")
			}
		})
	}
}

func TestAnotherControllerIsGone(t *testing.T) {
	s := newFixture(t)
	for range minWrites {
		s.write("manager")
	}
	s.finds("it is known", Finding{Manager: "manager", News: true})
	s.now = s.now.Add(QuietPeriod - time.Second)
	s.write("manager")
	if again := s.finds("it wrote just now", Finding{Manager: "manager"}); again != QuietPeriod {
		t.Errorf("it is looked at again after %s, want %s", again, QuietPeriod)
	}
	s.now = s.now.Add(QuietPeriod)
	s.finds("it is quiet", Finding{})
	s.write("manager")
	s.finds("one write is no return", Finding{})
	s.write("manager")
	s.write("manager")
	s.finds("it is back", Finding{Manager: "manager", News: true})
}

// TestFirstOfTwoControllersIsReported: a further controller does not replace it, which would be news each time.
func TestFirstOfTwoControllersIsReported(t *testing.T) {
	s := newFixture(t)
	for range minWrites {
		s.write("first")
	}
	s.finds("it is known", Finding{Manager: "first", News: true})
	for range minWrites {
		s.write("second")
		s.write("first")
	}
	s.finds("both write on", Finding{Manager: "first"})
	s.write("second")
	s.finds("the second wrote last", Finding{Manager: "first"})
}

// TestLatestWritesCount: an earlier one, too long before them, makes no difference.
func TestLatestWritesCount(t *testing.T) {
	s := newFixture(t)
	s.write("manager")
	s.now = s.now.Add(writeWindow)
	for i := range minWrites {
		s.finds("it is no controller yet", Finding{})
		s.write("manager")
		if got := len(s.w.seen["manager"]); got != min(i+2, minWrites) {
			t.Errorf("%d writes are remembered, want %d", got, min(i+2, minWrites))
		}
	}
	s.finds("the latest are within an hour", Finding{Manager: "manager", News: true})
}

// TestWritesAreForgotten: a write counts for an hour, also while others write.
func TestWritesAreForgotten(t *testing.T) {
	for apart, want := range map[time.Duration]int{writeWindow: 2, writeWindow + 1: 1} {
		s := newFixture(t)
		s.writes["manager"] = s.now
		s.show()
		s.now = noon.Add(apart)
		s.writes["another"] = s.now
		s.show()
		if got := len(s.w.seen); got != want {
			t.Errorf("%s after a write and with another one, %d field managers are remembered, want %d", apart, got, want)
		}
	}
}

// TestWritesWithinAnHour make a controller when they are exactly an hour apart, and not when they are more.
func TestWritesWithinAnHour(t *testing.T) {
	for apart, want := range map[time.Duration]Finding{writeWindow: {Manager: "manager", News: true}, writeWindow + 1: {}} {
		s := newFixture(t)
		for _, after := range []time.Duration{0, time.Minute, apart} {
			s.now = noon.Add(after)
			s.writes["manager"] = s.now
			s.show()
		}
		s.finds(apart.String(), want)
	}
}

// TestDryRunsReportNoForeignWriter: both controllers are meant to write during a dry run. When it ends, the other
// controller is news.
func TestDryRunsReportNoForeignWriter(t *testing.T) {
	s := newFixture(t)
	for range minWrites {
		s.write("manager")
	}
	if f, _ := s.w.find(false, s.now); f.Manager != "manager" || f.News {
		t.Errorf("in a rehearsal is found %+v", f)
	}
	s.finds("it ends", Finding{Manager: "manager", News: true})
	s.finds("it is told", Finding{Manager: "manager"})
	s.w.find(false, s.now)
	s.finds("another rehearsal ends", Finding{Manager: "manager", News: true})
}

// TestI15FieldManagersAreBounded: a writer that takes another name for each write does not make Fettle remember ever more of them.
func TestI15FieldManagersAreBounded(t *testing.T) {
	s := newFixture(t)
	for i := range 10 * maxManagers {
		delete(s.writes, fmt.Sprint("stranger-", i-maxManagers))
		s.write(fmt.Sprint("stranger-", i))
		if len(s.w.seen) != min(i+1, maxManagers) {
			t.Fatalf("after %d writes %d field managers are remembered, want at most %d", i+1, len(s.w.seen), maxManagers)
		}
		if _, kept := s.w.seen[fmt.Sprint("stranger-", max(0, i-maxManagers+1))]; !kept {
			t.Fatalf("after %d writes one of the latest is forgotten: %v", i+1, s.w.seen)
		}
	}
	for range minWrites {
		s.write("manager")
	}
	s.finds("a controller beside them", Finding{Manager: "manager", News: true})
	s.now = s.now.Add(2 * writeWindow)
	s.write("kubectl-edit")
	if len(s.w.seen) != 2 {
		t.Errorf("two hours later %d field managers are remembered, want the controller and the last", len(s.w.seen))
	}
}
