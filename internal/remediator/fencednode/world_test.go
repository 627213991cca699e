package fencednode

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fettle-io/fettle/api/fettle/annotation"
)

// noon is when these tests take place.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// world has the nodes of an API server that tests change.
type world struct {
	*Nodes

	server client.WithWatch

	mu sync.Mutex
	// fault, if set, may refuse a list in the place of the API server.
	fault func(verb string, o runtime.Object) error
	// patches are the bodies of the patches.
	patches []string
	// undoes, if set, changes a node after a patch, as a webhook does before.
	undoes func(*corev1.Node)
}

// newWorld returns the nodes of an API server with some objects.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{}
	w.server = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			if p, is := o.(*corev1.Pod); is {
				return []string{p.Spec.NodeName}
			}
			return nil
		}).WithInterceptorFuncs(w.intercepted()).Build()
	w.Nodes = New(w.server, func() time.Time { return noon }, NewVolumes())
	return w
}

func (w *world) intercepted() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.fault != nil {
				if err := w.fault("get", o); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			w.mu.Lock()
			fault := w.fault
			w.mu.Unlock()
			if fault != nil {
				if err := fault("list", o); err != nil {
					return err
				}
			}
			return c.List(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			body, err := p.Data(o)
			if err != nil {
				return err
			}
			w.patches = append(w.patches, string(body))
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			if n, is := o.(*corev1.Node); is && w.undoes != nil {
				w.undoes(n)
				return c.Update(ctx, n)
			}
			return nil
		},
	}
}

// refuses has the API server refuse lists.
func (w *world) refuses(fault func(verb string, o runtime.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// node returns node-a as the API server has it.
func (w *world) node(t *testing.T) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := w.server.Get(t.Context(), types.NamespacedName{Name: "node-a"}, n); err != nil {
		t.Fatalf("reading the node: %v", err)
	}
	return n
}

// node returns node-a, which is not Ready.
func node(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-uid", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	n.Status.NodeInfo.BootID = "boot-1"
	for _, change := range changes {
		change(n)
	}
	return n
}

func ready(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key] = value
	}
}

func tainted(taints ...corev1.Taint) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

var (
	ownTaint          = corev1.Taint{Key: annotation.FencingTaint, Effect: corev1.TaintEffectNoExecute}
	outOfServiceTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
)

func TestGet(t *testing.T) {
	w := newWorld(t, node())
	if n, err := w.Get(t.Context(), "node-a"); err != nil || n == nil || n.UID != "node-uid" {
		t.Errorf("the node is %v (%v)", n, err)
	}
	if n, err := w.Get(t.Context(), "node-b"); err != nil || n != nil {
		t.Errorf("a node that does not exist is %v (%v)", n, err)
	}
	w.refuses(func(string, runtime.Object) error { return errors.New("no") })
	if n, err := w.Get(t.Context(), "node-a"); err == nil || n != nil {
		t.Errorf("a node that can't be read is %v (%v)", n, err)
	}
}

func TestCountWorkload(t *testing.T) {
	w := newWorld(t, pod("p", "node-a"), pod("q", "node-a"), volume("v", "node-a"), volume("w", "node-b"))
	if got, err := w.CountWorkload(t.Context(), "node-a"); err != nil || got.Pods != 2 || got.Volumes != 1 {
		t.Errorf("the workload is %+v (%v)", got, err)
	}
	refused := &storagev1.VolumeAttachmentList{}
	for _, kind := range []client.ObjectList{refused, &corev1.PodList{}} {
		w.refuses(func(_ string, o runtime.Object) error {
			if _, volumes := o.(*storagev1.VolumeAttachmentList); volumes == (kind == client.ObjectList(refused)) {
				return errors.New("no")
			}
			return nil
		})
		if got, err := w.CountWorkload(t.Context(), "node-a"); err == nil {
			t.Errorf("without a list, the workload is %+v", got)
		}
	}
}
