package powercycle

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

const (
	bmcNamespace = "bmcs"
	testUser     = "fettle-power"
	testPassword = "hunter2-never-seen"
)

// noon is when these tests take place.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

var (
	keyA = types.NamespacedName{Namespace: "checks", Name: "node-a"}
	keyB = types.NamespacedName{Namespace: "checks", Name: "another"}
)

// phases are all phases of a fencing that has begun.
var phases = []fencing.Phase{
	fencing.Preparing, fencing.PoweringOff, fencing.Releasing, fencing.PoweringOn, fencing.Booting, fencing.Restoring,
	fencing.Aborting, fencing.DeletingMachine, fencing.Succeeded, fencing.Failed, fencing.Aborted,
}

// world is a remediator in front of an API server that tests change.
type world struct {
	*Client

	api    client.WithWatch
	events *events.FakeRecorder

	mu   sync.Mutex
	time time.Time
	// fault, if set, may refuse a request in the place of the API server. Requests are a verb and a type.
	fault func(verb string, o runtime.Object) error
	// drops, if set, changes a status after it was written, as an older definition of the kind does.
	drops func(*v1alpha1.PowerRemediationStatus)
	// undoes, if set, changes a node after a patch, as a webhook does before.
	undoes func(*corev1.Node)
	// patches are the bodies of the patches, but for those of a status.
	patches []string
}

// newWorld returns a remediator, and an API server with some objects.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []schema.GroupVersionKind{fencednode.OpenShiftMachine, bareMetalHost, clusterAPIMachine, clusterAPICluster} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	}
	w := &world{time: noon, events: events.NewFakeRecorder(100)}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.PowerRemediation{}, &v1alpha1.BMC{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			if p, is := o.(*corev1.Pod); is {
				return []string{p.Spec.NodeName}
			}
			return nil
		}).WithInterceptorFuncs(w.intercepted()).Build()
	w.Client = NewClient(Config{
		Cache: w.api, Live: w.api, Writer: w.api, Core: w.api, Events: w.events, Log: logr.Discard(), Now: w.now, Namespace: bmcNamespace, Claims: fencednode.NewClaims(),
		Promises: nodepromise.New(w.api, w.now),
	})
	t.Cleanup(func() {
		w.remediations.ShutDown()
		w.probes.ShutDown()
		w.hosts.close(context.WithoutCancel(t.Context()))
	})
	for _, o := range objects {
		if bmc, is := o.(*v1alpha1.BMC); is {
			w.bmcs.put(w.bmc(t, bmc.Name))
		}
	}
	return w
}

// refused returns the error of a request, if the test wants one.
func (w *world) refused(verb string, o runtime.Object) error {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(verb, o)
}

func (w *world) intercepted() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := w.refused("get", o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			if err := w.refused("list", o); err != nil {
				return err
			}
			return c.List(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := w.refused("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := w.refused("patch", o); err != nil {
				return err
			}
			body, err := p.Data(o)
			if err != nil {
				return err
			}
			w.mu.Lock()
			w.patches = append(w.patches, string(body))
			w.mu.Unlock()
			if err := c.Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			if n, is := o.(*corev1.Node); is && w.undoes != nil {
				w.undoes(n)
				return c.Update(ctx, n)
			}
			return nil
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := w.refused("patch status", o); err != nil {
				return err
			}
			if err := c.SubResource(sub).Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			if r, is := o.(*v1alpha1.PowerRemediation); is && w.drops != nil {
				w.drops(&r.Status)
				return c.SubResource(sub).Update(ctx, o)
			}
			return nil
		},
	}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = w.time.Add(time.Microsecond) // each reading is later, so that an order shows
	return w.time
}

func (w *world) forward(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = w.time.Add(by)
}

