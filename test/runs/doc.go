// Package runs reads the log of running pods that a sandbox with bare-metal hosts writes. It finds pods of StatefulSets
// that ran twice at a time: under the same name on two hosts.
package runs
