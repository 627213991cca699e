package template

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/core"
)

// inOrder gives the kinds in the order in which they came.
func (c *Client) inOrder() []schema.GroupVersionKind { return c.order }

// known gives a kind that is kept, nil for others.
func (c *Client) known(gvk schema.GroupVersionKind) *kind { return c.kinds[gvk] }

// registry has what is known of kinds.
type registry interface {
	// need gives a kind that a ladder needs.
	need(gvk schema.GroupVersionKind) *kind
	// inOrder gives all kinds that there may be, and known what is known of one, nil for nothing.
	inOrder() []schema.GroupVersionKind
	known(gvk schema.GroupVersionKind) *kind
}

// census goes through what is known of kinds, for one fleet. Whoever takes it holds the kinds still meanwhile.
type census struct {
	registry

	fleet Fleet
}

func (c census) survey(policies []core.Policy, fleet *core.Fleet) {
	for i := range policies {
		p := &policies[i]
		p.Ladder = c.surveyLadder(p.Ladder, p.ID.Namespace)
		fleet.Unseen = c.appendUnseen(fleet.Unseen, p.Ladder)
	}
	for i := range fleet.Repairs {
		if r := &fleet.Repairs[i]; r.Running() {
			r.Ladder = c.surveyLadder(r.Ladder, r.Target.Namespace)
			fleet.Unseen = c.appendUnseen(fleet.Unseen, r.Ladder)
		}
	}
	c.surveyRequests(policies, fleet)
}

// surveyRequests adds all requests about the fleet, of the kinds that are in step.
func (c census) surveyRequests(policies []core.Policy, fleet *core.Fleet) {
	from := len(fleet.Requests)
	for _, gvk := range c.inOrder() {
		if k := c.known(gvk); k != nil && k.shelf != nil {
			fleet.Requests = k.shelf.appendRequests(fleet.Requests, c.fleet)
		}
	}
	fleet.Requests = append(fleet.Requests[:from], attributed(fleet.Requests[from:], policies, fleet.Repairs)...)
}

// surveyLadder gives a ladder with what is to be said of its steps. The ladder itself stays as it is, and is what is
// given when there is nothing to say.
func (c census) surveyLadder(ladder []core.Step, home string) []core.Step {
	surveyed := ladder
	for i := range ladder {
		if !ours(ladder[i].Remedy) {
			continue
		}
		step := c.surveyStep(ladder, i, home)
		if step == ladder[i] {
			continue
		}
		if &surveyed[0] == &ladder[0] {
			surveyed = slices.Clone(ladder)
		}
		surveyed[i] = step
	}
	return surveyed
}

func (c census) surveyStep(ladder []core.Step, at int, home string) core.Step {
	step := ladder[at]
	templates, requests := c.kindsFor(step.Template)
	if templates == nil {
		if step.Problem == "" {
			step.Problem = notATemplate(step.Template)
		}
		return step
	}
	step.Template = located(&step, home, templates.namespaced)
	if step.Problem != "" {
		return step
	}
	s := setting{templates: templates.standing, requests: requests.standing}
	s.template = templates.shelf.find(step.Template.Namespace, step.Template.Name)
	s.kindTwice, s.sameTwice = twins(ladder, at)
	step.Problem, step.Missing = s.problem(&step)
	step.Pending = step.Problem != "" && (s.templates.state == unread || (s.templates.state == inStep && s.requests.state == unread))
	return step
}

// appendUnseen adds the kinds whose requests can't be seen now. Where a kind is not served, there are none.
func (c census) appendUnseen(unseen []core.Reference, ladder []core.Step) []core.Reference {
	for i := range ladder {
		t := ladder[i].Template
		if !ours(ladder[i].Remedy) {
			continue
		}
		_, requests := c.kindsFor(t)
		if requests == nil || requests.state == inStep || requests.state == unserved {
			continue
		}
		if of := (core.Reference{APIVersion: t.APIVersion, Kind: t.Kind}); !slices.Contains(unseen, of) {
			unseen = append(unseen, of)
		}
	}
	return unseen
}

// kindsFor gives the kind of a template and that of what is made from it. They are nil for what can't be a template.
func (c census) kindsFor(t core.Reference) (templates, requests *kind) {
	template, request, ok := kindsOf(t)
	if !ok {
		return nil, nil
	}
	return c.need(template), c.need(request)
}

// need gives a kind, and has it watched from now on.
func (c *Client) need(gvk schema.GroupVersionKind) *kind {
	k := c.kinds[gvk]
	if k == nil {
		k = &kind{gvk: gvk, needs: map[*Docket]uint64{}}
		c.kinds[gvk] = k
		if !slices.Contains(c.order, gvk) {
			c.order = append(c.order, gvk)
		}
		c.fresh = append(c.fresh, k)
		select {
		case c.more <- struct{}{}:
		default: // it has been told already
		}
	}
	return k
}

// attributed gives each request once, with the template that whoever asked for it knows it by. A kind that is served in
// two versions shows its objects in both, and old requests don't name their template.
func attributed(requests []core.Request, policies []core.Policy, repairs []core.Repair) []core.Request {
	if len(requests) == 0 {
		return nil
	}
	first := make(map[string]int, len(requests))
	kept := requests[:0]
	for _, r := range requests {
		if r.Template.Name == "" && r.ID.Name == r.Target.Name {
			r.Template.Name = nameAsked(&r, policies, repairs)
		}
		at, twice := first[r.ID.UID]
		switch {
		case !twice:
			first[r.ID.UID] = len(kept)
			kept = append(kept, r)
		case !asked(&kept[at], policies, repairs) && asked(&r, policies, repairs):
			kept[at] = r
		}
	}
	return kept
}

// asked tells whether the ladder of a running repair of the target, or of the policy, has a request's template.
func asked(r *core.Request, policies []core.Policy, repairs []core.Repair) bool {
	same := func(s core.Step) bool { return s.Remedy == r.Remedy && s.Template == r.Template }
	return slices.ContainsFunc(laddersOf(r, policies, repairs), func(ladder []core.Step) bool { return slices.ContainsFunc(ladder, same) })
}

// nameAsked is the name of the first template that such a request may have been made from.
func nameAsked(r *core.Request, policies []core.Policy, repairs []core.Repair) string {
	for _, ladder := range laddersOf(r, policies, repairs) {
		for i := range ladder {
			t := ladder[i].Template
			t.Name = ""
			if ladder[i].Remedy == r.Remedy && t == r.Template {
				return ladder[i].Template.Name
			}
		}
	}
	return ""
}

// laddersOf gives the ladders by which a request may have been made, those of running repairs first.
func laddersOf(r *core.Request, policies []core.Policy, repairs []core.Repair) [][]core.Step {
	var ladders [][]core.Step
	for i := range repairs {
		if t := repairs[i].Target; repairs[i].Running() && t.Kind == r.Target.Kind && t.Namespace == r.Target.Namespace && t.Name == r.Target.Name {
			ladders = append(ladders, repairs[i].Ladder)
		}
	}
	for i := range policies {
		if id := policies[i].ID; r.Policy.Kind == "" || id.Kind == r.Policy.Kind && id.Name == r.Policy.Name {
			ladders = append(ladders, policies[i].Ladder)
		}
	}
	return ladders
}
