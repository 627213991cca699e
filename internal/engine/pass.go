package engine

import (
	"context"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
)

// Pass looks at the fleet once and does what follows. It returns when the next pass is due without
// any event, the zero time for never. After an error the pass is to be repeated with a back-off;
// what it did before stays done and is not done again.
//
// When the context ends, it begins nothing more, gives calls under way a few seconds, and returns. A pass that panics ends
// with an error. What it remembers by then is true, each fact by itself.
func (e *Engine) Pass(ctx context.Context) (time.Time, error) {
	began := e.Now()
	var next time.Time
	err := contain.Run(func() (err error) {
		next, err = e.pass(ctx)
		return err
	})
	e.Metrics.observePass(e.ClusterKey, e.Now().Sub(began), err)
	return next, err
}
