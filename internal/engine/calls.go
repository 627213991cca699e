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

// The bounds on the calls of one pass. All stages of a pass end within six minutes together, even
// if the API server answers nothing. Watchdog relies on that.
const (
	// parallelCalls bounds the tasks of one stage that run at a time, and the calls of one task.
	parallelCalls = 32
	// callTimeout bounds one read or write, and recordTimeout the statuses or conditions of one
	// dialect. A dialect that hangs delays the others.
	callTimeout   = 10 * time.Second
	recordTimeout = 5 * time.Second
	// remedyTimeout bounds the call of a remedy. Admission webhooks may take ten seconds.
	remedyTimeout = 15 * time.Second
	// leaseTimeout bounds a call about a lease, which is one small object.
	leaseTimeout = 5 * time.Second
	// startTimeout bounds the calls of one start: record the repair, take its lease, read its
	// policies, call its remedy, and record the result.
	startTimeout = 45 * time.Second
	// changeTimeout bounds stopping a request and recording that. endTimeout bounds recording an
	// end and giving back the leases of the repair.
	changeTimeout = 2 * callTimeout
	endTimeout    = callTimeout + 2*leaseTimeout
	// stageTimeout is how long a stage starts new calls. The next pass makes the rest.
	stageTimeout = 30 * time.Second
	// grace is how long calls under way may go on once the pass is cancelled. The API server may
	// have granted a call that is cut off, and Fettle wouldn't know.
	grace = 5 * time.Second
)

// errStageTimeout is the error of calls that a stage had no time for.
var errStageTimeout = errors.New("not called, since other calls took too long; the next pass makes the call")

// taskTimeout bounds the calls of one task together.
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
		pass.CheckingLeases, pass.Admitting, pass.DeletingRepairs:
	}
	return callTimeout
}

// timeout bounds one call. A call also ends with its task.
func timeout(c *pass.Call) time.Duration {
	switch c.Kind {
	case pass.ReportBlocked, pass.WriteStatuses, pass.WriteConditions:
		return recordTimeout
	case pass.AcquireLease, pass.ReleaseLease, pass.WithdrawConfirmation:
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

// maxErrors bounds the errors of one stage that are reported.
const maxErrors = 5

// joinErrors joins the errors of one stage, panics first. A stage may have thousands that are
// alike.
func joinErrors(errs []error) error {
	some := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	slices.SortStableFunc(some, func(a, b error) int { return int(boolToFloat(panicked(b)) - boolToFloat(panicked(a))) })
	if more := len(some) - maxErrors; more > 0 {
		some = append(some[:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(some...)
}

// panicked reports whether an error contains a panic.
func panicked(err error) bool {
	_, is := errors.AsType[*contain.PanicError](err)
	return is
}

// withGrace returns the context of one task. It ends with the task's time limit, or a grace after
// the pass is cancelled.
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
