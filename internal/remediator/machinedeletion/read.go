package machinedeletion

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

var machineResource = schema.GroupVersionKind{Group: machineGroup, Version: "v1beta1", Kind: machineKind} //nolint:gochecknoglobals // a constant

// +kubebuilder:rbac:groups=fettle.io,resources=machinedeletionremediations,verbs=get

// getRemediation reads a remediation live, and reports whether it still exists. A namesake does not count.
func (c *Client) getRemediation(ctx context.Context, like *v1alpha1.MachineDeletionRemediation) (*v1alpha1.MachineDeletionRemediation, bool, error) {
	r := emptyCopy(like)
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(like), r)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading it again: %w", err)
	}
	return r, r.UID == like.UID, nil
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

func (c *Client) getNode(ctx context.Context, name string) (*nodeFacts, error) {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	err := c.Live.Get(ctx, types.NamespacedName{Name: name}, n)
	switch {
	case apierrors.IsNotFound(err):
		return &nodeFacts{}, nil
	case err != nil:
		return nil, fmt.Errorf("getting node %s: %w", name, err)
	}
	return &nodeFacts{found: true, uid: n.UID, machine: n.Annotations[machineAnnotation]}, nil
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=get

func (c *Client) getMachine(ctx context.Context, key types.NamespacedName) (*machineFacts, error) {
	m := &unstructured.Unstructured{}
	m.SetGroupVersionKind(machineResource)
	err := c.Live.Get(ctx, key, m)
	switch {
	case apierrors.IsNotFound(err):
		return &machineFacts{key: key}, nil
	case err != nil:
		return nil, fmt.Errorf("getting machine %s: %w", key, err)
	}
	return machineOf(m), nil
}

// machineOf reads a machine. A field of a wrong type counts as absent.
func machineOf(m *unstructured.Unstructured) *machineFacts {
	f := &machineFacts{
		found: true, key: client.ObjectKeyFromObject(m), uid: m.GetUID(), created: m.GetCreationTimestamp().Time,
		deleting: m.GetDeletionTimestamp() != nil, owner: metav1.GetControllerOf(m),
	}
	f.node, _, _ = unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	uid, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "uid")
	f.nodeUID = types.UID(uid)
	f.providerID, _, _ = unstructured.NestedString(m.Object, "spec", "providerID")
	return f
}

// Of the kinds that own machines, only machine sets are resized by others than people.
//
// +kubebuilder:rbac:groups=machine.openshift.io,resources=machinesets,verbs=get

// getOwner reads the replicas of an owner. They are unknown when the remediator may not read it.
func (c *Client) getOwner(ctx context.Context, o *v1alpha1.RemediationOwner) (*ownerFacts, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(o.APIVersion)
	u.SetKind(o.Kind)
	err := c.Live.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, u)
	switch {
	case apierrors.IsNotFound(err):
		return &ownerFacts{}, nil
	case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return &ownerFacts{found: true}, nil
	case err != nil:
		return nil, fmt.Errorf("getting %s %s/%s: %w", o.Kind, o.Namespace, o.Name, err)
	}
	return ownerOf(u, types.UID(o.UID)), nil
}

// ownerOf reads an owner. A namesake counts as absent.
func ownerOf(u *unstructured.Unstructured, uid types.UID) *ownerFacts {
	if u.GetUID() != uid {
		return &ownerFacts{}
	}
	f := &ownerFacts{found: true}
	if n, said, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); said && n >= 0 && n < 1<<30 {
		replicas := int(n)
		f.replicas = &replicas
	}
	return f
}
