package ledger

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// render returns the Repair of a new repair. It is in the namespace of the target, or in the one given if the
// target has none.
func render(e core.NewRepair, otherwise string) *v1alpha1.Repair {
	r := &v1alpha1.Repair{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(e.Target.ID.Namespace, otherwise), Name: e.Name,
			Labels: map[string]string{annotation.TargetUIDLabel: e.Target.ID.UID},
		},
		Spec: v1alpha1.RepairSpec{
			Target:  v1alpha1.RepairTarget{ObjectReference: reference(e.Target.ID), Node: e.Target.Node.Name},
			Policy:  reference(e.Policy.ID),
			Reason:  e.Verdict.Reason.String(),
			Message: shortened(e.Verdict.Text()),
			Holder:  e.Policy.Holder,
			Retry:   int32(min(e.Retry, 1<<30)), //nolint:gosec // bounded on the same line
			// A creation time is a whole second, which is too coarse for back-off.
			StartedAt: metav1.MicroTime{Time: e.Started},
		},
	}
	if e.Target.Owner != (core.ID{}) {
		owner := reference(e.Target.Owner)
		r.Spec.Owner, r.Spec.OwnerTemplate = &owner, e.Target.OwnerTemplate
	}
	if y := e.Verdict.Since.UTC().Year(); !e.Verdict.Since.IsZero() && y > 0 && y < 10000 {
		r.Spec.UnhealthySince = &metav1.Time{Time: e.Verdict.Since}
	}
	if !e.Requested.IsZero() {
		r.Spec.RequestedAt = &metav1.Time{Time: e.Requested}
	}
	for _, step := range e.Steps {
		r.Spec.Ladder = append(r.Spec.Ladder, renderStep(step))
	}
	return r
}

func renderStep(step core.Step) v1alpha1.RepairStep {
	s := v1alpha1.RepairStep{Remedy: step.Remedy, Nature: natureNames[step.Nature]}
	if step.Template != (core.Reference{}) {
		template := v1alpha1.TemplateReference(step.Template)
		s.Template = &template
	}
	if step.Limit != 0 {
		s.Timeout = &metav1.Duration{Duration: step.Limit}
	}
	return s
}

var natureNames = map[core.Nature]v1alpha1.StepNature{ //nolint:gochecknoglobals // a constant table
	core.Delete:        v1alpha1.StepDelete,
	core.CreateRequest: v1alpha1.StepCreateRequest,
	core.Annotate:      v1alpha1.StepAnnotate,
	core.AskOwner:      v1alpha1.StepAskOwner,
}

// natures are the natures by their names. Repairs of the first versions of Fettle have none. Those of later
// versions have the names in the second part.
var natures = map[v1alpha1.StepNature]core.Nature{ //nolint:gochecknoglobals // a constant table
	"":                         core.Delete,
	v1alpha1.StepDelete:        core.Delete,
	v1alpha1.StepCreateRequest: core.CreateRequest,
	v1alpha1.StepAnnotate:      core.Annotate,
	v1alpha1.StepAskOwner:      core.AskOwner,

	"Destroys":  core.Delete,
	"Requests":  core.CreateRequest,
	"HandsOver": core.Annotate,
	"Delegates": core.AskOwner,
}

var stepOutcomes = map[v1alpha1.StepOutcome]core.StepOutcome{ //nolint:gochecknoglobals // a constant table
	v1alpha1.StepTimedOut: core.TimedOut,
	v1alpha1.StepFailed:   core.Failed,
}

// maxText bounds a text that may name a condition of any length. The API server refuses objects that are too large,
// and a repair that can't be recorded doesn't start.
const maxText = sanitize.MaxMessage

func shortened(text string) string { return sanitize.Line(maxText, text) }

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

// statusOf returns the status for the progress of a repair, with a text about what happened last. Refused is the
// error of a call of the remedy, if the call has just failed.
func statusOf(r core.Repair, text string, refused error) v1alpha1.RepairStatus {
	s := v1alpha1.RepairStatus{
		Phase:       v1alpha1.RepairRunning,
		Message:     shortened(text),
		Step:        int32(min(len(r.Tried), 1<<30)),
		RecoveredAt: microTime(r.Recovered),
		BegunAt:     microTime(r.Begun),
		Answer:      shortened(r.Answer),
		Attempts:    int32(min(r.Attempts, 1<<30)), //nolint:gosec // bounded on the same line
		LastAttempt: microTime(r.LastAttempt),
	}
	for _, record := range r.Tried {
		s.Steps = append(s.Steps, v1alpha1.RepairAttempt{
			Outcome: v1alpha1.StepOutcome(record.Outcome.String()), EndedAt: metav1.MicroTime{Time: record.Ended}, Message: shortened(record.Text),
		})
	}
	for i := range r.Evidence[:min(len(r.Evidence), core.MaxEvidence)] {
		s.Evidence = append(s.Evidence, renderEvidence(&r.Evidence[i]))
	}
	if refused != nil {
		s.LastError = sanitize.Failure(maxText, refused)
	}
	if !r.Running() {
		s.Phase = v1alpha1.RepairPhase(r.Outcome.String())
		s.FinishedAt = &metav1.Time{Time: r.Ended}
	}
	return s
}

func microTime(at time.Time) *metav1.MicroTime {
	if at.IsZero() {
		return nil
	}
	return &metav1.MicroTime{Time: at}
}

// patchedStatus is a status in a merge patch. A null removes a field that has a value in one step and none in the
// next.
type patchedStatus struct {
	v1alpha1.RepairStatus

	Attempts    *int32            `json:"attempts"`
	LastAttempt *metav1.MicroTime `json:"lastAttempt"`
	RecoveredAt *metav1.MicroTime `json:"recoveredAt"`
	BegunAt     *metav1.MicroTime `json:"begunAt"`
	Answer      *string           `json:"answer"`
}

// statusPatch returns the merge patch that writes the progress of a repair. It has the resource version of the
// repair. The API server refuses it if another client has written since: an overtaken record would undo progress.
func statusPatch(r core.Repair, text string, refused error) ([]byte, error) {
	s := statusOf(r, text, refused)
	p := patchedStatus{RepairStatus: s, LastAttempt: s.LastAttempt, RecoveredAt: s.RecoveredAt, BegunAt: s.BegunAt}
	if s.Answer != "" {
		p.Answer = &s.Answer
	}
	if s.Attempts > 0 {
		p.Attempts = &s.Attempts
	}
	body := map[string]any{"status": p}
	if r.Revision != 0 {
		body["metadata"] = map[string]string{"resourceVersion": strconv.FormatUint(r.Revision, 10)}
	}
	return json.Marshal(body) //nolint:wrapcheck // the caller says what is encoded
}
