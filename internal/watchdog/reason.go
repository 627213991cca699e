package watchdog

// Reason is why a node has no watchdog that a promise could rest on, or why something else of this package failed.
type Reason string

// Reasons.
const (
	// NoWatchdog means that the device doesn't exist, or is no watchdog.
	NoWatchdog Reason = "NoWatchdog"
	// WatchdogBusy means that another process has the watchdog open. Often that is systemd, or Talos.
	WatchdogBusy Reason = "WatchdogBusy"
	// WatchdogForbidden means that this process may not open the watchdog.
	WatchdogForbidden Reason = "WatchdogForbidden"
	// SoftwareWatchdog means that the kernel itself plays the watchdog. It doesn't reset a node whose kernel hangs.
	SoftwareWatchdog Reason = "SoftwareWatchdog"
	// AlarmOnly means that the watchdog raises an alarm and resets nothing.
	AlarmOnly Reason = "AlarmOnly"
	// WatchdogStopsOnClose means that the watchdog stops when its process ends in any way, so that it doesn't reset the node then.
	WatchdogStopsOnClose Reason = "WatchdogStopsOnClose"
	// WatchdogTimeout means that the watchdog refuses the timeout, that it doesn't tell the one it has, or that this is out of bounds.
	WatchdogTimeout Reason = "WatchdogTimeout"
	// WatchdogFailed means that a call of the watchdog failed in another way.
	WatchdogFailed Reason = "WatchdogFailed"
	// MayNotPet means that opening the watchdog or setting its timeout would pet it, and that this is not allowed now.
	MayNotPet Reason = "MayNotPet"
	// NoWayOut means that the watchdog can't be disarmed before the next boot.
	NoWayOut Reason = "NoWayOut"
	// VirtualMachine means that the node is a virtual machine. Its watchdog stops when it is paused.
	VirtualMachine Reason = "VirtualMachine"
	// MachineUnknown means that nothing tells whether the node is a virtual machine.
	MachineUnknown Reason = "MachineUnknown"
	// NoSysrq means that the node can't be reset through /proc/sysrq-trigger.
	NoSysrq Reason = "NoSysrq"
)
