package slim

// The labels of nodes of the control plane. The admission plugin NodeRestriction keeps a kubelet from setting them on
// its own Node.
const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	masterLabel       = "node-role.kubernetes.io/master"
	// EtcdLabel marks a node with a member of etcd. Some distributions have separate nodes for etcd.
	EtcdLabel = "node-role.kubernetes.io/etcd"
)

// ExcludeLabel, with the value "true", keeps a node from being repaired (docs/reference/medik8s.md#labels-and-annotations).
const ExcludeLabel = "remediation.medik8s.io/exclude-from-remediation"

// ControlPlaneLabels returns the labels of the control plane. Each counts with any value.
func ControlPlaneLabels() []string { return []string{controlPlaneLabel, masterLabel, EtcdLabel} }

// OfControlPlane reports whether a node with the labels is part of the control plane.
func (l Labels) OfControlPlane() bool {
	return l.Has(controlPlaneLabel) || l.Has(masterLabel) || l.Has(EtcdLabel)
}
