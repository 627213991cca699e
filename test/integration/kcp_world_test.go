package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/test/cluster"
)

// The health checks of the guide.
const (
	workersCheck      = "capi-quickstart-node-unhealthy-5m"
	controlPlaneCheck = "capi-quickstart-kcp-unhealthy-5m"
)

// guideControlPlane has the strategy of the guide, and the other fields that a control plane needs.
const guideControlPlane = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata:
  name: capi-quickstart
  labels: {cluster.x-k8s.io/cluster-name: capi-quickstart}
spec:
  replicas: 3
  version: v1.36.3
  machineTemplate:
    infrastructureRef:
      apiVersion: sandbox.fettle.io/v1alpha1
      kind: SandboxMachineTemplate
      name: capi-quickstart-control-plane
  kubeadmConfigSpec: {}
  remediationStrategy:
    maxRetry: 5
    retryPeriod: 2m
    minHealthyPeriod: 2h
`

// guideHealthChecks are as the guide prints them.
const guideHealthChecks = `
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: capi-quickstart-node-unhealthy-5m
spec:
  clusterName: capi-quickstart
  maxUnhealthy: 40%
  nodeStartupTimeout: 10m
  selector:
    matchLabels:
      nodepool: nodepool-0
  unhealthyConditions:
  - type: Ready
    status: Unknown
    timeout: 300s
  - type: Ready
    status: "False"
    timeout: 300s
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: capi-quickstart-kcp-unhealthy-5m
spec:
  clusterName: capi-quickstart
  maxUnhealthy: 100%
  selector:
    matchLabels:
      cluster.x-k8s.io/control-plane: ""
  unhealthyConditions:
    - type: Ready
      status: Unknown
      timeout: 300s
    - type: Ready
      status: "False"
      timeout: 300s
`

// quickstart is the workload cluster of the guide.
type quickstart struct {
	*clusterFixture

	name string
	// m1 and the following are machines of the control plane, each the replacement of the one before.
	m1, m11, m12, m13, m14 string
	alarming, dead         string
	seen                   *observedMachines
}

func newQuickstart(t *testing.T) *quickstart {
	t.Helper()
	management := cluster.Start(t, cluster.Options{Args: []string{noNodeController, "--cluster-api", "--cluster-api-control-planes"}})
	workload := cluster.Start(t, cluster.Options{Args: []string{"--kubelets", "--node-monitor-grace-period=4s", "--node-monitor-period=500ms"}})
	q := &quickstart{name: "capi-quickstart", clusterFixture: &clusterFixture{
		Client: typed(t, management), t: t, management: management, workload: workload, namespace: "default",
	}}
	management.InstallFettle(t)
	management.AllowClusterAPI(t)
	t.Cleanup(q.showWhenFailed)
	q.seen = watchMachines(t, management)
	q.applied(guideControlPlane)
	args := []string{
		"workload-cluster", "--dir", management.Dir, "--workload-dir", workload.Dir, "--name", q.name,
		"--kubeadm", "--control-plane-machines", "3", "--workers", "2",
	}
	if out, err := exec.Command(cluster.Binary(t, "fettle-sandbox"), args...).CombinedOutput(); err != nil {
		t.Fatalf("registering the workload cluster: %v\n%s", err, out)
	}
	q.applied(guideHealthChecks)
	management.StartFettle(t)
	return q
}

// showWhenFailed logs the conditions of the control plane and of its machines if the test has failed. They tell why
// KubeadmControlPlane waits.
func (q *quickstart) showWhenFailed() {
	if !q.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's own context has ended
	defer cancel()
	for _, kind := range []schema.GroupVersionKind{
		{Group: "controlplane." + clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Kind: "KubeadmControlPlane"},
		clusterv1.GroupVersion.WithKind("Machine"),
	} {
		var all unstructured.UnstructuredList
		all.SetGroupVersionKind(kind)
		if err := q.List(ctx, &all, client.InNamespace(q.namespace)); err != nil {
			q.t.Logf("listing %ss: %v", kind.Kind, err)
		}
		for i := range all.Items {
			conditions, _, _ := unstructured.NestedSlice(all.Items[i].Object, "status", "conditions")
			for _, c := range conditions {
				c, _ := c.(map[string]any)
				q.t.Logf("%s %s: %v=%v %v: %v", kind.Kind, all.Items[i].GetName(), c["type"], c["status"], c["reason"], c["message"])
			}
		}
	}
}

// in runs a step as a test of its own.
func (q *quickstart) in(t *testing.T, step func()) {
	t.Helper()
	whole := q.t
	q.t = t
	defer func() { q.t = whole }()
	step()
}

// applied creates manifests as a user does, in the namespace that kubectl would choose.
func (q *quickstart) applied(manifests string) {
	q.t.Helper()
	for _, u := range cluster.Decode(q.t, []byte(manifests)) {
		u.SetNamespace(q.namespace)
		q.create(u)
	}
}

// edit applies a merge patch, in YAML, to an object in the older version.
func (q *quickstart) edit(kind, name, patch string) {
	q.t.Helper()
	group := clusterv1.GroupVersion.Group
	if kind == "KubeadmControlPlane" {
		group = "controlplane." + group
	}
	q.patch(object(group+"/v1beta1", kind, q.namespace, name), patch)
}

func (q *quickstart) patch(u *unstructured.Unstructured, patch string) {
	q.t.Helper()
	body, err := yaml.YAMLToJSON([]byte(patch))
	if err == nil {
		err = q.Patch(cluster.Context(q.t), u, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		q.t.Fatalf("changing %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// shortTimes makes Fettle judge the control plane within seconds, mark at most one of its machines, and pause briefly.
func (q *quickstart) shortTimes() {
	q.t.Helper()
	q.seen.limit.Store(1)
	q.edit("MachineHealthCheck", controlPlaneCheck, `
