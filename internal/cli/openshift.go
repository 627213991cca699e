package cli

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/slim"
)

// OpenShift is the dialect of OpenShift's MachineHealthCheck.
type OpenShift struct{}

// Read returns an empty reading.
func (OpenShift) Read() Reading { return openShiftReading{openshift.NewReading()} }

// Review reviews a MachineHealthCheck.
func (OpenShift) Review(u *unstructured.Unstructured) ([]Remark, bool) { return openshift.Review(u) }

// Phase is empty, since a MachineHealthCheck has none.
func (OpenShift) Phase(core.PolicyReport) string { return "" }

type openShiftReading struct{ reading *openshift.Reading }

// Sources are health checks, machines, machine sets and nodes, with the types that decode them.
func (r openShiftReading) Sources() []Source {
	checks := &unstructured.UnstructuredList{}
	checks.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("MachineHealthCheckList"))
	sets := &unstructured.UnstructuredList{}
	sets.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("MachineSetList"))
	return []Source{
		{
			Resource: machineGroup("machinehealthchecks"), List: checks, Namespaced: true, Drop: r.reading.DropCheck,
			Put: func(o client.Object) bool { return r.reading.PutCheck(o) },
		},
		{
			Resource: machineGroup("machines"), List: &openshift.MachineList{}, Namespaced: true, Drop: r.reading.DropMachine,
			Put: func(o client.Object) bool { return r.reading.PutMachine(o) },
		},
		{
			Resource: machineGroup("machinesets"), List: sets, Namespaced: true, Drop: r.reading.DropMachineSet,
			Put:     func(o client.Object) bool { return r.reading.PutMachineSet(o) },
			Without: "whether the template of a machine set that was given up has changed since",
		},
		{
			Resource: schema.GroupResource{Resource: "nodes"}, List: &slim.NodeList{}, Drop: r.reading.DropNode,
			Put: func(o client.Object) bool { return r.reading.PutNode(o) },
		},
	}
}

func machineGroup(resource string) schema.GroupResource {
	return schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: resource}
}

// Observe returns an observation of the cluster.
func (r openShiftReading) Observe(at time.Time) []ClusterObservation {
	return []ClusterObservation{{Observation: r.reading.Observe(at)}}
}

// Unmet returns the requirements of a health check's selector that a machine lacks.
func (r openShiftReading) Unmet(policy, target core.ID) ([]string, bool) {
	return r.reading.Unmet(policy, target)
}
