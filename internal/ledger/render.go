package ledger

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/legible"
)

// render makes the Repair that records an entry, in the namespace of its target.
func render(e core.Entry) *v1alpha1.Repair {
	r := &v1alpha1.Repair{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Target.ID.Namespace, Name: e.Name,
			Labels: map[string]string{v1alpha1.TargetUIDLabel: e.Target.ID.UID},
		},
		Spec: v1alpha1.RepairSpec{
			Target:  v1alpha1.RepairTarget{ObjectReference: reference(e.Target.ID), Node: e.Target.Node.Name},
			Policy:  reference(e.Policy.ID),
			Reason:  e.Verdict.Reason.String(),
			Message: shortened(e.Verdict.Text()),
			Retry:   int32(min(e.Retry, 1<<30)), //nolint:gosec // bounded on the same line
			// Creation times are whole seconds, too coarse for back-off.
			StartedAt: metav1.MicroTime{Time: e.Started},
		},
	}
	if e.Target.Owner != (core.ID{}) {
		owner := reference(e.Target.Owner)
		r.Spec.Owner = &owner
	}
	if y := e.Verdict.Since.UTC().Year(); !e.Verdict.Since.IsZero() && y > 0 && y < 10000 {
		r.Spec.UnhealthySince = &metav1.Time{Time: e.Verdict.Since}
	}
	for _, step := range e.Policy.Ladder {
		r.Spec.Ladder = append(r.Spec.Ladder, v1alpha1.RepairStep{Remedy: step.Remedy})
	}
	return r
}

// mostText bounds a text, which may name a condition of any length: the API server refuses objects that
// are too large, and what can't be recorded is not repaired.
const mostText = 4096

func shortened(text string) string {
	if len(text) <= mostText {
		return text
	}
	return legible.Cut(text, mostText) + "…"
}

func reference(id core.ID) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, UID: id.UID}
}

func identity(r v1alpha1.ObjectReference) core.ID {
	return core.ID{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

var outcomes = map[v1alpha1.RepairPhase]core.Outcome{ //nolint:gochecknoglobals // a constant table
	v1alpha1.RepairSucceeded: core.Succeeded,
	v1alpha1.RepairRecovered: core.Recovered,
	v1alpha1.RepairWithdrawn: core.Withdrawn,
}

// progress makes the status that says how far a repair has come. The text is why it ended, or with
// what its last attempt was refused.
func progress(r core.Repair, text string) v1alpha1.RepairStatus {
	s := v1alpha1.RepairStatus{
		Phase:    v1alpha1.RepairRunning,
		Attempts: int32(min(r.Attempts, 1<<30)), //nolint:gosec // bounded on the same line
	}
	if !r.LastAttempt.IsZero() {
		s.LastAttempt = &metav1.MicroTime{Time: r.LastAttempt}
	}
	if r.Running() {
		s.LastError = shortened(text)
		s.Message = "the remedy was refused and is tried again after a pause"
		return s
	}
	s.Phase = v1alpha1.RepairPhase(r.Outcome.String())
	s.Message = shortened(text)
	s.FinishedAt = &metav1.Time{Time: r.Ended}
	return s
}
