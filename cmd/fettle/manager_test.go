package main

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
)

var managed = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}

// TestEverythingWatchedIsTrimmed: each kind by those who know what is read of it, and all others of
// their managed fields.
func TestEverythingWatchedIsTrimmed(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"a": "b"}, ManagedFields: managed}}
	n.Status.Images = make([]corev1.ContainerImage, 40)
	check := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"maxUnhealthy": "40%"}}}
	check.SetManagedFields(managed)
	for sentence, obj := range map[string]client.Object{
		"a node":         n,
		"a machine":      &openshift.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: map[string]string{"a": "b"}, ManagedFields: managed}},
		"a repair":       &v1alpha1.Repair{ObjectMeta: metav1.ObjectMeta{Name: "r", ManagedFields: managed}},
		"a health check": check,
		"a definition":   &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "d", ManagedFields: managed}},
	} {
		out, err := trim(obj)
		if err != nil {
			t.Errorf("trimming %s: %v", sentence, err)
			continue
		}
		trimmed := out.(client.Object)
		if len(trimmed.GetManagedFields()) > 0 || len(trimmed.GetAnnotations()) > 0 || trimmed.GetName() != obj.GetName() {
			t.Errorf("%s was trimmed to %+v", sentence, trimmed)
		}
		if node, ok := trimmed.(*corev1.Node); ok && len(node.Status.Images) > 0 {
			t.Error("the images of a node were kept")
		}
	}
	if spec := check.Object["spec"].(map[string]any); spec["maxUnhealthy"] != "40%" {
		t.Errorf("the specification of a health check was trimmed: %v", spec)
	}
}

func TestSchemeKnowsWhatIsReadAndWritten(t *testing.T) {
	s := newScheme()
	for _, obj := range []client.Object{&corev1.Node{}, &openshift.Machine{}, &v1alpha1.Repair{}, &corev1.Event{}} {
		if _, _, err := s.ObjectKinds(obj); err != nil {
			t.Errorf("%T is not known: %v", obj, err)
		}
	}
}

func TestFlagsReachTheManager(t *testing.T) {
	o := controllerOptions{leaderElect: true, leaderElectionNamespace: "somewhere", healthAddress: ":1", metricsAddress: ":2"}
	got := managerOptions(o, logr.Discard())
	if !got.LeaderElection || got.LeaderElectionID != "fettle" || got.LeaderElectionNamespace != "somewhere" || !got.LeaderElectionReleaseOnCancel {
		t.Errorf("leader election: %t, %q in %q, released: %t",
			got.LeaderElection, got.LeaderElectionID, got.LeaderElectionNamespace, got.LeaderElectionReleaseOnCancel)
	}
	if got.HealthProbeBindAddress != ":1" || got.Metrics.BindAddress != ":2" || got.Cache.DefaultTransform == nil || got.Scheme == nil {
		t.Errorf("health %q, metrics %q, transform set: %t", got.HealthProbeBindAddress, got.Metrics.BindAddress, got.Cache.DefaultTransform != nil)
	}
}
