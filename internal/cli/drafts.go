package cli

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// This file has the differences among dialects about a health check that is yet to be applied.

// policyOf returns the policy of a draft.
func policyOf(assessments []*assessment, d *draft) (in *assessment, policy int, found bool) {
	for _, w := range assessments {
		i := slices.IndexFunc(w.policies, func(p core.Policy) bool {
			return p.ID.Kind == d.Kind && p.ID.Namespace == d.Namespace && p.ID.Name == d.Name
		})
		if i >= 0 && w.dialectOf[i] == d.dialect {
			return w, i, true
		}
	}
	return nil, 0, false
}

// current returns a draft in the version that its dialect reads.
func (d *draft) current() *unstructured.Unstructured {
	if versions, has := d.dialect.(interface {
		Current(u *unstructured.Unstructured) *unstructured.Unstructured
	}); has {
		return versions.Current(d.object)
	}
	return d.object
}

// fieldOf returns the path of a field in a draft.
func (d *draft) fieldOf(field string) string {
	if names, has := d.dialect.(interface {
		FieldOf(u *unstructured.Unstructured, field string) string
	}); has {
		return names.FieldOf(d.object, field)
	}
	return field
}
