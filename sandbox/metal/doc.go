// Package metal simulates bare-metal hosts behind BMCs. Each Node with the label sandbox.fettle.io/host: redfish has a
// host and a BMC of its name. A host outlives its Node.
//
// A host has a power, a boot ID and a kubelet. The kubelet runs from the end of a boot until the power goes off, except
// while it is stopped by the label of package kubelets. A host whose kubelet was stopped by hand stays on.
//
// A host with the label sandbox.fettle.io/host: baremetalhost has a BareMetalHost too, and a stand-in of Metal3's operator.
//
// A client powers a host through its BMC, or has the operator do that. The Node's annotations name the BMC, order its faults, press the button of the
// host, and tell its true power.
package metal
