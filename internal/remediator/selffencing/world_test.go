package selffencing

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
	"github.com/fettle-io/fettle/internal/selffence"
)

// noon is when these tests take place.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

var (
	keyA = types.NamespacedName{Namespace: "checks", Name: "node-a"}
	keyB = types.NamespacedName{Namespace: "checks", Name: "another"}
)

const uidA types.UID = "r-uid"

const (
	boot1 = "11111111-1111-1111-1111-111111111111"
	boot2 = "22222222-2222-2222-2222-222222222222"
)

// times are of promises. They expire 42 s after the last grant was seen: 1.05 × (10 s + 3 × 10 s).
var times = selffence.Times{Validity: 10 * time.Second, Watchdog: 10 * time.Second}

const expiry = 42 * time.Second

// world is a remediator in front of an API server that tests change.
type world struct {
	*Client

	api    client.WithWatch
	events *events.FakeRecorder

	mu   sync.Mutex
	time time.Time
	// fault, if set, may refuse a request in the place of the API server, by its verb.
	fault func(verb string, o runtime.Object) error
	// endless has each list have another page, and pages counts the pages that were read.
	endless bool
	pages   int
	// keyed, if set, tells which requests for objects that have a name fail.
	keyed func(verb string, o client.Object) bool
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
	scheme.AddKnownTypeWithName(fencednode.OpenShiftMachine, &unstructured.Unstructured{})
	w := &world{time: noon, events: events.NewFakeRecorder(100)}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.SelfFenceRemediation{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			if p, is := o.(*corev1.Pod); is {
				return []string{p.Spec.NodeName}
			}
			return nil
		}).WithInterceptorFuncs(w.intercepted()).Build()
	w.restart(t)
	if err := w.api.Create(t.Context(), &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// restart has another process take over, which knows nothing.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.Client = NewClient(Config{
		Cache: w.api, Writer: w.api, Core: w.api, Events: w.events, Log: logr.Discard(), Now: w.now, Claims: fencednode.NewClaims(),
		Promises: nodepromise.New(w.api, w.now),
	})
	c := w.Client
	t.Cleanup(func() {
		c.remediations.ShutDown()
		c.unready.ShutDown()
		c.tidying.ShutDown()
	})
}

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
			o.SetName(key.Name)
			if w.keyed != nil && w.keyed("get", o) {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			if err := w.refused("list", o); err != nil {
				return err
			}
			err := c.List(ctx, o, opts...)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.pages++
			if w.endless {
				o.SetContinue("more")
			}
			return err
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := w.refused("create", o)
			if review, is := o.(*authorizationv1.SelfSubjectAccessReview); is && (err == nil || apierrors.IsForbidden(err)) {
				right := authorizationv1.ResourceAttributes{Group: "coordination.k8s.io", Resource: "leases", Verb: "list", Namespace: promiselease.Namespace}
				review.Status.Allowed = err == nil && *review.Spec.ResourceAttributes == right
				return nil
			}
			if err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := w.refused("update", o); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
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
			if w.keyed != nil && w.keyed("patch", o) {
				return errors.New("no answer")
			}
			return c.Patch(ctx, o, p, opts...)
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

func read[T client.Object](t *testing.T, w *world, namespace, name string, into T) T {
	t.Helper()
	if err := w.api.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatalf("reading %T %s: %v", into, name, err)
	}
	return into
}

func (w *world) node(t *testing.T) *corev1.Node {
	t.Helper()
	return read(t, w, "", "node-a", &corev1.Node{})
}

func (w *world) remediation(t *testing.T) *v1alpha1.SelfFenceRemediation {
	t.Helper()
	return read(t, w, keyA.Namespace, keyA.Name, &v1alpha1.SelfFenceRemediation{})
}

