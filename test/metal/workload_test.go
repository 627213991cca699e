package metal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	fleetNamespace = "fleet"
	fleetCluster   = "east"
)

// The rights in a workload cluster that docs/remedies/power.md names, and those of a health check: to watch nodes, and for Cluster API's own
// controller to see whether the API server answers.
const fencesNodes = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: fettle}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch, delete]}
- {apiGroups: [""], resources: [pods], verbs: [list]}
- {apiGroups: [storage.k8s.io], resources: [volumeattachments], verbs: [list]}
- {nonResourceURLs: [/], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fettle}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fettle}
subjects:
- {kind: ServiceAccount, namespace: default, name: fettle}
`

// fleet is a management cluster of Cluster API, and a workload cluster on bare metal. The management cluster has hosts of its own.
type fleet struct {
	management *site
	workload   *site
	// proxy is the way from the management cluster to the workload cluster.
	proxy *cluster.Proxy
}

// newFleet starts both clusters. Cluster API's own controller of health checks runs, and Fettle does not yet.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{workload: startHosts(t), management: startSite(t, "--cluster-api", "--cluster-api-kinds-only", "--cluster-api-health-checks")}
	f.management.workload = f.workload
	f.workload.schedules(t)
	f.workload.Apply(t, fencesNodes)
	f.workload.ServiceAccount(t, "default", "fettle")
	m := f.management
	m.InstallFettleForNodes(t)
	m.AllowPower(t)
	m.AllowClusterAPI(t)
	m.records(t)
	m.Namespace(t, fleetNamespace)
	f.register(t)
	m.Apply(t, `apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: power, namespace: fleet}
