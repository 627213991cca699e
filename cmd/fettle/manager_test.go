package main

import (
	"reflect"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/lean"
)

var managed = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}

// TestEverythingWatchedIsTrimmed: nodes and machines are decoded lean, repairs are trimmed by those who
// know what is read of them, and all others lose their managed fields.
func TestEverythingWatchedIsTrimmed(t *testing.T) {
	check := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"maxUnhealthy": "40%"}}}
	check.SetManagedFields(managed)
	for sentence, obj := range map[string]client.Object{
		"a node":         &lean.Node{Meta: lean.Meta{Name: "n"}},
		"a machine":      &openshift.Machine{Meta: lean.Meta{Name: "m"}},
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
	}
	if spec := check.Object["spec"].(map[string]any); spec["maxUnhealthy"] != "40%" {
		t.Errorf("the specification of a health check was trimmed: %v", spec)
	}
}

// TestSchemeDecodesLean: the scheme has the lean kinds under the names of the stock ones.
func TestSchemeDecodesLean(t *testing.T) {
	s := newScheme()
	for want, gvk := range map[client.Object]schema.GroupVersionKind{
		&lean.Node{}:         corev1.SchemeGroupVersion.WithKind("Node"),
		&openshift.Machine{}: v1beta1.GroupVersion.WithKind("Machine"),
		&v1alpha1.Repair{}:   v1alpha1.GroupVersion.WithKind("Repair"),
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
