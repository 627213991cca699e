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

	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/workload"
)

const (
	// lookWithin bounds how long one workload cluster may take to tell its nodes, and looksWithin all of them together.
	lookWithin, looksWithin = 5 * time.Second, 30 * time.Second
	// looksAtOnce is how many workload clusters are asked at a time.
	looksAtOnce = 8
	// lookAgain is how long a watch waits before it asks those again that did not answer.
	lookAgain = 30 * time.Second
)

// concerns tells whether a question is about a fleet.
type concerns func(v *view, f *Fleet) bool

// look is one workload cluster that is asked for its nodes.
type look struct {
	of      Workloads
	cluster ledger.Fleet

	// What follows is what came of it; with an error, nothing did.
	client   client.WithWatch
	nodes    []client.Object
	revision string
	err      error
}

// unlooked gives the workload clusters that the question is about and whose nodes were not asked for.
func (v *view) unlooked() []*look {
	var looks []*look
	for _, p := range v.parts {
		workloads, are := p.Reading.(Workloads)
		if !are {
			continue
		}
		for _, f := range p.Observe(v.at) {
			if !v.looked[f.Cluster] && workloads.HasNodes(f.Cluster) && v.about(v, &f) {
				looks = append(looks, &look{of: workloads, cluster: f.Cluster})
			}
		}
	}
	return looks
}

// readWorkloads reads the nodes of the workload clusters that the question is about, by their own kubeconfigs. One that can't
// be read keeps nobody from telling of the others.
func (v *view) readWorkloads(ctx context.Context, c client.Reader, userAgent string) {
	looks := v.unlooked()
	ctx, cancel := context.WithTimeout(ctx, looksWithin)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(looksAtOnce)
	for _, l := range looks {
		group.Go(func() error {
			l.err = l.take(ctx, c, userAgent)
			return nil
		})
	}
	_ = group.Wait()
	for _, l := range looks {
		v.takeNodes(l)
	}
}

// takeNodes takes in what came of a look.
func (v *view) takeNodes(l *look) {
	v.looked[l.cluster] = true
	if l.err != nil {
		v.unseen = true
		l.of.Unseen(l.cluster, sanitize.Failure(sanitize.MostMessage, l.err))
		return
	}
	source := l.of.Nodes(l.cluster)
	for _, n := range l.nodes {
		source.Put(n)
	}
	v.followed = append(v.followed, followed{Source: source, revision: l.revision, at: l.client})
	v.reached[l.cluster] = l.client
}

// take reads the nodes of the cluster. Its errors are for people.
func (l *look) take(ctx context.Context, c client.Reader, userAgent string) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	config, err := kubeconfigOf(ctx, c, clusterName(l.cluster))
	if err != nil {
		return err
	}
	config.UserAgent = userAgent
	if l.client, err = workload.Reach(config, client.Options{Scheme: newScheme()}); err != nil {
		return err
	}
	source := Source{List: &lean.NodeList{}, Put: func(o client.Object) bool {
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
