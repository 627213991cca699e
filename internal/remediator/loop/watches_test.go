package loop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

// TestWait: work begins once all kinds are watched and have synced, or never.
func TestWait(t *testing.T) {
	for sentence, tc := range map[string]struct {
		served, synced, want bool
	}{
		"not served": {false, true, false},
		"not synced": {true, false, false},
		"synced":     {true, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, in := NewWatches(), informertest.New()
			in.SetSynced(tc.synced)
			if !tc.served {
				in.Refuse["Node"] = &meta.NoKindMatchError{}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var begins, ended bool
			go func() { begins, ended = w.Wait(ctx), true }()
			synctest.Wait()
			if ended {
				t.Errorf("%s: it does not wait for the watches", sentence)
			}
			for range 2 {
				err := w.Watch(ctx, in, informer.Kind{Plural: "nodes", Object: &corev1.Node{}})
				if tc.served == meta.IsNoMatchError(err) || tc.served != (err == nil) {
					t.Errorf("%s: watching returns %v", sentence, err)
				}
			}
			<-time.After(time.Second)
			synctest.Wait()
			if got := w.HasSynced(); got != tc.want || begins != tc.want || ended != tc.want {
				t.Errorf("%s: it has synced %t, work begins %t, and the wait has ended %t", sentence, got, begins, ended)
			}
			cancel()
			synctest.Wait()
			if begins != tc.want || !ended {
				t.Errorf("%s: at the end work begins %t, and the wait has ended %t", sentence, begins, ended)
			}
		})
	}
}

// TestKeyOf: a deletion that no watch has seen has a key too.
func TestKeyOf(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	for sentence, tc := range map[string]struct {
		obj any
		is  bool
	}{
		"an object":     {object, true},
		"unseen":        {toolscache.DeletedFinalStateUnknown{Key: "ns/a", Obj: object}, true},
		"not an object": {"text", false},
	} {
		if got, is := KeyOf(tc.obj); is != tc.is || is && got != key {
			t.Errorf("%s: its key is %v: %t", sentence, got, is)
		}
	}
}
