package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/crd"
	"github.com/fettle-io/fettle/sandbox/stage"
)

// clustersNamespace is the namespace of the workload clusters in the management cluster.
const clustersNamespace = "clusters"

// clusterAPI judges machines of cluster.x-k8s.io by its MachineHealthCheck. Their nodes are in a workload cluster. No
// reconciler replaces a marked machine: its work would be measured with the API server.
func clusterAPI() dialect {
	return dialect{
		target: machineName, apart: true, stands: true,
		remedyCall: remedyCall{
			verb: "patch", resource: clusterv1.GroupVersion.WithResource("machines"), subresource: "status", reversed: true,
			namespace: clustersNamespace, contentType: string(types.JSONPatchType), body: mark,
			noun: "machine", participle: "marked", many: "marks",
			requested: "mark requested", seen: "mark seen",
			shows: asksOwner,
		},
		limits:   limits{processor: "≤ 1.10 ×", memory: "≤ 1.20 ×", writes: "≤ 4", passes: "≤ 1"}, // its status has the generation that was judged
		checks:   "machinehealthchecks/status",
		check:    clusterAPICheck,
		install:  installClusterAPI,
		populate: populateClusterAPI,
		healthy: func(ctx context.Context, c client.Client) (int, error) {
			return healthyIn(ctx, c, clusterv1.GroupVersion.WithKind("MachineHealthCheck"), "currentHealthy")
		},
		watch: func(config *rest.Config) (cache.SharedInformer, error) {
			return watchMachines(config, clusterScheme(), clusterv1.GroupVersion, &clusterv1.Machine{}, trimClusterMachine)
		},
	}
}

const clusterAPICheck = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata:
  name: %[3]s-workers
  namespace: ` + clustersNamespace + `
  labels: {cluster.x-k8s.io/cluster-name: %[3]s}
spec:
  clusterName: %[3]s
  selector: {matchLabels: {nodepool: workers}}
  checks:
    nodeStartupTimeoutSeconds: 600
    unhealthyNodeConditions:
    - {type: Ready, status: "False", timeoutSeconds: %[2]d}
    - {type: Ready, status: Unknown, timeoutSeconds: %[2]d}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%%}}
`

func clusterScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(clusterv1.AddToScheme(s))
	return s
}

// asksOwner reports whether a machine is marked for its owner.
func asksOwner(event watch.EventType, m *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(m.Object, "status", "conditions")
	return event == watch.Modified && slices.ContainsFunc(conditions, func(c any) bool {
		fields, _ := c.(map[string]any)
		return fields["type"] == clusterv1.MachineOwnerRemediatedCondition && fields["status"] == string(metav1.ConditionFalse)
	})
}

// installClusterAPI defines the kinds in their stored version, since no webhook converts other versions.
func installClusterAPI(ctx context.Context, s *stage.Stage) error {
	definitions, err := crd.Definitions(crd.ClusterAPI)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		d.Spec.Versions = slices.DeleteFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
	}
	if err := crd.Apply(s.Admin, definitions); err != nil {
		return err
	}
	return s.InstallPart(ctx, "cluster_api")
}

// populateClusterAPI registers a workload cluster with running machines.
func populateClusterAPI(ctx context.Context, s *stage.Stage, of cluster) (int, error) {
	c, err := client.New(s.Admin, client.Options{Scheme: clusterScheme()})
	if err != nil {
		return 0, fmt.Errorf("making the cluster controllers' client: %w", err)
	}
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clustersNamespace}}); client.IgnoreAlreadyExists(err) != nil {
		return 0, fmt.Errorf("creating namespace %s: %w", clustersNamespace, err)
	}
	if err := registerCluster(ctx, c, of); err != nil {
		return 0, err
	}
	owners := make([]metav1.OwnerReference, setsFor(of.machines))
	for i := range owners {
		set := clusterMachineSet(of.name, i)
		if err := c.Create(ctx, set); err != nil {
			return 0, fmt.Errorf("creating machine set %s: %w", set.Name, err)
		}
		owners[i] = *metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))
	}
	err = inParallel(ctx, of.machines, func(ctx context.Context, i int) error {
		m := clusterMachine(of.name, of.first+i, owners[i/machinesOfSet], time.Now())
		return makeMachine(ctx, c, m, m.Status)
	})
	if err != nil {
		return 0, err
	}
	return sizeOf(ctx, c, client.ObjectKey{Namespace: clustersNamespace, Name: machineName(of.first + of.machines - 1)}, &clusterv1.Machine{})
}

// registerCluster creates the objects of a workload cluster that is up in the management cluster.
func registerCluster(ctx context.Context, c client.Client, of cluster) error {
	labels := map[string]string{clusterv1.ClusterNameLabel: of.name}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: clustersNamespace, Name: of.name + "-kubeconfig", Labels: labels},
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{"value": of.kubeconfig},
	}
	if err := c.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating secret %s: %w", secret.Name, err)
	}
	up := workloadCluster(of.name, time.Now())
	status, err := json.Marshal(map[string]any{"status": up.Status})
	if err != nil {
		return fmt.Errorf("encoding the status of cluster %s: %w", of.name, err)
	}
	if err := c.Create(ctx, up); err != nil {
		return fmt.Errorf("creating cluster %s: %w", of.name, err)
	}
	if err := c.Status().Patch(ctx, up, client.RawPatch(types.MergePatchType, status)); err != nil {
		return fmt.Errorf("writing the status of cluster %s: %w", of.name, err)
	}
	return nil
}

func workloadCluster(name string, now time.Time) *clusterv1.Cluster {
	status := clusterv1.ClusterStatus{
		Initialization: clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)},
		Phase:          string(clusterv1.ClusterPhaseProvisioned),
	}
	for _, kind := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		})
	}
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: clustersNamespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}},
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: provided("CloudCluster", name)},
		Status:     status,
	}
}

// provided refers to an object of an infrastructure provider. It doesn't exist, since nothing reads it.
func provided(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: kind, Name: name}
}

func trimClusterMachine(obj any) (any, error) {
	m, ok := obj.(*clusterv1.Machine)
	if !ok {
		return obj, nil
	}
	conditions := make([]metav1.Condition, len(m.Status.Conditions))
	for i, c := range m.Status.Conditions {
		conditions[i] = metav1.Condition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
	}
	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
			OwnerReferences: m.OwnerReferences, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		},
		Status: clusterv1.MachineStatus{Conditions: conditions, NodeRef: m.Status.NodeRef},
	}, nil
}
