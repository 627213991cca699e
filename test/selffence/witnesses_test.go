package selffence

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
	"github.com/fettle-io/fettle/test/runs"
)

// validity is how long a renewal counts.
const validity = 4 * time.Second

// resets has nodes reset themselves that are cut off, unless most of their witnesses reach no API server either.
var resets = strings.Replace(holds, "renewal: 1s,", "renewal: 1s, onIsolation: Reset, witnesses: 3,", 1)

// TestWitnesses: the API server is frozen for longer than any promise, and no node is reset. Then a node is cut off from all others. It resets
// itself, and its pod runs elsewhere once the promise of the node has expired, while the node is still cut off.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.StartFettle(t)
	w.Apply(t, resets)
	w.areTimed(t)
	times := selffence.Times{Validity: validity, Watchdog: timeout}
	w.frozen(t, times.Longest()+timeout)
	w.areTimed(t)

	m, last := w.nodes[1], w.nodes[4].part.Node
	w.workload(t, "cut-off", m.part.Node, last)
	boot, boots := m.count()
	m.sets(cut)
	w.runsOn(t, "cut-off", last)
	if now, more := m.count(); now == boot || more == boots {
		t.Errorf("it is in boot %s, and was booted %d times", now, more)
	}
	r, err := w.remediation(cluster.Context(t), m.part.Node)
	if err != nil || r.Status.Proof == nil || r.Status.Proof.Kind != "PromiseExpired" || r.Status.Node.BootID != boot {
		t.Errorf("the evidence is %+v of %+v (%v)", r.Status.Proof, r.Status.Node, err)
	}
	m.sets(works)
	w.restored(t)
	w.areTimed(t)
	if all := runs.Check(t, w.runs); len(all) < 2 {
		t.Errorf("the pods ran %d times: %v", len(all), all)
	}
}

// areTimed waits until the promise of each node is timed, and names three witnesses.
func (w *world) areTimed(t *testing.T) {
	t.Helper()
	for _, m := range w.nodes {
		w.Eventually(t, "timed promise of "+m.part.Node, func(ctx context.Context) error {
			var l coordinationv1.Lease
			if err := w.Get(ctx, client.ObjectKey{Namespace: promiselease.Namespace, Name: m.part.Node}, &l); err != nil {
				return err
			}
			r, err := promiselease.Decode(&l)
			if boot, _ := m.count(); err == nil && (r.State != selffence.Promised || !r.Promise.Timed || r.Promise.Witnesses.Majority() != 2 || r.Promise.Boot != boot) {
				err = fmt.Errorf("it is %+v in boot %s", r, boot)
			}
			return err
		})
	}
}
