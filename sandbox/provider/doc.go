// Package provider simulates the providers that Cluster API calls, and keeps their v1beta2 contract. A machine of
// theirs is an instance of package cloud in all but kind: it boots, joins the workload cluster as the node of its name,
// and fails at a user's request. The kubelets of its nodes are played by the sandbox that runs the workload cluster.
//
//	SandboxCluster          is provisioned as soon as it has an endpoint
//	SandboxBootstrapConfig  gets a secret with nothing of use in it
//	KubeadmConfig           the same; kubeadm's control planes make it
//	SandboxMachine          boots when the two are there; when it is deleted, its node goes before it
package provider
