package servedapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
)

var errUnknown = errors.New("what the cluster serves has not been read yet")

// Checks tell for each part whether it is ready: it sleeps, since the cluster does not serve what it
// needs, or not in the version that Fettle reads, or does not let an optional part read that; or it has taken in what it
// watches. Their names are those of the parts, as they stand in an address.
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
	case unserved, barred && part.Optional:
		return nil
	case barred:
		return fmt.Errorf("%s: it may not read what it needs; apply %s", part.Name, part.Grants)
	case definitions.have(part.Kinds) && !part.HasSynced():
		return fmt.Errorf("%s: what it watches has not been taken in yet", part.Name)
	}
	return nil
}

// noteServed takes in what the API server answered to the attempt of a part to read its kinds. A cluster with older versions
// alone has nothing that the part could read until its definitions change.
func (w *Starter) noteServed(part Part, err error) {
	if meta.IsNoMatchError(err) {
		w.unserved.Store(part.Name, true)
	} else {
		w.unserved.Delete(part.Name)
	}
}

// Changed is closed when a definition comes or goes. It is nil until they have been read.
func (w *Starter) Changed() <-chan struct{} {
	if definitions := w.definitions.Load(); definitions != nil {
		return definitions.changed()
	}
	return nil
}
