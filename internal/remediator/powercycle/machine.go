package powercycle

import (
	"context"
	"fmt"
	"slices"
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
func (c *Client) readMachine(ctx context.Context, rec *reconciliation) *fencing.Machine {
	recorded := rec.r.Status.Machine
	if recorded == nil {
		return c.readUnrecorded(ctx, rec)
	}
	if !rec.cluster.isHome() {
		return c.readMemberMachine(ctx, rec)
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
	return c.keptOr(ctx, rec, m, mustKeep(m, rec))
}

// keptOr returns a machine that exists, with why it must not be deleted: the reason that is known, or one of its host.
func (c *Client) keptOr(ctx context.Context, rec *reconciliation, m *unstructured.Unstructured, known fencing.Reason) *fencing.Machine {
	if known != "" {
		return &fencing.Machine{Exists: true, Kept: known}
	}
	kept, err := c.keptByHost(ctx, rec, m)
	if err != nil {
		return &fencing.Machine{Failed: true, RetryAt: c.Now().Add(retryRead)}
	}
	return &fencing.Machine{Exists: true, Kept: kept}
}

// readUnrecorded returns why a remediation has recorded no machine: that of its node is of the control plane, or there was none.
func (c *Client) readUnrecorded(ctx context.Context, rec *reconciliation) *fencing.Machine {
	m, err := c.machineNamedBy(ctx, rec, rec.raw)
	switch {
	case err != nil:
		return &fencing.Machine{Failed: true, RetryAt: c.Now().Add(retryRead)}
	case m != nil && ofControlPlane(m, rec.raw):
		return &fencing.Machine{Exists: true, Kept: fencing.KeptControlPlane}
	}
	return &fencing.Machine{Exists: true, Kept: fencing.NoMachine}
}

// mustKeep returns why a machine must not be deleted, or nothing, as far as the machine and its node show that.
func mustKeep(m *unstructured.Unstructured, rec *reconciliation) fencing.Reason {
	switch {
	case ofControlPlane(m, rec.raw):
		return fencing.KeptControlPlane
	case metav1.GetControllerOf(m) == nil:
		return fencing.KeptNoController
	case fencednode.NodeRefOf(m) != rec.node:
		return fencing.KeptOtherNode
	}
	return ""
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

// keptByHost returns why a machine must not be deleted, as far as its hosts show that, or nothing. Fettle can't have the provisioning of another
// system repeated. A host that is named and does not exist may be such a host. A machine without a named host has none of Metal3.
func (c *Client) keptByHost(ctx context.Context, rec *reconciliation, m *unstructured.Unstructured) (fencing.Reason, error) {
	for _, key := range hostsOf(m, rec) {
		if key.Namespace == "" || key.Name == "" {
			return fencing.KeptHostUnknown, nil
		}
		host, err := c.get(ctx, bareMetalHost, key)
		if err != nil {
			return "", err
		}
		if kept := keptBy(host); kept != "" {
			return kept, nil
		}
	}
	return "", nil
}

// hostsOf returns the BareMetalHosts that a machine or the BMC of its node names, and the recorded one. A name that is none is not complete.
func hostsOf(m *unstructured.Unstructured, rec *reconciliation) []types.NamespacedName {
	var hosts []types.NamespacedName
	if named := m.GetAnnotations()[hostAnnotation]; named != "" {
		namespace, name, _ := strings.Cut(named, "/")
		hosts = append(hosts, types.NamespacedName{Namespace: namespace, Name: name})
	}
	if rec.bmc != nil && rec.bmc.Spec.BareMetalHost != nil {
		hosts = append(hosts, types.NamespacedName{Namespace: rec.bmc.Spec.BareMetalHost.Namespace, Name: rec.bmc.Spec.BareMetalHost.Name})
	}
	if recorded := rec.r.Status.BMC; recorded != nil && recorded.HostName != "" {
		hosts = append(hosts, types.NamespacedName{Namespace: recorded.HostNamespace, Name: recorded.HostName})
	}
	seen := map[types.NamespacedName]bool{}
	return slices.DeleteFunc(hosts, func(key types.NamespacedName) bool {
		double := seen[key]
		seen[key] = true
		return double
	})
}

// keptBy returns why the machine of a BareMetalHost, which may be nil, must not be deleted, or nothing.
func keptBy(host *unstructured.Unstructured) fencing.Reason {
	if host == nil {
		return fencing.KeptHostUnknown
	}
	external, _, wrongSpec := unstructured.NestedBool(host.Object, "spec", "externallyProvisioned")
	state, _, wrongStatus := unstructured.NestedString(host.Object, "status", "provisioning", "state")
	switch {
	case wrongSpec != nil || wrongStatus != nil:
		return fencing.KeptHostUnknown
	case external || state == "externally provisioned":
		return fencing.KeptExternallyProvisioned
	}
	return ""
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=delete

// deleteMachine deletes the recorded machine, or has its owner do so. The UID protects a replacement of its name (I11).
func (c *Client) deleteMachine(ctx context.Context, rec *reconciliation) error {
	if !rec.cluster.isHome() {
		return c.handBack(ctx, rec)
	}
	recorded := rec.r.Status.Machine
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
