package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// isMeant reports whether a person means a health check of a group, in a namespace or in all.
func (o subject) isMeant(check core.ID, group, namespace string) bool {
	return strings.EqualFold(check.Kind, o.kind) && check.Name == o.name && isIn(check, namespace) && (o.group == "" || o.group == group)
}

// aboutCheck is about the clusters that have a health check of a name.
func (s *session) aboutCheck(of subject) concerns {
	return func(_ *view, f *Fleet) bool {
		return s.chosen.allows(f.Cluster) && slices.ContainsFunc(f.Policies, func(p core.Policy) bool {
			return strings.EqualFold(p.ID.Kind, of.kind) && p.ID.Name == of.name && isIn(p.ID, s.namespace)
		})
	}
}

// inCheck is where a health check was found; its world is nil where none was.
type inCheck struct {
	*world

	policy int
}

// findCheck finds the health check that a person means. Those of several APIs or namespaces are to be told apart by the
// person.
func (s *session) findCheck(worlds []*world, of subject) (inCheck, error) {
	var found []inCheck
	var ways []string
	for _, w := range worlds {
		for i := range w.policies {
			id, group := w.policies[i].ID, groupOf(w.dialectOf[i])
			if s.chosen.allows(w.cluster) && of.isMeant(id, group, s.namespace) {
				found = append(found, inCheck{w, i})
				ways = append(ways, fmt.Sprintf("%s.%s/%s%s", of.kind, group, of.name, inNamespace(id.Namespace)))
			}
		}
	}
	switch len(found) {
	case 0:
		return inCheck{}, nil
	case 1:
		return found[0], nil
	}
	return inCheck{}, several(of.kind, of.name, ways)
}

// explainedCheck explains a health check. Once found it may go, and that is the last answer.
func (s *session) explainedCheck(of subject) ask {
	found := false
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		worlds := s.worlds(ctx, v)
		in, err := s.findCheck(worlds, of)
		switch {
		case err != nil:
			return answer{}, err
		case in.world != nil:
			found = true
			e := in.explainCheck(in.policy)
			h.Kind = kindCheckExplanation
			h.Notes = append(h.Notes, in.notesOn(in.policy)...)
			e.Header = h
			return answer{value: &e, header: &e.Header, nextAt: nextOf(worlds), people: func(p *page) { p.checkExplanation(&e) }}, nil
		case !found:
			return answer{}, s.noCheck(ctx, v, of)
		}
		h.Kind = kindExplanation
		e := Explanation{
			Header: h, Subject: Reference{Kind: of.kind, Namespace: s.namespace, Name: of.name}, Targets: []ExplainedTarget{},
			Message: sentence("there is no " + of.kind + " " + of.name + " any more"),
		}
		return answer{value: &e, header: &e.Header, ended: true, people: func(p *page) { p.explanation(&e) }}, nil
	}
}

// noCheck says that there is no such health check, and what could not be read.
func (s *session) noCheck(ctx context.Context, v *view, of subject) error {
	err := s.notFound(ctx, of)
	if len(v.notes) > 0 {
		return errors.New(err.Error() + ". " + strings.Join(v.notes, " ")) //nolint:err113 // told to a person
	}
	return err
}
