package machinedeletion

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// machineMismatch says why the remediation was made for another machine, or returns an empty text. A replacement may
// have the machine's name, its node's name, or both.
func machineMismatch(f *facts, key types.NamespacedName, uid types.UID) string {
	m, r := f.machine, f.remediation
	switch {
	case !m.found:
		return "there is no machine " + key.String()
	case uid != "" && m.uid != uid:
		return "machine " + key.String() + " is not the machine that owns this remediation"
	case uid == "" && !m.created.Before(r.CreationTimestamp.Time):
		return "machine " + key.String() + " is not older than this remediation, so it was not meant"
	case !aboutMachine(r) && m.nodeUID != "" && f.node.found && m.nodeUID != f.node.uid:
		return "machine " + key.String() + " refers to an earlier node of the name " + nodeOf(r) + " (status.nodeRef.uid)"
	}
	return nodeMismatch(r, m)
}

// nodeMismatch says why a machine does not belong to the node of a remediation, or returns an empty text. The machine's
// status decides. A kubelet may have written the annotation of the node, and so caused the owners of the remediation.
func nodeMismatch(r *v1alpha1.MachineDeletionRemediation, m *machineFacts) string {
	switch {
	case aboutMachine(r), m.node == nodeOf(r):
		return ""
	case m.node == "":
		return "machine " + m.key.String() + " does not refer to a node (status.nodeRef), so it is not known to be that of node " + nodeOf(r)
	}
	return "machine " + m.key.String() + " belongs to node " + m.node + " (status.nodeRef), and not to node " + nodeOf(r)
}

// namespaceMismatch says that a machine is in another namespace than the remediation, or returns an empty text. The
// right to create remediations in one namespace must not reach the machines of another.
func namespaceMismatch(r *v1alpha1.MachineDeletionRemediation, machine types.NamespacedName) string {
	if machine.Namespace == r.Namespace {
		return ""
	}
	return "machine " + machine.String() + " is not in the namespace of this remediation, " + r.Namespace +
		"; keep the MachineDeletionRemediationTemplate, or create the remediation, in namespace " + machine.Namespace
}

// nodeOf returns the name of the node that a remediation is about.
func nodeOf(r *v1alpha1.MachineDeletionRemediation) string {
	if name := r.Annotations[v1alpha1.NodeNameAnnotation]; name != "" {
		return name
	}
	return r.Name
}

// machineAnnotation on a node names its machine, as namespace/name.
const machineAnnotation = "machine.openshift.io/machine"

const (
	machineGroup = "machine.openshift.io"
	machineKind  = "Machine"
)

// ownerMachine returns the machine that owns a remediation, if one does.
func ownerMachine(r *v1alpha1.MachineDeletionRemediation) (types.NamespacedName, types.UID, bool) {
	for _, o := range r.OwnerReferences {
		if schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind() == machineResource.GroupKind() {
			return types.NamespacedName{Namespace: r.Namespace, Name: o.Name}, o.UID, true
		}
	}
	return types.NamespacedName{}, "", false
}

// aboutMachine reports whether a remediation is for a machine rather than for a node, as a health check of machines
// creates it. It has the name of the machine, has no other owner, and names no node.
func aboutMachine(r *v1alpha1.MachineDeletionRemediation) bool {
	machine, _, owned := ownerMachine(r)
	return owned && len(r.OwnerReferences) == 1 && machine.Name == r.Name && r.Annotations[v1alpha1.NodeNameAnnotation] == ""
}

// machineKey parses namespace/name.
func machineKey(text string) (types.NamespacedName, bool) {
	namespace, name, _ := strings.Cut(text, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}
