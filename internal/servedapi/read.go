package servedapi

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read is a kind that a part lists and watches.
type Read struct {
	Kind schema.GroupVersionKind
	// Namespace is empty for all namespaces.
	Namespace string
}

// ReadsOf returns reads of kinds of one group and version in all namespaces.
func ReadsOf(version schema.GroupVersion, kinds ...string) []Read {
	reads := make([]Read, len(kinds))
	for i, kind := range kinds {
		reads[i].Kind = version.WithKind(kind)
	}
	return reads
}

// check returns an error unless the part may list the kind. It lists at most one object, so that it costs little in
// a large cluster.
func (r Read) check(ctx context.Context, api client.Reader) error {
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(r.Kind.GroupVersion().WithKind(r.Kind.Kind + "List"))
	if err := api.List(ctx, one, client.Limit(1), client.InNamespace(r.Namespace)); err != nil {
		return fmt.Errorf("listing %s of %s: %w", r.Kind.Kind, r.Kind.GroupVersion(), err)
	}
	return nil
}
