package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Commands returns the commands for users.
func Commands(o Options) []*cobra.Command {
	return append(sanitizeErrors(statusCommand(o), explainCommand(o), repairCommand(o), checkCommand(o)), bmcCommand(o))
}

func newSession(o Options) *session {
	return &session{Options: o, connection: newConnection(o.UserAgent)}
}

func statusCommand(o Options) *cobra.Command {
	s := newSession(o)
	limit := 20
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of health checks, what is not healthy, and what happens next",
		Long: "Show for each health check how many of its machines or nodes are healthy and whether repairs are allowed, then what is not healthy\n" +
			"and which gates hold it back, the repairs under way, and whether a Fettle controller leads.\n\n" +
			"It reads with your own kubeconfig and permissions, decides by the same rules as the controller, and changes nothing.\n" +
			"The exit status is 0, or 1 when the cluster could not be read.",
		Example: fmt.Sprintf("  %[1]s status\n  %[1]s status -A --watch\n  %[1]s status -A -o json", o.Name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return fmt.Errorf("--limit is %d; give the number of rows, or 0 for all", limit)
			}
			if err := s.open(cmd); err != nil {
				return err
			}
			s.concerns = s.aboutHealthChecks
			return s.run(cmd.Context(), s.status(limit))
		},
	}
	s.addFlags(cmd)
	s.chosen.addFlag(cmd.Flags(), "show this workload cluster of Cluster API alone, by the name of its Cluster; empty for the cluster of the kubeconfig")
	s.connection.addAllNamespaces(cmd.Flags())
	s.addWatch(cmd, "")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many rows a table has at most, the most severe first; 0 for all. Programs get all")
	return cmd
}

func (s *session) status(limit int) answerFunc {
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		assessments := s.assess(ctx, v)
		shown := slices.DeleteFunc(slices.Clone(assessments), func(w *assessment) bool { return !s.chosen.allows(w.key) })
		for _, w := range shown {
			h.Notes = append(append(h.Notes, w.notesOnLeftOver(s.namespace)...), w.notesAtOdds(s.namespace)...)
		}
		status := buildStatus(shown, s.namespace, h)
		return answer{value: &status, header: &status.Header, nextAt: nextOf(assessments), people: func(p *page) {
			where := "in namespace " + s.namespace
			if s.namespace == "" {
				where = "in any namespace"
			}
			sp := statusPage{page: *p, limit: limit, namespaces: s.namespace == "", where: where, command: s.Name}
			sp.all(&status)
		}}, nil
	}
}

// nextOf returns when time alone changes an answer, or zero for never.
func nextOf(assessments []*assessment) time.Time {
	var next time.Time
	for _, w := range assessments {
		if compareInstants(w.decision.NextAt, next) < 0 {
			next = w.decision.NextAt
		}
	}
	return next
}

func explainCommand(o Options) *cobra.Command {
	s := newSession(o)
	cmd := &cobra.Command{
		Use:   "explain (machine/NAME | node/NAME | repair/NAME | nodehealthcheck/NAME | machinehealthcheck/NAME)",
		Short: "Explain how a machine or node is judged, why it is or is not repaired, and what happens next",
		Long: "Explain how each health check judges a machine or a node, since when, until when, and which gate holds its repair back and what would\n" +
			"open it; the steps of its repair and when they time out, what Fettle has requested from remediators, and who has the lease of its node;\n" +
			"how far a repair has come, what it waits for, and what a person can do;\n" +
			"or what a health check selects, the state of its gates, what it repairs, and why nothing happens now.\n" +
			"Where two APIs have a MachineHealthCheck, its group says which is meant: machinehealthcheck.machine.openshift.io/NAME.\n\n" +
			"It reads with your own kubeconfig and permissions, decides by the same rules as the controller, and changes nothing.\n" +
			"The exit status is 0, or 1 when the object does not exist or the cluster could not be read.",
		Example: fmt.Sprintf("  %[1]s explain machine/worker-a -n openshift-machine-api\n  %[1]s explain node worker-a\n  %[1]s explain repair/worker-a-5b03cc19-1 --watch\n  %[1]s explain nodehealthcheck/workers", o.Name),
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := readSubject(args)
			if err != nil {
				return err
			}
			if err := s.open(cmd); err != nil {
				return err
			}
			return s.explain(cmd, of)
		},
		ValidArgsFunction: s.completeSubjects,
	}
	s.addFlags(cmd)
	s.chosen.addFlag(cmd.Flags(), "explain what is in this workload cluster of Cluster API, by the name of its Cluster; empty for the cluster of the kubeconfig")
	s.connection.addAllNamespaces(cmd.Flags())
	s.addWatch(cmd, ", or the explained thing is gone or has ended")
	return cmd
}

