package promiselease

// NoPromise is why the agent of a node promises nothing, as the agent states it in its Lease. The names are those of package watchdog, and the
// policy lease.fettle.io lists them too.
type NoPromise string

// Values of NoPromise.
const (
	// NoWatchdog: the device of the FencePolicy doesn't exist, or is no watchdog.
	NoWatchdog NoPromise = "NoWatchdog"
	// WatchdogBusy: another process has the watchdog open.
	WatchdogBusy NoPromise = "WatchdogBusy"
	// WatchdogForbidden: the agent may not open the watchdog.
	WatchdogForbidden NoPromise = "WatchdogForbidden"
	// SoftwareWatchdog: the kernel itself plays the watchdog, and the FencePolicy demands a hardware watchdog.
	SoftwareWatchdog NoPromise = "SoftwareWatchdog"
	// AlarmOnly: the watchdog resets nothing.
	AlarmOnly NoPromise = "AlarmOnly"
	// WatchdogStopsOnClose: the watchdog stops when the process of the agent ends in any way.
	WatchdogStopsOnClose NoPromise = "WatchdogStopsOnClose"
	// WatchdogTimeout: the watchdog refuses the timeout, doesn't tell the one it has, or has a timeout out of bounds.
	WatchdogTimeout NoPromise = "WatchdogTimeout"
	// WatchdogFailed: a call of the watchdog has failed in another way.
	WatchdogFailed NoPromise = "WatchdogFailed"
	// VirtualMachine: the node is a virtual machine, and the FencePolicy doesn't allow these.
	VirtualMachine NoPromise = "VirtualMachine"
	// MachineUnknown: nothing tells whether the node is a virtual machine.
	MachineUnknown NoPromise = "MachineUnknown"
	// PolicyUnreadable: the agent can't read the FencePolicies, or has no use for a setting in them.
	PolicyUnreadable NoPromise = "PolicyUnreadable"
)

// AllNoPromises returns each value of NoPromise.
func AllNoPromises() []NoPromise {
	return []NoPromise{
		NoWatchdog, WatchdogBusy, WatchdogForbidden, SoftwareWatchdog, AlarmOnly, WatchdogStopsOnClose, WatchdogTimeout, WatchdogFailed,
		VirtualMachine, MachineUnknown, PolicyUnreadable,
	}
}

// Text returns what a reason says to people.
func (n NoPromise) Text() string {
	switch n {
	case NoWatchdog:
		return "the watchdog that its policy names doesn't exist, or is no watchdog"
	case WatchdogBusy:
		return "another process of the node has the watchdog open"
	case WatchdogForbidden:
		return "its agent may not open the watchdog"
	case SoftwareWatchdog:
		return "its watchdog is one of the kernel's software, and its policy demands hardware"
	case AlarmOnly:
		return "its watchdog raises an alarm and resets nothing"
	case WatchdogStopsOnClose:
		return "its watchdog stops when the process of the agent ends"
	case WatchdogTimeout:
		return "its watchdog refuses the timeout of its policy, or has a timeout out of bounds"
	case WatchdogFailed:
		return "a call of its watchdog has failed; the log of its agent says more"
	case VirtualMachine:
		return "it is a virtual machine, and its policy doesn't allow these"
	case MachineUnknown:
		return "its agent can't find out whether it is a virtual machine"
	case PolicyUnreadable:
		return "its agent can't read the FencePolicies, or doesn't know a setting of its policy"
	}
	return "its agent gives no reason"
}
