package agentsigner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/promiselease"
)

// Kinds are the definitions without which no agent runs.
var Kinds = []string{"fencepolicies.fettle.io"} //nolint:gochecknoglobals // a constant list

// Names of objects.
const (
	// SecretName is the Secret with the authorities and their keys, in the namespace of Fettle.
	SecretName = "fettle-agent-authorities" //nolint:gosec // a name
	// ConfigMapName is the ConfigMap with the certificates of the authorities, in the namespace of the agents.
	ConfigMapName = "fettle-agent-authorities"
	// BundleKey is the key of the certificates there.
	BundleKey = "authorities.pem"
)

// Config is what a Client needs. Every field is required.
type Config struct {
	// Informers watch requests. They should be limited to SignerName, and keep what NameAndNode leaves.
	Informers cache.Informers
	// Core reads and writes requests, the Secret and the ConfigMap at the API server, never from a cache.
	Core client.Client
	// Namespace is that of Fettle, where the Secret is.
	Namespace string
	Log       logr.Logger
	Now       func() time.Time
}

// Client approves and signs the requests of agents. It is safe for concurrent use.
type Client struct {
	Config

	// turns has the nodes of which requests wait. Each node is in it once, so that they take turns.
	turns        workqueue.TypedRateLimitingInterface[string]
	nodes        *nodes
	watched      informer.Kinds
	watching     chan struct{}
	markWatching func()
}

// Pauses and bounds.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = time.Minute
	// lookAgain is how often the authorities are looked at.
	lookAgain = time.Minute
	callTime  = 30 * time.Second
	workers   = 4
)

// NameAndNode returns a request without all that a watch of requests doesn't need. Where config/selffence is not installed, a kubelet may create
// any number of requests, and make each as long as an object can be.
func NameAndNode(obj any) (any, error) {
	r, is := obj.(*certificatesv1.CertificateSigningRequest)
	if !is {
		return obj, nil
	}
	kept := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, UID: r.UID, ResourceVersion: r.ResourceVersion},
	}
	if node := nodeOf(&r.Spec); node != "" {
		kept.Spec.Username, kept.Spec.Extra = agentUser, map[string]certificatesv1.ExtraValue{nodeClaim: {node}}
	}
	return kept, nil
}

// NewClient returns a client that watches nothing yet.
func NewClient(c Config) *Client {
	watches := make(chan struct{})
	return &Client{
		Config: c, watching: watches, markWatching: sync.OnceFunc(func() { close(watches) }), nodes: newNodes(),
		turns: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)),
	}
}

// Watch lets Start begin. Not every installation grants the rights on requests, so Start watches them once it may.
func (c *Client) Watch(context.Context) error {
	c.markWatching()
	return nil
}

// HasSynced reports true, since nothing else waits for requests.
func (*Client) HasSynced() bool { return true }

// follow watches requests as soon as Fettle may. It returns false if the context ends before that.
func (c *Client) follow(ctx context.Context) bool {
	kind := informer.Kind{
		Plural: "requests for certificates of agents", Object: &certificatesv1.CertificateSigningRequest{},
		Handler: toolscache.ResourceEventHandlerFuncs{AddFunc: c.take, UpdateFunc: func(_, obj any) { c.take(obj) }},
	}
	for ctx.Err() == nil {
		may, err := c.mayWatch(ctx)
		if may {
			err = c.watched.Watch(ctx, c.Informers, kind)
		}
		if may && err == nil {
			return true
		}
		if err != nil && ctx.Err() == nil {
			c.Log.Error(err, "requests for certificates of agents can't be watched")
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
	return false
}

// take has a request wait for the turn of its node.
func (c *Client) take(obj any) {
	if r, is := obj.(*certificatesv1.CertificateSigningRequest); is {
		node := nodeOf(&r.Spec)
		c.nodes.add(node, r.Name)
		c.turns.Add(node)
	}
}

// mayWatch reports whether Fettle may watch requests. Every user may ask that.
func (c *Client) mayWatch(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verb: "watch"},
	}}
	if err := c.Core.Create(ctx, r); err != nil {
		return false, fmt.Errorf("asking for the right to watch requests: %w", err)
	}
	return r.Status.Allowed, nil
}

