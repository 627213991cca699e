package clusterapi

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/reconcilers/kubeadmcontrolplane"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/fettle-io/fettle/sandbox/etcdmembers"
)

const workers = 50

// The defaults of Cluster API's own program.
const (
	connectionGracePeriod = 50 * time.Second
	conditionsGracePeriod = 5 * time.Minute
)

// etcdTimeout suffices for a simulated member, which answers at once or not at all.
const etcdTimeout = 2 * time.Second

// reconciler is the interface of all reconcilers of Cluster API.
type reconciler interface {
	SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error
}

// addReconcilers also returns the connections to workload clusters, which the reconcilers share with the providers.
func addReconcilers(ctx context.Context, mgr ctrl.Manager, cfg Config) (clustercache.ClusterCache, error) {
	if err := index.AddDefaultIndexes(ctx, mgr); err != nil {
		return nil, fmt.Errorf("adding the indexes of Cluster API: %w", err)
	}
	options := controller.Options{MaxConcurrentReconciles: workers}
	secrets, err := setup.CreateSecretCachingClient(mgr)
	if err != nil {
		return nil, fmt.Errorf("making a client of secrets: %w", err)
	}
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: secrets,
		Cache:        setup.ClusterCacheCacheOptions(),
		// No rate limit, as in all simulations.
		Client: setup.ClusterCacheClientOptions(component, -1, 0),
	}, options)
	if err != nil {
		return nil, fmt.Errorf("adding the cache of clusters: %w", err)
	}
	for name, r := range reconcilers(mgr, clusters, cfg) {
		if err := r.SetupWithManager(ctx, mgr, options); err != nil {
			return nil, fmt.Errorf("adding the reconciler of %s: %w", name, err)
		}
	}
	if cfg.ControlPlanes {
		if err := addControlPlanes(ctx, mgr, clusters, options); err != nil {
			return nil, err
		}
	}
	return clusters, nil
}

// addControlPlanes adds the reconciler of KubeadmControlPlanes, and the etcd members to which it connects.
func addControlPlanes(ctx context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache, options controller.Options) error {
	members, err := etcdmembers.Listen(ctx, etcdmembers.Config{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clusters: clusters})
	if err != nil {
		return fmt.Errorf("adding the etcd members of control planes: %w", err)
	}
	if err := mgr.Add(members); err != nil {
		members.Close()
		return fmt.Errorf("adding the etcd members of control planes: %w", err)
	}
	reconciler := &kubeadmcontrolplane.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), ClusterCache: members.Cache(),
		SecretCachingClient: mgr.GetClient(), // without a cache: the manager's has dropped what certificates hold
		EtcdDialTimeout:     etcdTimeout, EtcdCallTimeout: etcdTimeout, EtcdLogger: zap.NewNop(),
		RemoteConditionsGracePeriod: conditionsGracePeriod,
	}
	if err := reconciler.SetupWithManager(ctx, mgr, options); err != nil {
		return fmt.Errorf("adding the reconciler of control planes: %w", err)
	}
	return nil
}

// reconcilers returns the configured reconcilers, by the kinds that they reconcile.
func reconcilers(mgr ctrl.Manager, clusters clustercache.ClusterCache, cfg Config) map[string]reconciler {
	reconcilers := map[string]reconciler{}
	if !cfg.KindsOnly {
		reconcilers = map[string]reconciler{
			"clusters": &cluster.Reconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), ClusterCache: clusters,
				RemoteConnectionGracePeriod: connectionGracePeriod,
			},
			"machines": &machine.Reconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), ClusterCache: clusters,
				RemoteConditionsGracePeriod: conditionsGracePeriod,
			},
			"machine sets": &machineset.Reconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), ClusterCache: clusters,
				PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll),
			},
			"machine deployments": &machinedeployment.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()},
		}
	}
	if cfg.HealthChecks {
		reconcilers["health checks"] = &machinehealthcheck.Reconciler{Client: mgr.GetClient(), ClusterCache: clusters}
	}
	return reconcilers
}
