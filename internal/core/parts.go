package core

import (
	"slices"
	"strings"
)

// Kind names a kind of objects in all of its versions.
type Kind struct{ Group, Kind string }

// Parts are the kinds of the objects that a target is made of, such as the infrastructure of a machine. No request may be
// of these kinds: withdrawing it would delete a part of the target. A target without Parts has parts that are not known.
type Parts struct{ Kinds []Kind }

var noParts Parts //nolint:gochecknoglobals // a constant

// NoParts returns the Parts of a target that has none.
func NoParts() *Parts { return &noParts }

// Has reports whether a target has parts of a kind. It is Unknown where the parts are not known.
func (p *Parts) Has(k Kind) Tri {
	if p == nil {
		return Unknown
	}
	if slices.Contains(p.Kinds, k) {
		return Yes
	}
	return No
}

// templateSuffix is what the kind of a template has, and that of the requests made from it lacks.
const templateSuffix = "Template"

// Makes returns the kind of the requests that are made from a template.
func (r Reference) Makes() Kind {
	group, _, named := strings.Cut(r.APIVersion, "/")
	if !named { // a version alone is that of the group without a name
		group = ""
	}
	return Kind{Group: group, Kind: strings.TrimSuffix(r.Kind, templateSuffix)}
}

// Unfit returns a sentence on why a step must not be taken for a target, whatever the template is. It is empty for
// steps that make no requests, and for steps that may be taken.
func (s *Step) Unfit(t *Target) string {
	if !s.Nature.Effect().CreatesRequest {
		return ""
	}
	made := s.Template.Makes()
	switch t.Parts.Has(made) {
	case Yes:
		return "template " + s.Template.String() + " makes objects of the kind " + made.Kind + ", of which " + t.ID.String() +
			" itself is made, so its requests could not be told from the target's own parts; name the template of a remediator"
	case Unknown:
		return "it is not known of which objects " + t.ID.String() + " is made, so it gets no remediation request; " +
			"give it an infrastructureRef with a kind and an API group"
	case No:
	}
	return ""
}
