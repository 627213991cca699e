package fencepolicy

import (
	"slices"
	"strings"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// Facts are what is known of policies, nodes and Leases.
type Facts struct {
	Policies []v1alpha1.FencePolicy
	Nodes    []Node
	// Leases are by the name of their node.
	Leases map[string]*Lease
	// Unread is why the Leases could not be read, or nil.
	Unread error
}

// mostNamed bounds the nodes and the policies that are named.
const (
	mostNodes    = 10
	mostPolicies = 3
)

// Verdict is what a policy amounts to.
type Verdict struct {
	// Nodes is how many nodes the policy applies to, Promising how many of them promise, and Timed how many of these promises are timed.
	Nodes, Promising, Timed int
	// Missing counts the others by the reason. Without are the first of them by name.
	Missing map[Reason]int
	Without []Missing
	// Others is how many nodes the policy selects that another one applies to, and Leaders are some of these.
	Others  int
	Leaders []string
	// Failed is why the selector of the policy can't be read. Blocked names an older policy whose selector can't be read.
	Failed  error
	Blocked string
	// Unread is why the Leases could not be read.
	Unread error
}

// Missing is a node without a promise.
type Missing struct {
	Node string
	Reason
}

// Judge returns what each policy amounts to, by name.
func Judge(f Facts) map[string]*Verdict {
	rule := NewRule(f.Policies)
	verdicts := make([]*Verdict, len(rule.policies))
	blocked := ""
	for i, p := range rule.policies {
		verdicts[i] = &Verdict{Missing: map[Reason]int{}, Failed: p.failed, Blocked: blocked, Unread: f.Unread}
		if p.failed != nil && blocked == "" {
			blocked = p.Name
		}
	}
	for _, n := range f.Nodes {
		at, err := rule.applies(n.Labels)
		if at < 0 {
			continue
		}
		for i := at + 1; i < len(verdicts); i++ {
			if p := rule.policies[i]; p.failed == nil && p.selector.Matches(n.Labels) {
				verdicts[i].leaves(rule.policies[at].Name)
			}
		}
		if err == nil {
			verdicts[at].add(n, f)
		}
	}
	result := make(map[string]*Verdict, len(verdicts))
	for i, v := range verdicts {
		v.shorten()
		result[rule.policies[i].Name] = v
	}
	return result
}

// leaves notes a node that an older policy applies to.
func (v *Verdict) leaves(to string) {
	v.Others++
	if !slices.Contains(v.Leaders, to) && len(v.Leaders) < mostPolicies {
		v.Leaders = append(v.Leaders, to)
	}
}

// add notes a node that the policy applies to.
func (v *Verdict) add(n Node, f Facts) {
	v.Nodes++
	lease := f.Leases[n.Name]
	why := LeasesNotRead
	if f.Unread == nil {
		why = n.Missing(lease)
	}
	if why == "" {
		v.Promising++
		if lease.Promise.Timed {
			v.Timed++
		}
		return
	}
	v.Missing[why]++
	v.Without = append(v.Without, Missing{n.Name, why})
}

// shorten keeps the first nodes by name, and orders the leaders.
func (v *Verdict) shorten() {
	slices.SortFunc(v.Without, func(a, b Missing) int { return strings.Compare(a.Node, b.Node) })
	v.Without = v.Without[:min(len(v.Without), mostNodes)]
	slices.Sort(v.Leaders)
}
