package fencepolicy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencepolicy"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/selffence"
)

const (
	boot  = "0f8fad5b-d9cb-469f-a165-70867728950e"
	other = "11111111-d9cb-469f-a165-70867728950e"
	uid   = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// policy returns a policy of an age in hours that selects the nodes of a pool. The pool * selects all nodes, and ? can't be read.
func policy(name string, age int, pool string) v1alpha1.FencePolicy {
	p := v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3, CreationTimestamp: metav1.NewTime(noon.Add(-time.Duration(age) * time.Hour))}}
	switch pool {
	case "*":
	case "?":
		p.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Like"}}
	default:
		p.Spec.NodeSelector.MatchLabels = map[string]string{"pool": pool}
	}
	return p
}

// TestRule: the oldest policy that selects a node applies, and of two as old the first by name. If that can't be known, none does.
func TestRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policies []v1alpha1.FencePolicy
		want     string
		fails    bool
	}{
		"none":                               {nil, "", false},
		"another pool":                       {[]v1alpha1.FencePolicy{policy("a", 1, "other")}, "", false},
		"one":                                {[]v1alpha1.FencePolicy{policy("a", 1, "pool")}, "a", false},
		"the oldest":                         {[]v1alpha1.FencePolicy{policy("a", 1, "pool"), policy("b", 2, "*")}, "b", false},
		"the oldest that selects it":         {[]v1alpha1.FencePolicy{policy("a", 1, "pool"), policy("b", 2, "other")}, "a", false},
		"the first by name":                  {[]v1alpha1.FencePolicy{policy("b", 1, "pool"), policy("a", 1, "*")}, "a", false},
		"an older one can't be read":         {[]v1alpha1.FencePolicy{policy("a", 1, "pool"), policy("b", 2, "?")}, "", true},
		"as old, and its name can't be read": {[]v1alpha1.FencePolicy{policy("b", 1, "pool"), policy("a", 1, "?")}, "", true},
		"a younger one can't be read":        {[]v1alpha1.FencePolicy{policy("a", 1, "?"), policy("b", 2, "pool")}, "b", false},
		"the only one can't be read":         {[]v1alpha1.FencePolicy{policy("a", 1, "?")}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := fmt.Sprint(c.policies)
			got, err := fencepolicy.NewRule(c.policies).Applies(labels.Set{"pool": "pool"})
			if (err != nil) != c.fails || (got == nil) != (c.want == "") || got != nil && got.Name != c.want {
				t.Errorf("%v applies (%v), want %q", got, err, c.want)
			}
			if fmt.Sprint(c.policies) != before {
				t.Error("the policies were changed")
			}
		})
	}
}

// lease returns what a Lease says.
func lease(state selffence.State, of string, change ...func(*promiselease.Record)) *fencepolicy.Lease {
	r := promiselease.Record{Lease: selffence.Lease{Revision: 1, State: state, Promise: selffence.Promise{Boot: of}}}
	if state == selffence.Condemned {
		r.By = uid
	}
	for _, c := range change {
		c(&r)
	}
	l, err := promiselease.Encode("n", r, noon)
	if err != nil {
		panic(err)
	}
	return fencepolicy.Read(l)
}

func timed(r *promiselease.Record) {
	r.Promise.Timed, r.Promise.Times = true, selffence.Times{Validity: 20 * time.Second, Watchdog: 10 * time.Second}
}

func why(n promiselease.NoPromise) func(*promiselease.Record) {
	return func(r *promiselease.Record) { r.Why = n }
}

func TestMissing(t *testing.T) {
	t.Parallel()
	unreadable, err := promiselease.Encode("n", promiselease.Record{Lease: selffence.Lease{Revision: 1, State: selffence.Promised, Promise: selffence.Promise{Boot: boot}}}, noon)
	if err != nil {
		t.Fatal(err)
	}
	unreadable.ResourceVersion = "x"
	node, unknown := fencepolicy.Node{Name: "n", Boot: strings.ToUpper(boot)}, fencepolicy.Node{Name: "n"}
	for name, c := range map[string]struct {
		node  fencepolicy.Node
		lease *fencepolicy.Lease
		want  fencepolicy.Reason
	}{
		"no Lease":                   {node, nil, fencepolicy.NoAgent},
		"unreadable":                 {node, fencepolicy.Read(unreadable), fencepolicy.LeaseUnreadable},
		"promised":                   {node, lease(selffence.Promised, boot), ""},
		"promised by another boot":   {node, lease(selffence.Promised, other), fencepolicy.OtherBoot},
		"promised by an unknown one": {unknown, lease(selffence.Promised, boot), fencepolicy.OtherBoot},
		"withdrawn":                  {node, lease(selffence.Withdrawn, boot), fencepolicy.Withdrawn},
		"withdrawn by another boot":  {node, lease(selffence.Withdrawn, other), fencepolicy.OtherBoot},
		"with a reason":              {node, lease(selffence.Withdrawn, boot, why(promiselease.VirtualMachine)), "VirtualMachine"},
		"with one of another boot":   {node, lease(selffence.Withdrawn, other, why(promiselease.VirtualMachine)), fencepolicy.OtherBoot},
		"condemned":                  {node, lease(selffence.Condemned, boot), fencepolicy.Condemned},
		"another boot is condemned":  {node, lease(selffence.Condemned, other), fencepolicy.Condemned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.node.Missing(c.lease); got != c.want {
				t.Errorf("the reason is %q, want %q", got, c.want)
			}
		})
	}
}

