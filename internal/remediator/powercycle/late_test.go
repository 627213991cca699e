package powercycle

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// savedNode has a remediation have deleted node-a, which had a label, before the node registered again.
func savedNode(s *v1alpha1.PowerRemediationStatus) {
	s.NodeDeletion = true
	s.Node.Saved = &v1alpha1.SavedNode{UID: "earlier-uid", Labels: map[string]string{"pool": "blue"}}
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

// TestANodeThatRegistersAfterTheAbort is restored once, while the remediation exists. Fields that others remove later stay removed.
func TestANodeThatRegistersAfterTheAbort(t *testing.T) {
	unchanged := func(*v1alpha1.PowerRemediation) {}
	for sentence, tc := range map[string]struct {
		node    *corev1.Node
		changes func(*v1alpha1.PowerRemediation)
		want    string
	}{
		"it lacks the label":                      {node(), stopped, "blue"},
		"it has registered with the label":        {node(labelled("pool", "blue")), stopped, "blue"},
		"it has registered with another value":    {node(labelled("pool", "red")), stopped, "red"},
		"the request to stop was taken back":      {node(), unchanged, "blue"},
		"the same, and nothing is to be restored": {node(labelled("pool", "blue")), unchanged, "blue"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, remediation(in(fencing.Aborted, savedNode), tc.changes), bmcFor("a", "node-a", "redfish://10.0.0.1"))
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatal(err)
			}
			if w.remediation(t, keyA).Status.Node.Saved == nil {
				t.Fatal("what was saved is gone before the node is back")
			}
			if err := w.api.Create(t.Context(), tc.node); err != nil {
				t.Fatal(err)
			}
			if woken := w.sessions.wake("node-a"); !slices.Contains(woken, keyA) {
				t.Fatalf("the node wakes %v", woken)
			}
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatal(err)
			}
			back := w.node(t)
			if got := w.remediation(t, keyA).Status; back.Labels["pool"] != tc.want || got.Node.Saved != nil || got.Phase != string(fencing.Aborted) {
				t.Errorf("the node has %v, and the status is %+v of %+v", back.Labels, got, got.Node)
			}
			back.Labels = nil
			if err := w.api.Update(t.Context(), back); err != nil {
				t.Fatal(err)
			}
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatal(err)
			}
			if got := w.node(t).Labels; len(got) != 0 {
				t.Errorf("a label that others have removed is back: %v", got)
			}
		})
	}
}

// TestTheSameNodeAfterTheAbort: it was not deleted after all, so that nothing is to be restored, and what was saved stays.
func TestTheSameNodeAfterTheAbort(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Aborted, savedNode, func(s *v1alpha1.PowerRemediationStatus) { s.Node.Saved.UID = "node-uid" }), stopped))
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if got := w.remediation(t, keyA).Status.Node.Saved; got == nil || len(w.node(t).Labels) != 0 {
		t.Errorf("saved is %+v, and the node has %v", got, w.node(t).Labels)
	}
}

// TestANodeThatRegistersDuringTheDeletion of an aborted remediation is restored before that goes.
func TestANodeThatRegistersDuringTheDeletion(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Aborted, savedNode), leaving))
	w.forward(time.Second)
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if got := w.node(t).Labels["pool"]; got != "blue" {
		t.Errorf("the label is %q", got)
	}
}
