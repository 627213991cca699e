package slim

// The labels by which a node belongs to the control plane. The admission plugin NodeRestriction keeps a
// kubelet from setting any of them on its own Node.
const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	masterLabel       = "node-role.kubernetes.io/master"
	// EtcdLabel says that the node has a member of etcd. Some distributions have nodes for etcd alone.
	EtcdLabel = "node-role.kubernetes.io/etcd"
)

// ExcludeLabel, with the value "true", keeps a node from being repaired (docs/reference/medik8s.md#labels-and-annotations).
const ExcludeLabel = "remediation.medik8s.io/exclude-from-remediation"

// ControlPlaneLabels returns the labels that each put a node into the control plane, whatever their value.
func ControlPlaneLabels() []string { return []string{controlPlaneLabel, masterLabel, EtcdLabel} }

// OfControlPlane reports whether labels put a node into the control plane.
func (l Labels) OfControlPlane() bool {
	return l.Has(controlPlaneLabel) || l.Has(masterLabel) || l.Has(EtcdLabel)
}
