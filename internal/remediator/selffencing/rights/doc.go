// Package rights lists the rights of the remediator of SelfFenceRemediation that not every installation grants. They change the Leases in which
// nodes promise to fence themselves, and delete nodes, so they are roles of their own in config/selffence.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=fettle-agents,verbs=get;update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list
package rights
