package provider

import (
	"fmt"
	"time"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

const workers = 10

// Register adds the providers to the manager. They reach workload clusters through the cache.
func Register(mgr ctrl.Manager, clusters clustercache.ClusterCache) error {
	if err := registerClusters(mgr); err != nil {
		return fmt.Errorf("adding the provider of clusters: %w", err)
	}
	if err := registerBootstrap(mgr); err != nil {
		return fmt.Errorf("adding the provider of bootstrap data: %w", err)
	}
	if err := registerKubeadm(mgr); err != nil {
		return fmt.Errorf("adding the provider of kubeadm's bootstrap data: %w", err)
	}
	if err := registerMachines(mgr, clusters); err != nil {
		return fmt.Errorf("adding the provider of machines: %w", err)
	}
	return nil
}

func registerClusters(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("sandboxcluster").
		For(&providerv1.SandboxCluster{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&clusterController{client: mgr.GetClient()})
}

func registerBootstrap(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("sandboxbootstrapconfig").
		For(&providerv1.SandboxBootstrapConfig{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&bootstrapController{client: mgr.GetClient()})
}

// registerKubeadm adds the controller of bootstrap configs of kubeadm's control planes.
func registerKubeadm(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("sandboxkubeadmconfig").
		For(&bootstrapv1.KubeadmConfig{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&kubeadmController{client: mgr.GetClient(), now: time.Now})
}

// registerMachines queues a machine whenever anything changes for which it waits: its Machine, its Cluster, or the
// connection to the workload cluster.
func registerMachines(mgr ctrl.Manager, clusters clustercache.ClusterCache) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &providerv1.SandboxMachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping clusters to their machines: %w", err)
	}
	kind := providerv1.GroupVersion.WithKind("SandboxMachine")
	return ctrl.NewControllerManagedBy(mgr).
		Named("sandboxmachine").
		For(&providerv1.SandboxMachine{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(kind))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		WatchesRawSource(clusters.GetClusterSource("sandboxmachine", ofCluster)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&machineController{client: mgr.GetClient(), clusters: clusters, now: time.Now})
}
