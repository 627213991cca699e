package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/pass"
)

// The bounds on calls that one pass makes. All stages of a pass together end within six minutes,
// even when the API server answers nothing at all; Watchdog counts on it.
const (
	// parallelCalls is how many tasks of one stage go on at a time, and how many calls of one task.
	parallelCalls = 32
	// callTimeout is how long one read or write may take, and recordTimeout the statuses or marks of one dialect:
	// one that hangs holds up the others.
	callTimeout   = 10 * time.Second
	recordTimeout = 5 * time.Second
	// remedyTimeout is how long the call of a remedy may take. Admission webhooks have up to ten seconds.
	remedyTimeout = 15 * time.Second
	// leaseTimeout is how long it may take to take, renew or release a lease, which is one small object.
	leaseTimeout = 5 * time.Second
	// startTimeout is how long it may take to record a repair, to take a lease for it, to read its policies again, to call its
	// remedy, and to record the answer.
	startTimeout = 45 * time.Second
	// changeTimeout is how long it may take to stop a request and to record that, and endTimeout to
	// record an end and give back what the repair held.
	changeTimeout = 2 * callTimeout
	endTimeout    = callTimeout + 2*leaseTimeout
	// stageTimeout is how long a stage of a pass begins new calls; the rest is left to the next pass.
	stageTimeout = 30 * time.Second
	// grace is how long calls under way may go on once the pass is asked to end. A call that is cut off
	// may have been granted all the same, and nobody would know.
	grace = 5 * time.Second
)

// errStageTimeout is why a call was not begun.
var errStageTimeout = errors.New("not begun, since other calls took too long; it is left to the next pass")

// taskTimeout returns how long the calls of one task of a stage may take together.
func taskTimeout(s pass.Stage) time.Duration {
	switch s {
	case pass.ReportingBlocked, pass.WritingStatuses, pass.WritingConditions:
		return recordTimeout
	case pass.RenewingLeases, pass.ReleasingLeases:
		return leaseTimeout
	case pass.UpdatingRepairs:
		return changeTimeout
	case pass.StartingRemedies:
		return startTimeout
	case pass.EndingRepairs:
		return endTimeout
	case pass.ReadingLive, pass.Withdrawing, pass.CheckingSteps, pass.ReadingAhead, pass.CheckingPolicies, pass.RecordingRepairs,
		pass.Admitting, pass.DeletingRepairs:
	}
	return callTimeout
}

// timeout returns how long one call may take, which is never longer than what is left of its task.
func timeout(c *pass.Call) time.Duration {
	switch c.Kind {
	case pass.ReportBlocked, pass.WriteStatuses, pass.WriteConditions:
		return recordTimeout
	case pass.AcquireLease, pass.ReleaseLease, pass.RemoveConfirmation:
		return leaseTimeout
	case pass.StartRemedy:
		return remedyTimeout
	case pass.CreateRepair, pass.UpdateRepair:
		if c.Stage != pass.EndingRepairs {
			return startTimeout
		}
	case pass.ReadNode, pass.ReadQuorum, pass.ReadPolicy, pass.ListRunning, pass.FindSibling, pass.ReadClock, pass.StopRequest,
		pass.WithdrawRequest, pass.DeleteRepair:
	}
	return callTimeout
}

// maxErrors is how many errors of one stage are worth reading.
const maxErrors = 5

// joinErrors joins the errors of one stage, of which there may be thousands that are alike. Panics come first.
func joinErrors(errs []error) error {
	some := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	slices.SortStableFunc(some, func(a, b error) int { return int(boolToFloat(panicked(b)) - boolToFloat(panicked(a))) })
	if more := len(some) - maxErrors; more > 0 {
		some = append(some[:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(some...)
}

// panicked reports whether an error has a panic in it.
func panicked(err error) bool {
	_, is := errors.AsType[*contain.PanicError](err)
	return is
}

// withGrace gives one task a context that ends with its time limit, or a grace after the pass is asked to
// end.
func withGrace(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-limited.Done():
		}
	})
	return limited, func() {
		stop()
		cancel()
	}
}