metadata: {annotations: {fettle.io/backoff-base: 1s, fettle.io/backoff-limit: 1s, fettle.io/storm-cooldown: 1s}}
spec:
  maxUnhealthy: 1
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 1s}, {type: Ready, status: "False", timeout: 1s}]
`)
	q.patch(object(clusterAPI, "MachineHealthCheck", q.namespace, controlPlaneCheck), `
spec: {checks: {unhealthyMachineConditions: [{type: InfrastructureReady, status: "False", timeoutSeconds: 4}]}}
`)
	q.wantHealthy(controlPlaneCheck, "3/3 healthy, 1 allowed")
}

func (q *quickstart) limitIs(limit int32) {
	q.t.Helper()
	q.seen.limit.Store(limit)
	q.edit("MachineHealthCheck", controlPlaneCheck, fmt.Sprintf("spec: {maxUnhealthy: %d}", limit))
}

// strategy sets how the control plane retries, in the fields of the older version.
func (q *quickstart) strategy(fields string) {
	q.t.Helper()
	q.edit("KubeadmControlPlane", q.name, "spec: {remediationStrategy: {"+fields+"}}")
}

// lookAgain wakes the control plane's controller, which sets no timer when it refuses.
func (q *quickstart) lookAgain() {
	q.t.Helper()
	q.edit("KubeadmControlPlane", q.name, "metadata: {annotations: {example.com/look: again}}")
}

// launch sets the provider's answer to requests for new machines of the control plane.
func (q *quickstart) launch(answer string) {
	q.t.Helper()
	q.patch(object("sandbox.fettle.io/v1alpha1", "SandboxMachineTemplate", q.namespace, q.name+"-control-plane"),
		fmt.Sprintf("spec: {template: {spec: {launch: %q}}}", answer))
}

// breaks takes the machine's host down, with its node and its etcd member.
func (q *quickstart) breaks(machine string) {
	q.t.Helper()
	q.patch(object("sandbox.fettle.io/v1alpha1", "SandboxMachine", q.namespace, machine), "spec: {fault: Unresponsive}")
}

// alarm sets the alarm of the machine's etcd member.
func (q *quickstart) alarm(machine, alarm string) {
	q.t.Helper()
	q.patch(object("sandbox.fettle.io/v1alpha1", "SandboxMachine", q.namespace, machine),
		fmt.Sprintf("metadata: {annotations: {sandbox.fettle.io/etcd: %q}}", alarm))
}

// unwell makes the machine's kubelet report that the node is not ready. Its etcd member goes on.
func (q *quickstart) unwell(machine string) {
	q.t.Helper()
	node := object("v1", "Node", "", machine)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"sandbox.fettle.io/ready":"False"}}}`))
	if err := q.workload.Patch(cluster.Context(q.t), node, patch); err != nil {
		q.t.Fatalf("making node %s unwell: %v", machine, err)
	}
}

// members returns the machines of the control plane, the oldest first.
func (q *quickstart) members() []clusterv1.Machine {
	q.t.Helper()
	members, err := q.listMembers(cluster.Context(q.t))
	if err != nil {
		q.t.Fatalf("listing machines: %v", err)
	}
	return members
}

