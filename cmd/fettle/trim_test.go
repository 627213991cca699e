package main

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
)

// TestI15WhatIsKeptIsBounded: caches keep a bounded part of each watched object that other parties
// write.
func TestI15WhatIsKeptIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	large := func(apiVersion, kind string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": map[string]any{"long": long},
			"status": map[string]any{"availableUpdates": long, "message": long},
		}}
		u.SetAnnotations(map[string]string{"long": long})
		return u
	}
	meta := metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"long": long}}
	for sentence, obj := range map[string]client.Object{
		"OpenShift's health check":   large("machine.openshift.io/v1beta1", "MachineHealthCheck"),
		"Cluster API's health check": large("cluster.x-k8s.io/v1beta2", "MachineHealthCheck"),
		"a health check of nodes":    large("remediation.medik8s.io/v1alpha1", "NodeHealthCheck"),
		"a request to a remediator":  large("a.example/v1", "Remediation"),
		"a repair":                   large("fettle.io/v1alpha1", "Repair"),
		"a lease":                    large("coordination.k8s.io/v1", "Lease"),
		"a cluster version":          large(upgrade.VersionKind.GroupVersion().String(), upgrade.VersionKind.Kind),
		"a definition":               &metav1.PartialObjectMetadata{ObjectMeta: meta},
		"a remediation of our own":   &v1alpha1.MachineDeletionRemediation{ObjectMeta: meta},
		"a power remediation":        &v1alpha1.PowerRemediation{ObjectMeta: meta},
		"a BMC":                      &v1alpha1.BMC{ObjectMeta: meta},
	} {
		t.Run(sentence, func(t *testing.T) {
			kept, err := trim()(obj)
			if err != nil {
				t.Fatalf("trimming: %v", err)
			}
			body, err := json.Marshal(kept)
			if err != nil {
				t.Fatalf("encoding: %v", err)
			}
			if len(body) > 16<<10 {
				t.Errorf("%d bytes are kept", len(body))
			}
		})
	}
}
