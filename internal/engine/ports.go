package engine

import (
	"context"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Observer reads the objects of a dialect.
type Observer interface {
	// Observe returns facts from caches. It makes no call to the API server, and returns within
	// milliseconds.
	Observe() (core.Observation, error)
	// ReadNode reads the node of a target from the API server. For a missing node it returns the
	// state NodeGone, and no error.
	ReadNode(ctx context.Context, t core.Target) (core.Node, error)
	// ReadPolicy returns the fingerprint of a policy, read from the API server. It is empty,
	// without an error, for a policy that is missing or being deleted.
	ReadPolicy(ctx context.Context, id core.ID) (string, error)
}

// Publisher writes decisions where users see them.
type Publisher interface {
	// WriteStatuses writes the status of each policy whose status has changed. It returns the
	// policies with a failed write. No repair starts for their members in this pass.
	WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error
	// EmitEvents emits a Kubernetes event for each event that the dialect reports. It doesn't wait
	// for the API server.
	EmitEvents(events []core.Event)
}

// Dialect is one API of health checks.
type Dialect interface {
	Observer
	Publisher
}

// Ledger stores repairs.
type Ledger interface {
	// Repairs returns all repairs from a cache, and whether the cache has synced.
	Repairs() ([]core.Repair, core.Tri)
	// Create records a repair. It returns false, without an error, if a repair of that name exists.
	Create(ctx context.Context, e core.NewRepair) (core.Repair, bool, error)
	// Update writes the whole status of a repair. The text says what happened last, and refused is
	// the error of the remedy call before it, if any. Update returns the repair with its new
	// revision. It writes nothing, and returns false without an error, if the stored revision
	// differs.
	Update(ctx context.Context, r core.Repair, text string, refused error) (core.Repair, bool, error)
}

// LiveRepairs lists repairs from the API server.
type LiveRepairs interface {
	// Running returns the repairs that have not ended, with all that were recorded before the call.
	Running(ctx context.Context) ([]core.Repair, error)
}

// RepairDeleter deletes repairs that are past retention.
type RepairDeleter interface {
	// Delete deletes a repair at the revision that was read. A missing repair counts as deleted.
	// Delete returns false, without an error, if the repair has changed or another repair has its
	// name.
	Delete(ctx context.Context, r core.Repair) (bool, error)
}

// Remedy is one way to repair a target.
type Remedy interface {
	// Start takes a step of a repair. Repeating a call must be harmless.
	Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error)
}

// RequestRemedy is a remedy whose remediation requests last until they are withdrawn.
type RequestRemedy interface {
	Remedy
	// Stop tells the remediator that the time of its request is over. A request that is missing or
	// stopped is no error.
	Stop(ctx context.Context, r core.Request, at time.Time) error
	// Withdraw withdraws a request. The result is Stale if the remediator has reported something on which the withdrawal
	// depends since the request was read. A missing request counts as withdrawn.
	Withdraw(ctx context.Context, r core.Request) (core.RemedyResult, error)
}

// FactSource adds facts to those of the dialects: facts about targets, remediation requests, and
// steps that can't be taken.
type FactSource interface {
	AddFacts(policies []core.Policy, cluster *core.Cluster)
}

// Quorum reads from the API server whether etcd keeps its quorum without a target.
type Quorum interface {
	Survives(ctx context.Context, t core.Target) (core.Tri, error)
}

// Clock compares Fettle's clock with the API server's.
type Clock interface {
	// Agrees reports whether the clocks differ by at most a few seconds, as far as answers of the
	// API server show.
	Agrees() core.Tri
	// Corrected returns the time of the API server's clock at the instant when Fettle's shows now.
	// It returns now while the clocks agree, and while nothing is known.
	Corrected(now time.Time) time.Time
}

// NodeLeases holds the exclusive right to take a node out of service.
type NodeLeases interface {
	// Acquire takes or renews the lease of a target's node. It returns false while another holder
	// has it.
	Acquire(ctx context.Context, t core.Target, holder string, during time.Duration) (bool, error)
	// Release ends a lease, unless it was renewed after an instant. The zero instant stands for no
	// limit. It reports whether it ended one. A lease that is missing, was renewed later, or has another
	// holder is no error.
	Release(ctx context.Context, node, holder string, renewedBy time.Time) (bool, error)
}

// ConditionWriter is a dialect that writes verdicts into the conditions of targets.
type ConditionWriter interface {
	// WriteConditions writes conditions that have changed. It returns true if some are left for a
	// later pass. Once the context ends, WriteConditions starts at most a few more writes, so that
	// each call makes progress, and finishes the writes under way. It leaves out targets whose
	// remedy is called in this pass: the remedy writes their conditions.
	WriteConditions(ctx context.Context, policies []core.Policy, cluster *core.Cluster, judged []core.CombinedVerdict) (more bool, err error)
}

// BlockedReporter is a dialect that reports in its health checks why nothing is known about its
// cluster.
type BlockedReporter interface {
	ReportBlocked(ctx context.Context) error
}

// ConfirmationWithdrawer removes the mark by which an administrator confirmed that a target is
// healthy. The engine calls it once nothing depends on the mark.
type ConfirmationWithdrawer interface {
	WithdrawConfirmation(ctx context.Context, t core.Target) error
}
