package slim

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// sameInProtobuf returns a time as protobuf carries it: in seconds, and absent at the epoch.
func sameInProtobuf(at time.Time) time.Time {
	if at.Unix() == 0 {
		return time.Time{}
	}
	return at.Truncate(time.Second)
}

// carried returns what a node says, however it travelled.
func carried(n *Node) view {
	v := slimView(n)
	v.Created = sameInProtobuf(v.Created)
	if v.Deleted != nil {
		at := sameInProtobuf(*v.Deleted)
		v.Deleted = &at
	}
	for i := range v.Conditions {
		v.Conditions[i].Since = sameInProtobuf(v.Conditions[i].Since)
	}
	return v
}

// kept returns how many bytes of text are kept of a node.
func kept(n *Node) int {
	v := slimView(n)
	size := len(v.Name) + len(v.Namespace) + len(v.UID) + len(v.Version)
	for key, value := range v.Labels {
		size += len(key) + len(value)
	}
	for key, value := range v.Annotations {
		size += len(key) + len(value)
	}
	for _, c := range v.Conditions {
		size += len(c.Type) + len(c.Status) + len(c.Reason)
	}
	return size
}

// FuzzNodeJSON: a node that the stock type reads from JSON is read too, and as the same node from protobuf.
func FuzzNodeJSON(f *testing.F) {
	usual, err := json.Marshal(kubeletNode("n"))
	if err != nil {
		f.Fatalf("encoding: %v", err)
	}
	f.Add(usual)
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"metadata":null,"status":null}`, `{"metadata":{"name":7}}`, `{"metadata":{"labels":{"a":null},"deletionTimestamp":null}}`,
		`{"metadata":{"name":"n","creationTimestamp":"1970-01-01T00:00:00Z","deletionTimestamp":"2026-08-03T12:00:00.5+02:00"}}`,
		`{"status":{"conditions":[{"type":"Ready","status":"True"},null,{}],"conditions":[{"status":"False"}]}}`,
		`{"status":{"conditions":[{"type":"\ud800","lastTransitionTime":"0001-01-01T00:00:00Z"}]}}`, "{\"metadata\":{\"name\":\"\xff\"}}",
		`{"metadata":{"annotations":{"remediation.medik8s.io/manually-confirmed-healthy":""},"ownerReferences":[{"controller":true}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, again, stock := &Node{}, &Node{}, &corev1.Node{}
		err := n.UnmarshalJSON(body)
		if errAgain := again.UnmarshalJSON(body); (err == nil) != (errAgain == nil) || !cmp.Equal(slimView(n), slimView(again)) {
			t.Errorf("decoding twice gives %+v, %v and %+v, %v", n, err, again, errAgain)
		}
		if kept(n) > 3*len(body) { // a byte that is no text takes three
			t.Errorf("%d bytes are kept of %d", kept(n), len(body))
		}
		if utiljson.Unmarshal(body, stock) != nil {
			return
		}
		if err != nil {
			t.Fatalf("the stock type reads it, and the slim one says: %v", err)
		}
		bytes, err := stock.Marshal()
		if err != nil {
			return // such as a time that protobuf can't carry
		}
		other := &Node{}
		if err := other.Unmarshal(bytes); err != nil {
			t.Fatalf("the same node in protobuf is refused: %v", err)
		}
		if diff := cmp.Diff(carried(other), carried(n)); diff != "" {
			t.Errorf("node (-protobuf +JSON):\n%s", diff)
		}
	})
}

// FuzzNodeList: a list has the nodes that the stock type finds in it, each as it would be read by itself.
func FuzzNodeList(f *testing.F) {
	few := int64(7)
	for _, list := range []*corev1.NodeList{
		{}, {ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "next", RemainingItemCount: &few}, Items: []corev1.Node{{}, {}}},
		{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}}}}},
	} {
		body, err := list.Marshal()
		if err != nil {
			f.Fatalf("encoding: %v", err)
		}
		f.Add(body)
	}
	f.Add(append(message(2, message(1, text(1, "n"))), later()...))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, stock := &NodeList{}, &corev1.NodeList{}
		if list.Unmarshal(body) != nil || stock.Unmarshal(body) != nil {
			return
		}
		if list.ResourceVersion != stock.ResourceVersion || list.Continue != stock.Continue || len(list.Items) != len(stock.Items) {
			t.Fatalf("it reads %+v with %d nodes, the stock type %+v with %d", list.ListMeta, len(list.Items), stock.ListMeta, len(stock.Items))
		}
		for i := range stock.Items {
			bytes, err := stock.Items[i].Marshal()
			if err != nil {
				t.Fatalf("encoding node %d: %v", i, err)
			}
			alone := &Node{}
			if err := alone.Unmarshal(bytes); err != nil {
				t.Fatalf("node %d is refused by itself: %v", i, err)
			}
			if diff := cmp.Diff(slimView(alone), slimView(&list.Items[i])); diff != "" {
				t.Errorf("node %d (-by itself +in the list):\n%s", i, diff)
			}
		}
	})
}

// FuzzMetadata: metadata in JSON that the stock type reads is read too, and says the same.
func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `7`, `{"name":"m","namespace":"n","uid":"u","resourceVersion":"1","labels":{"a":"b"},"annotations":{"kept":"1","x":"2"}}`,
		`{"ownerReferences":[{"kind":"A"},{"apiVersion":"v1","kind":"B","name":"b","uid":"u","controller":true},{"controller":true}]}`,
		`{"ownerReferences":[{"controller":null}],"labels":null,"deletionTimestamp":"2026-08-03T12:00:00Z"}`, `{"annotations":{"kept":null}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var stock metav1.ObjectMeta
		if utiljson.Unmarshal(body, &stock) != nil {
			return
		}
		var wire Metadata
		if err := utiljson.Unmarshal(body, &wire); err != nil {
			t.Fatalf("the stock type reads it, and the slim one says: %v", err)
		}
		m := wire.Keep("kept")
		if diff := cmp.Diff(metaView(&stock), metaView(&m)); diff != "" {
			t.Errorf("metadata (-stock +slim):\n%s", diff)
		}
		if value, set := stock.Annotations["kept"]; m.Annotations.Has("kept") != set || m.Annotations.Get("kept") != value {
			t.Errorf("the annotation is %q, %t; want %q, %t", m.Annotations.Get("kept"), m.Annotations.Has("kept"), value, set)
		}
		var owner Owner
		if o := metav1.GetControllerOfNoCopy(&stock); o != nil {
			owner = Owner{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: string(o.UID)}
		}
		if (m.Owner == nil) != (metav1.GetControllerOfNoCopy(&stock) == nil) || (m.Owner != nil && *m.Owner != owner) {
			t.Errorf("the owner is %+v, want %+v", m.Owner, owner)
		}
	})
}
