package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
	"github.com/fettle-io/fettle/sandbox/crd"
	"github.com/fettle-io/fettle/sandbox/stage"
)

const namespace = "openshift-machine-api"

// openShift judges machines of machine.openshift.io by its MachineHealthCheck.
func openShift() dialect {
	return dialect{
		kinds:  []string{"machine.openshift.io_machinehealthchecks.yaml"},
		target: machineName,
		remedyCall: remedyCall{
			verb: "delete", resource: machinev1.GroupVersion.WithResource("machines"), noun: "machine", participle: "deleted", many: "deletions",
			namespace: namespace, body: onlyThisMachine,
			requested: deletionRequested, seen: deletionSeen,
			shows: func(event watch.EventType, m *unstructured.Unstructured) bool {
				return event == watch.Deleted || m.GetDeletionTimestamp() != nil
			},
		},
		limits: limits{processor: "≤ 1.00 ×", memory: "≤ 1.00 ×", writes: "≤ 4", passes: "0"},
		checks: "machinehealthchecks/status",
		check:  openShiftCheck,
		install: func(_ context.Context, s *stage.Stage) error {
			return crd.Install(s.Admin, crd.MachineAPI)
		},
		populate: populateOpenShift,
		healthy:  healthyMachines,
		watch:    watchOpenShift,
	}
}

const openShiftCheck = `
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: workers
  namespace: ` + namespace + `
  annotations: {fettle.io/max-in-flight: unlimited}
spec:
  selector: {matchLabels: {machine.openshift.io/cluster-api-machine-role: worker}}
  unhealthyConditions:
  - {type: Ready, status: "False", timeout: %[1]s}
  - {type: Ready, status: Unknown, timeout: %[1]s}
  maxUnhealthy: 100%%
  nodeStartupTimeout: 10m
`

// onlyThisMachine returns the preconditions by which the API server refuses to delete another machine of the same name.
func onlyThisMachine(_ string, now *unstructured.Unstructured) ([]byte, error) {
	only := &metav1.Preconditions{UID: new(now.GetUID()), ResourceVersion: new(now.GetResourceVersion())}
	body, err := json.Marshal(metav1.DeleteOptions{Preconditions: only})
	if err != nil {
		return nil, fmt.Errorf("encoding a deletion: %w", err)
	}
	return body, nil
}

func machineScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(machinev1.AddToScheme(s))
	return s
}

// populateOpenShift makes machine sets and running machines, without the controllers that would replace or drain them.
// A deleted machine is gone at once.
func populateOpenShift(ctx context.Context, s *stage.Stage, of cluster) (int, error) {
	c, err := client.New(s.Admin, client.Options{Scheme: machineScheme()})
	if err != nil {
		return 0, fmt.Errorf("making the machine controllers' client: %w", err)
	}
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return 0, fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	owners := make([]metav1.OwnerReference, setsFor(of.machines))
	for i := range owners {
		set := machineSet(i)
		if err := c.Create(ctx, set); err != nil {
			return 0, fmt.Errorf("creating machine set %s: %w", set.Name, err)
		}
		owners[i] = *metav1.NewControllerRef(set, machinev1.GroupVersion.WithKind("MachineSet"))
	}
	err = inParallel(ctx, of.machines, func(ctx context.Context, i int) error {
		m := machine(i, owners[i/machinesOfSet], time.Now())
		return makeMachine(ctx, c, m, m.Status)
	})
	if err != nil {
		return 0, err
	}
	return sizeOf(ctx, c, client.ObjectKey{Namespace: namespace, Name: machineName(of.machines - 1)}, &machinev1.Machine{})
}

func machineSet(i int) *machinev1.MachineSet {
	name := fmt.Sprintf("bench-workers-%d", i)
	return &machinev1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: machinev1.MachineSetSpec{
			Replicas: new(int32(machinesOfSet)),
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{machinev1.MachineSetLabel: name}},
			Template: machinev1.MachineTemplateSpec{
				ObjectMeta: machinev1.ObjectMeta{Labels: map[string]string{machinev1.MachineSetLabel: name}},
				Spec:       machinev1.MachineSpec{ProviderSpec: providerSpec("region-1a")},
			},
		},
	}
}

