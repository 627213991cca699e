package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fettle-io/fettle/internal/contain"
)

// The bounds on calls that one pass makes. All stages of a pass together end within six minutes,
// even when the API server answers nothing at all; Watchdog counts on it.
const (
	// parallelCalls is how many calls are made at a time.
	parallelCalls = 32
	// callTimeout is how long one read or write may take, and recordTimeout the statuses of one dialect:
	// one that hangs holds up the others.
	callTimeout   = 10 * time.Second
	recordTimeout = 5 * time.Second
	// remedyTimeout is how long the call of a remedy may take. Admission webhooks have up to ten seconds.
	remedyTimeout = 15 * time.Second
	// leaseTimeout is how long it may take to take, renew or release a lease, which is one small object.
	leaseTimeout = 5 * time.Second
	// deedTimeout is how long it may take to record a repair, to take a lease for it, to read its policies again, to call its
	// remedy, and to record the answer.
	deedTimeout = 45 * time.Second
	// changeTimeout is how long it may take to stop a request and to record that, and finishTimeout to
	// record an end and give back what the repair held.
	changeTimeout = 2 * callTimeout
	finishTimeout = callTimeout + 2*leaseTimeout
	// stageTimeout is how long a stage of a pass begins new calls; the rest is left to the next pass.
	stageTimeout = 30 * time.Second
	// grace is how long calls under way may go on once the pass is asked to end. A call that is cut off
	// may have been granted all the same, and nobody would know.
	grace = 5 * time.Second
)

// errLate is why a call was not begun.
var errLate = errors.New("not begun, since other calls took too long; it is left to the next pass")

// inParallel runs n calls, some at a time, each within its time limit, and gives their errors. Once the
// context has ended no further call begins; those under way have a grace. A call that panics has failed.
func inParallel(ctx context.Context, n int, limit time.Duration, call func(context.Context, int) error) []error {
	errs := make([]error, n)
	stage, end := context.WithTimeoutCause(ctx, stageTimeout, errLate)
	defer end()
	var group errgroup.Group
	group.SetLimit(parallelCalls)
	for i := range n {
		group.Go(func() error {
			if stage.Err() != nil {
				errs[i] = context.Cause(stage)
				return nil
			}
			limited, cancel := within(ctx, limit)
			defer cancel()
			errs[i] = contain.Run(func() error { return call(limited, i) })
			return nil
		})
	}
	_ = group.Wait()
	return errs
}

// within gives one call a context that ends with its time limit, or a grace after the pass is asked to
// end.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		mercy := time.NewTimer(grace)
		defer mercy.Stop()
		select {
		case <-mercy.C:
			cancel()
		case <-limited.Done():
		}
	})
	return limited, func() {
		stop()
		cancel()
	}
}

// cutOff tells whether a call within this context failed because the pass was asked to end.
func cutOff(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// mostErrors is how many errors of one stage are worth reading.
const mostErrors = 5

// joined joins the errors of one stage, of which there may be thousands that are alike. Panics come first.
func joined(errs []error) error {
	some := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	slices.SortStableFunc(some, func(a, b error) int { return int(number(panicked(b)) - number(panicked(a))) })
	if more := len(some) - mostErrors; more > 0 {
		some = append(some[:mostErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(some...)
}

// panicked reports whether an error has a panic in it.
func panicked(err error) bool {
	_, is := errors.AsType[*contain.PanicError](err)
	return is
}
