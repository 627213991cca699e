package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// mostOwners bounds the chain of owners that is read: a machine set, and its machine deployment.
const mostOwners = 2

// ownerAnswer returns the answer of a target's owner to the request to replace it. It is nil for targets without such
// an owner. The metadata is that of the target's own object, or nil.
func (s *session) ownerAnswer(ctx context.Context, v *view, w *assessment, target int, meta *metav1.PartialObjectMetadata) *OwnerAnswer {
	if meta == nil {
		return nil
	}
	id := w.cluster.Targets[target].ID
	for _, p := range v.parts {
		of, knows := p.Reading.(Owners)
		if !knows {
			continue
		}
		owners, unknown := s.ownersOf(ctx, of, meta)
		if a, replaced := of.Answer(id, meta.Annotations, owners, v.at); replaced {
			a.Unknown = unknown
			return &a
		}
	}
	return nil
}

// ownersOf reads the owner of an object, and the owner of that. The second result says which one could not be read.
func (s *session) ownersOf(ctx context.Context, of Owners, object metav1.Object) (owners []*unstructured.Unstructured, unknown string) {
	for range mostOwners {
		owner, tells := of.OwnerOf(object)
		if !tells {
			break
		}
		u, err := s.readOwner(ctx, owner, object.GetNamespace())
		if err != nil {
			return owners, whyNoOwner(owner, err)
		}
		if u.GetUID() != owner.UID {
			return owners, fmt.Sprintf("%s %s has another UID than its owner", owner.Kind, owner.Name)
		}
		owners = append(owners, u)
		object = u
	}
	return owners, ""
}

// readOwner reads an owner in the version that the cluster prefers.
func (s *session) readOwner(ctx context.Context, owner metav1.OwnerReference, namespace string) (*unstructured.Unstructured, error) {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	mapping, err := s.cluster.RESTMapper().RESTMapping(gvk.GroupKind())
	if err != nil {
		return nil, fmt.Errorf("asking whether the cluster serves %s: %w", owner.Kind, err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := s.cluster.Get(ctx, types.NamespacedName{Namespace: namespace, Name: owner.Name}, u); err != nil {
		return nil, fmt.Errorf("getting %s %s: %w", owner.Kind, owner.Name, err)
	}
	return u, nil
}

func whyNoOwner(owner metav1.OwnerReference, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("you may not get %s %s; the ClusterRole fettle-view-cluster-api grants it (docs/cli.md)", owner.Kind, owner.Name)
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("%s %s is gone", owner.Kind, owner.Name)
	}
	return failureText(err)
}

// nextOfRequested says when an owner with a request may go on, if that is known.
func nextOfRequested(n Next, a *OwnerAnswer) Next {
	if a == nil || !a.Requested || len(a.Waits) == 0 || n.At != nil {
		return n
	}
	var last *OwnerWait
	for i := range a.Waits {
		w := &a.Waits[i]
		if w.Until == nil {
			return Next{Text: fmt.Sprintf("Its owner, %s %s, goes on when what it waits for is over, see above; time alone does not bring that.", a.Owner.Kind, a.Owner.Name)}
		}
		if last == nil || w.Until.After(*last.Until) {
			last = w
		}
	}
	return Next{At: last.Until, Text: fmt.Sprintf("Its owner, %s %s, may replace it, if it is still unhealthy; it sets no timer, so it can take some minutes more.", a.Owner.Kind, a.Owner.Name)}
}
