package quorum

import (
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// parse reads members from words such as "a:ready,label,pod". The features are ready, label, pod, badpod, serves.
func parse(t *testing.T, text string) []member {
	t.Helper()
	var members []member
	for word := range strings.FieldsSeq(text) {
		name, features, _ := strings.Cut(word, ":")
		m := member{name: name}
		for f := range strings.SplitSeq(features, ",") {
			switch f {
			case "ready":
				m.ready = true
			case "label":
				m.labelled = true
			case "pod":
				m.pods = podsReady
			case "badpod":
				m.pods = podsNotReady
			case "serves":
				m.serves = true
			case "":
			default:
				t.Fatalf("%q is no feature", f)
			}
		}
		members = append(members, m)
	}
	return members
}

func TestByMembers(t *testing.T) {
	cases := map[string]struct {
		reason  string
		target  string
		members string
		want    core.Tri
	}{
		"no member anywhere":                 {"unknown never acts", "a", "a b:ready c:ready", core.Unknown},
		"no nodes at all":                    {"the same", "a", "", core.Unknown},
		"two of three work":                  {"", "a", "a:pod b:ready,pod c:ready,pod", core.Yes},
		"the target would work too":          {"it is out while it is repaired", "a", "a:ready,pod b:ready,pod c:pod", core.No},
		"one of three works":                 {"", "a", "a:pod b:ready,pod c:badpod", core.No},
		"a node is ready and its pod is not": {"", "a", "a:pod b:ready,pod c:ready,badpod", core.No},
		"a pod is ready and its node is not": {"its kubelet no longer reports on the pod", "a", "a:pod b:ready,pod c:pod", core.No},
		"three of five work":                 {"", "a", "a:pod b:pod c:ready,pod d:ready,pod e:ready,pod", core.Yes},
		"two of five work":                   {"", "a", "a:pod b:pod c:badpod d:ready,pod e:ready,pod", core.No},
		"it is the only one":                 {"", "a", "a:ready,pod", core.No},
		"one of two":                         {"", "a", "a:pod b:ready,pod", core.No},
		"three of four work":                 {"", "a", "a:pod b:ready,pod c:ready,pod d:ready,pod", core.Yes},
		"two of four work":                   {"half is no majority", "a", "a:pod b:pod c:ready,pod d:ready,pod", core.No},

		"a target that has lost its node":       {"its member may be alive", "a", "b:ready,pod c:ready,pod", core.Yes},
		"the same, and another one is out":      {"", "a", "b:ready,pod c:pod", core.No},
		"a target that never had a node":        {"", "", "b:ready,pod c:pod", core.No},
		"a target whose pods were deleted":      {"remediators delete the pods of nodes that are out", "a", "a b:ready,pod c:pod", core.No},
		"another one whose pods were deleted":   {"it has a vote, and does not work", "a", "a:pod b:ready,pod c:ready", core.No},
		"two of five whose pods were deleted":   {"", "a", "a:pod b c d:ready,pod e:ready,pod", core.No},
		"API servers beside etcd pods":          {"an API server is no member", "a", "a:pod,serves b:ready,pod,serves c:ready,serves", core.No},
		"a node of none of the roles has a pod": {"nothing is known of it", "a", "a:pod b:ready,pod c:ready,pod d:pod e:pod", core.No},

		"labels: two of three work":                     {"", "a", "a:label b:ready,label c:ready,label", core.Yes},
		"labels: one of three works":                    {"", "a", "a:label b:label c:ready,label", core.No},
		"labels: healthy nodes without a member":        {"they have no vote", "a", "a:label b:label c:ready,label d:ready e:ready f:ready,serves", core.No},
		"labels: nodes without a member that are out":   {"they make no majority larger", "a", "a:label b:ready,label c:ready,label d e f", core.Yes},
		"labels: the target is no member":               {"the quorum is not on it", "d", "a:label b:label c:ready,label d:ready", core.Yes},
		"labels: a member without one, which has a pod": {"", "a", "a:label b:ready,label c:ready,pod", core.Yes},
		"labels: a pod that is not ready":               {"", "a", "a:label b:ready,label c:ready,label,badpod", core.No},
		"labels: the target has lost its node":          {"", "d", "a:label b:ready,label c:ready,label", core.No},

		"API servers: two of three work":    {"", "a", "a:serves b:ready,serves c:ready,serves", core.Yes},
		"API servers: the target's is dead": {"", "a", "a b:ready,serves c:ready,serves", core.Yes},
		"API servers: two are dead":         {"a node without one may have a member", "a", "a b:ready c:ready,serves", core.No},
		"API servers: a node is not ready":  {"", "a", "a:serves b:serves c:ready,serves", core.No},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := byMembers(tc.target, parse(t, tc.members)); got != tc.want {
				t.Errorf("survives: %s, want %s. %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestEvident: any evidence on any node is evidence.
func TestEvident(t *testing.T) {
	for members, want := range map[string]bool{
		"": false, "a b:ready": false, "a b:label": true, "a b:pod": true, "a b:badpod": true, "a:serves b": true,
	} {
		if got := hasEvidence(parse(t, members)); got != want {
			t.Errorf("evidence in %q: %t, want %t", members, got, want)
		}
	}
}

func TestByBudget(t *testing.T) {
	none := budget{counted: true}
	cases := map[string]struct {
		reason string
		budget budget
		guards []guardPod
		want   core.Tri
	}{
		"a disruption is allowed":       {"", budget{counted: true, allowed: 1}, []guardPod{{"a", core.Yes}}, core.Yes},
		"the budget was not counted":    {"its status is of an older specification", budget{allowed: 1}, nil, core.Unknown},
		"the target's guard is ready":   {"another one uses the budget up", none, []guardPod{{"a", core.Yes}, {"b", core.No}}, core.No},
		"the target's guard is unknown": {"it may be ready", none, []guardPod{{"a", core.Unknown}, {"b", core.Yes}}, core.No},
		"the target's guard is not":     {"it uses the budget up itself", none, []guardPod{{"a", core.No}, {"b", core.Yes}}, core.Yes},
		"the target has no guard":       {"the same", none, []guardPod{{"b", core.Yes}, {"c", core.Yes}}, core.Yes},
		"one of two guards is ready":    {"", none, []guardPod{{"a", core.No}, {"a", core.Yes}}, core.No},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := byBudget("a", tc.budget, tc.guards); got != tc.want {
				t.Errorf("survives: %s, want %s. %s", got, tc.want, tc.reason)
			}
		})
	}
}
