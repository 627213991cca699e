package core

import (
	"fmt"
	"time"
)

// EndReason is why a request is withdrawn, a step is given up or a repair ends. Decisions depend on
// reasons. Their texts are for users only.
type EndReason string

// The reasons for which requests are withdrawn and repairs end.
const (
	// TargetHealthy: no repair runs, and the target is healthy.
	TargetHealthy EndReason = "TargetHealthy"
	// TargetRecovered: the target of a running repair is healthy again.
	TargetRecovered EndReason = "TargetRecovered"
	// NothingDone: the target is no longer unhealthy, and its remedy leaves no request that could have been withdrawn before.
	NothingDone EndReason = "NothingDone"
	// NothingRequested: the target is no longer unhealthy, and no request about it exists.
	NothingRequested EndReason = "NothingRequested"
	// RequestsWithdrawn: the target was healthy, its requests were withdrawn, and it has failed again since.
	RequestsWithdrawn EndReason = "RequestsWithdrawn"
	// RecoveredAfterFailure: all steps of the repair failed, and the target is healthy again.
	RecoveredAfterFailure EndReason = "RecoveredAfterFailure"
	// ExternalRemediationEnded: the outside remediator for which the target was marked has
	// finished.
	ExternalRemediationEnded EndReason = "ExternalRemediationEnded"

	// TargetGone: the target does not exist, or no health check selects it.
	TargetGone EndReason = "TargetGone"
	// OwnerReplaces: the target is gone after a step by which its owner replaces it.
	OwnerReplaces EndReason = "OwnerReplaces"
	// TargetReplaced: the target is gone, and its remediator has had it replaced.
	TargetReplaced EndReason = "TargetReplaced"
	// RemediatorSucceeded: the target is gone, and its remediator reports success.
	RemediatorSucceeded EndReason = "RemediatorSucceeded"

	// OlderRepairOfNode: an older repair of another target with the same node runs.
	OlderRepairOfNode EndReason = "OlderRepairOfNode"
	// OlderRepairOfTarget: an older repair of the target runs.
	OlderRepairOfTarget EndReason = "OlderRepairOfTarget"
	// HandsOff: the requests about the target must not be touched.
	HandsOff EndReason = "HandsOff"
	// NotSelected: the health check that leads a repair does not select the target, or does not exist. The remedy has done nothing.
	NotSelected EndReason = "NotSelected"
	// NotSelectedAnymore is NotSelected for a repair whose remedy has done something.
	NotSelectedAnymore EndReason = "NotSelectedAnymore"
	// RequesterGone: the health check that a request is made for does not select the target, or does not exist.
	RequesterGone EndReason = "RequesterGone"

	// FailedForGood: the target reports that it can't recover, and its health check has other steps for that.
	FailedForGood EndReason = "FailedForGood"
	// NotHandedBack: the next step marks the target for its owner, and no remediator has given the target up.
	NotHandedBack EndReason = "NotHandedBack"
	// StepsChanged: the health check does not have the steps of the repair.
	StepsChanged EndReason = "StepsChanged"
	// LastStepFailed: the remediator of the last step failed, and its request is gone.
	LastStepFailed EndReason = "LastStepFailed"
)

// The reasons for which steps are given up.
const (
	// StepTimedOut: the target was not healthy within the time of the step.
	StepTimedOut EndReason = "StepTimedOut"
	// StepNotBegun: the step could not begin within its time.
	StepNotBegun EndReason = "StepNotBegun"
	// RemediatorFailed: the remediator reports that it failed.
	RemediatorFailed EndReason = "RemediatorFailed"
	// RemediatorGaveUp: the remediator has given the target up, and requests that its owner replaces it.
	RemediatorGaveUp EndReason = "RemediatorGaveUp"
)

// NoteReason is what a [Note] is about.
type NoteReason string

// The reasons for notes.
const (
	// NotedRecovery: the target is healthy again.
	NotedRecovery NoteReason = "NotedRecovery"
	// NotedRelapse: the target, which was healthy again, is not.
	NotedRelapse NoteReason = "NotedRelapse"
	// NotedAnswer: there is an answer to the request of the step under way, or there is none for long.
	NotedAnswer NoteReason = "NotedAnswer"
	// NotedNoAnswer: there is no answer any more.
	NotedNoAnswer NoteReason = "NotedNoAnswer"
	// NotedProof: the node is proven to have stopped.
	NotedProof NoteReason = "NotedProof"
)

