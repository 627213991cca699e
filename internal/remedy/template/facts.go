package template

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/core"
)

// inOrder returns the kinds in the order in which they came.
func (c *Client) inOrder() []schema.GroupVersionKind { return c.order }

func (c *Client) builtIn(remedy string, t core.Reference) BuiltInTemplate {
	return c.BuiltIn.find(remedy, t)
}

// known returns a kind that was needed, or nil.
func (c *Client) known(gvk schema.GroupVersionKind) *kind { return c.kinds[gvk] }

// kindRegistry has the kinds, and their objects.
type kindRegistry interface {
	// need returns a kind that a step needs, or nil if the cluster needs too many.
	need(gvk schema.GroupVersionKind) *kind
	// inOrder returns all kinds, and known returns one of them, or nil.
	inOrder() []schema.GroupVersionKind
	known(gvk schema.GroupVersionKind) *kind
}

// builtInTemplates has the templates that need not exist as objects.
type builtInTemplates interface {
	// builtIn returns what is known of a template of a remedy that need not exist as an object.
	builtIn(remedy string, t core.Reference) BuiltInTemplate
}

// factReader adds facts to one cluster. Its user holds the lock of the kinds.
type factReader struct {
	kindRegistry
	builtInTemplates

	key core.ClusterKey
}

// addFacts visits running repairs before policies, and older policies first. A cluster may need a limited number of
// kinds, and the requests of running repairs must be seen.
func (c factReader) addFacts(policies []core.Policy, cluster *core.Cluster) {
	c.needKindsOfOwnRequests()
	for i := range cluster.Repairs {
		if r := &cluster.Repairs[i]; r.Running() {
			r.Steps = c.checkSteps(r.Steps, r.Target.Namespace, true)
			cluster.UnlistedTemplates = c.appendUnseen(cluster.UnlistedTemplates, r.Steps, true)
		}
	}
	for _, i := range oldestFirst(policies) {
		p := &policies[i]
		p.Steps = c.checkSteps(refuseParts(p.Steps, p.Members, cluster.Targets), p.ID.Namespace, false)
		cluster.UnlistedTemplates = c.appendUnseen(cluster.UnlistedTemplates, p.Steps, false)
	}
	c.addRequests(policies, cluster)
}

// needKindsOfOwnRequests has the kinds watched of which requests stand that Fettle created.
func (c factReader) needKindsOfOwnRequests() {
	for _, gvk := range c.inOrder() {
		if k := c.known(gvk); k != nil && k.store != nil && k.store.hasOwn(c.key) {
			c.need(gvk)
		}
	}
}

// oldestFirst returns the indices of the judged policies with steps of this remedy, by age and then by ID.
func oldestFirst(policies []core.Policy) []int {
	var found []int
	for i := range policies {
		if !policies[i].Unjudged && slices.ContainsFunc(policies[i].Steps, func(s core.Step) bool { return isTemplateRemedy(s.Remedy) }) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(policies[a].Created.Compare(policies[b].Created), policies[a].ID.Compare(policies[b].ID))
	})
	return found
}

// addRequests adds all requests about the cluster, of the synced kinds.
func (c factReader) addRequests(policies []core.Policy, cluster *core.Cluster) {
	from := len(cluster.Requests)
	for _, gvk := range c.inOrder() {
		if k := c.known(gvk); k != nil && k.store != nil {
			cluster.Requests = k.store.appendRequests(cluster.Requests, c.key)
			cluster.PastRequests = k.store.appendPast(cluster.PastRequests, c.key)
		}
	}
	found := deduplicated(cluster.Requests[from:], policies, cluster.Repairs)
	cluster.Requests = append(cluster.Requests[:from], excludeParts(found, cluster.Targets)...)
}

// checkSteps returns steps with their problems. It doesn't change its argument, and returns it if no step has changed.
func (c factReader) checkSteps(steps []core.Step, home string, running bool) []core.Step {
	surveyed := steps
	for i := range steps {
		if !isTemplateRemedy(steps[i].Remedy) {
			continue
		}
		step := c.checkStep(steps, i, home, running)
		if step == steps[i] {
			continue
		}
		if &surveyed[0] == &steps[0] {
			surveyed = slices.Clone(steps)
		}
		surveyed[i] = step
	}
	return surveyed
}

// refuseParts returns the steps of a policy, with a problem for each whose requests would be of the kind of a member's
// part. Members without known parts don't count here: the core holds back their own repairs.
func refuseParts(steps []core.Step, members []int, targets []core.Target) []core.Step {
	refused := steps
	for i := range steps {
		if !isMachineRemedy(steps[i].Remedy) || steps[i].Problem != "" {
			continue
		}
		at := memberMadeOf(steps[i].Template.Makes(), members, targets)
		if at < 0 {
			continue
		}
		if &refused[0] == &steps[0] {
			refused = slices.Clone(steps)
		}
		refused[i].Problem = steps[i].Unfit(&targets[at])
	}
	return refused
}

// memberMadeOf returns the first member with a part of a kind, or -1. Neighbouring members mostly share their parts.
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

func (c factReader) checkStep(steps []core.Step, at int, home string, running bool) core.Step {
	step := steps[at]
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
	step.Template = resolveTemplate(&step, home, k.templates.namespaced)
	if step.Problem != "" {
		return step
	}
	s := stepFacts{templates: k.templates.watchStatus, requests: k.requests.watchStatus, template: k.template}
	s.kindRepeated, s.templateRepeated = repeatedIn(steps, at)
	step.Problem, step.Missing = s.problem(&step)
	step.Pending = step.Problem != "" && s.isRead()
	if step.Problem == "" {
		step.Problem, step.Pending = k.stock.Problem, k.stock.Pending
	}
	return step
}

