// Package guards tests the guards against a real API server: the leases of nodes, the quorum of the control
// plane, and upgrades.
package guards