// TestTexts: each reason has a text of its own, which fits into a status.
func TestTexts(t *testing.T) {
	t.Parallel()
	texts := map[string]fencepolicy.Reason{}
	for _, r := range fencepolicy.Reasons() {
		text := r.Text()
		if before, known := texts[text]; known || len(text) > 256 || text == fencepolicy.Reason("x").Text() || len(r) > 64 {
			t.Errorf("the text of %s is %q, as of %s", r, text, before)
		}
		texts[text] = r
	}
	if len(texts) != 17 {
		t.Errorf("there are %d reasons", len(texts))
	}
}

// status is what a test compares of a status.
type status struct {
	Nodes, Promising int32
	Without          []string
	InEffect         string
	Promise          string
}

func statusOf(s v1alpha1.FencePolicyStatus) status {
	got := status{Nodes: *s.Nodes, Promising: -1}
	if s.Promising != nil {
		got.Promising = *s.Promising
	}
	for _, n := range s.WithoutPromise {
		got.Without = append(got.Without, n.Name+" "+n.Reason)
	}
	for _, c := range s.Conditions {
		text := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		if c.Type == v1alpha1.InEffectCondition {
			got.InEffect = text
		} else {
			got.Promise = text
		}
	}
	return got
}

// TestStatuses: policies report the promises of their nodes.
func TestStatuses(t *testing.T) {
	t.Parallel()
	node := func(name, pool string) fencepolicy.Node {
		return fencepolicy.Node{Name: name, Labels: labels.Set{"pool": pool}, Boot: boot}
	}
	var many []fencepolicy.Node
	for i := range 12 {
		many = append(many, node(fmt.Sprintf("n%02d", 11-i), "a"))
	}
	promise := lease(selffence.Promised, boot)
	requiring := func(p v1alpha1.FencePolicy) v1alpha1.FencePolicy {
		p.Spec.RequiredProof = v1alpha1.PowerAndPromise
		return p
	}
	long := policy("p", 1, strings.Repeat("x", 5000))
	_, tooLong := metav1.LabelSelectorAsSelector(&long.Spec.NodeSelector)
	const notFenced = "; since the policy requires both power and promise, no remediation fences a node without a promise that is timed"
	const untimed = "; 1 of the promises are not timed, so that only a new boot proves that such a node has stopped"
	for name, c := range map[string]struct {
		policies []v1alpha1.FencePolicy
		nodes    []fencepolicy.Node
		leases   map[string]*fencepolicy.Lease
		unread   error
		want     map[string]status
	}{
		"no node": {
			[]v1alpha1.FencePolicy{policy("p", 1, "a")}, []fencepolicy.Node{node("n", "b")}, nil, nil,
			map[string]status{"p": {InEffect: "False SelectsNone: no node has the labels of spec.nodeSelector", Promise: "False NoNodes: the policy applies to no node"}},
		},
		"all promise": {
			[]v1alpha1.FencePolicy{policy("p", 1, "a")}, []fencepolicy.Node{node("n", "a"), node("m", "b")},
			map[string]*fencepolicy.Lease{"n": lease(selffence.Promised, boot, timed), "m": promise}, nil,
			map[string]status{"p": {1, 1, nil, "True Applies: the policy applies to 1 node", "True AllPromise: each node promises to fence itself: 1 node"}},
		},
		"some are not timed": {
			[]v1alpha1.FencePolicy{policy("p", 1, "*")}, []fencepolicy.Node{node("n", "a"), node("m", "a")},
			map[string]*fencepolicy.Lease{"n": lease(selffence.Promised, boot, timed), "m": promise}, nil,
			map[string]status{"p": {2, 2, nil, "True Applies: the policy applies to 2 nodes", "True AllPromise: each node promises to fence itself: 2 nodes" + untimed}},
		},
		"both are required, and some are not timed": {
			[]v1alpha1.FencePolicy{requiring(policy("p", 1, "*"))}, []fencepolicy.Node{node("n", "a"), node("m", "a")},
			map[string]*fencepolicy.Lease{"n": lease(selffence.Promised, boot, timed), "m": promise}, nil,
			map[string]status{"p": {2, 2, nil, "True Applies: the policy applies to 2 nodes", "True AllPromise: each node promises to fence itself: 2 nodes" + untimed + notFenced}},
		},
		"both are required, and none promises": {
			[]v1alpha1.FencePolicy{requiring(policy("p", 1, "*"))}, []fencepolicy.Node{node("n", "a")}, nil, nil,
			map[string]status{"p": {1, 0, []string{"n NoAgent"}, "True Applies: the policy applies to 1 node", "False NodesWithoutPromise: 1 of 1 node promise nothing: NoAgent 1" + notFenced}},
		},
		"both are required and are there": {
			[]v1alpha1.FencePolicy{requiring(policy("p", 1, "*"))}, []fencepolicy.Node{node("n", "a")}, map[string]*fencepolicy.Lease{"n": lease(selffence.Promised, boot, timed)}, nil,
			map[string]status{"p": {1, 1, nil, "True Applies: the policy applies to 1 node", "True AllPromise: each node promises to fence itself: 1 node"}},
		},
		"both are required, and Leases are unknown": {
			[]v1alpha1.FencePolicy{requiring(policy("p", 1, "*"))}, []fencepolicy.Node{node("n", "a")}, nil, errors.New("no"),
			map[string]status{"p": {1, -1, nil, "True Applies: the policy applies to 1 node", "Unknown LeasesNotRead: the Leases in namespace fettle-agents can't be read (no); install config/selffence"}},
		},
		"some do not": {
			[]v1alpha1.FencePolicy{policy("p", 1, "*")}, append([]fencepolicy.Node{node("z", "a"), node("y", "a"), node("x", "a")}, many...),
			map[string]*fencepolicy.Lease{
				"z": lease(selffence.Withdrawn, boot, why(promiselease.WatchdogBusy)), "y": lease(selffence.Condemned, boot), "x": lease(selffence.Withdrawn, boot),
				"n00": lease(selffence.Promised, boot, timed), "n05": lease(selffence.Withdrawn, other),
			}, nil,
			map[string]status{"p": {
				15, 1,
				[]string{
					"n01 NoAgent", "n02 NoAgent", "n03 NoAgent", "n04 NoAgent", "n05 OtherBoot", "n06 NoAgent", "n07 NoAgent", "n08 NoAgent", "n09 NoAgent", "n10 NoAgent",
				},
				"True Applies: the policy applies to 15 nodes",
				"False NodesWithoutPromise: 14 of 15 nodes promise nothing: NoAgent 10, Condemned 1, OtherBoot 1, WatchdogBusy 1, Withdrawn 1",
			}},
		},
		"Leases are unknown": {
			[]v1alpha1.FencePolicy{policy("p", 1, "*")}, []fencepolicy.Node{node("n", "a")}, map[string]*fencepolicy.Lease{"n": promise}, errors.New("no\nright"),
			map[string]status{"p": {
				1, -1, nil, "True Applies: the policy applies to 1 node",
				"Unknown LeasesNotRead: the Leases in namespace fettle-agents can't be read (no right); install config/selffence",
			}},
		},
		"older ones lead": {
			[]v1alpha1.FencePolicy{policy("all", 1, "*"), policy("a", 2, "a"), policy("late", 0, "a")},
			[]fencepolicy.Node{node("n", "a"), node("m", "b"), node("o", "a")}, map[string]*fencepolicy.Lease{"m": promise}, nil,
			map[string]status{
				"a": {2, 0, []string{"n NoAgent", "o NoAgent"}, "True Applies: the policy applies to 2 nodes", "False NodesWithoutPromise: 2 of 2 nodes promise nothing: NoAgent 2"},
				"all": {
					1, 1, nil, "True Applies: the policy applies to 1 node; policies that are older apply to 2 more nodes that it selects: a",
					"True AllPromise: each node promises to fence itself: 1 node" + untimed,
				},
				"late": {0, 0, nil, "False Overridden: policies that are older apply to each node that this policy selects: a", "False NoNodes: the policy applies to no node"},
			},
		},
		"an older one leads": {
			[]v1alpha1.FencePolicy{policy("all", 1, "*"), policy("a", 2, "a"), policy("late", 0, "a")}, []fencepolicy.Node{node("n", "a"), node("m", "b")}, nil, nil,
			map[string]status{
				"all": {
					1, 0, []string{"m NoAgent"}, "True Applies: the policy applies to 1 node; policies that are older apply to 1 more nodes that it selects: a",
					"False NodesWithoutPromise: 1 of 1 node promise nothing: NoAgent 1",
				},
				"late": {0, 0, nil, "False Overridden: policies that are older apply to each node that this policy selects: a", "False NoNodes: the policy applies to no node"},
			},
		},
		"long errors are cut": {
			[]v1alpha1.FencePolicy{long}, nil, nil, errors.New(strings.Repeat("x", 5000)),
			map[string]status{"p": {
				0, -1, nil, "False SelectorInvalid: spec.nodeSelector can't be read: " + sanitize.Failure(sanitize.MaxPart, tooLong),
				"Unknown LeasesNotRead: the Leases in namespace fettle-agents can't be read (" + strings.Repeat("x", sanitize.MaxPart-len("…")) + "…); install config/selffence",
			}},
		},
		"some leaders are named": {
			[]v1alpha1.FencePolicy{policy("all", 1, "*"), policy("d", 2, "d"), policy("c", 2, "c"), policy("b", 2, "b"), policy("a", 2, "a")},
			[]fencepolicy.Node{node("4", "d"), node("3", "c"), node("2", "b"), node("1", "a"), node("5", "d")}, nil, nil,
			map[string]status{"all": {0, 0, nil, "False Overridden: policies that are older apply to each node that this policy selects: b, c, d", "False NoNodes: the policy applies to no node"}},
		},
		"a selector can't be read": {
			[]v1alpha1.FencePolicy{policy("old", 3, "a"), policy("bad", 2, "?"), policy("worse", 1, "?"), policy("young", 0, "*")},
			[]fencepolicy.Node{node("n", "a"), node("m", "b")}, map[string]*fencepolicy.Lease{"n": promise, "m": promise}, nil,
			map[string]status{
				"old":   {1, 1, nil, "True Applies: the policy applies to 1 node", "True AllPromise: each node promises to fence itself: 1 node" + untimed},
				"bad":   {0, 0, nil, `False SelectorInvalid: spec.nodeSelector can't be read: "Like" is not a valid label selector operator`, "False NoNodes: the policy applies to no node"},
				"worse": {0, 0, nil, `False SelectorInvalid: spec.nodeSelector can't be read: "Like" is not a valid label selector operator`, "False NoNodes: the policy applies to no node"},
				"young": {
					0, 0, nil, "False Blocked: the selector of FencePolicy bad, which is older, can't be read, so it is not known which nodes this policy applies to; correct it or delete it",
					"False NoNodes: the policy applies to no node",
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdicts := fencepolicy.Judge(fencepolicy.Facts{Policies: c.policies, Nodes: c.nodes, Leases: c.leases, Unread: c.unread})
			if len(verdicts) != len(c.policies) {
				t.Errorf("there are %d verdicts", len(verdicts))
			}
			for i := range c.policies {
				p := &c.policies[i]
				want, compared := c.want[p.Name]
				s := verdicts[p.Name].Status(p, noon)
				if diff := cmp.Diff(want, statusOf(s)); compared && diff != "" {
					t.Errorf("%s: %s", p.Name, diff)
				}
				if s.ObservedGeneration != 3 || len(s.Conditions) != 2 || s.Conditions[0].ObservedGeneration != 3 || !s.Conditions[1].LastTransitionTime.Time.Equal(noon) {
					t.Errorf("%s: the status is %+v", p.Name, s)
				}
			}
		})
	}
}

// TestTransitions: a condition keeps the time of its last transition while its status stays, and no condition of others is kept.
func TestTransitions(t *testing.T) {
	t.Parallel()
	p := policy("p", 1, "*")
	early := metav1.NewTime(noon.Add(-time.Hour))
	p.Status.Conditions = []metav1.Condition{
		{Type: "Strange", Status: metav1.ConditionTrue, LastTransitionTime: early},
		{Type: v1alpha1.InEffectCondition, Status: metav1.ConditionTrue, Reason: "Before", LastTransitionTime: early},
		{Type: v1alpha1.PromisingCondition, Status: metav1.ConditionTrue, LastTransitionTime: early},
	}
	nodes := []fencepolicy.Node{{Name: "n", Boot: boot}}
	s := fencepolicy.Judge(fencepolicy.Facts{Policies: []v1alpha1.FencePolicy{p}, Nodes: nodes})["p"].Status(&p, noon)
	if len(s.Conditions) != 2 || !s.Conditions[0].LastTransitionTime.Equal(&early) || !s.Conditions[1].LastTransitionTime.Time.Equal(noon) {
		t.Errorf("the conditions are %+v", s.Conditions)
	}
	if got := s.WithoutPromise[0].Message; got != fencepolicy.NoAgent.Text() {
		t.Errorf("the message is %q", got)
	}
}
