package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	// wordsPoison is what an attacker writes wherever text is accepted: escape sequences of terminals, a forged row of
	// a table, text from right to left, characters of no width, separators of lines.
	wordsPoison = "Odd\x1b[2J\x1b]0;t\a\r\nfake-row   healthy \u009b1m\u202e\u2066\u200b\ufeff\u2028"
	// wordsSecret is in the password of an address, and in the answer of a host that is no API server.
	wordsSecret    = "SECRET"
	wordsNamespace = "words"
)

// wordsStage is a cluster in which attackers have written all that they may, with a Fettle that has read it.
type wordsStage struct {
	*cluster.Cluster

	t      *testing.T
	fettle *cluster.Fettle
}

// TestI15WordsOfStrangers: tenants, kubelets, owners of machines and hosts of kubeconfigs write text. It reaches users
// in short lines, without control characters and passwords.
func TestI15WordsOfStrangers(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller", "--cluster-api", "--cluster-api-kinds-only"}})
	c.InstallFettle(t)
	c.AllowClusterAPI(t)
	c.Namespace(t, wordsNamespace)
	s := &wordsStage{Cluster: c, t: t}
	s.plantNodes()
	s.plantCluster("east", s.kubeconfigOfItself())
	s.plantCluster("evil", s.kubeconfigOfAHost())
	s.plantAnswers()
	s.fettle = c.StartFettle(t)
	s.awaitWords()
	t.Run("statuses", func(t *testing.T) { s.at(t).statuses() })
	t.Run("repairs", func(t *testing.T) { s.at(t).repairs() })
	t.Run("events", func(t *testing.T) { s.at(t).events() })
	t.Run("tables", func(t *testing.T) { s.at(t).answers("") })
	t.Run("documents", func(t *testing.T) { s.at(t).answers("json"); s.at(t).answers("yaml") })
	t.Run("log", func(t *testing.T) { s.at(t).log() })
}

func (s *wordsStage) at(t *testing.T) *wordsStage {
	t.Helper()
	return &wordsStage{s.Cluster, t, s.fettle}
}

func (s *wordsStage) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		if err := s.Create(cluster.Context(s.t), o); err != nil {
			s.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// patchStatus merges into the status of an object.
func (s *wordsStage) patchStatus(o client.Object, status map[string]any) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		err = s.Status().Patch(cluster.Context(s.t), o, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		s.t.Fatalf("writing the status of %s: %v", o.GetName(), err)
	}
}

// failedNode makes a node on which a kubelet has written odd text.
func (s *wordsStage) failedNode(name, condition string) {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.create(n)
	s.patchStatus(n, map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeConditionType(condition), Status: corev1.ConditionStatus(wordsPoison), Reason: wordsPoison, Message: wordsPoison,
		LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
	}}})
}

// plantNodes makes a machine of OpenShift. A tenant's health check finds its node unhealthy, by a criterion in the
// tenant's words. The machine stays in deletion.
func (s *wordsStage) plantNodes() {
	s.t.Helper()
	s.failedNode("odd", wordsPoison)
	set := wordsObject("machine.openshift.io/v1beta1", "MachineSet", "workers", map[string]any{
		"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"made": "never"}},
	})
	s.create(set)
	m := wordsObject("machine.openshift.io/v1beta1", "Machine", "odd", map[string]any{})
	m.SetLabels(map[string]string{"pool": "workers"})
	m.SetFinalizers([]string{"test.fettle.io/stays"})
	m.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(set, set.GroupVersionKind())})
	s.create(m)
	s.patchStatus(m, map[string]any{
		"nodeRef": map[string]any{"kind": "Node", "name": "odd"}, "errorMessage": wordsPoison, "errorReason": wordsPoison,
	})
	check := wordsObject("machine.openshift.io/v1beta1", "MachineHealthCheck", "odd", map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{"pool": "workers"}},
		"unhealthyConditions": []any{map[string]any{"type": wordsPoison, "status": wordsPoison, "timeout": "1s"}},
	})
	wrong := wordsObject("machine.openshift.io/v1beta1", "MachineHealthCheck", "wrong", map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{"pool": "none"}},
		"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeout": "1s"}},
	})
	wrong.SetAnnotations(map[string]string{annotation.StormCooldown: wordsPoison + "https://me:" + wordsSecret + "@h" + strings.Repeat("long", 20000)})
	s.create(check, wrong)
}

// plantCluster makes a workload cluster with a health check.
func (s *wordsStage) plantCluster(name string, kubeconfig []byte) {
	s.t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: wordsNamespace, Name: name, Labels: labels},
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxCluster", Name: name},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: name},
		},
	}
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: wordsNamespace, Name: name + "-kubeconfig", Labels: labels},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	}, c)
	up := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}
	}
	s.patchStatus(c, map[string]any{"conditions": []metav1.Condition{
		up(clusterv1.ClusterInfrastructureReadyCondition), up(clusterv1.ClusterControlPlaneInitializedCondition),
	}})
	s.create(wordsObject("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", name, map[string]any{
		"clusterName": name, "selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
		"checks": map[string]any{"unhealthyNodeConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeoutSeconds": int64(1)}}},
	}))
}

