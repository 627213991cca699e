package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// matches reports whether the user means a health check of a group, in a namespace or in all.
func (o subject) matches(check core.ID, group, namespace string) bool {
	return strings.EqualFold(check.Kind, o.kind) && check.Name == o.name && isIn(check, namespace) && (o.group == "" || o.group == group)
}

// aboutCheck selects the clusters that have a health check of a name.
func (s *session) aboutCheck(of subject) clusterFilter {
	return func(_ *view, f *ClusterObservation) bool {
		return s.chosen.allows(f.Cluster) && slices.ContainsFunc(f.Policies, func(p core.Policy) bool {
			return strings.EqualFold(p.ID.Kind, of.kind) && p.ID.Name == of.name && isIn(p.ID, s.namespace)
		})
	}
}

// foundCheck is a health check that was found. Its assessment is nil if none was.
type foundCheck struct {
	*assessment

	policy int
}

// findCheck finds the health check that the user means. If there are several, the error says how to name one.
func (s *session) findCheck(assessments []*assessment, of subject) (foundCheck, error) {
	var found []foundCheck
	var ways []string
	for _, w := range assessments {
		for i := range w.policies {
			id, group := w.policies[i].ID, groupOf(w.dialectOf[i])
			if s.chosen.allows(w.key) && of.matches(id, group, s.namespace) {
				found = append(found, foundCheck{w, i})
				ways = append(ways, fmt.Sprintf("%s.%s/%s%s", of.kind, group, of.name, inNamespace(id.Namespace)))
			}
		}
	}
	switch len(found) {
	case 0:
		return foundCheck{}, nil
	case 1:
		return found[0], nil
	}
	return foundCheck{}, ambiguous(of.kind, of.name, ways)
}

// explainedCheck explains a health check. If it is deleted after an answer, that is the last answer.
func (s *session) explainedCheck(of subject) answerFunc {
	found := false
	return func(ctx context.Context, v *view, h Header) (answer, error) {
		assessments := s.assess(ctx, v)
		in, err := s.findCheck(assessments, of)
		switch {
		case err != nil:
			return answer{}, err
		case in.assessment != nil:
			found = true
			e := in.explainCheck(in.policy)
			h.Kind = kindCheckExplanation
			h.Notes = append(h.Notes, in.notesOn(in.policy)...)
			e.Header = h
			return answer{value: &e, header: &e.Header, nextAt: nextOf(assessments), people: func(p *page) { p.checkExplanation(&e) }}, nil
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

// noCheck says that there is no such health check, and which facts could not be read.
func (s *session) noCheck(ctx context.Context, v *view, of subject) error {
	err := s.notFound(ctx, of)
	if len(v.notes) > 0 {
		return errors.New(err.Error() + ". " + strings.Join(v.notes, " ")) //nolint:err113 // told to a person
	}
	return err
}
