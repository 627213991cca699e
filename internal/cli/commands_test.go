package cli

import (
	"crypto/x509"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// managementScene is a state of a management cluster, and commands whose output is in a golden file.
type managementScene struct {
	change func(*managementCluster)
	lines  []string
}

var managementScenes = map[string]managementScene{
	"help": {func(*managementCluster) {}, []string{"status --help", "explain --help"}},
	"status": {func(f *managementCluster) {
		f.workloads()
		f.check("other")
	}, []string{
		"status", "status -A", "status -n other", "status --context elsewhere", "status -n fleets", "status -n nowhere", "status -A --limit 1", "status --limit -1", "status -A --limit 0",
		"status -A --workload-cluster east", "status -A --workload-cluster=", "status -A --workload-cluster north", "status -o json",
	}},
	"status-of-clusters": {func(f *managementCluster) {
		f.clusters.repair("west", "west-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		f.clusters.repair("gone", "east-z", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		delete(f.clusters.objects, "MachineHealthCheck/east")
		delete(f.clusters.objects, "MachineHealthCheck/west")
		f.workloads()
	}, []string{"status -A", "explain machine/east-z -n fleets", "explain machine/west-a -n fleets"}},
	"explain": {func(f *managementCluster) {
		f.ended()
		f.workloads()
	}, []string{
		"explain machine/worker-a", "explain machine worker-z -A", "explain machine/worker-a -o json", "explain node/node-infra", "explain node/node-free",
		"explain machine/east-a -n fleets", "explain machine/east-a -n fleets --workload-cluster west", "explain node/node-a", "explain node/node-a -n machines", "explain node/node-a --workload-cluster west",
		"explain node/node-a --workload-cluster=", "explain", "explain machine worker-a worker-b", "explain pod/a",
	}},
	"explain-repairs": {func(f *managementCluster) {
		f.ended()
		f.clusters.repair("west", "west-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		f.workloads()
		forged := f.scene.repair(2, time.Hour, v1alpha1.RepairStatus{})
		delete(f.scene.repairs, forged.Namespace+"/"+forged.Name)
		forged.Name = "forged"
		f.scene.repairs["machines/forged"] = forged
		infra := core.ID{Kind: "Node", Name: "node-infra", UID: "node-uid-infra"}
		r := f.scene.repair(3, time.Hour, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
		delete(f.scene.repairs, r.Namespace+"/"+r.Name)
		r.Namespace, r.Name, r.Spec.Owner = "fettle-system", core.RepairName(infra, 1), nil
		r.Spec.Policy = v1alpha1.ObjectReference{Kind: "NodeHealthCheck", Name: "infra", UID: "uid-infra"}
		r.Spec.Target = v1alpha1.RepairTarget{ObjectReference: objectReference(infra), Node: "node-infra"}
		f.scene.repairs["fettle-system/"+r.Name] = r
	}, []string{
		"explain repair/" + repairOf("worker-b", "uid-b"), "explain repair/" + repairOf("worker-b", "uid-b") + " -n other", "explain repair/" + repairOf("worker-b", "uid-b") + " -A",
		"explain repair/" + core.RepairName(core.ID{Kind: "Node", Name: "node-infra", UID: "node-uid-infra"}, 1), "explain repair/forged", "explain repair/nope",
		"explain repair/" + westRepair() + " -n fleets", "explain repair/" + westRepair() + " -n fleets --workload-cluster east", "explain repair/" + westRepair(),
		"explain repair/" + repairOf("worker-b", "uid-b") + " -o json",
	}},
	"not-found": {func(f *managementCluster) {
		f.machine("machines", "alone", "node-alone")
		f.machine("fleets", "worker-z", "node-y")
		f.check("other")
		f.workloads()
	}, []string{
		"explain machine/worker-z", "explain machine/worker-d", "explain machine/nope", "explain machine/nope -A", "explain machine/worker-d -A", "explain node/node-q", "explain node/nope",
		"explain nodehealthcheck/infr", "explain nodehealthcheck/nope", "explain mhc/exampl", "explain mhc/nope", "explain mhc.cluster.x-k8s.io/exampl", "explain mhc.cluster.x-k8s.io/example", "explain mhc/west",
		"explain mhc.machine.openshift.io/west", "explain machine.cluster.x-k8s.io/worker-d",
	}},
	"machines-forbidden-elsewhere": {func(f *managementCluster) {
		f.ended()
		f.messages[machinesList] = `machines.machine.openshift.io is forbidden: User "u" cannot list resource "machines"`
	}, []string{"explain machine/worker-d", "explain machine/worker-z"}},
	"nodes-forbidden": {func(f *managementCluster) { f.messages[nodesList+"/node-free"] = "no" }, []string{"explain node/node-free"}},
	"nodes-broken":    {func(f *managementCluster) { f.set(nodesList+"/node-q", http.StatusInternalServerError) }, []string{"explain node/node-q"}},
	"metadata-refused": {func(f *managementCluster) {
		f.messages["/apis/machine.openshift.io/v1beta1/namespaces/machines/machines/worker-a"] = "no"
		f.put(machinesList, `{metadata: {namespace: machines, name: worker-a, uid: uid-a, deletionTimestamp: "2026-08-01T11:59:00Z", finalizers: [machine.machine.openshift.io], labels: {role: worker}}, status: {nodeRef: {kind: Node, name: node-a}}}`)
	}, []string{"explain machine/worker-a"}},
	"deleting": {func(f *managementCluster) {
		f.put(machinesList, `{metadata: {namespace: machines, name: worker-a, uid: uid-a, deletionTimestamp: "2026-08-01T11:59:00Z", finalizers: [machine.machine.openshift.io], labels: {role: worker}}, status: {nodeRef: {kind: Node, name: node-a}}}`)
		f.set("/apis/machine.openshift.io/v1beta1/namespaces/machines/machines/worker-b", object(f.t, `{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {namespace: machines, name: worker-b, uid: other, finalizers: [of.another]}}`))
		f.put(machinesList, `{metadata: {namespace: machines, name: worker-b, uid: uid-b, deletionTimestamp: "2026-08-01T11:59:00Z", finalizers: [machine.machine.openshift.io], labels: {role: nothing}}, status: {nodeRef: {kind: Node, name: node-b}}}`)
	}, []string{"explain machine/worker-a", "explain machine/worker-b"}},
	"skipped": {func(f *managementCluster) {
		f.clusters.edit("Machine/east-a", "  labels:", "  annotations: {cluster.x-k8s.io/paused: ''}\n  labels:")
		f.clusters.edit("Machine/east-b", "pool: workers", "pool: others")
		f.workloads()
	}, []string{"explain machine/east-a -n fleets", "explain machine/east-b -n fleets"}},
	"kubeconfig-of-no-use": {func(f *managementCluster) {
		f.workloads()
		f.set("/api/v1/namespaces/fleets/secrets/east-kubeconfig", kubeconfigOfEast("https://127.0.0.1:1", &x509.Certificate{Raw: []byte("nonsense")}))
	}, []string{"status -n fleets"}},
	"owner-waits": {func(f *managementCluster) {
		f.clusters.control()
		f.workloads()
		f.put(clusterAPIGroup+"machines", f.clusters.objects["Machine/east-a"])
		f.items["/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes"] = map[string]string{}
		f.kinds["/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes"] = "KubeadmControlPlane"
		f.put("/apis/controlplane.cluster.x-k8s.io/v1beta2/kubeadmcontrolplanes", f.clusters.owners[0])
	}, []string{"explain machine/east-a -n fleets", "explain machine/east-b -n fleets"}},
	"clusters-undiscovered": {func(f *managementCluster) {
		f.workloads()
		f.set("/apis/cluster.x-k8s.io/v1beta2", http.StatusInternalServerError)
	}, []string{"status"}},
	"clusters-forbidden": {func(f *managementCluster) {
		f.workloads()
		for _, plural := range []string{"clusters", "machines"} {
			f.messages[clusterAPIGroup+plural], f.messages[clusterAPIGroup+"namespaces/machines/"+plural] = "no "+plural, "no "+plural+" here"
		}
	}, []string{"status"}},
	"another-writes": {func(f *managementCluster) {
		f.put(checksList, `{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {namespace: machines, name: example, uid: uid-example}, spec: {selector: {matchLabels: {role: worker}}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]},
  status: {conditions: [{type: SoleController, status: "False", reason: AnotherController, message: "The status of this health check is written by manager too"}]}}`)
	}, []string{"explain machine/worker-a"}},
}

func repairOf(machine, uid string) string {
	return core.RepairName(core.ID{Kind: "Machine", Namespace: "machines", Name: machine, UID: uid}, 1)
}

func westRepair() string {
	return core.RepairName(core.ID{Kind: "Machine", Namespace: "fleets", Name: "west-a", UID: "west-a"}, 1)
}

// TestCommandsInAFleet: each command line has the output of its golden file, in a cluster with every kind.
func TestCommandsInAFleet(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(managementScenes)) {
		t.Run(name, func(t *testing.T) {
			f := startManagementCluster(t)
			managementScenes[name].change(f)
			f.transcript(t, "commands-"+name, managementScenes[name].lines...)
		})
	}
}
