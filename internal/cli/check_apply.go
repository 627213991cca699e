package cli

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// existing returns the health check that a draft would replace, or nil if there is none or it can't be read.
func (s *session) existing(ctx context.Context, d *draft) client.Object {
	old := d.current().DeepCopy()
	if err := s.cluster.Get(ctx, client.ObjectKeyFromObject(d.object), old); err != nil {
		return nil
	}
	return old
}

// put stores a draft in the place of the existing health check, or as the youngest.
func (v *view) put(d *draft, existing client.Object) {
	u := asApplied(d.current(), existing, v.at)
	for _, p := range v.parts {
		if p.Dialect == d.dialect {
			p.sources[0].Put(u)
		}
	}
}

// asApplied returns a health check as the cluster would have it after it was applied. It has the age and the status of
// the existing object. Without one, it is younger than everything that was read.
func asApplied(u *unstructured.Unstructured, existing client.Object, at time.Time) *unstructured.Unstructured {
	u = u.DeepCopy()
	u.SetUID("")
	u.SetResourceVersion("")
	u.SetDeletionTimestamp(nil)
	// Creation times have whole seconds, and names decide between equal ones.
	u.SetCreationTimestamp(metav1.Time{Time: at.Add(time.Second)})
	delete(u.Object, "status")
	if old, is := existing.(interface {
		client.Object
		UnstructuredContent() map[string]any
	}); is {
		u.SetUID(old.GetUID())
		u.SetCreationTimestamp(old.GetCreationTimestamp())
		if status, has := old.UnstructuredContent()["status"]; has {
			u.Object["status"] = status
		}
	}
	return u
}
