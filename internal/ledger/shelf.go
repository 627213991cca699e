package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// Fleet names the fleet that a repair is of: a workload cluster, by its Cluster, or the zero Fleet, which is
// that of the cluster where the ledger is.
type Fleet struct {
	Namespace, Cluster string
}

func fleetOf(meta *metav1.ObjectMeta, cluster string) Fleet {
	if cluster == "" {
		return Fleet{}
	}
	return Fleet{Namespace: meta.Namespace, Cluster: cluster}
}

// Shelf is the part of the ledger that is about one fleet. Like the Client, it is safe for concurrent use.
type Shelf struct {
	*Client

	fleet Fleet
}

// Of gives the part of the ledger that is about a fleet.
func (c *Client) Of(fleet Fleet) *Shelf { return &Shelf{Client: c, fleet: fleet} }

// Fleets gives the workload clusters that have entries.
func (c *Client) Fleets() []Fleet {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[Fleet]bool{}
	for _, p := range c.entries {
		if p.about() && p.fleet != (Fleet{}) {
			found[p.fleet] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// Entries gives the repairs of the fleet, and whether they are in step with the cluster.
func (s *Shelf) Entries() ([]core.Repair, core.Tri) {
	if !s.InStep() {
		return nil, core.Unknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var entries []core.Repair
	for _, p := range s.entries {
		if p.about() && p.fleet == s.fleet {
			entries = append(entries, p.repair)
		}
	}
	return entries, core.Yes
}

// chunk is how many Repairs are read in one call.
const chunk = 500

// Running gives the repairs of the fleet that have not ended, as the API server itself has them.
func (s *Shelf) Running(ctx context.Context) ([]core.Repair, error) {
	var running []core.Repair
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(repairKind.GroupVersion().WithKind(repairKind.Kind + "List"))
	for {
		// The repairs of a workload cluster are in its namespace.
		err := s.Live.List(ctx, list, client.InNamespace(s.fleet.Namespace), client.Limit(chunk), client.Continue(list.GetContinue()))
		if err != nil {
			return nil, fmt.Errorf("listing Repairs: %w", err)
		}
		for i := range list.Items {
			if p := readPage(&list.Items[i]); p.about() && p.fleet == s.fleet && p.repair.Running() {
				running = append(running, p.repair)
			}
		}
		if list.GetContinue() == "" {
			return running, nil
		}
	}
}

// Open creates an entry, or returns false when there is one of that name.
func (s *Shelf) Open(ctx context.Context, e core.Entry) (core.Repair, bool, error) {
	r := render(e, s.Namespace)
	r.Spec.Cluster = s.fleet.Cluster
	err := s.create(ctx, r)
	switch {
	case apierrors.IsAlreadyExists(err) && s.isTaken(r):
		return core.Repair{}, false, fmt.Errorf("creating Repair %s/%s: its name is taken by one that does not say that it is about %s; delete that one",
			r.Namespace, r.Name, e.Target.ID)
	case apierrors.IsAlreadyExists(err):
		return core.Repair{}, false, nil
	case err != nil:
		return core.Repair{}, false, fmt.Errorf("creating Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	return read(r), true, nil
}
