package slim

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRolesOfTheControlPlane: each label alone makes a node a member of the control plane, with any value.
func TestRolesOfTheControlPlane(t *testing.T) {
	want := []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"}
	if got := ControlPlaneLabels(); !slices.Equal(got, want) {
		t.Errorf("the labels of the control plane are %q, want %q", got, want)
	}
	for _, label := range want {
		for _, value := range []string{"", "true", "false"} {
			if !LabelsOf(map[string]string{label: value, "other": ""}).OfControlPlane() {
				t.Errorf("a node with %s=%q is no member of the control plane", label, value)
			}
		}
	}
	if LabelsOf(map[string]string{"node-role.kubernetes.io/worker": ""}).OfControlPlane() {
		t.Error("a worker is a member of the control plane")
	}
}

func TestCloneOfMetadataSharesNothing(t *testing.T) {
	m := Meta{DeletionTimestamp: &metav1.Time{Time: time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)}, Owner: &Owner{Name: "pool"}}
	c := m.CloneMeta()
	if c.DeletionTimestamp == m.DeletionTimestamp || !c.DeletionTimestamp.Equal(m.DeletionTimestamp) {
		t.Errorf("the time of deletion of the clone is %v", c.DeletionTimestamp)
	}
	if c.Owner == m.Owner || *c.Owner != *m.Owner {
		t.Errorf("the owner of the clone is %+v", c.Owner)
	}
}

// TestDecodingReplacesWhatWasThere: decoding into an object that is in use keeps nothing of it.
func TestDecodingReplacesWhatWasThere(t *testing.T) {
	stock := kubeletNode("n")
	body, err := stock.Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	n := &Node{Meta: Meta{Unread: "before", Labels: LabelsOf(map[string]string{"before": ""})}, Conditions: make([]core.Condition, 3)}
	if err := n.Unmarshal(body); err != nil || n.Unread != "" || n.Labels.Has("before") || len(n.Conditions) != len(stock.Status.Conditions) {
		t.Errorf("the node is %+v (%v)", n, err)
	}
	list, err := (&corev1.NodeList{Items: []corev1.Node{*stock}}).Marshal()
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	l := &NodeList{Items: make([]Node, 3)}
	if err := l.Unmarshal(list); err != nil || len(l.Items) != 1 {
		t.Errorf("the list has %d items (%v)", len(l.Items), err)
	}
	l.Reset()
	if len(l.Items) > 0 {
		t.Error("a list that was reset has items")
	}
	stock.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: "m", UID: "u", Controller: new(true)}}
	text, err := json.Marshal(stock)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	if err := n.UnmarshalJSON(text); err != nil || n.Owner != nil {
		t.Errorf("the owner of a node is %+v (%v)", n.Owner, err)
	}
}

func TestLongestSharedWord(t *testing.T) {
	for n, want := range map[int]bool{maxShared: true, maxShared + 1: false} {
		word := strings.Repeat("w", n)
		first, second := Intern(word), Intern(strings.Clone(word))
		if got := unsafe.StringData(first) == unsafe.StringData(second); got != want {
			t.Errorf("a word of %d bytes is shared: %t", n, got)
		}
		for _, pair := range [][2]string{{word, "value"}, {"key", word}} {
			if got := InternPair(pair[0], pair[1]) == InternPair(strings.Clone(pair[0]), strings.Clone(pair[1])); got != want {
				t.Errorf("a label with a word of %d bytes is shared: %t", n, got)
			}
		}
	}
}

// TestLongestWordsOfAnOwner: a reference with words of the greatest length is kept.
func TestLongestWordsOfAnOwner(t *testing.T) {
	long := strings.Repeat("w", maxWord)
	var m Meta
	m.own(long, long, long, long)
	if m.Owner == nil || m.Owner.Name != long || m.Unread != "" {
		t.Errorf("the owner is %v, and %q was skipped", m.Owner != nil, m.Unread)
	}
}
