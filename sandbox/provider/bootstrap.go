package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

// bootstrapController makes the secrets that Cluster API waits for.
type bootstrapController struct {
	client client.Client
}

// Reconcile makes the secret of a config, once it is known to which cluster it belongs.
func (c *bootstrapController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &providerv1.SandboxBootstrapConfig{}
	if err := c.client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster := config.Labels[clusterv1.ClusterNameLabel]
	if !config.DeletionTimestamp.IsZero() || cluster == "" || config.Status.DataSecretName != "" {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: config.Namespace,
			Name:      config.Name,
			Labels:    map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte("# A simulated machine needs nothing to boot.\n")},
	}
	if err := controllerutil.SetControllerReference(config, secret, c.client.Scheme()); err != nil {
		return ctrl.Result{}, fmt.Errorf("making the secret of the bootstrap config %s its own: %w", req, err)
	}
	if err := c.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, fmt.Errorf("creating the secret of the bootstrap config %s: %w", req, err)
	}
	before := config.DeepCopy()
	config.Status.DataSecretName = secret.Name
	config.Status.Initialization.DataSecretCreated = new(true)
	if err := c.client.Status().Patch(ctx, config, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of the bootstrap config %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}
