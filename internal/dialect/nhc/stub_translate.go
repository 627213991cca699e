// Package nhc is a stand-in: the translation that belongs here is written elsewhere, and this file is to
// be dropped when that comes.
package nhc

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/legible"
)

const healthCheckKind = "NodeHealthCheck"

type healthCheck struct {
	policy   core.Policy
	selector labels.Selector
	revision string
	status   v1alpha1.NodeHealthCheckStatus
	members  []int
}

func readHealthCheck(u *unstructured.Unstructured) *healthCheck {
	h := &healthCheck{
		revision: u.GetResourceVersion(),
		selector: labels.Nothing(),
		policy: core.Policy{
			ID:      core.ID{Kind: healthCheckKind, Name: u.GetName(), UID: string(u.GetUID())},
			Created: u.GetCreationTimestamp().Time,
		},
	}
	spec, _ := legible.Part[v1alpha1.NodeHealthCheckSpec](u.Object, "spec")
	h.status, _ = legible.Part[v1alpha1.NodeHealthCheckStatus](u.Object, "status")
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		h.selector = selector
	}
	h.policy.Paused = len(spec.PauseRequests) > 0
	return h
}
