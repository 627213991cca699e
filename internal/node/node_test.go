package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// decoded returns the node as a cache decodes it.
func decoded(n *corev1.Node) *slim.Node {
	body, err := n.Marshal()
	d := &slim.Node{}
	if err := errors.Join(err, d.Unmarshal(body)); err != nil {
		panic(err)
	}
	return d
}

// aNode returns a node as a kubelet reports it, with as many images as large nodes list.
func aNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			Labels:        map[string]string{"kubernetes.io/hostname": name, "node-role.kubernetes.io/worker": ""},
			Annotations:   map[string]string{"machine.openshift.io/machine": "machines/" + name},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat(" ", 2000))}},
		},
		Spec: corev1.NodeSpec{ProviderID: "cloud:///" + name},
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		condition(c, corev1.ConditionFalse, noon)(n)
	}
	condition(corev1.NodeReady, corev1.ConditionTrue, noon)(n)
	for i := range 40 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry/image-%d@sha256:%064d", i, i)}, SizeBytes: 1 << 28})
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// condition sets a condition of a node.
func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		c := corev1.NodeCondition{
			Type: kind, Status: status, LastTransitionTime: metav1.NewTime(since), LastHeartbeatTime: metav1.NewTime(since),
			Reason: "KubeletSaysSo", Message: "kubelet says so",
		}
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == kind {
				n.Status.Conditions[i] = c
				return
			}
		}
		n.Status.Conditions = append(n.Status.Conditions, c)
	}
}

func labelled(key string) func(*corev1.Node) { return label(key, "") }

func heartbeat(n *corev1.Node) {
	n.ResourceVersion += "0"
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(noon.Add(time.Hour))
	}
}

