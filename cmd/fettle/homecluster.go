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
	return h.anyYes(homeDialect.Acts)
}

// ActsOn reports whether a health check of any dialect acts on any of these nodes. If that is
// unknown, it is still No once one dialect knows all nodes and has none of these.
func (h *homeCluster) ActsOn(nodes map[string]string) core.Tri {
	acts := h.anyYes(func(n homeDialect) core.Tri { return n.ActsOn(nodes) })
	if acts == core.Unknown && h.hasNone(nodes) {
		return core.No
	}
	return acts
}

func (h *homeCluster) hasNone(nodes map[string]string) bool {
	none := len(nodes) == 0
	for _, n := range h.dialects {
		switch n.HasAny(nodes) {
		case core.Yes:
			return false
		case core.No:
			none = true
		case core.Unknown:
		}
	}
	return none
}

// anyYes returns Yes if any dialect answers Yes, otherwise Unknown if any answers Unknown,
// otherwise No.
func (h *homeCluster) anyYes(of func(homeDialect) core.Tri) core.Tri {
	is := core.No
	for _, n := range h.dialects {
		switch of(n) {
		case core.Yes:
			return core.Yes
		case core.Unknown:
			is = core.Unknown
		case core.No:
		}
	}
	return is
}

// actsChanged reports whether Acts has changed since the last call.
func (h *homeCluster) actsChanged() bool {
	acts := int32(h.Acts())
	return h.last.Swap(acts) != acts
}