func (q *quickstart) listMembers(ctx context.Context) ([]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	if err := q.List(ctx, &list, client.InNamespace(q.namespace), client.HasLabels{clusterv1.MachineControlPlaneLabel}); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// others returns the other two members.
func (q *quickstart) others(than string) (first, second string) {
	q.t.Helper()
	var names []string
	for _, m := range q.members() {
		if m.Name != than {
			names = append(names, m.Name)
		}
	}
	if len(names) != 2 {
		q.t.Fatalf("beside %s there are %v", than, names)
	}
	return names[0], names[1]
}

// replacementOf waits until a machine is gone and another says that it replaces it, after that number of retries.
func (q *quickstart) replacementOf(machine string, retries int) string {
	q.t.Helper()
	name := ""
	q.management.Eventually(q.t, machine+" is replaced", func(ctx context.Context) error {
		members, err := q.listMembers(ctx)
		if err != nil {
			return err
		}
		var there []string
		for i := range members {
			m := &members[i]
			var of struct {
				Machine    string `json:"machine"`
				RetryCount int    `json:"retryCount"`
			}
			text := m.Annotations["controlplane.cluster.x-k8s.io/remediation-for"]
			if text != "" && json.Unmarshal([]byte(text), &of) == nil && of.Machine == machine {
				if of.RetryCount != retries {
					return fmt.Errorf("%s replaces it as retry %d, want %d", m.Name, of.RetryCount, retries)
				}
				name = m.Name
				return nil
			}
			there = append(there, m.Name+" ("+wordsOf(m.Status.Conditions)+") "+text)
		}
		return errors.New("there are " + strings.Join(there, "; "))
	})
	return name
}

// wantStored waits for a part of an object in the stored version, as JSON.
func (q *quickstart) wantStored(kind, name, path, want string) {
	q.t.Helper()
	group := clusterAPI
	if kind == "KubeadmControlPlane" {
		group = "controlplane." + group
	}
	u := object(group, kind, q.namespace, name)
	if err := q.Get(cluster.Context(q.t), client.ObjectKeyFromObject(u), u); err != nil {
		q.t.Fatalf("reading %s %s: %v", kind, name, err)
	}
	part, _, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
	got, marshalErr := json.Marshal(part)
	if err := errors.Join(err, marshalErr); err != nil || string(got) != want {
		q.t.Errorf("%s of %s is %s, want %s (%v)", path, name, got, want, err)
	}
}

// wantHealthy waits for "HEALTHY/EXPECTED healthy, ALLOWED allowed".
func (q *quickstart) wantHealthy(check, want string) {
	q.t.Helper()
	q.management.Eventually(q.t, "the counts of "+check, func(ctx context.Context) error {
		c := &clusterv1.MachineHealthCheck{}
		if err := q.Get(ctx, types.NamespacedName{Namespace: q.namespace, Name: check}, c); err != nil {
			return err
		}
		return countsAre(c, want)
	})
}

func (q *quickstart) wantCheck(check, condition, want string, words ...string) {
	q.t.Helper()
	q.management.Eventually(q.t, "condition "+condition+" of "+check, func(ctx context.Context) error {
		c := &clusterv1.MachineHealthCheck{}
		if err := q.Get(ctx, types.NamespacedName{Namespace: q.namespace, Name: check}, c); err != nil {
			return err
		}
		return compareCondition(c.Status.Conditions, condition, want, words)
	})
}

// observedMachines are the machines of the control plane that a watch has shown.
type observedMachines struct {
	limit atomic.Int32

	mutex    sync.Mutex
	wrong    []string
	deleted  int
	machines map[types.UID]*clusterv1.Machine
}

// watchMachines records every change until the test ends.
func watchMachines(t *testing.T, management *cluster.Cluster) *observedMachines {
	t.Helper()
	c, err := client.NewWithWatch(management.Config, client.Options{Scheme: typed(t, management).Scheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	watched, err := c.Watch(t.Context(), &clusterv1.MachineList{}, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		t.Fatalf("watching machines: %v", err)
	}
	t.Cleanup(watched.Stop)
	s := &observedMachines{machines: map[types.UID]*clusterv1.Machine{}}
	go func() {
		for event := range watched.ResultChan() {
			if m, ok := event.Object.(*clusterv1.Machine); ok {
				s.note(event.Type, m)
			}
		}
	}()
	return s
}

func (s *observedMachines) note(kind watch.EventType, m *clusterv1.Machine) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.machines[m.UID] = m
	if kind == watch.Deleted {
		s.deleted++
		delete(s.machines, m.UID)
	}
	var marked, going []string
	for _, m := range s.machines {
		switch {
		case m.DeletionTimestamp != nil:
			going = append(going, m.Name)
		case meta.IsStatusConditionFalse(m.Status.Conditions, byOwner):
			marked = append(marked, m.Name)
		}
	}
	if limit := s.limit.Load(); len(marked) > int(limit) {
		s.wrong = append(s.wrong, fmt.Sprintf("%v are marked at once, and the limit is %d", marked, limit))
	}
	if len(going) > 1 {
		s.wrong = append(s.wrong, fmt.Sprintf("%v are being deleted at once", going))
	}
}

// wantOneAtATime: no more machines were marked at once than the limit, and no two were in deletion.
func (q *quickstart) wantOneAtATime() {
	q.t.Helper()
	q.seen.mutex.Lock()
	defer q.seen.mutex.Unlock()
	if len(q.seen.wrong) > 0 || q.seen.deleted != 6 {
		q.t.Errorf("%d machines were deleted, want 6; %s", q.seen.deleted, strings.Join(q.seen.wrong, "; "))
	}
}
