package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/writers"
)

// Config configures a Client. Every field is required.
type Config struct {
	// Informers should be limited to Namespace. Elsewhere a cluster has a Lease for each node,
	// renewed every ten seconds.
	Informers cache.Informers
	// Live reads from the API server.
	Live   client.Reader
	Writer client.Writer
	Now    func() time.Time
	// Wake is called when the lease of a node changes.
	Wake func()
}

// Client watches and acquires the leases of nodes. It is safe for concurrent use.
type Client struct {
	Config

	watched informer.Kinds

	mu     sync.Mutex
	leases store
}

// NewClient returns a client without a watch.
func NewClient(c Config) *Client { return &Client{Config: c, leases: store{}} }

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=medik8s-leases,verbs=get;list;watch;create;update;delete

// Watch starts the watch. After a success, further calls do nothing. The namespace need not exist.
func (c *Client) Watch(ctx context.Context) error {
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(leaseKind)
	return c.watched.Watch(ctx, c.Informers, informer.Kind{Plural: "the leases of nodes", Object: kind, Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.put,
		UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: c.drop,
	}})
}

// HasSynced reports whether the watch has synced.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

func (c *Client) put(obj any) {
	l, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	now := c.Now()
	c.mu.Lock()
	changed := c.leases.put(l, now)
	c.mu.Unlock()
	if changed {
		c.Wake()
	}
}

func (c *Client) drop(obj any) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.mu.Lock()
	ours := c.leases.drop(key)
	c.mu.Unlock()
	if ours {
		c.Wake()
	}
}

// AddFacts sets the lease of each target whose node lease is valid, and lists all node leases. It
// adds nothing while leases can't be watched. Then Acquire, which reads from the API server, still
// prevents a remedy.
func (c *Client) AddFacts(_ []core.Policy, cluster *core.Cluster) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases.addFacts(cluster, now)
}

// maxAttempts bounds how often a lease is read again because it changed before the write.
const maxAttempts = 3

// errContended is the error for a lease that changes before each write.
var errContended = errors.New("it changed between each read and write; Fettle tries again")

// Acquire takes or renews the lease of a target's node, from now on. It returns false while the
// lease of another holder is valid. Each write requires the revision that was read, so only one of
// several callers succeeds. A target without a node needs no lease.
func (c *Client) Acquire(ctx context.Context, t core.Target, holder string, during time.Duration) (bool, error) {
	node := nodeOf(t)
	if node.Name == "" {
		return true, nil
	}
	for look := range maxAttempts {
		var held bool
		var err error
		if look == 0 && c.isFree(node.Name) {
			held, err = true, c.createLease(ctx, node, holder, during)
		} else {
			held, err = c.acquire(ctx, node, holder, during)
		}
		if err == nil {
			return held, nil
		}
		if !hasChanged(err) {
			return false, explain("taking", node.Name, err)
		}
	}
	return false, explain("taking", node.Name, errContended)
}

// isFree reports whether the watch shows no lease of the node. If another holder has created one
// since, the creation fails, and Acquire reads the lease.
func (c *Client) isFree(node string) bool {
	if !c.HasSynced() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.leases[strings.ToLower(node)]
	return !known
}

// nodeOf returns the node of a target. The garbage collector would delete a lease that refers to a
// missing node, so a missing node has no UID.
func nodeOf(t core.Target) core.Node {
	n := t.Node
	if n.State == core.NodeGone {
		n.UID = ""
	}
	return n
}

// hasChanged reports whether a write failed because the lease has changed.
func hasChanged(err error) bool {
	var gone *goneError
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.As(err, &gone)
}

// goneError is the error for a lease that was deleted between read and write.
type goneError struct{ error }

func (c *Client) acquire(ctx context.Context, node core.Node, holder string, during time.Duration) (bool, error) {
	l := object(node.Name)
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(l), l)
	// The clock is read after the lease. A renewal that arrives in between must not seem to be in
	// the future.
	now := c.Now()
	if apierrors.IsNotFound(err) {
		return true, c.createLease(ctx, node, holder, during)
	}
	if err != nil {
		return false, err //nolint:wrapcheck // Acquire adds the operation
	}
	old := read(l)
	c.mu.Lock()
	known := c.leases.withFirstSeen(node.Name, &old)
	c.mu.Unlock()
	r, may := acquiredRecord(known, holder, now, during)
	if !may {
		return false, nil
	}
	write(l, &r)
	setOwner(l, node)
	if err := c.Writer.Update(ctx, l, client.FieldOwner(writers.FieldOwner)); err != nil {
		if apierrors.IsNotFound(err) {
			err = &goneError{err}
		}
		return false, err
	}
	return true, nil
}

// createLease creates the lease of a node. It fails if there is one.
func (c *Client) createLease(ctx context.Context, node core.Node, holder string, during time.Duration) error {
	r, _ := acquiredRecord(nil, holder, c.Now(), during)
	return c.create(ctx, render(node, &r))
}

// create creates a Lease. If the namespace is missing, the error says how to create it, since
// Fettle creates no namespace.
func (c *Client) create(ctx context.Context, l *unstructured.Unstructured) error {
	err := c.Writer.Create(ctx, l, client.FieldOwner(writers.FieldOwner))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s is missing; create it, and the Role in it, with: %s: %w", Namespace, reinstall, err)
	}
	return err //nolint:wrapcheck // Acquire adds the operation
}

// Release deletes the lease of a node, unless it was renewed after an instant. The zero instant
// stands for no limit. Release reports whether it deleted the lease. A lease that is missing, was
// renewed later, or has another holder is no error.
func (c *Client) Release(ctx context.Context, node, holder string, renewedBy time.Time) (bool, error) {
	for range maxAttempts {
		released, err := c.release(ctx, node, holder, renewedBy)
		if client.IgnoreNotFound(err) == nil {
			return released, nil
		}
		if !apierrors.IsConflict(err) {
			return false, explain("giving back", node, err)
		}
	}
	return false, explain("giving back", node, errContended)
}

func (c *Client) release(ctx context.Context, node, holder string, renewedBy time.Time) (bool, error) {
	l := object(node)
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
		return false, err //nolint:wrapcheck // Release adds the operation
	}
	old := read(l)
	c.mu.Lock()
	r := c.leases.withFirstSeen(node, &old)
	c.mu.Unlock()
	if r.holder != holder || !renewedBy.IsZero() && r.heldFrom(c.Now()).After(renewedBy) {
		return false, nil
	}
	uid, revision := l.GetUID(), l.GetResourceVersion()
	err := c.Writer.Delete(ctx, l, client.Preconditions{UID: &uid, ResourceVersion: &revision})
	return err == nil, err //nolint:wrapcheck // Release adds the operation
}

// reinstall creates the namespace of the leases, and Fettle's Role in it.
const reinstall = "kubectl apply -k config/rbac, or helm upgrade"

// explain wraps an error with the operation. If the call was forbidden, the error names the Role
// that grants it.
func explain(doing, node string, err error) error {
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("%s the lease of node %s: Role fettle in namespace %s grants it, and a deletion of that namespace deletes it; "+
			"create both with: %s: %w", doing, node, Namespace, reinstall, err)
	}
	return fmt.Errorf("%s the lease of node %s: %w", doing, node, err)
}
