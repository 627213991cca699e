package selffence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pause is how long the kubelet waits between two rounds.
const pause = 300 * time.Millisecond

// kubelet stands in for that of a node: it reports the node, and runs a process for each pod.
type kubelet struct {
	client.Client
	part

	pods map[types.UID]*exec.Cmd
	// refused are the pods that the taints of the node kept away when the kubelet started.
	refused map[types.UID]bool
}

// runKubelet reports and runs pods again and again. A failure ends the round, and nothing else.
func runKubelet(p part) error {
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Timeout = -1, 2*time.Second
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("reading the boot ID: %w", err)
	}
	k := &kubelet{part: p, pods: map[types.UID]*exec.Cmd{}}
	k.Boot = strings.TrimSpace(string(boot))
	for k.Client == nil {
		if k.Client, err = client.New(config, client.Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			k.Client = nil
			<-time.After(pause)
		}
	}
	for {
		if err := k.round(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), err)
		}
		<-time.After(pause)
	}
}

func (k *kubelet) round(ctx context.Context) error {
	if k.refused == nil {
		if err := k.begin(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(k.report(ctx), k.renew(ctx)); err != nil {
		return err
	}
	return k.settle(ctx)
}

func (k *kubelet) bound(ctx context.Context) ([]corev1.Pod, error) {
	var all corev1.PodList
	err := k.List(ctx, &all, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", k.Node)})
	return all.Items, err
}

// begin notes the pods that must not start, since they don't tolerate a taint of the node.
func (k *kubelet) begin(ctx context.Context) error {
	var n corev1.Node
	if err := k.Get(ctx, client.ObjectKey{Name: k.Node}, &n); err != nil {
		return err
	}
	pods, err := k.bound(ctx)
	if err != nil {
		return err
	}
	k.refused = map[types.UID]bool{}
	for i := range pods {
		for j := range n.Spec.Taints {
			if taint := &n.Spec.Taints[j]; taint.Effect == corev1.TaintEffectNoExecute && !tolerates(&pods[i], taint) {
				k.refused[pods[i].UID] = true
			}
		}
	}
	return nil
}

func tolerates(p *corev1.Pod, taint *corev1.Taint) bool {
	for i := range p.Spec.Tolerations {
		if p.Spec.Tolerations[i].ToleratesTaint(klog.Background(), taint, false) {
			return true
		}
	}
	return false
}

// report reports the node as Ready, and its boot.
func (k *kubelet) report(ctx context.Context) error {
	patch := fmt.Sprintf(`{"status":{"nodeInfo":{"bootID":%q},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q}]}}`,
		k.Boot, time.Now().UTC().Format(time.RFC3339))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.Node}}
	return k.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

// renew renews the lease of the node.
func (k *kubelet) renew(ctx context.Context) error {
	now := metav1.NowMicro()
	var l coordinationv1.Lease
	err := k.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: k.Node}, &l)
	l.Spec.HolderIdentity, l.Spec.RenewTime = &k.Node, &now
	switch {
	case apierrors.IsNotFound(err):
		l.Namespace, l.Name = corev1.NamespaceNodeLease, k.Node
		return k.Create(ctx, &l)
	case err != nil:
		return err
	}
	return k.Update(ctx, &l)
}

// settle starts and ends pods as the API server says.
func (k *kubelet) settle(ctx context.Context) error {
	pods, err := k.bound(ctx)
	if err != nil {
		return err
	}
	gone := maps.Clone(k.pods)
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil {
			delete(gone, p.UID)
			err = errors.Join(err, k.runs(ctx, p))
			continue
		}
		k.stop(p.UID)
		err = errors.Join(err, client.IgnoreNotFound(k.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})))
	}
	for uid := range gone {
		k.stop(uid)
	}
	return err
}

// runs starts a pod unless it runs, and says that it does.
func (k *kubelet) runs(ctx context.Context, p *corev1.Pod) error {
	if k.refused[p.UID] || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	if k.pods[p.UID] == nil {
		as := k.part
		as.Namespace, as.Name, as.UID = p.Namespace, p.Name, string(p.UID)
		if owner := metav1.GetControllerOf(p); owner != nil {
			as.Owner = owner.Name
		}
		cmd := exec.Command(k.Self)
		cmd.Env, cmd.Stderr = as.environment(rolePod), os.Stderr
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("starting pod %s: %w", p.Name, err)
		}
		k.pods[p.UID] = cmd
	}
	if p.Status.Phase == corev1.PodRunning {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`))
	return k.Status().Patch(ctx, p, patch)
}

// stop ends the process of a pod.
func (k *kubelet) stop(uid types.UID) {
	if process := k.pods[uid]; process != nil {
		_ = process.Process.Kill()
		_ = process.Wait()
		delete(k.pods, uid)
	}
}
