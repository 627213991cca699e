package pass

import "slices"

// Stage is a part of a pass.
type Stage int

// The stages, in the order in which they open where nothing else orders them.
const (
	ReportingBlocked Stage = iota + 1
	ReadingLive
	WritingStatuses
	Withdrawing
	CheckingSteps
	UpdatingRepairs
	RenewingLeases
	CheckingLeases
	ReleasingLeases
	WritingConditions
	ReadingAhead
	CheckingPolicies
	RecordingRepairs
	Admitting
	StartingRemedies
	EndingRepairs
	DeletingRepairs

	lastStage = DeletingRepairs
)

var stageNames = [...]string{
	ReportingBlocked: "report blocked", ReadingLive: "read live", WritingStatuses: "write statuses", Withdrawing: "withdraw requests",
	CheckingSteps: "check policies of steps", UpdatingRepairs: "update repairs", RenewingLeases: "renew leases",
	CheckingLeases: "check leases", ReleasingLeases: "release leases", WritingConditions: "write conditions", ReadingAhead: "read ahead", CheckingPolicies: "check policies",
	RecordingRepairs: "record repairs", Admitting: "admit repairs", StartingRemedies: "start remedies",
	EndingRepairs: "end repairs", DeletingRepairs: "delete repairs",
}

// String returns the name of the stage.
func (s Stage) String() string {
	if s > 0 && s <= lastStage {
		return stageNames[s]
	}
	return "none"
}

// stage is what one stage does. The tasks of a stage run in parallel, and the steps of a task follow each other.
type stage struct {
	// after has the stages that must be over before this one opens. They stand before it in the table.
	after []Stage
	// oneByOne is set when its tasks follow each other.
	oneByOne bool
	// enter prepares the stage and returns how many tasks it has.
	enter func(*Pass) int
	steps []step
	// leave is called when all tasks are over; nil for nothing. It reports whether the stage opens again.
	leave func(*Pass) (again bool)
}

// step is one step of a task.
type step struct {
	// calls returns the calls of the step. A step without calls is skipped.
	calls func(p *Pass, t *task, i int) []Call
	// take takes in the result of one of them; nil for nothing.
	take func(p *Pass, t *task, c *Call, r *Result)
}

// stages declare the order of a pass:
//
//   - Nothing is written before the live reads have ended, and nothing but statuses before these are written.
//   - Requests are withdrawn beside everything else, so that they don't wait for repairs that hang (I12).
//   - A step is given up, and a repair recorded, only after each policy was read that selects the target (I1).
//   - All repairs are recorded before any remedy starts, where another leader may contest a limit (I3). A task of StartingRemedies
//     without that records its own repair first. Its lease is taken next, then the clock is read.
//   - A lease without a repair is released only after the running repairs were listed, since another leader's may need it (I3).
//   - Ends are recorded last, since nothing waits for them, and what they have held is released after that.
var stages = [...]stage{
	ReportingBlocked: {oneByOne: true, enter: (*Pass).unknownDialects, steps: []step{{(*Pass).reportBlocked, (*Pass).blockedReported}}},
	ReadingLive:      {after: []Stage{ReportingBlocked}, enter: (*Pass).unreadTargets, steps: []step{{(*Pass).readTarget, (*Pass).targetRead}}, leave: (*Pass).applyLive},
	WritingStatuses:  {after: []Stage{ReadingLive}, oneByOne: true, enter: (*Pass).statuses, steps: []step{{(*Pass).writeStatuses, (*Pass).statusesWritten}}, leave: (*Pass).planCalls},

	Withdrawing:       {after: []Stage{WritingStatuses}, enter: (*Pass).withdrawals, steps: []step{{(*Pass).withdraw, (*Pass).withdrawn}}},
	CheckingSteps:     {after: []Stage{WritingStatuses}, enter: (*Pass).policiesOfSteps, steps: []step{{(*Pass).readPolicyOfStep, (*Pass).policyOfStepRead}}, leave: (*Pass).holdSteps},
	UpdatingRepairs:   {after: []Stage{CheckingSteps}, enter: (*Pass).repairChanges, steps: []step{{(*Pass).stopRequest, (*Pass).requestStopped}, {(*Pass).writeChange, (*Pass).changeWritten}}},
	RenewingLeases:    {after: []Stage{WritingStatuses}, enter: (*Pass).leasesToRenew, steps: []step{{(*Pass).renewLease, (*Pass).leaseRenewed}}},
	CheckingLeases:    {after: []Stage{WritingStatuses}, enter: (*Pass).leasesToCheck, steps: []step{{(*Pass).listRunning, (*Pass).runningForLeases}}},
	ReleasingLeases:   {after: []Stage{CheckingLeases}, enter: (*Pass).leasesToRelease, steps: []step{{(*Pass).releaseLease, (*Pass).leaseReleased}}},
	WritingConditions: {after: []Stage{WritingStatuses}, oneByOne: true, enter: (*Pass).conditionWriters, steps: []step{{(*Pass).writeConditions, (*Pass).conditionsWritten}}},
	ReadingAhead:      {after: []Stage{WritingStatuses}, enter: (*Pass).nextDeadline, steps: []step{{(*Pass).readAhead, (*Pass).readAheadDone}}},

	CheckingPolicies: {after: []Stage{WritingStatuses}, enter: (*Pass).policiesOfStarts, steps: []step{{(*Pass).readPolicyOfStart, (*Pass).policyOfStartRead}}, leave: (*Pass).dropBlockedStarts},
	RecordingRepairs: {after: []Stage{CheckingPolicies}, enter: (*Pass).contestedStarts, steps: []step{{(*Pass).createRepair, (*Pass).repairCreated}}},
	Admitting:        {after: []Stage{RecordingRepairs}, enter: (*Pass).startsToAdmit, steps: []step{{(*Pass).listRunning, (*Pass).runningListed}}},
	StartingRemedies: {after: []Stage{Admitting}, enter: (*Pass).admittedStarts, steps: []step{
		{(*Pass).createUncontested, (*Pass).repairCreated},
		{(*Pass).findSibling, (*Pass).siblingFound},
		{(*Pass).acquireLease, (*Pass).leaseAcquired},
		{(*Pass).readClock, (*Pass).clockRead},
		{(*Pass).recheckPolicies, (*Pass).policyRechecked},
		{(*Pass).startRemedy, (*Pass).remedyAnswered},
		{(*Pass).recordAnswer, (*Pass).answerRecorded},
	}, leave: (*Pass).finishStarts},

	EndingRepairs: {after: []Stage{
		Withdrawing, UpdatingRepairs, RenewingLeases, ReleasingLeases, WritingConditions, ReadingAhead, StartingRemedies,
	}, enter: (*Pass).endings, steps: []step{
		{(*Pass).recordEnd, (*Pass).endRecorded},
		{(*Pass).releaseEnded, (*Pass).endedReleased},
		{(*Pass).withdrawConfirmation, (*Pass).confirmationWithdrawn},
	}, leave: (*Pass).finishEnds},
	DeletingRepairs: {after: []Stage{EndingRepairs}, enter: (*Pass).expired, steps: []step{{(*Pass).deleteRepair, (*Pass).repairDeleted}}, leave: (*Pass).finishDeletions},
}

