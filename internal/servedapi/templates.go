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

	// Resource is its name with its group, as kubectl takes it.
	Resource   string
	Namespaced bool
}

const (
	// templatesSuffix ends the resources of remediation templates.
	templatesSuffix = "remediationtemplates"
	// maxTemplateKinds bounds what is asked and kept.
	maxTemplateKinds = 20
)

// Templates returns the kinds of remediation templates that the cluster serves, by their names. Without a Mapper there are none.
func (w *Starter) Templates() []TemplateKind {
	if kinds := w.templates.Load(); kinds != nil {
		return *kinds
	}
	return nil
}

// followTemplates looks the kinds up whenever definitions of remediation templates come or go. What is not served yet is looked up
// again, after pauses that grow.
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
			continue
		}
		await(ctx, changed, pause)
		pause = min(2*pause, allowedCheck)
	}
}

// templates returns the names of the definitions of remediation templates, in order.
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

// lookUp asks which kinds the cluster serves by these names. It leaves out what the cluster does not serve.
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
