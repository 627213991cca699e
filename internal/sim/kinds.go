package sim

import "fmt"

// Kind is one kind of thing that can happen.
type Kind int

// The kinds of steps. A pass is one step, unless it is made call by call, or Interpose breaks it up.
const (
	Pass Kind = iota + 1
	CrashingPass
	RefusedPass
	// LosingPass is a pass that loses the answer to a write, FailingPass one of which a call fails.
	LosingPass
	FailingPass
	// BeginPass is the beginning of a pass that is made call by call, and MakeCall one call of it. FailCall is a call that fails, and LoseAnswer
	// one whose answer is lost.
	BeginPass
	MakeCall
	FailCall
	LoseAnswer
	// SkipCall is the first call of a task that is not made, since its stage has no time left. CutOffCall and PanicCall are calls that are
	// granted, after which the caller is cancelled or panics. RefuseCutOff is a call that is cancelled before it is granted. MissStatus is a
	// status that is not written. AbandonPass is the end of a pass that has written nothing but statuses.
	SkipCall
	CutOffCall
	RefuseCutOff
	PanicCall
	MissStatus
	AbandonPass
	Tick
	Flap
	Vanish
	Fail
	Deleted
	SeeMachine
	SeeNode
	SeeLedger
	SeeRequests
	// SucceedRequest and FailRequest are the reports of a remediator that ends. RemoveFinalizer is its removal of its finalizer.
	SucceedRequest
	FailRequest
	RemoveFinalizer
	// DeleteRequest is the deletion of a request by a user, and ReplaceRequest its replacement by a namesake.
	DeleteRequest
	ReplaceRequest
	// OwnerBegin is the answer of an owner that it replaces a marked machine, and OwnerRefuse that it does not yet.
	// OwnerDelete is its deletion of the machine. RemoveMark and AddMark are marks that a user removes, or makes.
	OwnerBegin
	OwnerDelete
	OwnerRefuse
	RemoveMark
	AddMark
	Pause
	// Remove is the deletion of all policies, or their creation, and SeePolicies a cache of policies catching up.
	Remove
	SeePolicies
	// Edit has all policies permit less, or what they did before.
	Edit
	// ChangeQuorum has the quorum survive, not survive, or not be known. Lease is the lease of a node that another tool takes, or releases.
	ChangeQuorum
	Lease
	// Jump is a step of an engine's clock. StaleList is a restart whose caches are in step with an earlier moment.
	Jump
	// ServerJump is a step of the API server's clock, and NodeJump one of the clocks of all nodes.
	ServerJump
	NodeJump
	StaleList
	// RepairOutside is an outside remediator that has repaired a machine which was handed over.
	RepairOutside
	Deselect
	// Confirm is a user's confirmation that a node is healthy.
	Confirm
	Restart
	Resync
	DeleteRepairRecord
	// Rest is the end of a story. All that has begun ends, and no fault occurs any more.
	Rest
	kinds
)

// Step is one thing that happens. Which is a machine, a place in the ledger, or a number of writes.
type Step struct {
	Kind          Kind
	Engine, Which int
}

// sentences say what happens, with the engine and the number, which some leave out.
var sentences = [...]string{ //nolint:gosec // it takes a pass for a password
	Pass:               "engine %[1]s passes",
	CrashingPass:       "engine %[1]s passes and crashes after %[2]d writes",
	RefusedPass:        "engine %[1]s passes, and deletions are refused",
	LosingPass:         "engine %[1]s passes, and the answer to write %[2]d is lost",
	FailingPass:        "engine %[1]s passes, and call %[2]d fails",
	BeginPass:          "engine %[1]s begins a pass",
	MakeCall:           "engine %[1]s makes call %[2]d of its calls",
	FailCall:           "call %[2]d of the calls of engine %[1]s fails",
	LoseAnswer:         "engine %[1]s makes call %[2]d of its calls, and its answer is lost",
	SkipCall:           "call %[2]d of the calls of engine %[1]s is skipped",
	CutOffCall:         "call %[2]d of the calls of engine %[1]s is granted, and its pass is cancelled",
	RefuseCutOff:       "call %[2]d of the calls of engine %[1]s is cancelled with its pass",
	PanicCall:          "engine %[1]s makes call %[2]d of its calls, and panics",
	MissStatus:         "engine %[1]s writes statuses, but not that of policy %[2]d",
	AbandonPass:        "engine %[1]s abandons its pass",
	Tick:               "a tick of time",
	Flap:               "node of m%[2]d turns from Ready to not, or back",
	Vanish:             "node of m%[2]d is deleted, or registers again",
	Fail:               "machine m%[2]d fails",
	Deleted:            "deletion of m%[2]d is over; a new machine has its name",
	SeeMachine:         "engine %[1]s sees machine m%[2]d as it is",
	SeeNode:            "engine %[1]s sees node of m%[2]d as it is",
	SeeLedger:          "engine %[1]s sees the ledger as it is",
	SeeRequests:        "engine %[1]s sees requests of template %[2]d as they are",
	SucceedRequest:     "remediator of request %[2]d succeeds",
	FailRequest:        "remediator of request %[2]d gives up",
	RemoveFinalizer:    "remediator of request %[2]d removes its finalizer",
	DeleteRequest:      "a user deletes request %[2]d",
	ReplaceRequest:     "a user replaces request %[2]d by a namesake",
	OwnerBegin:         "owner of m%[2]d says that it replaces it",
	OwnerDelete:        "owner of m%[2]d deletes it",
	OwnerRefuse:        "owner of m%[2]d says that it won't yet",
	RemoveMark:         "a user removes the mark of m%[2]d",
	AddMark:            "a user marks m%[2]d",
	Pause:              "a user pauses all policies, or resumes them",
	Remove:             "a user deletes all policies, or creates them again",
	Edit:               "a user edits all policies to permit less, or as much as before",
	SeePolicies:        "engine %[1]s sees policies as they are",
	ChangeQuorum:       "the quorum survives a loss no more, is not known, or does again",
	Lease:              "another tool takes the lease of node %[2]d, or releases it",
	Jump:               "clock of engine %[1]s jumps",
	ServerJump:         "clock of the API server jumps",
	NodeJump:           "clocks of all nodes jump",
	StaleList:          "engine %[1]s lists what was so a while ago",
	RepairOutside:      "outside remediator of m%[2]d has repaired it",
	Deselect:           "machine or node %[2]d is selected no more, or again",
	Confirm:            "a user confirms that node of m%[2]d is healthy",
	Restart:            "engine %[1]s restarts",
	Resync:             "engine %[1]s has its caches in step",
	DeleteRepairRecord: "a user deletes entry %[2]d of the ledger",
	Rest:               "everything comes to rest",
}

// String says what happens, for a trace.
func (s Step) String() string {
	if s.Kind <= 0 || int(s.Kind) >= len(sentences) {
		return "nothing"
	}
	return fmt.Sprintf(sentences[s.Kind]+"%.0[3]s", leaderName(s.Engine), s.Which, "")
}

// leaderName is A for the first engine.
func leaderName(i int) string { return "ABCDEFGH"[i%8 : i%8+1] }
