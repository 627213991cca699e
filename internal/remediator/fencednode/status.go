package fencednode

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// RecordOf returns the record of a status. The caller adds what only its kind of remediation has.
func RecordOf(s *v1alpha1.FencingStatus) fencing.Record {
	r := fencing.Record{
		Phase: fencing.Phase(s.Phase), Since: Instant(s.PhaseSince), Attempt: int(s.Attempt), Void: int(s.VoidProofs),
		Released: s.WorkloadReleased, ReleasedBefore: s.ReleasedBefore, DeletedNode: s.NodeDeletion, Reason: fencing.Reason(s.Reason),
	}
	r.ReleasedAt, r.BackAt = Instant(s.ReleasedAt), Instant(s.BackAt)
	if n := s.Node; n != nil {
		r.NodeUID, r.BootID, r.OffBootID, r.BackBootID, r.ForeignOutOfService = n.UID, n.BootID, n.OffBootID, n.BackBootID, n.OutOfService
	}
	if p := s.Proof; p != nil {
		r.Proof = fencing.Proof{Kind: fencing.ProofKind(p.Kind), At: p.At.Time, BootID: p.BootID}
	}
	return r
}

// WriteRecord writes a record into a status. It leaves the rest of the status alone.
func WriteRecord(s *v1alpha1.FencingStatus, node string, r fencing.Record) {
	since := metav1.NewMicroTime(r.Since.UTC().Truncate(time.Microsecond))
	s.Phase, s.PhaseSince, s.Reason = string(r.Phase), &since, string(r.Reason)
	s.Attempt, s.VoidProofs = int32(min(r.Attempt, 100)), int32(min(r.Void, 1<<30)) //nolint:gosec // bounded on the same line
	s.WorkloadReleased, s.ReleasedBefore, s.NodeDeletion = r.Released, r.ReleasedBefore, r.DeletedNode
	if s.Node == nil {
		s.Node = &v1alpha1.FencedNode{}
	}
	s.Node.Name, s.Node.UID, s.Node.OutOfService = node, r.NodeUID, r.ForeignOutOfService
	s.Node.BootID, s.Node.OffBootID, s.Node.BackBootID = r.BootID, r.OffBootID, r.BackBootID
	s.ReleasedAt, s.BackAt = MicroTime(r.ReleasedAt), MicroTime(r.BackAt)
	s.Proof = nil
	if r.Proof.Kind != "" {
		s.Proof = &v1alpha1.FencingProof{Kind: string(r.Proof.Kind), At: metav1.NewMicroTime(r.Proof.At.UTC()), BootID: r.Proof.BootID}
	}
}

// Underway reports whether a fencing has begun and not ended.
func Underway(s *v1alpha1.FencingStatus) bool {
	return s.Phase != "" && !fencing.Phase(s.Phase).Final()
}

// HasWaited reports whether a fencing has waited for a reason.
func HasWaited(s *v1alpha1.FencingStatus, reason string) bool {
	said := meta.FindStatusCondition(s.Conditions, v1alpha1.ProcessingCondition)
	return said != nil && said.Reason == reason
}

// ReadyMeanwhile returns a problem if a fencing has waited for one of some reasons, and its node, which may be nil, has become Ready since. The
// clause says what happened while it waited.
func ReadyMeanwhile(s *v1alpha1.FencingStatus, n *corev1.Node, clause string, reasons ...string) Problem {
	if n == nil || !IsReady(n) || !slices.ContainsFunc(reasons, func(reason string) bool { return HasWaited(s, reason) }) {
		return Problem{}
	}
	return Problem{Reason: v1alpha1.CannotStartFencedMeanwhileReason, Message: "node " + n.Name + " has become Ready while " + clause + ", so nothing is left to do"}
}

// SavedOf returns what a fencing has saved of a node that it has deleted, or nil.
func SavedOf(s *v1alpha1.FencingStatus) *v1alpha1.SavedNode {
	if s.Node == nil {
		return nil
	}
	return s.Node.Saved
}

