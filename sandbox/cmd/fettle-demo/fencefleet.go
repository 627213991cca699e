package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespaceOfAgents = "fettle-agents"
	promiseState      = "fettle.io/promise-state"
	promiseBoot       = "fettle.io/promise-boot"
	promiseTimed      = "fettle.io/promise-timed"
	promiseExpired    = "PromiseExpired"
	promiseWitnesses  = "fettle.io/promise-witnesses"
)

// promise is what the Lease of a node says.
type promise struct{ state, boot, timed, witnesses string }

// fences is the state of all nodes that fence themselves, at one instant.
type fences struct {
	nodes    map[string]metalNode
	promises map[string]promise
	// fencings are by the name of the node.
	fencings map[string]fencing
	repairs  map[string]string
	// resets are how often each host was reset, by its watchdog or by its agent.
	resets map[string]int
	// database is the node on which the pod of the database is, or "". running is set once it runs there.
	database string
	running  bool
}

// lookAtFences reads the state.
func (s *demo) lookAtFences(ctx context.Context) (fences, error) {
	shot := fences{promises: map[string]promise{}, fencings: map[string]fencing{}}
	var err error
	if shot.resets, err = s.resets(); err != nil {
		return shot, err
	}
	if shot.nodes, err = s.metalNodes(ctx); err != nil {
		return shot, err
	}
	var leases coordinationv1.LeaseList
	if err := s.Client.List(ctx, &leases, client.InNamespace(namespaceOfAgents)); err != nil {
		return shot, fmt.Errorf("listing the Leases of nodes: %w", err)
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		shot.promises[l.Name] = promise{
			l.Annotations[promiseState], l.Annotations[promiseBoot], l.Annotations[promiseTimed], l.Annotations[promiseWitnesses],
		}
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

// resets reads from the log of the agents how often each host was reset. The log has that also while the API server is away.
func (s *demo) resets() (map[string]int, error) {
	resets := map[string]int{}
	text, err := os.ReadFile(filepath.Join(s.Dir, logOfAgents+".log"))
	if errors.Is(err, fs.ErrNotExist) {
		return resets, nil // they have not been started yet
	}
	if err != nil {
		return nil, fmt.Errorf("reading the log of the agents: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && strings.Contains(line, ": RESET: ") {
			resets[words[1]]++
		}
	}
	return resets, nil
}

// wellOff reports whether all nodes are ready, each promises in its boot to reset itself in time, and nothing is being repaired.
func (f fences) wellOff() bool {
	for name, n := range f.nodes {
		p := f.promises[name]
		if n.ready != "True" || n.fenced || n.outOfService || p.state != "Promised" || p.boot != n.boot || p.timed != "true" || p.witnesses == "" {
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

// onlyReset returns an error if another host was reset than the expected one, or that one more than once.
func (f fences) onlyReset(before map[string]int, expected string) error {
	for name, count := range f.resets {
		allowed := before[name]
		if name == expected {
			allowed++
		}
		if count > allowed {
			return fmt.Errorf("host %s was reset %d times, and should have been at most %d times", name, count, allowed)
		}
	}
	return nil
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
			saw("lease", "%s: %s, in boot %s%s", name, p.state, short(p.boot), witnessesText(p))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.resets)) {
		if now.resets[name] > before.resets[name] {
			saw("host", "%s resets itself", name)
		}
	}
	tellDatabase(before.database, before.running, now.database, now.running)
}

func witnessesText(p promise) string {
	switch {
	case p.state != "Promised":
		return ""
	case p.timed != "true":
		return ", without a time"
	}
	return ", with a time and the witnesses " + p.witnesses
}

func tellSelfFencing(name string, before, now fencing) {
	if now.uid != before.uid {
		before = fencing{}
		saw("fencing", "a SelfFenceRemediation is created for %s", name)
	}
	if now.proof != before.proof && now.proof != "" {
		saw("fencing", "%s: the proof is %s", name, map[string]string{promiseExpired: "that its promise has expired", "NewBoot": "another boot ID"}[now.proof])
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
