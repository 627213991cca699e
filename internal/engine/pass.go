package engine

import (
	"context"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
)

// Pass runs one pass over the cluster. It returns when the next pass is due without an event, the
// zero time for never. After an error the caller repeats the pass with a back-off. The repeated
// pass doesn't repeat calls that have succeeded.
//
// Once the context ends, Pass starts no further calls, gives those under way a few seconds, and
// returns. A panic ends the pass with an error. Its expectations are true by then, each by itself.
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
