package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Setup says what a universe begins with, and how much may happen in it.
type Setup struct {
	// Policies over the machines m0, m1, ..., or, those of the kind "NodeCheck", over the nodes n0, n1, ...;
	// their members are these numbers. A node that has its number in common with a machine is that machine's.
	Policies        []core.Policy
	Machines, Nodes int
	// Workload has the policies of a workload cluster, over the machines. The nodes of the workload cluster are those of the
	// home cluster, whose policies are over the nodes alone. Users pause, remove and resume policies of the home cluster
	// only.
	Workload []core.Policy
	// HomeAway has the caches of the home cluster not in step since tick 0.
	HomeAway bool
	// NotReady nodes are so from the beginning, at tick 0; the first of them.
	NotReady int
	// Now is the tick at which it begins.
	Now int
	// Leaders is how many engines act at once; 0 means one.
	Leaders int
	// ControlPlane is how many of the first machines belong to it.
	ControlPlane   int
	QuorumSurvives core.Tri

	// How often each of these may happen.
	Ticks, Flaps, Vanishings, Failures, Crashes, RecordDeletions, Refusals int
	// LostAnswers are how often the answer to a write is lost, and FailedCalls how often a call fails.
	LostAnswers, FailedCalls int
	// SteppedPasses is how many passes are made call by call, each call a step among others. OnlySteppedPasses has no
	// other passes.
	SteppedPasses     int
	OnlySteppedPasses bool
	// Skips, CutOffs and Panics are how often a call of a stepped pass is skipped, cut off with its pass, or panics. Abandonments are
	// how often such a pass is abandoned, and MissedStatuses how often a status is not written.
	Skips, CutOffs, Panics, Abandonments, MissedStatuses int
	// RequestSuccesses and RequestFailures are how often remediators succeed or give up. RequestDeletions and
	// RequestReplacements are how often users delete a request, or replace it by a namesake.
	RequestSuccesses, RequestFailures, RequestDeletions, RequestReplacements int
	// OwnerReplacements and OwnerRefusals are how often owners follow a mark, or say that they won't yet. OneByOne owners
	// replace one machine at a time. MarkRemovals and UserMarks are how often users remove or make marks.
	OwnerReplacements, OwnerRefusals, MarkRemovals, UserMarks int
	OneByOne                                                  bool
	// Pauses and Deselections are how often users pause or resume policies, and relabel nodes.
	Pauses, Deselections int
	// Reports has dialects report that nothing is known, write conditions on machines and withdraw confirmations, and has nodes
	// looked up whose machine is no target. Confirmations are how often users confirm that a node is healthy.
	Reports       bool
	Confirmations int
	// LastFirst has passes make the last offered call first.
	LastFirst bool
	// Edits are how often users have all policies permit less, or as much as before.
	Edits int
	// Removals are how often policies are deleted, or created again. LaggingPolicies are policies whose watch lags.
	Removals        int
	LaggingPolicies bool
	// QuorumChanges are how often the quorum changes, and ForeignLeases how often another tool takes or releases a lease.
	// Jumps are how often the clock of an engine jumps by Skew, and back.
	QuorumChanges, ForeignLeases, Jumps int
	Skew                                time.Duration
	// ServerJumps are how often the clock of the API server jumps by so many ticks, and back.
	ServerJumps, ServerSkew int
	// NodeJumps are how often the clocks of all nodes jump to so many ticks ahead, and back to AheadNodes.
	NodeJumps, NodeSkew int
	// Apart has each leader begin without having seen that the node of its own number is not Ready.
	Apart bool
	// StaleLists are how often a restarted engine lists what was so before.
	StaleLists int
	// OutsideRepairs are how often outside remediators repair what was handed over.
	OutsideRepairs int
	// NeverGone machines are deleted and stay. Prunes deletes finished repairs after two ticks. Starting machines, the
	// first of them, have no node yet. AheadNodes have their conditions dated so many ticks ahead; below zero, so many ticks behind.
	NeverGone, Prunes, Leases bool
	Starting, AheadNodes      int
	// Replacing remediators have nodes replaced, and report when that is done. With KeepsFinalizers they never remove their
	// finalizer by themselves. The request of an earlier node does not hold back a later one.
	Replacing, KeepsFinalizers bool

	Faults Faults
	// Unchecked has promises that the checker ignores, so that a test can follow a fault to the promise that it is
	// about.
	Unchecked []string
	// Interpose, if set, is called before each write of a pass, to let something happen in between.
	Interpose func(*Universe)
}

