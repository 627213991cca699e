package fencing

import "time"

// StepKind is what a step does.
type StepKind int

// Kinds of steps.
const (
	// Wait does nothing until Step.Until, or until what is watched changes.
	Wait StepKind = iota + 1
	// Write records Step.Record. Every other step but reads relies on the record that was written last.
	Write
	// ReadNode, ReadPower, CountWorkload, ReadMachine and ReadPromise read what is missing from the facts.
	ReadNode
	ReadPower
	CountWorkload
	ReadMachine
	ReadPromise
	// TaintNode adds Fettle's own taint to the node, and what else stands there for the time of the fencing.
	TaintNode
	// CommandOff and CommandOn command the power.
	CommandOff
	CommandOn
	// LeaveHost takes back what keeps the host off, if anything does, so that the provider of its machine can power it.
	LeaveHost
	// RevokePromise condemns the node, and FreePromise takes that back. Both require that the promise is as it was read.
	RevokePromise
	FreePromise
	// SetOutOfService and RemoveNode release the workload. Both require that the node is as it was read.
	SetOutOfService
	RemoveNode
	// RemoveOutOfService removes the out-of-service taint.
	RemoveOutOfService
	// RestoreNode changes back what was changed on the node, but for Fettle's own taint.
	RestoreNode
	// UntaintNode removes Fettle's own taint.
	UntaintNode
	// RemoveMachine deletes the machine.
	RemoveMachine
	// Finish means that nothing is left to do: a fencing that is being deleted may go.
	Finish
)

// Step is what comes next.
type Step struct {
	Kind StepKind
	// Record is what to write, for Write.
	Record Record
	// Until is when to observe again at the latest, for Wait. Its zero value is never.
	Until time.Time
	// Reason is why to wait, for Wait.
	Reason Reason
}

func do(k StepKind) Step { return Step{Kind: k} }

func write(r Record) Step { return Step{Kind: Write, Record: r} }

// wait returns a step that waits until the first of some instants. Zero instants don't count.
func wait(why Reason, instants ...time.Time) Step {
	s := Step{Kind: Wait, Reason: why}
	for _, t := range instants {
		if !t.IsZero() && (s.Until.IsZero() || t.Before(s.Until)) {
			s.Until = t
		}
	}
	return s
}
