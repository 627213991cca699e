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

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/workload"
)

const (
	// nodesTimeout bounds the read of one workload cluster's nodes, and allNodesTimeout that of all together.
	nodesTimeout, allNodesTimeout = 5 * time.Second, 30 * time.Second
	// nodeReadsAtOnce is the number of workload clusters that are read at a time.
	nodeReadsAtOnce = 8
	// retryUnread is the pause before a watch reads those again that did not answer.
	retryUnread = 30 * time.Second
)

// clusterFilter reports whether a question is about a cluster.
type clusterFilter func(v *view, f *ClusterObservation) bool

// nodeRead is one read of a workload cluster's nodes.
type nodeRead struct {
	of      Workloads
	cluster core.ClusterKey

	// The following fields are the result. With an error, the others are not set.
	client   client.WithWatch
	nodes    []client.Object
	revision string
	err      error
}

// unreadWorkloads returns the workload clusters of the question whose nodes were not read.
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

// readWorkloads reads the nodes of the workload clusters of the question, by their own kubeconfigs. If one can't be
// read, the others still are.
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

// takeNodes stores the result of a read.
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

// read reads the nodes of the cluster. Its errors are for users.
func (l *nodeRead) read(ctx context.Context, c client.Reader, userAgent string) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	config, err := kubeconfigOf(ctx, c, clusterName(l.cluster))
	if err != nil {
		return err
	}
	config.UserAgent = userAgent
	if l.client, err = workload.NewClient(config, client.Options{Scheme: newScheme()}); err != nil {
		return fmt.Errorf("the kubeconfig in Secret %s can't be followed: %w", workload.SecretOf(clusterName(l.cluster)), err)
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

// kubeconfigOf reads the kubeconfig of a cluster with the user's own rights.
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
