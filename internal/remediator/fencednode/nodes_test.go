package fencednode

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// by is the UID of the remediation of these tests.
const by types.UID = "r-uid"

// savedOf returns what was saved of node old-uid, which was deleted.
func savedOf(s v1alpha1.SavedNode) *v1alpha1.SavedNode {
	s.UID = "old-uid"
	return &s
}

func TestFactsOfANode(t *testing.T) {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status})
		}
	}
	for sentence, tc := range map[string]struct {
		node *corev1.Node
		want func(*fencing.Node)
	}{
		"an ordinary one":                {node(), func(*fencing.Node) {}},
		"Ready":                          {node(ready), func(n *fencing.Node) { n.Ready = true }},
		"Ready is False":                 {node(condition(corev1.NodeReady, corev1.ConditionFalse)), func(*fencing.Node) {}},
		"Ready is Unknown":               {node(condition(corev1.NodeReady, corev1.ConditionUnknown)), func(*fencing.Node) {}},
		"another condition is True":      {node(condition(corev1.NodeDiskPressure, corev1.ConditionTrue)), func(*fencing.Node) {}},
		"Fettle's own taint":             {node(tainted(ownTaint)), func(n *fencing.Node) { n.Tainted = true }},
		"its key with another effect":    {node(tainted(corev1.Taint{Key: annotation.FencingTaint, Effect: corev1.TaintEffectNoSchedule})), func(*fencing.Node) {}},
		"out of service":                 {node(tainted(outOfServiceTaint)), func(n *fencing.Node) { n.OutOfService = true }},
		"out of service, another effect": {node(tainted(corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule})), func(n *fencing.Node) { n.OutOfService = true }},
		"another taint":                  {node(tainted(corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})), func(*fencing.Node) {}},
		"fenced by this one":             {node(annotated(annotation.FencedBy, "r-uid")), func(n *fencing.Node) { n.Changed = true }},
		"being deleted":                  {node(func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: noon} }), func(n *fencing.Node) { n.Deleting = true }},
		"fenced by another":              {node(annotated(annotation.FencedBy, "other-uid")), func(*fencing.Node) {}},
	} {
		want := &fencing.Node{Exists: true, UID: "node-uid", BootID: "boot-1"}
		tc.want(want)
		if diff := cmp.Diff(want, Facts(by, nil, tc.node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
	if got := Facts(by, nil, nil); *got != (fencing.Node{}) {
		t.Errorf("no node is %+v", got)
	}
	labelled := savedOf(v1alpha1.SavedNode{Labels: map[string]string{"pool": "a"}})
	if got := Facts(by, labelled, node()); !got.Changed {
		t.Error("a node that lacks a label is not changed")
	}
}

// TestRestores: each part alone is missing, and what the node has keeps its value.
func TestRestores(t *testing.T) {
	taint := v1alpha1.SavedTaint{Key: "gpu", Value: "yes", Effect: "NoSchedule"}
	live := corev1.Taint{Key: "gpu", Value: "no", Effect: corev1.TaintEffectNoSchedule}
	otherEffect := corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoExecute}
	missesTaint := func(m *restored) {
		m.taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
	}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	labelled := func(n *corev1.Node) { n.Labels = map[string]string{"pool": "b"} }
	for sentence, tc := range map[string]struct {
		saved v1alpha1.SavedNode
		node  *corev1.Node
		want  func(*restored)
	}{
		"nothing was saved":                  {v1alpha1.SavedNode{}, node(), func(*restored) {}},
		"a label":                            {v1alpha1.SavedNode{Labels: map[string]string{"pool": "a"}}, node(), func(m *restored) { m.labels["pool"] = "a" }},
		"a label with another value":         {v1alpha1.SavedNode{Labels: map[string]string{"pool": "a"}}, node(labelled), func(*restored) {}},
		"an annotation":                      {v1alpha1.SavedNode{Annotations: map[string]string{"note": "x"}}, node(), func(m *restored) { m.annotations["note"] = "x" }},
		"an annotation with another value":   {v1alpha1.SavedNode{Annotations: map[string]string{"note": "x"}}, node(annotated("note", "")), func(*restored) {}},
		"a taint":                            {v1alpha1.SavedNode{Taints: []v1alpha1.SavedTaint{taint}}, node(), missesTaint},
		"a taint with another value":         {v1alpha1.SavedNode{Taints: []v1alpha1.SavedTaint{taint}}, node(tainted(live)), func(*restored) {}},
		"a taint with another effect":        {v1alpha1.SavedNode{Taints: []v1alpha1.SavedTaint{taint}}, node(tainted(otherEffect)), missesTaint},
		"it was cordoned":                    {v1alpha1.SavedNode{Unschedulable: true}, node(), func(m *restored) { m.unschedulable = true }},
		"it was cordoned, and is again":      {v1alpha1.SavedNode{Unschedulable: true}, node(cordoned), func(*restored) {}},
		"it was not cordoned, and it is now": {v1alpha1.SavedNode{}, node(cordoned), func(*restored) {}},
	} {
		want := restored{labels: map[string]string{}, annotations: map[string]string{}}
		tc.want(&want)
		got := restores(savedOf(tc.saved), tc.node)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(restored{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
		plain := restored{labels: map[string]string{}, annotations: map[string]string{}}
		if wantEmpty := cmp.Equal(want, plain, cmp.AllowUnexported(restored{})); got.empty() != wantEmpty {
			t.Errorf("%s: it is empty: %t", sentence, got.empty())
		}
	}
	same := savedOf(v1alpha1.SavedNode{Labels: map[string]string{"pool": "a"}, Unschedulable: true})
	same.UID = "node-uid"
	for sentence, s := range map[string]*v1alpha1.SavedNode{"saved nothing": nil, "saved this very node": same} {
		if got := restores(s, node()); !got.empty() {
			t.Errorf("a remediation that has %s restores %+v", sentence, got)
		}
	}
}

// TestSaved: fields that Fettle has set for the fencing, or that Kubernetes sets by itself, are left out. Fields without an owner who would remove them are left out too.
func TestSaved(t *testing.T) {
	passing := []corev1.Taint{ownTaint, outOfServiceTaint, {Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}}
	for _, key := range []string{
		"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted", "medik8s.io/remediation",
	} {
		passing = append(passing, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	kept := []corev1.Taint{
		{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}, {Key: annotation.FencingTaint, Effect: corev1.TaintEffectNoSchedule},
		{Key: "x.node.kubernetes.io/y", Effect: corev1.TaintEffectNoExecute},
	}
	n := node(tainted(passing...), tainted(kept...), annotated("note", "x"), annotated(scaleDownDisabled, "true"), annotated(annotation.FencedBy, "r-uid"))
	n.Labels, n.Spec.Unschedulable = map[string]string{"pool": "a"}, true
	before := n.DeepCopy()
	want := &v1alpha1.SavedNode{
		UID: "node-uid", Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{"note": "x"}, Unschedulable: true,
		Taints: []v1alpha1.SavedTaint{
			{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, {Key: annotation.FencingTaint, Effect: "NoSchedule"}, {Key: "x.node.kubernetes.io/y", Effect: "NoExecute"},
		},
	}
	if diff := cmp.Diff(want, Saved(by, n)); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, n); diff != "" {
		t.Errorf("the node was changed under its owner:\n%s", diff)
	}
	foreign := Saved(by, node(annotated(scaleDownDisabled, "true"), annotated(annotation.FencedBy, "other-uid")))
	if diff := cmp.Diff(map[string]string{scaleDownDisabled: "true", annotation.FencedBy: "other-uid"}, foreign.Annotations); diff != "" {
		t.Errorf("the annotations of another remediation (-want +got):\n%s", diff)
	}
}

// TestANodeThatWasRestoredLacksNothing: a node that lacks all that was saved lacks nothing after the patch, and keeps what it has.
func TestANodeThatWasRestoredLacksNothing(t *testing.T) {
	old := node(tainted(corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}), annotated("note", "x"), annotated("name", "old"))
	old.UID, old.Labels, old.Spec.Unschedulable = "old-uid", map[string]string{"pool": "a"}, true
	saved := Saved(by, old)
	w := newWorld(t, node(tainted(ownTaint), annotated("name", "new")))
	if err := w.Restore(t.Context(), by, saved, w.node(t)); err != nil {
		t.Fatal(err)
	}
	n := w.node(t)
	if got := Facts(by, saved, n); got.Changed || !got.Tainted {
		t.Errorf("after it was restored, the node is %+v", got)
	}
	if diff := cmp.Diff(map[string]string{"note": "x", "name": "new"}, n.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append([]corev1.Taint{ownTaint}, old.Spec.Taints...), n.Spec.Taints); diff != "" || !n.Spec.Unschedulable || n.Labels["pool"] != "a" {
		t.Errorf("the node is %+v", n)
	}
}

// annotations has a node have some annotations, and removed has it lack one.
func annotations(all map[string]string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for key, value := range all {
			annotated(key, value)(n)
		}
	}
}

func removed(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { delete(n.Annotations, key) }
}

// TestTheAutoscalerFindsWhatItFoundBefore, also where the node was deleted meanwhile and fenced again.
func TestTheAutoscalerFindsWhatItFoundBefore(t *testing.T) {
	for _, value := range []string{"false", "true", ""} {
		w := newWorld(t, node(annotated(scaleDownDisabled, value)))
		n := w.node(t)
		if err := w.Taint(t.Context(), by, n); err != nil {
			t.Fatal(err)
		}
		if n.Annotations[scaleDownDisabled] != "true" {
			t.Errorf("%q: while the node is fenced, it is %q", value, n.Annotations[scaleDownDisabled])
		}
		saved := Saved(by, n)
		if diff := cmp.Diff(map[string]string{scaleDownDisabled: value}, saved.Annotations); diff != "" {
			t.Errorf("%q: saved (-want +got):\n%s", value, diff)
		}
		registered := node()
		registered.UID = "later"
		w = newWorld(t, registered)
		n = w.node(t)
		if err := w.Taint(t.Context(), by, n); err != nil {
			t.Fatal(err)
		}
		for changes := 0; Facts(by, saved, n).Changed && changes < 3; changes++ {
			if err := w.Restore(t.Context(), by, saved, n); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(map[string]string{scaleDownDisabled: value}, n.Annotations); diff != "" {
			t.Errorf("%q: restored (-want +got):\n%s", value, diff)
		}
	}
}

// TestChangesOfANode: each change, from each state of the node.
func TestChangesOfANode(t *testing.T) {
	other := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	taint := func(w *world, n *corev1.Node) error { return w.Taint(t.Context(), by, n) }
	restore := func(w *world, n *corev1.Node) error { return w.Restore(t.Context(), by, nil, n) }
	mine := map[string]string{scaleDownDisabled: "true", annotation.FencedBy: "r-uid"}
	mineAfter := func(value string) map[string]string {
		return map[string]string{scaleDownDisabled: "true", annotation.FencedBy: "r-uid", annotation.ScaleDownDisabledBefore: value}
	}
	for sentence, tc := range map[string]struct {
		node        *corev1.Node
		change      func(*world, *corev1.Node) error
		taints      []corev1.Taint
		annotations map[string]string
	}{
		"taint":                                     {node(tainted(other)), taint, []corev1.Taint{other, ownTaint}, mine},
		"taint again":                               {node(tainted(ownTaint)), taint, []corev1.Taint{ownTaint}, mine},
		"taint where another has disabled it":       {node(annotated(scaleDownDisabled, "true")), taint, []corev1.Taint{ownTaint}, map[string]string{scaleDownDisabled: "true"}},
		"taint where another has enabled it":        {node(annotated(scaleDownDisabled, "false")), taint, []corev1.Taint{ownTaint}, mineAfter("false")},
		"taint where its value is empty":            {node(annotated(scaleDownDisabled, "")), taint, []corev1.Taint{ownTaint}, mineAfter("")},
		"taint where its value is long":             {node(annotated(scaleDownDisabled, strings.Repeat("x", 64))), taint, []corev1.Taint{ownTaint}, mineAfter(strings.Repeat("x", 64))},
		"taint where its value is too long":         {node(annotated(scaleDownDisabled, strings.Repeat("x", 65))), taint, []corev1.Taint{ownTaint}, mine},
		"taint again, where it was enabled":         {node(tainted(ownTaint), annotations(mineAfter("false"))), taint, []corev1.Taint{ownTaint}, mineAfter("false")},
		"taint again, where a user has enabled it":  {node(annotations(mineAfter("no")), annotated(scaleDownDisabled, "false")), taint, []corev1.Taint{ownTaint}, mineAfter("false")},
		"taint again, where a user has removed it":  {node(annotations(mineAfter("no")), removed(scaleDownDisabled)), taint, []corev1.Taint{ownTaint}, mine},
		"out of service":                            {node(tainted(other)), func(w *world, n *corev1.Node) error { return w.SetOutOfService(t.Context(), n) }, []corev1.Taint{other, outOfServiceTaint}, nil},
		"remove the own taint":                      {node(tainted(other, ownTaint)), func(w *world, n *corev1.Node) error { return w.Untaint(t.Context(), n) }, []corev1.Taint{other}, nil},
		"remove the last taint":                     {node(tainted(ownTaint)), func(w *world, n *corev1.Node) error { return w.Untaint(t.Context(), n) }, nil, nil},
		"remove out of service":                     {node(tainted(ownTaint, outOfServiceTaint)), func(w *world, n *corev1.Node) error { return w.RemoveOutOfService(t.Context(), n) }, []corev1.Taint{ownTaint}, nil},
		"restore":                                   {node(tainted(ownTaint), annotated(scaleDownDisabled, "true"), annotated(annotation.FencedBy, "r-uid")), restore, []corev1.Taint{ownTaint}, nil},
		"restore what was enabled":                  {node(tainted(ownTaint), annotations(mineAfter("false"))), restore, []corev1.Taint{ownTaint}, map[string]string{scaleDownDisabled: "false"}},
		"restore what a user has enabled since":     {node(annotations(mineAfter("no")), annotated(scaleDownDisabled, "false")), restore, nil, map[string]string{scaleDownDisabled: "false"}},
		"restore what a user has removed since":     {node(annotations(mineAfter("no")), removed(scaleDownDisabled)), restore, nil, nil},
		"restore what a user has changed":           {node(annotated(scaleDownDisabled, "false"), annotated(annotation.FencedBy, "r-uid")), restore, nil, map[string]string{scaleDownDisabled: "false"}},
		"restore what another has disabled":         {node(annotated(scaleDownDisabled, "true")), restore, nil, map[string]string{scaleDownDisabled: "true"}},
		"restore what another remediation disabled": {node(annotated(scaleDownDisabled, "true"), annotated(annotation.FencedBy, "o")), restore, nil, map[string]string{scaleDownDisabled: "true", annotation.FencedBy: "o"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, tc.node)
			changed := w.node(t)
			if err := tc.change(w, changed); err != nil {
				t.Fatal(err)
			}
			n := w.node(t)
			if diff := cmp.Diff(n, changed); diff != "" {
				t.Errorf("what the caller has is not the node as it is (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.taints, n.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.annotations, n.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAChangeThatIsTakenBack fails, as a refused change does: a webhook may take back what the API server has accepted.
func TestAChangeThatIsTakenBack(t *testing.T) {
	untainted := func(n *corev1.Node) { n.Spec.Taints = nil }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	for sentence, tc := range map[string]struct {
		step   fencing.StepKind
		node   *corev1.Node
		undoes func(*corev1.Node)
		want   error
	}{
		"the own taint":                      {fencing.TaintNode, node(), untainted, errNotKept},
		"the own taint is kept":              {fencing.TaintNode, node(), cordoned, nil},
		"out of service":                     {fencing.SetOutOfService, node(tainted(ownTaint)), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{ownTaint} }, errNotKept},
		"out of service is kept":             {fencing.SetOutOfService, node(), cordoned, nil},
		"the end of the own taint":           {fencing.UntaintNode, node(tainted(ownTaint)), tainted(ownTaint), errNotKept},
		"the end of the own taint is kept":   {fencing.UntaintNode, node(tainted(ownTaint)), cordoned, nil},
		"the end of out of service":          {fencing.RemoveOutOfService, node(tainted(outOfServiceTaint)), tainted(outOfServiceTaint), errNotKept},
		"the end of out of service is kept":  {fencing.RemoveOutOfService, node(tainted(outOfServiceTaint)), tainted(ownTaint), nil},
		"a restored node is read once again": {fencing.RestoreNode, node(annotated(annotation.FencedBy, "r-uid")), annotated(annotation.FencedBy, "r-uid"), nil},
		"a deletion":                         {fencing.RemoveNode, node(tainted(ownTaint)), cordoned, nil},
	} {
		w := newWorld(t, tc.node)
		w.undoes = tc.undoes
		if err := w.Change(t.Context(), tc.step, by, nil, w.node(t)); !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), "node-a") {
			t.Errorf("%s: the error is %v", sentence, err)
		}
	}
}

// TestChangesThatFail: a change that the API server refuses fails as such, and a step that changes no node is no change.
func TestChangesThatFail(t *testing.T) {
	for _, step := range []fencing.StepKind{fencing.TaintNode, fencing.RestoreNode, fencing.RemoveNode} {
		w := newWorld(t, node(annotated(annotation.FencedBy, "r-uid")))
		old := w.node(t)
		old.ResourceVersion = "1"
		if err := w.Change(t.Context(), step, by, nil, old); !apierrors.IsConflict(err) {
			t.Errorf("step %d of a node that has changed: %v", step, err)
		}
	}
	w := newWorld(t, node())
	if err := w.Change(t.Context(), fencing.Wait, by, nil, w.node(t)); err == nil || len(w.patches) != 0 {
		t.Errorf("a step that is not about the node: %v, after %q", err, w.patches)
	}
}

// TestRestoreChangesNoMore: the patch has only what is missing.
func TestRestoreChangesNoMore(t *testing.T) {
	for sentence, tc := range map[string]struct {
		saved v1alpha1.SavedNode
		want  string
	}{
		"it was cordoned": {v1alpha1.SavedNode{Unschedulable: true}, `{"unschedulable":true}`},
		"it had a taint":  {v1alpha1.SavedNode{Taints: []v1alpha1.SavedTaint{{Key: "gpu", Effect: "NoSchedule"}}}, `{"taints":[{"key":"gpu","effect":"NoSchedule"}]}`},
		"it had a label":  {v1alpha1.SavedNode{Labels: map[string]string{"pool": "a"}}, ""},
	} {
		w := newWorld(t, node())
		if err := w.Restore(t.Context(), by, savedOf(tc.saved), w.node(t)); err != nil {
			t.Fatal(err)
		}
		if _, spec, _ := strings.Cut(w.patches[0], `,"spec":`); strings.TrimSuffix(spec, "}") != strings.TrimSuffix(tc.want, "}") && spec != tc.want+"}" {
			t.Errorf("%s: the patch is %s", sentence, w.patches[0])
		}
	}
}

// TestI11ChangesHoldForTheNodeThatWasRead: each change has the UID and the revision as its precondition.
func TestI11ChangesHoldForTheNodeThatWasRead(t *testing.T) {
	for name, change := range map[string]func(*world, *corev1.Node) error{
		"taint":          func(w *world, n *corev1.Node) error { return w.Taint(t.Context(), by, n) },
		"out of service": func(w *world, n *corev1.Node) error { return w.SetOutOfService(t.Context(), n) },
		"remove":         func(w *world, n *corev1.Node) error { return w.Untaint(t.Context(), n) },
		"restore":        func(w *world, n *corev1.Node) error { return w.Restore(t.Context(), by, nil, n) },
		"delete":         func(w *world, n *corev1.Node) error { return w.Delete(t.Context(), n) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, node(annotated(annotation.FencedBy, "r-uid")))
			old := w.node(t)
			changed := w.node(t)
			changed.Labels = map[string]string{"changed": "yes"}
			if err := w.server.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
			if err := change(w, old); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "node-a") {
				t.Errorf("a change of a node that has changed meanwhile: %v", err)
			}
			for _, body := range w.patches {
				if !strings.HasPrefix(body, `{"metadata":{"uid":"node-uid","resourceVersion":"`+old.ResourceVersion+`"`) {
					t.Errorf("the patch %s has no precondition", body)
				}
			}
			if err := change(w, w.node(t)); err != nil {
				t.Errorf("a change of the node as it is: %v", err)
			}
		})
	}
}

// TestI15BootIDsAreBounded: a compromised kubelet reports a boot ID of any length, which is recorded several times. Two boot IDs stay two.
func TestI15BootIDsAreBounded(t *testing.T) {
	seen := map[string]string{}
	for sentence, bootID := range map[string]string{
		"none": "", "usual": "4c4c4544-0042-3510-8051-b7c04f4d3133", "the longest": strings.Repeat("a", 256), "too long": strings.Repeat("a", 257),
		"huge": strings.Repeat("a", 1<<20), "huge, and another at its end": strings.Repeat("a", 1<<20-1) + "b",
	} {
		n := &corev1.Node{}
		n.Status.NodeInfo.BootID = bootID
		got := Facts("", nil, n).BootID
		if len(got) > 256 || len(bootID) <= 256 && got != bootID || got != Facts("", nil, n).BootID {
			t.Errorf("%s: %d bytes become %q", sentence, len(bootID), got)
		}
		if other, has := seen[got]; has {
			t.Errorf("%s is recorded as %s is", sentence, other)
		}
		seen[got] = sentence
	}
}