// appendUnseen appends the kinds whose requests can't be seen now. A kind that is not served has no requests. A policy
// whose template does not exist makes none; the requests of a running repair are looked for anyway.
func (c factReader) appendUnseen(unseen []core.Reference, steps []core.Step, running bool) []core.Reference {
	for i := range steps {
		t := steps[i].Template
		if _, _, ok := kindsOf(t); !ok || !isTemplateRemedy(steps[i].Remedy) {
			continue
		}
		k := c.kindsFor(&steps[i], t.Namespace, running)
		missing := k.templates != nil && k.template == nil && (k.templates.state == synced || k.templates.state == unserved)
		seen := k.requests != nil && (k.requests.state == synced || k.requests.state == unserved)
		if seen || (missing && !running) {
			continue
		}
		if of := (core.Reference{APIVersion: t.APIVersion, Kind: t.Kind}); !slices.Contains(unseen, of) {
			unseen = append(unseen, of)
		}
	}
	return unseen
}

// kindPair is the two kinds that a step needs. Either is nil when the cluster needs too many kinds.
type kindPair struct {
	templates, requests *kind
	// template is the template of the step, or nil if it is not known to exist.
	template *unstructured.Unstructured
	// stock is what is known of the template if it need not exist as an object.
	stock BuiltInTemplate
}

// kindsFor returns the kinds that a step needs. It has the kind of the requests watched only once the template exists
// and is usable. So a name alone makes Fettle watch templates, and no more. A running repair may have made requests, so
// its kind is always watched.
func (c factReader) kindsFor(step *core.Step, home string, running bool) kindPair {
	template, request, _ := kindsOf(step.Template)
	k := kindPair{templates: c.need(template)}
	if k.templates != nil {
		at := resolveTemplate(step, home, k.templates.namespaced)
		k.stock = c.builtIn(step.Remedy, at)
		k.template = k.stock.or(k.templates.store.find(at.Namespace, at.Name))
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

// mostKinds bounds the kinds of templates and requests for all clusters, and mostKindsOfCluster those for one.
const (
	mostKinds          = 512
	mostKindsOfCluster = 64
)

// need returns a kind, and has it watched from now on. It returns nil if there are too many.
func (c *Client) need(gvk schema.GroupVersionKind) *kind {
	k := c.kinds[gvk]
	if k == nil && len(c.kinds) >= mostKinds {
		return nil
	}
	if k == nil {
		k = &kind{gvk: gvk, neededBy: map[*ClusterClient]uint64{}}
		c.kinds[gvk] = k
		if !slices.Contains(c.order, gvk) {
			c.order = append(c.order, gvk)
		}
		c.unwatched = append(c.unwatched, k)
		select {
		case c.kindAdded <- struct{}{}:
		default: // Start looks for new kinds already
		}
	}
	return k
}

// deduplicated returns each request once, with the name of its template. A kind that is served in two versions shows
// its objects in both, and old requests don't name their template.
func deduplicated(requests []core.Request, policies []core.Policy, repairs []core.Repair) []core.Request {
	if len(requests) == 0 {
		return nil
	}
	first := make(map[string]int, len(requests))
	kept := requests[:0]
	for _, r := range requests {
		if r.Template.Name == "" && r.ID.Name == r.Target.Name {
			r.Template.Name = templateNameFor(&r, policies, repairs)
		}
		at, twice := first[r.ID.UID]
		switch {
		case !twice:
			first[r.ID.UID] = len(kept)
			kept = append(kept, r)
		case !hasStepFor(&kept[at], policies, repairs) && hasStepFor(&r, policies, repairs):
			kept[at] = r
		}
	}
	return kept
}

// hasStepFor reports whether the policy, or a running repair of the target, has a step with a request's template.
func hasStepFor(r *core.Request, policies []core.Policy, repairs []core.Repair) bool {
	same := func(s core.Step) bool { return s.Remedy == r.Remedy && s.Template == r.Template }
	return slices.ContainsFunc(stepsOf(r, policies, repairs), func(steps []core.Step) bool { return slices.ContainsFunc(steps, same) })
}

// templateNameFor returns the name of the first template that such a request may have been created from.
func templateNameFor(r *core.Request, policies []core.Policy, repairs []core.Repair) string {
	for _, steps := range stepsOf(r, policies, repairs) {
		for i := range steps {
			t := steps[i].Template
			t.Name = ""
			if steps[i].Remedy == r.Remedy && t == r.Template {
				return steps[i].Template.Name
			}
		}
	}
	return ""
}

// stepsOf returns the steps that may have made a request, those of running repairs first.
func stepsOf(r *core.Request, policies []core.Policy, repairs []core.Repair) [][]core.Step {
	var all [][]core.Step
	for i := range repairs {
		if t := repairs[i].Target; repairs[i].Running() && t.Kind == r.Target.Kind && t.Namespace == r.Target.Namespace && t.Name == r.Target.Name {
			all = append(all, repairs[i].Steps)
		}
	}
	for i := range policies {
		if id := policies[i].ID; r.Policy.Kind == "" || id.Kind == r.Policy.Kind && id.Name == r.Policy.Name {
			all = append(all, policies[i].Steps)
		}
	}
	return all
}
