package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/agentsigner"
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/fencestatus"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/machinedeletion"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
	"github.com/fettle-io/fettle/internal/remediator/powercycle"
	"github.com/fettle-io/fettle/internal/remediator/selffencing"
	"github.com/fettle-io/fettle/internal/servedapi"
	"github.com/fettle-io/fettle/internal/workload"
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

// wireFencing makes the remediators that fence nodes. One of them fences a node at a time.
func (r *components) wireFencing(o controllerOptions) error {
	core, err := fencingClient(r.manager)
	if err != nil {
		return err
	}
	claims := fencednode.NewClaims()
	promises := nodepromise.New(core, time.Now)
	if r.power, err = powerRemediator(r.manager, core, claims, o, r.log); err != nil {
		return err
	}
	r.power.Promises = promises
	r.powerAccess = powercycle.NewAccess(core, o.bmcNamespace, r.wake, r.log.WithName("power-rights"))
	if r.selfFence, err = selfFencingRemediator(r.manager, core, claims, o, r.log); err != nil {
		return err
	}
	r.selfFence.Promises = promises
	if r.fenceStatus, err = fenceStatus(r.manager, core, o, r.log); err != nil {
		return err
	}
	if o.remediates(powerCycleRemediator) {
		r.selfFence.OtherFences, r.selfFence.OtherWorks, r.selfFence.OtherKeeps = r.power.Fences, r.power.Works, r.power.Keeps
	}
	if o.remediates(selfFenceRemediator) {
		r.power.OtherFences, r.power.OtherWorks, r.power.OtherKeeps, r.power.Tidy = r.selfFence.Fences, r.selfFence.Works, r.selfFence.Keeps, r.selfFence.Tidy
	}
	return nil
}

// fencingClient returns the client of the remediators that fence nodes. They read and write nodes as a whole, for which the types of the
// manager's scheme have no fields.
func fencingClient(manager ctrl.Manager) (client.Client, error) {
	full := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme, authorizationv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(full))
	}
	core, err := client.New(manager.GetConfig(), client.Options{HTTPClient: manager.GetHTTPClient(), Scheme: full, Mapper: manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("preparing the client of remediations: %w", err)
	}
	return core, nil
}

// powerRemediator returns the remediator that powers hosts off and on for any health checker.
//
// For nodes of workload clusters it has clients that keep nothing. The connections of the dialect are there only while Fettle follows a
// health check of the cluster, and Cluster API's own controller creates PowerRemediations too.
func powerRemediator(manager ctrl.Manager, core client.Client, claims *fencednode.Claims, o controllerOptions, log logr.Logger) (*powercycle.Client, error) {
	live := manager.GetAPIReader()
	direct := workload.NewDirect(workload.Config{Secrets: live, Now: time.Now, Log: log.WithName("workload"), UserAgent: "fettle/" + version})
	owners := clusterapi.Writer{Statuses: manager.GetClient(), Live: live, Now: time.Now}
	metrics, err := registered(o, powercycle.NewMetrics)
	return powercycle.NewClient(powercycle.Config{
		Informers: manager.GetCache(), Cache: manager.GetCache(), Live: live, Writer: manager.GetClient(), Core: core,
		Events: manager.GetEventRecorder("fettle"), Log: log.WithName("power-remediation"), Now: time.Now,
		Workload: func(cluster types.NamespacedName) fencednode.API { return direct.Client(cluster) }, HandBack: owners.HandBack,
		Namespace: o.bmcNamespace, Claims: claims, Metrics: metrics,
	}), err
}

// selfFencingRemediator returns the remediator of nodes that fence themselves.
func selfFencingRemediator(manager ctrl.Manager, core client.Client, claims *fencednode.Claims, o controllerOptions, log logr.Logger) (*selffencing.Client, error) {
	metrics, err := registered(o, selffencing.NewMetrics)
	return selffencing.NewClient(selffencing.Config{
		Informers: manager.GetCache(), Cache: manager.GetCache(), Writer: manager.GetClient(), Core: core,
		Events: manager.GetEventRecorder("fettle"), Log: log.WithName("self-fence-remediation"), Now: time.Now, Claims: claims, Metrics: metrics,
	}), err
}

