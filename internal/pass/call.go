package pass

import (
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Kind is a kind of call.
type Kind int

// The kinds of calls. The comment of each names the fields of the Call that it reads, and those of the Result that answer it.
const (
	// ReportBlocked has a dialect report why nothing is known: Dialect.
	ReportBlocked Kind = iota + 1
	// ReadNode reads the node of a target from the API server: Dialect, Target. Answer: Node.
	ReadNode
	// ReadQuorum reads whether the control plane keeps its quorum without a target: Target. Answer: Survives.
	ReadQuorum
	// WriteStatuses writes the statuses of the policies of a dialect: Dialect, Reports. Answer: Unwritten.
	WriteStatuses
	// ReadPolicy reads the fingerprint of a policy from the API server: Dialect, Policy. Answer: Fingerprint.
	ReadPolicy
	// CreateRepair records a repair: NewRepair. Answer: OK and Repair; OK is false when another repair has its name.
	CreateRepair
	// ListRunning lists the repairs that run, from the API server. Answer: Repairs.
	ListRunning
	// FindSibling looks up the machine of a node in a cache: Target. Answer: OK and ID; OK is false while that is not known.
	FindSibling
	// AcquireLease takes or renews the lease of the node of a target: Target, Holder, For. Answer: OK; OK is false
	// while another holder has it.
	AcquireLease
	// ReadClock reads the clock, and nothing else.
	ReadClock
	// StartRemedy calls a remedy: RemedyCall. Answer: RemedyResult. An error is a refusal, unless CutOff is set.
	StartRemedy
	// UpdateRepair writes the state of a repair: Repair, Text, Refused. Answer: OK and Repair; OK is false when another
	// writer has changed it since it was read.
	UpdateRepair
	// StopRequest tells a remediator that its time is over: Request, At.
	StopRequest
	// WithdrawRequest withdraws a request: Request. Answer: RemedyResult, Stale where the request stays.
	WithdrawRequest
	// ReleaseLease releases the lease of a node: Node, Holder, At. A lease that was renewed after At stays, unless At is
	// zero. Answer: OK; OK is false when there was nothing to release.
	ReleaseLease
	// WriteConditions writes on targets how they were judged: Dialect, Policies, Cluster, Judged, Until. Answer: OK,
	// when some are left.
	WriteConditions
	// WithdrawConfirmation withdraws a user's confirmation that a target is healthy: Dialect, Target.
	WithdrawConfirmation
	// DeleteRepair deletes a finished repair: Repair. Answer: OK; it is false when the repair has changed since it was
	// read.
	DeleteRepair

	kinds
)

var kindNames = [...]string{
	ReportBlocked: "ReportBlocked", ReadNode: "ReadNode", ReadQuorum: "ReadQuorum", WriteStatuses: "WriteStatuses", ReadPolicy: "ReadPolicy",
	CreateRepair: "CreateRepair", ListRunning: "ListRunning", FindSibling: "FindSibling", AcquireLease: "AcquireLease", ReadClock: "ReadClock",
	StartRemedy: "StartRemedy", UpdateRepair: "UpdateRepair", StopRequest: "StopRequest", WithdrawRequest: "WithdrawRequest",
	ReleaseLease: "ReleaseLease", WriteConditions: "WriteConditions", WithdrawConfirmation: "WithdrawConfirmation", DeleteRepair: "DeleteRepair",
}

// String returns the name of the kind.
func (k Kind) String() string {
	if k > 0 && k < kinds {
		return kindNames[k]
	}
	return "Unnamed"
}

// Call is one call to make. Its values never change after it was returned.
type Call struct {
	// ID is the number of the call in its pass.
	ID   int
	Kind Kind
	// Stage and Task say which calls belong together. The calls of one task follow each other and share a time limit.
	Stage Stage
	Task  int
	// First is set for the first calls of a task. A stage that opens again reuses the numbers of its earlier tasks.
	First bool
	// Until is when the call is of no use any more; zero for the usual limit of its kind.
	Until time.Time

	// Dialect is an index in Config.Dialects.
	Dialect      int
	Target       core.Target
	Policy       core.ID
	NewRepair    *core.NewRepair
	Repair       core.Repair
	Text         string
	Refused      error
	RemedyCall   *core.RemedyCall
	Request      core.Request
	At           time.Time
	Node, Holder string
	For          time.Duration
	Reports      []core.PolicyReport
	Policies     []core.Policy
	Cluster      *core.Cluster
	Judged       []core.CombinedVerdict

	// place is the place of the call among those of its step.
	place int
}

// ClockReading is what the clocks show at an instant.
type ClockReading struct {
	Now time.Time
	// Agrees reports whether the clock agrees with the API server's, and Corrected is what the API server's clock
	// shows.
	Agrees    core.Tri
	Corrected time.Time
}

// Result is the answer to a call.
type Result struct {
	// Clock is read after the call, and Began is when the call began.
	Clock ClockReading
	Began time.Time
	Err   error
	// Skipped is set when the call was not made. Err says why.
	Skipped bool
	// CutOff is set when the call failed since the pass was cancelled. The API server may have granted it.
	CutOff bool
	// Panicked is set when the call panicked. The API server may have granted it.
	Panicked bool

	OK           bool
	Node         core.Node
	Survives     core.Tri
	Fingerprint  string
	Repair       core.Repair
	Repairs      []core.Repair
	ID           core.ID
	RemedyResult core.RemedyResult
	Unwritten    map[core.ID]error
}
