package served

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var errUnknown = errors.New("what the cluster serves has not been read yet")

// Checks tell for each part whether it is ready: it sleeps, since the cluster does not serve what it
// needs or does not let it read that, or it has taken in what it watches. Their names are those of the parts, as they stand in an
// address.
func (w *Waker) Checks() map[string]func(*http.Request) error {
	checks := make(map[string]func(*http.Request) error, len(w.Parts))
	for _, part := range w.Parts {
		checks[strings.ToLower(strings.ReplaceAll(part.Name, " ", "-"))] = func(*http.Request) error { return w.ready(part) }
	}
	return checks
}

func (w *Waker) ready(part Part) error {
	definitions := w.definitions.Load()
	_, barred := w.barred.Load(part.Name)
	switch {
	case definitions == nil:
		return errUnknown
	case barred:
		return nil
	case definitions.have(part.Kinds) && !part.InStep():
		return fmt.Errorf("%s: what it watches has not been taken in yet", part.Name)
	}
	return nil
}

// Changed is closed when a definition comes or goes. It is nil until they have been read.
func (w *Waker) Changed() <-chan struct{} {
	if definitions := w.definitions.Load(); definitions != nil {
		return definitions.changed()
	}
	return nil
}
