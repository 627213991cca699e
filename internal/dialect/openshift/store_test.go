package openshift

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

const workers, masters, everything = `{selector: {matchLabels: {role: worker}}}`, `{selector: {matchLabels: {role: master}}}`, `{}`

func TestMembership(t *testing.T) {
	f := newStore()
	f.putMachine(aMachine("c"))
	f.putMachine(aMachine("a"))
	f.putMachine(aMachine("b", labelled("role", "master")))
	f.putMachine(aMachine("elsewhere", inNamespace("other")))
	f.putCheck(check(t, "workers", "1", workers, nil))
	f.putCheck(check(t, "masters", "1", masters, nil))
	f.putCheck(check(t, "everything", "1", everything, nil))
	f.putCheck(check(t, "nothing", "1", `{selector: {matchLabels: {role: none}}}`, nil))
	f.putCheck(check(t, "broken", "1", `{selector: {matchExpressions: [{key: role, operator: Near}]}}`, nil))
	want := map[string][]string{
		"workers": {"a", "c"}, "masters": {"b"}, "everything": {"a", "b", "c"}, "nothing": {}, "broken": {},
	}
	if diff := cmp.Diff(want, membersOf(f.snapshot(none))); diff != "" {
		t.Errorf("members, by their namespace and labels (-want +got):\n%s", diff)
	}
}

// TestI15AnswerIsBounded: the answer to a write is bounded as in the cache. Otherwise a health
// check would be judged alternately by a part of itself and by the whole.
func TestI15AnswerIsBounded(t *testing.T) {
	f := newStore()
	f.putCheck(check(t, "check", "1", workers, nil))
	f.storeWritten(check(t, "check", "2", `{selector: {matchLabels: {role: worker}}, maxUnhealthy: "`+strings.Repeat("9", 1<<20)+`"}`, nil))
	if got := f.checks["machines/check"]; got.revision != "2" || !strings.Contains(got.policy.Problem, "more than the 524288 bytes") {
		t.Errorf("in revision %s it says %q", got.revision, got.policy.Problem)
	}
}

// TestMembershipFollowsChanges: members follow each object that comes, goes or changes.
func TestMembershipFollowsChanges(t *testing.T) {
	steps := []struct {
		sentence string
		change   func(*store)
		want     map[string][]string
	}{
		{"a machine comes", func(f *store) { f.putMachine(aMachine("a")) }, map[string][]string{}},
		{"a health check comes", func(f *store) { f.putCheck(check(t, "check", "1", workers, nil)) }, map[string][]string{"check": {"a"}}},
		{"another machine comes", func(f *store) { f.putMachine(aMachine("b")) }, map[string][]string{"check": {"a", "b"}}},
		{"one comes that sorts before them", func(f *store) { f.putMachine(aMachine("Z")) }, map[string][]string{"check": {"Z", "a", "b"}}},
		{"a machine is relabelled", func(f *store) { f.putMachine(aMachine("a", labelled("role", "master"))) }, map[string][]string{"check": {"Z", "b"}}},
		{"another selector", func(f *store) { f.putCheck(check(t, "check", "2", masters, nil)) }, map[string][]string{"check": {"a"}}},
		{"a second health check", func(f *store) { f.putCheck(check(t, "all", "3", everything, nil)) }, map[string][]string{"check": {"a"}, "all": {"Z", "a", "b"}}},
		{"a machine goes", func(f *store) { f.dropMachine("machines/Z") }, map[string][]string{"check": {"a"}, "all": {"a", "b"}}},
		{"a machine that never was goes", func(f *store) { f.dropMachine("machines/x") }, map[string][]string{"check": {"a"}, "all": {"a", "b"}}},
		{"a health check goes", func(f *store) { f.dropCheck("machines/all") }, map[string][]string{"check": {"a"}}},
		{"the other is being deleted", func(f *store) { f.putCheck(terminating(check(t, "check", "4", masters, nil))) }, map[string][]string{}},
	}
	f := newStore()
	for _, s := range steps {
		s.change(&f)
		if diff := cmp.Diff(s.want, membersOf(f.snapshot(none))); diff != "" {
			t.Errorf("after this: %s, members are (-want +got):\n%s", s.sentence, diff)
		}
	}
}

func terminating(u *unstructured.Unstructured) *unstructured.Unstructured {
	at := metav1.NewTime(noon)
	u.SetDeletionTimestamp(&at)
	u.SetFinalizers([]string{"example.com/waits"})
	return u
}

