// Package kubelets plays the kubelets of nodes that don't exist, by running KWOK as a child process: it makes such
// nodes Ready, renews their leases, posts their heartbeats, and runs and ends the pods bound to them. stages.yaml
// describes what it plays. It knows nothing of machines or clouds.
//
// A node takes part by its annotation kwok.x-k8s.io/node: fake (and must have at least one label, of any kind).
//
//	kubectl label node NAME sandbox.fettle.io/kubelet=stopped   # its kubelet dies: no lease, no status, no pods
//	kubectl label node NAME sandbox.fettle.io/kubelet-          # it comes back
//	kubectl annotate node NAME sandbox.fettle.io/ready=False    # it lives and reports that the node isn't ready
//
// Removing the annotation doesn't stop a kubelet: KWOK filters annotations itself and drops the very event that would tell
// it that the node has left. It lets the API server filter labels, which then says that the node is gone.
package kubelets
