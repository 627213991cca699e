package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

func repairCommand(o Options) *cobra.Command {
	s := newSession(o)
	dry := false
	cmd := &cobra.Command{
		Use:   "repair (machine/NAME | node/NAME)",
		Short: "Ask Fettle to repair a machine or a node that no criterion finds unhealthy",
		Long: "Ask Fettle to repair a machine or a node whatever its health is. The command writes the annotation " + annotation.RepairRequestedAt + "\n" +
			"with your own kubeconfig and permissions. The controller does the repair, by the steps of the health check that selects the target.\n" +
			"All gates hold: limits, pauses, quorum, back-off, leases, upgrades. The command says which of them are closed now.\n\n" +
			"You need the rights to get, patch and delete the machine or node, since a repair may delete it.\n" +
			fmt.Sprintf("A request serves for one repair, and lapses after %s if no repair begins.\n", core.RequestLasts) +
			"The exit status is 0, or 1 when the request was not made.",
		Example: fmt.Sprintf("  %[1]s repair machine/worker-a -n openshift-machine-api\n  %[1]s repair node/worker-a --dry-run", o.Name),
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := readSubject(args)
			switch {
			case err != nil:
				return err
			case of.kind != machineSubject && of.kind != nodeSubject:
				return fmt.Errorf("a %s can't be repaired; give machine/NAME or node/NAME", of.kind)
			}
			if err := s.open(cmd); err != nil {
				return err
			}
			within := s.namespace
			if of.kind == nodeSubject && !s.connection.named(cmd) {
				within = ""
			}
			s.concerns = s.aboutTarget(of.kind, of.name, within)
			return s.run(cmd.Context(), s.requested(of, within, dry))
		},
		ValidArgsFunction: s.completeSubjects,
	}
	s.addFlags(cmd)
	s.chosen.addFlag(cmd.Flags(), "repair what is in this workload cluster of Cluster API, by the name of its Cluster; empty for the cluster of the kubeconfig")
	s.connection.addAllNamespaces(cmd.Flags())
	cmd.Flags().BoolVar(&dry, "dry-run", false, "have the API server check the request and write nothing")
	return cmd
}

// requested writes a repair request, and answers with the state after it.
func (s *session) requested(of subject, within string, dry bool) answerFunc {
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		assessments := s.assess(ctx, v)
		in, err := s.repairable(ctx, v, assessments, of, within)
		if err != nil {
			return answer{}, err
		}
		target := in.targets[0]
		id, at := in.cluster.Targets[target].ID, in.requestTime(target, v.at)
		object, err := s.objectOf(ctx, v, id)
		if err != nil {
			return answer{}, err
		}
		if err := s.writeRequest(ctx, object, id, at, dry); err != nil {
			return answer{}, err
		}
		in.cluster.Targets[target].RepairRequest = core.RepairRequest{At: at}
		in.decide()
		if v.readQuorum(ctx, s.cluster, in.assessment) {
			in.decide()
		}
		h.Kind = kindRepairRequest
		h.Notes = append(h.Notes, in.notesAtOddsOn(in.targets)...)
		r := RepairRequest{
			Header: h, Written: !dry, Message: in.requestedText(target, at, dry), Target: s.explainedTarget(ctx, v, in.assessment, target),
			HealthChecks: in.selecting(target), Undo: undo(object),
		}
		return answer{value: &r, header: &r.Header, people: func(p *page) { p.repairRequest(&r) }}, nil
	}
}

// repairable finds the one target that the user means. It returns an error where a request would have no effect.
func (s *session) repairable(ctx context.Context, v *view, assessments []*assessment, of subject, within string) (foundTargets, error) {
	in, err := s.findIn(assessments, of.kind, of.name, within)
	switch {
	case err != nil:
		return foundTargets{}, err
	case len(in.targets) == 0:
		return foundTargets{}, s.noTarget(ctx, v, assessments, of, within)
	}
	in.targets = in.preferNode()
	if len(in.targets) > 1 {
		var ways []string
		for _, i := range in.targets {
			id := in.cluster.Targets[i].ID
			ways = append(ways, kindWord(id)+"/"+id.Name+inNamespace(id.Namespace))
		}
		return foundTargets{}, ambiguous(of.kind, of.name, ways)
	}
	if err := in.refuseRequest(in.targets[0], v.unmet); err != nil {
		return foundTargets{}, err
	}
	return in, nil
}