spec: {template: {spec: {}}}
`)
	return f
}

// register makes the workload cluster known, with the kubeconfig of an account that has no more rights than it needs.
func (f *fleet) register(t *testing.T) {
	t.Helper()
	ctx := cluster.Context(t)
	kubeconfig := f.workload.KubeconfigOf(t, "default", "fettle")
	var address string
	f.proxy, address = f.workload.StartProxy(t)
	cluster.Redirect(t, kubeconfig, address)
	raw, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatalf("reading a kubeconfig: %v", err)
	}
	c := &clusterv1.Cluster{
		ObjectMeta: fleetMeta(fleetCluster, ""),
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxCluster", Name: fleetCluster},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: fleetCluster},
		},
	}
	secret := &corev1.Secret{ObjectMeta: fleetMeta(fleetCluster+"-kubeconfig", ""), Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": raw}}
	text := "bootstrap"
	set := &clusterv1.MachineSet{ObjectMeta: fleetMeta("workers", ""), Spec: clusterv1.MachineSetSpec{
		ClusterName: fleetCluster, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"of": "workers"}},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"of": "workers"}}, Spec: clusterv1.MachineSpec{
			ClusterName: fleetCluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: &text},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxMachineTemplate", Name: "workers"},
		}},
	}}
	for _, o := range []client.Object{secret, c, set} {
		if err := f.management.Create(ctx, o); err != nil {
			t.Fatalf("creating %T: %v", o, err)
		}
	}
	now := metav1.Now()
	for _, kind := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: now})
	}
	yes := true
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: &yes, ControlPlaneInitialized: &yes}
	if err := f.management.Status().Update(ctx, c); err != nil {
		t.Fatalf("writing the status of the Cluster: %v", err)
	}
}

func fleetMeta(name, pool string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: fleetNamespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: fleetCluster, "pool": pool, "of": "workers"}}
}

// member is a pool of the workload cluster, whose first node has a machine. A node of the management cluster has the same name.
type member struct {
	*pool

	fleet *fleet
	home  *pool
	boot  string
}

func (f *fleet) newMember(t *testing.T, name string) *member {
	t.Helper()
	m := &member{pool: &pool{T: t, site: f.workload, name: name}, fleet: f, home: &pool{T: t, site: f.management, name: name}}
	inCluster := func(b *v1alpha1.BMC) {
		b.Spec.Cluster = &v1alpha1.BMCCluster{Namespace: fleetNamespace, Name: fleetCluster}
	}
	m.bmc(f.management.Cluster, m.newNode(m.first(), "redfish"), fleetCluster+"-"+m.first(), inCluster)
	m.set()
	m.runsOn(m.first())
	m.bmc(f.management.Cluster, m.newNode(m.second(), "redfish"), fleetCluster+"-"+m.second(), inCluster)
	m.home.host(m.first(), nil)
	m.boot = m.home.node(cluster.Context(t), m.first()).Status.NodeInfo.BootID
	m.machine()
	return m
}

// machine creates the machine of the first node. It has another name than its node.
func (m *member) machine() {
	m.Helper()
	ctx := cluster.Context(m.T)
	owner := &clusterv1.MachineSet{}
	if err := m.fleet.management.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: "workers"}, owner); err != nil {
		m.Fatalf("reading the machine set: %v", err)
	}
	text := "bootstrap"
	machine := &clusterv1.Machine{ObjectMeta: fleetMeta(m.called(), m.name), Spec: clusterv1.MachineSpec{
		ClusterName: fleetCluster, Bootstrap: clusterv1.Bootstrap{DataSecretName: &text},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxMachine", Name: m.called()},
	}}
	machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("MachineSet"))}
	if err := m.fleet.management.Create(ctx, machine); err != nil {
		m.Fatalf("creating a machine: %v", err)
	}
	machine.Status.NodeRef.Name = m.first()
	if err := m.fleet.management.Status().Update(ctx, machine); err != nil {
		m.Fatalf("writing the status of a machine: %v", err)
	}
}

// called is the name of the machine.
func (m *member) called() string { return "machine-" + m.name }

// requests creates the remediation of the machine, as a health check does.
func (m *member) requests(spec v1alpha1.PowerRemediationSpec) {
	m.Helper()
	ctx := cluster.Context(m.T)
	machine := &clusterv1.Machine{}
	if err := m.fleet.management.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: m.called()}, machine); err != nil {
		m.Fatalf("reading the machine: %v", err)
	}
	r := &v1alpha1.PowerRemediation{ObjectMeta: fleetMeta(m.called(), m.name), Spec: spec}
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}}
	if err := m.fleet.management.Create(ctx, r); err != nil {
		m.Fatalf("creating a remediation: %v", err)
	}
}

// says waits until the remediation of the machine satisfies a condition.
func (m *member) says(what string, is func(*v1alpha1.PowerRemediation) bool) {
	m.Helper()
	m.Eventually(m.T, what, func(ctx context.Context) error {
		r := &v1alpha1.PowerRemediation{}
		if err := m.fleet.management.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: m.called()}, r); err != nil {
			return err
		}
		if !is(r) {
			return errors.New(r.Status.Phase + ": " + conditionsOf(r))
		}
		return nil
	})
}

// isWithdrawn waits until the remediation is gone.
func (m *member) isWithdrawn() {
	m.Helper()
	m.Eventually(m.T, "end of the remediation", func(ctx context.Context) error {
		r := &v1alpha1.PowerRemediation{}
		err := m.fleet.management.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: m.called()}, r)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %s: %s (%w)", r.Status.Phase, conditionsOf(r), err)
	})
}

// leavesHomeAlone checks that the node of the same name in the management cluster, and its host, were not touched.
func (m *member) leavesHomeAlone() {
	m.Helper()
	n := m.home.node(cluster.Context(m.T), m.first())
	if n.Status.NodeInfo.BootID != m.boot || n.Annotations[sandboxes+"host-power"] == "off" || !isReady(n) {
		m.Errorf("the host of the management cluster is %s, boot %s, was %s", n.Annotations[sandboxes+"host-power"], n.Status.NodeInfo.BootID, m.boot)
	}
	m.home.isRestored(m.first())
}

// TestPowerRemediationOfWorkloadClusters: machines of Cluster API have the hosts of their own cluster powered, and no others.
func TestPowerRemediationOfWorkloadClusters(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.management.StartFettle(t, "--watch-filter=fettle")
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, test := range map[string]func(*member){
		"by-fettle":      byFettle,
		"by-cluster-api": byClusterAPI,
		"silent":         clusterIsSilent,
		"gives-up":       ownerHasRequest,
	} {
		beside.Run(name, func(t *testing.T) {
			test(f.newMember(t, name))
		})
	}
}

// judgedBy creates the health check of the pool.
func (m *member) judgedBy(metadata string) {
	m.Helper()
	m.fleet.management.Apply(m.T, `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: `+m.name+`, namespace: fleet`+metadata+`}
