package fencing_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// failedAt is a change of the node or of its machine that has failed a number of seconds after the facts of seen().
func failedAt(seconds int) func(*fencing.Facts) {
	return func(f *fencing.Facts) { f.ChangeFailed = in(seconds) }
}

// TestPreparingEnds where a node can't be tainted: only once a try at the limit or later has failed. Nothing was commanded by then.
func TestPreparingEnds(t *testing.T) {
	const limit = 4 * 60 // seconds after the facts of seen()
	none := fencing.Power{}
	retries, deletes, promise := with(retry), with(deleteMachine), with(byPromise)
	promise.Limits.Fence = 6 * time.Minute
	first := recorded(fencing.Preparing)
	again := recorded(fencing.Preparing, func(r *fencing.Record) { r.Attempt = 2 })
	late := known(down(untainted), none, atTheLimit, failedAt(limit))
	check(t, map[string]edge{
		"it was tried before":             {limits, first, known(down(untainted), none, atTheLimit, failedAt(limit-1)), does(fencing.TaintNode)},
		"it was not tried":                {limits, first, known(down(untainted), none, atTheLimit), does(fencing.TaintNode)},
		"it has failed at the limit":      {limits, first, late, writes(since(first, fencing.Failed, late, because(fencing.TaintTimedOut)))},
		"another attempt":                 {retries, first, late, writes(since(again, fencing.Preparing, late, because(fencing.TaintTimedOut)))},
		"no other attempt":                {retries, again, late, writes(since(again, fencing.Failed, late, because(fencing.TaintTimedOut)))},
		"the machine is deleted":          {deletes, first, late, writes(since(first, fencing.DeletingMachine, late, because(fencing.TaintTimedOut)))},
		"it was tainted":                  {limits, first, known(down(), none, atTheLimit, failedAt(limit)), does(fencing.CommandOff)},
		"it can't be read":                {limits, first, known(&fencing.Node{Failed: true, RetryAt: in(3)}, none, atTheLimit, failedAt(limit)), waits(fencing.NodeNotRead, 3)},
		"it fences itself, and has time":  {promise, first, late, does(fencing.TaintNode)},
		"it fences itself, and has none":  {promise, first, known(down(untainted), none, failedAt(5*60)), writes(since(first, fencing.Failed, seen(nil, none), because(fencing.TaintTimedOut)))},
		"the fencing is no longer wanted": {limits, first, known(down(untainted), none, atTheLimit, failedAt(limit), stopped), writes(since(first, fencing.Aborting, late, because(fencing.Stopped)))},
	})
}

// TestDeletingTheMachineEnds at its limit, and nothing is released by that.
func TestDeletingTheMachineEnds(t *testing.T) {
	const limit = 9 * 60 // seconds after the facts of seen()
	going := fencing.Machine{Exists: true, Deleting: true}
	deleting := recorded(fencing.DeletingMachine, machineDeletion)
	at := func(m fencing.Machine, seconds int, change ...func(*fencing.Facts)) fencing.Facts {
		f := about(m)
		f.Now = in(seconds)
		for _, c := range change {
			c(&f)
		}
		return f
	}
	fails := func(r fencing.Record, why fencing.Reason, change ...func(*fencing.Record)) fencing.Step {
		r.Reason = why
		return writes(since(r, fencing.Failed, fencing.Facts{Now: in(limit)}, change...))
	}
	unread := fencing.Machine{Failed: true, RetryAt: in(limit + 5)}
	left := func(f *fencing.Facts) { f.Power.Left = true }
	tried := func(f *fencing.Facts) { f.Power.RetryAt = in(limit + 5) }
	check(t, map[string]edge{
		"it is going":                      {limits, deleting, at(going, limit-20), waits(fencing.MachineNotGone, limit-10)},
		"it is going, shortly before":      {limits, deleting, at(going, limit-1), waits(fencing.MachineNotGone, limit)},
		"it is going still":                {limits, deleting, at(going, limit), fails(deleting, fencing.MachineDeletionTimedOut)},
		"it is not read":                   {limits, deleting, at(unread, limit-1), waits(fencing.MachineNotRead, limit)},
		"it is not read at the limit":      {limits, deleting, at(unread, limit), fails(deleting, fencing.MachineDeletionTimedOut)},
		"its deletion was not tried":       {limits, deleting, at(fencing.Machine{Exists: true}, limit), does(fencing.RemoveMachine)},
		"its deletion has failed before":   {limits, deleting, at(fencing.Machine{Exists: true}, limit, failedAt(limit-1)), does(fencing.RemoveMachine)},
		"its deletion has failed":          {limits, deleting, at(fencing.Machine{Exists: true}, limit, failedAt(limit)), fails(deleting, fencing.MachineDeletionTimedOut, func(r *fencing.Record) { r.MachineDeletion = false })},
		"it must be kept by now":           {limits, deleting, at(fencing.Machine{Exists: true, Kept: fencing.KeptOtherNode}, limit), fails(deleting, fencing.KeptOtherNode)},
		"it is gone":                       {limits, deleting, at(fencing.Machine{}, limit, left), writes(recorded(fencing.DeletingMachine, machineDeletion, poweredOn))},
		"it is gone, and the host is kept": {limits, deleting, at(fencing.Machine{}, limit, tried), fails(deleting, fencing.HostNotLeft)},
		"the same, shortly before":         {limits, deleting, at(fencing.Machine{}, limit-1, tried), waits(fencing.PowerNotRead, limit)},
		"the same, and it was not tried":   {limits, deleting, at(fencing.Machine{}, limit), does(fencing.LeaveHost)},
	})
}

// TestAHostThatStaysOffIsNoSuccess where the time for the release is over and nothing was released.
func TestAHostThatStaysOffIsNoSuccess(t *testing.T) {
	none := fencing.Power{}
	holds, retries := with(off), with(off, retry)
	first, done := recorded(fencing.Releasing), recorded(fencing.Releasing, released)
	late := known(down(), none, atTheLimit)
	proven := func(r *fencing.Record) { r.Proof = fencing.Proof{Kind: fencing.PowerOff, At: start} }
	again := recorded(fencing.Preparing, secondAttempt)
	check(t, map[string]edge{
		"there is time left":         {holds, first, known(down(), none, beforeLimit), does(fencing.ReadPower)},
		"nothing was released":       {holds, first, late, writes(since(recorded(fencing.Failed, proven), fencing.Failed, late, because(fencing.ReleaseTimedOut)))},
		"another attempt follows":    {retries, first, late, writes(since(again, fencing.Preparing, late, because(fencing.ReleaseTimedOut)))},
		"pods are left":              {holds, done, late, writes(since(recorded(fencing.Succeeded, proven, released), fencing.Succeeded, late, because(fencing.ReleaseTimedOut)))},
		"there was no node":          {holds, first, known(down(gone), none, atTheLimit), writes(since(recorded(fencing.Succeeded, proven), fencing.Succeeded, late))},
		"others have released it":    {holds, recorded(fencing.Releasing, foreign), late, writes(since(recorded(fencing.Succeeded, proven, foreign), fencing.Succeeded, late))},
		"a host that is to be on is": {limits, first, late, writes(since(recorded(fencing.PoweringOn), fencing.PoweringOn, late, because(fencing.ReleaseTimedOut)))},
	})
}
