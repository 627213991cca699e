package metal

import "time"

// The credentials of every BMC. No other object has these words, so that a test can look for them everywhere. IPMI has room for 16 bytes of user name.
const (
	User     = "sandbox-bmc-user"
	Password = "sandbox-secret"
)

// Label gives a Node a host.
const (
	Label        = "sandbox.fettle.io/host"
	LabelRedfish = "redfish"
	// LabelBareMetalHost has the host powered through a BareMetalHost of the Node's name in Metal3Namespace.
	LabelBareMetalHost = "baremetalhost"
)

// LabelLink cuts the link of a host: a boot that begins meanwhile is not shown on the Node, and its kubelet starts once the link works. The kubelet
// of a host that is up is stopped by its own label.
const (
	LabelLink    = "sandbox.fettle.io/link"
	LabelLinkCut = "cut"
)

// Annotations of a Node that its user writes.
const (
	// AnnotationBootTime is how long the host boots.
	AnnotationBootTime = "sandbox.fettle.io/boot-time"
	// AnnotationPower presses the button of the host: on or off. It is removed when the host has obeyed.
	AnnotationPower = "sandbox.fettle.io/power"
	// AnnotationRecordAge is how long Ironic doesn't read the power of the host again. The record that Metal3 reads may be so old.
	AnnotationRecordAge = "sandbox.fettle.io/record-age"
	// AnnotationFaults orders faults of the BMC, as a JSON object.
	AnnotationFaults = "sandbox.fettle.io/bmc-faults"
)

// Metal3Namespace is where the BareMetalHosts are.
const Metal3Namespace = "metal3"

// Annotations of a BareMetalHost that its user writes.
const (
	// AnnotationLag is how long the operator waits after a round until the next, unless the object changes.
	AnnotationLag = "sandbox.fettle.io/lag"
	// AnnotationHung keeps the operator from doing a round, as if it hung. Any value counts.
	AnnotationHung = "sandbox.fettle.io/hung"
	// AnnotationError has the operator report this type of error. It powers nothing then.
	AnnotationError = "sandbox.fettle.io/error"
	// AnnotationState is the state of its provisioning. Default: externally provisioned.
	AnnotationState = "sandbox.fettle.io/state"
)

// Annotations of a Node that metal writes.
const (
	// AnnotationAddress is the address of the BMC, as Fettle's BMCs have it.
	AnnotationAddress = "sandbox.fettle.io/bmc-address"
	// AnnotationIPMIAddress is its address for IPMI.
	AnnotationIPMIAddress = "sandbox.fettle.io/ipmi-address"
	// AnnotationFingerprint is the SHA-256 of the certificate of the BMC, in hexadecimal digits.
	AnnotationFingerprint = "sandbox.fettle.io/bmc-fingerprint"
	// AnnotationHostPower is the true power of the host: on or off.
	AnnotationHostPower = "sandbox.fettle.io/host-power"
	// AnnotationRecord is the power of the host as Ironic has recorded it, on or off. A host that Metal3 doesn't manage has none.
	AnnotationRecord = "sandbox.fettle.io/ironic-record"
	// AnnotationFaultsInForce repeats the faults that are in force.
	AnnotationFaultsInForce = "sandbox.fettle.io/bmc-faults-in-force"
	// AnnotationFaultsError is why the ordered faults are not in force.
	AnnotationFaultsError = "sandbox.fettle.io/bmc-faults-error"
	// AnnotationStoppedIn is the boot ID in which the kubelet was stopped. A label that came back with an older boot ID
	// is removed: a restored Node has it.
	AnnotationStoppedIn = "sandbox.fettle.io/kubelet-stopped-in"
)

// Values of AnnotationPower and AnnotationHostPower.
const (
	PowerOn  = "on"
	PowerOff = "off"
)

const (
	defaultBootTime = time.Second
	defaultLag      = 500 * time.Millisecond
)
