package powercycle

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/internal/fencing"
)

// pod returns a pod on a node.
func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

func volume(name, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: node}}
}

func TestReadNode(t *testing.T) {
	w := newWorld(t, node(ready))
	rec := &reconciliation{node: "node-a", r: remediation(), s: w.sessions.of(keyA, "r-uid", "node-a")}
	w.sessions.wake("node-a")
	before := w.now()
	w.readNode(t.Context(), rec)
	if n := rec.facts.Node; !n.Exists || !n.Ready || !n.ReadAt.After(before) || !n.ReadAt.Before(w.now()) || rec.raw == nil || rec.wakes != 1 {
		t.Errorf("the node is %+v, after %d wakes", n, rec.wakes)
	}
	rec.node, rec.facts.Node = "node-b", nil
	w.readNode(t.Context(), rec)
	if n := rec.facts.Node; n.Exists || n.Failed || n.ReadAt.IsZero() || rec.raw != nil {
		t.Errorf("a node that is gone is %+v", n)
	}
	w.refuses(func(string, runtime.Object) error { return errors.New("no") })
	w.readNode(t.Context(), rec)
	if n := rec.facts.Node; !n.Failed || n.RetryAt.Sub(n.ReadAt).Truncate(time.Millisecond) != retryRead {
		t.Errorf("a node that could not be read is %+v", n)
	}
}

func TestCountWorkload(t *testing.T) {
	w := newWorld(t, pod("p", "node-a"), pod("q", "node-a"), volume("v", "node-a"), volume("w", "node-b"))
	rec := &reconciliation{node: "node-a", r: remediation(), s: w.sessions.of(keyA, "r-uid", "node-a"), facts: fencing.Facts{Node: &fencing.Node{OutOfService: true}}}
	rec.record.Released = true
	w.countWorkload(t.Context(), rec)
	if got := rec.facts.Workload; got == nil || *got != (fencing.Workload{Pods: 2, Volumes: 1}) {
		t.Errorf("the workload is %+v", got)
	}
	w.refuses(func(_ string, o runtime.Object) error {
		if _, is := o.(*storagev1.VolumeAttachmentList); is {
			return errors.New("no")
		}
		return nil
	})
	w.countWorkload(t.Context(), rec)
	if got := rec.facts.Workload; !got.Failed || got.Pods != 0 || got.RetryAt.Sub(noon).Truncate(time.Second) != retryRead {
		t.Errorf("the workload that could not be counted is %+v", got)
	}
	w.refuses(nil)
	rec.facts.Workload = nil
	w.sessions.wake("node-a") // after the node was read
	w.countWorkload(t.Context(), rec)
	if rec.facts.Node != nil || rec.facts.Workload != nil {
		t.Errorf("after the node has changed, the facts are %+v and %+v", rec.facts.Node, rec.facts.Workload)
	}
}
