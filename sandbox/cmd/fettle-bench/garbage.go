package main

import "fmt"

// The API server and etcd have 0.7 to 1.2 GB in use for 5,000 nodes, and a heartbeat leaves one megabyte of garbage.
// With Go's own settings the sandbox collects it every ten seconds, which takes a second or two of both cores of a
// small machine: the figures would show when that was. A control plane in use has machines of its own.
const (
	// garbagePercent is how much garbage piles up before the sandbox collects it, in percent of the memory in use.
	garbagePercent = 400
	// memoryShare is the percentage of the host's memory beyond which the sandbox collects as often as needed.
	memoryShare = 60
)

// lazily returns the environment in which the sandbox spends memory to save the processor. Variables of the caller win.
// Memory is its share of the host's memory in MiB, or zero where that is not known.
func lazily(lookup func(string) (string, bool), memory float64) []string {
	var environment []string
	if _, set := lookup("GOGC"); !set && memory > 0 {
		environment = append(environment, fmt.Sprintf("GOGC=%d", garbagePercent))
	}
	if _, set := lookup("GOMEMLIMIT"); !set && memory > 0 {
		environment = append(environment, fmt.Sprintf("GOMEMLIMIT=%dMiB", int64(memory)*memoryShare/100))
	}
	return environment
}
