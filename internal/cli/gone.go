package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// isRepairOf reports whether a repair is of a machine or a node of a name, in a namespace or in all.
func isRepairOf(r *core.Repair, kind, name, namespace string) bool {
	here := namespace == "" || r.Target.Namespace == "" || r.Target.Namespace == namespace
	named := strings.EqualFold(r.Target.Kind, kind) && r.Target.Name == name
	return here && (named || (kind == nodeSubject && r.Node == name))
}

// foundRepair is a repair that was found. Its assessment is nil if none was.
type foundRepair struct {
	*assessment

	repair int
}

// repairOfGone finds the repair that explains a target that is gone: the running one, or the last that ended. If
// several clusters have one, the error says how to name one.
func (s *session) repairOfGone(assessments []*assessment, kind, name, within string) (foundRepair, error) {
	var found []foundRepair
	var ways []string
	for _, w := range assessments {
		if of := w.lastRepair(kind, name, within); of >= 0 && s.chosen.allows(w.key) {
			found = append(found, foundRepair{w, of})
			ways = append(ways, w.chosenBy(w.cluster.Repairs[of].Target.Namespace))
		}
	}
	switch len(found) {
	case 0:
		return foundRepair{}, nil
	case 1:
		return found[0], nil
	}
	return foundRepair{}, ambiguous(kind, name, ways)
}

// lastRepair returns the index of the last repair of a name, or -1.
func (w *assessment) lastRepair(kind, name, within string) int {
	last := -1
	for i := range w.cluster.Repairs {
		r := &w.cluster.Repairs[i]
		if isRepairOf(r, kind, name, within) && (last < 0 || later(r, &w.cluster.Repairs[last])) {
			last = i
		}
	}
	return last
}

// later reports whether a repair explains more than another: it runs, or it ended later.
func later(a, b *core.Repair) bool {
	return cmp.Or(compareInstants(a.Ended, b.Ended), a.Started.Compare(b.Started)) > 0
}

// goneText says that the answer is about the repair of a target that is gone.
func goneText(kind, name string, r *core.Repair) string {
	if r.Running() {
		return fmt.Sprintf("There is no %s %s any more. Its repair is under way:", kind, name)
	}
	return fmt.Sprintf("There is no %s %s any more. This is its last repair:", kind, name)
}

// underWayOfGone describes the step under way of a repair whose target is gone. No further step follows.
func (w *assessment) underWayOfGone(repair int, s *Step) {
	r := &w.cluster.Repairs[repair]
	step := &r.Steps[len(r.Tried)]
	if why, hidden := w.hiddenStep(r); hidden {
		s.State, s.Message = stepUnknown, why
		return
	}
	q, stands := requestUnderWay(r, w.requestsAbout(r.Target))
	_, ends := w.finishOf[repair]
	ends = ends || stands && w.withdraws(&q.ID)
	switch {
	case stands && !ends:
		s.State = stepUnderWay
		if step.Limit > 0 {
			s.Ends = instant(r.StepEnds(step, q))
		}
	case ends:
		s.State, s.Message = stepEnded, "its target is gone"
	default:
		s.State, s.Message = stepUnknown, "its target is gone, and its remediation object can't be read"
	}
}

// withdraws reports whether Fettle withdraws a request now.
func (w *assessment) withdraws(id *core.ID) bool {
	return slices.ContainsFunc(w.decision.Withdrawals, func(x core.Withdrawal) bool { return w.cluster.Requests[x.Request].ID == *id })
}

// hiddenStep says why the request of a repair's step under way is not known. It reports false where it is known.
func (w *assessment) hiddenStep(r *core.Repair) (string, bool) {
	if len(r.Tried) >= len(r.Steps) || !r.Steps[len(r.Tried)].Nature.Effect().NeedsWithdrawal {
		return "", false
	}
	return w.unread.requests(r.Steps[len(r.Tried)])
}