func (w *world) lease(t *testing.T) promiselease.Record {
	t.Helper()
	record, err := promiselease.Decode(read(t, w, promiselease.Namespace, "node-a", &coordinationv1.Lease{}))
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// reconciles has the remediator reconcile node-a's remediation.
func (w *world) reconciles(t *testing.T) *v1alpha1.SelfFenceRemediation {
	t.Helper()
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	return w.remediation(t)
}

// update changes an object.
func update[T client.Object](t *testing.T, w *world, o T, change func(T)) {
	t.Helper()
	change(o)
	if err := w.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// reports has the kubelet of node-a write its status.
func (w *world) reports(t *testing.T, changes ...func(*corev1.Node)) {
	t.Helper()
	n := w.node(t)
	for _, change := range changes {
		change(n)
	}
	if err := w.api.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// node returns node-a, which is not Ready.
func node(changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-uid", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	n.Status.NodeInfo.BootID = boot1
	for _, change := range changes {
		change(n)
	}
	return n
}

func ready(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
}

func rebooted(n *corev1.Node) { n.Status.NodeInfo.BootID = boot2 }

func isTainted(n *corev1.Node, key string) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

// remediation returns what a health checker has created for node-a a minute ago.
func remediation(changes ...func(*v1alpha1.SelfFenceRemediation)) *v1alpha1.SelfFenceRemediation {
	r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: keyA.Namespace, Name: keyA.Name, UID: uidA, CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
	}}
	for _, change := range changes {
		change(r)
	}
	return r
}

// in has a remediation in a phase since noon.
func in(p fencing.Phase, changes ...func(*v1alpha1.SelfFenceRemediationStatus)) func(*v1alpha1.SelfFenceRemediation) {
	return func(r *v1alpha1.SelfFenceRemediation) {
		r.Finalizers = []string{annotation.SelfFenceFinalizer}
		since := metav1.NewMicroTime(noon)
		r.Status.Phase, r.Status.PhaseSince, r.Status.Attempt = string(p), &since, 1
		r.Status.Node = &v1alpha1.FencedNode{Name: "node-a", UID: "node-uid", BootID: boot1}
		r.Status.Condemned = p != fencing.Preparing
		for _, change := range changes {
			change(&r.Status)
		}
	}
}

// leaseOf returns the Lease of a node. It is Promised, and timed.
func leaseOf(t *testing.T, name string, changes ...func(*promiselease.Record)) *coordinationv1.Lease {
	t.Helper()
	r := promiselease.Record{Lease: selffence.Lease{State: selffence.Promised, Promise: selffence.Promise{Boot: boot1, Timed: true, Times: times}}}
	for _, change := range changes {
		change(&r)
	}
	l, err := promiselease.Encode(name, r, noon)
	if err != nil {
		t.Fatal(err)
	}
	l.ResourceVersion = ""
	return l
}

func held(r *promiselease.Record)      { r.Promise.Timed = false }
func withdrawn(r *promiselease.Record) { r.State = selffence.Withdrawn }
func condemnedBy(uid types.UID) func(*promiselease.Record) {
	return func(r *promiselease.Record) { r.State, r.By = selffence.Condemned, string(uid) }
}

// renews has the agent of node-a write its Lease again.
func (w *world) renews(t *testing.T) {
	t.Helper()
	update(t, w, read(t, w, promiselease.Namespace, "node-a", &coordinationv1.Lease{}), func(l *coordinationv1.Lease) {
		l.Labels = map[string]string{"renewed": w.now().Format("150405.000000")}
	})
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name}, Spec: corev1.PodSpec{NodeName: "node-a"}}
}

// processing returns the reason of the condition Processing.
func processing(r *v1alpha1.SelfFenceRemediation) string {
	if said := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ProcessingCondition); said != nil {
		return said.Reason
	}
	return ""
}

// processingText returns the message of the condition Processing.
func processingText(r *v1alpha1.SelfFenceRemediation) string {
	if said := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ProcessingCondition); said != nil {
		return said.Message
	}
	return ""
}

// succeeded returns the condition Succeeded.
func succeeded(r *v1alpha1.SelfFenceRemediation) metav1.Condition {
	if said := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.SucceededCondition); said != nil {
		return *said
	}
	return metav1.Condition{}
}

// acknowledges has a witness write the revision up to which it has read all Leases.
func (w *world) acknowledges(t *testing.T, witness string, revision uint64) {
	t.Helper()
	for range 10 { // the fake API server counts the revisions of each object by itself
		update(t, w, read(t, w, promiselease.Namespace, witness, &coordinationv1.Lease{}), func(l *coordinationv1.Lease) {
			l.Annotations[annotation.Witnessed] = strconv.FormatUint(revision, 10)
		})
	}
}
