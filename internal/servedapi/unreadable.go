package servedapi

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// readTimeout is how long a part may take to read its kinds before other parts go on without it.
const readTimeout = time.Minute

var errNotFilled = errors.New("the watch has begun, and not everything has been listed yet")

// Unreadable reports whether the cluster defines the kinds of a part, and other parts must not wait until it has
// read them. The part lacks rights, or no version that Fettle reads is served, or reading has failed for
// readTimeout.
func (w *Starter) Unreadable(part string) bool {
	_, barred := w.forbidden.Load(part)
	_, unread := w.unreadable.Load(part)
	return barred || unread
}

// readAttempt is the time in which a part tries to read its kinds.
type readAttempt struct {
	late <-chan time.Time
	over bool
}

func newReadAttempt() *readAttempt { return &readAttempt{late: time.After(readTimeout)} }

// failed records why a part could not start.
func (w *Starter) failed(part Part, t *readAttempt, err error) {
	select {
	case <-t.late:
		t.over = true
		w.reportUnreadable(part, err)
	default:
	}
	// A kind without a version that Fettle reads has no objects for Fettle.
	if t.over || meta.IsNoMatchError(err) {
		w.unreadable.Store(part.Name, true)
		return
	}
	w.unreadable.Delete(part.Name)
}

// reportUnreadable logs once that other parts go on without the part, and wakes the passes.
func (w *Starter) reportUnreadable(part Part, err error) {
	w.unreadable.Store(part.Name, true)
	w.Log.Error(err, "the cluster defines what this needs, and reading it has failed for a minute; it is tried again; "+
		"check that kubectl get lists it in the version that Fettle reads, and that its conversion webhook answers",
		"part", part.Name, "needs", part.Kinds, "meanwhile", part.Without)
	w.OnChange()
}
