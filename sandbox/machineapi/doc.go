// Package machineapi simulates the controllers of a Machine API on top of package cloud, and behaves like the real ones
// where that is visible: phases, conditions, hooks, drains, replacement by machine sets, and the node reference. It
// judges no machine's health: the users of the sandbox do that.
//
//	machine set ──creates──▶ machine ──launches──▶ instance ──joins as──▶ node ◀──refers to── machine
//
// Four controllers, each in files of its own, share one manager:
//
//	machineset   keeps the number of machines, without machines in deletion
//	machine      launches and terminates instances: Provisioning, Provisioned, Running, Deleting, Failed
//	drain        empties the node of a machine in phase Deleting
//	nodelink     finds a machine's node by its provider ID, and copies labels, annotations and taints to it
//
// The first three write the status of the same machine. Each write carries the version that it was made from. A write
// that lost a race is dropped silently, since the winner's event brings the machine here again.
package machineapi
