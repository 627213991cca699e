package main

import (
	"time"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/cli"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/remedy/annotate"
	"github.com/fettle-io/fettle/internal/remedy/machinedelete"
	"github.com/fettle-io/fettle/internal/remedy/template"
	"github.com/fettle-io/fettle/internal/servedapi"
)

const openshiftName = "openshift"

// openshiftDialect is OpenShift's MachineHealthCheck.
func openshiftDialect() dialect {
	return dialect{
		name:          openshiftName,
		commands:      &cli.OpenShift{},
		addToScheme:   openshift.AddToScheme,
		isSlim:        func(obj any) bool { _, is := obj.(*openshift.Machine); return is },
		isHealthCheck: openshift.IsHealthCheck,
		wire:          (*components).wireOpenShift,
		parts:         (*components).openshiftParts,
		home:          func(r *components) homeClient { return r.machines },
		remedies:      (*components).machineRemedies,
	}
}

func (r *components) wireOpenShift(m controllerMetrics, o controllerOptions) error {
	metrics, err := registered(o, openshift.NewMetrics)
	r.machines = openshift.NewClient(openshift.Config{
		Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: r.manager.GetEventRecorder("fettle"), Now: time.Now, Wake: r.wake, Served: r.serves(openshift.Kinds),
		MachinesServed: r.machinesServed, External: o.external, Metrics: metrics, Writers: m.writersOf(openshift.Kinds),
	})
	return err
}

func (r *components) openshiftParts() []servedapi.Part {
	return []servedapi.Part{
		{
			Name: "OpenShift MachineHealthCheck", Kinds: openshift.Kinds, Watch: r.machines.Watch, HasSynced: r.machines.HasSynced,
			Reads: append(servedapi.ReadsOf(v1beta1.GroupVersion, "MachineHealthCheck", "Machine"), readsNodes), Grants: ownRights,
		},
		{
			Name: "templates of machine sets", Kinds: openshift.MachineSetKinds, Watch: r.machines.WatchMachineSets, HasSynced: r.machines.MachineSetsSynced, Optional: true,
			Reads: servedapi.ReadsOf(v1beta1.GroupVersion, "MachineSet"), Grants: ownRights, Without: withoutMachineSets,
		},
	}
}

const withoutMachineSets = "a machine set that is given up is not resumed when its template changes"

func (r *components) machineRemedies() map[string]engine.Remedy {
	machineKind, writer := v1beta1.GroupVersion.WithKind("Machine"), r.manager.GetClient()
	return map[string]engine.Remedy{
		openshift.DeleteMachine:   machinedelete.NewClient(machineKind, writer),
		openshift.AnnotateMachine: annotate.NewClient(machineKind, openshift.ExternalRemediationMarks(), writer),
	}
}

// builtInTemplates returns the templates that need no object: those of the strategy
// external-baremetal. Nothing is created from them where Fettle would not carry it out.
func (r *components) builtInTemplates(o controllerOptions) template.BuiltIn {
	return func(of core.Reference) template.BuiltInTemplate {
		built := template.BuiltInTemplate{Object: openshift.BuiltInTemplate(of)}
		switch {
		case built.Object == nil:
		case !o.remediates(powerCycleRemediator):
			built.Problem = "Fettle carries out no PowerRemediation, since --remediators lacks " + powerCycleRemediator + "; add it"
		default:
			problem, known := r.powerAccess.Problem()
			if built.Problem, built.Pending = problem, !known; !known {
				built.Problem = "it is not known yet whether Fettle has the rights of config/power"
			}
		}
		return built
	}
}

// machinesServed reports whether the cluster serves machines and Fettle may read them.
func (r *components) machinesServed() core.Tri {
	if r.waker.Unreadable(machinesPart) {
		return core.No
	}
	return r.waker.Served(openshift.MachineKinds)
}
