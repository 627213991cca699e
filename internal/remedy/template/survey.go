package template

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/core"
)

// inOrder gives the kinds in the order in which they came.
func (c *Client) inOrder() []schema.GroupVersionKind { return c.order }

// known gives a kind that is kept, nil for others.
func (c *Client) known(gvk schema.GroupVersionKind) *kind { return c.kinds[gvk] }

// registry has what is known of kinds.
type registry interface {
	// need returns a kind that a ladder needs, nil when the fleet needs too many.
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

// survey looks at running repairs before policies, and at the oldest policies first: a fleet may need a limited number of
// kinds, and what is under way must be seen.
func (c census) survey(policies []core.Policy, fleet *core.Fleet) {
	c.needStanding()
	for i := range fleet.Repairs {
		if r := &fleet.Repairs[i]; r.Running() {
			r.Ladder = c.surveyLadder(r.Ladder, r.Target.Namespace, true)
			fleet.Unseen = c.appendUnseen(fleet.Unseen, r.Ladder, true)
		}
	}
	for _, i := range oldestFirst(policies) {
		p := &policies[i]
		p.Ladder = c.surveyLadder(refuseParts(p.Ladder, p.Members, fleet.Targets), p.ID.Namespace, false)
		fleet.Unseen = c.appendUnseen(fleet.Unseen, p.Ladder, false)
	}
	c.surveyRequests(policies, fleet)
}

// needStanding keeps the kinds watched of which requests stand that Fettle made.
func (c census) needStanding() {
	for _, gvk := range c.inOrder() {
		if k := c.known(gvk); k != nil && k.shelf != nil && k.shelf.hasOwn(c.fleet) {
			c.need(gvk)
		}
	}
}

// oldestFirst returns the indices of the policies that ask remediators and are judged, by age and then by ID.
func oldestFirst(policies []core.Policy) []int {
	var asking []int
	for i := range policies {
		if !policies[i].Overlooked && slices.ContainsFunc(policies[i].Ladder, func(s core.Step) bool { return ours(s.Remedy) }) {
			asking = append(asking, i)
		}
	}
	slices.SortFunc(asking, func(a, b int) int {
		return cmp.Or(policies[a].Created.Compare(policies[b].Created), policies[a].ID.Compare(policies[b].ID))
	})
	return asking
}

// surveyRequests adds all requests about the fleet, of the kinds that are in step.
func (c census) surveyRequests(policies []core.Policy, fleet *core.Fleet) {
	from := len(fleet.Requests)
	for _, gvk := range c.inOrder() {
		if k := c.known(gvk); k != nil && k.shelf != nil {
			fleet.Requests = k.shelf.appendRequests(fleet.Requests, c.fleet)
		}
	}
	found := attributed(fleet.Requests[from:], policies, fleet.Repairs)
	fleet.Requests = append(fleet.Requests[:from], disown(found, fleet.Targets)...)
}

// surveyLadder gives a ladder with what is to be said of its steps. The ladder itself stays as it is, and is what is
// given when there is nothing to say.
func (c census) surveyLadder(ladder []core.Step, home string, running bool) []core.Step {
	surveyed := ladder
	for i := range ladder {
		if !ours(ladder[i].Remedy) {
			continue
		}
		step := c.surveyStep(ladder, i, home, running)
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

// refuseParts returns the steps of a policy, with a problem for each whose requests would be of a kind that a member is
// made of. Members of which that is not known don't count here: their own repairs are held back.
func refuseParts(ladder []core.Step, members []int, targets []core.Target) []core.Step {
	refused := ladder
	for i := range ladder {
		if !forMachines(ladder[i].Remedy) || ladder[i].Problem != "" {
			continue
		}
		at := memberMadeOf(ladder[i].Template.Makes(), members, targets)
		if at < 0 {
			continue
		}
		if &refused[0] == &ladder[0] {
			refused = slices.Clone(ladder)
		}
		refused[i].Problem = ladder[i].Unfit(&targets[at])
	}
	return refused
}

// memberMadeOf returns the first member that is made of objects of a kind, -1 when there is none. Members in a row mostly
// share their parts.
func memberMadeOf(kind core.Kind, members []int, targets []core.Target) int {
	var last *core.Parts
	for _, m := range members {
		if m < 0 || m >= len(targets) || targets[m].Parts == last {
			continue
		}
		if last = targets[m].Parts; last.Has(kind) == core.Yes {
			return m
		}
	}
	return -1
}

func (c census) surveyStep(ladder []core.Step, at int, home string, running bool) core.Step {
	step := ladder[at]
	if _, _, ok := kindsOf(step.Template); !ok {
		if step.Problem == "" {
			step.Problem = notATemplate(step.Template)
		}
		return step
	}
	k := c.kindsFor(&step, home, running)
	if k.templates == nil || k.requests == nil {
		if step.Problem == "" {
			step.Problem = tooManyKinds(step.Template)
		}
		return step
	}
	step.Template = located(&step, home, k.templates.namespaced)
	if step.Problem != "" {
		return step
	}
	s := prospect{templates: k.templates.standing, requests: k.requests.standing, template: k.template}
	s.kindTwice, s.sameTwice = twins(ladder, at)
	step.Problem, step.Missing = s.problem(&step)
	step.Pending = step.Problem != "" && s.isRead()
	return step
}

// appendUnseen adds the kinds whose requests can't be seen now. Where a kind is not served, there are none. Those of a
// policy whose template does not exist are not looked for: nothing is asked by it, and what a running repair has asked is
// looked for on its own account.
func (c census) appendUnseen(unseen []core.Reference, ladder []core.Step, running bool) []core.Reference {
	for i := range ladder {
		t := ladder[i].Template
		if _, _, ok := kindsOf(t); !ok || !ours(ladder[i].Remedy) {
			continue
		}
		k := c.kindsFor(&ladder[i], t.Namespace, running)
		missing := k.templates != nil && k.template == nil && (k.templates.state == inStep || k.templates.state == unserved)
		seen := k.requests != nil && (k.requests.state == inStep || k.requests.state == unserved)
		if seen || (missing && !running) {
			continue
		}
		if of := (core.Reference{APIVersion: t.APIVersion, Kind: t.Kind}); !slices.Contains(unseen, of) {
			unseen = append(unseen, of)
		}
	}
	return unseen
}

// kinds is what is known of the two kinds that a step needs. Either is nil when the fleet needs too many.
type kinds struct {
	templates, requests *kind
	// template is that of the step, nil when it is not known to exist.
	template *unstructured.Unstructured
}

// kindsFor looks up the kinds that a step needs. The kind of the requests is watched once the template was found and may be
// used, so that naming a kind alone has nothing watched but templates, and for a running repair, which may have made some.
func (c census) kindsFor(step *core.Step, home string, running bool) kinds {
	template, request, _ := kindsOf(step.Template)
	k := kinds{templates: c.need(template)}
	if k.templates != nil {
		at := located(step, home, k.templates.namespaced)
		k.template = k.templates.shelf.find(at.Namespace, at.Name)
	}
	if running || (k.template != nil && step.Problem == "") {
		k.requests = c.need(request)
		return k
	}
	if k.requests = c.known(request); k.requests == nil {
		k.requests = &kind{gvk: request}
	}
	return k
}

// mostKinds bounds the kinds of templates and requests that are kept for all fleets. One fleet may need mostKindsOfFleet.
const (
	mostKinds        = 512
	mostKindsOfFleet = 64
)

// need returns a kind, and has it watched from now on. It is nil when there are too many.
func (c *Client) need(gvk schema.GroupVersionKind) *kind {
	k := c.kinds[gvk]
	if k == nil && len(c.kinds) >= mostKinds {
		return nil
	}
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
