package informer

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/fettle-io/fettle/internal/contain"
)

// Panics counts the panics of handlers, by the plural of the kind.
//
//nolint:gochecknoglobals // a process has one
var Panics = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "fettle_watch_panics_total",
	Help: "Events of watched objects over which code of Fettle panicked. The watch of that kind does nothing more until the process is restarted.",
}, []string{"resource"})

// recoveringHandler passes events to a handler. A panic of the handler ends the event and not the process. The
// state of the kind may be wrong from then on, so it never counts as synced again.
type recoveringHandler struct {
	handler toolscache.ResourceEventHandler
	kind    string
	broken  *atomic.Bool
	ctx     context.Context //nolint:containedctx // it has the logger, which handlers don't get
}

// OnAdd implements toolscache.ResourceEventHandler.
func (g *recoveringHandler) OnAdd(obj any, initial bool) {
	g.run(func() { g.handler.OnAdd(obj, initial) })
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (g *recoveringHandler) OnUpdate(old, fresh any) {
	g.run(func() { g.handler.OnUpdate(old, fresh) })
}

// OnDelete implements toolscache.ResourceEventHandler.
func (g *recoveringHandler) OnDelete(obj any) { g.run(func() { g.handler.OnDelete(obj) }) }

func (g *recoveringHandler) run(handle func()) {
	err := contain.Run(func() error {
		handle()
		return nil
	})
	if err == nil {
		return
	}
	g.broken.Store(true)
	Panics.WithLabelValues(g.kind).Inc()
	logf.FromContext(g.ctx).WithName("watch").Error(err,
		"a watched object could not be taken in, since code of Fettle panicked; nothing is done with objects of this kind until Fettle is restarted; report this line",
		"resource", g.kind)
}
