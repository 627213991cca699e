package machinedeletion

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
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
	case !contract.IsForMachine(r, machineResource.GroupKind()) && m.nodeUID != "" && f.node.found && m.nodeUID != f.node.uid:
		return "machine " + key.String() + " refers to an earlier node of the name " + contract.NodeOf(r) + " (status.nodeRef.uid)"
	}
	return nodeMismatch(r, m)
}

// nodeMismatch says why a machine does not belong to the node of a remediation, or returns an empty text. The machine's
// status decides. A kubelet may have written the annotation of the node, and so caused the owners of the remediation.
func nodeMismatch(r *v1alpha1.MachineDeletionRemediation, m *machineFacts) string {
	switch {
	case contract.IsForMachine(r, machineResource.GroupKind()), m.node == contract.NodeOf(r):
		return ""
	case m.node == "":
		return "machine " + m.key.String() + " does not refer to a node (status.nodeRef), so it is not known to be that of node " + contract.NodeOf(r)
	}
	return "machine " + m.key.String() + " belongs to node " + m.node + " (status.nodeRef), and not to node " + contract.NodeOf(r)
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

// machineAnnotation on a node names its machine, as namespace/name.
const machineAnnotation = "machine.openshift.io/machine"

const (
	machineGroup = "machine.openshift.io"
	machineKind  = "Machine"
)

// machineKey parses namespace/name.
func machineKey(key string) (types.NamespacedName, bool) {
	namespace, name, _ := strings.Cut(key, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}
