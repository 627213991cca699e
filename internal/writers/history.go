package writers

import "time"

const (
	// minWrites is how many writes of one field manager make it another controller. A user who edits a status by
	// hand writes once or twice.
	minWrites = 3
	// writeWindow is the time in which these writes must be.
	writeWindow = time.Hour
	// QuietPeriod is how long another controller must not have written to count as gone.
	QuietPeriod = 10 * time.Minute
	// minPassInterval is the shortest time between passes that the writes of another controller cause. Without it,
	// two controllers that undo each other's writes would do so without a pause.
	minPassInterval = 10 * time.Second
)

// history is what is known of the other writers of one health check. The zero history has seen no version of it.
type history struct {
	// last is the time of the last write of each field manager. It is nil before the first version, whose writes
	// may be those of a controller that has ended.
	last map[string]time.Time
	// seen has the times at which the latest writes were observed, at most minWrites of each field manager.
	seen map[string][]time.Time
	// other is the field manager of another controller, or empty. announced is the field manager that was last announced.
	other, announced string
	// paced is set while a pass is due because of a write. nextPass is when the next pass is due to find the other
	// controller gone.
	paced    bool
	nextPass time.Time
}

// observe records a version of the health check that was received now. It reports whether a pass is due, and after
// which time.
func (w *history) observe(writes []Write, now time.Time) (wait time.Duration, due bool) {
	first, alone := w.last == nil, w.other == ""
	last := make(map[string]time.Time, len(writes))
	fresh, unsure := false, false
	for _, write := range writes {
		last[write.Manager] = write.At
		switch {
		case first:
		case write.At.After(w.last[write.Manager]): // a manager that is not known has written at no time
			fresh = true
			w.record(write.Manager, now)
		case write.Latest:
			unsure = true // its time is in whole seconds, so this may be a second write within one
		}
	}
	w.last = last
	switch {
	case !fresh && !unsure || w.paced:
		return 0, false
	case fresh && alone:
		return 0, true
	}
	w.paced = true
	return minPassInterval, true
}

// record records a write that was observed now.
func (w *history) record(manager string, now time.Time) {
	if w.seen == nil {
		w.seen = map[string][]time.Time{}
	}
	seen := w.seen[manager]
	seen = append(seen[max(0, len(seen)+1-minWrites):], now)
	w.seen[manager] = seen
	if len(seen) == minWrites && now.Sub(seen[0]) <= writeWindow && w.other == "" {
		w.other = manager
	}
	w.forget(now)
}

// forget drops the writes that no longer count. It also drops the field manager that wrote longest ago if there are
// too many, since a writer chooses its name.
func (w *history) forget(now time.Time) {
	oldest := ""
	for manager, seen := range w.seen {
		switch at := seen[len(seen)-1]; {
		case manager == w.other:
		case now.Sub(at) > writeWindow:
			delete(w.seen, manager)
		case oldest == "" || at.Before(w.seen[oldest][len(w.seen[oldest])-1]):
			oldest = manager
		}
	}
	if len(w.seen) > maxManagers {
		delete(w.seen, oldest)
	}
}

// Finding is another writer of a health check.
type Finding struct {
	// Manager is the field manager of another controller, or empty.
	Manager string
	// News is set if it has not been announced yet.
	News bool
}

// find returns the finding of a pass, and after which time another pass is due, or zero. While telling is false,
// nothing is announced.
func (w *history) find(reporting bool, now time.Time) (f Finding, again time.Duration) {
	w.paced = false
	if w.other != "" {
		if over := w.lastSeen().Add(QuietPeriod); now.Before(over) {
			again = w.scheduleNext(over, now)
		} else {
			delete(w.seen, w.other)
			w.other = ""
		}
	}
	f = Finding{Manager: w.other, News: reporting && w.other != "" && w.announced != w.other}
	w.announced = ""
	if reporting {
		w.announced = w.other
	}
	return f, again
}

// scheduleNext returns after which time a pass is due, or zero if an earlier call has scheduled it.
func (w *history) scheduleNext(at, now time.Time) time.Duration {
	if now.Before(w.nextPass) {
		return 0
	}
	w.nextPass = at
	return at.Sub(now)
}

func (w *history) lastSeen() time.Time {
	seen := w.seen[w.other]
	return seen[len(seen)-1]
}
