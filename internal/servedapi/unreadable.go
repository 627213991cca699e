package servedapi

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// readTimeout is how long a part may take to read what the cluster defines before others go on without it.
const readTimeout = time.Minute

var errNotFilled = errors.New("the watch has begun, and not everything has been listed yet")

// Unreadable reports whether the cluster defines what a part needs, and others must not wait for the part to read that. The right
// is missing, no version that Fettle reads is served, or reading has failed for as long as patience lasts.
func (w *Starter) Unreadable(part string) bool {
	_, barred := w.forbidden.Load(part)
	_, unread := w.unreadable.Load(part)
	return barred || unread
}

// readAttempt is the time in which a part tries to read.
type readAttempt struct {
	late <-chan time.Time
	over bool
}

func newReadAttempt() *readAttempt { return &readAttempt{late: time.After(readTimeout)} }

// failed takes in why a part could not begin to watch.
func (w *Starter) failed(part Part, t *readAttempt, err error) {
	select {
	case <-t.late:
		t.over = true
		w.reportUnreadable(part, err)
	default:
	}
	// Of a kind that is defined, and not served in the version that Fettle reads, Fettle knows no objects.
	if t.over || meta.IsNoMatchError(err) {
		w.unreadable.Store(part.Name, true)
		return
	}
	w.unreadable.Delete(part.Name)
}

// reportUnreadable logs once that others go on without the part, and wakes them.
func (w *Starter) reportUnreadable(part Part, err error) {
	w.unreadable.Store(part.Name, true)
	w.Log.Error(err, "the cluster defines what this needs, and reading it has failed for a minute; it is tried again; "+
		"check that kubectl get lists it in the version that Fettle reads, and that its conversion webhook answers",
		"part", part.Name, "needs", part.Kinds, "meanwhile", part.Without)
	w.OnChange()
}
