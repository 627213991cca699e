package engine

import (
	"context"

	"github.com/fettle-io/fettle/internal/core"
)

// Observer is how the engine sees the world through a dialect.
type Observer interface {
	// Observe reads caches and makes no call to the API server. It must return within milliseconds.
	Observe() (core.Observation, error)
	// ReadNode reads the node of a target from the API server itself. A node that is not there is
	// an ordinary answer, NodeGone, and no error.
	ReadNode(ctx context.Context, t core.Target) (core.Node, error)
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
	// Amend writes how far a repair has come: attempts, their last error, or its end.
	Amend(ctx context.Context, r core.Repair, text string) error
}

// Witness tells what the ledger has, from the API server itself.
type Witness interface {
	// Running gives the repairs that have not ended, with whatever was recorded before the call.
	Running(ctx context.Context) ([]core.Repair, error)
}

// Pruner deletes entries whose time is over. Deleting a missing one is no error.
type Pruner interface {
	Drop(ctx context.Context, r core.Repair) error
}

// Remedy is one way to repair a target.
type Remedy interface {
	// Begin starts the repair. Calling it again for the same target must be harmless.
	Begin(ctx context.Context, t core.Target) (core.Beginning, error)
}