func TestFacts(t *testing.T) {
	const said = "KubeletSaysSo"
	conditions := []core.Condition{
		{Type: "MemoryPressure", Status: "False", Reason: said, Since: noon}, {Type: "DiskPressure", Status: "False", Reason: said, Since: noon},
		{Type: "PIDPressure", Status: "False", Reason: said, Since: noon}, {Type: "Ready", Status: "True", Reason: said, Since: noon},
	}
	worker := Facts{
		Node:    core.Node{State: core.NodePresent, Name: "n", UID: "n-uid", Conditions: conditions},
		Created: noon.Add(-time.Hour), Revision: "1", MachineNamespace: "machines",
	}
	facts := func(change func(*Facts)) Facts {
		f := worker
		change(&f)
		return f
	}
	with := func(c core.Condition) Facts {
		return facts(func(f *Facts) { f.Node.Conditions = slices.Concat(conditions, []core.Condition{c}) })
	}
	controlPlane := facts(func(f *Facts) { f.Node.ControlPlane = true })
	upgrading := facts(func(f *Facts) { f.Node.Upgrading = true })
	cases := map[string]struct {
		reason string
		node   *corev1.Node
		want   Facts
	}{
		"a worker":                                {"conditions in their order", aNode("n"), worker},
		"a control-plane node":                    {"by its label", aNode("n", labelled("node-role.kubernetes.io/control-plane")), controlPlane},
		"a master":                                {"by the older label", aNode("n", labelled("node-role.kubernetes.io/master")), controlPlane},
		"a node of etcd":                          {"it has a vote", aNode("n", labelled("node-role.kubernetes.io/etcd")), controlPlane},
		"a node with both labels":                 {"", aNode("n", labelled("node-role.kubernetes.io/control-plane"), labelled("node-role.kubernetes.io/master")), controlPlane},
		"an excluded node":                        {"", aNode("n", label(slim.ExcludeLabel, "true")), facts(func(f *Facts) { f.Node.Excluded = true })},
		"a label that excludes none":              {"only one value does", aNode("n", label(slim.ExcludeLabel, "false")), worker},
		"a label that says nothing":               {"what was meant is not known", aNode("n", labelled(slim.ExcludeLabel)), facts(func(f *Facts) { f.Mislabelled = true })},
		"a node to be repaired":                   {"a person requests it", aNode("n", annotated(annotation.RepairRequestedAt, "2026-08-03T13:00:00+02:00")), facts(func(f *Facts) { f.RepairRequest.At = time.Date(2026, 8, 3, 11, 0, 0, 0, time.UTC) })},
		"a node to be repaired at no time":        {"it has no effect, and the user learns that", aNode("n", annotated(annotation.RepairRequestedAt, "")), facts(func(f *Facts) { f.RepairRequest.Unreadable = true })},
		"a node that is confirmed healthy":        {"whatever the value", aNode("n", annotated(slim.ConfirmedHealthyAnnotation, "")), facts(func(f *Facts) { f.ConfirmedHealthy = true })},
		"a node with its config":                  {"it has what it is to have", aNode("n", annotated(slim.CurrentConfigAnnotation, "a"), annotated(slim.DesiredConfigAnnotation, "a")), worker},
		"a node with another config":              {"it is on its way", aNode("n", annotated(slim.CurrentConfigAnnotation, "a"), annotated(slim.DesiredConfigAnnotation, "b")), upgrading},
		"a node without a config":                 {"it is on its way", aNode("n", annotated(slim.DesiredConfigAnnotation, "b")), upgrading},
		"a node that was configured":              {"nothing else is wanted", aNode("n", annotated(slim.CurrentConfigAnnotation, "a")), worker},
		"a node of a machine that is named badly": {"it names nothing", aNode("n", annotated(slim.MachineAnnotation, "m")), facts(func(f *Facts) { f.MachineNamespace = "" })},
		"a node that is leaving":                  {"", aNode("n", leaving), facts(func(f *Facts) { f.Deleting = true })},
		"a condition of others": {
			"any condition may be a criterion", aNode("n", condition("Terminating", "True", noon)),
			with(core.Condition{Type: "Terminating", Status: "True", Reason: said, Since: noon}),
		},
		"a condition without a time": {
			"it is not known since when", aNode("n", condition("Odd", "True", time.Time{})), with(core.Condition{Type: "Odd", Status: "True", Reason: said}),
		},
		"a node of which nothing is known": {
			"it is there", &corev1.Node{}, Facts{Node: core.Node{State: core.NodePresent}},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			tc.want.Labels = slim.LabelsOf(tc.node.Labels)
			if diff := cmp.Diff(tc.want, FactsOf(decoded(tc.node)), labelsByValue); diff != "" {
				t.Errorf("%s\nfacts (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	if diff := cmp.Diff(Facts{}, View{}.Facts()); diff != "" {
		t.Errorf("of no node there are facts (-want +got):\n%s", diff)
	}
}

// labelsByValue compares labels by their keys and values.
var labelsByValue = cmp.Transformer("Map", slim.Labels.Map)

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels = maps.Clone(n.Labels)
		n.Labels[key] = value
	}
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Annotations = maps.Clone(n.Annotations)
		n.Annotations[key] = value
	}
}

func leaving(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: noon} }

// TestI15UnreadFieldsAreReported: a node whose fields were cut says so, also when nothing else has
// changed.
func TestI15UnreadFieldsAreReported(t *testing.T) {
	whole := &slim.Node{Meta: slim.Meta{Name: "n"}}
	cut := &slim.Node{Meta: slim.Meta{Name: "n", Unread: "it has too much"}}
	if FactsOf(whole).Node.Unread != "" || FactsOf(cut).Node.Unread == "" || NewView(whole).Same(NewView(cut)) {
		t.Errorf("the facts are %+v and %+v", FactsOf(whole), FactsOf(cut))
	}
}