// preferNode drops the machine of a node that the user names, if a health check selects the node.
func (in foundTargets) preferNode() []int {
	node := slices.DeleteFunc(slices.Clone(in.targets), func(i int) bool { return kindWord(in.cluster.Targets[i].ID) != nodeSubject })
	if len(node) > 0 {
		return node
	}
	return in.targets
}

// noTarget says why no target of a name can be repaired.
func (s *session) noTarget(ctx context.Context, v *view, assessments []*assessment, of subject, within string) error {
	e := Explanation{Subject: Reference{Kind: of.kind, Namespace: within, Name: of.name}}
	a, err := s.explainedGone(ctx, v, assessments, &e, false)
	if err != nil {
		return err
	}
	if r, gone := a.value.(*RepairExplanation); gone {
		return fmt.Errorf("there is no %s %s any more, so no repair was requested; fettle explain repair/%s shows its last repair", of.kind, of.name, r.Repair.Name) //nolint:err113 // told to a person
	}
	return errors.New(e.Message + " So fettle has requested nothing; have a health check select it first.") //nolint:err113 // told to a person
}

// refuseRequest says why a request about a target would have no effect, or returns nil.
func (w *assessment) refuseRequest(target int, lacks unmet) error {
	id := w.cluster.Targets[target].ID
	var why string
	repair, repaired := w.repairOf(target)
	switch by, out := w.skippedBy(target); {
	case w.cluster.Targets[target].Deleting:
		why = "it is being deleted already; fettle explain says what that waits for"
	case out:
		why = "it is excluded from all health checking, by " + by + " on it; remove that first"
	case len(w.verdictsOf[target]) == 0:
		why = "no health check selects it, so none says how it is repaired. " + w.nearest(id, lacks) + " Have one select it first"
	case repaired && w.exhausted(repair):
		why = fmt.Sprintf("every step of repair %s was tried without success, and a request repeats none of them; repair the %s by hand. "+
			"Once it is healthy the repair ends, and you may request another", w.cluster.Repairs[repair].Name, kindWord(id))
	case repaired:
		why = fmt.Sprintf("repair %s is under way; fettle explain repair/%s says how far it has come", w.cluster.Repairs[repair].Name, w.cluster.Repairs[repair].Name)
	default:
		return nil
	}
	return fmt.Errorf("no repair of %s was requested: %s", id, why) //nolint:err113 // told to a person
}

// exhausted reports whether a repair has given up its last step.
func (w *assessment) exhausted(repair int) bool {
	r := &w.cluster.Repairs[repair]
	return len(r.Tried) > 0 && len(r.Tried) >= len(r.Steps)
}

// requestTime returns the time of a request: now, or the second after the last repair. The clock of that repair may be
// ahead.
func (w *assessment) requestTime(target int, now time.Time) time.Time {
	at := now.UTC().Truncate(time.Second)
	t := &w.cluster.Targets[target]
	for i := range w.cluster.Repairs {
		r := &w.cluster.Repairs[i]
		if mine := r.Target == t.ID || (r.Node != "" && r.Node == t.Node.Name); mine && !r.Running() {
			at = after(after(at, r.Ended), r.Requested)
		}
	}
	return at
}

// after returns the first time, or the second after the other if the first is not later.
func after(at, other time.Time) time.Time {
	if at.After(other) {
		return at
	}
	return other.UTC().Truncate(time.Second).Add(time.Second)
}

// requestedText says what the command did.
func (w *assessment) requestedText(target int, at time.Time, dry bool) string {
	id := w.cluster.Targets[target].ID
	what := fmt.Sprintf("a repair of %s %s, by annotation %s=%s", kindWord(id), qualified(reference(id)), annotation.RepairRequestedAt, at.Format(time.RFC3339))
	if dry {
		return "Nothing was written. The API server would accept the request for " + what + ". The result would be as follows."
	}
	return "Requested " + what + "."
}

// selecting returns the health checks that select a target, with the gates that don't depend on a target.
func (w *assessment) selecting(target int) []SelectingCheck {
	checks := []SelectingCheck{}
	for _, v := range w.groupVerdicts[w.groups[target]] {
		id := reference(w.policies[v.Policy].ID)
		if !slices.ContainsFunc(checks, func(c SelectingCheck) bool { return c.Reference == id }) {
			checks = append(checks, SelectingCheck{Reference: id, Gates: w.policyGates(v.Policy)})
		}
	}
	return checks
}
