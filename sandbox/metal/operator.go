package metal

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// Annotations of a BareMetalHost, as Metal3 has them.
const (
	rebootAnnotation   = "reboot.metal3.io"
	pausedAnnotation   = "baremetalhost.metal3.io/paused"
	detachedAnnotation = "baremetalhost.metal3.io/detached"
)

var bareMetalHost = schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: "BareMetalHost"} //nolint:gochecknoglobals // a constant

func newBareMetalHost(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(bareMetalHost)
	u.SetNamespace(Metal3Namespace)
	u.SetName(name)
	return u
}

// operator stands in for the operator of Metal3. Each BareMetalHost of the namespace is of the host of its name. It follows the
// operator's loop for power: it reads the object, then the power as it was polled last, and writes the status if that differs. A write
// requires the version that was read. Only then, in another round, it powers the host as the object says.
//
// It models no HostClaim, no provisioning and no reboot of a host whose power must not go off.
type operator struct {
	client client.Client
	fleet  *fleet

	mu    sync.Mutex
	polls map[types.UID]poll
}

// poll is what was read of a host's BMC.
type poll struct {
	at time.Time
	on bool
}

func newOperator(c client.Client, f *fleet) *operator {
	return &operator{client: c, fleet: f, polls: map[types.UID]poll{}}
}

func (o *operator) register(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("bare-metal-hosts").
		For(newBareMetalHost("")).
		WithEventFilter(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == Metal3Namespace })).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(o)
	if err != nil {
		return fmt.Errorf("registering the stand-in of Metal3: %w", err)
	}
	return nil
}

// adopt creates the BareMetalHost of a host, unless there is one.
func (o *operator) adopt(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Metal3Namespace}}
	u := newBareMetalHost(name)
	u.Object["spec"] = map[string]any{"online": true, "externallyProvisioned": true}
	for _, object := range []client.Object{namespace, u} {
		if err := o.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the BareMetalHost of %s: %w", name, err)
		}
	}
	return nil
}

// Reconcile is one round of the operator's loop.
func (o *operator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	u := newBareMetalHost(req.Name)
	if err := o.client.Get(ctx, req.NamespacedName, u); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	h := o.fleet.host(req.Name)
	if h == nil { // it may be about to be added
		return ctrl.Result{RequeueAfter: defaultLag}, nil
	}
	_, paused := u.GetAnnotations()[pausedAnnotation]
	if paused || u.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, nil
	}
	left := lag(u)
	on := o.power(u, h, left)
	r := roundOf(u, on)
	switch {
	case r.status != nil:
		u.Object["status"] = r.status
		return ctrl.Result{RequeueAfter: time.Millisecond}, o.ignoreConflict(o.client.Status().Update(ctx, u))
	case r.removes != "":
		annotations := u.GetAnnotations()
		delete(annotations, r.removes)
		u.SetAnnotations(annotations)
		return ctrl.Result{RequeueAfter: time.Millisecond}, o.ignoreConflict(o.client.Update(ctx, u))
	case r.idle:
	case r.turnsOn:
		_ = h.PowerOn() // it never fails
	case on:
		_ = h.PowerOff()
	}
	return ctrl.Result{RequeueAfter: left}, nil
}

// ignoreConflict returns the error of a write but for a conflict. The change that caused it begins another round.
func (*operator) ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// power returns the power of a host as it was polled last, and polls it if that is a while ago.
func (o *operator) power(u *unstructured.Unstructured, h *host, every time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.fleet.now()
	last, known := o.polls[u.GetUID()]
	if !known || !now.Before(last.at.Add(every)) {
		last = poll{at: now, on: h.State() == redfish.On}
		o.polls[u.GetUID()] = last
	}
	return last.on
}

// lag returns how old the power may be that is read of a host. Nonsense is the default.
func lag(u *unstructured.Unstructured) time.Duration {
	d, err := time.ParseDuration(u.GetAnnotations()[AnnotationLag])
	if err != nil || d <= 0 {
		return defaultLag
	}
	return d
}

// round is what the operator does with a BareMetalHost. At most one field is set, and none has the host powered off if it is on.
type round struct {
	status  map[string]any
	removes string
	idle    bool
	turnsOn bool
}

// roundOf is pure.
func roundOf(u *unstructured.Unstructured, on bool) round {
	annotations := u.GetAnnotations()
	_, detached := annotations[detachedAnnotation]
	failed := annotations[AnnotationError]
	if detached {
		failed = ""
	}
	if status := reportOf(u, detached, failed, on); status != nil {
		return round{status: status}
	}
	if detached || failed != "" {
		return round{idle: true}
	}
	if _, once := annotations[rebootAnnotation]; once && !on {
		return round{removes: rebootAnnotation}
	}
	online, _, _ := unstructured.NestedBool(u.Object, "spec", "online")
	for key := range annotations {
		online = online && key != rebootAnnotation && !strings.HasPrefix(key, rebootAnnotation+"/")
	}
	return round{idle: online == on, turnsOn: online && !on}
}

// reportOf returns the status that a BareMetalHost has to have, or nil if it has that. The power of a host that is left alone is as it was.
func reportOf(u *unstructured.Unstructured, detached bool, failed string, on bool) map[string]any {
	wanted := "OK"
	switch {
	case detached:
		wanted = "detached"
	case failed != "":
		wanted = "error"
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	operational, _, _ := unstructured.NestedString(status, "operationalStatus")
	errorType, _, _ := unstructured.NestedString(status, "errorType")
	reported, known, _ := unstructured.NestedBool(status, "poweredOn")
	stale := wanted == "OK" && (!known || reported != on)
	if operational == wanted && errorType == failed && !stale {
		return nil
	}
	if stale {
		reported = on
	}
	return map[string]any{
		"operationalStatus": wanted, "errorType": failed, "poweredOn": reported,
		"provisioning": map[string]any{"state": "externally provisioned"}, "lastUpdated": metav1.Now().UTC().Format(time.RFC3339),
	}
}
