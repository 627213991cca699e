package powercycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// logs counts the lines of the log.
func (w *world) logs() *int {
	lines := 0
	w.Log = funcr.New(func(string, string) { lines++ }, funcr.Options{})
	return &lines
}

// TestWhichNodesInterruptAnOperation: a node of a workload cluster that has the taint of this remediation, and has to serve again. Nothing of it is
// logged, and nothing can be interrupted after the end.
func TestWhichNodesInterruptAnOperation(t *testing.T) {
	away := fencedCluster{keyEast, "east-uid"}
	serves := []func(*corev1.Node){ready, tainted(outOfServiceTaint)}
	for sentence, tc := range map[string]struct {
		cluster     fencedCluster
		released    bool
		foreign     bool
		node        []func(*corev1.Node)
		interrupted bool
	}{
		"it has to serve again":               {away, true, false, serves, true},
		"it is not out of service":            {away, true, false, []func(*corev1.Node){ready}, false},
		"it is not Ready":                     {away, true, false, []func(*corev1.Node){tainted(outOfServiceTaint)}, false},
		"another has registered":              {away, true, false, append(serves, func(n *corev1.Node) { n.UID = "later" }), false},
		"nothing is released":                 {away, false, false, serves, false},
		"others have released it":             {away, true, true, serves, false},
		"it is of the cluster Fettle runs in": {fencedCluster{}, true, false, serves, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node(tc.node...), remediation(in(fencing.Releasing)))
				lines, rec := w.logs(), begun(t, w, fencing.Releasing)
				rec.cluster, rec.record.ForeignOutOfService = tc.cluster, tc.foreign
				if !tc.cluster.isHome() {
					rec.nodes = w.nodes
				}
				ctx, done := w.interruptible(t.Context(), rec, rec.wakes, tc.released)
				<-time.After(retryRead + time.Millisecond)
				synctest.Wait()
				if got := ctx.Err() != nil; got != tc.interrupted {
					t.Errorf("interrupted: %t", got)
				}
				done()
				synctest.Wait()
				if *lines != 0 || rec.s.interrupt != nil {
					t.Errorf("%d lines are logged, and it can be interrupted after its end: %t", *lines, rec.s.interrupt != nil)
				}
			})
		})
	}
}

// panicking is a workload cluster whose client panics.
type panicking struct{ fencednode.API }

func (panicking) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("broken")
}

// TestAPanicDuringAnOperationIsLogged, and the operation goes on.
func TestAPanicDuringAnOperationIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node(), remediation(in(fencing.Releasing)))
		lines, rec := w.logs(), begun(t, w, fencing.Releasing)
		rec.cluster, rec.nodes = fencedCluster{keyEast, "east-uid"}, fencednode.New(panicking{}, w.now, fencednode.NewVolumes())
		ctx, done := w.interruptible(t.Context(), rec, rec.wakes, true)
		defer done()
		<-time.After(retryRead + time.Millisecond)
		synctest.Wait()
		if *lines != 1 || ctx.Err() != nil {
			t.Errorf("%d lines are logged, and the operation ends with %v", *lines, ctx.Err())
		}
	})
}
