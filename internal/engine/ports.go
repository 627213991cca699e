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
	// WriteStatuses writes the status of each policy whose status has changed. It returns the policies
	// whose status could not be written; nothing is started for their members in this pass.
	WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error
	// EmitEvents emits an event for each happening that the dialect has one for. It doesn't wait.
	EmitEvents(events []core.Event)
}

// Dialect is one API by which administrators write health checks.
type Dialect interface {
	Observer
	Publisher
}

// Ledger keeps the repairs.
type Ledger interface {
	// Repairs gives all repairs from a cache, and whether the cache is in step with the cluster.
	Repairs() ([]core.Repair, core.Tri)
	// Create creates an entry. When one of that name exists already it returns false, and no error.
	Create(ctx context.Context, e core.NewRepair) (core.Repair, bool, error)
	// Update writes how far a repair has come, all of it, and in the text what happened last. Refused is
	// what a call of the remedy has just been refused with, nil when that is not it. It gives the repair with its
	// new revision. When somebody has written it since the revision that it has, nothing is written, and it
	// returns false, and no error.
	Update(ctx context.Context, r core.Repair, text string, refused error) (core.Repair, bool, error)
}

// LiveRepairs tells what the ledger has, from the API server itself.
type LiveRepairs interface {
	// Running gives the repairs that have not ended, with whatever was recorded before the call.
	Running(ctx context.Context) ([]core.Repair, error)
}

// RepairDeleter deletes entries that are not kept any longer.
type RepairDeleter interface {
	// Delete deletes an entry as it was read. A missing one counts as deleted. When the entry has changed since, or another has
	// its name by now, Remove deletes nothing and returns false, and no error.
	Delete(ctx context.Context, r core.Repair) (bool, error)
}

// Remedy is one way to repair a target.
type Remedy interface {
	// Begin takes a step of a repair. Calling it again for the same order must be harmless.
	Begin(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error)
}

// RequestRemedy is a remedy whose requests stand until they are withdrawn.
type RequestRemedy interface {
	Remedy
	// Stop tells the remediator that its time is over. A request that is gone, or was told so, is no error.
	Stop(ctx context.Context, r core.Request, at time.Time) error
	// Withdraw takes a request back. One that is gone is no error.
	Withdraw(ctx context.Context, r core.Request) error
}

// FactSource adds what it knows to what the dialects have observed: facts about targets, what remediators
// have been asked for, and which steps can't be taken. It reads caches, makes no call, and may change
// the policies' ladders, which it must copy first, and the fleet's targets.
type FactSource interface {
	AddFacts(policies []core.Policy, cluster *core.Cluster)
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

// NodeLeases is the right to take a node out of service.
type NodeLeases interface {
	// Acquire takes the lease of a target's node, or renews it. It is false while somebody else has it.
	Acquire(ctx context.Context, t core.Target, holder string, during time.Duration) (bool, error)
	// Release gives the lease back. One that is somebody else's, or is gone, is no error.
	Release(ctx context.Context, node, holder string) error
}

// ConditionWriter is a dialect that writes on targets themselves how they were judged.
type ConditionWriter interface {
	// WriteConditions writes what has changed, and may leave some of it for later: then it returns true. When the context ends
	// something else is due: but for a few, so that it comes to an end at all, no write begins then, and those under way
	// go on. Targets that a remedy is called for in this pass are the remedy's to mark.
	WriteConditions(ctx context.Context, policies []core.Policy, cluster *core.Cluster, judged []core.CombinedVerdict) (more bool, err error)
}

// BlockedReporter is a dialect that tells people why nothing is known of its fleet, and so nothing done.
type BlockedReporter interface {
	ReportBlocked(ctx context.Context) error
}

// ConfirmationWithdrawer takes back a person's word that a target is healthy, once nothing waits for it.
type ConfirmationWithdrawer interface {
	WithdrawConfirmation(ctx context.Context, t core.Target) error
}
