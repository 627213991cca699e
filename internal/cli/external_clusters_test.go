package cli

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// quorumScenes change the API server of the workload cluster east, whose control plane has a node that is not ready.
var quorumScenes = map[string]func(f, east *fleet){
	"external": func(_, east *fleet) {
		east.set("/api/v1/namespaces/kube-system", object(east.t, "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, annotations: {fettle.io/control-plane-quorum: external}}}"))
	},
	"unknown": func(_, _ *fleet) {},
	"refused": func(_, east *fleet) { east.refuse("GET /api/v1/namespaces/kube-system", http.StatusForbidden) },
	"unread": func(f, _ *fleet) {
		delete(f.objects["/api/v1/secrets"], "fleets/east-kubeconfig")
	},
	"owner": func(f, _ *fleet) {
		check := f.objects[clusterAPIGroup+"machinehealthchecks"]["fleets/east"]
		delete(check["spec"].(map[string]any)["remediation"].(map[string]any), "templateRef")
	},
}

// TestQuorumOfWorkloadClusters: a workload cluster answers for its own quorum, and only where a remediator would repair its control plane.
func TestQuorumOfWorkloadClusters(t *testing.T) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(quorumScenes)) {
		f := startFleet(t)
		f.clusters(func(s *clusterScene) {
			s.control()
			clear(s.repairs)
			s.edit("MachineHealthCheck/east", "remediation: {", "remediation: {templateRef: {apiVersion: fix.example/v1, kind: RebootTemplate, name: usual}, ")
		})
		f.discover("fix.example/v1", "Reboot", "RebootTemplate")
		f.put("{apiVersion: fix.example/v1, kind: RebootTemplate, metadata: {name: usual, namespace: fleets}, spec: {template: {spec: {}}}}")
		east := f.workloads["east"]
		east.list("/api/v1/namespaces/kube-system/pods", "v1", "PodList")
		east.list("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "coordination.k8s.io/v1", "LeaseList")
		quorumScenes[name](f, east)
		text.WriteString("# " + name + "\n" + f.run("explain", "machine/east-a", "-n", "fleets") + "\n")
		if name == "owner" || name == "unread" {
			if asked := slices.DeleteFunc(east.forget(), func(r string) bool { return !strings.Contains(r, "kube-system") }); len(asked) > 0 {
				t.Errorf("%s: it asks the cluster for its quorum: %q", name, asked)
			}
		}
	}
	golden(t, "commands-quorum-of-clusters.txt", text.String())
}
