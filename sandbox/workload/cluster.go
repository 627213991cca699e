package workload

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

// Version is the version of Kubernetes that sandboxes run.
const Version = "v1.36.3"

// The kinds of the providers.
const (
	clusterKind           = "SandboxCluster"
	machineKind           = "SandboxMachine"
	machineTemplateKind   = "SandboxMachineTemplate"
	bootstrapKind         = "SandboxBootstrapConfig"
	bootstrapTemplateKind = "SandboxBootstrapConfigTemplate"
	controlPlaneKind      = "KubeadmControlPlane"
)

// Cluster is a workload cluster that Register creates.
type Cluster struct {
	Namespace, Name string
	Kubeconfig      []byte // an administrator's, as the cluster's sandbox wrote it
	// ControlPlaneMachines are made by hand and belong to the control plane, which never replaces one; or, with Kubeadm, by
	// the control plane's own reconciler.
	ControlPlaneMachines int32
	// Kubeadm says that the management cluster runs that reconciler.
	Kubeadm bool
	// Workers are made by a machine deployment.
	Workers int32
}

// NewClient returns a client of a management cluster that knows all its kinds.
func NewClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, providerv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of the management cluster: %w", err)
	}
	return c, nil
}

// Register creates missing objects. A repetition tells the management cluster where the workload cluster is now.
func Register(ctx context.Context, c client.Client, cluster Cluster) error {
	endpoint, err := endpointOf(cluster.Kubeconfig)
	if err != nil {
		return err
	}
	if err := ensureNamespace(ctx, c, cluster.Namespace); err != nil {
		return err
	}
	if err := ensureAccess(ctx, c, cluster, endpoint); err != nil {
		return err
	}
	controlPlane, err := ensureControlPlane(ctx, c, cluster)
	if err != nil {
		return err
	}
	if err := create(ctx, c, newCluster(cluster)); err != nil {
		return err
	}
	if !cluster.Kubeadm {
		if err := create(ctx, c, controlPlaneMachines(cluster, controlPlane)...); err != nil {
			return err
		}
	}
	return create(ctx, c, workers(cluster)...)
}

func endpointOf(kubeconfig []byte) (providerv1.Endpoint, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return providerv1.Endpoint{}, fmt.Errorf("reading the workload cluster's kubeconfig: %w", err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return providerv1.Endpoint{}, fmt.Errorf("reading the workload cluster's address %s: %w", config.Host, err)
	}
	port, err := strconv.ParseInt(server.Port(), 10, 32)
	if err != nil {
		return providerv1.Endpoint{}, fmt.Errorf("reading the port in the workload cluster's address %s: %w", config.Host, err)
	}
	return providerv1.Endpoint{Host: server.Hostname(), Port: int32(port)}, nil
}

func ensureNamespace(ctx context.Context, c client.Client, name string) error {
	return create(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// ensureAccess writes the secret and the infrastructure, which both have the address of the cluster.
func ensureAccess(ctx context.Context, c client.Client, cluster Cluster, endpoint providerv1.Endpoint) error {
	secret := &corev1.Secret{ObjectMeta: cluster.meta(cluster.Name + "-kubeconfig"), Type: clusterv1.ClusterSecretType}
	if cluster.Kubeadm {
		secret.Type = corev1.SecretTypeOpaque // like a user's: a control plane renews its own with an unknown authority
	}
	_, err := controllerutil.CreateOrPatch(ctx, c, secret, func() error {
		secret.Data = map[string][]byte{"value": cluster.Kubeconfig}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of cluster %s: %w", cluster.Name, err)
	}
	infrastructure := &providerv1.SandboxCluster{ObjectMeta: cluster.meta(cluster.Name)}
	_, err = controllerutil.CreateOrPatch(ctx, c, infrastructure, func() error {
		infrastructure.Spec.ControlPlaneEndpoint = endpoint
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the infrastructure of cluster %s: %w", cluster.Name, err)
	}
	return nil
}

func newCluster(cluster Cluster) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: cluster.meta(cluster.Name),
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: provided(clusterKind, cluster.Name),
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: controlplanev1.GroupVersion.Group, Kind: controlPlaneKind, Name: cluster.Name,
			},
		},
	}
}

// meta returns the metadata of an object of the cluster.
func (c Cluster) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: c.Namespace,
		Name:      name,
		Labels:    map[string]string{clusterv1.ClusterNameLabel: c.Name},
	}
}

// provided refers to an object of the simulated providers.
func provided(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: providerv1.GroupVersion.Group, Kind: kind, Name: name}
}

// create leaves existing objects alone.
func create(ctx context.Context, c client.Client, objects ...client.Object) error {
	for _, object := range objects {
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}