func TestPutCheckTellsWhetherADecisionCanChange(t *testing.T) {
	withStatus := func(u *unstructured.Unstructured, status map[string]any) *unstructured.Unstructured {
		u.Object["status"] = status
		return u
	}
	recreated := check(t, "check", "9", workers, nil)
	recreated.SetUID("another-uid")
	held := map[string]any{"conditions": []any{map[string]any{"type": "RemediationAllowed", "status": "False", "reason": "TooManyUnhealthy"}}}
	cases := map[string]struct {
		reason string
		put    any
		want   bool
	}{
		"the same again":              {"nothing has changed", check(t, "check", "5", workers, nil), false},
		"a revision more":             {"no decision reads its metadata", check(t, "check", "6", workers, nil), false},
		"its status":                  {"numbers of the status decide nothing", withStatus(check(t, "check", "6", workers, nil), map[string]any{"currentHealthy": int64(3)}), false},
		"a storm in its status":       {"a short circuit that held is remembered there", withStatus(check(t, "check", "6", workers, nil), held), true},
		"an annotation of others":     {"no decision reads it", check(t, "check", "6", workers, map[string]string{"x": "y"}), false},
		"a pause":                     {"it stops repairs", check(t, "check", "6", workers, map[string]string{"cluster.x-k8s.io/paused": ""}), true},
		"another selector":            {"it has other members", check(t, "check", "6", masters, nil), true},
		"another limit":               {"it stops repairs earlier", check(t, "check", "6", `{selector: {matchLabels: {role: worker}}, maxUnhealthy: 1}`, nil), true},
		"another health check":        {"it has never been seen", check(t, "other", "6", workers, nil), true},
		"a namesake":                  {"it is another health check", recreated, true},
		"its end":                     {"it no longer requires repairs", terminating(check(t, "check", "6", workers, nil)), true},
		"an older revision":           {"a late word does not count", check(t, "check", "4", masters, nil), false},
		"something else than a check": {"", aMachine("m"), false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newStore()
			if !f.putCheck(check(t, "check", "5", workers, nil)) {
				t.Error("a health check that is new changes nothing")
			}
			if got := f.putCheck(tc.put); got != tc.want {
				t.Errorf("it can change a decision: %t, want %t. %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestOlderRevisionNeverReplacesANewer: the answer to a status write may overtake the watch.
func TestOlderRevisionNeverReplacesANewer(t *testing.T) {
	cases := map[string]struct {
		reason   string
		revision string
		replaced bool
	}{
		"an older one":            {"9 is before 10, though not as text", "9", false},
		"the same one":            {"the same revision is the same object", "10", true},
		"a newer one":             {"it is the newest word", "11", true},
		"a revision of letters":   {"it can't be compared, and what comes last holds", "abc", true},
		"one beyond 64 bits":      {"it can't be compared", "99999999999999999999999", true},
		"none":                    {"it can't be compared", "", true},
		"an older one by decades": {"", "1", false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newStore()
			f.putCheck(check(t, "check", "10", `{maxUnhealthy: 1}`, nil))
			f.putCheck(check(t, "check", tc.revision, `{maxUnhealthy: 2}`, nil))
			policies, _ := f.snapshot(none)
			want := core.Count(1)
			if tc.replaced {
				want = core.Count(2)
			}
			if got := policies[0].ShortCircuit.MaxUnhealthy; got != want {
				t.Errorf("maxUnhealthy is %v, want %v. %s", got, want, tc.reason)
			}
		})
	}
}

// TestNamesakeReplacesWhateverItsRevision: a namesake is another object, and its revisions can't be
// compared with those of the first.
func TestNamesakeReplacesWhateverItsRevision(t *testing.T) {
	f := newStore()
	f.putCheck(check(t, "check", "10", workers, nil))
	namesake := check(t, "check", "3", masters, nil)
	namesake.SetUID("another-uid")
	f.putCheck(namesake)
	policies, _ := f.snapshot(none)
	if got := policies[0].ID.UID; got != "another-uid" {
		t.Errorf("the health check is %s, want its namesake", got)
	}
}

func TestPutMachineTellsWhetherADecisionCanChange(t *testing.T) {
	revised := func(m *apiMachine) { m.ResourceVersion = "8" }
	cases := map[string]struct {
		reason string
		put    any
		want   bool
	}{
		"the same again":        {"nothing has changed", aMachine("m"), false},
		"a revision more":       {"no decision reads it", aMachine("m", revised), false},
		"another running phase": {"only Failed is read", aMachine("m", inPhase("Provisioned")), false},
		"an annotation":         {"no decision reads it", aMachine("m", annotated("x", "y")), false},
		"a finalizer":           {"no decision reads it", aMachine("m", func(m *apiMachine) { m.Finalizers = []string{"f"} }), false},
		"a mark":                {"an outside remediator is at it", aMachine("m", annotated(externalAnnotation, "")), true},
		"a failure":             {"it is unhealthy", aMachine("m", inPhase("Failed")), true},
		"its deletion":          {"it leaves", aMachine("m", deleting), true},
		"its node":              {"it has another one", aMachine("m", refer("other")), true},
		"no node":               {"it has none", aMachine("m", withoutNode), true},
		"an update":             {"its startup clock has begun anew", aMachine("m", neverUpdated), true},
		"a label":               {"it may be selected by others", aMachine("m", labelled("zone", "a")), true},
		"its role":              {"it belongs to the control plane", aMachine("m", labelled(roleLabel, masterRole)), true},
		"its owner":             {"nothing would replace it", aMachine("m", ownerless), true},
		"a namesake":            {"it is another machine", aMachine("m", func(m *apiMachine) { m.UID = "another" }), true},
		"another machine":       {"it has never been seen", aMachine("n"), true},
		"something else":        {"", &unstructured.Unstructured{}, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newStore()
			if !f.putMachine(aMachine("m")) {
				t.Error("a machine that is new changes nothing")
			}
			if got := f.putMachine(tc.put); got != tc.want {
				t.Errorf("it can change a decision: %t, want %t. %s", got, tc.want, tc.reason)
			}
		})
	}
}

// TestRevisionIsTheNewest: a deletion has the revision as its precondition. So the newest is stored
// even if the event changed nothing else.
func TestRevisionIsTheNewest(t *testing.T) {
	f := newStore()
	f.putMachine(aMachine("m"))
	f.putMachine(aMachine("m", func(m *apiMachine) { m.ResourceVersion = "8" }))
	if _, targets := f.snapshot(none); targets[0].Revision != "8" {
		t.Errorf("the revision is %s, want 8", targets[0].Revision)
	}
}

// leading are the facts of a node of the control plane.
var leading = core.NodeFacts{ControlPlane: true}

func TestNodesAreJoined(t *testing.T) {
	present := core.Node{State: core.NodePresent, Name: "m-node", UID: "n", Conditions: []core.Condition{{Type: "Ready", Status: "True", Since: noon}}}
	ofControlPlane := present
	ofControlPlane.NodeFacts = leading
	nodes := map[string]node.Facts{"m-node": {Node: present}, "cp-node": {Node: ofControlPlane}, "": {Node: present}}
	cases := map[string]struct {
		reason       string
		machine      *Machine
		want         core.Node
		controlPlane bool
	}{
		"a node that was seen":    {"", aMachine("m"), present, false},
		"a node that was not":     {"deleted, or not yet seen", aMachine("x"), core.Node{State: core.NodeUnseen, Name: "x-node"}, false},
		"no node yet":             {"", aMachine("m", withoutNode), core.Node{State: core.NodeAwaited}, false},
		"a control-plane node":    {"the node says so, whatever the machine says", aMachine("cp"), ofControlPlane, true},
		"a master without a node": {"the machine says so", aMachine("m", withoutNode, labelled(roleLabel, masterRole)), core.Node{State: core.NodeAwaited}, true},
		"a master with a node":    {"either of them suffices", aMachine("m", labelled(roleLabel, masterRole)), present, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newStore()
			f.putMachine(tc.machine)
			_, targets := f.snapshot(these(nodes))
			if diff := cmp.Diff(tc.want, targets[0].Node); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if targets[0].ControlPlane != tc.controlPlane {
				t.Errorf("control plane: %t, want %t. %s", targets[0].ControlPlane, tc.controlPlane, tc.reason)
			}
		})
	}
}

// TestControlPlaneIsThatOfTheMachineItself: a machine stays of the control plane when its node is no longer, and a namesake of
// the machine does not inherit that.
func TestControlPlaneIsThatOfTheMachineItself(t *testing.T) {
	with := func(facts core.NodeFacts) func(string) (node.Facts, bool) {
		return these(map[string]node.Facts{"cp-node": {Node: core.Node{State: core.NodePresent, Name: "cp-node", NodeFacts: facts}}})
	}
	s := newStore()
	wants := func(sentence string, find func(string) (node.Facts, bool), want bool) {
		t.Helper()
		if _, targets := s.snapshot(find); targets[0].ControlPlane != want {
			t.Errorf("%s: it is of the control plane: %t, want %t", sentence, targets[0].ControlPlane, want)
		}
	}
	s.putMachine(aMachine("cp"))
	wants("its node is", with(leading), true)
	wants("its node is relabelled", with(core.NodeFacts{}), true)
	wants("and once more", with(core.NodeFacts{}), true)
	s.putMachine(aMachine("cp", func(m *apiMachine) { m.UID = "another" }))
	wants("a namesake has a node that is not", with(core.NodeFacts{}), false)
}

// TestMarksOfANodeAreItsMachines: an exclusion or upgrade of a node is one of its machine.
func TestMarksOfANodeAreItsMachines(t *testing.T) {
	f := newStore()
	f.putMachine(aMachine("m"))
	for sentence, facts := range map[string]node.Facts{
		"excluded":  {Node: core.Node{NodeFacts: core.NodeFacts{Excluded: true}}},
		"upgrading": {Node: core.Node{NodeFacts: core.NodeFacts{Upgrading: true}}},
		"neither":   {ConfirmedHealthy: true},
	} {
		_, targets := f.snapshot(these(map[string]node.Facts{"m-node": facts}))
		if m := targets[0]; m.Node.NodeFacts != facts.Node.NodeFacts || m.ConfirmedHealthy {
			t.Errorf("its node is %s, and the machine has %+v, confirmed healthy: %t", sentence, m.Node.NodeFacts, m.ConfirmedHealthy)
		}
	}
	if _, targets := f.snapshot(none); targets[0].Node.NodeFacts != (core.NodeFacts{}) {
		t.Error("a node that is gone still marks its machine")
	}
}

// TestSnapshotsAreIndependent: changes that a pass makes to its snapshot don't show in the
// next.
func TestSnapshotsAreIndependent(t *testing.T) {
	f := newStore()
	f.putMachine(aMachine("m"))
	f.putCheck(check(t, "check", "1", workers, nil))
	policies, targets := f.snapshot(none)
	targets[0].Deleting, policies[0].Paused = true, true
	again, machines := f.snapshot(none)
	if machines[0].Deleting || again[0].Paused {
		t.Error("a change of one snapshot shows in the next")
	}
}

// TestStoreAgreesWithANaiveOne: after any events, the store equals a new store that has been given
// only the last state.
func TestStoreAgreesWithANaiveOne(t *testing.T) {
	specs := []string{workers, masters, everything, `{selector: {matchLabels: {no label: x}}}`}
	checks := map[string]*unstructured.Unstructured{}
	for i, spec := range specs {
		checks[spec] = check(t, "check", "1", spec, nil)
		checks[spec].SetResourceVersion(fmt.Sprint(i))
	}
	rapid.Check(t, func(t *rapid.T) {
		f, revision := newStore(), 10
		machines, policies := map[string]*Machine{}, map[string]*unstructured.Unstructured{}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"put machine": func(t *rapid.T) {
				m := aMachine(name.Draw(t, "name"), labelled("role", rapid.SampledFrom([]string{"worker", "master"}).Draw(t, "role")))
				m.Namespace = rapid.SampledFrom([]string{"machines", "other"}).Draw(t, "namespace")
				f.putMachine(m)
				machines[m.Namespace+"/"+m.Name] = m
			},
			"drop machine": func(t *rapid.T) {
				key := "machines/" + name.Draw(t, "name")
				f.dropMachine(key)
				delete(machines, key)
			},
			"put check": func(t *rapid.T) {
				u := checks[rapid.SampledFrom(specs).Draw(t, "spec")].DeepCopy()
				revision++
				u.SetName(name.Draw(t, "name"))
				u.SetUID(types.UID(u.GetName()))
				u.SetResourceVersion(fmt.Sprint(revision))
				f.putCheck(u)
				policies[u.GetName()] = u
			},
			"drop check": func(t *rapid.T) {
				key := name.Draw(t, "name")
				f.dropCheck("machines/" + key)
				delete(policies, key)
			},
			"": func(t *rapid.T) {
				rebuilt := newStore()
				for _, m := range machines {
					rebuilt.putMachine(m)
				}
				for _, u := range policies {
					rebuilt.putCheck(u)
				}
				wantPolicies, wantTargets := rebuilt.snapshot(none)
				gotPolicies, gotTargets := f.snapshot(none)
				if !reflect.DeepEqual(wantPolicies, gotPolicies) { // cmp is too slow for so many
					t.Fatalf("policies (-want +got):\n%s", cmp.Diff(wantPolicies, gotPolicies))
				}
				if len(wantTargets)+len(gotTargets) > 0 && !reflect.DeepEqual(wantTargets, gotTargets) {
					t.Fatalf("targets (-want +got):\n%s", cmp.Diff(wantTargets, gotTargets))
				}
			},
		})
	})
}

