package provider

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

// clusterController has nothing to build.
type clusterController struct {
	client client.Client
}

// Reconcile says that a cluster with an endpoint is provisioned.
func (c *clusterController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &providerv1.SandboxCluster{}
	if err := c.client.Get(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	endpoint := cluster.Spec.ControlPlaneEndpoint
	if endpoint.Host == "" || endpoint.Port == 0 || ptr.Deref(cluster.Status.Initialization.Provisioned, false) {
		return ctrl.Result{}, nil
	}
	before := cluster.DeepCopy()
	cluster.Status.Initialization.Provisioned = new(true)
	if err := c.client.Status().Patch(ctx, cluster, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of the cluster %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}
