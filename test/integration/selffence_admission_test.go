package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestSelfFencingExamplesAreAdmitted: the API server accepts the examples of the page on self-fencing.
func TestSelfFencingExamplesAreAdmitted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--machine-api", noNodeController}})
	c.InstallFettle(t)
	c.Namespace(t, "openshift-machine-api")
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	kinds := map[string]int{}
	for _, u := range examplesOf(t, "docs/remedies/self-fencing.md") {
		kinds[u.GetKind()]++
		if err := strict.Create(cluster.Context(t), u, client.DryRunAll); err != nil {
			t.Errorf("the example of a %s: %v", u.GetKind(), err)
		}
	}
	for _, kind := range []string{"FencePolicy", "SelfFenceRemediationTemplate", "NodeHealthCheck", "MachineHealthCheck"} {
		if kinds[kind] == 0 {
			t.Errorf("the page has no example of a %s", kind)
		}
	}
}

// TestAgentsAreAdmitted: the API server accepts the agents of config/selffence, and their pods in their namespace.
func TestAgentsAreAdmitted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	for _, u := range cluster.Kustomization(t, "config/selffence") {
		if err := strict.Create(cluster.Context(t), u); err != nil {
			t.Errorf("creating %s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if u.GetKind() != "DaemonSet" {
			continue
		}
		if pause, _, err := unstructured.NestedInt64(u.Object, "spec", "minReadySeconds"); err != nil || pause < 15 { // a witness reads the Leases meanwhile
			t.Errorf("the next agent is replaced %d s after the last: %v", pause, err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: "agent"}}
		spec, _, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
		if err != nil {
			t.Fatalf("reading the pod: %v", err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod.Spec); err != nil {
			t.Fatalf("reading the pod: %v", err)
		}
		if err := strict.Create(cluster.Context(t), pod, client.DryRunAll); err != nil {
			t.Errorf("the pod of an agent: %v", err)
		}
	}
}

// TestSelfFencingObjectsAreChecked: an invalid FencePolicy or SelfFenceRemediation is refused with a reason, and the limits of
// a remediation can be changed, also by a typed client. Where the cluster serves no machines, the node of a remediation has none.
func TestSelfFencingObjectsAreChecked(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	hasDefaults(t, c)
	if m, err := (fencednode.Machines{Live: c.Client}).Get(cluster.Context(t), client.ObjectKey{Namespace: "default", Name: "m"}); m != nil || err != nil {
		t.Errorf("a cluster that serves no machines has machine %v: %v", m, err)
	}
	for want, change := range map[string]func(*v1alpha1.FencePolicySpec){
		"renewal must be from 1s to 5m, below":          func(s *v1alpha1.FencePolicySpec) { s.Renewal = ofTime(time.Second - 1) },
		"renewal must be from 1s to 5m, above":          func(s *v1alpha1.FencePolicySpec) { s.Renewal, s.Validity = ofTime(5*time.Minute+1), ofTime(time.Hour) },
		"at least three times the renewal":              func(s *v1alpha1.FencePolicySpec) { s.Validity = ofTime(15*time.Second - 1) },
		"validity must be at most 1h":                   func(s *v1alpha1.FencePolicySpec) { s.Validity = ofTime(time.Hour + 1) },
		"watchdog.timeout must be from 2s to 5m, below": func(s *v1alpha1.FencePolicySpec) { s.Watchdog.Timeout = ofTime(time.Second) },
		"watchdog.timeout must be from 2s to 5m, above": func(s *v1alpha1.FencePolicySpec) { s.Watchdog.Timeout = ofTime(301 * time.Second) },
		"in whole seconds":                              func(s *v1alpha1.FencePolicySpec) { s.Watchdog.Timeout = ofTime(2500 * time.Millisecond) },
		"spec.watchdog.device, another":                 func(s *v1alpha1.FencePolicySpec) { s.Watchdog.Device = "/dev/sda" },
		"spec.watchdog.device, above":                   func(s *v1alpha1.FencePolicySpec) { s.Watchdog.Device = "/dev/watchdog/../sda" },
		"spec.watchdog.kind":                            func(s *v1alpha1.FencePolicySpec) { s.Watchdog.Kind = "Software" },
		"spec.onIsolation":                              func(s *v1alpha1.FencePolicySpec) { s.OnIsolation = "Reboot" },
		"0 where onIsolation is Hold": func(s *v1alpha1.FencePolicySpec) {
			s.OnIsolation, s.Witnesses = v1alpha1.HoldOnIsolation, new(int32(3))
		},
		"PowerAndPromise needs onIsolation Reset": func(s *v1alpha1.FencePolicySpec) {
			s.OnIsolation, s.RequiredProof = v1alpha1.HoldOnIsolation, v1alpha1.PowerAndPromise
		},
		"spec.requiredProof": func(s *v1alpha1.FencePolicySpec) { s.RequiredProof = "Power" },
		"spec.witnesses":     func(s *v1alpha1.FencePolicySpec) { s.Witnesses = new(int32(4)) },
		"an operator In, NotIn, Exists or DoesNotExist": func(s *v1alpha1.FencePolicySpec) { s.NodeSelector = demands("Like", "a") },
		"values for In and NotIn alone":                 func(s *v1alpha1.FencePolicySpec) { s.NodeSelector = demands(metav1.LabelSelectorOpIn) },
		"values for In and NotIn alone, not for Exists": func(s *v1alpha1.FencePolicySpec) { s.NodeSelector = demands(metav1.LabelSelectorOpExists, "a") },
	} {
		part, _, _ := strings.Cut(want, ", ")
		p := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		change(&p.Spec)
		if err := c.Create(cluster.Context(t), p, client.DryRunAll); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("FencePolicy %+v: %v, want a refusal with %q", p.Spec, err, part)
		}
	}
	for name, change := range map[string]func(*v1alpha1.FencePolicySpec){
		"shortest": func(s *v1alpha1.FencePolicySpec) {
			s.Renewal, s.Validity, s.Watchdog.Timeout = ofTime(time.Second), ofTime(3*time.Second), ofTime(2*time.Second)
		},
		"longest": func(s *v1alpha1.FencePolicySpec) {
			s.Renewal, s.Validity, s.Watchdog.Timeout = ofTime(5*time.Minute), ofTime(time.Hour), ofTime(5*time.Minute)
		},
		"held nodes":         func(s *v1alpha1.FencePolicySpec) { s.OnIsolation = v1alpha1.HoldOnIsolation },
		"three witnesses":    func(s *v1alpha1.FencePolicySpec) { s.Witnesses = new(int32(3)) },
		"required proofs":    func(s *v1alpha1.FencePolicySpec) { s.RequiredProof = v1alpha1.PowerAndPromise },
		"nodes of two zones": func(s *v1alpha1.FencePolicySpec) { s.NodeSelector = demands(metav1.LabelSelectorOpIn, "a", "b") },
		"labelled nodes":     func(s *v1alpha1.FencePolicySpec) { s.NodeSelector = demands(metav1.LabelSelectorOpExists) },
		"five witnesses": func(s *v1alpha1.FencePolicySpec) {
			s.OnIsolation, s.Witnesses = v1alpha1.ResetOnIsolation, new(int32(5))
		},
		"another device": func(s *v1alpha1.FencePolicySpec) {
			s.Watchdog.Device, s.Watchdog.Kind, s.Watchdog.AllowVirtualMachines = "/dev/watchdog1", v1alpha1.AnyWatchdog, true
		},
	} {
		p := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		change(&p.Spec)
		if err := c.Create(cluster.Context(t), p, client.DryRunAll); err != nil {
			t.Errorf("the FencePolicy with the %s: %v", name, err)
		}
	}
	changesLimitsAlone(t, c)
}

