package core

import (
	"cmp"
	"slices"
	"time"
)

// A decision is built in layers. Each layer embeds the layer below it, and its constructor takes
// that one. So a method can read only its own layer and the layers below, which are built by then.
// From the bottom to the top:
//
//	input             the policies, the cluster and the time
//	targetIndex       the groups of targets, and the control plane
//	repairIndex       the repairs of each target, each group and each pool
//	requestIndex      the requests about each target and of each repair
//	userRequestIndex  the users' repair requests
//	judgement         the verdicts of all policies
//	verdictIndex      the verdicts on the groups that are unhealthy or under repair, and the health of pools
//	replacementIndex  the targets that are gone and not replaced yet
//	counts            the numbers that the gates compare with limits
//	planner           the decision
//
// No index changes once its constructor has returned, but for values that are computed when they
// are first read. Only timer, counts and planner change.

// none is the index that stands for no object.
const none = -1

// input has the policies, the cluster and the time of one decision.
type input struct {
	policies []Policy
	cluster  *Cluster
	*timer
	// byName returns the policies by kind, namespace and name, in their own order.
	byName func() map[qualifiedName][]int
}

func newInput(policies []Policy, cluster *Cluster, now time.Time) *input {
	in := &input{policies: policies, cluster: cluster, timer: &timer{now: now}}
	in.byName = onceValue(in.policiesByName)
	in.wakeAt(cluster.ExpectedUntil)
	return in
}

// timer holds the time of the decision, and finds the next instant at which time alone changes the
// decision. The order of the calls of wakeAt does not matter, since the first instant counts.
type timer struct{ now, next time.Time }

func (t *timer) wakeAt(at time.Time) {
	if at.After(t.now) && sooner(at, t.next) {
		t.next = at
	}
}

// onceValue returns a function that computes a value when it is first called. It suits values that
// few decisions need, and that take a look at all targets or policies.
func onceValue[T any](compute func() T) func() T {
	var value T
	done := false
	return func() T {
		if !done {
			value, done = compute(), true
		}
		return value
	}
}

// leaderAt returns the index of the policy that leads a repair, none when it is gone.
func (in *input) leaderAt(r *Repair) int {
	for i := range in.policies {
		if in.policies[i].ID == r.Policy {
			return i
		}
	}
	return none
}

// isDryRun reports whether the policy exists and is a dry run.
func (in *input) isDryRun(policy int) bool {
	return policy != none && in.policies[policy].DryRun
}

func (in *input) policiesByName() map[qualifiedName][]int {
	byName := make(map[qualifiedName][]int, len(in.policies))
	for i := range in.policies {
		name := in.policies[i].ID.qualified()
		byName[name] = append(byName[name], i)
	}
	return byName
}

// policiesNamed returns the policies with the kind, namespace and name of an ID.
func (in *input) policiesNamed(id *ID) []int { return in.byName()[id.qualified()] }

// requester returns the policy that made a request, or none if it is gone.
func (in *input) requester(q *Request) int {
	for _, i := range in.policiesNamed(&q.Policy) {
		if q.RequestedBy(&in.policies[i].ID) {
			return i
		}
	}
	return none
}

// olderRepair orders repairs by their sequence in the ledger, then by start and name.
func (in *input) olderRepair(a, b int) int {
	p, q := &in.cluster.Repairs[a], &in.cluster.Repairs[b]
	return cmp.Or(cmp.Compare(p.Sequence, q.Sequence), p.Started.Compare(q.Started), cmp.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Name, q.Name))
}

func (in *input) olderRequest(a, b int) int {
	p, q := &in.cluster.Requests[a], &in.cluster.Requests[b]
	if order := p.Created.Compare(q.Created); order != 0 {
		return order
	}
	return p.ID.Compare(q.ID)
}

func (in *input) runningRepairs() []int {
	var running []int
	for i := range in.cluster.Repairs {
		if in.cluster.Repairs[i].Running() {
			running = append(running, i)
		}
	}
	slices.SortFunc(running, in.olderRepair)
	return running
}

// requestsUnlisted reports whether requests of the repair may stand that can't be seen.
func (in *input) requestsUnlisted(r *Repair) bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return in.unlisted(&s) })
}

// unlisted reports whether the requests of a step can't be seen.
func (in *input) unlisted(s *Step) bool {
	return s.Nature.Effect().CreatesRequest && slices.ContainsFunc(in.cluster.UnlistedTemplates, func(u Reference) bool {
		return u.APIVersion == s.Template.APIVersion && u.Kind == s.Template.Kind
	})
}

// mayHaveUnlistedRequests reports whether unlisted requests may stand for a repair of a target that is gone. The record
// of the repair does not show that (I14): the policy that leads it must have that step.
func (in *input) mayHaveUnlistedRequests(lead int, r *Repair) bool {
	if lead == none || !in.requestsUnlisted(r) {
		return false
	}
	p := &in.policies[lead]
	has := func(step *Step) bool {
		return slices.ContainsFunc(slices.Concat(p.Steps, p.FailedSteps), func(s Step) bool { return s.equal(step) })
	}
	return p.Problem != "" || slices.ContainsFunc(r.Steps, func(s Step) bool { return in.unlisted(&s) && has(&s) })
}

// unreadableGone reports whether the repair of a target that is gone neither continues nor ends,
// since the policy that leads it is unparsable.
func (in *input) unreadableGone(r *Repair) bool {
	lead := in.leaderAt(r)
	return lead != none && in.policies[lead].Unparsable && r.needsWithdrawal()
}

// firstStep returns the first step by which a policy repairs a target; nil when it has none.
func (in *input) firstStep(policy, target int) *Step {
	if steps := in.policies[policy].StepsFor(&in.cluster.Targets[target]); len(steps) > 0 {
		return &steps[0]
	}
	return nil
}