func TestStatusIsThatOfTheSameHealthCheck(t *testing.T) {
	f := newStore()
	u := check(t, "check", "5", workers, nil)
	u.Object["status"] = map[string]any{"currentHealthy": int64(3)}
	f.putCheck(u)
	id := core.ID{Kind: healthCheckKind, Namespace: "machines", Name: "check", UID: "check-uid"}
	if status, revision, known := f.statusOf(id); !known || revision != "5" || status.CurrentHealthy == nil || *status.CurrentHealthy != 3 {
		t.Errorf("got %v at revision %q, known: %t", status, revision, known)
	}
	namesake, stranger := id, id
	namesake.UID, stranger.Name = "another-uid", "other"
	for _, other := range []core.ID{namesake, stranger} {
		if _, _, known := f.statusOf(other); known {
			t.Errorf("%+v is taken for %+v", other, id)
		}
	}
}

// BenchmarkSnapshot measures a snapshot of 5,000 machines in ten pools while none comes or goes.
func BenchmarkSnapshot(b *testing.B) {
	f, nodes := bigStore(b)
	b.ReportAllocs()
	for b.Loop() {
		f.snapshot(these(nodes))
	}
}

// BenchmarkSnapshotAfterRelabelling measures the same after a machine has changed its labels.
func BenchmarkSnapshotAfterRelabelling(b *testing.B) {
	f, nodes := bigStore(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f.putMachine(aMachine("m-0", labelled("zone", fmt.Sprint(i))))
		f.snapshot(these(nodes))
	}
}

