package provider

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	kubeadmConfigKind = "KubeadmConfig"
	// certificatesLast is how long kubeadm's certificates are valid.
	certificatesLast = 365 * 24 * time.Hour
	mirrorAnnotation = corev1.MirrorPodAnnotationKey
)

// components are the static pods of kubeadm on each machine of a control plane.
var components = [...]string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}

// kubeadmController makes the secrets of kubeadm's bootstrap configs.
type kubeadmController struct {
	client client.Client
	now    func() time.Time
}

// Reconcile makes the secret of a config, and writes until when the certificates are valid. A control plane would
// otherwise ask the API server on that machine, and there is none.
func (c *kubeadmController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &bootstrapv1.KubeadmConfig{}
	if err := c.client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() || config.Labels[clusterv1.ClusterNameLabel] == "" || config.Status.DataSecretName != "" {
		return ctrl.Result{}, nil
	}
	before := config.DeepCopy()
	if config.Annotations == nil {
		config.Annotations = map[string]string{}
	}
	config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation] = c.now().Add(certificatesLast).UTC().Format(time.RFC3339)
	if err := c.client.Patch(ctx, config, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("annotating the bootstrap config %s: %w", req, client.IgnoreNotFound(err))
	}
	secret, err := createData(ctx, c.client, config)
	if err != nil {
		return ctrl.Result{}, err
	}
	before = config.DeepCopy()
	config.Status.DataSecretName = secret
	config.Status.Initialization.DataSecretCreated = new(true)
	if err := c.client.Status().Patch(ctx, config, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of the bootstrap config %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}

// startComponents does the work of kubeadm on a machine of a control plane once its kubelet has started: it creates the
// static pods of the node, and the config of the cluster.
func startComponents(ctx context.Context, workload client.Client, owner *clusterv1.Machine, node string) error {
	if owner.Spec.Bootstrap.ConfigRef.Kind != kubeadmConfigKind {
		return nil
	}
	objects := []client.Object{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"},
	}}
	for _, component := range components {
		objects = append(objects, mirrorPod(component, node))
	}
	for _, object := range objects {
		if err := workload.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s of node %s: %w", object, object.GetName(), node, err)
		}
	}
	return taint(ctx, workload, node)
}

// taint keeps other pods away from the node.
func taint(ctx context.Context, workload client.Client, name string) error {
	node := &corev1.Node{}
	if err := workload.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	wanted := corev1.Taint{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&wanted) }) {
		return nil
	}
	before := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, wanted)
	// The controller manager writes the same list.
	if err := workload.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("tainting node %s: %w", name, err)
	}
	return nil
}

// mirrorPod returns a kubelet's mirror pod of a static pod.
func mirrorPod(component, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   metav1.NamespaceSystem,
			Name:        component + "-" + node,
			Labels:      map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{mirrorAnnotation: component},
		},
		Spec: corev1.PodSpec{
			NodeName:    node,
			HostNetwork: true,
			Containers:  []corev1.Container{{Name: component, Image: "simulated"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
	}
}