// progress is the progress of a stage.
type progress struct {
	open, over bool
	tasks      []task
	// left counts the tasks that are not over.
	left int
}

// task is the progress of one task.
type task struct {
	// step is the index of the next step. Waiting counts the calls of the previous step that have no answer.
	step, waiting int
	// begun is set once the task has had calls.
	begun, over bool
	errs        []error
	// clock is the reading of the clocks after its last call.
	clock ClockReading
}

// end ends a task, after an error or without. None of its steps follows.
func (t *task) end(err error) {
	t.over = true
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

// advance opens each stage that may open, and closes each stage whose tasks are over. A stage waits only for earlier
// stages, so one loop is enough.
func (p *Pass) advance() {
	for s := ReportingBlocked; s <= lastStage; s++ {
		for at := &p.progress[s]; !at.over; {
			if !p.mayOpen(s) {
				break
			}
			if !at.open {
				p.open(s)
			}
			if at.left > 0 {
				break
			}
			p.close(s)
		}
	}
}

func (p *Pass) mayOpen(s Stage) bool {
	return !slices.ContainsFunc(p.stages[s].after, func(before Stage) bool { return !p.progress[before].over })
}

func (p *Pass) open(s Stage) {
	n := p.stages[s].enter(p)
	at := &p.progress[s]
	at.open, at.tasks, at.left = true, make([]task, n), n
	for i := range n {
		if i == 0 || !p.stages[s].oneByOne {
			p.proceed(s, i)
		}
	}
}

func (p *Pass) close(s Stage) {
	at := &p.progress[s]
	var errs []error
	for i := range at.tasks {
		errs = append(errs, at.tasks[i].errs...)
	}
	if len(errs) > 0 {
		p.failures = append(p.failures, errs)
	}
	again := p.stages[s].leave != nil && p.stages[s].leave(p)
	at.open, at.over = false, !again
}

// proceed takes the steps of a task up to the next step that has calls.
func (p *Pass) proceed(s Stage, i int) {
	at, steps := &p.progress[s], p.stages[s].steps
	for ; i < len(at.tasks); i++ {
		t := &at.tasks[i]
		for !t.over && t.waiting == 0 && t.step < len(steps) {
			calls := steps[t.step].calls(p, t, i)
			t.step++
			if !t.over {
				t.waiting = len(calls)
				p.offer(s, i, calls)
			}
		}
		if t.waiting > 0 {
			return
		}
		at.left--
		if !p.stages[s].oneByOne {
			return
		}
	}
}

// failed reports whether a task of a stage that is over has failed.
func (p *Pass) failed(s Stage) bool {
	return slices.ContainsFunc(p.progress[s].tasks, func(t task) bool { return len(t.errs) > 0 })
}
