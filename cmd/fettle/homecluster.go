package main

import (
	"sync/atomic"

	"github.com/fettle-io/fettle/internal/core"
)

// homeDialect is a dialect of the cluster that Fettle runs in.
type homeDialect interface {
	Acts() core.Tri
	// ActsOn reports whether a health check may repair any of these nodes, and HasAny whether the
	// cluster has any of them. The map has the UID of each node under its name.
	ActsOn(nodes map[string]string) core.Tri
	HasAny(nodes map[string]string) core.Tri
}

// homeCluster answers for the health checks of the cluster that Fettle runs in. A workload cluster
// may have the same nodes.
type homeCluster struct {
	dialects []homeDialect
	last     atomic.Int32
}

// Acts reports whether a health check of any dialect acts.
func (h *homeCluster) Acts() core.Tri {
	return core.AnyYes(len(h.dialects), func(i int) core.Tri { return h.dialects[i].Acts() })
}

// ActsOn reports whether a health check of any dialect acts on any of these nodes. If that is
// unknown, it is still No once one dialect knows all nodes and has none of these.
func (h *homeCluster) ActsOn(nodes map[string]string) core.Tri {
	return core.HomeActs(len(h.dialects),
		func(i int) core.Tri { return h.dialects[i].ActsOn(nodes) },
		func(i int) core.Tri {
			if len(nodes) == 0 {
				return core.No
			}
			return h.dialects[i].HasAny(nodes)
		})
}

// actsChanged reports whether Acts has changed since the last call.
func (h *homeCluster) actsChanged() bool {
	acts := int32(h.Acts())
	return h.last.Swap(acts) != acts
}