func TestPutTellsWhetherAFactChanged(t *testing.T) {
	cases := map[string]struct {
		reason string
		put    *corev1.Node
		want   bool
	}{
		"the same again":           {"", aNode("n"), false},
		"a heartbeat":              {"the kubelet lives, and nothing else", aNode("n", heartbeat), false},
		"an image":                 {"no decision reads images", aNode("n", func(n *corev1.Node) { n.Status.Images = n.Status.Images[1:] }), false},
		"a label":                  {"it matters to selectors alone", aNode("n", labelled("zone")), false},
		"an annotation":            {"no decision reads this one", aNode("n", annotated("a", "b")), false},
		"an exclusion":             {"it must not be repaired", aNode("n", label(slim.ExcludeLabel, "true")), true},
		"an unclear exclusion":     {"an event has to tell it", aNode("n", labelled(slim.ExcludeLabel)), true},
		"a confirmation":           {"a person says that it is well", aNode("n", annotated(slim.ConfirmedHealthyAnnotation, "x")), true},
		"an upgrade":               {"it begins", aNode("n", annotated(slim.DesiredConfigAnnotation, "x")), true},
		"its end":                  {"it is being deleted", aNode("n", leaving), true},
		"a taint":                  {"no decision reads taints", aNode("n", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }), false},
		"a reason of a condition":  {"a criterion may name it", aNode("n", func(n *corev1.Node) { n.Status.Conditions[3].Reason = "Other" }), true},
		"a message of a condition": {"no behaviour follows from it", aNode("n", func(n *corev1.Node) { n.Status.Conditions[3].Message = "other" }), false},
		"a request for a repair":   {"a person requests it", aNode("n", annotated(annotation.RepairRequestedAt, "2026-08-03T11:00:00Z")), true},
		"a request of nothing":     {"the user learns that it has no effect", aNode("n", annotated(annotation.RepairRequestedAt, "")), true},
		"the time in another zone": {
			"an instant is an instant", aNode("n", condition(corev1.NodeReady, corev1.ConditionTrue, noon.In(time.FixedZone("east", 3600)))), false,
		},
		"a status":       {"it is not Ready", aNode("n", condition(corev1.NodeReady, corev1.ConditionFalse, noon)), true},
		"a transition":   {"it went and came back", aNode("n", condition(corev1.NodeReady, corev1.ConditionTrue, noon.Add(time.Second))), true},
		"a condition":    {"there is one more", aNode("n", condition("Terminating", "True", noon)), true},
		"none":           {"there are none", aNode("n", func(n *corev1.Node) { n.Status.Conditions = nil }), true},
		"another type":   {"", aNode("n", func(n *corev1.Node) { n.Status.Conditions[0].Type = "Other" }), true},
		"control plane":  {"it belongs there now", aNode("n", labelled("node-role.kubernetes.io/control-plane")), true},
		"master":         {"it belongs there now", aNode("n", labelled("node-role.kubernetes.io/master")), true},
		"a namesake":     {"it is another node", aNode("n", func(n *corev1.Node) { n.UID = "other" }), true},
		"another node":   {"it has never been seen", aNode("m"), true},
		"in other order": {"an order is a fact too: the first match decides", aNode("n", swapConditions), true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := NewStore()
			if !s.Put(decoded(aNode("n"))) {
				t.Error("a node that is new changes nothing")
			}
			if got := s.Put(decoded(tc.put)); got != tc.want {
				t.Errorf("a fact changed: %t, want %t. %s", got, tc.want, tc.reason)
			}
			wantFacts(t, s, tc.put.Name, FactsOf(decoded(tc.put)))
		})
	}
}

func swapConditions(n *corev1.Node) {
	c := n.Status.Conditions
	c[0], c[1] = c[1], c[0]
}

// wantFacts checks the facts of a node in a store. Instants are equal in any zone.
func wantFacts(t *testing.T, s *Store, name string, want Facts) {
	t.Helper()
	called := false
	s.Lookup(func(find func(string) (Facts, bool)) {
		called = true
		got, found := find(name)
		if diff := cmp.Diff(want, got, labelsByValue); !found || diff != "" {
			t.Errorf("found %t; facts (-want +got):\n%s", found, diff)
		}
	})
	if !called {
		t.Error("the store shows no facts")
	}
}

// A request with another time is another request.
func TestRequestsOfAnotherTimeDiffer(t *testing.T) {
	at := func(text string) View {
		return NewView(decoded(aNode("n", annotated(annotation.RepairRequestedAt, text))))
	}
	if at("2026-08-03T11:00:00Z").Same(at("2026-08-03T11:00:01Z")) {
		t.Error("a request of a second later is taken for the same")
	}
	if !at("2026-08-03T11:00:00Z").Same(at("2026-08-03T11:00:00Z")) {
		t.Error("the same request is taken for another")
	}
}

