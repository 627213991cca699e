package main

import (
	"crypto/tls"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/slim"
)

var managed = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}

// TestEverythingWatchedIsTrimmed: nodes and machines are decoded into slim types, the ledger trims
// repairs, and all others lose their managed fields.
func TestEverythingWatchedIsTrimmed(t *testing.T) {
	check := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"maxUnhealthy": "40%"}}}
	check.SetManagedFields(managed)
	repair := &unstructured.Unstructured{}
	repair.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Repair"))
	repair.SetName("r")
	repair.SetManagedFields(managed)
	repair.SetAnnotations(map[string]string{"a": "b"})
	for sentence, obj := range map[string]client.Object{
		"a node":         &slim.Node{Meta: slim.Meta{Name: "n"}},
		"a machine":      &openshift.Machine{Meta: slim.Meta{Name: "m"}},
		"a repair":       repair,
		"a cluster":      &clusterapi.Cluster{Meta: slim.Meta{Name: "c"}},
		"a health check": check,
		"a definition":   &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "d", ManagedFields: managed}},
	} {
		out, err := trimmer("fettle-system")(obj)
		if err != nil {
			t.Errorf("trimming %s: %v", sentence, err)
			continue
		}
		trimmed := out.(client.Object)
		if len(trimmed.GetManagedFields()) > 0 || len(trimmed.GetAnnotations()) > 0 || trimmed.GetName() != obj.GetName() {
			t.Errorf("%s was trimmed to %+v", sentence, trimmed)
		}
	}
	if spec := check.Object["spec"].(map[string]any); spec["maxUnhealthy"] != "40%" {
		t.Errorf("the specification of a health check was trimmed: %v", spec)
	}
}

// TestSchemeDecodesSlim: the scheme has the slim types under the kinds of the full ones.
func TestSchemeDecodesSlim(t *testing.T) {
	s := newScheme()
	for want, gvk := range map[client.Object]schema.GroupVersionKind{
		&slim.Node{}:         corev1.SchemeGroupVersion.WithKind("Node"),
		&openshift.Machine{}: v1beta1.GroupVersion.WithKind("Machine"),
		&v1alpha1.Repair{}:   v1alpha1.GroupVersion.WithKind("Repair"),

		&clusterapi.Machine{}: clusterapi.MachineKind,
		&clusterapi.Cluster{}: clusterapi.ClusterKind,
	} {
		if got, err := s.New(gvk); err != nil || reflect.TypeOf(got) != reflect.TypeOf(want) {
			t.Errorf("a %s is decoded as %T (%v), want %T", gvk, got, err, want)
		}
	}
	if s.Recognizes(corev1.SchemeGroupVersion.WithKind("Pod")) {
		t.Error("the scheme has the stock kinds of core/v1 too")
	}
}

func TestFlagsReachTheManager(t *testing.T) {
	o := controllerOptions{
		leaderElect: true, leaderElectionNamespace: "somewhere", healthAddress: ":1", metricsAddress: ":2",
		leaseDuration: 9 * time.Second, renewDeadline: 6 * time.Second, retryPeriod: 3 * time.Second,
	}
	got, held, err := managerOptions(&rest.Config{}, o, logr.Discard())
	if err != nil {
		t.Fatalf("preparing: %v", err)
	}
	if !got.LeaderElection || !got.LeaderElectionReleaseOnCancel || got.LeaderElectionResourceLockInterface != held || held.Describe() != "somewhere/fettle" {
		t.Errorf("leader election: %t, of %s, released: %t", got.LeaderElection, held.Describe(), got.LeaderElectionReleaseOnCancel)
	}
	if *got.LeaseDuration != o.leaseDuration || *got.RenewDeadline != o.renewDeadline || *got.RetryPeriod != o.retryPeriod || held.deadline != o.renewDeadline {
		t.Errorf("a lease of %s, given up after %s, renewed every %s", *got.LeaseDuration, *got.RenewDeadline, *got.RetryPeriod)
	}
	if got.HealthProbeBindAddress != ":1" || got.Metrics.BindAddress != ":2" || got.Cache.DefaultTransform == nil || got.Scheme == nil {
		t.Errorf("health %q, metrics %q, transform set: %t", got.HealthProbeBindAddress, got.Metrics.BindAddress, got.Cache.DefaultTransform != nil)
	}
	if *got.GracefulShutdownTimeout <= 5*time.Second || *got.GracefulShutdownTimeout >= 30*time.Second {
		t.Errorf("it ends within %s: longer than calls under way may take, and less than the kubelet waits", *got.GracefulShutdownTimeout)
	}
	if got, held, err := managerOptions(&rest.Config{}, controllerOptions{metricsAddress: off}, logr.Discard()); err != nil || held != nil || got.LeaderElection {
		t.Errorf("without election: %t, lease %v (%v)", got.LeaderElection, held, err)
	}
}

// TestMetricsAreServedSecurely: over TLS, for authorised clients, and without HTTP/2.
func TestMetricsAreServedSecurely(t *testing.T) {
	got, err := metricsOptions(controllerOptions{metricsAddress: ":2"})
	if err != nil || !got.SecureServing || got.FilterProvider == nil {
		t.Fatalf("TLS %t, filter %t (%v)", got.SecureServing, got.FilterProvider != nil, err)
	}
	c := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	for _, change := range got.TLSOpts {
		change(c)
	}
	if diff := cmp.Diff([]string{"http/1.1"}, c.NextProtos); diff != "" {
		t.Errorf("protocols (-want +got):\n%s", diff)
	}
	if pair, err := c.GetCertificate(nil); err != nil || len(pair.Certificate) == 0 {
		t.Errorf("no certificate of its own: %v", err)
	}
	given, err := metricsOptions(controllerOptions{metricsAddress: ":2", metricsCertDir: "/certs"})
	if err != nil || given.CertDir != "/certs" || len(given.TLSOpts) != 1 {
		t.Errorf("certificates of %q, %d changes (%v)", given.CertDir, len(given.TLSOpts), err)
	}
}

// TestWritersAreKept: caches keep the writers of a health check's status, and the present name of a
// lease's holder.
func TestWritersAreKept(t *testing.T) {
	written := func(gvk schema.GroupVersionKind, subresource, fields string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"holderIdentity": "NodeHealthCheck-workers"}}}
		u.SetGroupVersionKind(gvk)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "fettle", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}})
		out, err := trimmer("fettle-system")(u)
		if err != nil {
			t.Fatalf("trimming: %v", err)
		}
		return out.(*unstructured.Unstructured)
	}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineHealthCheck"},
		{Group: "machine.openshift.io", Version: "v1beta1", Kind: "MachineHealthCheck"},
		{Group: "remediation.medik8s.io", Version: "v1alpha1", Kind: "NodeHealthCheck"},
	} {
		if n := len(written(gvk, "status", `{"f:status":{"f:phase":{}}}`).GetManagedFields()); n != 1 {
			t.Errorf("of %s are kept %d field managers", gvk, n)
		}
	}
	lease := written(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, "", `{"f:spec":{"f:holderIdentity":{},"f:renewTime":{}}}`)
	if holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity"); holder != "fettle.io/NodeHealthCheck-workers" || len(lease.GetManagedFields()) > 0 {
		t.Errorf("a lease of an earlier version is trimmed to %v", lease)
	}
}
