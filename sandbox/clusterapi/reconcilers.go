package clusterapi

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

const workers = 50

// The defaults of Cluster API's own program.
const (
	connectionGracePeriod = 50 * time.Second
	conditionsGracePeriod = 5 * time.Minute
)

// reconciler is what all of Cluster API's are.
type reconciler interface {
	SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error
}

// addReconcilers also returns the connections to workload clusters, which they share with the providers.
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
		// No rate limit, as all simulations.
		Client: setup.ClusterCacheClientOptions(component, -1, 0),
	}, options)
	if err != nil {
		return nil, fmt.Errorf("adding the cache of clusters: %w", err)
	}
	if cfg.KindsOnly {
		return clusters, nil
	}
	for name, r := range reconcilers(mgr, clusters, cfg.HealthChecks) {
		if err := r.SetupWithManager(ctx, mgr, options); err != nil {
			return nil, fmt.Errorf("adding the reconciler of %s: %w", name, err)
		}
	}
	return clusters, nil
}

func reconcilers(mgr ctrl.Manager, clusters clustercache.ClusterCache, healthChecks bool) map[string]reconciler {
	reconcilers := map[string]reconciler{
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
	if healthChecks {
		reconcilers["health checks"] = &machinehealthcheck.Reconciler{Client: mgr.GetClient(), ClusterCache: clusters}
	}
	return reconcilers
}
