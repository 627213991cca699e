package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// identityWorld is a cluster with a namespace of machines.
type identityWorld struct {
	*cluster.Cluster

	t         *testing.T
	namespace string
	owner     metav1.OwnerReference
}

const (
	identityMachineAPI        = "machine.openshift.io/v1beta1"
	identityMachineAnnotation = "machine.openshift.io/machine"
)

func newIdentityWorld(t *testing.T, c *cluster.Cluster, namespace string) *identityWorld {
	t.Helper()
	w := &identityWorld{Cluster: c, t: t, namespace: namespace}
	c.Namespace(t, namespace)
	c.Apply(t, `{apiVersion: `+identityMachineAPI+`, kind: MachineSet, metadata: {name: workers, namespace: `+namespace+`},
  spec: {replicas: 0, selector: {matchLabels: {made: never}}}}`)
	set := w.object("MachineSet", "workers")
	w.must("reading the machine set", c.Get(cluster.Context(t), client.ObjectKeyFromObject(set), set))
	w.owner = *metav1.NewControllerRef(set, set.GroupVersionKind())
	return w
}

func (w *identityWorld) in(t *testing.T) *identityWorld {
	t.Helper()
	of := *w
	of.t = t
	return &of
}

func (w *identityWorld) must(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

func (w *identityWorld) object(kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(identityMachineAPI)
	u.SetKind(kind)
	u.SetNamespace(w.namespace)
	u.SetName(name)
	return u
}

// as returns a client of another user.
func (w *identityWorld) as(user string, groups ...string) client.Client {
	w.t.Helper()
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	w.must("making a client of "+user, err)
	return c
}

// kubelet returns a client of the kubelet of a node.
func (w *identityWorld) kubelet(node string) client.Client {
	w.t.Helper()
	return w.as("system:node:"+node, "system:nodes")
}

// node makes a kubelet register a ready node.
func (w *identityWorld) node(name string) {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "small", "pool.example/name": "a",
	}}}
	kubelet := w.kubelet(name)
	w.must("registering node "+name, kubelet.Create(cluster.Context(w.t), n))
	w.must("the first report of node "+name, w.report(kubelet, name, corev1.ConditionTrue))
}

// report writes the Ready condition of a node, as kubelets do.
func (w *identityWorld) report(as client.Client, node string, ready corev1.ConditionStatus) error {
	now := time.Now().UTC().Format(time.RFC3339)
	return as.Status().Patch(cluster.Context(w.t), identityNode(node), client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, ready, now, now)))
}

func identityNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// merge changes a part of a node.
func (w *identityWorld) merge(as client.Client, node, change string) error {
	return as.Patch(cluster.Context(w.t), identityNode(node), client.RawPatch(types.MergePatchType, []byte(change)))
}

// mergeStatus changes a part of a node through its status.
func (w *identityWorld) mergeStatus(as client.Client, node, change string) error {
	return as.Status().Patch(cluster.Context(w.t), identityNode(node), client.RawPatch(types.MergePatchType, []byte(change)))
}

// machine makes a machine. Its status refers to a node, if one is named.
func (w *identityWorld) machine(name, node string) *unstructured.Unstructured {
	w.t.Helper()
	m := w.object("Machine", name)
	m.SetLabels(map[string]string{"role": "worker"})
	m.SetOwnerReferences([]metav1.OwnerReference{w.owner})
	w.must("creating machine "+name, w.Create(cluster.Context(w.t), m))
	status := `{"status":{"phase":"Provisioned"}}`
	if node != "" {
		status = `{"status":{"phase":"Running","nodeRef":{"kind":"Node","name":"` + node + `"}}}`
	}
	w.must("writing the status of machine "+name, w.Status().Patch(cluster.Context(w.t), m, client.RawPatch(types.MergePatchType, []byte(status))))
	return m
}

// remediation returns a remediation of a node, as operators of NodeHealthCheck create it.
func (w *identityWorld) remediation(name, node string) *v1alpha1.MachineDeletionRemediation {
	return &v1alpha1.MachineDeletionRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, Annotations: map[string]string{v1alpha1.NodeNameAnnotation: node},
	}}
}

// wantRefused waits until Fettle has ended a remediation without acting, and checks the reason.
func (w *identityWorld) wantRefused(r *v1alpha1.MachineDeletionRemediation, says ...string) {
	w.t.Helper()
	w.Eventually(w.t, "Fettle refuses remediation "+r.Name, func(ctx context.Context) error {
		var now v1alpha1.MachineDeletionRemediation
		if err := w.Get(ctx, client.ObjectKeyFromObject(r), &now); err != nil {
			return err
		}
		c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.SucceededCondition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.CannotStartMachineNotFoundReason {
			return fmt.Errorf("it says %+v", now.Status.Conditions)
		}
		for _, words := range says {
			if !strings.Contains(c.Message, words) {
				return fmt.Errorf("the message does not say %q: %s", words, c.Message)
			}
		}
		return nil
	})
}

// keeps checks that machines exist, and that Fettle has not deleted any.
func (w *identityWorld) keeps(names ...string) {
	w.t.Helper()
	for _, name := range names {
		m := w.object("Machine", name)
		w.must("reading machine "+name, w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(m), m))
		if m.GetDeletionTimestamp() != nil {
			w.t.Errorf("machine %s is being deleted", name)
		}
	}
	for _, r := range w.Requests(w.t) {
		for _, name := range names {
			if r.Verb == "delete" && r.Resource == "machines" && r.Namespace == w.namespace && r.Name == name {
				w.t.Errorf("Fettle has requested the deletion of machine %s", name)
			}
		}
	}
}

// wantGone waits until a machine is gone.
func (w *identityWorld) wantGone(name string) {
	w.t.Helper()
	w.Eventually(w.t, "machine "+name+" is gone", func(ctx context.Context) error {
		m := w.object("Machine", name)
		if err := w.Get(ctx, client.ObjectKeyFromObject(m), m); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
}

// wantForbidden checks that an error refuses, and says why and what to do.
func (w *identityWorld) wantForbidden(what string, err error, says ...string) {
	w.t.Helper()
	if !apierrors.IsForbidden(err) {
		w.t.Errorf("%s: want it forbidden, got %v", what, err)
		return
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			w.t.Errorf("%s: the answer does not say %q: %v", what, words, err)
		}
	}
}

// passesASecond waits until the next object is younger than all others, in the whole seconds of the API.
func (w *identityWorld) passesASecond() {
	w.t.Helper()
	next := time.Now().Truncate(time.Second).Add(1100 * time.Millisecond)
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	<-timer.C
}
