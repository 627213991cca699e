package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Repair is one repair in the ledger: a target that is, or was, being repaired.
type Repair struct {
	Namespace, Name string
	// UID is the UID of the Repair object; empty where it is not known.
	UID    string
	Target ID
	// Holder is the name under which the lease of the node is held; empty when none is.
	Holder string
	// Node is the name that the target's node had when the repair was recorded; empty when it had none.
	Node string
	// Policy leads the repair.
	Policy ID
	// Owner was the owner of the target. Targets of one owner back off together.
	Owner ID
	// OwnerTemplate is that of the target when the repair started; empty when it was not known.
	OwnerTemplate string
	// Retry counts the replacements that failed in a row before this one; 0 for a first repair.
	Retry   int
	Started time.Time
	// Requested is when a user requested the repair, by the user's clock; zero when none did.
	Requested time.Time
	// Sequence orders repairs as the ledger took them. It is 0, before all others, where that is not known any more.
	Sequence uint64
	// Revision is the version of the Repair object that this is read from, or written as. A later version has a greater
	// one. It is 0 where that is not known.
	Revision uint64
	// RecordedElsewhere is set when the step under way was not recorded by this process.
	RecordedElsewhere bool
	// StepSeen is the number of the latest step whose request this process has seen, from 1 on; 0 for none.
	StepSeen int
	// Steps are the steps of the repair as they were when it was recorded.
	Steps []Step
	// Tried has the steps that were taken to no avail, in order. The next step is under way.
	Tried []StepRecord
	// Recovered is when the target was seen to be healthy again; zero while it isn't.
	Recovered time.Time
	StepState
	// Ended is zero while the repair runs.
	Ended time.Time
	// Misdated reports that the end lay over an hour in the future when it was first seen, so that back-off does not count it.
	Misdated bool
	Outcome  Outcome
	// CreatedSameSecond are the UIDs of the targets that were made in the second in which the repair
	// started, but before it. Creation times are whole seconds and don't tell them from its
	// replacement. Losing them may delay a repair, never hasten it.
	CreatedSameSecond []string
	// Evidence is how the target's node was fenced, the oldest first. Only users read it.
	Evidence []Evidence
	// EvidenceUnrecorded is set when Evidence has a proof that the record lacks.
	EvidenceUnrecorded bool
	// Written are the instants as the record has them, where any lies in the future and counts from when it was first seen.
	Written WrittenTimes
}

// StepState is what the ledger records of the step under way. A step that has just become due has the zero StepState.
type StepState struct {
	// Begun is when the target was handed over, for a step of that nature.
	Begun time.Time
	// Answer is the last answer to the request of the step, or for how long there was none, where that is noted.
	Answer string
	// Attempts counts the calls of the remedy that were refused, the last one at LastAttempt.
	Attempts    int
	LastAttempt time.Time
}

// GiveUpStep records that the step under way was given up, so that the next one is due.
func (r *Repair) GiveUpStep(record StepRecord) {
	r.Tried = append(slices.Clip(r.Tried), record)
	r.StepState = StepState{}
}

// StepRecord is a step that was taken to no avail.
type StepRecord struct {
	Ended   time.Time
	Outcome StepOutcome
	// Text says why in a sentence, for users.
	Text string
}

// StepOutcome is why a step was given up.
type StepOutcome int8

// The outcomes of a step.
const (
	// TimedOut: its time was over and the target was not healthy.
	TimedOut StepOutcome = iota + 1
	// Failed: the remediator said that it can't repair the target.
	Failed
)

// String names the outcome.
func (o StepOutcome) String() string {
	switch o {
	case TimedOut:
		return "TimedOut"
	case Failed:
		return "Failed"
	}
	return "None"
}

// step returns the step under way, and false when no step is left.
func (r *Repair) step() (*Step, bool) {
	if at := len(r.Tried); at < len(r.Steps) {
		return &r.Steps[at], true
	}
	return nil, false
}

// stepAfter returns the step after the step under way, and false if there is none.
func (r *Repair) stepAfter() (*Step, bool) {
	if at := len(r.Tried) + 1; at < len(r.Steps) {
		return &r.Steps[at], true
	}
	return nil, false
}

// StepBegan returns when the step under way was due: when the step before it was given up, or the repair started.
func (r *Repair) StepBegan() time.Time {
	if n := len(r.Tried); n > 0 {
		return r.Tried[n-1].Ended
	}
	return r.Started
}

// GaveUp returns when the step of a request was given up. It is zero for a step that wasn't, and for a request that the
// repair has not made.
func (r *Repair) GaveUp(q *Request) time.Time {
	if at := q.stepIn(r.Steps); r.made(q) && at < len(r.Tried) { // what the repair has made is for a step of it
		return r.Tried[at].Ended
	}
	return time.Time{}
}

// lasted reports whether the repair did something and left its target in place, to be judged again.
func (r *Repair) lasted() bool {
	return (r.Outcome == Succeeded || r.failed()) && !r.Running() && len(r.Steps) > 0 && !r.Steps[0].Nature.Effect().Deletes
}

// failed reports whether all steps of the repair were tried to no avail.
func (r *Repair) failed() bool { return len(r.Steps) > 0 && len(r.Tried) >= len(r.Steps) }

