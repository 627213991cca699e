package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/ledger"
)

// Commands are what a person asks Fettle with.
func Commands(o Options) []*cobra.Command {
	return []*cobra.Command{statusCommand(o), explainCommand(o), checkCommand(o)}
}

func newSession(o Options) *session {
	return &session{Options: o, connection: newConnection(o.UserAgent)}
}

func statusCommand(o Options) *cobra.Command {
	s := newSession(o)
	limit := 20
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how health checks stand, what is not healthy, and what happens next",
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
			s.about = s.aboutHealthChecks
			return s.run(cmd.Context(), s.status(limit))
		},
	}
	s.addFlags(cmd)
	s.chosen.addFlag(cmd.Flags(), "show this workload cluster of Cluster API alone, by the name of its Cluster; empty for the cluster that is asked itself")
	s.connection.addAllNamespaces(cmd.Flags())
	s.addWatch(cmd, "")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many rows a table has at most, the gravest first; 0 for all. Programs are given all")
	return cmd
}

func (s *session) status(limit int) ask {
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		worlds := s.worlds(ctx, v)
		status := buildStatus(slices.DeleteFunc(slices.Clone(worlds), func(w *world) bool { return !s.chosen.allows(w.cluster) }), s.namespace, h)
		return answer{value: &status, header: &status.Header, nextAt: nextOf(worlds), people: func(p *page) {
			where := "in namespace " + s.namespace
			if s.namespace == "" {
				where = "in any namespace"
			}
			sp := statusPage{page: *p, limit: limit, namespaces: s.namespace == "", where: where, command: s.Name}
			sp.all(&status)
		}}, nil
	}
}

// nextOf is when time alone changes something, zero for never.
func nextOf(worlds []*world) time.Time {
	var next time.Time
	for _, w := range worlds {
		if compareInstants(w.decision.NextAt, next) < 0 {
			next = w.decision.NextAt
		}
	}
	return next
}

func explainCommand(o Options) *cobra.Command {
	s := newSession(o)
	cmd := &cobra.Command{
		Use:   "explain (machine/NAME | node/NAME | repair/NAME)",
		Short: "Explain how a machine or node is judged, why it is or is not repaired, and what happens next",
		Long: "Explain how each health check judges a machine or a node, since when, until when, and which gate holds its repair back and what would\n" +
			"open it; the steps of its repair and when they time out, what remediators were asked for, and who has the lease of its node;\n" +
			"or how far a repair has come, what it waits for, and what a person can do.\n\n" +
			"It reads with your own kubeconfig and permissions, decides by the same rules as the controller, and changes nothing.\n" +
			"The exit status is 0, or 1 when there is no such thing or the cluster could not be read.",
		Example: fmt.Sprintf("  %[1]s explain machine/worker-a -n openshift-machine-api\n  %[1]s explain node worker-a\n  %[1]s explain repair/worker-a-5b03cc19-1 --watch", o.Name),
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := readSubject(args)
			if err != nil {
				return err
			}
			if err := s.open(cmd); err != nil {
				return err
			}
			return s.explain(cmd, kind, name)
		},
		ValidArgsFunction: s.completeSubjects,
	}
	s.addFlags(cmd)
	s.chosen.addFlag(cmd.Flags(), "explain what is in this workload cluster of Cluster API, by the name of its Cluster; empty for the cluster that is asked itself")
	s.connection.addAllNamespaces(cmd.Flags())
	s.addWatch(cmd, ", or the explained thing is gone or has ended")
	return cmd
}

// explain answers for a subject. A node may belong to a machine in any namespace, so all are meant unless the person has
// named one.
func (s *session) explain(cmd *cobra.Command, kind, name string) error {
	if kind == repairSubject {
		s.about = s.aboutRepair(name)
		return s.run(cmd.Context(), s.explainedRepair(name))
	}
	within := s.namespace
	if kind == nodeSubject && !s.connection.named(cmd) {
		within = ""
	}
	s.about = s.aboutTarget(kind, name, within)
	return s.run(cmd.Context(), s.explained(kind, name, within))
}

// explained explains a machine or a node. Once found it may go, and that is the last answer.
func (s *session) explained(kind, name, within string) ask {
	found := false
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		worlds := s.worlds(ctx, v)
		h.Kind = kindExplanation
		e := Explanation{Header: h, Subject: Reference{Kind: kind, Namespace: within, Name: name}, Targets: []ExplainedTarget{}}
		in, err := s.findIn(worlds, kind, name, within)
		ended := false
		switch {
		case err != nil:
			return answer{}, err
		case len(in.targets) > 0:
			found = true
		case found:
			e.Message, ended = sentence("there is no "+kind+" "+name+" any more"), true
		case kind == nodeSubject:
			message, err := s.nodeAlone(ctx, v, worlds, name, within)
			if err != nil {
				return answer{}, err
			}
			e.Message = message
		default:
			return answer{}, s.notFound(ctx, kind, name)
		}
		for _, i := range in.targets {
			e.Targets = append(e.Targets, s.explainedTarget(ctx, v, in.world, i))
		}
		return answer{value: &e, header: &e.Header, ended: ended, nextAt: earliest(nextOf(worlds), e.Targets), people: func(p *page) { p.explanation(&e) }}, nil
	}
}

