package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespaceOfAgents = "fettle-agents"
	promiseState      = "fettle.io/promise-state"
	promiseBoot       = "fettle.io/promise-boot"
)

// promise is what the Lease of a node says.
type promise struct{ state, boot string }

// fences is the state of all nodes that fence themselves, at one instant.
type fences struct {
	nodes    map[string]metalNode
	promises map[string]promise
	// fencings are by the name of the node.
	fencings map[string]fencing
	repairs  map[string]string
	// database is the node on which the pod of the database is, or "". running is set once it runs there.
	database string
	running  bool
}

// lookAtFences reads the state.
func (s *demo) lookAtFences(ctx context.Context) (fences, error) {
	shot := fences{promises: map[string]promise{}, fencings: map[string]fencing{}}
	var err error
	if shot.nodes, err = s.metalNodes(ctx); err != nil {
		return shot, err
	}
	var leases coordinationv1.LeaseList
	if err := s.Client.List(ctx, &leases, client.InNamespace(namespaceOfAgents)); err != nil {
		return shot, fmt.Errorf("listing the Leases of nodes: %w", err)
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		shot.promises[l.Name] = promise{l.Annotations[promiseState], l.Annotations[promiseBoot]}
	}
	objects, err := s.list(ctx, fettles, "SelfFenceRemediationList")
	if err != nil {
		return shot, err
	}
	for i := range objects {
		name := objects[i].GetName()
		if node := objects[i].GetAnnotations()["remediation.medik8s.io/node-name"]; node != "" {
			name = node
		}
		shot.fencings[name] = readFencing(&objects[i])
	}
	if shot.repairs, err = s.repairs(ctx); err != nil {
		return shot, err
	}
	shot.database, shot.running, err = s.databaseAt(ctx)
	return shot, err
}

// wellOff reports whether all nodes are ready, each promises something in its boot, and nothing is being repaired.
func (f fences) wellOff() bool {
	for name, n := range f.nodes {
		if n.ready != "True" || n.fenced || n.outOfService || f.promises[name] != (promise{"Promised", n.boot}) {
			return false
		}
	}
	return len(f.nodes) == fencersInAll && len(f.fencings) == 0
}

// boots returns the boot IDs of all nodes.
func (f fences) boots() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		all = append(all, name+" "+f.nodes[name].boot)
	}
	return strings.Join(all, ", ")
}

// only returns an error if anything is done to another node.
func (f fences) only(expected string) error {
	for name := range f.fencings {
		if name != expected {
			return fmt.Errorf("node %s is being fenced, and should not be", name)
		}
	}
	for name, n := range f.nodes {
		if (n.fenced || n.outOfService) && name != expected {
			return fmt.Errorf("node %s has a taint of a fencing, and should not", name)
		}
	}
	return nil
}

// tellFences prints what has changed.
func tellFences(before, now fences) {
	tellRepairs(before.repairs, now.repairs)
	for _, name := range slices.Sorted(maps.Keys(now.fencings)) {
		tellSelfFencing(name, before.fencings[name], now.fencings[name])
	}
	for _, name := range slices.Sorted(maps.Keys(now.nodes)) {
		was, known := before.nodes[name]
		tellMetalNode(was, now.nodes[name], known)
	}
	for _, name := range slices.Sorted(maps.Keys(now.promises)) {
		if p := now.promises[name]; p != before.promises[name] {
			saw("lease", "%s: %s, in boot %s", name, p.state, short(p.boot))
		}
	}
	tellDatabase(before.database, before.running, now.database, now.running)
}

func tellSelfFencing(name string, before, now fencing) {
	if now.uid != before.uid {
		before = fencing{}
		saw("fencing", "a SelfFenceRemediation is created for %s", name)
	}
	if now.proof != before.proof && now.proof != "" {
		saw("fencing", "%s: the proof is %s", name, map[string]string{"PromiseExpired": "that its promise has expired", "NewBoot": "another boot ID"}[now.proof])
	}
	if text := fencePhases(now.phase); now.phase != before.phase && text != "" {
		saw("fencing", "%s: %s: %s", name, now.phase, text)
	}
	if now.waits != before.waits && now.waits != "" {
		saw("fencing", "%s waits: %s", name, now.waits)
	}
}

// fencePhases says what Fettle does in each phase.
func fencePhases(phase string) string {
	return map[string]string{
		"Preparing":  "it records the boot ID of the node, and taints the node",
		"Condemning": "it revokes the promise of the node, so that the node resets itself",
		"Releasing":  "it releases the workload, which may start elsewhere",
		"Booting":    "it waits until the node is Ready in another boot",
		"Restoring":  "it changes back what it changed on the node, and frees its Lease",
		"Succeeded":  "the node is back",
	}[phase]
}
