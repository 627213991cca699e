package selffence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
	"github.com/fettle-io/fettle/test/runs"
)

// validity is how long a renewal counts, and patience how long one does of a node that is patient. The watchdog of a node that is slow outlasts both.
const (
	validity    = 4 * time.Second
	patience    = 10 * time.Second
	slowTimeout = 5 * time.Minute
)

// resets has nodes reset themselves that are cut off, unless most of their witnesses reach no API server either.
var resets = fencesThemselves + resetsOf("quick", "1s", validity, timeout) + resetsOf("patient", "2s", patience, timeout) +
	resetsOf("slow", "1s", validity, slowTimeout)

// resetsOf returns a policy for the nodes with a value of the label.
func resetsOf(value, renewal string, validity, timeout time.Duration) string {
	return fmt.Sprintf(`---
apiVersion: fettle.io/v1alpha1
kind: FencePolicy
metadata: {name: %[1]s}
spec:
  nodeSelector: {matchLabels: {policy: %[1]s}}
  renewal: %[2]s
  validity: %[3]s
  onIsolation: Reset
  witnesses: 3
  watchdog: {timeout: %[4]s, allowVirtualMachines: true}
`, value, renewal, validity, timeout)
}

// TestWitnesses: the API server is frozen for longer than any promise, and no node is reset. Then nodes are cut off in several ways, one goes on
// through another node, and an agent is stopped for longer than its promise. The manager is killed at each kind of write meanwhile. A node that is
// cut off resets itself, and its pod runs elsewhere by the promise while the link is still cut. At last two managers act at once, and one of them
// is stopped and continued. In none of it does a pod run twice.
func TestWitnesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 7, 3)
	first := w.StartFettle(t)
	w.Apply(t, resets)
	w.areTimed(t)
	w.fit(t)
	w.frozen(t, patient.Longest()+timeout)
	w.areTimed(t)
	first.Stop(t)
	k := w.newKilled(t, w.nodes[0], w.nodes[1]) // the proof of both is that their promises have expired
	w.plays(t, k, []named{{"cut-off", cutOff}, {"one-way", oneWay}, {"outlived", outlived}, {"relayed", relayed}})
	w.areTimed(t)
	w.twoManagers(t, k)
	w.restored(t)
	w.areTimed(t)
	if all := runs.Check(t, w.runs); len(all) < 10 {
		t.Errorf("the pods ran %d times: %v", len(all), all)
	}
}

// patient are the times of the node that is patient.
var patient = selffence.Times{Validity: patience, Watchdog: timeout}

// cutOff: nothing passes the link.
func cutOff(s *story) { s.isIsolated(cut) }

// oneWay: packets leave the node, and none reaches it.
func oneWay(s *story) { s.isIsolated(deaf) }

// isIsolated: the node resets itself, and its pod runs elsewhere while the link is still as it is.
func (s *story) isIsolated(l link) {
	s.Helper()
	boot, _ := s.count()
	s.sets(l)
	s.expires(boot)
	s.sets(works)
	s.movesAway(boot)
}

// expires waits until the pod runs on the last node. The promise of a boot that is over is the proof.
func (s *story) expires(boot string) {
	s.Helper()
	s.w.runsOn(s.T, s.set, s.w.nodes[len(s.w.nodes)-1].part.Node)
	if now, _ := s.count(); now == boot {
		s.Errorf("it is in boot %s still", now)
	}
	r, err := s.w.remediation(cluster.Context(s.T), s.part.Node)
	if err != nil || r.Status.Proof == nil || r.Status.Proof.Kind != "PromiseExpired" || r.Status.Node == nil || r.Status.Node.BootID != boot {
		s.Errorf("the evidence is %+v of %+v (%v)", r.Status.Proof, r.Status.Node, err)
	}
}

