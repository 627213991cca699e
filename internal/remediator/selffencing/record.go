package selffencing

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// The limits of a remediation whose spec lacks them. The definition of the kind sets the same defaults.
const (
	defaultFence   = 5 * time.Minute
	defaultRelease = 10 * time.Minute
	defaultBoot    = 15 * time.Minute
)

// configOf returns how a node is fenced.
func configOf(s *v1alpha1.SelfFenceRemediationSpec) fencing.Config {
	c := fencing.Config{
		ByPromise: true, DeleteNode: s.Release == v1alpha1.DeleteNodeRelease,
		Limits: fencing.Limits{
			Fence: limit(s.FenceTimeout, defaultFence), Release: limit(s.ReleaseTimeout, defaultRelease), Boot: limit(s.BootTimeout, defaultBoot),
		},
	}
	return c
}

func limit(given *metav1.Duration, usual time.Duration) time.Duration {
	if given == nil || given.Duration <= 0 {
		return usual
	}
	return given.Duration
}

// recordOf returns the record of a status.
func recordOf(s *v1alpha1.SelfFenceRemediationStatus) fencing.Record {
	r := fencing.Record{
		Phase: fencing.Phase(s.Phase), Attempt: int(s.Attempt), Void: int(s.VoidProofs), Revoked: s.Condemned,
		Released: s.WorkloadReleased, DeletedNode: s.NodeDeletion, Reason: fencing.Reason(s.Reason),
	}
	r.Since, r.CommandedAt, r.ReleasedAt, r.BackAt = instant(s.PhaseSince), instant(s.CondemnedAt), instant(s.ReleasedAt), instant(s.BackAt)
	if n := s.Node; n != nil {
		r.NodeUID, r.BootID, r.BackBootID, r.ForeignOutOfService = n.UID, n.BootID, n.BackBootID, n.OutOfService
	}
	if p := s.Proof; p != nil {
		r.Proof = fencing.Proof{Kind: fencing.ProofKind(p.Kind), At: p.At.Time, BootID: p.BootID}
	}
	return r
}

// writeRecord writes a record into a status. It leaves the rest of the status alone.
func writeRecord(s *v1alpha1.SelfFenceRemediationStatus, node string, r fencing.Record) {
	s.Phase, s.PhaseSince, s.Reason = string(r.Phase), microTime(r.Since), string(r.Reason)
	s.Attempt, s.VoidProofs = int32(min(r.Attempt, 100)), int32(min(r.Void, 1<<30)) //nolint:gosec // bounded on the same line
	s.WorkloadReleased, s.NodeDeletion, s.Condemned = r.Released, r.DeletedNode, r.Revoked
	if s.Node == nil {
		s.Node = &v1alpha1.FencedNode{}
	}
	s.Node.Name, s.Node.UID, s.Node.OutOfService = node, r.NodeUID, r.ForeignOutOfService
	s.Node.BootID, s.Node.BackBootID = r.BootID, r.BackBootID
	s.CondemnedAt, s.ReleasedAt, s.BackAt = microTime(r.CommandedAt), microTime(r.ReleasedAt), microTime(r.BackAt)
	s.Proof = nil
	if r.Proof.Kind != "" {
		s.Proof = &v1alpha1.FencingProof{Kind: string(r.Proof.Kind), At: metav1.NewMicroTime(r.Proof.At.UTC()), BootID: r.Proof.BootID}
	}
}

// microTime returns an instant as a status has it. The zero instant is missing.
func microTime(at time.Time) *metav1.MicroTime {
	if at.IsZero() {
		return nil
	}
	written := metav1.NewMicroTime(at.UTC().Truncate(time.Microsecond))
	return &written
}

// instant returns the instant of a status, and the zero instant if it is missing.
func instant(written *metav1.MicroTime) time.Time {
	if written == nil {
		return time.Time{}
	}
	return written.Time
}

// known reports whether a phase is one of a fencing by promise.
func known(p string) bool {
	phases := []fencing.Phase{
		"", fencing.Preparing, fencing.Condemning, fencing.Releasing, fencing.Booting, fencing.Restoring, fencing.Aborting,
		fencing.Succeeded, fencing.Failed, fencing.Aborted,
	}
	return slices.Contains(phases, fencing.Phase(p))
}

// condition has the fields of one condition.
type condition struct {
	kind            string
	status          metav1.ConditionStatus
	reason, message string
}

// setConditions sets conditions of a status, and reports whether one has changed.
func setConditions(s *v1alpha1.SelfFenceRemediationStatus, now time.Time, conditions ...condition) bool {
	changed := false
	for _, c := range conditions {
		changed = meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: c.kind, Status: c.status, Reason: c.reason, Message: sanitize.Line(sanitize.MaxMessage, c.message),
			LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
		}) || changed
	}
	return changed
}
