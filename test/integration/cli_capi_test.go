package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestCommandLineOnClusterAPI: status, explain and check on workload clusters. No controller runs, so only the tests
// change anything.
func TestCommandLineOnClusterAPI(t *testing.T) {
	t.Parallel()
	management := cluster.Start(t, clusterAPIOnly())
	workload := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	management.InstallFettle(t)
	management.AllowClusterAPI(t)
	management.Apply(t, clusterViewers)
	cases := map[string]func(*clusterFixture){
		"ask-workers":   askAboutWorkers,
		"ask-namesakes": askAboutNamesakes,
		"ask-nodes":     askAboutNodesOfTheSameName,
		"ask-viewer":    askWithoutKubeconfigs,
		"ask-down":      askAboutAClusterThatIsDown,
		"ask-hangs":     askAboutAClusterThatHangs,
		"ask-exec":      askAboutAKubeconfigThatRunsCommands,
		"ask-paused":    askAboutAPausedCluster,
		"ask-control":   askAboutAControlPlaneThatWaits,
		"ask-limit":     askAboutAMachineDeploymentThatWaits,
		"ask-repair":    askAboutARepairOfAWorkloadCluster,
		"ask-program":   askAboutClustersAsAProgram,
		"ask-watch":     followAWorkloadCluster,
		"ask-files":     checkFilesOfClusterAPI,
	}
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range cases {
		beside.Run(name, func(t *testing.T) {
			run(newClusterFixture(t, management, workload, name))
		})
	}
}