// relayed: answers of the API server don't reach the node, and other nodes do. It renews its promise through another one. Then it learns in the
// same way that it is condemned.
func relayed(s *story) {
	boot, _ := s.count()
	s.hasNeighbours()
	s.sets(detour)
	s.staysInBoot(patient.Longest())
	last := s.revision()
	for range 3 {
		s.w.Eventually(s.T, "renewal through another node", func(context.Context) error {
			now := s.revision()
			if now == last {
				return fmt.Errorf("the Lease has revision %s still", now)
			}
			last = now
			return nil
		})
	}
	r := s.requests()
	s.w.Eventually(s.T, "reset of "+s.part.Node, func(context.Context) error {
		if now, _ := s.count(); now == boot {
			return errors.New("it is in the same boot")
		}
		return nil
	})
	s.sets(works)
	s.movesAway(boot)
	s.succeeds(r)
}

// staysInBoot requires that the node is not reset within a time. It was booted once before.
func (s *story) staysInBoot(within time.Duration) {
	s.Helper()
	s.w.Never(s.T, "reset of "+s.part.Node, within, func(context.Context) error {
		if _, boots := s.count(); boots != 1 {
			return fmt.Errorf("it was booted %d times", boots)
		}
		return nil
	})
}

// hasNeighbours waits until the agent has stored other agents, through which it reaches the API server.
func (s *story) hasNeighbours() {
	s.Helper()
	s.w.Eventually(s.T, "neighbours of "+s.part.Node, func(context.Context) error {
		s.mu.Lock()
		pid := s.init.Process.Pid
		s.mu.Unlock()
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/root/run/fettle/neighbours.json")
		var known []any
		if err = errors.Join(err, json.Unmarshal(text, &known)); err == nil && len(known) < 3 {
			err = fmt.Errorf("it knows %d", len(known))
		}
		return err
	})
}

// revision returns that of the Lease of the node.
func (s *story) revision() string {
	s.Helper()
	var l coordinationv1.Lease
	if err := s.w.Get(cluster.Context(s.T), client.ObjectKey{Namespace: promiselease.Namespace, Name: s.part.Node}, &l); err != nil {
		s.Fatalf("reading the Lease of %s: %v", s.part.Node, err)
	}
	return l.ResourceVersion
}

// outlived: the agent is stopped for longer than its promise is valid, and its watchdog waits for longer than that. The node is condemned
// meanwhile. When the agent goes on, it pets the watchdog no more.
func outlived(s *story) {
	boot, _ := s.count()
	s.signal(roleAgent, syscall.SIGSTOP)
	s.staysInBoot(validity)
	pets := s.watch.state().pets
	r := s.requests()
	s.w.says(s.T, s.part.Node, selffence.Condemned)
	s.signal(roleAgent, syscall.SIGCONT)
	s.staysInBoot(2 * timeout)
	s.watch.expire()
	s.movesAway(boot)
	if now := s.watch.state(); now.fires != 1 || now.unpetted != pets {
		s.Errorf("the watchdog was petted %d times before the agent went on, and then %+v", pets, now)
	}
	s.succeeds(r)
}

// twoManagers: two managers act at once. One of them is stopped once a node is condemned that is cut off, and goes on when the node is back.
func (w *world) twoManagers(t *testing.T, k *killed) {
	t.Helper()
	w.StartFettle(t)
	s := &story{T: t, machine: w.nodes[0], w: w, set: "two-managers"}
	last := w.nodes[len(w.nodes)-1].part.Node
	w.workload(t, s.set, s.part.Node, last)
	boot, boots := s.count()
	s.sets(cut)
	w.says(t, s.part.Node, selffence.Condemned)
	k.fettle.Halt(t)
	s.expires(boot)
	s.sets(works)
	w.restored(t)
	w.areTimed(t)
	now, _ := s.count()
	k.fettle.Resume(t)
	w.Never(t, "another reset or a release", 2*timeout, func(ctx context.Context) error {
		if again, more := s.count(); again != now || more != boots+1 {
			return fmt.Errorf("it is in boot %s, and was booted %d times", again, more)
		}
		r, err := w.remediation(ctx, s.part.Node)
		if err == nil && r.Name != "" {
			err = fmt.Errorf("there is a remediation: %+v", r.Status)
		}
		return err
	})
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