// BenchmarkMachineStatusUpdate measures an event that changes no fact.
func BenchmarkMachineStatusUpdate(b *testing.B) {
	f, _ := bigStore(b)
	m := aMachine("m-7", labelled("pool", "7"))
	b.ReportAllocs()
	for b.Loop() {
		f.putMachine(m)
	}
}

func bigStore(b *testing.B) (*store, map[string]node.Facts) {
	b.Helper()
	f, nodes := newStore(), map[string]node.Facts{}
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		m := aMachine(fmt.Sprintf("m-%d", i), labelled("pool", fmt.Sprint(i%10)))
		f.putMachine(m)
		since := ago(time.Duration(dice.IntN(3600)) * time.Second)
		nodes[m.Name+"-node"] = node.Facts{Node: core.Node{State: core.NodePresent, Name: m.Name + "-node", UID: m.Name, Conditions: []core.Condition{
			{Type: "MemoryPressure", Status: "False", Since: since}, {Type: "DiskPressure", Status: "False", Since: since},
			{Type: "PIDPressure", Status: "False", Since: since}, {Type: "Ready", Status: "True", Since: since},
		}}}
	}
	for i := range 10 {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"pool": fmt.Sprint(i)}},
		}}}
		u.SetNamespace("machines")
		u.SetName(fmt.Sprintf("check-%d", i))
		f.putCheck(u)
	}
	return &f, nodes
}

// TestControlPlaneOutlivesItsNode: only its node may show that a machine is of the control plane.
// After the node is gone, the machine must not pass for a worker (I4).
func TestControlPlaneOutlivesItsNode(t *testing.T) {
	f := newStore()
	f.putMachine(aMachine("cp"))
	f.snapshot(these(map[string]node.Facts{"cp-node": {Node: core.Node{State: core.NodePresent, Name: "cp-node", NodeFacts: leading}}}))
	updated := aMachine("cp")
	updated.ResourceVersion = "9"
	f.putMachine(updated)
	if _, targets := f.snapshot(none); !targets[0].ControlPlane {
		t.Error("it is taken for a worker once its node is gone")
	}
}
