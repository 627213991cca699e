package selffencing

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
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
			Fence: fencednode.Limit(s.FenceTimeout, defaultFence), Release: fencednode.Limit(s.ReleaseTimeout, defaultRelease), Boot: fencednode.Limit(s.BootTimeout, defaultBoot),
		},
	}
	return c
}

// recordOf returns the record of a status.
func recordOf(s *v1alpha1.SelfFenceRemediationStatus) fencing.Record {
	r := fencednode.RecordOf(&s.FencingStatus)
	r.Revoked, r.CommandedAt = s.Condemned, fencednode.Instant(s.CondemnedAt)
	return r
}

// writeRecord writes a record into a status. It leaves the rest of the status alone.
func writeRecord(s *v1alpha1.SelfFenceRemediationStatus, node string, r fencing.Record) {
	fencednode.WriteRecord(&s.FencingStatus, node, r)
	s.Condemned, s.CondemnedAt = r.Revoked, fencednode.MicroTime(r.CommandedAt)
}

// known reports whether a phase is one of a fencing by promise.
func known(p string) bool {
	phases := []fencing.Phase{
		"", fencing.Preparing, fencing.Condemning, fencing.Releasing, fencing.Booting, fencing.Restoring, fencing.Aborting,
		fencing.Succeeded, fencing.Failed, fencing.Aborted,
	}
	return slices.Contains(phases, fencing.Phase(p))
}
