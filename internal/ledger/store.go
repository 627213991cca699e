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

// ClusterKey names the fleet that a repair is of: a workload cluster, by its Name, or the zero ClusterKey, which is
// that of the cluster where the ledger is.
type ClusterKey struct {
	Namespace, Name string
}

func clusterKeyOf(meta *metav1.ObjectMeta, cluster string) ClusterKey {
	if cluster == "" {
		return ClusterKey{}
	}
	return ClusterKey{Namespace: meta.Namespace, Name: cluster}
}

// Store is the part of the ledger that is about one fleet. Like the Client, it is safe for concurrent use.
type Store struct {
	*Client

	cluster ClusterKey
}

// Store gives the part of the ledger that is about a fleet.
func (c *Client) Store(cluster ClusterKey) *Store { return &Store{Client: c, cluster: cluster} }

// Clusters returns the workload clusters that have entries, as many of one namespace as are kept.
func (c *Client) Clusters() []ClusterKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index.clusters()
}

// Repairs gives the repairs of the fleet, and whether they are in step with the cluster.
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

// pageSize is how many Repairs are read in one call.
const pageSize = 500

// Running gives the repairs of the fleet that have not ended, as the API server itself has them.
func (s *Store) Running(ctx context.Context) ([]core.Repair, error) {
	var running []core.Repair
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(repairKind.GroupVersion().WithKind(repairKind.Kind + "List"))
	for {
		// The repairs of a workload cluster are in its namespace.
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

// Create creates an entry, or returns false when there is one of that name. A name that an ignored Repair has is passed over.
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

// wouldIgnore decides whether a Repair that is about to be created would count. A Repair that would not count must not
// be created: the next pass would not see it and create another.
func (s *Store) wouldIgnore(r *v1alpha1.Repair) ignoreReason {
	spec := specOf(&r.Spec)
	return ignoreReasonOf(&r.ObjectMeta, &spec, &repairStatus{}, s.Namespace)
}
