package slim

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	"github.com/fettle-io/fettle/internal/core"
)

// filled draws stock objects with anything in every field.
func filled[T any]() *rapid.Generator[*T] {
	return rapid.Custom(func(t *rapid.T) *T {
		filler := randfill.NewWithSeed(rapid.Int64().Draw(t, "seed")).NilChance(0.3).NumElements(0, 4).Funcs(
			func(at *metav1.Time, c randfill.Continue) {
				// The years that JSON can hold.
				at.Time = time.Unix(c.Int63n(250_000_000_000)-60_000_000_000, c.Int63n(1e9))
			},
			func(at **metav1.Time, c randfill.Continue) {
				if c.Bool() {
					*at = &metav1.Time{Time: time.Unix(c.Int63n(5_000_000_000), 0)}
				}
			},
			func(q *resource.Quantity, c randfill.Continue) {
				*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
			},
			func(f *metav1.FieldsV1, c randfill.Continue) {
				f.SetRawBytes([]byte(`{"f:` + strconv.Itoa(c.Intn(10)) + `":{}}`))
			},
			func(k *metav1.TypeMeta, _ randfill.Continue) { *k = metav1.TypeMeta{} },
			func(s *string, c randfill.Continue) { *s = c.String(20) },
		)
		obj := new(T)
		filler.Fill(obj)
		return obj
	})
}

// TestSlimNodesAreStockNodes: a slim node reads as the usual type does, whatever the node has and in any format.
func TestSlimNodesAreStockNodes(t *testing.T) {
	for name, f := range formats(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := filled[corev1.Node]().Draw(t, "node")
				n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
				body := f.encode(t, n)
				want, got := decode[*corev1.Node](t, f.stock, body), decode[*Node](t, f.slim, body)
				if diff := cmp.Diff(stockView(want), slimView(got)); diff != "" {
					t.Errorf("node (-stock +slim):\n%s", diff)
				}
			})
		})
	}
}

func TestSlimListsAreStockLists(t *testing.T) {
	many := int64(4500)
	lists := map[string]*corev1.NodeList{
		"an empty list":           {},
		"no items, but a version": {ListMeta: metav1.ListMeta{ResourceVersion: "7"}},
		"one page of several": {
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "a token", RemainingItemCount: &many},
			Items:    []corev1.Node{*kubeletNode("a"), *kubeletNode("b"), {}},
		},
		"the last page": {ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Node{*kubeletNode("c")}},
	}
	for name, f := range formats(t) {
		for sentence, list := range lists {
			t.Run(sentence+" in "+name, func(t *testing.T) {
				list.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}
				body := f.encode(t, list)
				want, got := decode[*corev1.NodeList](t, f.stock, body), decode[*NodeList](t, f.slim, body)
				if diff := cmp.Diff(want.ListMeta, got.ListMeta); diff != "" {
					t.Errorf("list metadata (-stock +slim):\n%s", diff)
				}
				items, err := meta.ExtractListWithAlloc(got)
				if err != nil || len(items) != len(want.Items) {
					t.Fatalf("an informer finds %d items (%v), want %d", len(items), err, len(want.Items))
				}
				for i := range items {
					if diff := cmp.Diff(stockView(&want.Items[i]), slimView(items[i].(*Node))); diff != "" {
						t.Errorf("item %d (-stock +slim):\n%s", i, diff)
					}
				}
			})
		}
	}
}

func TestShapesOfNodes(t *testing.T) {
	at := func(when time.Time) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", LastTransitionTime: metav1.NewTime(when)}}}}
	}
	nodes := map[string]*corev1.Node{
		"nothing at all":       {},
		"a node of a kubelet":  kubeletNode("n"),
		"no status":            {ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		"no conditions":        {Status: corev1.NodeStatus{Phase: corev1.NodeRunning}},
		"a transition unknown": at(time.Time{}),
		"nanoseconds":          at(noon.Add(123456789)),
		"the epoch":            at(time.Unix(0, 0)),
		"before the epoch":     at(time.Date(1912, time.June, 23, 0, 0, 0, 0, time.UTC)),
		"a node being deleted": {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: noon}}},
		"empty labels":         {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"": "", "a": "", "b": "b"}}},
		"the longest name":     {ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", maxIdentity), Labels: map[string]string{"a": strings.Repeat("n", maxIdentity)}}},
		"annotations that are read": {ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
			"remediation.medik8s.io/manually-confirmed-healthy": "", "machine.openshift.io/machine": "machines/n", "other": "x",
			"machineconfiguration.openshift.io/desiredConfig": "b", "machineconfiguration.openshift.io/currentConfig": "a",
		}}},
		"a bookmark": {ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{"a": "b", metav1.InitialEventsAnnotationKey: "true"}}},
	}
	for name, f := range formats(t) {
		for sentence, n := range nodes {
			t.Run(sentence+" in "+name, func(t *testing.T) {
				n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
				body := f.encode(t, n)
				want, got := decode[*corev1.Node](t, f.stock, body), decode[*Node](t, f.slim, body)
				if diff := cmp.Diff(stockView(want), slimView(got)); diff != "" {
					t.Errorf("node (-stock +slim):\n%s", diff)
				}
			})
		}
	}
}

