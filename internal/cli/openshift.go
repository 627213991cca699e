package cli

import (
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/slim"
)

// OpenShift is the dialect of OpenShift's MachineHealthCheck.
type OpenShift struct {
	// external is the controllers' setting for the strategy external-baremetal, as the user says.
	external openshift.ExternalBaremetal
}

// addFlags adds the flags of a dialect to those of a command.
func (d *OpenShift) addFlags(f *pflag.FlagSet) {
	d.external = openshift.Mark
	f.Var(&d.external, "external-baremetal", "the flag of this name of Fettle's controllers: Mark or PowerRemediation")
}

// Read returns an empty reading.
func (d *OpenShift) Read() Reading { return openShiftReading{openshift.NewReading(d.external)} }

// Review reviews a MachineHealthCheck.
func (d *OpenShift) Review(u *unstructured.Unstructured) ([]Remark, bool) {
	return openshift.Review(u, d.external)
}

// FieldOf returns the field of a health check that has what another field would have. The strategy
// external-baremetal stands for a template.
func (*OpenShift) FieldOf(u *unstructured.Unstructured, field string) string {
	if _, set, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "remediationTemplate"); field == "spec.remediationTemplate" && !set {
		return "metadata.annotations." + v1beta1.RemediationStrategyAnnotation
	}
	return field
}

// Phase is empty, since a MachineHealthCheck has none.
func (*OpenShift) Phase(core.PolicyReport) string { return "" }

// builtInTemplate returns a template that need not exist as an object. Whether the controller may make anything from it
// is for the controller to say.
func builtInTemplate(of core.Reference) template.BuiltInTemplate {
	return template.BuiltInTemplate{Object: openshift.BuiltInTemplate(of)}
}

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