// Universe is one state of everything.
type Universe struct {
	setup *Setup
	// delegates is set when any policy leaves machines to their owners.
	delegates bool
	truth     *apiServer
	engines   []*engine
	left      [kinds]int
	// shown are the requests that a cache has shown, where two lead. It is never changed, but replaced.
	shown []shownRequest
	// deletions counts the accepted deletions, and requested the created requests.
	deletions, requested int
	// complaint is the first broken promise, in words.
	complaint string
}

// New returns a universe in which every cache is in sync.
func New(s Setup) *Universe {
	c := &apiServer{now: s.Now, quorum: s.QuorumSurvives, leases: map[string]lease{}, recordedAt: map[string]int{}, seconds: map[string]bool{}, nodesAhead: s.AheadNodes}
	for i := range max(s.Machines, s.Nodes) {
		c.machines = append(c.machines, machine{slot: i, created: -1000, node: node{exists: true, ready: i >= s.NotReady, since: 0}})
		if i >= s.NotReady {
			c.machines[i].node.since = -1000
		}
	}
	for i := range c.machines {
		m := &c.machines[i]
		if m.node.ahead = s.AheadNodes; i < s.Starting {
			m.created, m.awaited, m.node = 0, true, node{}
		}
	}
	u := &Universe{setup: &s, delegates: s.delegates(), truth: c}
	for i := range max(1, s.Leaders) {
		for _, cluster := range s.clusters() {
			e := newEngine(len(u.engines), cluster, c)
			e.inStep = !s.HomeAway || cluster != homeCluster
			if s.Apart {
				e.nodes[i].ready, e.nodes[i].since = true, -1000
			}
			u.engines = append(u.engines, e)
		}
	}
	u.left = [kinds]int{
		Tick: s.Ticks, Flap: s.Flaps, Vanish: s.Vanishings, Fail: s.Failures, Restart: s.Crashes, CrashingPass: s.Crashes,
		DeleteRepairRecord: s.RecordDeletions, RefusedPass: s.Refusals, SucceedRequest: s.RequestSuccesses, FailRequest: s.RequestFailures, DeleteRequest: s.RequestDeletions, ReplaceRequest: s.RequestReplacements,
		Pause: s.Pauses, Deselect: s.Deselections,
		LosingPass: s.LostAnswers, LoseAnswer: s.LostAnswers, FailingPass: s.FailedCalls, FailCall: s.FailedCalls, BeginPass: s.SteppedPasses,
		SkipCall: s.Skips, CutOffCall: s.CutOffs, RefuseCutOff: s.CutOffs, PanicCall: s.Panics, MissStatus: s.MissedStatuses, AbandonPass: s.Abandonments,
		Remove: s.Removals, ChangeQuorum: s.QuorumChanges, Lease: s.ForeignLeases, Jump: s.Jumps, StaleList: s.StaleLists, RepairOutside: s.OutsideRepairs,
		Confirm: s.Confirmations, ServerJump: s.ServerJumps, NodeJump: s.NodeJumps, Edit: s.Edits, OwnerBegin: s.OwnerReplacements, OwnerRefuse: s.OwnerRefusals, RemoveMark: s.MarkRemovals, AddMark: s.UserMarks,
	}
	return u
}

func (u *Universe) clone() *Universe {
	twin := *u
	twin.truth = u.truth.clone()
	twin.engines = make([]*engine, len(u.engines))
	for i, e := range u.engines {
		twin.engines[i] = e.clone()
	}
	return &twin
}

// Complaint returns the first promise that was broken on the way here, or "".
func (u *Universe) Complaint() string { return u.complaint }

func (u *Universe) complain(format string, args ...any) {
	complaint := fmt.Sprintf(format, args...)
	overlooked := slices.ContainsFunc(u.setup.Unchecked, func(promise string) bool { return strings.HasPrefix(complaint, promise) })
	if u.complaint == "" && !overlooked {
		u.complaint = complaint
	}
}

func (u *Universe) interpose() {
	if u.setup.Interpose != nil {
		u.setup.Interpose(u)
	}
}
