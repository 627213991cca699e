package servedapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
)

var errUnknown = errors.New("what the cluster serves has not been read yet")

// Checks returns a readiness check for each part, by the part's name as in a URL. A part is ready once it has
// synced. It is also ready while it can't start. Then the cluster doesn't serve its kinds in the version that
// Fettle reads, or an optional part may not list them.
func (w *Starter) Checks() map[string]func(*http.Request) error {
	checks := make(map[string]func(*http.Request) error, len(w.Parts))
	for _, part := range w.Parts {
		checks[strings.ToLower(strings.ReplaceAll(part.Name, " ", "-"))] = func(*http.Request) error { return w.ready(part) }
	}
	return checks
}

func (w *Starter) ready(part Part) error {
	definitions := w.definitions.Load()
	_, barred := w.forbidden.Load(part.Name)
	_, unserved := w.unserved.Load(part.Name)
	switch {
	case definitions == nil:
		return errUnknown
	case unserved, barred && part.Optional: // there is nothing to wait for
	case barred:
		return fmt.Errorf("%s: it may not read what it needs; apply %s", part.Name, part.Grants)
	case definitions.have(part.Kinds) && !part.HasSynced():
		return fmt.Errorf("%s: what it watches has not been taken in yet", part.Name)
	}
	return nil
}

// noteServed records whether the API server serves the kinds of a part in the version that Fettle reads. If not,
// there is nothing to read until the definitions change.
func (w *Starter) noteServed(part Part, err error) {
	if meta.IsNoMatchError(err) {
		w.unserved.Store(part.Name, true)
	} else {
		w.unserved.Delete(part.Name)
	}
}

// Changed returns a channel that is closed when a definition comes or goes. It is nil until the definitions have
// been read.
func (w *Starter) Changed() <-chan struct{} {
	if definitions := w.definitions.Load(); definitions != nil {
		return definitions.changed()
	}
	return nil
}
