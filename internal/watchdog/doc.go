// Package watchdog drives the hardware watchdog of the node that it runs on, and resets the node by itself. It is for Linux, and knows
// nothing of Kubernetes. All but the reasons is compiled for Linux alone.
//
// A watchdog resets the node unless it is petted within each timeout. The kernel pets it at other times too, and the times of a promise
// have to include these pets:
//
//   - Opening a watchdog arms it, or pets it if it is armed already. Setting its timeout pets it as well.
//   - A process that ends without Disarm leaves the watchdog armed, and the kernel pets it once more then.
//
// So a process opens the watchdog only at a time at which it may pet it. After the last such time, the node is reset within three timeouts. A
// call that was allowed may stall for less than one. The end of the process pets the watchdog within another. The third one is that of the
// watchdog.
//
// Some things can't be seen from here, and are for the administrator. Options of a driver may have it do something else than a reset. Most drivers
// stop the watchdog while the node is suspended, and once it reboots or shuts down.
package watchdog
