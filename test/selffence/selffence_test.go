package selffence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
	"github.com/fettle-io/fettle/test/runs"
)

// holds has all nodes promise with Hold.
var holds = fmt.Sprintf(`---
apiVersion: fettle.io/v1alpha1
kind: FencePolicy
metadata: {name: all}
spec: {nodeSelector: {}, onIsolation: Hold, renewal: 1s, validity: 4s, watchdog: {timeout: %s, allowVirtualMachines: true}}
`, timeout)

// fencesThemselves has all nodes but one fence themselves once they are not Ready.
const fencesThemselves = `apiVersion: fettle.io/v1alpha1
kind: SelfFenceRemediationTemplate
metadata: {name: all, namespace: fettle-system}
spec: {template: {spec: {fenceTimeout: 1h, releaseTimeout: 1h, bootTimeout: 1h}}}
---
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: all}
spec:
  selector: {matchLabels: {checked: "true"}}
  minHealthy: 1
  unhealthyConditions: [{type: Ready, status: Unknown, duration: 3s}]
  remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: SelfFenceRemediationTemplate, name: all, namespace: fettle-system}
`

// TestRealProcesses: nodes fence themselves while kubelets hang, links are cut, packets of one direction are lost, agents are stopped, and the
// manager is killed at each kind of write. Then the API server is frozen, and no node is reset. In none of it does a pod run twice.
func TestRealProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 0)
	w.Apply(t, fencesThemselves+holds)
	for _, m := range w.nodes {
		w.says(t, m.part.Node, selffence.Promised)
	}
	w.plays(t, w.newKilled(t, w.nodes...), []named{{"cut-link", cutLink}, {"lost-answers", lostAnswers}, {"stopped-agent", stoppedAgent}, {"hung-kubelet", hungKubelet}})
	w.frozen(t, 3*timeout)
	if all := runs.Check(t, w.runs); len(all) < 8 {
		t.Errorf("the pods ran %d times: %v", len(all), all)
	}
}

// story is one fault of a node.
type story struct {
	*testing.T
	*machine

	w   *world
	set string
}

// named is a story with its name.
type named struct {
	name string
	play func(*story)
}

// plays runs stories beside each other, each on another node, whose pod may run on the last node too. Meanwhile the manager is killed at each
// kind of write.
func (w *world) plays(t *testing.T, k *killed, stories []named) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Run("all", func(t *testing.T) {
			beside := cluster.Beside(t)
			defer beside.Wait()
			for number, s := range stories {
				m := w.nodes[number]
				beside.Run(s.name, func(t *testing.T) {
					w.workload(t, s.name, m.part.Node, w.nodes[len(w.nodes)-1].part.Node)
					s.play(&story{T: t, machine: m, w: w, set: s.name})
				})
			}
		})
		t.Run("restored", w.restored)
	}()
	k.until(t, ended)
	k.wasKilled(t)
}

// movesAway waits until the pod runs on the last node, and the node of the story is back in another boot.
func (s *story) movesAway(boot string) {
	s.Helper()
	s.w.runsOn(s.T, s.set, s.w.nodes[len(s.w.nodes)-1].part.Node)
	all, err := s.w.ran(s.set)
	if err != nil || len(all) != 2 || all[0].Boot != boot {
		s.Errorf("the pod ran there, and first in boot %s: %v (%v)", boot, all, err)
	}
	s.w.Eventually(s.T, "boot of "+s.part.Node, func(context.Context) error {
		if now, boots := s.count(); now == boot || boots != 2 {
			return fmt.Errorf("it is in boot %s, and was booted %d times", now, boots)
		}
		return nil
	})
}

// hungKubelet: the kubelet hangs, and a person requests the reset. The agent learns that the node is condemned, and the watchdog resets it.
func hungKubelet(s *story) {
	boot, _ := s.count()
	s.signal(roleKubelet, syscall.SIGSTOP)
	r := s.requests()
	s.movesAway(boot)
	s.succeeds(r)
}

// requests creates the remediation of a person. No health check withdraws it when the node is back.
func (s *story) requests() *v1alpha1.SelfFenceRemediation {
	s.Helper()
	hour := &metav1.Duration{Duration: time.Hour}
	r := &v1alpha1.SelfFenceRemediation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: s.part.Node},
		Spec:       v1alpha1.SelfFenceRemediationSpec{FenceTimeout: hour, ReleaseTimeout: hour, BootTimeout: hour},
	}
	if err := s.w.Create(cluster.Context(s.T), r); err != nil {
		s.Fatalf("creating a remediation: %v", err)
	}
	return r
}

