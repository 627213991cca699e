package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	pace     = 100 * time.Millisecond
	patience = time.Minute
)

// Await returns when the management cluster has accepted the cluster and is connected to it.
func Await(ctx context.Context, c client.Client, name types.NamespacedName) error {
	var missing []string
	err := wait.PollUntilContextTimeout(ctx, pace, patience, true, func(ctx context.Context) (bool, error) {
		cluster := &clusterv1.Cluster{}
		if err := c.Get(ctx, name, cluster); err != nil {
			return false, fmt.Errorf("reading cluster %s: %w", name, err)
		}
		missing = lacks(cluster)
		return len(missing) == 0, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("cluster %s still lacks %s; look at its status in the management cluster", name, strings.Join(missing, ", "))
	}
	return err
}

// lacks names what the cluster still lacks.
func lacks(cluster *clusterv1.Cluster) []string {
	var missing []string
	if !ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false) {
		missing = append(missing, "infrastructure")
	}
	if !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		missing = append(missing, "an initialized control plane")
	}
	if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition) {
		missing = append(missing, "a connection")
	}
	return missing
}
