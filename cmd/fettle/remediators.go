package main

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/remediator/machinedeletion"
	"github.com/fettle-io/fettle/internal/served"
)

// remediators are Fettle's own, with the parts to wake when their kinds are served. They work for any health checker, in the
// replica that leads.
func remediators(manager ctrl.Manager, log logr.Logger) (*machinedeletion.Client, []served.Part) {
	deletion := machinedeletion.NewClient(machinedeletion.Config{
		Informers: manager.GetCache(), Cached: manager.GetCache(), Live: manager.GetAPIReader(), Writer: manager.GetClient(),
		Events: manager.GetEventRecorder("fettle"), Log: log.WithName("machine-deletion-remediation"), Now: time.Now,
		Machine: &openshift.Machine{}, Machines: &openshift.MachineList{}, Read: readMachine,
	})
	parts := []served.Part{
		{Name: "MachineDeletionRemediation", Kinds: machinedeletion.Kinds, Watch: deletion.Watch, InStep: deletion.InStep},
	}
	return deletion, parts
}

// readMachine gives the remediator what it reads of a machine, which the dialect's watch has decoded.
func readMachine(o client.Object) machinedeletion.Machine {
	m, ok := o.(*openshift.Machine)
	if !ok {
		return machinedeletion.Machine{}
	}
	read := machinedeletion.Machine{UID: m.UID, Joined: m.Node != "", Deleting: m.DeletionTimestamp != nil}
	if m.Owner != nil {
		read.Owner = types.UID(m.Owner.UID)
	}
	return read
}