// Reason returns what the note is about, compared with what the repair has recorded.
func (n *Note) Reason(before *Repair) NoteReason {
	switch {
	case !n.Recovered.IsZero() && before.Recovered.IsZero():
		return NotedRecovery
	case n.Recovered.IsZero() && !before.Recovered.IsZero():
		return NotedRelapse
	case n.Answer == before.Answer && before.EvidenceUnrecorded: // a text of texts
		return NotedProof
	case n.Answer != "":
		return NotedAnswer
	}
	return NotedNoAnswer
}

// Text returns the note as a clause.
func (n *Note) Text(before *Repair) string {
	switch n.Reason(before) {
	case NotedRecovery:
		return "the target is healthy again; its requests are withdrawn when that has lasted, or when a user confirms it"
	case NotedRelapse:
		return "the target is not healthy after all; its repair goes on"
	case NotedAnswer:
		return n.Answer
	case NotedProof:
		return "the node is proven to have stopped, by " + before.lastMethod()
	case NotedNoAnswer:
	}
	return "the request has no answer yet"
}

// ending is a reason with the values that its text names.
type ending struct {
	reason EndReason
	// limit is the time limit of the step that is given up. steps counts the steps of the repair
	// that ends.
	limit time.Duration
	steps int
}

// because returns an ending whose text names no value.
func because(reason EndReason) ending { return ending{reason: reason} }

// healthy reports whether the reason is that the target is healthy.
func (r EndReason) healthy() bool { return r == TargetHealthy || r == TargetRecovered }

// text returns the ending as a clause.
func (e ending) text() string {
	switch e.reason { //nolint:exhaustive // the others name nothing
	case StepTimedOut:
		return fmt.Sprintf("the target was not healthy within the step's time of %s", e.limit)
	case StepNotBegun:
		return fmt.Sprintf("the step could not begin within its time of %s", e.limit)
	case RecoveredAfterFailure:
		if e.steps == 1 {
			return "the only step was tried to no avail, and the target is healthy again by other means"
		}
		return fmt.Sprintf("all %d steps were tried to no avail, and the target is healthy again by other means", e.steps)
	case NotSelectedAnymore:
		return because(NotSelected).text() + "; its remediation requests are withdrawn where that is possible"
	}
	for i := range endTexts {
		if endTexts[i].reason == e.reason {
			return endTexts[i].text
		}
	}
	return string(e.reason)
}

var endTexts = [...]struct {
	reason EndReason
	text   string
}{
	{TargetHealthy, "the target is healthy"},
	{TargetRecovered, "the target is healthy again"},
	{NothingDone, "the target is no longer unhealthy; nothing was done to it"},
	{NothingRequested, "the target is no longer unhealthy, and no remediation request about it exists"},
	{RequestsWithdrawn, "the target was healthy again, and its remediation requests are withdrawn"},
	{ExternalRemediationEnded, "the outside remediator of the target has finished"},
	{TargetGone, "its target is gone, or no health check selects it any more"},
	{OwnerReplaces, "the target is gone; its owner replaces it"},
	{TargetReplaced, "the target is gone, and its remediator has had it replaced"},
	{RemediatorSucceeded, "the target is gone, and its remediator says that it succeeded"},
	{OlderRepairOfNode, "an older repair of the same node is running"},
	{OlderRepairOfTarget, "an older repair of the same target is running"},
	{HandsOff, "health checking skips the target, or its health check is a dry run; its remediation requests stay as they are"},
	{NotSelected, "the health check that leads the repair no longer selects the target, or no longer exists"},
	{RequesterGone, "the health check that made the request no longer selects the target, or no longer exists"},
	{FailedForGood, "the target now reports that it can't recover, and is repaired in another way"},
	{NotHandedBack, "no remediator has given the target up since the repair began; it is repaired anew"},
	{StepsChanged, "its steps are not those of the health check; the target is repaired anew by the steps that the health check has now"},
	{LastStepFailed, "the remediator of its last step failed, and its request is gone; the target is repaired anew"},
	{RemediatorFailed, "the remediator says that it failed"},
	{RemediatorGaveUp, "the remediator has given the target up, and requests its replacement by the owner"},
}
