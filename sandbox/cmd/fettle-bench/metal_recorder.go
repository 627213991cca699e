package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// The paths of the objects that the recorder writes.
const (
	pathOfNodes        = "/api/v1/nodes"
	pathOfLeases       = "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases"
	pathOfRepairs      = "/apis/fettle.io/v1alpha1/namespaces/" + metalNamespace + "/repairs"
	pathOfRemediations = "/apis/fettle.io/v1alpha1/namespaces/" + metalNamespace + "/powerremediations"
)

// recorder makes the API writes of one power-off before it commands it, and reads the node as often as Fettle must.
type recorder struct {
	commander *commander
	calls     []call
}

// floorOfRecords powers the hosts of the second rack off, by a client that knows its work and makes the same API writes as Fettle
// before each command. No controller that records these steps can command sooner on the same machine.
func (m *metalRun) floorOfRecords(ctx context.Context) error {
	say("the power-offs again, by a client that makes the API writes of Fettle and does nothing else")
	api, err := newSender(m.stage.Admin, "recorder", runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	repair, err := m.anyRepair(ctx)
	if err != nil {
		return err
	}
	nodes := m.rack(1, true)
	recorders := make([]recorder, len(nodes))
	for n, i := range nodes {
		calls, err := recordsOf(nodeName(i), repair)
		if err != nil {
			return err
		}
		recorders[n] = recorder{newCommander(m.hosts[i]), calls}
	}
	m.result.Recorder, err = m.commandAll(ctx, nodes, func(ctx context.Context, n int) error { return recorders[n].commander.login(ctx) },
		func(ctx context.Context, n int) error { return recorders[n].powerOff(ctx, api) })
	return err
}

// powerOff makes the API writes and then the command.
func (r *recorder) powerOff(ctx context.Context, api rest.Interface) error {
	for _, c := range r.calls {
		if err := c.send(ctx, api); err != nil {
			return err
		}
	}
	return r.commander.powerOff(ctx)
}

// anyRepair returns a repair of an outage, whose spec others are made with.
func (m *metalRun) anyRepair(ctx context.Context) (*unstructured.Unstructured, error) {
	list, err := m.list(ctx, "RepairList")
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("there is no repair in %s", metalNamespace)
	}
	return &list.Items[0], nil
}

// recordsOf returns the calls that precede the power-off of a node, in their order.
func recordsOf(node string, repair *unstructured.Unstructured) ([]call, error) {
	const remediation = "fettle.io/v1alpha1"
	named := func(name string) map[string]any { return map[string]any{"name": name} }
	since := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	status := map[string]any{"status": map[string]any{
		"phase": "Preparing", "phaseSince": since, "attempt": 1, "poweredOff": true, "node": map[string]any{"name": node, "uid": digest("%s", node)[:36], "bootID": digest("%s", node)[:36]},
	}}
	name := "again-" + node
	fields := []struct {
		verb, path string
		body       map[string]any
	}{
		{"create", pathOfRepairs, map[string]any{"apiVersion": remediation, "kind": "Repair", "metadata": named(name), "spec": repair.Object["spec"]}},
		{"get", pathOfNodes + "/" + node, nil},
		{"create", pathOfLeases, map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named(name), "spec": map[string]any{"holderIdentity": "bench", "leaseDurationSeconds": 600},
		}},
		{"create", pathOfRemediations, map[string]any{
			"apiVersion": remediation, "kind": "PowerRemediation", "metadata": map[string]any{"name": name, "finalizers": []string{"fettle.io/power-remediation"}}, "spec": map[string]any{"strategy": "Reboot"},
		}},
		{"get", pathOfNodes + "/" + node, nil},
		{"patch", pathOfRemediations + "/" + name + "/status", status},
		{"patch", pathOfNodes + "/" + node, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}},
			"spec":     map[string]any{"taints": []map[string]any{{"key": "fettle.io/fencing", "effect": "NoExecute"}}},
		}},
	}
	calls := make([]call, len(fields))
	for i, f := range fields {
		calls[i] = call{verb: f.verb, path: f.path, contentType: runtime.ContentTypeJSON}
		if f.verb == "patch" {
			calls[i].contentType = string(types.MergePatchType)
		}
		if f.body == nil {
			continue
		}
		var err error
		if calls[i].body, err = json.Marshal(f.body); err != nil {
			return nil, fmt.Errorf("encoding a record: %w", err)
		}
	}
	return calls, nil
}