// explain answers for a subject. A node may belong to a machine in any namespace, so explain looks in all of them
// unless the user has named one.
func (s *session) explain(cmd *cobra.Command, of subject) error {
	if of.kind == repairSubject {
		s.concerns = s.aboutRepair(of.name)
		return s.run(cmd.Context(), s.explainedRepair(of))
	}
	if of.isCheck() {
		s.concerns = s.aboutCheck(of)
		return s.run(cmd.Context(), s.explainedCheck(of))
	}
	within := s.namespace
	if of.kind == nodeSubject && !s.connection.named(cmd) {
		within = ""
	}
	s.concerns = s.aboutTarget(of.kind, of.name, within)
	return s.run(cmd.Context(), s.explained(of.kind, of.name, within))
}

// explained explains a machine or a node. If it is deleted after an answer, that is the last answer.
func (s *session) explained(kind, name, within string) answerFunc {
	found := false
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		assessments := s.assess(ctx, v)
		h.Kind = kindExplanation
		e := Explanation{Header: h, Subject: Reference{Kind: kind, Namespace: within, Name: name}, Targets: []ExplainedTarget{}}
		in, err := s.findIn(assessments, kind, name, within)
		switch {
		case err != nil:
			return answer{}, err
		case len(in.targets) == 0:
			return s.explainedGone(ctx, v, assessments, &e, found)
		}
		found = true
		for _, i := range in.targets {
			e.Targets = append(e.Targets, s.explainedTarget(ctx, v, in.assessment, i))
		}
		e.Notes = append(e.Notes, in.notesAtOddsOn(in.targets)...)
		return answer{value: &e, header: &e.Header, nextAt: earliest(nextOf(assessments), e.Targets), people: func(p *page) { p.explanation(&e) }}, nil
	}
}

// explainedTarget reads the remaining facts about a target.
func (s *session) explainedTarget(ctx context.Context, v *view, w *assessment, target int) ExplainedTarget {
	meta := s.metadata(ctx, v, reference(w.cluster.Targets[target].ID))
	e := w.explainTarget(target, meta, v.unmet)
	if by, out := w.skippedBy(target); out && len(e.Verdicts) == 0 {
		e.Unselected = "It is excluded from all health checking, by " + by + " on it. It counts for no limit."
	}
	e.OwnerAnswer = s.ownerAnswer(ctx, v, w, target, meta)
	e.Next = nextOfRequested(e.Next, e.OwnerAnswer)
	return e
}

// earliest returns when an answer changes: at the given instant, or when an owner may go on.
func earliest(next time.Time, targets []ExplainedTarget) time.Time {
	for i := range targets {
		if targets[i].OwnerAnswer == nil {
			continue
		}
		for _, w := range targets[i].OwnerAnswer.Waits {
			if w.Until != nil && compareInstants(*w.Until, next) < 0 {
				next = *w.Until
			}
		}
	}
	return next
}

func (s *session) explainedRepair(of subject) answerFunc {
	found, name := false, of.name
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		assessments := s.assess(ctx, v)
		h.Kind = kindRepairExplanation
		if w, i, is := s.findRepair(assessments, name); is {
			found = true
			at := foundRepair{w, i}
			return at.answer(s.repairExplained(ctx, v, at), h, assessments), nil
		}
		if found {
			e := Explanation{Header: h, Subject: Reference{Kind: repairSubject, Name: name}, Targets: []ExplainedTarget{}, Message: "Repair " + name + " was deleted."}
			return answer{value: &e, header: &e.Header, ended: true, people: func(p *page) { p.explanation(&e) }}, nil
		}
		if why := v.ignored(s.namespace, name); why != "" {
			return answer{}, errors.New(why) //nolint:err113 // told to a person
		}
		return answer{}, s.notFound(ctx, of)
	}
}

func (s *session) findRepair(assessments []*assessment, name string) (in *assessment, repair int, found bool) {
	for _, w := range assessments {
		for i := range w.cluster.Repairs {
			r := &w.cluster.Repairs[i]
			here := s.namespace == "" || r.Namespace == s.namespace || r.Target.Namespace == ""
			if r.Name == name && here && s.chosen.allows(w.key) {
				return w, i, true
			}
		}
	}
	return nil, 0, false
}

// metadata reads the object of a target for its finalizers and annotations. Without them the explanation is shorter.
// The kind of the target is the one whose object has the target's UID.
func (s *session) metadata(ctx context.Context, v *view, id Reference) *metav1.PartialObjectMetadata {
	for _, kind := range kindsOf(s.cluster, v.sources(), id.Kind) {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(kind)
		if err := s.cluster.Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.Name}, m); err == nil && string(m.UID) == id.UID {
			return m
		}
	}
	return nil
}

// kindsOf returns the kinds of a name among those of the sources, each once.
func kindsOf(c client.Client, sources []Source, kind string) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for i := range sources {
		gvk, err := apiutil.GVKForObject(sources[i].List, c.Scheme())
		if err != nil || !strings.EqualFold(gvk.Kind, kind+"List") {
			continue
		}
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
		if !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	return kinds
}
