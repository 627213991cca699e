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

// Config is what a Client needs. Every field is required.
type Config struct {
	// Informers give what is watched. They should be limited to Namespace: a cluster has a Lease for each of
	// its nodes elsewhere, renewed every ten seconds.
	Informers cache.Informers
	// Live reads from the API server itself.
	Live   client.Reader
	Writer client.Writer
	Now    func() time.Time
	// Wake is called when the lease of a node has changed.
	Wake func()
}

// Client knows the leases of nodes, and takes them. It is safe for concurrent use.
type Client struct {
	Config

	watched informer.Kinds

	mu     sync.Mutex
	leases store
}

// NewClient makes a client that watches nothing yet.
func NewClient(c Config) *Client { return &Client{Config: c, leases: store{}} }

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=medik8s-leases,verbs=get;list;watch;create;update;delete

// Watch begins to watch. Once it has succeeded, calling it again does nothing. The namespace need not exist.
func (c *Client) Watch(ctx context.Context) error {
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(leaseKind)
	return c.watched.Watch(ctx, c.Informers, informer.Kind{Plural: "the leases of nodes", Object: kind, Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.put,
		UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: c.drop,
	}})
}

// HasSynced tells whether what is watched has been taken in.
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

// AddFacts says of each target who validly holds the lease of its node, as far as that was seen, and of what nodes
// there are leases. While leases can't be watched it says nothing: nothing begins without Acquire, which reads
// live.
func (c *Client) AddFacts(_ []core.Policy, cluster *core.Cluster) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases.addFacts(cluster, now)
}

// maxAttempts bounds how often a lease is read anew because it has changed between read and write.
const maxAttempts = 3

// errContended is for a lease that changes all the time.
var errContended = errors.New("it changed whenever it was looked at; it is tried again")

// Acquire takes the lease of a target's node for a time from now, or renews it. It is false while somebody else
// validly holds it. Each write insists on what was read, so of two who take it at the same moment one has it.
// A target without a node has no lease, and nobody else can have it.
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

// isFree tells whether nobody has the lease of a node, as far as was seen. If somebody has taken it since, making it
// fails, and then it is looked at.
func (c *Client) isFree(node string) bool {
	if !c.HasSynced() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.leases[strings.ToLower(node)]
	return !known
}

// nodeOf is the node of a target. One that is known to be gone has no UID that a lease could refer to: what
// refers to nothing is deleted.
func nodeOf(t core.Target) core.Node {
	n := t.Node
	if n.State == core.NodeGone {
		n.UID = ""
	}
	return n
}

// hasChanged tells whether a write was refused because of what somebody else has written meanwhile.
func hasChanged(err error) bool {
	var gone *goneError
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.As(err, &gone)
}

// goneError is for a lease that went between read and write.
type goneError struct{ error }

func (c *Client) acquire(ctx context.Context, node core.Node, holder string, during time.Duration) (bool, error) {
	l := object(node.Name)
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(l), l)
	// A renewal that comes while the answer is awaited must not seem to lie in the future.
	now := c.Now()
	if apierrors.IsNotFound(err) {
		return true, c.createLease(ctx, node, holder, during)
	}
	if err != nil {
		return false, err //nolint:wrapcheck // Hold says what was being done
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

// createLease makes the lease of a node, and fails when there is one.
func (c *Client) createLease(ctx context.Context, node core.Node, holder string, during time.Duration) error {
	r, _ := acquiredRecord(nil, holder, c.Now(), during)
	return c.create(ctx, render(node, &r))
}

// create creates a lease. It returns what to do when the namespace of the leases is missing: Fettle creates no namespace.
func (c *Client) create(ctx context.Context, l *unstructured.Unstructured) error {
	err := c.Writer.Create(ctx, l, client.FieldOwner(writers.FieldOwner))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s is missing; create it, and the Role in it, with: %s: %w", Namespace, reinstall, err)
	}
	return err //nolint:wrapcheck // Hold says what was being done
}

// Release gives the lease of a node back. One that is somebody else's, or is gone, is no error.
func (c *Client) Release(ctx context.Context, node, holder string) error {
	for range maxAttempts {
		err := c.release(ctx, node, holder)
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return explain("giving back", node, err)
		}
	}
	return explain("giving back", node, errContended)
}

func (c *Client) release(ctx context.Context, node, holder string) error {
	l := object(node)
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
		return err //nolint:wrapcheck // Release says what was being done
	}
	if r := read(l); r.holder != holder {
		return nil
	}
	uid, revision := l.GetUID(), l.GetResourceVersion()
	return c.Writer.Delete(ctx, l, client.Preconditions{UID: &uid, ResourceVersion: &revision}) //nolint:wrapcheck // Release says what was being done
}

// reinstall creates the namespace of the leases, and Fettle's Role in it.
const reinstall = "kubectl apply -k config/rbac, or helm upgrade"

// explain says what was being done, and who grants what is forbidden.
func explain(doing, node string, err error) error {
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("%s the lease of node %s: Role fettle in namespace %s grants it, and a deletion of that namespace deletes it; "+
			"create both with: %s: %w", doing, node, Namespace, reinstall, err)
	}
	return fmt.Errorf("%s the lease of node %s: %w", doing, node, err)
}