// explainedTarget reads what else there is to know of a target.
func (s *session) explainedTarget(ctx context.Context, v *view, w *world, target int) ExplainedTarget {
	meta := s.metadata(ctx, v, reference(w.fleet.Targets[target].ID))
	e := w.explainTarget(target, meta, v.unmet)
	if by, out := w.leftOut(target); out && len(e.Verdicts) == 0 {
		e.Unselected = "Somebody has taken it out of all health checking, by " + by + " on it. It counts for no limit."
	}
	e.OwnerAnswer = s.ownerAnswer(ctx, v, w, target, meta)
	e.Next = nextOfAsked(e.Next, e.OwnerAnswer)
	return e
}

// earliest is when an answer changes: the instant given, or the first at which an owner may go on.
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

func (s *session) explainedRepair(name string) ask {
	found := false
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		worlds := s.worlds(ctx, v)
		h.Kind = kindRepairExplanation
		if w, i, is := s.findRepair(worlds, name); is {
			found = true
			r := &w.fleet.Repairs[i]
			e := w.explainRepair(i, s.metadata(ctx, v, reference(r.Target)))
			if target := w.targetOf(i); target >= 0 && r.Running() {
				t := s.explainedTarget(ctx, v, w, target)
				e.Target.OwnerAnswer, e.Next = t.OwnerAnswer, nextOfAsked(e.Next, t.OwnerAnswer)
			}
			e.Header = h
			return answer{value: &e, header: &e.Header, ended: !r.Running(), nextAt: nextOf(worlds), people: func(p *page) { p.repairExplanation(&e) }}, nil
		}
		if found {
			e := Explanation{Header: h, Subject: Reference{Kind: repairSubject, Name: name}, Targets: []ExplainedTarget{}, Message: "Somebody has deleted repair " + name + "."}
			return answer{value: &e, header: &e.Header, ended: true, people: func(p *page) { p.explanation(&e) }}, nil
		}
		return answer{}, s.notFound(ctx, repairSubject, name)
	}
}

func (s *session) findRepair(worlds []*world, name string) (in *world, repair int, found bool) {
	for _, w := range worlds {
		for i := range w.fleet.Repairs {
			r := &w.fleet.Repairs[i]
			here := s.namespace == "" || r.Namespace == s.namespace || r.Target.Namespace == ""
			if r.Name == name && here && s.chosen.allows(w.cluster) {
				return w, i, true
			}
		}
	}
	return nil, 0, false
}

// metadata reads a target's own object for its finalizers and annotations. Without them the explanation is shorter. Of
// several kinds of a name, the one is meant that has an object with the target's UID.
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

// kindsOf finds the kinds of a name among those of the sources, each once.
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

// nodeAlone answers for a node that is no target, or that is not there.
func (s *session) nodeAlone(ctx context.Context, v *view, worlds []*world, name, within string) (string, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	err := s.cluster.Get(ctx, types.NamespacedName{Name: name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return "", s.notFound(ctx, nodeSubject, name)
	case err != nil:
		return "", explainFailure("get", Source{Resource: schema.GroupResource{Resource: "nodes"}}, "", err)
	}
	home := worlds[slices.IndexFunc(worlds, func(w *world) bool { return w.cluster == ledger.Fleet{} })]
	return home.unknownNode(name, within, v), nil
}

// notFound says that there is no such thing, and which ones come close.
func (s *session) notFound(ctx context.Context, kind, name string) error {
	where := ""
	if s.namespace != "" && kind != nodeSubject {
		where = " in namespace " + s.namespace
	}
	text := fmt.Sprintf("there is no %s %s%s", kind, name, where)
	here, elsewhere := s.names(ctx, kind)
	if len(elsewhere[name]) > 0 {
		return fmt.Errorf("%s; there is one in namespace %s (add -n %s)", text, strings.Join(elsewhere[name], ", "), elsewhere[name][0])
	}
	if near := closest(name, here); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, ", "))
	}
	if kind == nodeSubject {
		return fmt.Errorf("%s; kubectl get nodes lists them", text)
	}
	return fmt.Errorf("%s; kubectl get %ss -A lists them", text, kind)
}

// names gives the names of a kind in the namespace, and the namespaces of those in others. It is a
// courtesy, so what can't be read is left out.
func (s *session) names(ctx context.Context, kind string) (here []string, elsewhere map[string][]string) {
	elsewhere = map[string][]string{}
	var all []types.NamespacedName
	for _, gvk := range s.kinds(kind) {
		some, err := named(ctx, s.cluster, gvk, "")
		if err != nil {
			some, _ = named(ctx, s.cluster, gvk, s.namespace) // a courtesy
		}
		all = append(all, some...)
	}
	for _, n := range all {
		if s.namespace == "" || n.Namespace == s.namespace || n.Namespace == "" {
			here = append(here, n.Name)
		} else {
			elsewhere[n.Name] = append(elsewhere[n.Name], n.Namespace)
		}
	}
	return here, elsewhere
}

// kinds gives the kinds that a subject's word stands for.
func (s *session) kinds(subject string) []schema.GroupVersionKind {
	if subject == repairSubject {
		return []schema.GroupVersionKind{v1alpha1.GroupVersion.WithKind("Repair")}
	}
	var sources []Source
	for _, d := range s.Dialects {
		sources = append(sources, d.Read().Sources()...)
	}
	return kindsOf(s.cluster, sources, subject)
}
