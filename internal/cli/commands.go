package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
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
			return s.run(cmd.Context(), s.status(limit))
		},
	}
	s.addFlags(cmd)
	s.connection.addAllNamespaces(cmd.Flags())
	s.addWatch(cmd, "")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many rows a table has at most, the gravest first; 0 for all. Programs are given all")
	return cmd
}

func (s *session) status(limit int) ask {
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		w := s.world(ctx, v)
		status := buildStatus(w, s.namespace, h)
		return answer{value: &status, header: &status.Header, nextAt: w.decision.NextAt, people: func(p *page) {
			where := "in namespace " + s.namespace
			if s.namespace == "" {
				where = "in any namespace"
			}
			sp := statusPage{page: *p, limit: limit, namespaces: s.namespace == "", where: where, command: s.Name}
			sp.all(&status)
		}}, nil
	}
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
	s.connection.addAllNamespaces(cmd.Flags())
	s.addWatch(cmd, ", or the explained thing is gone or has ended")
	return cmd
}

// explain answers for a subject. A node may belong to a machine in any namespace, so all are meant unless the person has
// named one.
func (s *session) explain(cmd *cobra.Command, kind, name string) error {
	if kind == repairSubject {
		return s.run(cmd.Context(), s.explainedRepair(name))
	}
	within := s.namespace
	if kind == nodeSubject && !s.connection.named(cmd) {
		within = ""
	}
	return s.run(cmd.Context(), s.explained(kind, name, within))
}

// explained explains a machine or a node. Once found it may go, and that is the last answer.
func (s *session) explained(kind, name, within string) ask {
	found := false
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		w := s.world(ctx, v)
		h.Kind = kindExplanation
		e := Explanation{Header: h, Subject: Reference{Kind: kind, Namespace: within, Name: name}, Targets: []ExplainedTarget{}}
		targets := w.find(kind, name, within)
		ended := false
		switch {
		case len(targets) > 0:
			found = true
		case found:
			e.Message, ended = sentence("there is no "+kind+" "+name+" any more"), true
		case kind == nodeSubject:
			message, err := s.nodeAlone(ctx, v, w, name, within)
			if err != nil {
				return answer{}, err
			}
			e.Message = message
		default:
			return answer{}, s.notFound(ctx, kind, name)
		}
		for _, i := range targets {
			id := reference(w.fleet.Targets[i].ID)
			e.Targets = append(e.Targets, w.explainTarget(i, s.metadata(ctx, v, id), v.unmet))
		}
		return answer{value: &e, header: &e.Header, ended: ended, nextAt: w.decision.NextAt, people: func(p *page) { p.explanation(&e) }}, nil
	}
}

func (s *session) explainedRepair(name string) ask {
	found := false
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		w := s.world(ctx, v)
		h.Kind = kindRepairExplanation
		for i := range w.fleet.Repairs {
			r := &w.fleet.Repairs[i]
			here := s.namespace == "" || r.Namespace == s.namespace || r.Target.Namespace == ""
			if r.Name != name || !here {
				continue
			}
			found = true
			e := w.explainRepair(i, s.metadata(ctx, v, reference(r.Target)))
			e.Header = h
			return answer{value: &e, header: &e.Header, ended: !r.Running(), nextAt: w.decision.NextAt, people: func(p *page) { p.repairExplanation(&e) }}, nil
		}
		if found {
			e := Explanation{Header: h, Subject: Reference{Kind: repairSubject, Name: name}, Targets: []ExplainedTarget{}, Message: "Somebody has deleted repair " + name + "."}
			return answer{value: &e, header: &e.Header, ended: true, people: func(p *page) { p.explanation(&e) }}, nil
		}
		return answer{}, s.notFound(ctx, repairSubject, name)
	}
}

// metadata reads a target's own object for its finalizers. Without them the explanation is shorter.
func (s *session) metadata(ctx context.Context, v *view, id Reference) *metav1.PartialObjectMetadata {
	kind, known := kindOf(s.cluster, v.sources(), id.Kind)
	if !known {
		return nil
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(kind)
	if err := s.cluster.Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.Name}, m); err != nil || string(m.UID) != id.UID {
		return nil
	}
	return m
}

// kindOf finds a kind among those of the sources.
func kindOf(c client.Client, sources []Source, kind string) (schema.GroupVersionKind, bool) {
	for i := range sources {
		gvk, err := apiutil.GVKForObject(sources[i].List, c.Scheme())
		if err == nil && strings.EqualFold(gvk.Kind, kind+"List") {
			gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
			return gvk, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// nodeAlone answers for a node that is no target, or that is not there.
func (s *session) nodeAlone(ctx context.Context, v *view, w *world, name, within string) (string, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	err := s.cluster.Get(ctx, types.NamespacedName{Name: name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return "", s.notFound(ctx, nodeSubject, name)
	case err != nil:
		return "", explainFailure("get", Source{Resource: schema.GroupResource{Resource: "nodes"}}, "", err)
	}
	return w.unknownNode(name, within, v), nil
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
	gvk, known := s.gvk(kind)
	if !known {
		return nil, nil
	}
	elsewhere = map[string][]string{}
	all, err := named(ctx, s.cluster, gvk, "")
	if err != nil {
		all, _ = named(ctx, s.cluster, gvk, s.namespace) // a courtesy
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

// gvk gives the kind that a subject's word stands for.
func (s *session) gvk(subject string) (schema.GroupVersionKind, bool) {
	if subject == repairSubject {
		return v1alpha1.GroupVersion.WithKind("Repair"), true
	}
	for _, d := range s.Dialects {
		if kind, known := kindOf(s.cluster, d.Read().Sources(), subject); known {
			return kind, true
		}
	}
	return schema.GroupVersionKind{}, false
}
