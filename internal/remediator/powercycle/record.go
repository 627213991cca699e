package powercycle

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// The limits of a remediation whose spec lacks them. The definition of the kind sets the same defaults.
const (
	defaultPowerOff = 2 * time.Minute
	defaultRelease  = 10 * time.Minute
	defaultPowerOn  = 2 * time.Minute
	defaultBoot     = 15 * time.Minute
	defaultMachine  = time.Hour
	defaultFence    = 5 * time.Minute
	defaultRetries  = 1
)

// configOf returns how a node is fenced.
func configOf(s *v1alpha1.PowerRemediationSpec) fencing.Config {
	c := fencing.Config{
		Off: s.Strategy == v1alpha1.OffStrategy, DeleteNode: s.Release == v1alpha1.DeleteNodeRelease,
		DeleteMachine: s.OnFailure == v1alpha1.DeleteMachineAction, Retries: defaultRetries,
		Limits: fencing.Limits{
			PowerOff: fencednode.Limit(s.PowerOffTimeout, defaultPowerOff), Release: fencednode.Limit(s.ReleaseTimeout, defaultRelease),
			PowerOn: fencednode.Limit(s.PowerOnTimeout, defaultPowerOn), Boot: fencednode.Limit(s.BootTimeout, defaultBoot),
			MachineDeletion: fencednode.Limit(s.MachineDeletionTimeout, defaultMachine),
			Fence:           fencednode.Limit(s.FenceTimeout, defaultFence),
		},
	}
	if s.Retries != nil {
		c.Retries = int(*s.Retries)
	}
	return c
}

// recordOf returns the record of a status.
func recordOf(s *v1alpha1.PowerRemediationStatus) fencing.Record {
	r := fencednode.RecordOf(&s.FencingStatus)
	r.MachineDeletion, r.PoweredOff, r.CommandedAt = s.MachineDeletion, s.PoweredOff, fencednode.Instant(s.CommandedAt)
	r.Both, r.Revoked = s.RequiredProof == v1alpha1.PowerAndPromise, s.Condemned
	return r
}

// recoverRecord returns the record of an attempt whose status does not say what it needs. An older version of Fettle has written it, or the API server has
// dropped the field. It needs what the configuration says now, since a proof by the power alone may not be enough.
func recoverRecord(s *v1alpha1.PowerRemediationStatus, r fencing.Record, c fencing.Config) fencing.Record {
	if s.Phase != "" && s.RequiredProof == "" {
		r.Both = r.Both || c.Both
	}
	return r
}

// isKept reports whether a status has what a record says of both proofs. An API server with an older definition of the kind drops that.
func isKept(s *v1alpha1.PowerRemediationStatus, r fencing.Record) bool {
	kept := recordOf(s)
	return kept.Both == r.Both && kept.Revoked == r.Revoked
}

// writeRecord writes a record into a status. It leaves the rest of the status alone.
func writeRecord(s *v1alpha1.PowerRemediationStatus, node string, r fencing.Record) {
	fencednode.WriteRecord(&s.FencingStatus, node, r)
	s.MachineDeletion, s.PoweredOff, s.CommandedAt = r.MachineDeletion, r.PoweredOff, fencednode.MicroTime(r.CommandedAt)
	s.RequiredProof, s.Condemned = v1alpha1.AnyProof, r.Revoked
	if r.Both {
		s.RequiredProof = v1alpha1.PowerAndPromise
	}
}

// protocolOf returns how Fettle speaks to a BMC, or an empty text if that can't be said.
func protocolOf(bmc *v1alpha1.BMC) string {
	if bmc.Spec.BareMetalHost != nil {
		return "BareMetalHost"
	}
	address, err := power.ParseAddress(bmc.Spec.Address)
	if err != nil {
		return ""
	}
	return string(address.Protocol)
}

// known reports whether a phase is one of package fencing.
func known(p string) bool {
	phases := []fencing.Phase{
		"", fencing.Preparing, fencing.PoweringOff, fencing.Releasing, fencing.PoweringOn, fencing.Booting, fencing.Restoring,
		fencing.Aborting, fencing.DeletingMachine, fencing.Succeeded, fencing.Failed, fencing.Aborted,
	}
	return slices.Contains(phases, fencing.Phase(p))
}
