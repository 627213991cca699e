package ledger

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

func clusterKeyOf(meta *metav1.ObjectMeta, cluster string) core.ClusterKey {
	if cluster == "" {
		return core.ClusterKey{}
	}
	return core.ClusterKey{Namespace: meta.Namespace, Name: cluster}
}

// Store is the part of the ledger for one cluster. Like the Client, it is safe for concurrent use.
type Store struct {
	*Client

	cluster core.ClusterKey
}

// Store returns the part of the ledger for a cluster.
func (c *Client) Store(cluster core.ClusterKey) *Store { return &Store{Client: c, cluster: cluster} }

// Clusters returns the workload clusters that have Repairs, up to a bound for each namespace.
func (c *Client) Clusters() []core.ClusterKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index.clusters()
}

// Repairs returns the repairs of the cluster from the cache, and whether the cache has synced.
func (s *Store) Repairs() ([]core.Repair, core.Tri) {
	if !s.HasSynced() {
		return nil, core.Unknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	counting := s.index.counting[s.cluster]
	entries := make([]core.Repair, 0, len(counting))
	for _, p := range counting {
		entries = append(entries, p.repair)
	}
	return entries, core.Yes
}

// pageSize is how many Repairs one call lists.
const pageSize = 500

// Running lists the repairs of the cluster that have not ended from the API server.
func (s *Store) Running(ctx context.Context) ([]core.Repair, error) {
	var running []core.Repair
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(repairKind.GroupVersion().WithKind(repairKind.Kind + "List"))
	for {
		// The Repairs of a workload cluster are in the namespace of its Cluster.
		err := s.Live.List(ctx, list, client.InNamespace(s.cluster.Namespace), client.Limit(pageSize), client.Continue(list.GetContinue()))
		if err != nil {
			return nil, fmt.Errorf("listing Repairs: %w", err)
		}
		for i := range list.Items {
			if p := readRecord(&list.Items[i], s.Namespace); p.counts() && p.cluster == s.cluster && p.repair.Running() {
				running = append(running, p.repair)
			}
		}
		if list.GetContinue() == "" {
			return running, nil
		}
	}
}

// Create creates the Repair of a new repair. It returns false if a Repair of that name exists. It passes over names
// that ignored Repairs have.
func (s *Store) Create(ctx context.Context, e core.NewRepair) (core.Repair, bool, error) {
	r := render(e, s.Namespace)
	r.Spec.Cluster = s.cluster.Name
	s.mu.Lock()
	full := s.index.overfull(bucket{s.cluster, r.Namespace})
	r.Name = s.index.freeName(r.Namespace, r.Name, e.Target.ID)
	s.mu.Unlock()
	if full != nil {
		return core.Repair{}, false, full
	}
	if d := s.wouldIgnore(r); d != (ignoreReason{}) {
		return core.Repair{}, false, fmt.Errorf("recording the repair of %s in namespace %s: such a Repair would be ignored, since %s", e.Target.ID, r.Namespace, d.text)
	}
	switch err := s.create(ctx, r); {
	case apierrors.IsAlreadyExists(err):
		return core.Repair{}, false, nil
	case err != nil:
		return core.Repair{}, false, fmt.Errorf("creating Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	return read(r), true, nil
}

// wouldIgnore returns why a new Repair would be ignored. Such a Repair must not be created: the next pass would not
// see it, and would create another.
func (s *Store) wouldIgnore(r *v1alpha1.Repair) ignoreReason {
	spec := specOf(&r.Spec)
	return ignoreReasonOf(&r.ObjectMeta, &spec, &repairStatus{}, s.Namespace)
}
