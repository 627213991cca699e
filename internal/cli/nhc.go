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

// Read begins a reading.
func (NHC) Read() Reading { return nhcReading{nhc.NewReading()} }

// Review reviews a NodeHealthCheck.
func (NHC) Review(u *unstructured.Unstructured) ([]Remark, bool) { return nhc.Review(u) }

// Phase says in a word how a NodeHealthCheck stands.
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

// Observe gives the fleet.
func (r nhcReading) Observe(at time.Time) []ClusterObservation {
	return []ClusterObservation{{Observation: r.reading.Observe(at)}}
}

// Unmet gives what a health check's selector asks for and a node lacks.
func (r nhcReading) Unmet(policy, target core.ID) ([]string, bool) {
	return r.reading.Unmet(policy, target)
}

// StatusOf returns what the controller has written of a health check whose templates it can't use. All else is judged from here.
func (r nhcReading) StatusOf(check core.ID) WrittenStatus {
	c, has := r.reading.TemplateProblem(check)
	if !has {
		return WrittenStatus{}
	}
	return WrittenStatus{Allowed: core.No, Reason: c.Reason, Message: c.Message}
}

// HealthOf returns false: no controller writes on a node how it is.
func (nhcReading) HealthOf(core.ID) (WrittenHealth, bool) { return WrittenHealth{}, false }

// SkippedBy returns false: a label that takes a node out of health checking is told by a gate.
func (nhcReading) SkippedBy(core.ID) (string, bool) { return "", false }
