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

// Kind is the resource without which nothing can be recorded and so nothing is started, by the name
// of its definition.
const Kind = "repairs.fettle.io"

var repairKind = v1alpha1.GroupVersion.WithKind("Repair") //nolint:gochecknoglobals // a constant

// Config is what a Client needs. Every field is required but ClusterChanged.
type Config struct {
	// Namespace is where the repairs of targets are recorded that have no namespace, such as nodes. It must exist.
	Namespace string
	Informers cache.Informers
	// Live reads from the API server itself.
	Live   client.Reader
	Writer client.Client
	Events events.EventRecorder
	Log    logr.Logger
	// Wake is called with the fleet of an entry that somebody has deleted, or changed how far it has come.
	Wake func(ClusterKey)
	// ClusterChanged is called when there is news of an entry of a workload cluster. It may be nil.
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

// NewClient makes a ledger that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, index: newIndex(), warnings: warningLimits{}}
}

// +kubebuilder:rbac:groups=fettle.io,resources=repairs,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups=fettle.io,resources=repairs/status,verbs=patch

// Watch begins to watch. It fails with a NoMatch error while Repairs are not served, and may be
// called again then. Once it has succeeded, calling it again does nothing.
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
	tells := fresh.problem != "" && (old == nil || old.problem != fresh.problem) && c.warnings.allow(warningScope{fresh.Namespace, fresh.counts()})
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
	if c.ClusterChanged != nil && p.cluster != (ClusterKey{}) {
		c.ClusterChanged()
	}
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Bounds of what is told. A person who floods a namespace with Repairs must not flood it with events by Fettle's hand.
const (
	warningBurst     = 10
	warningRate      = 1.0 / 60 // in a second
	maxWarningScopes = 1000
)

// warningScope says where a Repair is told of. Repairs that count have places of their own, which no flood of ignored ones fills.
type warningScope struct {
	namespace string
	counts    bool
}

// warningLimits limits, for each audience, the Repairs that people are told of. The caller locks.
type warningLimits map[warningScope]flowcontrol.RateLimiter

// allow reports whether one more Repair is told of. Namespaces beyond the bound share their room.
func (t warningLimits) allow(a warningScope) bool {
	if t[a] == nil && len(t) >= maxWarningScopes {
		a.namespace = ""
	}
	if t[a] == nil {
		t[a] = flowcontrol.NewTokenBucketRateLimiter(warningRate, warningBurst)
	}
	return t[a].TryAccept()
}

// warn says what can't be read of a Repair, and what follows.
func (c *Client) warn(p *record) {
	reason, consequence := "RepairUnreadable", "what can be read of it counts; delete it if a person made it by hand"
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

// Trim reads a Repair, before a cache keeps it, and leaves objects of other kinds alone. Home is the namespace of Repairs whose
// targets have none.
func Trim(obj any, home string) (any, bool) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.GroupVersionKind() == repairKind {
		return readRecord(u, home), true
	}
	return obj, false
}

// HasSynced tells whether what is watched has been taken in.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

// create creates a Repair. It returns what to do when the namespace for targets without one is missing: Fettle creates no
// namespace.
func (c *Client) create(ctx context.Context, r *v1alpha1.Repair) error {
	err := c.Writer.Create(ctx, r)
	if r.Namespace == c.Namespace && lacksNamespace(err) {
		return fmt.Errorf("namespace %s of --repair-namespace is missing; create it with: kubectl create namespace %s: %w", c.Namespace, c.Namespace, err)
	}
	return err //nolint:wrapcheck // the caller says what was created
}

// lacksNamespace tells whether an object was refused because its namespace does not exist.
func lacksNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// Update writes how far a repair has come, all of it, and what happened last: refused is what a call of the
// remedy has just been refused with, if that is it. It gives the repair with its new revision, or returns false when
// somebody has written it since the version that it was read from. When somebody has deleted it there is nothing to
// amend.
func (c *Client) Update(ctx context.Context, r core.Repair, text string, refused error) (core.Repair, bool, error) {
	body, err := statusPatch(r, text, refused)
	if err != nil {
		return core.Repair{}, false, fmt.Errorf("encoding the status of Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	// The answer must not be decoded to a type that somebody else's nonsense does not fit.
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

// Delete deletes an entry as it was read, and returns false when it has changed since. A missing one counts as deleted.
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
