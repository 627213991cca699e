// Package selffence tests nodes that fence themselves as real processes. Each node has namespaces of processes, mounts, networks and time, a
// boot ID, and the agent as it is installed. A stand-in for its watchdog is outside of them. It kills all processes of a node that doesn't pet
// it, and boots the node with another boot ID.
//
// The agent opens a device and drives it by ioctl. The device is that of /dev/null, and a filter of system calls hands the requests of
// watchdogs to the stand-in. So the agent has no code for tests.
package selffence
