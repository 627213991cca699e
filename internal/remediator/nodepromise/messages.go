package nodepromise

import (
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// WaitMessage says what a fencing waits for whose step is about the promise of a node, until when, and why. It is empty for other steps.
func (p *Promise) WaitMessage(step fencing.Step) string {
	text := waitsFor(p.Node, step.Reason)
	switch step.Reason { //nolint:exhaustive // the others need nothing more
	case fencing.PromiseNotRead:
		return text + " " + WhyFailed(p.Failure)
	case fencing.WitnessesNotAcknowledged:
		return text + missingWitnesses(p.Unread)
	case fencing.PromiseStands:
		return text + whenExpired(p.Facts.Expires, step.Until)
	}
	return text
}

// missingWitnesses names the witnesses that have not acknowledged, to append to a message.
func missingWitnesses(unread []string) string {
	return "; missing: " + strings.Join(unread, ", ") + "; see annotation fettle.io/witnessed of their Leases, and their agents"
}

// whenExpired says when a promise has expired, to append to a message. A remediation waits no longer than until its limit, if that comes first.
func whenExpired(expires, until time.Time) string {
	text := ", and the node has reset itself at " + expires.UTC().Format(time.RFC3339) + " at the latest"
	if until.Before(expires) {
		text += "; spec.fenceTimeout is over before that, at " + until.UTC().Format(time.RFC3339) + ": raise it"
	}
	return text
}

func waitsFor(node string, why fencing.Reason) string {
	switch why { //nolint:exhaustive // the others are not about promises
	case fencing.PromiseNotRead:
		return "the Lease of node " + node + " could not be read or written"
	case fencing.PromiseStands:
		return "the promise of node " + node + " is revoked"
	case fencing.PromiseNotTimed:
		return "the promise of node " + node + " is revoked, and no time proves that the node has reset itself; a new boot ID of the node will"
	case fencing.WitnessesNotAcknowledged:
		return "the promise of node " + node + " is revoked, and too few of the witnesses that it names have acknowledged that they have read this"
	case fencing.PromiseOfOther:
		return "another remediation has revoked the promise of node " + node
	case fencing.PromiseOfOtherBoot:
		return "the promise of node " + node + " is about another boot than the node shows, so the node has booted and its kubelet has not reported yet"
	case fencing.NothingPromised:
		return "node " + node + " promises nothing now; only another boot ID proves that it has stopped"
	}
	return ""
}

// WhyFailed returns why the API server failed a call, to append to a message.
func WhyFailed(err error) string { return fencednode.WhyFailed(err, "config/selffence") }