// succeeds waits for the end of the remediation of a person, and deletes it.
func (s *story) succeeds(r *v1alpha1.SelfFenceRemediation) {
	s.Helper()
	s.w.Eventually(s.T, "end of the remediation of "+s.part.Node, func(ctx context.Context) error {
		if err := s.w.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil || r.Status.Phase != "Succeeded" {
			return fmt.Errorf("it is %q (%w)", r.Status.Phase, err)
		}
		return nil
	})
	if err := s.w.Delete(cluster.Context(s.T), r); err != nil {
		s.Fatalf("deleting a remediation: %v", err)
	}
}

// cutLink: nothing proves that the node has stopped, and its pod goes on. Once the link works, the agent learns that the node is condemned.
func cutLink(s *story) { s.isOut(cut) }

// lostAnswers: packets leave the node, and none reaches it.
func lostAnswers(s *story) { s.isOut(deaf) }

func (s *story) isOut(l link) {
	s.Helper()
	boot, _ := s.count()
	s.sets(l)
	s.w.says(s.T, s.part.Node, selffence.Condemned)
	s.w.Never(s.T, "reset or release of "+s.part.Node, 2*timeout, func(ctx context.Context) error {
		if _, boots := s.count(); boots != 1 {
			return fmt.Errorf("it was booted %d times", boots)
		}
		r, err := s.w.remediation(ctx, s.part.Node)
		if err == nil && r.Status.WorkloadReleased {
			err = errors.New("its workload is released")
		}
		return client.IgnoreNotFound(err)
	})
	s.signal(roleKubelet, syscall.SIGSTOP) // were the node Ready first, its health check would have the Lease freed before the agent reads it
	s.sets(works)
	s.movesAway(boot)
}

// stoppedAgent: the agent is stopped for less than the timeout of the watchdog, and goes on. Then it is stopped for longer, and the node is reset.
// When the agent would go on, its node has another boot.
func stoppedAgent(s *story) {
	boot, _ := s.count()
	s.signal(roleAgent, syscall.SIGSTOP)
	s.staysInBoot(timeout / 4)
	s.signal(roleAgent, syscall.SIGCONT)
	s.pets()
	s.signal(roleAgent, syscall.SIGSTOP)
	s.w.Eventually(s.T, "boot of "+s.part.Node, func(context.Context) error {
		if now, boots := s.count(); now == boot {
			return fmt.Errorf("it was booted %d times", boots)
		}
		return nil
	})
	s.w.says(s.T, s.part.Node, selffence.Promised)
}

// pets waits until the watchdog of the node is petted again.
func (s *story) pets() {
	s.Helper()
	before := s.watch.state().pets
	s.w.Eventually(s.T, "pet of "+s.part.Node, func(context.Context) error {
		if now := s.watch.state(); now.pets < before+2 {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
}

// remediation returns that of a node.
func (w *world) remediation(ctx context.Context, node string) (*v1alpha1.SelfFenceRemediation, error) {
	var all v1alpha1.SelfFenceRemediationList
	if err := w.List(ctx, &all, client.InNamespace("fettle-system")); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].Name, node) {
			return &all.Items[i], nil
		}
	}
	return &v1alpha1.SelfFenceRemediation{}, nil
}

// restored waits until no remediation is left, all nodes are Ready without a taint, and each promises in the boot that it is in.
func (w *world) restored(t *testing.T) {
	t.Helper()
	w.Eventually(t, "end of all remediations", func(ctx context.Context) error {
		var all v1alpha1.SelfFenceRemediationList
		var nodes corev1.NodeList
		if err := errors.Join(w.List(ctx, &all), w.List(ctx, &nodes)); err != nil {
			return err
		}
		if len(all.Items) > 0 {
			return fmt.Errorf("%s is %s: %v", all.Items[0].Name, all.Items[0].Status.Phase, all.Items[0].Status.Conditions)
		}
		for i := range nodes.Items {
			if n := &nodes.Items[i]; !isReady(n) || len(n.Spec.Taints) > 0 {
				return fmt.Errorf("node %s: Ready %t, taints %v", n.Name, isReady(n), n.Spec.Taints)
			}
		}
		return nil
	})
	for _, m := range w.nodes {
		w.says(t, m.part.Node, selffence.Promised)
	}
}

// frozen: the API server answers nothing for a time that is longer than any promise. No node is reset, then or later.
func (w *world) frozen(t *testing.T, d time.Duration) {
	t.Helper()
	before := w.boots()
	w.Halt(t)
	resets := func(context.Context) error {
		if now := w.boots(); now != before {
			return fmt.Errorf("the nodes were booted this often before: %s, and are now: %s", before, now)
		}
		return nil
	}
	w.Never(t, "reset of a node", d, resets)
	w.Resume(t)
	w.Never(t, "reset of a node", timeout, resets)
	w.restored(t)
}

// boots says how often each node was booted.
func (w *world) boots() string {
	var all []string
	for _, m := range w.nodes {
		_, boots := m.count()
		all = append(all, fmt.Sprintf("%s %d", m.part.Node, boots))
	}
	return strings.Join(all, ", ")
}
