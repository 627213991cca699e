package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	workerPath   = "/apis/machine.openshift.io/v1beta1/namespaces/machines/machines/worker-a"
	medik8sCheck = "{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: nodes, uid: nodes, creationTimestamp: '2026-07-01T00:00:00Z'}, spec: {selector: {matchLabels: {role: worker}}, minHealthy: 51%, remediationTemplate: {apiVersion: fix.example/v1, kind: RebootTemplate, namespace: remediators, name: usual}, unhealthyConditions: [{type: Ready, status: Unknown, duration: 300s}]}}"
	secondCheck  = "{apiVersion: machine.openshift.io/v1beta1, kind: MachineHealthCheck, metadata: {namespace: machines, name: young, uid: young, creationTimestamp: '2026-07-31T00:00:00Z', annotations: {cluster.x-k8s.io/paused: ''}}, spec: {selector: {matchLabels: {role: worker}}, unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]}, " +
		"status: {conditions: [{type: SoleController, status: 'False', reason: AnotherController, message: manager writes it too}]}}"
)

// requests are runs of fettle repair that write a request, or would.
var requests = map[string]struct {
	args   string
	change func(*fleet)
}{
	"machine": {"machine/worker-a", func(*fleet) {}},
	"dry-run": {"machine worker-a --dry-run", func(*fleet) {}},
	"by-its-node": {"node/node-a", func(f *fleet) { // in any namespace
		f.drop(machinesPath, "machines/worker-a")
		f.machine("elsewhere", "a", "worker")
		f.put(strings.ReplaceAll(secondCheck, "namespace: machines", "namespace: elsewhere"))
		f.put("{apiVersion: fettle.io/v1alpha1, kind: Repair, metadata: {namespace: machines, name: forged}, spec: {}}")
	}},
	"node-with-its-own-check": {"node/node-a", func(f *fleet) { f.put(medik8sCheck) }},
	"by-two-checks-without-leader": {"machine/worker-a", func(f *fleet) {
		f.put(secondCheck)
		f.put(strings.ReplaceAll(strings.Replace(secondCheck, "paused: ''", "paused: x", 1), "young", "younger"))
		f.put("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: fettle-system, name: fettle}, spec: {holderIdentity: ''}}")
	}},
	"machine-of-a-workload-cluster": {"machine/east-a -n fleets --workload-cluster east -o yaml", func(f *fleet) {
		f.clusters(func(s *clusterScene) { s.node("east", "a", "Unknown", time.Hour) })
		f.put("{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {namespace: fleets, name: east-a, uid: namesake}}")
	}},
	"control-plane": {"machine/worker-a", func(f *fleet) {
		f.put("{apiVersion: v1, kind: Node, metadata: {name: node-a, uid: node-a, labels: {role: worker, node-role.kubernetes.io/control-plane: ''}}, " +
			"status: {conditions: [{type: Ready, status: 'True', lastTransitionTime: '2026-07-01T00:00:00Z'}]}}")
	}},
}

// TestRequestedRepairs: the request is one annotation on the object that the user means, for the UID that was read. The page says
// what follows from it.
func TestRequestedRepairs(t *testing.T) {
	for name, run := range requests {
		t.Run(name, func(t *testing.T) {
			f := startFleet(t)
			run.change(f)
			golden(t, "repair-"+name+".txt", f.transcript(append([]string{"repair"}, strings.Fields(run.args)...)...))
		})
	}
}

// TestRefusedRequests: an answer of the API server is printed with what the user can do about it.
func TestRefusedRequests(t *testing.T) {
	const gone = "error: Machine machines/worker-a was deleted while fettle read it, so no repair was requested; fettle explain machine/worker-a shows what became of it\n"
	const forbidden = "error: no repair of Machine machines/worker-a was requested; that takes the rights to get, patch and delete it, which an administrator can grant (docs/cli.md#fettle-repair): "
	for name, c := range map[string]struct {
		request string
		code    int
		want    string
	}{
		"it may not be read":       {"GET", http.StatusForbidden, forbidden + workerPath + ": Forbidden\n"},
		"it is gone when read":     {"GET", http.StatusNotFound, gone},
		"reading fails":            {"GET", http.StatusInternalServerError, "error: asking for the repair of Machine machines/worker-a: " + workerPath + ": InternalError\n"},
		"it may not be written":    {"PATCH", http.StatusForbidden, forbidden + workerPath + ": Forbidden\n"},
		"it is gone when written":  {"PATCH", http.StatusNotFound, gone},
		"a namesake has its place": {"PATCH", http.StatusConflict, gone},
		"writing fails":            {"PATCH", http.StatusInternalServerError, "error: asking for the repair of Machine machines/worker-a: " + workerPath + ": InternalError\n"},
	} {
		f := startFleet(t)
		f.refuse(c.request+" "+workerPath, c.code)
		if got := f.run("repair", "machine/worker-a"); got != "$ fettle repair machine/worker-a\n"+c.want {
			t.Errorf("%s: it prints\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestNamesakesOfAnotherKind: the kind is that of the object which was judged. If its object can't be read, that is said, whatever
// the other kind has.
func TestNamesakesOfAnotherKind(t *testing.T) {
	want := "$ fettle repair machine/worker-a --workload-cluster=\nerror: no repair of Machine machines/worker-a was requested; that takes the rights to get, patch and delete it, " +
		"which an administrator can grant (docs/cli.md#fettle-repair): " + workerPath + ": Forbidden\n"
	for name, namesake := range map[string]string{
		"none":        "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {namespace: machines, name: worker-b, uid: namesake}}",
		"another UID": "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {namespace: machines, name: worker-a, uid: namesake}}",
	} {
		f := startFleet(t)
		f.clusters(func(*clusterScene) {})
		f.put(namesake)
		f.refuse("GET "+workerPath, http.StatusForbidden)
		if got := f.run("repair", "machine/worker-a", "--workload-cluster="); got != want {
			t.Errorf("%s: it prints\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestHelpOfRepair says for how long a request serves.
func TestHelpOfRepair(t *testing.T) {
	if help, want := startFleet(t).run("repair", "--help"), "\nA request serves for one repair, and lapses after 1h0m0s if no repair begins.\n"; !strings.Contains(help, want) {
		t.Errorf("it does not say %q:\n%s", want, help)
	}
}
