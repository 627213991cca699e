package powercycle

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// waitsForAMark has a remediation wait for the end of the mark on machine m, and then has the machine controller of the platform delete the
// node, as that does once the host is off.
func waitsForAMark(t *testing.T) *world {
	t.Helper()
	w := claimWorld(t, machine(with(fencednode.ExternalMark, "")), remediation())
	if err := w.reconcile(t.Context(), keyA); err != nil || processing(w.remediation(t, keyA)) != fencednode.MachineMarked {
		t.Fatalf("it waits for %q (%v)", processing(w.remediation(t, keyA)), err)
	}
	if err := w.api.Delete(t.Context(), w.node(t)); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestAMarkOutlivesItsNode: the machine controller of the platform deletes the node while the host is off. It goes on with the host, and the
// remediation goes on waiting, also in another process.
func TestAMarkOutlivesItsNode(t *testing.T) {
	w := waitsForAMark(t)
	for range 2 {
		w.sessions = newSessions(fencednode.NewClaims())
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if r := w.remediation(t, keyA); r.Status.Phase != "" || processing(r) != fencednode.MachineMarked || w.claimOfM(t) != "" || len(w.patches) > 0 {
			t.Errorf("it is in phase %q and says %q after patches %v, and the claim is %q", r.Status.Phase, processing(r), w.patches, w.claimOfM(t))
		}
	}
}

// TestTheEndOfAMarkOutlivesItsNode: the remediation begins without a node, unless the machine is gone too.
func TestTheEndOfAMarkOutlivesItsNode(t *testing.T) {
	unmarked := func(m *unstructured.Unstructured) { m.SetAnnotations(nil) }
	for sentence, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		gone   bool
		want   string
		claim  string
	}{
		"no controller powers the host":   {unmarked, false, "", ourClaim},
		"the machine is gone":             {nil, true, v1alpha1.CannotStartMachineNotFoundReason, ""},
		"another machine has its name":    {func(m *unstructured.Unstructured) { unmarked(m); m.SetUID("other") }, false, v1alpha1.CannotStartMachineNotFoundReason, ""},
		"another, and that is marked too": {func(m *unstructured.Unstructured) { m.SetUID("other") }, false, v1alpha1.CannotStartMachineNotFoundReason, ""},
	} {
		w := waitsForAMark(t)
		m := read(t, w, "machines", "m", machine())
		if err := w.api.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if !tc.gone {
			tc.change(m)
			m.SetResourceVersion("")
			if err := w.api.Create(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		r := w.remediation(t, keyA)
		said := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.SucceededCondition)
		if tc.want == "" {
			if r.Status.Phase == "" || w.claimOfM(t) != tc.claim || r.Status.Machine != nil {
				t.Errorf("%s: it is %+v, and the claim is %q", sentence, r.Status, w.claimOfM(t))
			}
			continue
		}
		if r.Status.Phase != "" || said == nil || said.Status != metav1.ConditionFalse || said.Reason != tc.want || !strings.Contains(said.Message, "machines/m") {
			t.Errorf("%s: it is in phase %q and says %+v", sentence, r.Status.Phase, said)
		}
		if !tc.gone && w.claimOfM(t) != tc.claim {
			t.Errorf("%s: the claim is %q", sentence, w.claimOfM(t))
		}
	}
}

// TestAMarkThatCanNotBeReadAgain: nothing is done, and it is tried again.
func TestAMarkThatCanNotBeReadAgain(t *testing.T) {
	w := waitsForAMark(t)
	down := errors.New("the API server is down")
	w.refuses(func(verb string, o runtime.Object) error {
		if verb == "get" && isMachine(o) {
			return down
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); !errors.Is(err, down) {
		t.Errorf("the reconcile returns %v", err)
	}
	if r := w.remediation(t, keyA); r.Status.Phase != "" || processing(r) != notRead {
		t.Errorf("it is in phase %q and says %q", r.Status.Phase, processing(r))
	}
}

// TestTheMachineOfANodeThatStands is the machine that the node names now, whatever was waited for before.
func TestTheMachineOfANodeThatStands(t *testing.T) {
	awaited := &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
	for sentence, tc := range map[string]struct {
		node    *corev1.Node
		awaited *v1alpha1.ObjectReference
		want    string
	}{
		"it names another":                {node(annotated(machineAnnotation, "machines/n")), awaited, "n"},
		"it names none":                   {node(), awaited, ""},
		"it is gone, and nothing awaited": {nil, nil, ""},
		"it is gone":                      {nil, awaited, "m"},
	} {
		other := machine(with(annotation.ClaimedBy, "x/y/z"))
		other.SetName("n")
		w := newWorld(t, machine(), other)
		r := remediation()
		r.Status.Machine = tc.awaited
		m, found, err := w.machineToClaim(t.Context(), &reconciliation{r: r}, tc.node)
		if err != nil || found.found() || (m == nil) != (tc.want == "") || m != nil && m.GetName() != tc.want {
			t.Errorf("%s: it is %v, %+v (%v)", sentence, m, found, err)
		}
	}
}
