package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/workload"
)

const (
	// nodesTimeout bounds how long one workload cluster may take to tell its nodes, and allNodesTimeout all of them together.
	nodesTimeout, allNodesTimeout = 5 * time.Second, 30 * time.Second
	// nodeReadsAtOnce is how many workload clusters are asked at a time.
	nodeReadsAtOnce = 8
	// retryUnread is how long a watch waits before it asks those again that did not answer.
	retryUnread = 30 * time.Second
)

// clusterFilter tells whether a question is about a fleet.
type clusterFilter func(v *view, f *ClusterObservation) bool

// nodeRead is one workload cluster that is asked for its nodes.
type nodeRead struct {
	of      Workloads
	cluster ledger.ClusterKey

	// What follows is what came of it; with an error, nothing did.
	client   client.WithWatch
	nodes    []client.Object
	revision string
	err      error
}

// unreadWorkloads gives the workload clusters that the question is about and whose nodes were not asked for.
func (v *view) unreadWorkloads() []*nodeRead {
	var reads []*nodeRead
	for _, p := range v.parts {
		workloads, are := p.Reading.(Workloads)
		if !are {
			continue
		}
		for _, f := range p.Observe(v.at) {
			if !v.nodesRead[f.Cluster] && workloads.HasNodes(f.Cluster) && v.concerns(v, &f) {
				reads = append(reads, &nodeRead{of: workloads, cluster: f.Cluster})
			}
		}
	}
	return reads
}

// readWorkloads reads the nodes of the workload clusters that the question is about, by their own kubeconfigs. One that can't
// be read keeps nobody from telling of the others.
func (v *view) readWorkloads(ctx context.Context, c client.Reader, userAgent string) {
	reads := v.unreadWorkloads()
	ctx, cancel := context.WithTimeout(ctx, allNodesTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(nodeReadsAtOnce)
	for _, l := range reads {
		group.Go(func() error {
			l.err = l.read(ctx, c, userAgent)
			return nil
		})
	}
	_ = group.Wait()
	for _, l := range reads {
		v.takeNodes(l)
	}
}

// takeNodes takes in what came of a look.
func (v *view) takeNodes(l *nodeRead) {
	v.nodesRead[l.cluster] = true
	if l.err != nil {
		v.nodesUnread = true
		l.of.Unseen(l.cluster, sanitize.Failure(sanitize.MaxMessage, l.err))
		return
	}
	source := l.of.Nodes(l.cluster)
	for _, n := range l.nodes {
		source.Put(n)
	}
	v.followed = append(v.followed, followed{Source: source, revision: l.revision, at: l.client})
	v.reached[l.cluster] = l.client
}

// read reads the nodes of the cluster. Its errors are for people.
func (l *nodeRead) read(ctx context.Context, c client.Reader, userAgent string) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	config, err := kubeconfigOf(ctx, c, clusterName(l.cluster))
	if err != nil {
		return err
	}
	config.UserAgent = userAgent
	if l.client, err = workload.NewClient(config, client.Options{Scheme: newScheme()}); err != nil {
		return err
	}
	source := Source{List: &slim.NodeList{}, Put: func(o client.Object) bool {
		l.nodes = append(l.nodes, o)
		return true
	}}
	if l.revision, err = list(ctx, l.client, source, ""); err != nil {
		return errors.New(workload.Explain(err, config, clusterName(l.cluster))) //nolint:err113 // told to a person
	}
	return nil
}

// kubeconfigOf reads the kubeconfig of a cluster with the person's own permissions.
func kubeconfigOf(ctx context.Context, c client.Reader, cluster types.NamespacedName) (*rest.Config, error) {
	at := workload.SecretOf(cluster)
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	switch err := c.Get(ctx, at, secret); {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not get Secret %s", at) //nolint:err113 // told to a person
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s", at) //nolint:err113 // told to a person
	case err != nil:
		return nil, fmt.Errorf("getting Secret %s: %w", at, err)
	}
	return workload.Kubeconfig(secret)
}