// machine returns a running machine with its node, as large as on public clouds.
func machine(i int, owner metav1.OwnerReference, now time.Time) *machinev1.Machine {
	zone := fmt.Sprintf("region-1%c", 'a'+i%3)
	n := node(i, now)
	updated := metav1.NewTime(now)
	return &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: machineName(i), Namespace: namespace, GenerateName: owner.Name + "-", OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{
				machinev1.ClusterLabel: "bench", machinev1.RoleLabel: "worker", "machine.openshift.io/cluster-api-machine-type": "worker",
				machinev1.MachineSetLabel: owner.Name, machinev1.ZoneLabel: zone, "machine.openshift.io/region": "region-1",
				machinev1.InstanceTypeLabel: "sim.4xlarge",
			},
			Annotations: map[string]string{machinev1.InstanceStateAnnotation: "running"},
		},
		Spec: machinev1.MachineSpec{ProviderID: new(n.Spec.ProviderID), ProviderSpec: providerSpec(zone)},
		Status: machinev1.MachineStatus{
			NodeRef: &corev1.ObjectReference{Kind: "Node", Name: n.Name}, LastUpdated: &updated, Phase: new(machinev1.PhaseRunning),
			Addresses: n.Status.Addresses,
			ProviderStatus: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"instanceId":%q,"instanceState":"running","conditions":[{"type":"MachineCreation",`+
				`"status":"True","reason":"MachineCreationSucceeded","message":"Machine successfully created","lastTransitionTime":%q}]}`,
				n.Spec.ProviderID, now.UTC().Format(time.RFC3339))},
			Conditions: []machinev1.Condition{
				{Type: machinev1.ConditionDrainable, Status: corev1.ConditionTrue, LastTransitionTime: updated},
				{Type: machinev1.ConditionInstanceExists, Status: corev1.ConditionTrue, LastTransitionTime: updated},
				{Type: machinev1.ConditionTerminable, Status: corev1.ConditionTrue, LastTransitionTime: updated},
			},
		},
	}
}

func providerSpec(zone string) machinev1.ProviderSpec {
	return machinev1.ProviderSpec{Value: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"machine.example.com/v1beta1","kind":"CloudMachineProviderConfig",`+
		`"image":{"id":"img-%s"},"instanceType":"sim.4xlarge","placement":{"region":"region-1","availabilityZone":%q},"credentialsSecret":{"name":"cloud-credentials"},`+
		`"userDataSecret":{"name":"worker-user-data"},"instanceProfile":{"id":"bench-worker-profile"},"deviceIndex":0,`+
		`"blockDevices":[{"disk":{"encrypted":true,"iops":0,"kmsKey":{"arn":""},"volumeSize":120,"volumeType":"gp3"}}],`+
		`"securityGroups":[{"filters":[{"name":"tag:Name","values":["bench-node"]}]},{"filters":[{"name":"tag:Name","values":["bench-lb"]}]}],`+
		`"subnet":{"filters":[{"name":"tag:Name","values":["bench-subnet-private-%s"]}]},`+
		`"tags":[{"name":"cluster/bench","value":"owned"},{"name":"team","value":"platform"},{"name":"cost-centre","value":"4711"}],`+
		`"metadataServiceOptions":{"authentication":"Required"}}`, digest("image")[:17], zone, zone)}}
}

func healthyMachines(ctx context.Context, c client.Client) (int, error) {
	return healthyIn(ctx, c, machinev1.GroupVersion.WithKind("MachineHealthCheck"), "currentHealthy")
}

func watchOpenShift(config *rest.Config) (cache.SharedInformer, error) {
	return watchMachines(config, machineScheme(), machinev1.GroupVersion, &machinev1.Machine{}, trimMachine)
}

func trimMachine(obj any) (any, error) {
	m, ok := obj.(*machinev1.Machine)
	if !ok {
		return obj, nil
	}
	return &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
			OwnerReferences: m.OwnerReferences, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		},
		Status: machinev1.MachineStatus{NodeRef: m.Status.NodeRef, Phase: m.Status.Phase, LastUpdated: m.Status.LastUpdated},
	}, nil
}
