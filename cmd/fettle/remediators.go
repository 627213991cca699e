package main

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/remediator/machinedeletion"
	"github.com/fettle-io/fettle/internal/servedapi"
)

// deletionRemediator returns the remediator that deletes machines for any health checker.
func deletionRemediator(manager ctrl.Manager, log logr.Logger) *machinedeletion.Client {
	return machinedeletion.NewClient(machinedeletion.Config{
		Informers: manager.GetCache(), Cache: manager.GetCache(), Live: manager.GetAPIReader(), Writer: manager.GetClient(),
		Events: manager.GetEventRecorder("fettle"), Log: log.WithName("machine-deletion-remediation"), Now: time.Now,
		Machine: &openshift.Machine{}, Machines: &openshift.MachineList{}, Read: readMachine,
	})
}

// deletionPart returns the part that starts the remediator once the cluster serves its kinds.
func deletionPart(c *machinedeletion.Client) servedapi.Part {
	return servedapi.Part{
		Name: "MachineDeletionRemediation", Kinds: machinedeletion.Kinds, Watch: c.Watch, HasSynced: c.HasSynced, Grants: ownRights,
		Reads: append(servedapi.ReadsOf(v1beta1.GroupVersion, "Machine"), servedapi.ReadsOf(v1alpha1.GroupVersion, "MachineDeletionRemediation")...),
	}
}

// readMachine returns the fields of a machine that the remediator reads. The informer of the
// dialect has decoded the machine.
func readMachine(o client.Object) machinedeletion.Machine {
	m, ok := o.(*openshift.Machine)
	if !ok {
		return machinedeletion.Machine{}
	}
	read := machinedeletion.Machine{UID: m.UID, Name: m.Name, Node: m.Node, Deleting: m.DeletionTimestamp != nil}
	if m.Owner != nil {
		read.Owner = types.UID(m.Owner.UID)
	}
	return read
}
