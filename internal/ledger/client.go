package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// Kind is the name of the definition of Repairs. While the cluster lacks it, nothing can be recorded, and so
// nothing starts.
const Kind = "repairs.fettle.io"

var repairKind = v1alpha1.GroupVersion.WithKind("Repair") //nolint:gochecknoglobals // a constant

// Config is the configuration of a Client. All fields are required but ClusterChanged.
type Config struct {
	// Namespace is for the Repairs of targets without a namespace, such as nodes. It must exist.
	Namespace string
	Informers cache.Informers
	// Live reads from the API server.
	Live   client.Reader
	Writer client.Client
	Events events.EventRecorder
	Log    logr.Logger
	// Wake is called with the cluster of a Repair that another client has deleted, or whose progress has changed. It is
	// also called for a Repair that runs and is new to this process.
	Wake func(core.ClusterKey)
	// ClusterChanged is called when a Repair of a workload cluster was created, changed or deleted. It may be nil.
	ClusterChanged func()
}

// Client is the ledger. It is safe for concurrent use.
type Client struct {
	Config

	watched informer.Kinds

	mu       sync.Mutex
	index    index
	warnings warningLimits
}

// NewClient returns a ledger that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, index: newIndex(), warnings: warningLimits{}}
}

// +kubebuilder:rbac:groups=fettle.io,resources=repairs,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups=fettle.io,resources=repairs/status,verbs=patch

// Watch starts the watch. While Repairs are not served, it returns a NoMatch error and may be called again. After
// it has succeeded, further calls do nothing.
func (c *Client) Watch(ctx context.Context) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(repairKind)
	return c.watched.Watch(ctx, c.Informers, informer.Kind{Plural: "repairs", Object: object, Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.put,
		UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: c.drop,
	}})
}

func (c *Client) put(obj any) {
	fresh, ok := obj.(*record)
	if !ok {
		return
	}
	c.mu.Lock()
	old := c.index.put(fresh)
	tells := fresh.problem != "" && (old == nil || old.problem != fresh.problem) && c.warnings.allow(warningScope{fresh.Namespace, fresh.counts()}) // a text of texts
	c.mu.Unlock()
	if tells {
		c.warn(fresh)
	}
	if !fresh.counts() {
		return
	}
	c.notifyClusterChanged(fresh)
	if fresh.hasProgressed(old) {
		c.Wake(fresh.cluster)
	}
}

func (c *Client) notifyClusterChanged(p *record) {
	if c.ClusterChanged != nil && p.cluster != (core.ClusterKey{}) {
		c.ClusterChanged()
	}
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// The bounds on warnings. A flood of Repairs in a namespace must not lead to a flood of events by Fettle.
const (
	warningBurst     = 10
	warningRate      = 1.0 / 60 // in a second
	maxWarningScopes = 1000
)

// warningScope is a scope of warnings. Repairs that count have scopes of their own, which ignored Repairs can't
// exhaust.
type warningScope struct {
	namespace string
	counts    bool
}

// warningLimits limits the rate of warnings in each scope. The caller locks.
type warningLimits map[warningScope]flowcontrol.RateLimiter

// allow reports whether one more warning is emitted. Scopes beyond the bound share one limit.
func (t warningLimits) allow(a warningScope) bool {
	if t[a] == nil && len(t) >= maxWarningScopes {
		a.namespace = ""
	}
	if t[a] == nil {
		t[a] = flowcontrol.NewTokenBucketRateLimiter(warningRate, warningBurst)
	}
	return t[a].TryAccept()
}

// warn logs which fields of a Repair can't be read, and emits an event.
func (c *Client) warn(p *record) {
	reason, consequence := "RepairUnreadable", "what can be read of it counts; delete it if a user made it by hand"
	if !p.counts() {
		reason, consequence = "RepairIgnored", "only Fettle makes Repairs, and this one is ignored; delete it, and see who may write Repairs in its namespace"
	}
	c.Log.Info("a Repair is not as Fettle writes it", "repair", p.Namespace+"/"+p.Name, "problem", p.problem, "consequence", consequence)
	regarding := &corev1.ObjectReference{
		APIVersion: repairKind.GroupVersion().String(), Kind: repairKind.Kind, Namespace: p.Namespace, Name: p.Name, UID: p.UID,
	}
	c.Events.Eventf(regarding, nil, corev1.EventTypeWarning, reason, "Read", "%s", sanitize.Line(sanitize.MaxNote, p.problem+": "+consequence))
}

func (c *Client) drop(obj any) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.mu.Lock()
	old := c.index.drop(key)
	c.mu.Unlock()
	if old != nil && old.counts() {
		c.notifyClusterChanged(old)
		c.Wake(old.cluster)
	}
}

// Trim reads a Repair for a cache. It returns objects of other kinds unchanged. Home is the namespace for Repairs
// whose targets have none.
func Trim(obj any, home string) (any, bool) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.GroupVersionKind() == repairKind {
		return readRecord(u, home), true
	}
	return obj, false
}

// HasSynced reports whether the cache of Repairs has synced.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

// create creates a Repair. Fettle creates no namespace: if the one for targets without a namespace is missing, the
// error names the command that creates it.
func (c *Client) create(ctx context.Context, r *v1alpha1.Repair) error {
	err := c.Writer.Create(ctx, r)
	if r.Namespace == c.Namespace && lacksNamespace(err) {
		return fmt.Errorf("namespace %s of --repair-namespace is missing; create it with: kubectl create namespace %s: %w", c.Namespace, c.Namespace, err)
	}
	return err //nolint:wrapcheck // the caller says what was created
}

// lacksNamespace reports whether an object was refused because its namespace does not exist.
func lacksNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// Update writes the progress of a repair, all of it, and a text about what happened last. Refused is the error of a
// call of the remedy, if the call has just failed. Update returns the repair with its new revision. It returns
// false if another client has written the Repair since the repair's revision. A Repair that was deleted counts as
// written.
func (c *Client) Update(ctx context.Context, r core.Repair, text string, refused error) (core.Repair, bool, error) {
	body, err := statusPatch(r, text, refused)
	if err != nil {
		return core.Repair{}, false, fmt.Errorf("encoding the status of Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	// The answer is unstructured, since fields that other clients wrote may not fit the type.
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(repairKind)
	object.SetNamespace(r.Namespace)
	object.SetName(r.Name)
	err = c.Writer.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	switch {
	case apierrors.IsConflict(err) && r.Revision != 0:
		return core.Repair{}, false, nil
	case apierrors.IsNotFound(err):
		return r, true, nil
	case err != nil:
		return core.Repair{}, false, fmt.Errorf("patching the status of Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	r.Revision = revision(object.GetResourceVersion())
	return r, true, nil
}

// Delete deletes a Repair. It returns false if the Repair has changed since the repair's revision. A missing Repair
// counts as deleted.
func (c *Client) Delete(ctx context.Context, r core.Repair) (bool, error) {
	object := &v1alpha1.Repair{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	preconditions := client.Preconditions{UID: (*types.UID)(&r.UID)}
	if version := strconv.FormatUint(r.Revision, 10); r.Revision != 0 {
		preconditions.ResourceVersion = &version
	}
	switch err := c.Writer.Delete(ctx, object, preconditions); {
	case apierrors.IsConflict(err):
		return false, nil
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("deleting Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	return true, nil
}