// NeedLeaderElection keeps replicas that don't lead from working.
func (*Client) NeedLeaderElection() bool { return true }

// Start works until the context ends. It must run only in the replica that leads.
func (c *Client) Start(ctx context.Context) error {
	defer c.turns.ShutDown()
	select {
	case <-ctx.Done():
		return nil
	case <-c.watching:
	}
	if !c.follow(ctx) {
		return nil
	}
	stop := context.AfterFunc(ctx, c.turns.ShutDown)
	defer stop()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { c.keepAuthorities(ctx) })
	for range workers {
		group.Go(func() { c.work(ctx) })
	}
	return nil
}

// keepAuthorities has agents know the authorities, and replaces these in time.
func (c *Client) keepAuthorities(ctx context.Context) {
	for ctx.Err() == nil {
		err := contain.Run(func() error {
			_, err := c.authorities(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			c.Log.Error(err, "the authorities of agents could not be looked after")
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// work answers requests until the queue is shut down. Nodes take turns.
func (c *Client) work(ctx context.Context) {
	for {
		node, ends := c.turns.Get()
		if ends {
			return
		}
		c.turn(ctx, node)
		c.turns.Done(node)
	}
}

// turn answers one request of a node. The others wait for its next turn.
func (c *Client) turn(ctx context.Context, node string) {
	name, rest := c.nodes.first(node, c.Now())
	if name == "" {
		if rest > 0 {
			c.turns.AddAfter(node, rest)
		}
		return
	}
	denied := false
	err := contain.Run(func() (err error) {
		denied, err = c.handle(ctx, name)
		return err
	})
	switch {
	case err == nil:
		c.turns.Forget(node)
		c.nodes.answered(node, name, denied, c.Now())
		c.turns.Add(node)
	case ctx.Err() == nil:
		c.Log.Error(err, "a request for a certificate of an agent was not handled", "request", name)
		c.nodes.failed(node, name)
		c.turns.AddRateLimited(node)
	}
}

// errNotInstalled means that an object is missing that Fettle may change, and not create. The right to create one Secret would be that to
// create any, also with a token of each service account in the namespace.
var errNotInstalled = errors.New("it is created empty by config/selffence/authorities.yaml, and by the chart; apply that file again, or upgrade the release")

// authorities returns the authorities, and has agents know them. It makes and replaces them where that is due. Of two leaders that do, one fails.
func (c *Client) authorities(ctx context.Context) (authorities, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	secret := &corev1.Secret{}
	if err := c.read(ctx, c.Namespace, SecretName, secret); err != nil {
		return authorities{}, fmt.Errorf("reading the Secret of the authorities: %w", err)
	}
	a, err := decode(secret.Data)
	if err != nil {
		return authorities{}, err
	}
	now := c.Now()
	a, changed, err := a.next(now)
	if err != nil {
		return authorities{}, err
	}
	if changed {
		if err := c.store(ctx, secret, a); err != nil {
			return authorities{}, err
		}
	}
	return a, c.publish(ctx, a.bundle(now))
}

// read reads an object that an administrator has installed.
func (c *Client) read(ctx context.Context, namespace, name string, into client.Object) error {
	err := c.Core.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", err, errNotInstalled)
	}
	return err //nolint:wrapcheck // the callers say what they read
}

// store stores the authorities, if the Secret is still as it was read.
func (c *Client) store(ctx context.Context, secret *corev1.Secret, a authorities) error {
	data, err := a.encode()
	if err != nil {
		return err
	}
	secret.Data = data
	if err := c.Core.Update(ctx, secret); err != nil {
		return fmt.Errorf("storing the authorities: %w", err)
	}
	return nil
}

// publish has agents know which authorities to trust.
func (c *Client) publish(ctx context.Context, bundle []byte) error {
	m := &corev1.ConfigMap{}
	if err := c.read(ctx, promiselease.Namespace, ConfigMapName, m); err != nil {
		return fmt.Errorf("reading the ConfigMap of the authorities: %w", err)
	}
	if m.Data[BundleKey] == string(bundle) {
		return nil
	}
	m.Data = map[string]string{BundleKey: string(bundle)}
	if err := c.Core.Update(ctx, m); err != nil {
		return fmt.Errorf("publishing the authorities: %w", err)
	}
	return nil
}
