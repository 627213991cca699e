package cli

import "time"

const kindBMCCheck = "BMCCheck"

// BMCCheck is the answer to fettle bmc check.
type BMCCheck struct {
	Header

	// Outcome is Passed, Problems or NotChecked, and Message says in a sentence why.
	Outcome string `json:"outcome"`
	Message string `json:"message"`
	Node    string `json:"node"`
	// BMC is what Fettle wrote last about the BMC of the node, if there is one.
	BMC *BMCState `json:"bmc,omitempty"`
	// Address is its address in one form, however it was written.
	Address string `json:"address,omitempty"`
	// Checks are in the order in which Fettle depends on them.
	Checks []BMCStep `json:"checks"`
	// Fingerprint is the SHA-256 fingerprint of the certificate that the BMC presented, if that is not trusted.
	Fingerprint string `json:"fingerprint,omitempty"`
	// HeldUntil is until when no login is tried, if there was none for that reason.
	HeldUntil *time.Time `json:"heldUntil,omitempty"`
	// Power is On, Off or Unknown, if it was read.
	Power string `json:"power,omitempty"`
}

// BMCStep is the result of one check of a BMC.
type BMCStep struct {
	// Check is BMC, Address, Secret, Connection, Certificate, Login, Power, System, or Resets where a reset is not allowed or that can't be
	// read. For a BMC that names a BareMetalHost it is BMC,
	// Metal3 or Power.
	Check string `json:"check"`
	// State is Works, Fails, Unknown or NotTried.
	State   string `json:"state"`
	Message string `json:"message"`
}

// These are the checks of a BMC.
const (
	checkBMC         = "BMC"
	checkAddress     = "Address"
	checkSecret      = "Secret"
	checkConnection  = "Connection"
	checkCertificate = "Certificate"
	checkLogin       = "Login"
	checkMetal3      = "Metal3"
	checkPower       = "Power"
	checkResets      = "Resets"
	checkSystem      = "System"
)

// These are the results of a check.
const (
	works    = "Works"
	fails    = "Fails"
	unknown  = "Unknown"
	untested = "NotTried"
)