// plantAnswers makes a machine that says why it has failed, at the greatest length. Its owner answers the same way.
func (s *wordsStage) plantAnswers() {
	s.t.Helper()
	secret, set := "bootstrap", &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: wordsNamespace, Name: "east", Labels: map[string]string{clusterv1.ClusterNameLabel: "east"}}}
	spec := clusterv1.MachineSpec{
		ClusterName: "east", Bootstrap: clusterv1.Bootstrap{DataSecretName: &secret},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxMachine", Name: "east"},
	}
	labels := map[string]string{"pool": "east", clusterv1.ClusterNameLabel: "east"}
	set.Spec = clusterv1.MachineSetSpec{
		ClusterName: "east", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "east"}},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: spec},
	}
	s.create(set)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: wordsNamespace, Name: "east", Labels: labels}, Spec: spec}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	s.create(m)
	s.patchStatus(m, map[string]any{"deprecated": map[string]any{"v1beta1": map[string]any{
		"failureReason": wordsPoison, "failureMessage": wordsPoison + "https://me:" + wordsSecret + "@h/" + strings.Repeat("long ", 1900),
	}}})
}

// wordsObject returns an object of the tenant.
func wordsObject(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(wordsNamespace)
	u.SetName(name)
	return u
}

func (s *wordsStage) kubeconfigOfItself() []byte {
	s.t.Helper()
	raw, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		s.t.Fatalf("reading a kubeconfig: %v", err)
	}
	return raw
}

// kubeconfigOfAHost names a host that is no API server, with a password.
func (s *wordsStage) kubeconfigOfAHost() []byte {
	s.t.Helper()
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte("root:" + wordsSecret + wordsPoison))
	}))
	s.t.Cleanup(host.Close)
	authority, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: host.Certificate().Raw}))
	if err != nil {
		s.t.Fatalf("encoding a certificate: %v", err)
	}
	server := strings.Replace(host.URL, "https://", "https://me:"+wordsSecret+"@", 1)
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: t}}]\n", server, authority)
}

// awaitWords waits until Fettle has reported each, and then makes the owner of a machine answer.
func (s *wordsStage) awaitWords() {
	s.t.Helper()
	s.Eventually(s.t, "a repair of the odd machine", func(ctx context.Context) error { return s.repairOf(ctx, "odd", "") })
	s.Eventually(s.t, "a repair of the machine of east", func(ctx context.Context) error { return s.repairOf(ctx, "east", "") })
	m := &clusterv1.Machine{}
	s.Eventually(s.t, "an answer of the owner", func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKey{Namespace: wordsNamespace, Name: "east"}, m); err != nil {
			return err
		}
		if !meta.IsStatusConditionFalse(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) {
			return fmt.Errorf("its owner has no request: %+v", m.Status.Conditions)
		}
		answered := m.DeepCopy()
		meta.SetStatusCondition(&answered.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "RemediationDeferred", Message: wordsPoison + strings.Repeat("long ", 2000),
		})
		return s.Status().Patch(ctx, answered, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}))
	})
	s.Eventually(s.t, "a repair that tells of the answer", func(ctx context.Context) error { return s.repairOf(ctx, "east", "RemediationDeferred") })
	s.Eventually(s.t, "a status of the evil cluster", func(ctx context.Context) error {
		c := &clusterv1.MachineHealthCheck{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: wordsNamespace, Name: "evil"}, c); err != nil {
			return err
		}
		if reported := meta.FindStatusCondition(c.Status.Conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition); reported == nil || reported.Reason != "ConnectionDown" {
			return fmt.Errorf("it is %+v", reported)
		}
		return nil
	})
	s.Eventually(s.t, "a status of the health check that can't be followed", func(ctx context.Context) error {
		c := &v1beta1.MachineHealthCheck{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: wordsNamespace, Name: "wrong"}, c); err != nil || len(c.Status.Conditions) == 0 {
			return fmt.Errorf("it has the conditions %+v (%w)", c.Status.Conditions, err)
		}
		return nil
	})
}

