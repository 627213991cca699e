package machinedelete

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// render returns the machine to delete and the preconditions. The UID protects a namesake (I11). The revision protects
// a machine that has changed since it was judged.
func render(gvk schema.GroupVersionKind, t core.Target) (*metav1.PartialObjectMetadata, client.DeleteOption) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	m.SetNamespace(t.ID.Namespace)
	m.SetName(t.ID.Name)
	uid := types.UID(t.ID.UID)
	return m, client.Preconditions{UID: &uid, ResourceVersion: &t.Revision}
}