// nextOfGone says what happens next for a running repair whose target is gone.
func (w *assessment) nextOfGone(repair int) Next {
	r := &w.cluster.Repairs[repair]
	kind := kindWord(r.Target)
	if w.blocked != nil {
		return w.nextUnjudged()
	}
	if f, ends := w.finishOf[repair]; ends {
		return Next{At: instant(w.at), Text: fmt.Sprintf("The repair ends as %s: %s.", f.Outcome, f.Text)}
	}
	q, stands := requestUnderWay(r, w.requestsAbout(r.Target))
	if why, hidden := w.hiddenStep(r); hidden {
		return Next{Text: "The " + kind + " is gone; it is not known whether its repair goes on: " + why + "."}
	}
	if !stands {
		return Next{Text: "The " + kind + " is gone; the repair ends once Fettle sees the end of its request to the remediator."}
	}
	if w.withdraws(&q.ID) {
		return Next{At: instant(w.at), Text: fmt.Sprintf("The repair ends once Fettle has withdrawn %s, since the %s is gone.", q.ID, kind)}
	}
	text := fmt.Sprintf("The %s is gone, and %s has not reported its replacement yet; the repair ends when it does, or when a healthy %s of that name exists.", kind, q.ID, kind)
	if step := w.stepsOf(repair)[len(r.Tried)]; step.Ends != nil {
		return Next{At: step.Ends, Text: "The repair ends at the latest. " + text}
	}
	return Next{Text: text}
}

// explainedGone answers for a name without a target: by a node that is no target, or by the last repair. Before is set
// if an earlier answer had the target.
func (s *session) explainedGone(ctx context.Context, v *view, assessments []*assessment, e *Explanation, before bool) (answer, error) {
	kind, name, within := e.Subject.Kind, e.Subject.Name, e.Subject.Namespace
	result := answer{value: e, header: &e.Header, nextAt: nextOf(assessments), people: func(p *page) { p.explanation(e) }}
	if kind == nodeSubject && !before {
		exists, err := s.nodeExists(ctx, name)
		if err != nil {
			return answer{}, err
		}
		if exists {
			home := assessments[slices.IndexFunc(assessments, func(w *assessment) bool { return w.key == core.ClusterKey{} })]
			e.Message = home.unknownNode(name, within, v)
			return result, nil
		}
	}
	of, err := s.repairOfGone(assessments, kind, name, within)
	switch {
	case err != nil:
		return answer{}, err
	case of.assessment != nil:
		r := s.repairExplained(ctx, v, of)
		r.Message = goneText(kind, name, &of.cluster.Repairs[of.repair])
		return of.answer(r, e.Header, assessments), nil
	case !before:
		return answer{}, s.notFound(ctx, subject{kind: kind, name: name})
	}
	e.Message, result.ended = sentence("there is no "+kind+" "+name+" any more"), true
	return result, nil
}

// repairExplained reads the remaining facts about a repair.
func (s *session) repairExplained(ctx context.Context, v *view, of foundRepair) *RepairExplanation {
	r := &of.cluster.Repairs[of.repair]
	e := of.explainRepair(of.repair, s.metadata(ctx, v, reference(r.Target)))
	if target := of.targetOf(of.repair); target >= 0 && r.Running() {
		t := s.explainedTarget(ctx, v, of.assessment, target)
		e.Target.OwnerAnswer, e.Next = t.OwnerAnswer, nextOfRequested(e.Next, t.OwnerAnswer)
	}
	return &e
}

// answer returns the answer about a repair.
func (of foundRepair) answer(e *RepairExplanation, h Header, assessments []*assessment) answer {
	h.Kind = kindRepairExplanation
	e.Header = h
	return answer{value: e, header: &e.Header, ended: !of.cluster.Repairs[of.repair].Running(), nextAt: nextOf(assessments), people: func(p *page) { p.repairExplanation(e) }}
}
