package engine

import (
	"context"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Observer is how the engine sees the world through a dialect.
type Observer interface {
	// Observe reads caches and makes no call to the API server. It must return within milliseconds.
	Observe() (core.Observation, error)
	// ReadNode reads the node of a target from the API server itself. A node that is not there is
	// an ordinary answer, NodeGone, and no error.
	ReadNode(ctx context.Context, t core.Target) (core.Node, error)
	// ReadPolicy reads the fingerprint of a policy from the API server itself. That of a policy that is gone, or is being
	// deleted, is empty, and no error.
	ReadPolicy(ctx context.Context, id core.ID) (string, error)
}

// Publisher is how a dialect tells people about decisions.
type Publisher interface {
	// Record writes the status of each policy whose status has changed. It returns the policies
	// whose status could not be written; nothing is started for their members in this pass.
	Record(ctx context.Context, reports []core.PolicyReport) map[core.ID]error
	// Announce emits an event for each happening that the dialect has one for. It doesn't wait.
	Announce(happenings []core.Happening)
}

// Dialect is one API by which administrators write health checks.
type Dialect interface {
	Observer
	Publisher
}

// Ledger keeps the repairs.
type Ledger interface {
	// Entries gives all repairs from a cache, and whether the cache is in step with the cluster.
	Entries() ([]core.Repair, core.Tri)
	// Open creates an entry. When one of that name exists already it returns false, and no error.
	Open(ctx context.Context, e core.Entry) (core.Repair, bool, error)
	// Amend writes how far a repair has come, all of it, and in the text what happened last. Refused is
	// what a call of the remedy has just been refused with, nil when that is not it. It gives the repair with its
	// new revision. When somebody has written it since the revision that it has, nothing is written, and it
	// returns false, and no error.
	Amend(ctx context.Context, r core.Repair, text string, refused error) (core.Repair, bool, error)
}

// Witness tells what the ledger has, from the API server itself.
type Witness interface {
	// Running gives the repairs that have not ended, with whatever was recorded before the call.
	Running(ctx context.Context) ([]core.Repair, error)
}

// Pruner deletes entries that are not kept any longer.
type Pruner interface {
	// Drop deletes an entry as it was read. A missing one counts as deleted. When the entry has changed since, or another has
	// its name by now, Drop deletes nothing and returns false, and no error.
	Drop(ctx context.Context, r core.Repair) (bool, error)
}

// Remedy is one way to repair a target.
type Remedy interface {
	// Begin takes a step of a repair. Calling it again for the same order must be harmless.
	Begin(ctx context.Context, o core.Order) (core.Beginning, error)
}

// Petitioner is a remedy whose requests stand until they are withdrawn.
type Petitioner interface {
	Remedy
	// Stop tells the remediator that its time is over. A request that is gone, or was told so, is no error.
	Stop(ctx context.Context, r core.Request, at time.Time) error
	// Withdraw takes a request back. One that is gone is no error.
	Withdraw(ctx context.Context, r core.Request) error
}

// Surveyor adds what it knows to what the dialects have observed: facts about targets, what remediators
// have been asked for, and which steps can't be taken. It reads caches, makes no call, and may change
// the policies' ladders, which it must copy first, and the fleet's targets.
type Surveyor interface {
	Survey(policies []core.Policy, fleet *core.Fleet)
}

// Quorum tells from the API server itself whether the control plane keeps its quorum while a target is out.
type Quorum interface {
	Survives(ctx context.Context, t core.Target) (core.Tri, error)
}

// Clock compares the clock that the engine goes by with that of the API server.
type Clock interface {
	// Agrees tells whether they differ by no more than a few seconds, by what the API server has answered so far.
	Agrees() core.Tri
	// Corrected returns what the API server's clock shows when the engine's shows now. Clocks that agree, or of which nothing is
	// known, show the same.
	Corrected(now time.Time) time.Time
}

// Lock is the right to take a node out of service.
type Lock interface {
	// Hold takes the lease of a target's node, or renews it. It is false while somebody else has it.
	Hold(ctx context.Context, t core.Target, holder string, during time.Duration) (bool, error)
	// Release gives the lease back. One that is somebody else's, or is gone, is no error.
	Release(ctx context.Context, node, holder string) error
}

// Marker is a dialect that writes on targets themselves how they were judged.
type Marker interface {
	// Mark writes what has changed, and may leave some of it for later: then it returns true. When the context ends
	// something else is due: but for a few, so that it comes to an end at all, no write begins then, and those under way
	// go on. Targets that a remedy is called for in this pass are the remedy's to mark.
	Mark(ctx context.Context, policies []core.Policy, fleet *core.Fleet, judged []core.Judgement) (more bool, err error)
}

// Bystander is a dialect that tells people why nothing is known of its fleet, and so nothing done.
type Bystander interface {
	StandBy(ctx context.Context) error
}

// Confirmer takes back a person's word that a target is healthy, once nothing waits for it.
type Confirmer interface {
	Unvouch(ctx context.Context, t core.Target) error
}