// StepEnds returns when a step with a limit is given up. Its remediator has the time from the creation of its request,
// which may be long after the step was due. A gate was closed then, or a user had deleted an earlier request.
func (r *Repair) StepEnds(step *Step, request *Request) time.Time {
	began := r.StepBegan()
	if request.Created.After(began) {
		began = request.Created
	}
	return began.Add(step.Limit)
}

// EndAt returns when a repair ended that is said to have ended at another instant. It is not before its start, its last
// step or the recovery of its target. Those are known, and the clock that dated the end may have been behind. An end is
// in whole seconds.
func (r *Repair) EndAt(recorded time.Time) time.Time {
	known := latest(latest(r.Started, r.StepBegan()), r.Recovered)
	return latest(recorded, known.Truncate(time.Second))
}

// UnansweredUntil returns until when a remedy may have done something that no cache shows; zero for never. Its last call
// may have failed, and the API server may have granted it all the same. Another process may have called the remedy of the
// step under way. A step that makes a request counts until its request is seen, also if this process recorded it. Of other
// steps only those count that another process recorded, since this process knows what became of its own. The calls of a
// step that was given up are not counted any more, so that it counts until its request is seen.
func (r *Repair) UnansweredUntil() time.Time {
	var until time.Time
	if r.Attempts > 0 {
		until = r.LastAttempt.Add(expectationLimit)
	}
	if r.MayBeTakenElsewhere() {
		until = latest(until, r.StepBegan().Add(expectationLimit))
	}
	for i := range r.Tried {
		if i >= r.StepSeen {
			until = latest(until, r.Tried[i].Ended.Add(expectationLimit))
		}
	}
	return until
}

// MayBeTakenElsewhere reports whether another process may have taken the step under way, while no cache has shown that.
func (r *Repair) MayBeTakenElsewhere() bool {
	step, more := r.step()
	requests := more && step.Nature.Effect().CreatesRequest
	return (r.RecordedElsewhere || requests) && r.StepSeen <= len(r.Tried)
}

// KeepsLeaseUntil returns until when the lease of its node stays, zero for no longer. It stays while the remedy may have
// done something that no cache shows. Another process that takes the step long after it was due renews the lease first.
func (r *Repair) KeepsLeaseUntil(renewed time.Time) time.Time {
	until := r.UnansweredUntil()
	if !renewed.IsZero() && r.MayBeTakenElsewhere() {
		until = latest(until, renewed.Add(expectationLimit))
	}
	return until
}

// Running reports whether the repair has not ended.
func (r *Repair) Running() bool { return r.Ended.IsZero() }

// Outcome is how a repair ended.
type Outcome int

// The outcomes.
const (
	// Succeeded: the remedy did its work.
	Succeeded Outcome = iota + 1
	// Recovered: the target became healthy before its remedy had begun.
	Recovered
	// Withdrawn: no policy requires the repair any more. Its requests were withdrawn, or are left alone.
	Withdrawn
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "Succeeded"
	case Recovered:
		return "Recovered"
	case Withdrawn:
		return "Withdrawn"
	}
	return "Running"
}

// maxNameStem leaves room for the two suffixes within the 253 characters of an object's name.
const maxNameStem = 253 - 1 - 8 - 1 - 10

// RepairName returns the name of the number-th repair of a target. All leaders compute the same name, so that the API
// server lets only one of them create it (I2).
func RepairName(target ID, number int) string {
	sum := sha256.Sum256([]byte(target.Kind + "\x00" + target.Namespace + "\x00" + target.Name + "\x00" + target.UID))
	stem := strings.TrimRight(target.Name[:min(len(target.Name), maxNameStem)], "-.") // no name of an object ends with these
	return stem + "-" + hex.EncodeToString(sum[:4]) + "-" + strconv.Itoa(number)
}

// IsRepairName reports whether a name is that of a repair of the target.
func IsRepairName(name string, target ID) bool {
	number := numberIn(name)
	return number > 0 && RepairName(target, number) == name
}

// NextRepairName returns the name of the repair that comes after the repair of this name.
func NextRepairName(name string, target ID) string { return RepairName(target, numberIn(name)+1) }

// maxNumber bounds the numbers that are taken for ours, so that there is always a next one.
const maxNumber = 1 << 30

// number returns the number in a repair's name, or 0 if the name is not one of Fettle's.
func (r *Repair) number() int { return numberIn(r.Name) }

func numberIn(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:]) // 0 where there is no number, and a large one where it is too large
	if n > maxNumber {
		return 0
	}
	return max(0, n)
}

// made reports whether the repair made a request about its target.
func (r *Repair) made(q *Request) bool {
	if q.Policy != (ID{}) && !q.RequestedBy(&r.Policy) {
		return false
	}
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return q.isFor(&s) })
}

// needsWithdrawal reports whether a step of the repair makes requests that Fettle has to withdraw.
func (r *Repair) needsWithdrawal() bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Nature.Effect().NeedsWithdrawal })
}

// endedBefore orders repairs by their end. At the same instant the repair with more retries comes
// last.
func (r *Repair) endedBefore(other *Repair) bool {
	return cmp.Or(r.Ended.Compare(other.Ended), cmp.Compare(r.Retry, other.Retry)) < 0
}