// A node differs from no node, on either side.
func TestANodeDiffersFromNone(t *testing.T) {
	some, none := NewView(&slim.Node{}), View{} // a node without any mark, as none has
	if some.Same(none) || none.Same(some) || !none.Same(none) {
		t.Errorf("a node and none: %t, none and a node: %t, none twice: %t", some.Same(none), none.Same(some), none.Same(none))
	}
}

func TestStoreIgnoresWhatIsNoNode(t *testing.T) {
	for _, obj := range []any{nil, "a word", slim.Node{}, &corev1.Node{}} {
		if NewStore().Put(obj) {
			t.Errorf("a %T changes a fact", obj)
		}
	}
}

func TestStoreForgets(t *testing.T) {
	s := NewStore()
	s.Put(decoded(aNode("n")))
	s.Remove("n")
	s.Remove("never-seen")
	s.Lookup(func(find func(string) (Facts, bool)) {
		if f, found := find("n"); found {
			t.Errorf("a node that was removed is still there: %+v", f)
		}
	})
	if !s.Put(decoded(aNode("n"))) {
		t.Error("a node that comes back changes nothing")
	}
}

// someNode draws nodes that differ in fields that decisions read, and in others.
func someNode() *rapid.Generator[*corev1.Node] {
	kinds := rapid.SampledFrom([]corev1.NodeConditionType{"Ready", "DiskPressure", "Terminating"})
	states := rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown", ""})
	return rapid.Custom(func(t *rapid.T) *corev1.Node {
		n := &corev1.Node{}
		n.Name, n.UID = "n", types.UID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "uid"))
		n.ResourceVersion = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "revision")
		n.Labels = rapid.MapOfN(rapid.SampledFrom(append(slim.ControlPlaneLabels(), slim.ExcludeLabel, "zone")), rapid.SampledFrom([]string{"", "true"}), 0, 2).Draw(t, "labels")
		keys := rapid.SampledFrom([]string{"a", slim.ConfirmedHealthyAnnotation, slim.CurrentConfigAnnotation, slim.DesiredConfigAnnotation})
		n.Annotations = rapid.MapOfN(keys, rapid.SampledFrom([]string{"", "b"}), 0, 3).Draw(t, "annotations")
		if rapid.Bool().Draw(t, "leaving") {
			leaving(n)
		}
		n.Status.Images = make([]corev1.ContainerImage, rapid.IntRange(0, 2).Draw(t, "images"))
		for range rapid.IntRange(0, 3).Draw(t, "conditions") {
			since := noon.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "since")) * time.Second)
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: kinds.Draw(t, "type"), Status: states.Draw(t, "status"), LastTransitionTime: metav1.NewTime(since),
				LastHeartbeatTime: metav1.NewTime(noon), Message: "m",
			})
		}
		return n
	})
}

// readStock is the naive twin of FactsOf: it reads a whole node.
func readStock(n *corev1.Node) Facts {
	exclude, labelled := n.Labels["remediation.medik8s.io/exclude-from-remediation"]
	_, confirmed := n.Annotations["remediation.medik8s.io/manually-confirmed-healthy"]
	desired := n.Annotations["machineconfiguration.openshift.io/desiredConfig"]
	f := Facts{
		Node:        core.Node{State: core.NodePresent, Name: n.Name, UID: string(n.UID)},
		Mislabelled: labelled && exclude == "", ConfirmedHealthy: confirmed, Deleting: n.DeletionTimestamp != nil,
		Labels: slim.LabelsOf(n.Labels), Created: n.CreationTimestamp.Time, Revision: n.ResourceVersion,
	}
	f.Node.Excluded = exclude == "true"
	f.Node.Upgrading = desired != "" && desired != n.Annotations["machineconfiguration.openshift.io/currentConfig"]
	for _, c := range n.Status.Conditions {
		f.Node.Conditions = append(f.Node.Conditions, core.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
	for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"} {
		_, has := n.Labels[label]
		f.Node.ControlPlane = f.Node.ControlPlane || has
	}
	return f
}

// TestDecodingLosesNoFact: a slim node has the facts of the whole one.
func TestDecodingLosesNoFact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := someNode().Draw(t, "node")
		if diff := cmp.Diff(readStock(n), FactsOf(decoded(n)), labelsByValue); diff != "" {
			t.Errorf("facts (-of the whole node +of the slim one):\n%s", diff)
		}
	})
}

