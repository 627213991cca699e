package cli

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/slim"
)

// NHC is the dialect of medik8s's NodeHealthCheck.
type NHC struct{}

// Read returns an empty reading.
func (NHC) Read() Reading { return nhcReading{nhc.NewReading()} }

// Review reviews a NodeHealthCheck.
func (NHC) Review(u *unstructured.Unstructured) ([]Remark, bool) { return nhc.Review(u) }

// Phase returns the phase of a NodeHealthCheck.
func (NHC) Phase(r core.PolicyReport) string { return nhc.Phase(r) }

type nhcReading struct{ reading *nhc.Reading }

// Sources are health checks and nodes.
func (r nhcReading) Sources() []Source {
	checks := &unstructured.UnstructuredList{}
	checks.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeHealthCheckList"))
	return []Source{
		{
			Resource: schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "nodehealthchecks"}, List: checks, Drop: r.reading.DropCheck,
			Put: func(o client.Object) bool { return r.reading.PutCheck(o) },
		},
		{
			Resource: schema.GroupResource{Resource: "nodes"}, List: &slim.NodeList{}, Drop: r.reading.DropNode,
			Put: func(o client.Object) bool { return r.reading.PutNode(o) },
		},
	}
}

// Observe returns an observation of the cluster.
func (r nhcReading) Observe(at time.Time) []ClusterObservation {
	return []ClusterObservation{{Observation: r.reading.Observe(at)}}
}

// Unmet returns the requirements of a health check's selector that a node lacks.
func (r nhcReading) Unmet(policy, target core.ID) ([]string, bool) {
	return r.reading.Unmet(policy, target)
}

// StatusOf returns what the controller wrote about a health check whose templates it can't use. All else is judged from
// here.
func (r nhcReading) StatusOf(check core.ID) WrittenStatus {
	c, has := r.reading.TemplateProblem(check)
	if !has {
		return WrittenStatus{}
	}
	return WrittenStatus{Allowed: core.No, Reason: c.Reason, Message: c.Message}
}

// HealthOf returns false, since no controller writes the health of a node.
func (nhcReading) HealthOf(core.ID) (WrittenHealth, bool) { return WrittenHealth{}, false }

// SkippedBy returns false, since a gate names the label that excludes a node.
func (nhcReading) SkippedBy(core.ID) (string, bool) { return "", false }