// clusterViewers are two users: one with the rights of the installed roles for viewers, and one who may also read the
// kubeconfigs of workload clusters.
const clusterViewers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fettle-view}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: keeper}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: half}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cluster-viewers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fettle-view-cluster-api}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: keeper}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kubeconfigs}
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: [c-kubeconfig], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keepers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kubeconfigs}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: keeper}]
`

// requested returns the fixture's namespace for the tests of the command line.
func (h *clusterFixture) requested() *machineFixture {
	return &machineFixture{Cluster: h.management, t: h.t, namespace: h.namespace}
}

func (h *clusterFixture) wantAnswer(question string, words ...string) string {
	h.t.Helper()
	return h.requested().wantAnswer(question, words...)
}

// wantRefused runs a command that must fail.
func (h *clusterFixture) wantRefused(question string, words ...string) {
	h.t.Helper()
	answer, status := h.requested().ask(strings.Fields(question)...)
	for _, w := range words {
		if status != 1 || !strings.Contains(answer, w) {
			h.t.Errorf("fettle %s: exit status %d; it does not say %q:\n%s", question, status, w, answer)
		}
	}
}

// says sets a condition of a machine as of some time ago.
func (h *clusterFixture) says(machine, condition string, status metav1.ConditionStatus, reason, message string, ago time.Duration) {
	h.t.Helper()
	h.changeStatus(machine, func(m *clusterv1.Machine) {
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
			Type: condition, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago)),
		})
	})
}

// asksOwner marks a machine for its owner, as Fettle does, and makes the owner answer.
func (h *clusterFixture) asksOwner(machine, reason, message string, ago time.Duration) {
	h.t.Helper()
	h.says(machine, succeeded, metav1.ConditionFalse, "UnhealthyNode", "Health check failed:\n  * Condition Ready on Node has been False for at least 1s", ago)
	h.says(machine, byOwner, metav1.ConditionFalse, reason, message, ago)
}

// recorded creates the Repair of a machine, as the controller does, and returns its name.
func (h *clusterFixture) recorded(machine string) string {
	h.t.Helper()
	m, err := h.get(cluster.Context(h.t), machine)
	if err != nil {
		h.t.Fatalf("reading a machine: %v", err)
	}
	check, err := h.check(cluster.Context(h.t))
	if err != nil {
		h.t.Fatalf("reading the health check: %v", err)
	}
	r := object("fettle.io/v1alpha1", "Repair", h.namespace, core.RepairName(core.ID{Kind: "Machine", Namespace: h.namespace, Name: machine, UID: string(m.UID)}, 1))
	r.Object["spec"] = map[string]any{
		"target":  map[string]any{"kind": "Machine", "namespace": h.namespace, "name": machine, "uid": string(m.UID), "node": h.node(machine)},
		"cluster": herdCluster,
		"policy":  map[string]any{"kind": "MachineHealthCheck", "namespace": h.namespace, "name": "check", "uid": string(check.UID)},
		"reason":  "UnhealthyCondition", "message": "node condition Ready has been False for long", "startedAt": time.Now().UTC().Format(metav1.RFC3339Micro),
		"ladder": []any{map[string]any{"remedy": "MarkOwner", "nature": "AskOwner"}},
	}
	h.create(r)
	return r.GetName()
}

func askAboutWorkers(h *clusterFixture) {
	h.running("a", "b")
	h.machine("young")
	h.machine("out", annotated(skipAnnotation))
	h.wantAnswer("status", "There are no health checks in namespace ask-workers.")
	h.healthCheck("remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 67%}}")
	h.wantAnswer("status", "CLUSTER", "check          c         2/3       allowed", "young", "NodeStartupTimeout", "young becomes unhealthy at")
	h.wantAnswer("explain machine/a", "Cluster        c", "Node           ask-workers-a", "Owner          MachineSet workers", "healthy, no criterion is met")
	h.wantAnswer("explain node/"+h.node("b"), "Machine        ask-workers/b", "Cluster        c")
	h.wantAnswer("explain machine/out", "excluded from all health checking, by annotation "+skipAnnotation)
	h.wantRefused("explain machine/yung", "did you mean young?")
	h.fail("a")
	h.wantAnswer("explain machine/a", "unhealthy, node condition Ready=False since", "Now it is marked for its owner, which replaces it in its own time.")
	h.changeCheck(`{"spec":{"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":1}}}}`)
	h.wantAnswer("status", "stopped: TooManyUnhealthy", "check repairs nothing: 2 of 3 are not healthy and repairs go on only up to 1")
	h.wantAnswer("explain mhc/check", "Cluster        c", "Selects        3 machines: 1 healthy, 1 unhealthy, 1 suspect", "TooManyUnhealthy is closed, for 1 (a)")
}

// askAboutNamesakes: a machine of OpenShift has the name and the namespace of a machine of a workload cluster.
func askAboutNamesakes(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.create(object("machine.openshift.io/v1beta1", "Machine", h.namespace, "a"))
	h.management.Apply(h.t, "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: check, namespace: "+h.namespace+"}\nspec: {selector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}\n")
	h.wantAnswer("status", "check                    0/1", "check          c         1/1")
	h.wantRefused("explain machine/a", "there are several of the name machine a; choose one by --workload-cluster='' -n ask-namesakes, or --workload-cluster c -n ask-namesakes")
	h.wantRefused("explain machinehealthcheck/check", "choose one by machinehealthcheck.machine.openshift.io/check -n ask-namesakes, or machinehealthcheck.cluster.x-k8s.io/check -n ask-namesakes")
	h.wantAnswer("explain machinehealthcheck.cluster.x-k8s.io/check", "API            cluster.x-k8s.io", "Cluster        c", "Everything that it selects is healthy.")
	h.wantAnswer("explain mhc.machine.openshift.io/check", "API            machine.openshift.io", "Selects        1 machine: 1 suspect")
	answer := h.wantAnswer("explain machine/a --workload-cluster c", "Cluster        c", "healthy, no criterion is met")
	if strings.Count(answer, "check") != 1 {
		h.t.Errorf("the other health check is named too:\n%s", answer)
	}
	if answer := h.wantAnswer("explain machine/a --workload-cluster=", "suspect, no node has joined"); strings.Contains(answer, "Cluster") {
		h.t.Errorf("the machine of the workload cluster is explained:\n%s", answer)
	}
	if answer := h.wantAnswer("status --workload-cluster c", "1/1"); strings.Contains(answer, "0/1") {
		h.t.Errorf("the other cluster is shown too:\n%s", answer)
	}
}

// askAboutNodesOfTheSameName: nodes of two workload clusters may have the same name.
func askAboutNodesOfTheSameName(h *clusterFixture) {
	h.running("a")
	other := newClusterFixture(h.t, h.management, h.workload, h.namespace+"-2")
	other.machine("x")
	other.changeStatus("x", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = h.node("a") })
	h.healthCheck()
	other.healthCheck()
	h.wantAnswer("explain node/"+h.node("a"), "Machine        ask-nodes/a")
	other.wantAnswer("explain node/"+h.node("a"), "Machine        ask-nodes-2/x")
	cmd := exec.CommandContext(cluster.Context(h.t), cluster.Binary(h.t, "fettle"), "explain", "node/"+h.node("a"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.management.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--workload-cluster c -n ask-nodes, or --workload-cluster c -n ask-nodes-2") {
		h.t.Errorf("%v; how to choose is not said:\n%s", err, out)
	}
}

// askWithoutKubeconfigs: a user who may not read the Secret sees what Fettle has written.
func askWithoutKubeconfigs(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck()
	h.wantAnswer("status --as keeper", "check          c         2/2       allowed", "All machines are healthy")
	h.wantAnswer("status --as viewer", "The nodes of cluster c can't be seen from here: you may not get Secret ask-viewer/c-kubeconfig. Its status is as a controller has written it last.",
		"can't tell: NodesUnseen")
	h.asksOwner("a", "WaitingForRemediation", "", 10*time.Minute)
	h.says("b", succeeded, metav1.ConditionTrue, "HealthCheckSucceeded", "", time.Hour)
	c, err := h.check(cluster.Context(h.t))
	if err != nil {
		h.t.Fatalf("reading the health check: %v", err)
	}
	fresh, one, two := c.DeepCopy(), int32(1), int32(2)
	fresh.Status.CurrentHealthy, fresh.Status.ExpectedMachines = &one, &two
	fresh.Status.Conditions = []metav1.Condition{{
		Type: "RemediationAllowed", Status: metav1.ConditionFalse, Reason: "TooManyUnhealthy", Message: "Too many are unhealthy", LastTransitionTime: metav1.Now(),
	}}
	if err := h.Status().Patch(cluster.Context(h.t), fresh, client.MergeFrom(c)); err != nil {
		h.t.Fatalf("writing the status of the health check: %v", err)
	}
	answer := h.wantAnswer("status --as viewer", "1/2 as written", "stopped: TooManyUnhealthy", "Too many are unhealthy", "a         c", "unhealthy   UnhealthyNode")
	if strings.Contains(answer, "\nb ") {
		h.t.Errorf("a machine that says it is healthy is listed:\n%s", answer)
	}
	h.wantAnswer("explain mhc/check --as viewer", "Selects        2 machines: 1 healthy, 1 unknown (as its controller has written last)", "Too many are unhealthy", "It is not known, since the nodes of cluster c can't be seen from here")
	h.wantAnswer("explain machine/a --as viewer", "unhealthy, as the machine itself says: UnhealthyNode (Health check failed: * Condition Ready on Node",
		"MachineSet workers got the request to replace it", "has not answered", "It is not known, since the nodes of cluster c can't be seen from here")
	h.wantAnswer("explain node/"+h.node("b")+" --as viewer", "healthy, as the machine itself says: HealthCheckSucceeded")
	h.wantAnswer("status --as half", "Can't tell what machinehealthchecks.cluster.x-k8s.io do", "ClusterRole fettle-view-cluster-api")
}

func (h *clusterFixture) kubeconfigIs(text string) {
	h.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: herdCluster + "-kubeconfig"}}
	body, err := json.Marshal(map[string]any{"data": map[string][]byte{"value": []byte(text)}})
	if err == nil {
		err = h.Patch(cluster.Context(h.t), secret, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		h.t.Fatalf("changing the kubeconfig: %v", err)
	}
}

// kubeconfigWith returns a kubeconfig with one server, and credentials of a test's own.
func kubeconfigWith(server, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\nclusters: [{name: x, cluster: {server: '" + server + "'}}]\nusers: [{name: x, user: " + user + "}]\n"
}

func askAboutAClusterThatIsDown(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.kubeconfigIs(kubeconfigWith("https://127.0.0.1:1", "{token: x}"))
	h.wantAnswer("status", "The nodes of cluster c can't be seen from here: the API server at https://127.0.0.1:1 does not answer")
	h.wantAnswer("explain machine/a", "unknown", "does not answer")
}

// askAboutAClusterThatHangs: the address accepts connections, and nothing answers.
func askAboutAClusterThatHangs(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatalf("listening: %v", err)
	}
	h.t.Cleanup(func() { _ = listener.Close() })
	h.kubeconfigIs(kubeconfigWith("https://"+listener.Addr().String(), "{token: x}"))
	h.wantAnswer("status", "does not answer: it takes too long", "can't tell: NodesUnseen")
}

func askAboutAKubeconfigThatRunsCommands(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	mark := h.t.TempDir() + "/ran"
	h.kubeconfigIs(kubeconfigWith("https://127.0.0.1:1", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: ["+mark+"], interactiveMode: Never}}"))
	h.wantAnswer("status", "can't be followed", "has the field exec")
	if _, err := os.Stat(mark); err == nil {
		h.t.Error("the command in the Secret was run")
	}
}

func askAboutAPausedCluster(h *clusterFixture) {
	h.running("a")
	h.fail("a")
	h.healthCheck()
	paused := true
	h.changeCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
	h.wantAnswer("status", "stopped: Paused", "check repairs nothing: Its Cluster c has spec.paused")
	h.wantAnswer("explain machine/a", "Its Cluster c has spec.paused, so nothing of it is touched; set that to false to go on.")
}

// control makes a control plane with three machines, of which a is marked.
func (h *clusterFixture) control(spec string) *unstructured.Unstructured {
	h.t.Helper()
	h.management.Apply(h.t, `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: control, namespace: `+h.namespace+`, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  replicas: 3
  version: v1.36.0
  machineTemplate: {spec: {infrastructureRef: {apiGroup: sandbox.fettle.io, kind: SandboxMachineTemplate, name: control}}}
  `+spec+"\n")
	k := object("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", h.namespace, "control")
	if err := h.management.Get(cluster.Context(h.t), client.ObjectKeyFromObject(k), k); err != nil {
		h.t.Fatalf("reading the control plane: %v", err)
	}
	owned := func(m *clusterv1.Machine) {
		controlPlane(m)
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(k, k.GroupVersionKind())}
	}
	for _, name := range []string{"a", "b", "d"} {
		h.machine(name, owned)
		h.joins(name)
	}
	if err := h.management.Status().Patch(cluster.Context(h.t), k, client.RawPatch(types.MergePatchType, []byte(`{"status":{"initialization":{"controlPlaneInitialized":true}}}`))); err != nil {
		h.t.Fatalf("writing the status of the control plane: %v", err)
	}
	return k
}

func askAboutAControlPlaneThatWaits(h *clusterFixture) {
	h.control("remediation: {maxRetry: 2, retryPeriodSeconds: 600}")
	h.apply(clusterAPI, "clusterName: c\nselector: {matchLabels: {cluster.x-k8s.io/control-plane: ''}}\nchecks: {unhealthyNodeConditions: [{type: Ready, status: 'False', timeoutSeconds: 1}]}")
	h.wantAnswer("explain machine/a", "healthy, no criterion is met", "at most 2 times (spec.remediation.maxRetry), 10m0s after the one before (spec.remediation.retryPeriodSeconds)", "1h0m0s or later")
	h.fail("a")
	h.asksOwner("a", "RemediationDeferred", "KubeadmControlPlane can't remediate this machine yet", time.Minute)
	replaces := func(retries int) {
		h.t.Helper()
		value := fmt.Sprintf(`{"machine":"older","timestamp":%q,"retryCount":%d}`, time.Now().Add(-5*time.Minute).UTC().Format(time.RFC3339), retries)
		m := &clusterv1.Machine{ObjectMeta: h.meta("a")}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"controlplane.cluster.x-k8s.io/remediation-for": value}}})
		if err == nil {
			err = h.Patch(cluster.Context(h.t), m, client.RawPatch(types.MergePatchType, body))
		}
		if err != nil {
			h.t.Fatalf("annotating a machine: %v", err)
		}
	}
	replaces(1)
	h.wantAnswer("explain machine/a", "KubeadmControlPlane control says RemediationDeferred since", "KubeadmControlPlane can't remediate this machine yet",
		"it replaces older, whose replacement began at", "over at", "(in 4m", "shorten spec.remediation.retryPeriodSeconds, or remove annotation controlplane.cluster.x-k8s.io/remediation-for from the machine")
	replaces(2)
	h.wantAnswer("explain machine/a", "as retry 2, and spec.remediation.maxRetry is 2", "(in 54m", "raise spec.remediation.maxRetry, or remove annotation")
	h.annotate("a", "-controlplane.cluster.x-k8s.io/remediation-for")
	if answer := h.wantAnswer("explain machine/a", "says RemediationDeferred"); strings.Contains(answer, "Its owner waits") {
		h.t.Errorf("it waits for nothing that can be seen:\n%s", answer)
	}
	h.asksOwner("b", "WaitingForRemediation", "", 2*time.Minute)
	h.wantAnswer("explain machine/b", "has not answered", "machine a has the same request and goes first")
	h.wantAnswer("explain machine/b --as viewer", "machine a has the same request and goes first")
}

func askAboutAMachineDeploymentThatWaits(h *clusterFixture) {
	one := intstr.FromInt32(1)
	deployment := &clusterv1.MachineDeployment{
		ObjectMeta: h.meta("workers"),
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: herdCluster, Selector: h.machineSet().Spec.Selector, Template: h.machineSet().Spec.Template,
			Remediation: clusterv1.MachineDeploymentRemediationSpec{MaxInFlight: &one},
		},
	}
	deployment.Annotations = map[string]string{clusterv1.RevisionAnnotation: "1"}
	h.create(deployment)
	set := &clusterv1.MachineSet{ObjectMeta: h.meta("workers")}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{clusterv1.RevisionAnnotation: "1"}, "ownerReferences": []any{*metav1.NewControllerRef(deployment, clusterv1.GroupVersion.WithKind("MachineDeployment"))},
	}})
	if err == nil {
		err = h.Patch(cluster.Context(h.t), set, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		h.t.Fatalf("giving the machine set an owner: %v", err)
	}
	h.running("a", "b")
	h.healthCheck()
	h.fail("a", "b")
	h.asksOwner("a", "RemediationDeferred", "Waiting because there are already too many remediations in progress (spec.strategy.remediation.maxInFlight is 1)", time.Minute)
	h.asksOwner("b", "WaitingForRemediation", "", time.Minute)
	h.annotate("b", clusterv1.RemediateMachineAnnotation)
	h.wantAnswer("explain machine/a", "At most 1 of its machines are replaced at a time (spec.remediation.maxInFlight of MachineDeployment workers)",
		"0 of its machine set are being replaced and 1 go first", "sooner: raise spec.remediation.maxInFlight of MachineDeployment workers")
	if answer := h.wantAnswer("explain machine/b", "has not answered"); strings.Contains(answer, "Its owner waits") {
		h.t.Errorf("it is its turn:\n%s", answer)
	}
}

func askAboutARepairOfAWorkloadCluster(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck()
	h.fail("a")
	name := h.recorded("a")
	h.wantAnswer("explain repair/"+name, "Cluster        c", "Of             machine a (node ask-repair-a)", "Phase          Running", "calls its remedy: the machine is marked for its owner")
	h.asksOwner("a", "WaitingForRemediation", "", 20*time.Minute)
	h.patchRepair(name, map[string]any{"answer": "there has been no answer for more than 15m"})
	h.wantAnswer("explain repair/"+name, "Answer         there has been no answer for more than 15m", "MachineSet workers got the request to replace it", "Its owner has the request to replace it, and Fettle waits for that")
	h.wantAnswer("status", "REPAIR UNDER WAY", name, "there has been no answer for more than 15m")
	h.wantAnswer("explain machine/a", "Repair         "+name)
	h.recover("a")
	h.wantAnswer("explain machine/a", "no criterion is met")
}

func (h *clusterFixture) patchRepair(name string, status map[string]any) {
	h.t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		err = h.management.Status().Patch(cluster.Context(h.t), object("fettle.io/v1alpha1", "Repair", h.namespace, name), client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		h.t.Fatalf("changing a repair: %v", err)
	}
}

func askAboutClustersAsAProgram(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.asksOwner("a", "WaitingForRemediation", "", time.Minute)
	h.fail("a")
	out := h.wantAnswer("explain machine/a -o json", `"cluster": "c"`, `"ownerAnswer"`)
	var e struct {
		Targets []struct {
			Cluster     string
			OwnerAnswer struct {
				Owner struct{ Kind, Name string }
				Asked bool
				Since time.Time
				Rules []string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &e); err != nil || len(e.Targets) != 1 {
		h.t.Fatalf("%v:\n%s", err, out)
	}
	if a := e.Targets[0].OwnerAnswer; !a.Asked || a.Owner.Kind != "MachineSet" || a.Owner.Name != "workers" || a.Since.IsZero() {
		h.t.Errorf("its owner's answer is %+v", a)
	}
}

// followAWorkloadCluster: a watch follows nodes in their own cluster.
func followAWorkloadCluster(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	var out lockedBuffer
	ctx, stop := context.WithCancel(cluster.Context(h.t))
	defer stop()
	cmd := exec.CommandContext(ctx, cluster.Binary(h.t, "fettle"), "explain", "machine/a", "--watch", "-n", h.namespace)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.management.Kubeconfig())
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.t.Fatalf("starting a watch: %v", err)
	}
	says := func(words string) {
		h.t.Helper()
		h.management.Eventually(h.t, "the watch says "+words, func(context.Context) error {
			if !strings.Contains(out.String(), words) {
				return fmt.Errorf("it says:\n%s", out.String())
			}
			return nil
		})
	}
	says("healthy, no criterion is met")
	h.fail("a")
	says("unhealthy, node condition Ready=False")
	h.asksOwner("a", "WaitingForRemediation", "", 0)
	says("MachineSet workers got the request to replace it")
	stop()
	_ = cmd.Wait() // it was killed
}

func checkFilesOfClusterAPI(h *clusterFixture) {
	h.running("a", "b", "d")
	h.fail("a")
	older := func(name, spec string) string {
		return "apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: " + name + ", namespace: " + h.namespace + "}\nspec:\n" + indent(spec)
	}
	current := func(name, spec string) string {
		return strings.Replace(older(name, spec), "v1beta1", "v1beta2", 1)
	}
	const selects = "clusterName: c\nselector: {matchLabels: {nodepool: workers}}\n"
	const oldChecks = "unhealthyConditions: [{type: Ready, status: Unknown, timeout: 1s}, {type: Ready, status: 'False', timeout: 1s}]\n"
	const checks = "checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 1}, {type: Ready, status: 'False', timeoutSeconds: 1}]}\n"
	cases := map[string]struct {
		text   string
		status int
		says   []string
	}{
		"of the older version":   {older("new", selects+oldChecks+"maxUnhealthy: 40%"), 0, []string{"The API server would accept it.", "It selects 3 machines: a, b, d. 2 of them are healthy.", "it repairs a at once; repairs go on while at most 1 are not healthy"}},
		"of the current version": {current("new", selects+checks+"remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}"), 0, []string{"The API server would accept it.", "it repairs a at once"}},
		"stopped by its range":   {older("new", selects+oldChecks+`unhealthyRange: "[2-3]"`), 0, []string{"it repairs nothing, since"}},
		"no limit":               {current("new", selects+checks), 0, []string{"warning", "never stops repairs", "1 warning"}},
		"a share of nothing":     {current("new", selects+checks+"remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 20%}}"), 0, []string{"20% of 3 machines is 0, so nothing is repaired"}},
		"no such cluster":        {strings.Replace(older("new", selects+oldChecks+"maxUnhealthy: 40%"), "clusterName: c", "clusterName: x", 1), 0, []string{"there is no Cluster x in namespace ask-files"}},
		"no selector":            {older("new", "clusterName: c\nselector: {}\n"+oldChecks), 1, []string{"problem", "spec.selector is empty"}},
		"a bad duration":         {older("new", selects+"unhealthyConditions: [{type: Ready, status: Unknown, timeout: soon}]\n"), 1, []string{`spec.unhealthyConditions[0].timeout is "soon"`}},
	}
	for sentence, tc := range cases {
		file := h.requested().file(tc.text)
		h.management.Eventually(h.t, sentence, func(context.Context) error {
			answer, status := h.requested().ask("check", file)
			for _, words := range tc.says {
				if status != tc.status || !strings.Contains(answer, words) {
					return fmt.Errorf("exit status %d, want %d, and %q in:\n%s", status, tc.status, words, answer)
				}
			}
			return nil
		})
	}
	h.kubeconfigIs(kubeconfigWith("https://127.0.0.1:1", "{token: x}"))
	answer, _ := h.requested().ask("check", h.requested().file(current("new", selects+checks)))
	if !strings.Contains(answer, "It selects 3 machines") || !strings.Contains(answer, "it is not known whether it repairs anything") {
		h.t.Errorf("without its nodes:\n%s", answer)
	}
}
