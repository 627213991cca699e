package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/cloud"
)

// machineController moves machines from state to state, and their nodes with them.
type machineController struct {
	client   client.Client
	clusters clustercache.ClusterCache
	now      func() time.Time
}

// Reconcile brings one machine to its state of this instant. The objects that it waits for wake it, and so does the
// connection to a workload cluster.
func (c *machineController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &providerv1.SandboxMachine{}
	if err := c.client.Get(ctx, req.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := c.clusterOf(ctx, machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster != nil && annotations.IsPaused(cluster, machine) {
		return ctrl.Result{}, nil
	}
	var result ctrl.Result
	if machine.DeletionTimestamp.IsZero() {
		result, err = c.live(ctx, machine, cluster)
	} else {
		err = c.finish(ctx, machine, cluster)
	}
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, nil
	}
	return result, err
}

// clusterOf returns nil for a machine without a cluster, or of a cluster that is gone.
func (c *machineController) clusterOf(ctx context.Context, machine *providerv1.SandboxMachine) (*clusterv1.Cluster, error) {
	name := machine.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil, nil
	}
	cluster := &clusterv1.Cluster{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	return cluster, nil
}

func (c *machineController) live(ctx context.Context, machine *providerv1.SandboxMachine, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	owner, err := util.GetOwnerMachine(ctx, c.client, machine.ObjectMeta)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Machine of %s: %w", machine.Name, err)
	}
	if owner == nil || cluster == nil {
		return ctrl.Result{}, nil
	}
	if machine.Status.State == "" && !mayLaunch(cluster, owner) {
		return ctrl.Result{}, nil
	}
	now := c.now()
	status, wake := advance(machine, owner, now)
	if err := c.identify(ctx, machine, status); err != nil {
		return ctrl.Result{}, err
	}
	if status.Kubelet != machine.Status.Kubelet {
		if err := c.setKubelet(ctx, client.ObjectKeyFromObject(cluster), owner, instance(machine, owner), status.InstanceStatus); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !equality.Semantic.DeepEqual(status, machine.Status) {
		before := machine.DeepCopy()
		machine.Status = status
		if err := c.client.Status().Patch(ctx, machine, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("writing the status of machine %s: %w", machine.Name, err)
		}
	}
	if wake.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: wake.Sub(now)}, nil
}

// identify comes first: the finalizer before there is a node, and the provider ID before the machine is provisioned.
func (c *machineController) identify(ctx context.Context, machine *providerv1.SandboxMachine, status providerv1.SandboxMachineStatus) error {
	before := machine.DeepCopy()
	controllerutil.AddFinalizer(machine, providerv1.MachineFinalizer)
	machine.Spec.ProviderID = status.ProviderID
	if equality.Semantic.DeepEqual(before, machine) {
		return nil
	}
	if err := c.client.Patch(ctx, machine, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the provider ID of machine %s: %w", machine.Name, err)
	}
	return nil
}

// setKubelet comes before the status is written. If that write fails, a repetition is harmless.
func (c *machineController) setKubelet(
	ctx context.Context, cluster client.ObjectKey, owner *clusterv1.Machine, of *cloudv1.Instance, status cloudv1.InstanceStatus,
) error {
	workload, err := c.clusters.GetUncachedClient(ctx, cluster)
	if err != nil {
		return fmt.Errorf("connecting to cluster %s: %w", cluster, err)
	}
	switch status.Kubelet {
	case cloudv1.KubeletRunning:
		if err := cloud.StartKubelet(ctx, workload, of, status); err != nil {
			return err
		}
		return startComponents(ctx, workload, owner, of.Spec.NodeName)
	case cloudv1.KubeletStopped:
		return cloud.StopKubelet(ctx, workload, of)
	}
	return nil
}

// finish releases a deleted machine once its node is gone. It waits for a silent workload cluster, which would still
// have the node alive when it comes back. It does not wait for a cluster in deletion.
func (c *machineController) finish(ctx context.Context, machine *providerv1.SandboxMachine, cluster *clusterv1.Cluster) error {
	if !controllerutil.ContainsFinalizer(machine, providerv1.MachineFinalizer) {
		return nil
	}
	if cluster != nil {
		err := c.removeNode(ctx, client.ObjectKeyFromObject(cluster), machine.Name)
		if err != nil && cluster.DeletionTimestamp.IsZero() {
			return err
		}
	}
	before := machine.DeepCopy()
	controllerutil.RemoveFinalizer(machine, providerv1.MachineFinalizer)
	if err := c.client.Patch(ctx, machine, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of machine %s: %w", machine.Name, err)
	}
	return nil
}

func (c *machineController) removeNode(ctx context.Context, cluster client.ObjectKey, name string) error {
	workload, err := c.clusters.GetUncachedClient(ctx, cluster)
	if err != nil {
		return fmt.Errorf("connecting to cluster %s: %w", cluster, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := workload.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting node %s: %w", name, err)
	}
	return nil
}
