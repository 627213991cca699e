package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node is what the timeline shows of one node.
type node struct {
	name, rack, ready string
	uid               types.UID
}

// request is a remediation object. Its kind names the remediator.
type request struct {
	kind, node string
	uid        types.UID
	// processing and succeeded are the remediator's conditions. deleting is set once the health checker has deleted the
	// object.
	processing, succeeded string
	deleting              bool
}

// nodes is the state of all nodes at one instant.
type nodes struct {
	byName   map[string]node
	requests map[string]request
	repairs  map[string]string
	check    nodeCheck
}

// nodeCheck is what a NodeHealthCheck's status says.
type nodeCheck struct {
	observed, healthy int64
	phase, reason     string
	// allowed, gate and message are from the condition that says whether nodes may be remediated.
	allowed, gate, message string
}

// remediationKinds are the kinds of the demo's remediators.
var remediationKinds = [...]string{"RebootRemediation", "ReprovisionRemediation"}

// lookAtNodes reads the state.
func (s *demo) lookAtNodes(ctx context.Context) (nodes, error) {
	shot := nodes{byName: map[string]node{}, requests: map[string]request{}}
	var list corev1.NodeList
	if err := s.Client.List(ctx, &list); err != nil {
		return shot, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		shot.byName[n.Name] = node{name: n.Name, uid: n.UID, rack: n.Labels["rack"], ready: readyText(n)}
	}
	for _, kind := range remediationKinds {
		objects, err := s.list(ctx, "sandbox.fettle.io/v1alpha1", kind+"List")
		if err != nil {
			return shot, err
		}
		for i := range objects {
			shot.requests[kind+" "+objects[i].GetName()] = readRequest(kind, &objects[i])
		}
	}
	var err error
	if shot.repairs, err = s.repairs(ctx); err != nil {
		return shot, err
	}
	shot.check, err = s.readNodeCheck(ctx)
	return shot, err
}

func readRequest(kind string, u *unstructured.Unstructured) request {
	r := request{kind: kind, node: u.GetName(), uid: u.GetUID(), deleting: u.GetDeletionTimestamp() != nil}
	if name := u.GetAnnotations()["remediation.medik8s.io/node-name"]; name != "" {
		r.node = name
	}
	r.processing, _, _ = conditionOf(u, "Processing")
	r.succeeded, _, _ = conditionOf(u, "Succeeded")
	return r
}

func (s *demo) readNodeCheck(ctx context.Context) (nodeCheck, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("remediation.medik8s.io/v1alpha1")
	u.SetKind("NodeHealthCheck")
	if err := s.Client.Get(ctx, types.NamespacedName{Name: checkName}, u); client.IgnoreNotFound(err) != nil {
		return nodeCheck{}, fmt.Errorf("reading the health check: %w", err)
	}
	var c nodeCheck
	c.observed, _, _ = unstructured.NestedInt64(u.Object, "status", "observedNodes")
	c.healthy, _, _ = unstructured.NestedInt64(u.Object, "status", "healthyNodes")
	c.phase, _, _ = unstructured.NestedString(u.Object, "status", "phase")
	c.reason, _, _ = unstructured.NestedString(u.Object, "status", "reason")
	c.allowed, c.gate, c.message = conditionOf(u, "RemediationAllowed")
	return c, nil
}

// inRack returns the nodes of a rack by name.
func (s nodes) inRack(rack string) []node {
	var found []node
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if n := s.byName[name]; n.rack == rack {
			found = append(found, n)
		}
	}
	return found
}

// wellOff reports whether all nodes exist and are ready, the health check agrees, and there is no remediation object.
func (s nodes) wellOff() bool {
	for _, n := range s.byName {
		if n.ready != "True" {
			return false
		}
	}
	return len(s.byName) == nodesInAll && s.check.healthy == nodesInAll && len(s.requests) == 0
}

// requested reports whether the node has a remediation object of this kind.
func (s nodes) requested(kind, name string) bool {
	for _, r := range s.requests {
		if r.kind == kind && r.node == name {
			return true
		}
	}
	return false
}

// onlyRequested returns an error if any other node has a remediation object.
func (s nodes) onlyRequested(expected ...string) error {
	for _, key := range slices.Sorted(maps.Keys(s.requests)) {
		if r := s.requests[key]; !slices.Contains(expected, r.node) {
			return fmt.Errorf("a %s asks for node %s to be repaired, and none should", r.kind, r.node)
		}
	}
	return nil
}

// tellNodes prints what has changed.
func tellNodes(before, now nodes) {
	for _, name := range slices.Sorted(maps.Keys(now.byName)) {
		was, known := before.byName[name]
		tellNode(was, now.byName[name], known)
	}
	for _, name := range slices.Sorted(maps.Keys(before.byName)) {
		if _, exists := now.byName[name]; !exists {
			saw("node", "%s is gone", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.requests)) {
		tellRequest(before.requests[name], now.requests[name])
	}
	for _, name := range slices.Sorted(maps.Keys(before.requests)) {
		if _, exists := now.requests[name]; !exists {
			saw("asked", "%s is gone", name)
		}
	}
	tellRepairs(before.repairs, now.repairs)
	tellNodeCheck(before.check, now.check)
}

func tellNode(before, now node, known bool) {
	switch {
	case !known:
		saw("node", "%s registers (%s)", now.name, now.rack)
	case now.uid != before.uid:
		saw("node", "%s is gone, and another registers under its name", now.name)
	case now.ready != before.ready:
		saw("node", "%s: Ready is %s", now.name, now.ready)
	}
}

func tellRequest(before, now request) {
	what := now.kind + " for " + now.node
	if now.uid != before.uid {
		before = request{}
		saw("asked", "%s is made from its template", what)
	}
	if now.processing != before.processing || now.succeeded != before.succeeded {
		saw("asked", "%s says: Processing=%s Succeeded=%s", what, now.processing, now.succeeded)
	}
	if now.deleting && !before.deleting {
		saw("asked", "%s is withdrawn", what)
	}
}

func tellNodeCheck(before, now nodeCheck) {
	if now.observed != before.observed || now.healthy != before.healthy {
		saw("check", "%s: %d of %d nodes are healthy", checkName, now.healthy, now.observed)
	}
	if now.phase != before.phase {
		saw("check", "%s: %s, %s", checkName, now.phase, now.reason)
	}
	if now.allowed != before.allowed || now.gate != before.gate {
		saw("check", "%s: RemediationAllowed is %s %s", checkName, now.allowed, now.gate)
	}
}
