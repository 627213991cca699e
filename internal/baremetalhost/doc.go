// Package baremetalhost reads and commands the power of one host through its BareMetalHost, by which Metal3's operator powers it.
//
// Nothing acknowledges a command there, and the operator reports the power some time after it has read it. So a host counts as off only
// by two versions of the BareMetalHost that both have Fettle's own annotation. The earlier one must show it on, and the later
// one of the same object must show it off. The operator writes the status of the version that it has read and of no other
// (docs/reference/metal3.md#loop). So it has read the power after the command: the power as Ironic has recorded it, which may be a minute old
// (docs/fencing.md#ironics-record).
//
// Failures are values with a reason. They contain nothing of the operator's error messages, which may quote a BMC.
package baremetalhost
