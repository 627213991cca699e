package servedapi

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TemplateKind is a kind of remediation templates that the cluster serves.
type TemplateKind struct {
	schema.GroupVersionKind

	// Resource is the name of the resource with its group, as kubectl takes it.
	Resource   string
	Namespaced bool
}

const (
	// templatesSuffix ends the names of the resources of remediation templates.
	templatesSuffix = "remediationtemplates"
	// maxTemplateKinds bounds the kinds that are looked up and stored.
	maxTemplateKinds = 20
)

// Templates returns the kinds of remediation templates that the cluster serves, sorted by their names.
func (w *Starter) Templates() []TemplateKind {
	if kinds := w.templates.Load(); kinds != nil {
		return *kinds
	}
	return nil
}

// followTemplates looks the kinds up when definitions of remediation templates come or go. It looks up again the
// kinds that are not served yet, after growing pauses.
func (w *Starter) followTemplates(ctx context.Context, d *definitions) {
	var known []string
	pause := servedCheck
	for ctx.Err() == nil {
		changed := d.changed()
		names := d.templates()
		if !slices.Equal(names, known) {
			known, pause = names, servedCheck
		}
		kinds := w.lookUp(names)
		if !slices.Equal(kinds, w.Templates()) {
			w.templates.Store(&kinds)
			w.OnChange()
		}
		if len(kinds) == len(names) {
			await(ctx, changed, 0)
		} else {
			await(ctx, changed, pause)
			pause = min(2*pause, allowedCheck)
		}
	}
}

// templates returns the names of the definitions of remediation templates, sorted.
func (d *definitions) templates() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.names {
		if resource, _, _ := strings.Cut(name, "."); strings.HasSuffix(resource, templatesSuffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxTemplateKinds)]
}

// lookUp returns the kinds that the cluster serves by these names.
func (w *Starter) lookUp(names []string) []TemplateKind {
	var kinds []TemplateKind
	for _, name := range names {
		gr := schema.ParseGroupResource(name)
		kind, err := w.Mapper.KindFor(gr.WithVersion(""))
		if err != nil {
			continue
		}
		mapping, err := w.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			continue
		}
		kinds = append(kinds, TemplateKind{kind, name, mapping.Scope.Name() == meta.RESTScopeNameNamespace})
	}
	return kinds
}
