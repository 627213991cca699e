package integration

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

var record = flag.Bool("record", false, "write down what the API server answers, for the tests of the decoders")

// recordings are requests with their formats, and where the answers of a version are kept.
var recordings = []struct{ path, accept, dir, file string }{
	{"/api/v1/nodes", runtime.ContentTypeProtobuf, "internal/slim", "nodes.pb"},
	{"/api/v1/nodes", runtime.ContentTypeJSON, "internal/slim", "nodes.json"},
	{"/apis/machine.openshift.io/v1beta1/namespaces/recorded/machines", runtime.ContentTypeJSON, "internal/dialect/openshift", "machines.json"},
	{"/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases", runtime.ContentTypeJSON, "internal/guard/lease", "leases.json"},
}

// TestRecording: the sandbox runs its claimed version of Kubernetes, and the recorded answers of that version exist for
// the tests of the decoders. -record writes them anew, always of the same objects.
func TestRecording(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=serviceaccount-controller"}})
	c.InstallFettle(t)
	f := newMachineFixture(t, c, "recorded")
	f.recordedNodes()
	f.recordedMachines()
	f.recordedLeases()
	api := discovery.NewDiscoveryClientForConfigOrDie(c.Config)
	version := underTest(t)
	if served, err := api.ServerVersion(); err != nil || served.GitVersion != version {
		t.Fatalf("the API server is of version %v (%v), want %s", served, err, version)
	}
	for _, r := range recordings {
		answer := ask(t, api.RESTClient(), r.path, r.accept)
		path := filepath.Join(cluster.Root(), r.dir, "testdata", "recorded", "v"+minor(version), r.file)
		if *record {
			write(t, path, answer)
		}
		if kept, err := os.ReadFile(path); err != nil || len(kept) < len(answer)/2 {
			t.Errorf("what this API server answers for %s is not recorded (%d bytes, %v): run this test with -record", r.path, len(kept), err)
		}
	}
}

func ask(t *testing.T, api rest.Interface, path, accept string) []byte {
	t.Helper()
	answer, err := api.Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(cluster.Context(t))
	if err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	return answer
}

func write(t *testing.T, path string, answer []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o750)
	if err == nil {
		err = os.WriteFile(path, answer, 0o600)
	}
	if err != nil {
		t.Fatalf("writing a recording: %v", err)
	}
}

// then is the time of everything in a recording.
var then = time.Date(2026, time.November, 23, 12, 0, 0, 0, time.UTC)

func (f *machineFixture) recordedNodes() {
	f.t.Helper()
	worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        "worker",
		Labels:      map[string]string{"node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "zone-a"},
		Annotations: map[string]string{"machine.openshift.io/machine": "recorded/worker", "note": "skipped"},
	}, Spec: corev1.NodeSpec{ProviderID: "cloud:///worker", Unschedulable: true}}
	leaving := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "leaving", Finalizers: []string{"example.com/waits"}}}
	for _, n := range []*corev1.Node{worker, leaving} {
		f.create(n)
		f.patchStatus(object("v1", "Node", "", n.Name), map[string]any{
			"nodeInfo": map[string]any{"kubeletVersion": "v1.30.0", "osImage": "Linux"},
			"images":   []any{map[string]any{"names": []any{"images.example/a:1"}, "sizeBytes": 1 << 28}},
			"capacity": map[string]any{"cpu": "64"}, "daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": 10250}},
			"conditions": []any{
				condition("MemoryPressure", "False", "KubeletHasSufficientMemory"), condition("Ready", "Unknown", "NodeStatusUnknown"),
			},
		})
	}
	if err := f.Delete(cluster.Context(f.t), leaving); err != nil {
		f.t.Fatalf("deleting a node: %v", err)
	}
}

func condition(kind, status, reason string) map[string]any {
	at := then.Format(time.RFC3339)
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": at, "lastHeartbeatTime": at}
}

func (f *machineFixture) recordedMachines() {
	f.t.Helper()
	for name, phase := range map[string]string{"worker": "Running", "broken": "Failed"} {
		m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, name)
		m.SetLabels(map[string]string{"role": "worker"})
		m.SetOwnerReferences([]metav1.OwnerReference{f.owner})
		f.create(m)
		f.patchStatus(m, map[string]any{
			"phase": phase, "lastUpdated": then.Format(time.RFC3339), "nodeRef": map[string]any{"kind": "Node", "name": name},
			"conditions": []any{map[string]any{"type": "InstanceExists", "status": "True", "lastTransitionTime": then.Format(time.RFC3339)}},
		})
	}
}

func (f *machineFixture) recordedLeases() {
	f.t.Helper()
	l := object("coordination.k8s.io/v1", "Lease", "medik8s-leases", "node-worker")
	at := then.Format(metav1.RFC3339Micro)
	l.Object["spec"] = map[string]any{
		"holderIdentity": "somebody", "leaseDurationSeconds": int64(600), "acquireTime": at, "renewTime": at, "leaseTransitions": int64(1),
	}
	if err := f.Create(cluster.Context(f.t), l); client.IgnoreAlreadyExists(err) != nil {
		f.t.Fatalf("creating a lease: %v", err)
	}
}
