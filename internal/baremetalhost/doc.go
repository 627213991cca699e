// Package baremetalhost reads and commands the power of one host through its BareMetalHost, by which Metal3's operator powers it.
//
// Nothing acknowledges a command there, and the operator reports the power some time after it has read it. So a host counts as off only
// where it was seen on in a version of the BareMetalHost that has Fettle's own annotation, and off in a later version of the same
// object that still has it. The operator writes the status of the version that it has read and of no other
// (docs/reference/metal3.md#loop). So it has read the power after the command: the power as Ironic has recorded it, which may be a minute old
// (docs/fencing.md#ironics-record).
//
// Failures are values with a reason. They contain nothing of the operator's error messages, which may quote a BMC.
package baremetalhost
