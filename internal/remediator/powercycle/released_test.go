package powercycle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// hanging answers no read of a BareMetalHost within half a minute.
type hanging struct{ client.Reader }

const hangs = 30 * time.Second

func (h hanging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if u, is := o.(*unstructured.Unstructured); !is || u.GroupVersionKind() != bareMetalHost {
		return h.Reader.Get(ctx, key, o, opts...)
	}
	select {
	case <-time.After(hangs):
		return errors.New("no answer")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowLists is a workload cluster that answers no list within half a minute.
type slowLists struct{ fencednode.API }

func (s slowLists) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	select {
	case <-time.After(hangs):
		return errors.New("no answer")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newStopwatch returns a function that says how long ago that was, in the time of a bubble.
func newStopwatch() func() time.Duration {
	began := time.Now()                                      //nolint:forbidigo // the time of the bubble, which passes while all wait
	return func() time.Duration { return time.Since(began) } //nolint:forbidigo // the same
}

// releasedBy has a remediation release the workload of node-a of the cluster east by a proof, through a BMC that names a BareMetalHost.
func releasedBy(kind fencing.ProofKind) func(*v1alpha1.PowerRemediation) {
	return func(r *v1alpha1.PowerRemediation) {
		in(fencing.Releasing, func(s *v1alpha1.PowerRemediationStatus) {
			s.WorkloadReleased, s.PoweredOff = true, true
			s.Proof = &v1alpha1.FencingProof{Kind: string(kind), BootID: "boot-2"}
			s.Proof.At.Time = noon
			s.BMC = &v1alpha1.FencingBMC{Name: "a", UID: "a-uid", Generation: 1, HostUID: "host-uid", HostNamespace: "metal3", HostName: "host-a"}
		})(r)
		inEast(r)
	}
}

// TestI12NodesOfWorkloadClustersServeAgainWithinSeconds: no watch shows that they are Ready, and the BMC or a list hangs.
func TestI12NodesOfWorkloadClustersServeAgainWithinSeconds(t *testing.T) {
	const never = time.Duration(-1)
	foreign := func(r *v1alpha1.PowerRemediation) { r.Status.Node.OutOfService = true }
	for sentence, tc := range map[string]struct {
		proof   fencing.ProofKind
		r       func(*v1alpha1.PowerRemediation)
		becomes func(*corev1.Node)
		// goes is when its out-of-service taint goes, to the second.
		goes time.Duration
		// lasts is how long the reconcile takes: a read of a BareMetalHost ends after 15 s.
		lasts time.Duration
	}{
		"the BMC hangs, and it becomes Ready":      {fencing.PowerOff, nil, ready, retryRead, 17 * time.Second},
		"the BMC hangs, and it does not":           {fencing.PowerOff, nil, labelled("a", "b"), never, 15 * time.Second},
		"the BMC hangs, and another node is Ready": {fencing.PowerOff, nil, func(n *corev1.Node) { ready(n); n.UID = "later" }, never, 15 * time.Second},
		"the lists hang, and it becomes Ready":     {fencing.NewBoot, nil, ready, retryRead, 17 * time.Second},
		"the lists hang, and it does not":          {fencing.NewBoot, nil, labelled("a", "b"), never, hangs},
		"others have released it":                  {fencing.PowerOff, foreign, ready, never, 15 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := forMember(releasedBy(tc.proof))
				if tc.r != nil {
					tc.r(r)
				}
				w, east := newReleasedWorld(t, r, tc.proof)
				watch, went := newStopwatch(), never
				east.refuses(func(verb string, o runtime.Object) error {
					if n, is := o.(*corev1.Node); is && verb == "patch" && fencednode.IsReady(east.node(t)) && n.Name == "node-a" && went == never {
						went = watch().Truncate(time.Second)
					}
					return nil
				})
				go func() {
					<-time.After(time.Second)
					changed := east.node(t)
					tc.becomes(changed)
					status := changed.Status
					err := east.api.Update(t.Context(), changed)
					changed.Status = status
					if err := errors.Join(err, east.api.Status().Update(t.Context(), changed)); err != nil {
						t.Error(err)
					}
				}()
				if err := w.reconcile(t.Context(), keyM); err != nil {
					t.Fatal(err)
				}
				lasts := watch()
				if out := fencednode.Facts("", nil, east.node(t)).OutOfService; went != tc.goes || out != (went == never) || lasts != tc.lasts {
					t.Errorf("the taint goes after %v, want %v; it is there: %t; the reconcile takes %v", went, tc.goes, out, lasts)
				}
			})
		})
	}
}

// newReleasedWorld returns a remediator and the cluster east, whose lists hang as the BMC does.
func newReleasedWorld(t *testing.T, r *v1alpha1.PowerRemediation, proof fencing.ProofKind) (w, east *world) {
	t.Helper()
	n := node(tainted(ownTaint, outOfServiceTaint))
	if proof == fencing.NewBoot {
		n.Status.NodeInfo.BootID = "boot-2"
	}
	east = newWorld(t, n)
	w = newMemberWorld(t, nil, r, ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
	w.Workload = func(types.NamespacedName) fencednode.API { return slowLists{east.api} }
	w.Live = hanging{w.api}
	bmc := w.bmc(t, "a")
	throughMetal3("host-a")(bmc)
	w.bmcs.put(bmc)
	return w, east
}

// TestReleasedNodesOfWorkloadClustersAreReconciledSoon, also where the BMC does not answer.
func TestReleasedNodesOfWorkloadClustersAreReconciledSoon(t *testing.T) {
	for _, tc := range []struct {
		cluster  fencedCluster
		released bool
		want     time.Duration
	}{
		{fencedCluster{keyEast, "east-uid"}, true, requeueReleased}, {fencedCluster{keyEast, "east-uid"}, false, requeueAfter}, {fencedCluster{}, true, requeueAfter},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, remediation())
			rec := &reconciliation{key: keyA, r: w.remediation(t, keyA), s: w.sessions.of(keyA, "r-uid", "node-a"), cluster: tc.cluster, node: "node-a", slot: apiSlot{of: w.apiSlots}}
			rec.record.Released, rec.facts.Node = tc.released, &fencing.Node{OutOfService: true}
			if err := w.wait(t.Context(), rec, fencing.Step{Kind: fencing.Wait, Reason: fencing.PowerNotRead, Until: w.now().Add(mostRetry)}); err != nil {
				t.Fatal(err)
			}
			w.wakesAfter(t, keyA, tc.want)
		})
	}
}
