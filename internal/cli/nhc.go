package cli

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/lean"
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
			Resource: schema.GroupResource{Resource: "nodes"}, List: &lean.NodeList{}, Drop: r.reading.DropNode,
			Put: func(o client.Object) bool { return r.reading.PutNode(o) },
		},
	}
}

// Observe gives the fleet.
func (r nhcReading) Observe(at time.Time) []Fleet {
	return []Fleet{{Observation: r.reading.Observe(at)}}
}

// Unmet gives what a health check's selector asks for and a node lacks.
func (r nhcReading) Unmet(policy, target core.ID) ([]string, bool) {
	return r.reading.Unmet(policy, target)
}

// WrittenOf returns what the controller has written of a health check whose templates it can't use. All else is judged from here.
func (r nhcReading) WrittenOf(check core.ID) Written {
	c, has := r.reading.TemplateProblem(check)
	if !has {
		return Written{}
	}
	return Written{Allowed: core.No, Reason: c.Reason, Message: c.Message}
}

// Says returns false: no controller writes on a node how it is.
func (nhcReading) Says(core.ID) (Word, bool) { return Word{}, false }

// LeftOut returns false: a label that takes a node out of health checking is told by a gate.
func (nhcReading) LeftOut(core.ID) (string, bool) { return "", false }