// KeepSaved stores what a node had before it is deleted by the fencing with a UID. It drops that after the end, once the node has it again. Raw is
// the node as it was read last, or nil, and n are its facts. While the node stands, it may change: a proof may be void, and be found again later.
func KeepSaved(s *v1alpha1.FencingStatus, by types.UID, record fencing.Record, raw *corev1.Node, n *fencing.Node) {
	if record.Released && record.DeletedNode && raw != nil && (s.Node.Saved == nil || s.Node.Saved.UID == string(raw.UID)) {
		s.Node.Saved = Saved(by, raw)
	}
	if record.Phase.Final() && IsRestored(s.Node.Saved, n) {
		s.Node.Saved = nil // what others remove from now on stays removed
	}
}

// IsRestored reports whether a node that was deleted has registered again and has all that was saved of it.
func IsRestored(saved *v1alpha1.SavedNode, n *fencing.Node) bool {
	return saved != nil && n != nil && n.Exists && !n.Changed && saved.UID != n.UID
}

// NotReleased returns a clause for the end of a message about a node that was proven to have stopped and whose workload was not released. It
// says what a user can do. It is empty where the workload was released, where others had released it before, and where there was no node.
func NotReleased(s *v1alpha1.FencingStatus) string {
	if s.Proof == nil || s.WorkloadReleased || s.Node == nil || s.Node.UID == "" || s.Node.OutOfService {
		return ""
	}
	return "; Fettle has not released its workload: see to it that the host is off, and set the taint " + corev1.TaintNodeOutOfService + " by hand while anything is left on the node"
}

// MicroTime returns an instant as a status has it. The zero instant is missing.
func MicroTime(at time.Time) *metav1.MicroTime {
	if at.IsZero() {
		return nil
	}
	written := metav1.NewMicroTime(at.UTC().Truncate(time.Microsecond))
	return &written
}

// Instant returns the instant of a status, and the zero instant if it is missing.
func Instant(written *metav1.MicroTime) time.Time {
	if written == nil {
		return time.Time{}
	}
	return written.Time
}

// Limit returns a limit of a spec, or the usual one where the spec lacks it.
func Limit(given *metav1.Duration, usual time.Duration) time.Duration {
	if given == nil || given.Duration <= 0 {
		return usual
	}
	return given.Duration
}

// Condition has the fields of one condition.
type Condition struct {
	Kind            string
	Status          metav1.ConditionStatus
	Reason, Message string
}

// NewCondition returns a condition of a remediation.
func NewCondition(kind string, status metav1.ConditionStatus, reason, message string) Condition {
	return Condition{Kind: kind, Status: status, Reason: reason, Message: message}
}

// SetConditions sets conditions of a status, and reports whether one has changed.
func SetConditions(s *v1alpha1.FencingStatus, now time.Time, conditions ...Condition) bool {
	changed := false
	for _, c := range conditions {
		changed = meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: c.Kind, Status: c.Status, Reason: c.Reason, Message: sanitize.Line(sanitize.MaxMessage, c.Message),
			LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
		}) || changed
	}
	return changed
}

// reappears says that the node comes back under its name.
const reappears = "the host comes back as a node of the same name"

// ProgressConditions returns the conditions of a phase that is no end.
func ProgressConditions(s *v1alpha1.FencingStatus, message string) []Condition {
	return []Condition{
		NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, s.Phase, message),
		NewCondition(v1alpha1.SucceededCondition, metav1.ConditionUnknown, s.Phase, "it is not known yet whether node "+s.Node.Name+" comes back"),
		NewCondition(v1alpha1.PermanentNodeDeletionExpectedCondition, metav1.ConditionFalse, v1alpha1.HostIsReusedReason, reappears),
	}
}

// EndConditions returns the conditions of a remediation that has ended.
func EndConditions(succeeded metav1.ConditionStatus, reason, message string) []Condition {
	return []Condition{
		NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionFalse, reason, message),
		NewCondition(v1alpha1.SucceededCondition, succeeded, reason, message),
		NewCondition(v1alpha1.PermanentNodeDeletionExpectedCondition, metav1.ConditionFalse, v1alpha1.HostIsReusedReason, reappears),
	}
}

// RefusalConditions returns the conditions of a remediation that ends before it has done anything.
func RefusalConditions(reason, message string) []Condition {
	return []Condition{
		NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionFalse, reason, message),
		NewCondition(v1alpha1.SucceededCondition, metav1.ConditionFalse, reason, message),
		NewCondition(v1alpha1.PermanentNodeDeletionExpectedCondition, metav1.ConditionFalse, v1alpha1.HostIsReusedReason, message),
	}
}
