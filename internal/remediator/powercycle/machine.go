package powercycle

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

var bareMetalHost = schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: "BareMetalHost"} //nolint:gochecknoglobals // a constant

// isNotServed reports whether the cluster doesn't serve a kind.
func isNotServed(err error) bool { return meta.IsNoMatchError(err) }

// machineOf returns the machine of a node, if both name each other, and it is not of the control plane.
func (c *Client) machineOf(ctx context.Context, node *corev1.Node) (*v1alpha1.ObjectReference, error) {
	if node == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	namespace, name, found := strings.Cut(node.Annotations[machineAnnotation], "/")
	if !found || namespace == "" || name == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	m, err := c.machines.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || m == nil || fencednode.NodeRefOf(m) != node.Name || ofControlPlane(m, node) {
		return nil, err
	}
	return &v1alpha1.ObjectReference{Kind: fencednode.OpenShiftMachine.Kind, Namespace: namespace, Name: name, UID: string(m.GetUID())}, nil
}

// readMachine reads the recorded machine of a remediation.
func (c *Client) readMachine(ctx context.Context, l *look) *fencing.Machine {
	recorded := l.r.Status.Machine
	if recorded == nil {
		return c.readUnrecorded(ctx, l)
	}
	if !l.cluster.isHome() {
		return c.readMemberMachine(ctx, l)
	}
	m, err := c.machines.Get(ctx, types.NamespacedName{Namespace: recorded.Namespace, Name: recorded.Name})
	switch {
	case err != nil:
		return &fencing.Machine{Failed: true, RetryAt: c.Now().Add(retryRead)}
	case m == nil, string(m.GetUID()) != recorded.UID:
		return &fencing.Machine{}
	case m.GetDeletionTimestamp() != nil:
		return &fencing.Machine{Exists: true, Deleting: true}
	}
	kept, err := c.mustKeep(ctx, l, m)
	if err != nil {
		return &fencing.Machine{Failed: true, RetryAt: c.Now().Add(retryRead)}
	}
	return &fencing.Machine{Exists: true, Kept: kept}
}

// readUnrecorded returns why a remediation has recorded no machine: that of its node is of the control plane, or there was none.
func (c *Client) readUnrecorded(ctx context.Context, l *look) *fencing.Machine {
	m, err := c.machineNamedBy(ctx, l, l.raw)
	switch {
	case err != nil:
		return &fencing.Machine{Failed: true, RetryAt: c.Now().Add(retryRead)}
	case m != nil && ofControlPlane(m, l.raw):
		return &fencing.Machine{Exists: true, Kept: fencing.KeptControlPlane}
	}
	return &fencing.Machine{Exists: true, Kept: fencing.NoMachine}
}

// mustKeep returns why a machine must not be deleted, or nothing.
func (c *Client) mustKeep(ctx context.Context, l *look, m *unstructured.Unstructured) (fencing.Reason, error) {
	switch {
	case ofControlPlane(m, l.raw):
		return fencing.KeptControlPlane, nil
	case metav1.GetControllerOf(m) == nil:
		return fencing.KeptNoController, nil
	case fencednode.NodeRefOf(m) != l.node:
		return fencing.KeptOtherNode, nil
	}
	if external, err := c.externallyProvisioned(ctx, m); err != nil || !external {
		return "", err
	}
	return fencing.KeptExternallyProvisioned, nil
}

// ofControlPlane reports whether a machine or its node, which may be nil, is of the control plane.
func ofControlPlane(m *unstructured.Unstructured, node *corev1.Node) bool {
	if role := m.GetLabels()["machine.openshift.io/cluster-api-machine-role"]; role == "master" {
		return true
	}
	if node == nil {
		return false
	}
	_, controlPlane := node.Labels["node-role.kubernetes.io/control-plane"]
	_, master := node.Labels["node-role.kubernetes.io/master"]
	return controlPlane || master
}

// externallyProvisioned reports whether the host of a machine was provisioned by another system, which Fettle can't have repeated.
func (c *Client) externallyProvisioned(ctx context.Context, m *unstructured.Unstructured) (bool, error) {
	namespace, name, found := strings.Cut(m.GetAnnotations()[hostAnnotation], "/")
	if !found || namespace == "" || name == "" {
		return false, nil
	}
	host, err := c.get(ctx, bareMetalHost, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || host == nil {
		return false, err
	}
	external, _, _ := unstructured.NestedBool(host.Object, "spec", "externallyProvisioned")
	state, _, _ := unstructured.NestedString(host.Object, "status", "provisioning", "state")
	return external || state == "externally provisioned", nil
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=delete

// deleteMachine deletes the recorded machine, or has its owner do so. The UID protects a replacement of its name (I11).
func (c *Client) deleteMachine(ctx context.Context, l *look) error {
	if !l.cluster.isHome() {
		return c.handBack(ctx, l)
	}
	recorded := l.r.Status.Machine
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(fencednode.OpenShiftMachine)
	m.SetNamespace(recorded.Namespace)
	m.SetName(recorded.Name)
	uid := types.UID(recorded.UID)
	if err := c.Writer.Delete(ctx, m, client.Preconditions{UID: &uid}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting machine %s/%s: %w", recorded.Namespace, recorded.Name, err)
	}
	return nil
}
