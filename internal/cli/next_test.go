package cli

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

var rebootTemplate = core.Reference{APIVersion: "a.example/v1", Kind: "RebootTemplate", Namespace: "machines", Name: "fast"}

// TestRemedyWords: the text says what happens to the machine.
func TestRemedyWords(t *testing.T) {
	request := core.Step{Remedy: "RequestMachineRemediation", Nature: core.CreateRequest, Template: rebootTemplate}
	owner := core.Step{Remedy: "MarkOwner", Nature: core.AskOwner}
	for want, steps := range map[string][]core.Step{
		"is not repaired, since its health check names no remedy that Fettle knows": nil,
		"is deleted, and its owner makes a new machine":                             {{Remedy: "DeleteMachine", Nature: core.Delete}, {Remedy: "Other", Nature: core.CreateRequest}},
		"is marked for an outside remediator and left to it":                        {{Remedy: "AnnotateMachine", Nature: core.Annotate}},
		"is marked for its owner, which replaces it in its own time":                {owner, request},
		"is left to an outside remediator, by an object that Fettle creates from RebootTemplate machines/fast": {
			request, request, owner,
		},
		"is left to an outside remediator, by an object that Fettle creates from RebootTemplate machines/fast, and to its owner once that remediator has given it up": {
			request, owner,
		},
	} {
		if got := remedyWords(steps, "machine"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// judged has a target have these verdicts.
func (w *assessment) judged(target int, verdicts ...core.Verdict) {
	for i := range verdicts {
		verdicts[i].Target = target
	}
	w.verdictsOf[target], w.groupVerdicts[w.groups[target]] = verdicts, verdicts
}

// asked puts a request about a target, which changes alter.
func (w *assessment) asked(target int, changes ...func(*core.Request)) {
	q := core.Request{ID: core.ID{Kind: "Reboot", Namespace: "machines", Name: "it"}, Target: w.cluster.Targets[target].ID, Remedy: "DeleteMachine", Own: true}
	for _, change := range changes {
		change(&q)
	}
	w.cluster.Requests = append(w.cluster.Requests, q)
}

func answers(q *core.Request) { q.Answers = true }
func leaving(q *core.Request) { q.Leaving = true }
func foreign(q *core.Request) { q.Own = false }

var (
	paused     = core.Refusal{Gate: core.PolicyPaused}
	backsOff   = core.Refusal{Gate: core.BackingOff, Until: noon.Add(time.Minute)}
	longer     = core.Refusal{Gate: core.AttemptPause, Until: noon.Add(time.Hour)}
	exhaustion = core.Refusal{Gate: core.StepsExhausted}
	upgrading  = core.Refusal{Gate: core.ClusterUpgrading}
	leased     = core.Refusal{Gate: core.LeaseHeld}
)

// nexts are machines for which the next change is told, with a repair that has tried no step if under is set.
var nexts = map[string]struct {
	under  bool
	change func(*assessment)
}{
	"blocked":             {false, func(w *assessment) { w.blocked = &Blocked{Message: "it can't be seen"} }},
	"blocked, deleting":   {false, func(w *assessment) { w.blocked, w.cluster.Targets[0].Deleting = &Blocked{Message: "so"}, true }},
	"deleting":            {false, func(w *assessment) { w.cluster.Targets[0].Deleting = true }},
	"deleting, repair":    {true, func(w *assessment) { w.cluster.Targets[0].Deleting = true }},
	"deleting, request":   {true, func(w *assessment) { w.cluster.Targets[0].Deleting = true; w.asked(0) }},
	"withdrawals":         {false, withdraws},
	"withdrawal, answers": {false, func(w *assessment) { withdraws(w); w.cluster.Requests[0].Answers = true }},
	"dry runs":            {false, func(w *assessment) { w.dryRuns[0] = []core.Start{{Policy: 1}, {Policy: 0}} }},
	"ends": {true, func(w *assessment) {
		w.finishOf[0] = core.Finish{Outcome: core.Recovered, Text: "it is healthy"}
		withdraws(w)
	}},
	"repair, withdrawals": {true, withdraws},
	"repair, advances": {true, func(w *assessment) {
		w.advanceOf[0] = core.Escalation{Text: "it failed"}
		w.actOf[0] = core.StepStart{}
	}},
	"repair, advances last": {true, func(w *assessment) {
		w.advanceOf[0] = core.Escalation{Text: "it failed"}
		w.cluster.Repairs[0].Tried = make([]core.StepRecord, 2)
	}},
	"repair, advances to another kind": {true, func(w *assessment) {
		w.advanceOf[0] = core.Escalation{Text: "it failed"}
		w.cluster.Repairs[0].Tried = make([]core.StepRecord, 1)
	}},
	"repair, acts":                 {true, func(w *assessment) { w.actOf[0] = core.StepStart{Step: 1}; w.refusalsOf[0] = []core.Refusal{paused} }},
	"repair, remains":              {true, func(w *assessment) { remains(w); w.refusalsOf[0] = []core.Refusal{paused} }},
	"repair, held":                 {true, func(w *assessment) { w.refusalsOf[0] = []core.Refusal{paused} }},
	"repair, dry run":              {true, func(w *assessment) { w.refusalsOf[0] = []core.Refusal{{Gate: core.PolicyPaused, DryRun: true}} }},
	"repair, for time":             {true, func(w *assessment) { w.refusalsOf[0] = []core.Refusal{backsOff, longer, backsOff} }},
	"repair, for time and longer":  {true, func(w *assessment) { w.refusalsOf[0] = []core.Refusal{longer, paused, backsOff} }},
	"repair, hidden":               {true, func(w *assessment) { hides(w); w.refusalsOf[0] = []core.Refusal{upgrading, leased} }},
	"repair, hidden and held":      {true, func(w *assessment) { hides(w); w.refusalsOf[0] = []core.Refusal{upgrading, paused} }},
	"repair, exhausted":            {true, func(w *assessment) { w.refusalsOf[0] = []core.Refusal{exhaustion} }},
	"repair, paused and exhausted": {true, func(w *assessment) { w.refusalsOf[0] = []core.Refusal{paused, exhaustion} }},
	"repair, tried and held": {true, func(w *assessment) {
		w.refusalsOf[0] = []core.Refusal{paused}
		w.cluster.Repairs[0].Tried = make([]core.StepRecord, 1)
	}},
	"repair, unread steps":      {true, func(w *assessment) { w.cluster.Repairs[0].Steps = nil }},
	"repair, all tried":         {true, func(w *assessment) { w.cluster.Repairs[0].Tried = make([]core.StepRecord, 3) }},
	"repair, waits":             {true, func(*assessment) {}},
	"repair, owner begins":      {true, func(w *assessment) { w.asked(0, answers, leaving) }},
	"repair, leaves":            {true, func(w *assessment) { w.asked(0, answers); w.asked(0, leaving) }},
	"repair, owner has":         {true, func(w *assessment) { asksOwner(w); w.asked(0, answers) }},
	"repair, owner of another":  {true, func(w *assessment) { asksOwner(w); w.asked(0, answers, foreign) }},
	"repair, owner has not yet": {true, asksOwner},
	"repair, foreign":           {true, func(w *assessment) { asksRemediator(w, 0); w.asked(0, foreign) }},
	"repair, foreign with end":  {true, func(w *assessment) { asksRemediator(w, time.Hour); w.asked(0, foreign) }},
	"repair, own with end":      {true, func(w *assessment) { asksRemediator(w, time.Hour); w.asked(0) }},
	"repair, second with end": {true, func(w *assessment) {
		asksRemediator(w, time.Hour)
		r := &w.cluster.Repairs[0]
		r.Steps[1], r.Tried = r.Steps[0], []core.StepRecord{{Ended: noon.Add(-time.Minute)}}
		w.asked(0)
	}},
	"repair, own":       {true, func(w *assessment) { asksRemediator(w, 0); w.asked(0) }},
	"starts":            {false, func(w *assessment) { ails(w); w.startOf[0] = core.Start{} }},
	"starts, asked":     {false, func(w *assessment) { ails(w); w.startOf[0] = core.Start{}; w.asked(0) }},
	"starts, owner has": {false, func(w *assessment) { ails(w); w.startOf[0] = core.Start{}; w.asked(0); w.asked(0, answers) }},
	"ails":              {false, ails},
	"ails, held":        {false, func(w *assessment) { ails(w); w.refusalsOf[0] = []core.Refusal{paused} }},
	"ails, for time":    {false, func(w *assessment) { ails(w); w.refusalsOf[0] = []core.Refusal{backsOff, longer} }},
	"ails, hidden":      {false, func(w *assessment) { ails(w); hides(w); w.refusalsOf[0] = []core.Refusal{upgrading} }},
	"unjudged":          {false, func(w *assessment) { w.judged(0) }},
	"external":          {false, func(w *assessment) { w.judged(0, core.Verdict{Health: core.Suspect, Reason: core.ExternalRemediation}) }},
	"external, undetermined": {false, func(w *assessment) {
		w.judged(0, core.Verdict{Health: core.Undetermined, Reason: core.ExternalRemediation})
	}},
	"awaited": {false, func(w *assessment) { w.judged(0, core.Verdict{Health: core.Suspect, Reason: core.NodeStartupTimeout}) }},
	"undetermined": {false, func(w *assessment) {
		w.judged(0, core.Verdict{Health: core.Undetermined, Until: noon.Add(time.Minute)})
	}},
	"dry run, ails":            {false, func(w *assessment) { w.policies[0].DryRun = true; ails(w) }},
	"recovering":               {false, func(w *assessment) { w.judged(0, core.Verdict{Health: core.Healthy, Reason: core.Recovering}) }},
	"recovering, for a while":  {false, func(w *assessment) { recovers(w, time.Hour) }},
	"repair, recovering":       {true, func(w *assessment) { recovers(w, time.Hour) }},
	"recovering, remains":      {false, remains},
	"suspect":                  {false, suspects},
	"suspect, of unknown time": {false, func(w *assessment) { suspects(w); w.verdictsOf[0][0].Since = time.Time{} }},
	"suspect, dry run":         {false, func(w *assessment) { suspects(w); w.policies[0].DryRun = true }},
	"healthy":                  {false, func(*assessment) {}},
}

func withdraws(w *assessment) {
	w.asked(0)
	w.asked(0, func(q *core.Request) { q.ID.Name = "other" })
	w.withdrawalsOf[0] = []core.Withdrawal{{Request: 0, Text: "it is healthy"}, {Request: 1, Text: "of another"}}
}

func hides(w *assessment) { w.unread.upgrade, w.unread.leases = "you may not", "you may not" }

func ails(w *assessment) { w.judged(0, core.Verdict{Health: core.Unhealthy}) }

func suspects(w *assessment) {
	w.judged(0, core.Verdict{Health: core.Suspect, Reason: core.NodeNotFound, Since: noon, Until: noon.Add(time.Minute)})
}

// recovers has the machine be healthy for a minute, and its request stand for a delay.
func recovers(w *assessment, delay time.Duration) {
	w.asked(0)
	w.judged(0, core.Verdict{Health: core.Healthy, Reason: core.Recovering})
	w.reports[0].Policy.HealthyDelay = delay
	w.reports[0].Members = []core.MemberReport{{Target: w.cluster.Targets[0].ID, Requests: w.cluster.Requests, HealthySince: noon.Add(-time.Minute)}}
}

func remains(w *assessment) {
	w.judged(0, core.Verdict{Health: core.Healthy, Reason: core.Recovering}, core.Verdict{Policy: 1, Health: core.Healthy, Reason: core.Recovering, RequestRemains: true, Detail: "a mark"})
}

func asksOwner(w *assessment) {
	w.cluster.Repairs[0].Steps[0] = core.Step{Remedy: "DeleteMachine", Nature: core.AskOwner}
}

func asksRemediator(w *assessment, limit time.Duration) {
	ails(w)
	w.cluster.Repairs[0].Steps[0] = core.Step{Remedy: "DeleteMachine", Nature: core.CreateRequest, Limit: limit}
}

// TestNext: the next change of a machine is told as in the golden file, where nothing else is known of it.
func TestNext(t *testing.T) {
	text := ""
	for _, sentence := range slices.Sorted(maps.Keys(nexts)) {
		s := newScene()
		s.check("other", time.Hour)
		if nexts[sentence].under {
			r := s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
			r.Spec.Ladder = append(r.Spec.Ladder, v1alpha1.RepairStep{Remedy: "Second"}, v1alpha1.RepairStep{Remedy: "Third"})
		}
		w := s.assessment()
		clear(w.finishOf)
		clear(w.actOf)
		if nexts[sentence].under {
			w.cluster.Repairs[0].Steps[1].Template = rebootTemplate
		}
		nexts[sentence].change(w)
		n, at := w.nextOf(0), "-"
		if n.At != nil {
			at = n.At.Format(time.TimeOnly)
		}
		text += sentence + "\n  " + cmp.Or(at, "-") + ": " + n.Text + "\n"
		if next := w.nextOf(4).Text; w.blocked == nil && next != "Nothing: it is healthy." {
			t.Errorf("%s: the next of another machine is %q", sentence, next)
		}
	}
	golden(t, "next.txt", text)
}

// TestNextOfRecovery: the machine's request is withdrawn by time, and the node's objects also when a person confirms.
func TestNextOfRecovery(t *testing.T) {
	until := noon.Add(time.Minute)
	for want, r := range map[string]Recovery{
		"12:01 Its request is withdrawn, if it is still healthy: a condition has just changed, and the agent that reports it may not have checked yet.": {Until: &until},
		"It is healthy again. Its remediation objects stay until a person confirms that: kubectl":                                                       {Confirm: "kubectl"},
		"12:01 Its remediation objects are deleted, if it is still healthy; or at once when a person confirms that: kubectl":                            {Until: &until, Confirm: "kubectl"},
	} {
		n := nextOfRecovery(&r)
		got := n.Text
		if n.At != nil {
			got = n.At.Format("15:04") + " " + got
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestUnknownFacts: each reason why a fact is unknown is told once, and a gate that is known is none of them.
func TestUnknownFacts(t *testing.T) {
	w := newScene().assessment()
	hides(w)
	want := "it is not known whether the cluster is being upgraded: you may not; it is not known whether another holder has the lease of its node: you may not"
	if got := w.whys([]core.Refusal{upgrading, leased, upgrading}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, refusals := range [][]core.Refusal{nil, {paused}, {upgrading, paused}} {
		if w.allHidden(refusals) {
			t.Errorf("all of %v are hidden", refusals)
		}
	}
}
