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

// bootstrapController makes the secrets for which Cluster API waits.
type bootstrapController struct {
	client client.Client
}

// Reconcile makes the secret of a config, once its cluster is known.
func (c *bootstrapController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &providerv1.SandboxBootstrapConfig{}
	if err := c.client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() || config.Labels[clusterv1.ClusterNameLabel] == "" || config.Status.DataSecretName != "" {
		return ctrl.Result{}, nil
	}
	secret, err := createData(ctx, c.client, config)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := config.DeepCopy()
	config.Status.DataSecretName = secret
	config.Status.Initialization.DataSecretCreated = new(true)
	if err := c.client.Status().Patch(ctx, config, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of the bootstrap config %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}

// createData makes the secret of a bootstrap config of either kind, and returns its name.
func createData(ctx context.Context, c client.Client, config client.Object) (string, error) {
	name := client.ObjectKeyFromObject(config)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace,
			Name:      name.Name,
			Labels:    map[string]string{clusterv1.ClusterNameLabel: config.GetLabels()[clusterv1.ClusterNameLabel]},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte("# A simulated machine needs nothing to boot.\n")},
	}
	if err := controllerutil.SetControllerReference(config, secret, c.Scheme()); err != nil {
		return "", fmt.Errorf("making the secret of the bootstrap config %s its own: %w", name, err)
	}
	if err := c.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating the secret of the bootstrap config %s: %w", name, err)
	}
	return secret.Name, nil
}
