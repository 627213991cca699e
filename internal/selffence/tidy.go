package selffence

import "time"

// GoneFor is for how long a node must have been known not to exist before its Lease is deleted. It is above any time after which a request of
// its agent could still arrive. A late one would create the Lease again, with a promise that nothing keeps.
const GoneFor = time.Hour

// Existence is whether something exists. Its zero value is unknown.
type Existence int

// The values of an Existence.
const (
	ExistenceUnknown Existence = iota
	Exists
	Gone
)

// TidyFacts are what a manager has read about a Lease and its node. It has read them after the Lease.
type TidyFacts struct {
	// Condemner is whether the remediation exists that has condemned the Lease.
	Condemner Existence
	// NodeGone is for how long the node has been known not to exist, or zero.
	NodeGone time.Duration
}

// Tidying is what a manager does with a Lease that belongs to no remediation.
type Tidying int

// Kinds of Tidying. The zero value does nothing.
const (
	LeaveLease Tidying = iota
	// FreeLease takes the condemnation back, so that the agent of the node can promise anew.
	FreeLease
	// DeleteLease deletes a Lease that promises nothing.
	DeleteLease
)

// Tidy returns what to do with a Lease that may belong to no remediation. A condemnation is taken back only once the remediation that has
// condemned the Lease is known to be gone. Any other may be about to release the workload of the node.
func (l Lease) Tidy(f TidyFacts) Tidying {
	switch {
	case l.State == Condemned && f.Condemner == Gone:
		return FreeLease
	case l.State == Withdrawn && f.NodeGone >= GoneFor:
		return DeleteLease
	}
	return LeaveLease
}
