// Package remediator simulates two remediators of the kind that clusters without a Machine API install. A health
// checker makes objects from their templates. The remediators follow the contract of external remediators:
//
//	created          find the node, add a finalizer, Processing=True, Succeeded=Unknown
//	…the time is up  the node is back: Processing=False, Succeeded=True (or False, where it must fail)
//	nhc-timed-out    stop: Processing=False, Succeeded=False, unless it has succeeded already
//	deleted          undo the work, and remove the finalizer
//
// A RebootRemediation cordons its node while it works, and revives its kubelet; of a simulated machine's node it revives
// the instance. A ReprovisionRemediation removes its node, says that this is permanent, and lets another register under
// the same name. The roles that health checkers need for it are in cluster_role.yaml.
//
//	kubectl annotate node NAME sandbox.fettle.io/reboot=fails   # the node's disk is broken: no reboot brings it back
package remediator
