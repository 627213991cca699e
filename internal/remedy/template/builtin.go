package template

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// BuiltIn returns what is known of a template that need not exist as an object, for requests for OpenShift's machines. An
// object of its name takes its place. For any other template it returns the zero BuiltInTemplate. A nil BuiltIn knows no
// template.
type BuiltIn func(core.Reference) BuiltInTemplate

// BuiltInTemplate is a template that need not exist as an object.
type BuiltInTemplate struct {
	// Object is nil for a template that is not built in.
	Object *unstructured.Unstructured
	// Problem says in a sentence why nothing may be created from the template now, also where an object takes its place.
	// It is empty when something may. Pending is set while that is not known yet.
	Problem string
	Pending bool
}

func (b BuiltIn) find(remedy string, t core.Reference) BuiltInTemplate {
	if b == nil || remedy != MachineRemedy {
		return BuiltInTemplate{}
	}
	return b(t)
}

// or returns an object, or the built-in template where there is none.
func (b *BuiltInTemplate) or(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object == nil {
		return b.Object
	}
	return object
}
