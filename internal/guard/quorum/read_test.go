package quorum

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// noon is the time of these tests.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// object reads an object from YAML.
func object(t *testing.T, yaml string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := utilyaml.Unmarshal([]byte(yaml), &u.Object); err != nil {
		t.Fatalf("reading an object: %v", err)
	}
	return u
}

func TestReadPod(t *testing.T) {
	cases := map[string]struct {
		yaml string
		node string
		want core.Tri
	}{
		"ready":                  {`{spec: {nodeName: a}, status: {conditions: [{type: Other, status: "False"}, {type: Ready, status: "True"}]}}`, "a", core.Yes},
		"not ready":              {`{spec: {nodeName: a}, status: {conditions: [{type: Ready, status: "False"}]}}`, "a", core.No},
		"unknown":                {`{spec: {nodeName: a}, status: {conditions: [{type: Ready, status: Unknown}]}}`, "a", core.Unknown},
		"of no word on that":     {`{spec: {nodeName: a}, status: {conditions: [{type: Other, status: "True"}]}}`, "a", core.No},
		"new, and nowhere yet":   {`{spec: {}}`, "", core.No},
		"of which nothing reads": {`{spec: 1, status: {conditions: many}}`, "", core.No},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := readPod(object(t, tc.yaml))
			if p.Node != tc.node || p.ready() != tc.want {
				t.Errorf("on %q, ready: %s; want on %q, %s", p.Node, p.ready(), tc.node, tc.want)
			}
		})
	}
}

func TestReadBudget(t *testing.T) {
	cases := map[string]struct {
		yaml     string
		want     budget
		selector string
		fails    bool
	}{
		"counted":                 {`{metadata: {generation: 2}, spec: {selector: {matchLabels: {app: guard}}}, status: {observedGeneration: 2, disruptionsAllowed: 1}}`, budget{true, 1}, "app=guard", false},
		"counted before it grew":  {`{metadata: {generation: 3}, spec: {selector: {matchLabels: {app: guard}}}, status: {observedGeneration: 2, disruptionsAllowed: 1}}`, budget{false, 1}, "app=guard", false},
		"of all pods":             {`{metadata: {generation: 1}, spec: {selector: {}}, status: {observedGeneration: 1}}`, budget{true, 0}, "", false},
		"new":                     {`{metadata: {generation: 1}, spec: {selector: {matchLabels: {app: guard}}}}`, budget{false, 0}, "app=guard", false},
		"of a broken selector":    {`{spec: {selector: {matchExpressions: [{key: app, operator: Like}]}}}`, budget{}, "", true},
		"of a number that is one": {`{spec: {selector: {}}, status: {disruptionsAllowed: many}}`, budget{}, "", true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, selector, err := readBudget(object(t, tc.yaml))
			if (err != nil) != tc.fails || got != tc.want {
				t.Fatalf("got %+v, %v; want %+v, an error: %t", got, err, tc.want, tc.fails)
			}
			if err == nil && selector.String() != tc.selector {
				t.Errorf("it selects %q, want %q", selector, tc.selector)
			}
		})
	}
}

// TestLivingHost: an API server renews its lease every ten seconds, for an hour.
func TestLivingHost(t *testing.T) {
	renewed := func(at string) string {
		return `{metadata: {labels: {kubernetes.io/hostname: h}}, spec: {leaseDurationSeconds: 3600, renewTime: "2026-08-03T` + at + `.000000Z"}}`
	}
	cases := map[string]struct{ yaml, want string }{
		"renewed":                {renewed("11:59:50"), "h"},
		"renewed just in time":   {renewed("11:59:01"), "h"},
		"renewed a minute ago":   {renewed("11:59:00"), ""},
		"dead for 50 minutes":    {renewed("11:10:00"), ""},
		"of a clock a bit ahead": {renewed("12:00:59"), "h"},
		"renewed in the future":  {renewed("12:01:00"), ""},
		"of a short duration":    {`{metadata: {labels: {kubernetes.io/hostname: h}}, spec: {leaseDurationSeconds: 9, renewTime: "2026-08-03T11:59:51.000000Z"}}`, ""},
		"never renewed":          {`{metadata: {labels: {kubernetes.io/hostname: h}}, spec: {leaseDurationSeconds: 3600}}`, ""},
		"of no host":             {`{spec: {leaseDurationSeconds: 3600, renewTime: "2026-08-03T12:00:00.000000Z"}}`, ""},
		"of no duration":         {`{metadata: {labels: {kubernetes.io/hostname: h}}, spec: {renewTime: "2026-08-03T12:00:00.000000Z"}}`, ""},
		"that says nothing":      {`{metadata: {labels: {kubernetes.io/hostname: h}}}`, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := livingHost(object(t, tc.yaml), noon); got != tc.want {
				t.Errorf("its host is %q, want %q", got, tc.want)
			}
		})
	}
}

func aNode(name, status string, labels map[string]string) *slim.Node {
	n := &slim.Node{Meta: slim.Meta{Name: name, Labels: slim.LabelsOf(labels)}}
	n.Conditions = []core.Condition{{Type: "Other", Status: "True"}}
	if status != "" {
		n.Conditions = append(n.Conditions, core.Condition{Type: "Ready", Status: status})
	}
	return n
}

func TestMembersOf(t *testing.T) {
	nodes := []*slim.Node{
		aNode("a", "True", map[string]string{"node-role.kubernetes.io/etcd": "true"}),
		aNode("b", "Unknown", map[string]string{"kubernetes.io/hostname": "B.example.org"}),
		aNode("c", "", nil),
	}
	says := func(node, status string) pod { return pod{Node: node, Conditions: []condition{{"Ready", status}}} }
	mirror := func(node, status string) pod { p := says(node, status); p.Mirror = true; return p }
	pods := []pod{
		mirror("a", "True"), says("b", "True"), says("b", "False"), says("elsewhere", "True"), says("", "True"), mirror("worker", "True"),
	}
	got := membersOf(nodes, pods, []string{"b.example.org", "C", "another"})
	slices.SortFunc(got, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	want := []member{
		{name: "a", ready: true, labelled: true, pods: podsReady},
		{name: "b", pods: podsNotReady, serves: true},
		{name: "c", serves: true},
		{name: "elsewhere", pods: podsReady},
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(member{})); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

// TestI14KubeletMakesNoMember: a kubelet can make a mirror pod of any labels on its own node.
func TestI14KubeletMakesNoMember(t *testing.T) {
	forged := readPod(object(t, `{metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {nodeName: worker},
status: {conditions: [{type: Ready, status: "True"}]}}`))
	if got := membersOf(nil, []pod{forged}, nil); len(got) > 0 {
		t.Errorf("a worker's mirror pod makes members: %+v", got)
	}
	master := aNode("a", "True", nil)
	if got := membersOf([]*slim.Node{master}, []pod{forged}, nil); hasEvidence(got) {
		t.Errorf("a worker's mirror pod is evidence: %+v", got)
	}
}
