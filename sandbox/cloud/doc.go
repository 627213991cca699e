// Package cloud simulates a cloud: it launches, boots and terminates instances, and makes those fail that a person gave
// a fault. An instance that has booted joins the cluster by making its Node, whose kubelet package kubelets plays. It
// knows a Machine only by the request to launch it. Package machineapi decides about machines.
//
//	pending ──bootTime──▶ running ──failsAfter or fault: Terminated──▶ terminated
//	                      └─ fault: Unresponsive stops its kubelet, fault: "" starts it again
//
// How an instance lives and what its kubelet does serves package provider too, whose machines are other clusters'.
package cloud