// TestPutAgreesWithSame: the fast comparison of an event agrees with a comparison of all facts.
func TestPutAgreesWithSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := someNode().Draw(t, "first"), someNode().Draw(t, "second")
		s := NewStore()
		s.Put(decoded(a))
		changed := s.Put(decoded(b))
		of := func(n *corev1.Node) Facts {
			f := readStock(n)
			f.Labels, f.Revision = nil, "" // no decision follows from them alone
			return f
		}
		if same := cmp.Equal(of(a), of(b)); changed == same {
			t.Errorf("changed: %t, yet the facts are the same: %t", changed, same)
		}
	})
}

// TestFactsLiveInTheNewestNode: a store that refers to the first of a thousand heartbeats would
// keep a second copy of every node alive.
func TestFactsLiveInTheNewestNode(t *testing.T) {
	s := NewStore()
	s.Put(decoded(aNode("n")))
	newest := decoded(aNode("n", heartbeat))
	if s.Put(newest) {
		t.Fatal("a heartbeat changes a fact")
	}
	s.Lookup(func(find func(string) (Facts, bool)) {
		if f, _ := find("n"); &f.Node.Conditions[0] != &newest.Conditions[0] {
			t.Error("the facts are those of a node that is no longer cached")
		}
	})
}

// TestStoreIsSafeForConcurrentUse runs concurrent calls for the race detector.
func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s := NewStore()
	var users sync.WaitGroup
	for i := range 4 {
		users.Go(func() {
			name := fmt.Sprint(i % 2)
			for range 50 {
				s.Put(decoded(aNode(name)))
				s.Lookup(func(find func(string) (Facts, bool)) { find(name) })
				s.Remove(name)
			}
		})
	}
	users.Wait()
}

// TestHeartbeatCostsNoMemory: nearly every event is a heartbeat.
func TestHeartbeatCostsNoMemory(t *testing.T) {
	s := NewStore()
	s.Put(decoded(aNode("n")))
	n := decoded(aNode("n", heartbeat))
	if got := testing.AllocsPerRun(100, func() { s.Put(n) }); got > 0 {
		t.Errorf("an unchanged heartbeat allocates %.0f times", got)
	}
}

// BenchmarkHeartbeat measures a heartbeat among 5,000 nodes.
func BenchmarkHeartbeat(b *testing.B) {
	s := NewStore()
	for i := range 5000 {
		s.Put(decoded(aNode(fmt.Sprintf("n-%d", i))))
	}
	n := decoded(aNode("n-77", heartbeat))
	b.ReportAllocs()
	for b.Loop() {
		s.Put(n)
	}
}

// TestStoreReplaces: Replace replaces all nodes, and reports whether that changed a fact.
func TestStoreReplaces(t *testing.T) {
	named := func(name string, conditions ...core.Condition) *slim.Node {
		return &slim.Node{Meta: slim.Meta{Name: name, UID: types.UID(name)}, Conditions: conditions}
	}
	ready := core.Condition{Type: "Ready", Status: "True"}
	s := NewStore()
	steps := []struct {
		sentence string
		all      []*slim.Node
		changed  bool
	}{
		{"nothing, as before", nil, false},
		{"two nodes", []*slim.Node{named("a"), named("b")}, true},
		{"the same ones", []*slim.Node{named("b"), named("a")}, false},
		{"one says something else", []*slim.Node{named("a", ready), named("b")}, true},
		{"one is another one", []*slim.Node{named("a", ready), named("c")}, true},
		{"one is gone", []*slim.Node{named("c")}, true},
	}
	for _, step := range steps {
		if changed := s.Replace(step.all); changed != step.changed {
			t.Errorf("%s: changed %t", step.sentence, changed)
		}
	}
	s.Lookup(func(find func(string) (Facts, bool)) {
		if _, stays := find("a"); stays {
			t.Error("a node that is not in the list stays")
		}
		if facts, found := find("c"); !found || facts.Node.UID != "c" {
			t.Errorf("a node of the list is not found, but %+v", facts)
		}
	})
}