spec:
  clusterName: east
  selector: {matchLabels: {pool: `+m.name+`}}
  checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 1}]}
  remediation: {templateRef: {apiVersion: fettle.io/v1alpha1, kind: PowerRemediationTemplate, name: power}}
`)
}

// checkedBy creates the health check of the pool, and has the node hang. The host is powered off and on, and the pod moves once.
func (m *member) checkedBy(metadata string) {
	m.Helper()
	boot := m.node(cluster.Context(m.T), m.first()).Status.NodeInfo.BootID
	m.judgedBy(metadata)
	m.hangs(m.first())
	m.says("record of the cluster", func(r *v1alpha1.PowerRemediation) bool {
		return r.Status.Node != nil && r.Status.Node.Cluster != nil && r.Status.Node.Cluster.Name == fleetCluster && r.Status.Node.Name == m.first()
	})
	m.runsOn(m.second())
	m.isBack(m.first(), boot)
	m.isWithdrawn()
	m.isRestored(m.first())
	m.ranTimes(2)
	m.leavesHomeAlone()
}

// takenOver is the metadata of a health check that Fettle has taken over from Cluster API's own controller.
const takenOver = `, labels: {cluster.x-k8s.io/watch-filter: fettle}, annotations: {cluster.x-k8s.io/paused: "", fettle.io/takes-over: "true"}`

func byFettle(m *member) { m.checkedBy(takenOver) }

func byClusterAPI(m *member) { m.checkedBy("") }

// clusterIsSilent: nothing is released while the API server of the workload cluster is away (I13), and it goes on afterwards.
func clusterIsSilent(m *member) {
	boot := m.node(cluster.Context(m.T), m.first()).Status.NodeInfo.BootID
	m.hangs(m.first())
	m.faults(m.first(), `{"hangs":true}`)
	m.requests(v1alpha1.PowerRemediationSpec{})
	m.says("power-off", func(r *v1alpha1.PowerRemediation) bool { return r.Status.Phase == "PoweringOff" })
	silence := m.fleet.proxy.Inject(m.T, cluster.Fault{Path: "/api/v1/nodes/" + m.first(), Stall: true})
	m.faults(m.first(), "")
	m.says("silence", func(r *v1alpha1.PowerRemediation) bool {
		return strings.Contains(conditionsOf(r), "Processing=True NodeNotRead") && strings.Contains(conditionsOf(r), "it takes too long")
	})
	m.Never(m.T, "release", 3*time.Second, func(ctx context.Context) error { return inService(m.node(ctx, m.first())) })
	silence.End()
	m.runsOn(m.second())
	m.isBack(m.first(), boot)
	m.says("end", func(r *v1alpha1.PowerRemediation) bool { return r.Status.Phase == "Succeeded" })
	m.isRestored(m.first())
	m.ranTimes(2)
	m.leavesHomeAlone()
}

// ownerHasRequest: a host that can't be powered off keeps its workload, and Fettle requests the replacement from the owner of its machine.
func ownerHasRequest(m *member) {
	m.hangs(m.first())
	m.faults(m.first(), `{"hangs":true}`)
	m.requests(v1alpha1.PowerRemediationSpec{OnFailure: v1alpha1.DeleteMachineAction, PowerOffTimeout: seconds(15), Retries: new(int32)})
	machine := &clusterv1.Machine{}
	m.Eventually(m.T, "request to the owner", func(ctx context.Context) error {
		if err := m.fleet.management.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: m.called()}, machine); err != nil {
			return err
		}
		if !meta.IsStatusConditionFalse(machine.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition) {
			return fmt.Errorf("its conditions are %+v", machine.Status.Conditions)
		}
		return nil
	})
	m.says("wait for the owner", func(r *v1alpha1.PowerRemediation) bool { return strings.Contains(conditionsOf(r), "MachineNotGone") })
	m.isNotReleased(m.first())
	m.faults(m.first(), "")
	if err := m.fleet.management.Delete(cluster.Context(m.T), machine); err != nil {
		m.Fatalf("deleting the machine: %v", err)
	}
	m.isWithdrawn()
	m.isRestored(m.first())
	m.ranTimes(1)
	m.leavesHomeAlone()
}
