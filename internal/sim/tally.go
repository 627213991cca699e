package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// Tally sums up stories.
type Tally struct {
	worlds, steps, ticks, violations, deletions, requests int
	happened                                              [kinds]int
	traits                                                [len(traits)]int
}

// Add takes in a world and its story.
func (t *Tally) Add(s *Setup, r *Result) {
	t.worlds++
	t.steps += r.Steps
	t.deletions += r.Deletions
	t.requests += r.Requests
	t.ticks += r.Ticks
	if r.Complaint != "" {
		t.violations++
	}
	for _, s := range r.Trace {
		t.happened[s.Kind]++
	}
	for i, trait := range &traits {
		if trait.has(s) {
			t.traits[i]++
		}
	}
}

// String returns what has happened, in words.
func (t *Tally) String() string {
	var b strings.Builder
	faults := 0
	for k, n := range &t.happened {
		if faultNames[k] != "" {
			faults += n
		}
	}
	fmt.Fprintf(&b, "%d worlds, %d steps, %.1f simulated hours, %d deletions, %d requests, %d faults, %d violations",
		t.worlds, t.steps, Ticks(t.ticks).Hours(), t.deletions, t.requests, faults, t.violations)
	for k, n := range &t.happened {
		if name := faultNames[k]; name != "" {
			fmt.Fprintf(&b, "\n%8d %s", n, name)
		}
	}
	for i, n := range &t.traits {
		fmt.Fprintf(&b, "\n%8d worlds with %s", n, traits[i].name)
	}
	return b.String()
}

// Lacking returns the kinds of faults that no story has had, and the kinds of steps of which nothing says whether they are
// faults.
func (t *Tally) Lacking() []string {
	var lacking []string
	for k := Kind(1); k < kinds; k++ {
		switch name := faultNames[k]; {
		case name == "" && !slices.Contains(ordinary, k):
			lacking = append(lacking, fmt.Sprintf("a name for %q", sentences[k]))
		case name != "" && t.happened[k] == 0:
			lacking = append(lacking, name)
		}
	}
	for i, n := range &t.traits {
		if n == 0 {
			lacking = append(lacking, "worlds with "+traits[i].name)
		}
	}
	return lacking
}

// ordinary are the kinds of steps that are no faults.
var ordinary = []Kind{ //nolint:gochecknoglobals // a constant
	Pass, BeginPass, MakeCall, Tick, Deleted, SeeMachine, SeeNode, SeeLedger, SeeRequests, SeePolicies, SucceedRequest, RemoveFinalizer, OwnerBegin, OwnerDelete, RepairOutside, Resync, Rest,
}

// faultNames are the names of the kinds of steps that are faults.
var faultNames = [kinds]string{ //nolint:gochecknoglobals,gosec // a constant; gosec takes a pass for a password
	CrashingPass:       "crashes in a pass",
	RefusedPass:        "passes whose remedies are refused",
	LosingPass:         "passes that lose an answer",
	FailingPass:        "passes with a call that fails",
	FailCall:           "failed calls between other events",
	LoseAnswer:         "lost answers between other events",
	SkipCall:           "calls that are skipped",
	CutOffCall:         "calls that are granted, and cut off with their pass",
	RefuseCutOff:       "calls that are cut off with their pass",
	PanicCall:          "calls that panic",
	MissStatus:         "statuses that are not written",
	AbandonPass:        "passes that are abandoned",
	Flap:               "nodes that turn from Ready to not, or back",
	Vanish:             "nodes that are deleted, or register again",
	Fail:               "machines that fail",
	FailRequest:        "remediators that give up",
	DeleteRequest:      "requests that a user deletes",
	ReplaceRequest:     "requests that a user replaces by a namesake",
	OwnerRefuse:        "owners that refuse",
	RemoveMark:         "marks that a user removes",
	AddMark:            "marks that a user makes",
	Pause:              "pauses of policies, and their ends",
	Remove:             "deletions of policies, and their creations",
	Edit:               "edits of policies",
	Confirm:            "confirmations of users that a node is healthy",
	Deselect:           "targets that are selected no more, or again",
	ChangeQuorum:       "changes of the quorum",
	Lease:              "leases that another tool takes or releases",
	Jump:               "jumps of Fettle's clock",
	ServerJump:         "jumps of the API server's clock",
	NodeJump:           "jumps of the nodes' clocks",
	StaleList:          "lists of an earlier moment after a restart",
	Restart:            "restarts",
	DeleteRepairRecord: "Repairs that a user deletes",
}

// traits are the faults that a world has from its beginning.
var traits = [...]struct {
	name string
	has  func(*Setup) bool
}{
	{"two leaders", func(s *Setup) bool { return s.Leaders > 1 }},
	{"leaders that see other nodes", func(s *Setup) bool { return s.Apart }},
	{"events between two writes of a pass", func(s *Setup) bool { return s.Interpose != nil }},
	{"passes that make the last call first", func(s *Setup) bool { return s.LastFirst }},
	{"a control plane", func(s *Setup) bool { return s.ControlPlane > 0 }},
	{"leases", func(s *Setup) bool { return s.Leases }},
	{"a clock that jumps by minutes", func(s *Setup) bool { return s.Jumps > 0 && s.Skew.Abs() > core.MaxSkew }},
	{"a clock that jumps by seconds", func(s *Setup) bool { return s.Jumps > 0 && s.Skew.Abs() <= core.MaxSkew }},
	{"nodes whose clocks are fast", func(s *Setup) bool { return s.AheadNodes > 0 }},
	{"nodes whose clocks are behind", func(s *Setup) bool { return s.AheadNodes < 0 }},
	{"machines that start", func(s *Setup) bool { return s.Starting > 0 }},
	{"deletions that never end", func(s *Setup) bool { return s.NeverGone }},
	{"pruning", func(s *Setup) bool { return s.Prunes }},
	{"a watch of policies that lags", func(s *Setup) bool { return s.LaggingPolicies }},
	{"remediators that replace nodes", func(s *Setup) bool { return s.Replacing }},
	{"remediators that never let go", func(s *Setup) bool { return s.KeepsFinalizers }},
	{"owners that replace one machine at a time", func(s *Setup) bool { return s.OneByOne }},
	{"machines that are handed over", func(s *Setup) bool { return s.takes(HandOverStep().Remedy) }},
	{"dialects that write reports", func(s *Setup) bool { return s.Reports }},
	{"a dry run", func(s *Setup) bool {
		return slices.ContainsFunc(s.Policies, func(p core.Policy) bool { return p.DryRun })
	}},
	{"a home cluster of which nothing is known for long", func(s *Setup) bool { return s.HomeAway && s.Now >= int(core.YieldPendingFor/tick) }},
	{"two clusters of the same nodes", func(s *Setup) bool { return len(s.Workload) > 0 }},
}

// takes reports whether a policy has a step of a remedy.
func (s *Setup) takes(remedy string) bool {
	return slices.ContainsFunc(s.Policies, func(p core.Policy) bool {
		return slices.ContainsFunc(p.Steps, func(step core.Step) bool { return step.Remedy == remedy })
	})
}