// demands returns a selector of nodes by their zone.
func demands(operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: operator, Values: values}}}
}

// hasDefaults: a policy that says no more than which nodes it selects has the documented values.
func hasDefaults(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	p := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if err := c.Create(cluster.Context(t), p, client.DryRunAll); err != nil {
		t.Fatalf("creating a policy: %v", err)
	}
	want := v1alpha1.FencePolicySpec{
		Renewal: ofTime(5 * time.Second), Validity: ofTime(20 * time.Second), OnIsolation: v1alpha1.ResetOnIsolation, Witnesses: new(int32(0)), RequiredProof: v1alpha1.AnyProof,
		Watchdog: v1alpha1.FencePolicyWatchdog{Device: "/dev/watchdog", Timeout: ofTime(10 * time.Second), Kind: v1alpha1.HardwareWatchdog},
	}
	if diff := cmp.Diff(want, p.Spec); diff != "" {
		t.Error("the defaults of a FencePolicy:", diff)
	}
}

// changesLimitsAlone: of a remediation that may have begun, only limits can be changed.
func changesLimitsAlone(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx := cluster.Context(t)
	for want, change := range map[string]func(*v1alpha1.SelfFenceRemediationSpec){
		"fenceTimeout must be from 15s to 24h":   func(s *v1alpha1.SelfFenceRemediationSpec) { s.FenceTimeout = ofTime(time.Second) },
		"releaseTimeout must be from 15s to 24h": func(s *v1alpha1.SelfFenceRemediationSpec) { s.ReleaseTimeout = ofTime(25 * time.Hour) },
		"bootTimeout must be from 15s to 24h":    func(s *v1alpha1.SelfFenceRemediationSpec) { s.BootTimeout = ofTime(time.Second) },
		"spec.release":                           func(s *v1alpha1.SelfFenceRemediationSpec) { s.Release = "Now" },
	} {
		r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: "r"}}
		change(&r.Spec)
		if err := c.Create(ctx, r, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SelfFenceRemediation %+v: %v, want a refusal with %q", r.Spec, err, want)
		}
	}
	r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: "r"}}
	if err := c.Create(ctx, r); err != nil {
		t.Fatalf("creating a remediation: %v", err)
	}
	want := v1alpha1.SelfFenceRemediationSpec{
		Release:      v1alpha1.TaintRelease,
		FenceTimeout: ofTime(5 * time.Minute), ReleaseTimeout: ofTime(10 * time.Minute), BootTimeout: ofTime(15 * time.Minute),
	}
	if diff := cmp.Diff(want, r.Spec); diff != "" {
		t.Error("the defaults of a SelfFenceRemediation:", diff)
	}
	r.Spec.BootTimeout.Duration = 90 * time.Second
	if err := c.Update(ctx, r); err != nil {
		t.Errorf("changing a limit: %v", err)
	}
	for name, change := range map[string]func(*v1alpha1.SelfFenceRemediationSpec){
		"release": func(s *v1alpha1.SelfFenceRemediationSpec) { s.Release = v1alpha1.DeleteNodeRelease },
	} {
		changed := r.DeepCopy()
		change(&changed.Spec)
		if err := c.Update(ctx, changed, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "can't be changed") {
			t.Errorf("changing the %s: %v", name, err)
		}
	}
}

func ofTime(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
