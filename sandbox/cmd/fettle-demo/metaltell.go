package main

import (
	"maps"
	"slices"
)

// tellMetal prints what has changed.
func tellMetal(before, now metals) {
	tellRepairs(before.repairs, now.repairs)
	for _, name := range slices.Sorted(maps.Keys(now.fencings)) {
		tellFencing(name, before.fencings[name], now.fencings[name])
	}
	for _, name := range slices.Sorted(maps.Keys(now.nodes)) {
		was, known := before.nodes[name]
		tellMetalNode(was, now.nodes[name], known)
	}
	for _, name := range slices.Sorted(maps.Keys(before.nodes)) {
		if _, exists := now.nodes[name]; !exists {
			saw("node", "%s is gone", name)
		}
	}
	tellMetalMachines(before.machines, now.machines)
	tellDatabase(before.database, before.running, now.database, now.running)
}

// tellDatabase prints where the pod of the database is, and whether it runs, if that has changed.
func tellDatabase(was string, ran bool, is string, runs bool) {
	switch {
	case runs && (is != was || !ran):
		saw("pod", "%s runs on %s", databasePod, is)
	case ran && !runs && is != "":
		saw("pod", "%s is to leave %s", databasePod, is)
	}
}

func tellMetalNode(before, now metalNode, known bool) {
	if !known {
		saw("node", "%s registers", now.name)
		return
	}
	if now.ready != before.ready {
		saw("node", "%s: Ready is %s", now.name, now.ready)
	}
	if now.power != before.power && before.power != "" {
		saw("host", "%s is %s", now.name, now.power)
	}
	if now.boot != before.boot && before.boot != "" {
		saw("host", "%s has booted: its boot ID is %s and was %s", now.name, short(now.boot), short(before.boot))
	}
	for _, taint := range []struct {
		key         string
		before, now bool
	}{{fencingTaint + ":NoExecute", before.fenced, now.fenced}, {"node.kubernetes.io/out-of-service", before.outOfService, now.outOfService}} {
		switch {
		case taint.now && !taint.before:
			saw("node", "%s has the taint %s", now.name, taint.key)
		case taint.before && !taint.now:
			saw("node", "%s has the taint %s no more", now.name, taint.key)
		}
	}
}

// short returns the first part of a boot ID.
func short(id string) string { return id[:min(len(id), 8)] }

// phases says what Fettle does in each phase of a fencing.
func phases(phase string) string {
	return map[string]string{
		"Preparing":       "it records the boot ID of the node, taints the node, and commands the power off",
		"PoweringOff":     "it commands the power off, and reads it until the host is proven to be off",
		"Releasing":       "it releases the workload, which may start elsewhere",
		"PoweringOn":      "it commands the power on",
		"Booting":         "it waits until the node is Ready in another boot",
		"Restoring":       "it changes back what it changed on the node",
		"Succeeded":       "the node is back",
		"DeletingMachine": "it deletes the machine, for the machine set to create another",
		"Failed":          "it does no more, and holds the workload",
	}[phase]
}

func tellFencing(name string, before, now fencing) {
	if now.uid != before.uid {
		before = fencing{}
		saw("fencing", "a PowerRemediation is created for %s", name)
	}
	if now.proof != before.proof && now.proof != "" {
		saw("fencing", "%s: the proof is %s", name, map[string]string{"PowerOff": "that the power was off", "NewBoot": "another boot ID"}[now.proof])
	}
	if now.phase != before.phase && phases(now.phase) != "" {
		saw("fencing", "%s: %s: %s", name, now.phase, phases(now.phase))
	}
	if now.waits != before.waits && now.waits != "" {
		saw("fencing", "%s waits: %s", name, now.waits)
	}
	if now.withdrawn && !before.withdrawn {
		saw("fencing", "the PowerRemediation of %s is withdrawn", name)
	}
}

func tellMetalMachines(before, now map[string]metalMachine) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, known := before[name]
		switch {
		case !known:
			saw("machine", "%s is created", name)
		case now[name].deleting && !was.deleting:
			saw("machine", "%s is being deleted", name)
		case now[name].phase == "Running" && was.phase != "Running":
			saw("machine", "%s runs", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, exists := now[name]; !exists {
			saw("machine", "%s is gone", name)
		}
	}
}
