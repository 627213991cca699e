package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestCommandLine: status, explain and check beside a controller.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Apply(t, viewers)
	c.StartFettle(t, "--leader-elect=true")
	cases := map[string]func(*machineFixture){
		"healthy":        askAboutAHealthyCluster,
		"suspect":        askAboutASuspect,
		"ownerless":      askAboutAMachineWithoutOwner,
		"storm":          askAboutTooManyUnhealthy,
		"paused-ask":     askAboutAPause,
		"busy":           askAboutTheLimitInFlight,
		"failed-again":   askAboutABackOff,
		"repairing":      askAboutARepair,
		"viewers":        askWithFewPermissions,
		"plugin":         askThroughKubectl,
		"programs":       askAsAProgram,
		"following":      followARepair,
		"names":          askForWhatIsNot,
		"files":          checkFiles,
		"files-existing": checkWhatExists,
	}
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range cases {
		beside.Run(name, func(t *testing.T) {
			run(newMachineFixture(t, c, name))
		})
	}
}

// viewers are two users: one with the rights of the installed role fettle-view, and one who may read only nodes.
const viewers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: only-nodes}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fettle-view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: stranger}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: only-nodes}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: stranger}]
`

// command prepares a run of the binary, under a name, in the fixture's namespace.
func (f *machineFixture) command(binary string, args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.CommandContext(cluster.Context(f.t), binary, append(args, "-n", f.namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Kubeconfig())
	return cmd
}

// ask runs fettle, and returns its output, errors last, and its exit status.
func (f *machineFixture) ask(args ...string) (string, int) {
	f.t.Helper()
	var out, errs bytes.Buffer
	cmd := f.command(cluster.Binary(f.t, "fettle"), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatalf("running fettle %s: %v", strings.Join(args, " "), err)
	}
	return out.String() + errs.String(), cmd.ProcessState.ExitCode()
}

// wantAnswer runs a command until its output has all of the words.
func (f *machineFixture) wantAnswer(question string, words ...string) string {
	f.t.Helper()
	var answer string
	f.Eventually(f.t, "fettle "+question, func(context.Context) error {
		var status int
		answer, status = f.ask(strings.Fields(question)...)
		if status != 0 {
			return fmt.Errorf("exit status %d:\n%s", status, answer)
		}
		for _, w := range words {
			if !strings.Contains(answer, w) {
				return fmt.Errorf("it does not say %q:\n%s", w, answer)
			}
		}
		return nil
	})
	if strings.Contains(answer, "\x1b") {
		f.t.Errorf("there are colours in what is no terminal:\n%q", answer)
	}
	return answer
}

func askAboutAHealthyCluster(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.machine("other", machineOptions{labels: map[string]string{"role": "infra"}})
	f.node("alone", false)
	f.healthCheck("example", nil, readyCheck("maxUnhealthy: 50%"))
	f.wantAnswer("status", "leads (lease fettle-system/fettle", "example        2/2       allowed   0/1", "All machines are healthy, and nothing is under repair.")
	f.wantAnswer("explain machine/a", "Node           "+f.nodeName("a"), "Owner          MachineSet workers", "healthy, no criterion is met", "Nothing: it is healthy.")
	f.wantAnswer("explain node "+f.nodeName("a"), "Machine        healthy/a")
	f.wantAnswer("explain machinehealthcheck/example", "API            machine.openshift.io", "Selects        2 machines: 2 healthy", "TooManyUnhealthy is open: 0 of 2", "Everything that it selects is healthy.")
	f.wantAnswer("explain machines other", "No health check selects it", "example, whose selector also requires role=worker")
	f.wantAnswer("explain node/"+f.nodeName("alone"), "No machine in namespace healthy refers to node "+f.nodeName("alone"))
	if answer, status := f.ask("status", "-A"); status != 0 || !strings.Contains(answer, "NAMESPACE") {
		f.t.Errorf("exit status %d, and no namespaces:\n%s", status, answer)
	}
}

func askAboutASuspect(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.healthCheck("example", nil, strings.ReplaceAll(readyCheck("maxUnhealthy: 50%"), "timeout: "+short, "timeout: 1h"))
	f.setReady("a", corev1.ConditionUnknown)
	f.wantAnswer("status", "a becomes unhealthy at", "1/2", "suspect")
	f.wantAnswer("explain machine/a", "suspect, node condition Ready=Unknown since", "it is deleted, and its owner makes a new machine, if Ready is still Unknown.")
}

func askAboutAMachineWithoutOwner(f *machineFixture) {
	f.machine("a", machineOptions{noOwner: true})
	f.healthCheck("example", nil, readyCheck())
	f.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.wantEvent("a", "SkippedNoController")
	f.wantAnswer("explain machine/a", "NoOwner (example): no controller owns it", "is not repaired until the gates above open")
	f.wantAnswer("status", "unhealthy   UnhealthyCondition", "NoOwner")
	f.wantMachines("a")
}

func askAboutTooManyUnhealthy(f *machineFixture) {
	f.healthCheck("example", map[string]string{v1beta1.PausedAnnotation: ""}, readyCheck("maxUnhealthy: 1"))
	for _, name := range []string{"a", "b", "c"} {
		f.machine(name, machineOptions{})
		f.setCondition(name, "Ready", corev1.ConditionUnknown, time.Now().Add(-time.Hour))
	}
	f.annotate(f.check("example"), v1beta1.PausedAnnotation, nil)
	f.wantStatus("example", 0, 3, 0, v1beta1.TooManyUnhealthyReason)
	f.wantAnswer("status", "stopped: TooManyUnhealthy", "example repairs nothing: 3 of 3 are not healthy and repairs go on only up to 1")
	f.wantAnswer("explain mhc/example", "Selects        3 machines: 3 unhealthy", "stopped: TooManyUnhealthy", "TooManyUnhealthy is closed, for 3 (a, b, c): 3 of 3 are not healthy", "Why nothing happens now")
	f.wantAnswer("status --limit 1", "… and 2 machines more (--limit 0 shows all)")
	f.wantAnswer("explain node/"+f.nodeName("a"), "TooManyUnhealthy (example): 3 of 3 are not healthy")
}

func askAboutAPause(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.healthCheck("example", map[string]string{v1beta1.PausedAnnotation: ""}, readyCheck())
	f.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.wantAnswer("status", "stopped: Paused", "remove its pause annotation")
	f.wantAnswer("explain machine/a", "Paused (example)")
	f.wantAnswer("explain machinehealthcheck example", "stopped: Paused", "Paused is closed, for 1 (a): the health check is paused")
}

func askAboutTheLimitInFlight(f *machineFixture) {
	f.machine("a", machineOptions{finalizer: true})
	f.machine("b", machineOptions{})
	f.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-2*time.Hour))
	f.setCondition("b", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.healthCheck("example", nil, readyCheck())
	f.wantMachines("-a", "b")
	f.wantAnswer("explain machine/b", "InFlightLimit (example): 1 under repair already and at most 1 may be at a time")
	f.wantAnswer("status", "1/1", "InFlightLimit", "gone")
	f.wantAnswer("explain mhc example", "InFlightLimit is closed, for 1 (b): 1 under repair already", "Repairs under way", ": of a (node ", "1 held back by InFlightLimit")
	f.release("a")
}

func askAboutABackOff(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.healthCheck("example", map[string]string{annotation.BackoffBase: "1h", annotation.BackoffLimit: "1h"}, readyCheck())
	f.wantMachines()
	f.wantRepairs("a Succeeded")
	f.machine("b", machineOptions{phase: "Failed", noNode: true, noNodeRef: true})
	f.wantEvent("b", "RemediationHeldBackingOff")
	f.wantAnswer("explain machine/b", "BackingOff (example): the replacement of a repaired one has failed too", "opens at", "Earlier repairs", "Succeeded", "it is deleted, and its owner makes a new machine, if it is still unhealthy")
	f.wantMachines("b")
}

func askAboutARepair(f *machineFixture) {
	f.machine("a", machineOptions{finalizer: true})
	f.setReady("a", corev1.ConditionFalse)
	f.healthCheck("example", nil, readyCheck())
	f.wantMachines("-a")
	f.wantRepairs("a Running")
	name := f.repairName()
	f.wantAnswer("explain machine/a", "Repair         "+name, "waiting for finalizers machine.machine.openshift.io", "Its deletion was requested by repair "+name)
	f.wantAnswer("explain repair/"+name, "Phase          Running", "the removal of finalizer machine.machine.openshift.io", "kubectl describe machine a")
	f.wantAnswer("status", "REPAIR UNDER WAY", name)
	f.release("a")
	f.wantRepairs("a Succeeded")
	f.wantAnswer("explain rep "+name, "Phase          Succeeded", "Finished", "The target is gone; its owner replaces it.")
	f.wantAnswer("explain machine/a", "There is no machine a any more. This is its last repair:", "Repair         repairing/"+name, "Phase          Succeeded")
	f.wantAnswer("explain mhc/example", "Repairs that ended last", name+": of a, Succeeded")
}

func (f *machineFixture) repairName() string {
	f.t.Helper()
	repairs, err := f.repairs(cluster.Context(f.t))
	if err != nil || len(repairs) != 1 {
		f.t.Fatalf("want one repair, have %v (%v)", repairs, err)
	}
	return repairs[0].Name
}

func askWithFewPermissions(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.healthCheck("example", nil, readyCheck())
	f.wantAnswer("status --as viewer", "leads", "1/1")
	f.wantAnswer("explain machine/a --as viewer", "Nothing: it is healthy.")
	f.wantAnswer("explain mhc/example --as viewer", "Everything that it selects is healthy.")
	for _, question := range []string{"status --as stranger", "explain machine/a --as stranger", "explain node/x --as stranger"} {
		answer, status := f.ask(strings.Fields(question)...)
		for _, words := range []string{"you lack the permission to list machinehealthchecks.machine.openshift.io", "you lack the permission to list machines.machine.openshift.io", "list repairs.fettle.io", "ClusterRole fettle-view"} {
			if status != 1 || !strings.Contains(answer, words) {
				f.t.Errorf("%s: exit status %d; it does not say %q:\n%s", question, status, words, answer)
			}
		}
	}
	f.Apply(f.t, "apiVersion: fettle.io/v1alpha1\nkind: MachineDeletionRemediationTemplate\nmetadata: {name: replace, namespace: "+f.namespace+"}\nspec: {template: {spec: {}}}\n")
	path := f.file(f.manifest("asking", "40%") + "  remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: MachineDeletionRemediationTemplate, name: replace}\n")
	if answer, status := f.ask("check", path, "--as", "viewer"); status != 0 || strings.Contains(answer, "machinedeletionremediation") {
		f.t.Errorf("a check of a health check with Fettle's own remediation: exit status %d\n%s", status, answer)
	}
	path = f.file(f.manifest("young", "40%"))
	answer, status := f.ask("check", path, "--as", "viewer")
	if status != 0 || !strings.Contains(answer, "is not known: you may not patch it") || !strings.Contains(answer, "It selects 1 machine: a.") {
		f.t.Errorf("a check without the permission to write: exit status %d\n%s", status, answer)
	}
}

func askThroughKubectl(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.healthCheck("example", nil, readyCheck())
	dir := f.t.TempDir()
	for _, name := range []string{"kubectl-fettle", "kubectl_complete-fettle"} {
		if err := os.Symlink(cluster.Binary(f.t, "fettle"), filepath.Join(dir, name)); err != nil {
			f.t.Fatalf("making a plugin: %v", err)
		}
	}
	help, err := f.command(filepath.Join(dir, "kubectl-fettle"), "explain", "--help").Output()
	if err != nil || !strings.Contains(string(help), "\n  kubectl fettle explain machine/worker-a") || !strings.Contains(string(help), "Usage:\n  kubectl fettle explain") || strings.Contains(string(help), "\n  fettle ") {
		f.t.Errorf("%v; the help is not that of a plugin:\n%s", err, help)
	}
	failed, err := f.command(filepath.Join(dir, "kubectl-fettle"), "explain", "pod/a").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(failed), `kubectl fettle: "pod" is none of the kinds`) {
		f.t.Errorf("%v; the error is not that of a plugin:\n%s", err, failed)
	}
	for words, want := range map[string]string{"machine/": "machine/a\n", "mhc/": "mhc/example\n", "nodeh": "nodehealthcheck/\n", "no": "node/\n", "node/" + f.nodeName(""): "node/" + f.nodeName("a") + "\n"} {
		cmd := exec.CommandContext(cluster.Context(f.t), filepath.Join(dir, "kubectl_complete-fettle"), "explain", "-n", f.namespace, words)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Kubeconfig())
		out, err := cmd.Output()
		if err != nil || !strings.HasPrefix(string(out), want) {
			f.t.Errorf("%v; %q completes to %q, want %q", err, words, out, want)
		}
	}
}

func askAsAProgram(f *machineFixture) {
	f.machine("a", machineOptions{noOwner: true})
	f.healthCheck("example", nil, readyCheck())
	f.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.wantEvent("a", "SkippedNoController")
	var status struct {
		APIVersion, Kind string
		At               time.Time
		Controller       struct{ Leads, Holder string }
		HealthChecks     []struct {
			Name           string
			Total, Healthy int
			Repairs        string
		}
		NotHealthy []struct {
			Name, Health, Reason string
			HeldBy               []struct{ Gate string }
		}
	}
	out, code := f.ask("status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != 0 {
		f.t.Fatalf("exit status %d, %v:\n%s", code, err, out)
	}
	if status.APIVersion != "cli.fettle.io/v1alpha1" || status.Kind != "Status" || status.At.IsZero() || status.Controller.Leads != "yes" || status.Controller.Holder == "" {
		f.t.Errorf("the header is %+v", status)
	}
	if len(status.HealthChecks) != 1 || status.HealthChecks[0].Total != 1 || status.HealthChecks[0].Healthy != 0 || status.HealthChecks[0].Repairs != "Allowed" {
		f.t.Errorf("the health checks are %+v", status.HealthChecks)
	}
	if n := status.NotHealthy; len(n) != 1 || n[0].Health != "unhealthy" || len(n[0].HeldBy) != 1 || n[0].HeldBy[0].Gate != "NoOwner" {
		f.t.Errorf("not healthy are %+v", n)
	}
	if out, _ := f.ask("explain", "mhc/example", "-o", "yaml"); !strings.Contains(out, "kind: HealthCheckExplanation") || !strings.Contains(out, "gate: NoOwner") {
		f.t.Errorf("the health check in YAML is:\n%s", out)
	}
	if out, _ := f.ask("explain", "machine/a", "-o", "yaml"); !strings.HasPrefix(out, "---\n") || !strings.Contains(out, "kind: Explanation") {
		f.t.Errorf("YAML is:\n%s", out)
	}
}

// followARepair: a watch ends on its own when the repair has ended.
func followARepair(f *machineFixture) {
	f.machine("a", machineOptions{finalizer: true})
	f.setReady("a", corev1.ConditionFalse)
	f.healthCheck("example", nil, readyCheck())
	f.wantMachines("-a")
	f.wantRepairs("a Running")
	var out lockedBuffer
	cmd := f.command(cluster.Binary(f.t, "fettle"), "explain", "repair/"+f.repairName(), "--watch")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		f.t.Fatalf("starting a watch: %v", err)
	}
	f.Eventually(f.t, "the first answer", func(context.Context) error {
		if !strings.Contains(out.String(), "Phase          Running") {
			return fmt.Errorf("it says:\n%s", out.String())
		}
		return nil
	})
	f.release("a")
	if err := cmd.Wait(); err != nil {
		f.t.Errorf("the watch ended with %v:\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "Phase          Succeeded"); n != 1 || strings.LastIndex(out.String(), "Phase") != strings.LastIndex(out.String(), "Phase          Succeeded") {
		f.t.Errorf("the end was told %d times:\n%s", n, out.String())
	}
}

func askForWhatIsNot(f *machineFixture) {
	f.machine("worker-1", machineOptions{})
	cases := map[string]string{
		"explain machine/wroker-1":                                 "did you mean worker-1?",
		"explain node/" + f.nodeName("worker-2"):                   "did you mean " + f.nodeName("worker-1") + "?",
		"explain repair/worker-1-0-1":                              "there is no repair worker-1-0-1 in namespace names",
		"explain mhc/none":                                         "there is no machinehealthcheck none in namespace names; kubectl get machinehealthchecks -A lists them",
		"explain machine/a -n default":                             "there is no machine a in namespace default",
		"explain machine/worker-1 --namespace=default --cluster= ": "there is one in namespace names (add -n names)",
		"status --context nowhere":                                 "nowhere",
		"status --server https://127.0.0.1:1":                      "127.0.0.1:1",
	}
	for question, words := range cases {
		args := strings.Fields(question)
		cmd := exec.CommandContext(cluster.Context(f.t), cluster.Binary(f.t, "fettle"), args...)
		if !strings.Contains(question, "-n ") && !strings.Contains(question, "--namespace") {
			cmd.Args = append(cmd.Args, "-n", f.namespace)
		}
		cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Kubeconfig())
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), words) {
			f.t.Errorf("%s: %v; it does not say %q:\n%s", question, err, words, out)
		}
	}
}

// manifest is a health check for fettle check.
func (f *machineFixture) manifest(name, maxUnhealthy string) string {
	return "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: " + name + ", namespace: " + f.namespace + "}\nspec:\n" +
		indent(readyCheck("maxUnhealthy: "+maxUnhealthy))
}

func (f *machineFixture) file(text string) string {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "check.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatalf("writing a manifest: %v", err)
	}
	return path
}

func checkFiles(f *machineFixture) {
	f.machine("a", machineOptions{noOwner: true})
	f.machine("b", machineOptions{})
	f.setCondition("b", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	cases := map[string]struct {
		text   string
		args   []string
		status int
		says   string
	}{
		"it would act":               {f.manifest("new", "50%"), nil, 0, "it repairs b at once"},
		"it would be stopped":        {f.manifest("new", "0"), nil, 0, "it repairs nothing, since 1 of 2 are not healthy"},
		"the API server accepts":     {f.manifest("new", "50%"), nil, 0, "The API server would accept it."},
		"the API server refuses":     {strings.Replace(f.manifest("new", "50%"), "{name: new,", "{name: new, labels: {\"a b\": c},", 1), nil, 1, "the API server would refuse it"},
		"it selects nothing":         {strings.Replace(f.manifest("new", "50%"), "role: worker", "role: nobody", 1), nil, 0, "it selects nothing in namespace files"},
		"it selects nothing, strict": {strings.Replace(f.manifest("new", "50%"), "role: worker", "role: nobody", 1), []string{"--strict"}, 1, "--strict"},
		"two that overlap":           {f.manifest("one", "50%") + "---\n" + f.manifest("two", "50%"), nil, 0, "2 machines are selected by health check two too"},
		"a namespace to be made":     {strings.Replace(f.manifest("new", "50%"), "namespace: files", "namespace: nowhere", 1), nil, 0, "namespace nowhere does not exist yet"},
		"a bad number":               {f.manifest("new", "many"), nil, 1, `spec.maxUnhealthy is "many"`},
		"no cluster":                 {f.manifest("new", "50%"), []string{"--server", "https://127.0.0.1:1"}, 2, "--offline judges the files alone"},
		"no cluster needed":          {f.manifest("new", "50%"), []string{"--server", "https://127.0.0.1:1", "--offline"}, 0, "No problems"},
	}
	for sentence, tc := range cases {
		answer, status := f.ask(append([]string{"check", f.file(tc.text)}, tc.args...)...)
		if status != tc.status || !strings.Contains(answer, tc.says) {
			f.t.Errorf("%s: exit status %d, want %d, and %q in:\n%s", sentence, status, tc.status, tc.says, answer)
		}
	}
	f.wantMachines("a", "b")
	if err := f.Get(cluster.Context(f.t), keyOf(f.check("new")), f.check("new")); err == nil {
		f.t.Error("a check has made the health check that it checks")
	}
}

func checkWhatExists(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.healthCheck("old", map[string]string{v1beta1.PausedAnnotation: ""}, readyCheck("maxUnhealthy: 50%"))
	answer, status := f.ask("check", f.file(f.manifest("old", "75%")))
	if status != 0 || !strings.Contains(answer, "It replaces the health check of that name.") || strings.Contains(answer, "selected by health check") {
		f.t.Errorf("the existing one: exit status %d\n%s", status, answer)
	}
	answer, status = f.ask("check", f.file(f.manifest("young", "75%")), "-o", "json")
	var result struct {
		Outcome   string
		Documents []struct {
			Admission string
			Effect    struct {
				Overlaps []struct{ HealthCheck, Leads string }
			}
		}
	}
	if err := json.Unmarshal([]byte(answer), &result); err != nil || status != 0 || result.Outcome != "Passed" || len(result.Documents) != 1 {
		f.t.Fatalf("exit status %d, %v:\n%s", status, err, answer)
	}
	if d := result.Documents[0]; d.Admission != "Accepted" || len(d.Effect.Overlaps) != 1 || d.Effect.Overlaps[0].Leads != "old" {
		f.t.Errorf("the younger one is judged as %+v", d)
	}
	check := f.check("old")
	if err := f.Get(cluster.Context(f.t), keyOf(check), check); err != nil {
		f.t.Fatalf("reading the health check: %v", err)
	}
	if spec, _ := check.Object["spec"].(map[string]any); spec["maxUnhealthy"] != "50%" {
		f.t.Errorf("a check has changed the health check: %v", spec)
	}
}

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// lockedBuffer is written by a process and read by a test.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
