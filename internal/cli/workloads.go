package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/ledger"
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
		l.of.Unseen(l.cluster, l.err.Error())
		return
	}
	source := l.of.Nodes(l.cluster)
	for _, n := range l.nodes {
		source.Put(n)
	}
	v.followed = append(v.followed, followed{Source: source, revision: l.revision, at: l.client})
	v.reached[l.cluster] = l.client
}

func (l *look) take(ctx context.Context, c client.Reader, userAgent string) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	raw, err := kubeconfigOf(ctx, c, l.cluster)
	if err != nil {
		return err
	}
	config, err := readKubeconfig(raw, userAgent)
	if err != nil {
		return fmt.Errorf("Secret %s has no kubeconfig that can be followed: %w", secretOf(l.cluster), err) //nolint:staticcheck // a kind
	}
	if l.client, err = reach(config); err != nil {
		return err
	}
	source := Source{List: &lean.NodeList{}, Put: func(o client.Object) bool {
		l.nodes = append(l.nodes, o)
		return true
	}}
	if l.revision, err = list(ctx, l.client, source, ""); err != nil {
		return errors.New(whyNoNodes(err, config.Host)) //nolint:err113 // told to a person
	}
	return nil
}

// secretOf is where Cluster API keeps the kubeconfig of a cluster, under the key value.
func secretOf(cluster ledger.Fleet) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Cluster + "-kubeconfig"}
}

// kubeconfigOf reads the kubeconfig of a cluster with the person's own permissions.
func kubeconfigOf(ctx context.Context, c client.Reader, cluster ledger.Fleet) ([]byte, error) {
	at := secretOf(cluster)
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	err := c.Get(ctx, at, secret)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not get Secret %s (docs/cli.md)", at) //nolint:err113 // told to a person
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s", at) //nolint:err113 // told to a person
	case err != nil:
		return nil, fmt.Errorf("getting Secret %s: %w", at, err)
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", "value") // else it is empty
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("Secret %s has no kubeconfig under the key value", at) //nolint:err113,staticcheck // told to a person; a kind
	}
	return raw, nil
}

// whyNoNodes says for a person why a workload cluster does not tell its nodes.
func whyNoNodes(err error, host string) string {
	switch {
	case apierrors.IsUnauthorized(err):
		return "its API server at " + host + " does not accept the credentials in its kubeconfig"
	case apierrors.IsForbidden(err):
		return "its kubeconfig does not let anybody list its nodes"
	case errors.Is(err, context.DeadlineExceeded):
		return "its API server at " + host + " does not answer in time"
	}
	return fmt.Sprintf("its API server at %s does not answer (%v)", host, err)
}
