// Package rights lists the rights of the remediator of PowerRemediation that not every installation grants. They read
// Secrets and delete nodes, so they are a role of their own in config/power.
//
// The Secrets with the credentials of BMCs are in one namespace.
//
// +kubebuilder:rbac:groups="",resources=secrets,namespace=fettle-system,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get
package rights