// fenceStatus returns what writes the statuses of FencePolicies.
func fenceStatus(manager ctrl.Manager, core client.Client, o controllerOptions, log logr.Logger) (*fencestatus.Client, error) {
	metrics, err := registered(o, fencestatus.NewMetrics)
	return fencestatus.NewClient(fencestatus.Config{
		Informers: manager.GetCache(), Cache: manager.GetCache(), Leases: core, Writer: manager.GetClient(), Metrics: metrics,
		Log: log.WithName("fence-policy"), Now: time.Now,
	}), err
}

// fenceStatusPart returns the part that starts it once the cluster serves its kind.
func fenceStatusPart(c *fencestatus.Client) servedapi.Part {
	return servedapi.Part{
		Name: "FencePolicy", Kinds: fencestatus.Kinds, Watch: c.Watch, HasSynced: c.HasSynced, Grants: ownRights, Optional: true,
		Reads: append(servedapi.ReadsOf(v1alpha1.GroupVersion, "FencePolicy"), readsNodes), Without: "no FencePolicy has a status",
	}
}

// addSigner makes what issues the certificates of agents. Their requests have a cache of their own, since it is limited to them.
func (r *components) addSigner(watched *watchLogger, o controllerOptions) error {
	full := runtime.NewScheme()
	utilruntime.Must(errors.Join(corev1.AddToScheme(full), authorizationv1.AddToScheme(full), certificatesv1.AddToScheme(full)))
	core, err := client.New(r.manager.GetConfig(), client.Options{HTTPClient: r.manager.GetHTTPClient(), Scheme: full, Mapper: r.manager.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("preparing the client of requests for certificates: %w", err)
	}
	r.requestCache, err = cache.New(r.manager.GetConfig(), cache.Options{
		HTTPClient: r.manager.GetHTTPClient(), Scheme: full, Mapper: r.manager.GetRESTMapper(),
		DefaultTransform: agentsigner.NameAndNode, DefaultWatchErrorHandler: watched.handleError,
		DefaultFieldSelector: fields.OneTermEqualSelector("spec.signerName", agentsigner.SignerName),
	})
	if err != nil {
		return fmt.Errorf("preparing to watch requests for certificates: %w", err)
	}
	r.signer = agentsigner.NewClient(agentsigner.Config{
		Informers: r.requestCache, Core: core, Namespace: o.leaderElectionNamespace, Log: r.log.WithName("agent-signer"), Now: time.Now,
	})
	return nil
}

// signerPart returns the part that starts to issue certificates once agents can run.
func signerPart(c *agentsigner.Client) servedapi.Part {
	return servedapi.Part{
		Name: "certificates of agents", Kinds: agentsigner.Kinds, Watch: c.Watch, HasSynced: c.HasSynced, Grants: "config/selffence", Optional: true,
		Reads:   servedapi.ReadsOf(v1alpha1.GroupVersion, "FencePolicy"),
		Without: "agents of nodes get no certificates",
	}
}

// selfFencePart returns the part that starts the remediator once the cluster serves its kinds.
func selfFencePart(c *selffencing.Client) servedapi.Part {
	return servedapi.Part{
		Name: "SelfFenceRemediation", Kinds: selffencing.Kinds, Watch: c.Watch, HasSynced: c.HasSynced, Grants: ownRights, Optional: true,
		Reads: append(servedapi.ReadsOf(v1alpha1.GroupVersion, "SelfFenceRemediation", "FencePolicy"), readsNodes), Without: "no SelfFenceRemediation is carried out",
	}
}

// finalizersOf returns a function that returns the finalizers with which requests are created. A PowerRemediation has one while the
// remediator runs that removes it.
func finalizersOf(powerRuns func() bool) func(schema.GroupKind) []string {
	power := v1alpha1.GroupVersion.WithKind("PowerRemediation").GroupKind()
	return func(kind schema.GroupKind) []string {
		if kind != power || !powerRuns() {
			return nil
		}
		return []string{annotation.PowerFinalizer}
	}
}

// powerPart returns the part that starts the remediator once the cluster serves its kinds.
func powerPart(c *powercycle.Client) servedapi.Part {
	return servedapi.Part{
		Name: "PowerRemediation", Kinds: powercycle.Kinds, Watch: c.Watch, HasSynced: c.HasSynced, Grants: ownRights, Optional: true,
		Reads: append(servedapi.ReadsOf(v1alpha1.GroupVersion, "PowerRemediation", "BMC", "FencePolicy"), readsNodes), Without: "no PowerRemediation is carried out",
	}
}