// refuses has the API server refuse requests.
func (w *world) refuses(fault func(verb string, o runtime.Object) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// identified is what a reconcile identifies before it begins.
func (w *world) identified(t *testing.T, r *v1alpha1.PowerRemediation) (subject, problem, error) {
	t.Helper()
	s, found, err := w.identify(t.Context(), r)
	if !found.found() && !s.waits.found() && err == nil {
		found, err = w.readMember(t.Context(), &reconciliation{r: r, slot: apiSlot{of: w.apiSlots}}, &s)
	}
	return s, found, err
}

// read returns an object as the API server has it.
func read[T client.Object](t *testing.T, w *world, namespace, name string, into T) T {
	t.Helper()
	if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatalf("reading %T %s: %v", into, name, err)
	}
	return into
}

func (w *world) bmc(t *testing.T, name string) *v1alpha1.BMC {
	t.Helper()
	return read(t, w, bmcNamespace, name, &v1alpha1.BMC{})
}

func (w *world) node(t *testing.T) *corev1.Node {
	t.Helper()
	return read(t, w, "", "node-a", &corev1.Node{})
}

func (w *world) remediation(t *testing.T, key types.NamespacedName) *v1alpha1.PowerRemediation {
	t.Helper()
	return read(t, w, key.Namespace, key.Name, &v1alpha1.PowerRemediation{})
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

// remediation returns what a health checker has created for node-a a minute ago.
func remediation(changes ...func(*v1alpha1.PowerRemediation)) *v1alpha1.PowerRemediation {
	r := &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: keyA.Namespace, Name: keyA.Name, UID: "r-uid", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
	}}
	for _, change := range changes {
		change(r)
	}
	return r
}

// in has a remediation in a phase since noon.
func in(p fencing.Phase, changes ...func(*v1alpha1.PowerRemediationStatus)) func(*v1alpha1.PowerRemediation) {
	return func(r *v1alpha1.PowerRemediation) {
		r.Finalizers = []string{annotation.PowerFinalizer}
		writeRecord(&r.Status, "node-a", fencing.Record{Phase: p, Since: noon, Attempt: 1, NodeUID: "node-uid", BootID: "boot-1"})
		for _, change := range changes {
			change(&r.Status)
		}
	}
}

// called names a remediation, and sets a UID to match. It is still for node-a.
func called(key types.NamespacedName) func(*v1alpha1.PowerRemediation) {
	return func(r *v1alpha1.PowerRemediation) {
		r.Namespace, r.Name, r.UID = key.Namespace, key.Name, types.UID(key.Name+"-uid")
		r.Annotations = map[string]string{v1alpha1.NodeNameAnnotation: "node-a"}
	}
}

func leaving(r *v1alpha1.PowerRemediation) {
	now := metav1.NewTime(noon)
	r.DeletionTimestamp = &now
}

func stopped(r *v1alpha1.PowerRemediation) {
	r.Annotations = map[string]string{v1alpha1.TimedOutAnnotation: "now"}
}

// bmcFor returns a BMC of a node at an address.
func bmcFor(name, node, address string, changes ...func(*v1alpha1.BMC)) *v1alpha1.BMC {
	b := &v1alpha1.BMC{
		ObjectMeta: metav1.ObjectMeta{Namespace: bmcNamespace, Name: name, UID: types.UID(name + "-uid"), Generation: 1},
		Spec:       v1alpha1.BMCSpec{NodeName: node, Address: address, CredentialsName: "secret"},
	}
	for _, change := range changes {
		change(b)
	}
	return b
}

func secret(password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: bmcNamespace, Name: "secret"},
		Data:       map[string][]byte{v1alpha1.UsernameKey: []byte(testUser), v1alpha1.PasswordKey: []byte(password)},
	}
}

// certificateOf returns the certificate of a server as PEM.
func certificateOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// opens returns the host of a BMC that the watch has shown.
func (w *world) opens(t *testing.T, bmc *v1alpha1.BMC) (*host, problem) {
	t.Helper()
	w.bmcs.put(bmc)
	return w.hosts.open(t.Context(), bmc)
}
