package core

import (
	"cmp"
	"slices"
	"time"
)

// judgement has the verdicts of all policies on their members.
type judgement struct {
	userRequestIndex
	// ageRank is the place of each policy in the order of age, name and ID. Of the policies that
	// find a target unhealthy the first one leads its repair.
	ageRank []int
	// verdicts come in the order of age of their policies, and so do refusals.
	verdicts []Verdict
	// unconfirmed are the verdicts on targets whose nodes must be looked up now, since the cache
	// lacks them.
	unconfirmed []int
}

// recheckUnseen is how soon a node that a live read found, and the cache still lacks, is looked up
// again.
const recheckUnseen = 10 * time.Second

func newJudgement(requests *userRequestIndex) *judgement {
	x := &judgement{
		userRequestIndex: *requests, ageRank: make([]int, len(requests.policies)), verdicts: make([]Verdict, 0, requests.countMembers()),
	}
	for place, i := range x.byAge() {
		x.ageRank[i] = place
		for _, m := range x.policies[i].Members {
			x.judgeMember(i, m)
		}
	}
	return x
}

func (in *input) countMembers() int {
	members := 0
	for i := range in.policies {
		members += len(in.policies[i].Members)
	}
	return members
}

// judgeMember adds the verdict on one member. A member that is no target of the cluster gets none.
func (x *judgement) judgeMember(policy, target int) {
	if target < 0 || target >= len(x.cluster.Targets) {
		return
	}
	t := &x.cluster.Targets[target]
	v := Verdict{Health: Undetermined, Reason: ClusterUnobserved}
	if x.cluster.Observed == Yes {
		v = x.judgeOne(&x.policies[policy], target)
	}
	v.Policy, v.Target = policy, target
	if v.Health == Healthy && v.Reason != Premature && (x.awaitsRequest(policy, target) || x.stabilizes(policy, target)) {
		v.Health, v.Reason = Suspect, Recovering
		v.Detail, v.RequestRemains = x.remainingRequest(policy, target)
	}
	x.verdicts = append(x.verdicts, v)
	x.wakeAt(v.Until)
	x.wakeAt(t.NodeReadAgain)
	if v.Reason == NodeUnconfirmed && !t.Deleting && !x.now.Before(t.NodeReadAgain) {
		x.unconfirmed = append(x.unconfirmed, len(x.verdicts)-1)
		x.wakeAt(x.now.Add(recheckUnseen))
	}
}

// byAge orders the policies by age, then by name, whatever their kind.
func (in *input) byAge() []int {
	order := make([]int, len(in.policies))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		p, q := &in.policies[a], &in.policies[b]
		return cmp.Or(p.Created.Compare(q.Created), cmp.Compare(p.ID.Name, q.ID.Name), p.ID.Compare(q.ID))
	})
	return order
}