// TestDecodingTakesTheWholeNode: earlier values of an object do not show through.
func TestDecodingTakesTheWholeNode(t *testing.T) {
	for name, f := range formats(t) {
		into := &Node{}
		for _, n := range []*corev1.Node{kubeletNode("n"), {TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}} {
			if _, _, err := f.slim.Decode(f.encode(t, n), nil, into); err != nil {
				t.Fatalf("decoding: %v", err)
			}
			if diff := cmp.Diff(stockView(n), slimView(into)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, n.Name, diff)
			}
		}
	}
}

// TestNoBytesAreKept: a watch decodes the next event into the same bytes.
func TestNoBytesAreKept(t *testing.T) {
	stock := kubeletNode("n")
	body, err := stock.Marshal()
	n := &Node{}
	if err := errors.Join(err, n.Unmarshal(body)); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	clear(body)
	if diff := cmp.Diff(stockView(stock), slimView(n)); diff != "" {
		t.Errorf("after its bytes were used again, the node is another (-was +is):\n%s", diff)
	}
}

func TestSlimNodesAreNotEncoded(t *testing.T) {
	for name, f := range formats(t) {
		for _, obj := range []runtime.Object{&Node{}, &NodeList{}} {
			err := f.slim.Encode(obj, &strings.Builder{})
			if !errors.Is(err, errPartial) {
				t.Errorf("encoding a %T as %s gives %v", obj, name, err)
			}
		}
	}
	for _, obj := range []any{Node{}, NodeList{}, Meta{}} {
		if body, err := json.Marshal(obj); err == nil {
			t.Errorf("a %T was encoded as %s", obj, body)
		}
	}
}

func TestReadiness(t *testing.T) {
	for status, want := range map[string]bool{"True": true, "False": false, "Unknown": false, "": false} {
		n := &Node{Conditions: []core.Condition{{Type: "DiskPressure", Status: "True"}, {Type: "Ready", Status: status}}}
		if got := n.IsReady(); got != want {
			t.Errorf("a node whose condition is %q is ready: %t", status, got)
		}
	}
	if new(Node).IsReady() {
		t.Error("a node without conditions is ready")
	}
}

// TestCopiesAreApart: the fields that a holder of a copy may change are the copy's own.
func TestCopiesAreApart(t *testing.T) {
	n := &Node{Conditions: []core.Condition{{Type: "Ready", Status: "True", Since: noon}}, BootID: UUID{1}}
	n.Name, n.Labels = "n", LabelsOf(map[string]string{"a": "b"})
	n.Owner, n.Annotations, n.DeletionTimestamp = &Owner{Name: "o"}, LabelsOf(map[string]string{"a": "b"}), &metav1.Time{Time: noon}
	list := &NodeList{Items: []Node{*n}}
	c, l := n.DeepCopyObject().(*Node), list.DeepCopyObject().(*NodeList)
	was := n.DeepCopyObject()
	if diff := cmp.Diff(was, runtime.Object(n)); diff != "" {
		t.Fatalf("a copy differs (-copy +original):\n%s", diff)
	}
	for _, c := range []*Node{c, &l.Items[0]} {
		c.Conditions[0].Status, c.Owner.Name = "False", "x"
		c.GetAnnotations()["a"] = "x"
		c.SetAnnotations(nil)
		*c.DeletionTimestamp = metav1.Time{}
		c.SetLabels(nil)
	}
	for _, original := range []*Node{n, &list.Items[0]} {
		if diff := cmp.Diff(was, runtime.Object(original)); diff != "" {
			t.Errorf("changing the copy changed the original (-was +is):\n%s", diff)
		}
	}
}

// TestMetaIsAnObject: it keeps fields as ObjectMeta does, and leaves out the fields that it lacks.
func TestMetaIsAnObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := filled[metav1.ObjectMeta]().Draw(t, "metadata")
		m := &Meta{}
		m.SetNamespace(full.GetNamespace())
		m.SetName(full.GetName())
		m.SetUID(full.GetUID())
		m.SetResourceVersion(full.GetResourceVersion())
		m.SetCreationTimestamp(full.GetCreationTimestamp())
		m.SetDeletionTimestamp(full.GetDeletionTimestamp())
		m.SetLabels(full.GetLabels())
		m.SetAnnotations(full.GetAnnotations())
		if diff := cmp.Diff(metaView(full), metaView(m)); diff != "" {
			t.Errorf("metadata (-set +got):\n%s", diff)
		}
		m.SetOwnerReferences(full.GetOwnerReferences())
		want, got := metav1.GetControllerOf(full), metav1.GetControllerOf(m)
		if (want == nil) != (got == nil) || (want != nil && (want.Kind != got.Kind || want.Name != got.Name || want.UID != got.UID)) {
			t.Errorf("the controller is %v, want %v", got, want)
		}
		before := m.CloneMeta()
		m.SetGenerateName("x")
		m.SetGeneration(7)
		m.SetSelfLink("x")
		m.SetDeletionGracePeriodSeconds(new(int64))
		m.SetFinalizers([]string{"x"})
		m.SetManagedFields(nil)
		m.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}})
		if diff := cmp.Diff(before, *m); diff != "" {
			t.Errorf("what can't be kept has changed something:\n%s", diff)
		}
		if m.GetGenerateName()+m.GetSelfLink() != "" || m.GetGeneration() != 0 || m.GetDeletionGracePeriodSeconds() != nil ||
			len(m.GetFinalizers())+len(m.GetManagedFields()) > 0 {
			t.Error("something is there that can't be kept")
		}
	})
}
