package served

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// patience is how long a part may take to read what the cluster defines before others go on without it.
const patience = time.Minute

var errNotFilled = errors.New("the watch has begun, and not everything has been listed yet")

// Unread reports whether the cluster defines what a part needs, and others must not wait for the part to read that. The right
// is missing, no version that Fettle reads is served, or reading has failed for as long as patience lasts.
func (w *Waker) Unread(part string) bool {
	_, barred := w.barred.Load(part)
	_, unread := w.unread.Load(part)
	return barred || unread
}

// trial is the time in which a part tries to read.
type trial struct {
	late <-chan time.Time
	over bool
}

func newTrial() *trial { return &trial{late: time.After(patience)} }

// failed takes in why a part could not begin to watch.
func (w *Waker) failed(part Part, t *trial, err error) {
	select {
	case <-t.late:
		t.over = true
		w.tellUnread(part, err)
	default:
	}
	// Of a kind that is defined, and not served in the version that Fettle reads, Fettle knows no objects.
	if t.over || meta.IsNoMatchError(err) {
		w.unread.Store(part.Name, true)
		return
	}
	w.unread.Delete(part.Name)
}

// tellUnread logs once that others go on without the part, and wakes them.
func (w *Waker) tellUnread(part Part, err error) {
	w.unread.Store(part.Name, true)
	w.Log.Error(err, "the cluster defines what this needs, and reading it has failed for a minute; it is tried again; "+
		"check that kubectl get lists it in the version that Fettle reads, and that its conversion webhook answers",
		"part", part.Name, "needs", part.Kinds, "meanwhile", part.Without)
	w.Awake()
}