// repairOf returns nil once a machine has a Repair that has begun and reports an answer.
func (s *wordsStage) repairOf(ctx context.Context, machine, answer string) error {
	var list v1alpha1.RepairList
	if err := s.List(ctx, &list, client.InNamespace(wordsNamespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if r := &list.Items[i]; r.Spec.Target.Name == machine && strings.Contains(r.Status.Answer, answer) {
			return nil
		}
	}
	return fmt.Errorf("there is none among %d", len(list.Items))
}

// wantFit checks that a text is short and printable, line feeds aside.
func (s *wordsStage) wantFit(what, text string, most int) {
	s.t.Helper()
	bad := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }
	if at := strings.IndexFunc(text, bad); at >= 0 || !utf8.ValidString(text) {
		s.t.Errorf("%s has what is not printable: %q", what, text[max(0, at-40):min(len(text), at+40)])
	}
	if at := strings.Index(text, wordsSecret); at >= 0 {
		s.t.Errorf("%s has what is secret: %q", what, text[max(0, at-80):at])
	}
	if strings.Contains(text, "\nfake-row") {
		s.t.Errorf("%s has a line that is not there: %q", what, text)
	}
	if len(text) > most {
		s.t.Errorf("%s has %d bytes, and may have %d", what, len(text), most)
	}
}

// statuses returns conditions that Fettle writes on health checks and machines.
func (s *wordsStage) statuses() {
	const most = 4096
	for _, name := range []string{"odd", "wrong"} {
		c := &v1beta1.MachineHealthCheck{}
		if err := s.Get(cluster.Context(s.t), client.ObjectKey{Namespace: wordsNamespace, Name: name}, c); err != nil {
			s.t.Fatal(err)
		}
		for _, reported := range c.Status.Conditions {
			s.wantFit(name+" "+reported.Type, reported.Message, most)
		}
	}
	for _, name := range []string{"east", "evil"} {
		c := &clusterv1.MachineHealthCheck{}
		if err := s.Get(cluster.Context(s.t), client.ObjectKey{Namespace: wordsNamespace, Name: name}, c); err != nil {
			s.t.Fatal(err)
		}
		for _, reported := range c.Status.Conditions {
			s.wantFit(name+" "+reported.Type, reported.Message, most)
		}
	}
	m := &clusterv1.Machine{}
	if err := s.Get(cluster.Context(s.t), client.ObjectKey{Namespace: wordsNamespace, Name: "east"}, m); err != nil {
		s.t.Fatal(err)
	}
	reported := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	if reported == nil || !strings.Contains(reported.Message, "Machine has failed for good") {
		s.t.Fatalf("the machine says %+v", reported)
	}
	s.wantFit("the condition of the machine", reported.Message, 10240)
}

func (s *wordsStage) repairs() {
	var list v1alpha1.RepairList
	if err := s.List(cluster.Context(s.t), &list, client.InNamespace(wordsNamespace)); err != nil || len(list.Items) == 0 {
		s.t.Fatalf("there are %d repairs (%v)", len(list.Items), err)
	}
	for i := range list.Items {
		r := &list.Items[i]
		for what, text := range map[string]string{"message": r.Spec.Message, "progress": r.Status.Message, "answer": r.Status.Answer, "error": r.Status.LastError} {
			s.wantFit(r.Name+" "+what, text, 4096)
		}
	}
}

func (s *wordsStage) events() {
	var list eventsv1.EventList
	if err := s.List(cluster.Context(s.t), &list); err != nil || len(list.Items) == 0 {
		s.t.Fatalf("there are %d events (%v)", len(list.Items), err)
	}
	reported := false
	for i := range list.Items {
		e := &list.Items[i]
		s.wantFit(e.Name+" "+e.Reason, e.Note, 1024)
		reported = reported || strings.Contains(e.Note, `Odd\x1b[2J`)
	}
	if !reported {
		s.t.Error("no event tells of the odd condition")
	}
}

// answers returns the output of the command line.
func (s *wordsStage) answers(format string) {
	var list v1alpha1.RepairList
	if err := s.List(cluster.Context(s.t), &list, client.InNamespace(wordsNamespace)); err != nil {
		s.t.Fatal(err)
	}
	questions := []string{"status -A", "explain machine/odd", "explain node/odd", "explain machine/east"}
	for i := range list.Items {
		questions = append(questions, "explain repair/"+list.Items[i].Name)
	}
	reported := ""
	for _, q := range questions {
		args := append(strings.Fields(q), "--kubeconfig", s.Kubeconfig(), "-n", wordsNamespace)
		if format != "" {
			args = append(args, "-o", format)
		}
		cmd := exec.Command(cluster.Binary(s.t, "fettle"), args...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			s.t.Fatalf("running fettle %s: %v", q, err)
		}
		if err != nil {
			s.t.Errorf("fettle %s: %v\n%s", q, err, out)
		}
		s.wantFit("fettle "+q, string(out), 128<<10)
		reported += string(out)
	}
	for _, want := range []string{"Odd", "[2J", "evil"} {
		if !strings.Contains(reported, want) {
			s.t.Errorf("nothing tells of %q", want)
		}
	}
}

func (s *wordsStage) log() {
	log := s.fettle.Log(s.t)
	for line := range strings.Lines(log) {
		s.wantFit("a line of the log", strings.TrimSuffix(line, "\n"), 32<<10)
	}
	if !bytes.Contains([]byte(log), []byte("evil")) {
		s.t.Error("the log does not tell of the evil cluster")
	}
}
