package metal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Annotations of a BareMetalHost, as Metal3 has them.
const (
	rebootAnnotation   = "reboot.metal3.io"
	pausedAnnotation   = "baremetalhost.metal3.io/paused"
	detachedAnnotation = "baremetalhost.metal3.io/detached"
)

// States of the provisioning in which the operator follows the power.
const (
	provisioned           = "provisioned"
	externallyProvisioned = "externally provisioned"
	available             = "available"
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
// operator's loop for power: it reads the object, then Ironic's record of the power, and writes the status if that differs. A write
// requires the version that was read. Only then, in another round, it has Ironic power the host as the object says.
//
// It provisions nothing: an annotation says which state it reports. A HostClaim is a client that changes spec.consumerRef.
type operator struct {
	client client.Client
	fleet  *fleet
	ironic *ironic
}

func newOperator(c client.Client, f *fleet) *operator {
	return &operator{client: c, fleet: f, ironic: newIronic(f)}
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
	_, hung := u.GetAnnotations()[AnnotationHung]
	if paused || hung || u.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, nil
	}
	left := lag(u)
	on := o.ironic.record(h)
	r := roundOf(u, on)
	switch {
	case r.status != nil:
		u.Object["status"] = r.status
		return ctrl.Result{}, o.ignoreConflict(o.client.Status().Update(ctx, u)) // the change begins the next round
	case r.removes != "":
		annotations := u.GetAnnotations()
		delete(annotations, r.removes)
		u.SetAnnotations(annotations)
		return ctrl.Result{}, o.ignoreConflict(o.client.Update(ctx, u))
	case r.idle:
	case r.turnsOn:
		o.ironic.turn(h, true)
	case r.reboots:
		o.ironic.turn(h, false)
		o.ironic.turn(h, true)
	case on:
		o.ironic.turn(h, false)
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

// lag returns how long the operator waits between two rounds. Nonsense is the default.
func lag(u *unstructured.Unstructured) time.Duration {
	return duration(u.GetAnnotations()[AnnotationLag])
}

// duration returns the duration of an annotation. Nonsense is the default.
func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
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
	reboots bool
}

// roundOf is pure.
func roundOf(u *unstructured.Unstructured, on bool) round {
	annotations := u.GetAnnotations()
	_, detached := annotations[detachedAnnotation]
	failed := annotations[AnnotationError]
	if detached {
		failed = ""
	}
	state := stateOf(annotations)
	managed := state == provisioned || state == externallyProvisioned || state == available
	if status := reportOf(u, report{detached: detached, failed: failed, state: state, managed: managed, on: on}); status != nil {
		return round{status: status}
	}
	if detached || failed != "" || !managed {
		return round{idle: true}
	}
	if _, once := annotations[rebootAnnotation]; once && !on {
		return round{removes: rebootAnnotation}
	}
	online, _, _ := unstructured.NestedBool(u.Object, "spec", "online")
	online = online && !keptOff(annotations, state)
	never, _, _ := unstructured.NestedBool(u.Object, "spec", "disablePowerOff")
	return round{idle: online == on, turnsOn: online && !on, reboots: never && !online && on}
}

// keptOff reports whether annotations have a host kept off. In the state available only a forced reboot does.
func keptOff(annotations map[string]string, state string) bool {
	for key, value := range annotations {
		reboots := key == rebootAnnotation || strings.HasPrefix(key, rebootAnnotation+"/")
		if reboots && (state != available || isForced(value)) {
			return true
		}
	}
	return false
}

// stateOf returns the state of the provisioning that annotations order.
func stateOf(annotations map[string]string) string {
	if state := annotations[AnnotationState]; state != "" {
		return state
	}
	return externallyProvisioned
}

// isForced reports whether the value of an annotation has a host rebooted that is not provisioned.
func isForced(value string) bool {
	var arguments struct {
		Force bool `json:"force"`
	}
	return json.Unmarshal([]byte(value), &arguments) == nil && arguments.Force
}

// report is what a status has to say.
type report struct {
	detached      bool
	failed, state string
	// managed is set in states in which the operator follows the power, which is on or off.
	managed, on bool
}

// reportOf returns the status that a BareMetalHost has to have, or nil if it has that. The power of a host that is left alone is as it was.
func reportOf(u *unstructured.Unstructured, r report) map[string]any {
	wanted := "OK"
	switch {
	case r.detached:
		wanted = "detached"
	case r.failed != "":
		wanted = "error"
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	operational, _, _ := unstructured.NestedString(status, "operationalStatus")
	errorType, _, _ := unstructured.NestedString(status, "errorType")
	state, _, _ := unstructured.NestedString(status, "provisioning", "state")
	reported, known, _ := unstructured.NestedBool(status, "poweredOn")
	stale := wanted == "OK" && r.managed && (!known || reported != r.on)
	if operational == wanted && errorType == r.failed && state == r.state && !stale {
		return nil
	}
	if stale {
		reported = r.on
	}
	return map[string]any{
		"operationalStatus": wanted, "errorType": r.failed, "poweredOn": reported,
		"provisioning": map[string]any{"state": r.state}, "lastUpdated": metav1.Now().UTC().Format(time.RFC3339),
	}
}
