// Package rights lists the rights of the remediator of SelfFenceRemediation that not every installation grants. They delete nodes, so they are
// a role of their own in config/selffence. Its rights on the Leases of nodes are in config/selffence/role.yaml, beside the rights of agents.
//
// +kubebuilder:rbac:groups="",resources=nodes,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=fettle.io,resources=fencepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list
package rights
