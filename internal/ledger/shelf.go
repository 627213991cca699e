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

// Fleets returns the workload clusters that have entries, as many of one namespace as are kept.
func (c *Client) Fleets() []Fleet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.register.fleets()
}

// Entries gives the repairs of the fleet, and whether they are in step with the cluster.
func (s *Shelf) Entries() ([]core.Repair, core.Tri) {
	if !s.InStep() {
		return nil, core.Unknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	counting := s.register.counting[s.fleet]
	entries := make([]core.Repair, 0, len(counting))
	for _, p := range counting {
		entries = append(entries, p.repair)
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
			if p := readPage(&list.Items[i], s.Namespace); p.counts() && p.fleet == s.fleet && p.repair.Running() {
				running = append(running, p.repair)
			}
		}
		if list.GetContinue() == "" {
			return running, nil
		}
	}
}

// Open creates an entry, or returns false when there is one of that name. A name that an ignored Repair has is passed over.
func (s *Shelf) Open(ctx context.Context, e core.Entry) (core.Repair, bool, error) {
	r := render(e, s.Namespace)
	r.Spec.Cluster = s.fleet.Cluster
	s.mu.Lock()
	full := s.register.overfull(place{s.fleet, r.Namespace})
	r.Name = s.register.freeName(r.Namespace, r.Name, e.Target.ID)
	s.mu.Unlock()
	if full != nil {
		return core.Repair{}, false, full
	}
	if d := s.distrusts(r); d != (distrust{}) {
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

// distrusts decides whether a Repair that is about to be created would count. A Repair that would not count must not
// be created: the next pass would not see it and create another.
func (s *Shelf) distrusts(r *v1alpha1.Repair) distrust {
	spec := decidedOf(&r.Spec)
	return distrustOf(&r.ObjectMeta, &spec, &come{}, s.Namespace)
}
