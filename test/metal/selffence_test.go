package metal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestSelfFencing: hosts whose kubelets hang are reset by their own agents, under the rights and the policy of config/selffence. Each agent runs
// in this process, with a stand-in for its watchdog.
func TestSelfFencing(t *testing.T) {
	t.Parallel()
	s := newMachineSite(t)
	s.allowSelfFencing(t)
	s.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, story := range map[string]func(*selfFenced){
		"sf-reset": resetsItself, "sf-deleted": resetsItselfByDeletion, "sf-none": promisesNothing, "sf-recovers": recoversMeanwhile, "sf-why": statesWhy,
		"sf-machine": resetsItselfForItsMachine, "sf-orphan": isFreedAfterRemoval,
	} {
		beside.Run(name, func(t *testing.T) {
			p := s.newPool(t, name)
			story(&selfFenced{pool: p})
		})
	}
}

// allowSelfFencing installs config/selffence without its agents.
func (s *site) allowSelfFencing(t *testing.T) {
	t.Helper()
	for _, u := range cluster.Kustomization(t, "config/selffence") {
		if u.GetKind() == "DaemonSet" {
			continue // nothing runs its pods
		}
		if err := s.Create(cluster.Context(t), u); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("creating %s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
}

// selfFenced is a pool whose first node has an agent.
type selfFenced struct {
	*pool

	mu     sync.Mutex
	agent  func()
	resets int
	broken bool
	// opens is the error of opening the watchdog, or nil.
	opens error
}

// asAgent returns the configuration of a client with the rights of the first node's agent.
func (s *selfFenced) asAgent() *rest.Config {
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:fettle-agents:fettle-agent",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:fettle-agents", "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {s.first()}},
	}
	return config
}

// boots runs an agent in the boot that the node of the pool shows, until the host is reset.
func (s *selfFenced) boots() {
	s.Helper()
	node := s.first()
	server, err := agent.NewServer(s.asAgent())
	if err != nil {
		s.Fatal(err)
	}
	boot := s.node(cluster.Context(s.T), node).Status.NodeInfo.BootID
	lease := agent.NewLeases(server, node, time.Now)
	store := agent.Directory(s.TempDir()) // before the cleanup that ends the agent, so that it is removed afterwards
	ctx, cancel := context.WithCancel(context.Background())
	begun := time.Now()
	var running sync.WaitGroup
	running.Go(func() {
		_ = agent.Run(ctx, agent.Config{
			Boot: boot, Hardware: s, Grantor: lease, Explainer: lease, Policies: agent.NewFencePolicies(server, node),
			Store: store, Boottime: func() time.Duration { return time.Since(begun) + time.Hour },
			Tell: func(n agent.Note) { s.Logf("agent of %s: %s %v", node, n.Reason, n.Err) }, StopWithin: time.Second,
		})
	})
	stop := sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.Cleanup(stop)
	s.mu.Lock()
	s.agent, s.broken = stop, false
	s.mu.Unlock()
}

// Open implements agent.Hardware.
func (s *selfFenced) Open(w agent.Watchdog, _ func() bool) (agent.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opens != nil {
		return nil, s.opens
	}
	return &standIn{timeout: w.Timeout}, nil
}

// Reset implements agent.Hardware. It has a person press the button of the host, once in each boot.
func (s *selfFenced) Reset() error {
	s.mu.Lock()
	first := !s.broken
	s.broken = true
	if first {
		s.resets++
	}
	s.mu.Unlock()
	if first {
		s.mark(s.first(), "annotations", "power", "off")
		s.Eventually(s.T, "power of "+s.first(), func(ctx context.Context) error {
			if at := s.node(ctx, s.first()).Annotations[sandboxes+"power"]; at != "" {
				return fmt.Errorf("it is to be %s", at)
			}
			return nil
		})
		s.mark(s.first(), "annotations", "power", "on")
	}
	return errors.New("the process of a node that is reset ends with it")
}

// standIn is a watchdog that never fires.
type standIn struct{ timeout time.Duration }

func (d *standIn) State() (time.Duration, string) { return d.timeout, "stand-in" }
func (*standIn) Pet() error                       { return nil }
func (*standIn) Disarm() error                    { return nil }

// promised creates a policy of the pool, runs the agent, and waits for its promise. It returns the boot ID.
func (s *selfFenced) promised() string {
	s.Helper()
	s.Apply(s.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: FencePolicy
metadata: {name: %[1]s}
spec: {nodeSelector: {matchLabels: {pool: %[1]s}}, onIsolation: Hold, renewal: 1s, validity: 3s}
`, s.name))
	s.boots()
	s.leaseSays(selffence.Promised)
	return s.node(cluster.Context(s.T), s.first()).Status.NodeInfo.BootID
}

// leaseSays waits until the Lease of the first node is in a state.
func (s *selfFenced) leaseSays(state selffence.State) {
	s.Helper()
	s.Eventually(s.T, fmt.Sprintf("Lease of %s is %s", s.first(), state), func(ctx context.Context) error { return s.says(ctx, state) })
}

// says returns an error unless the Lease of the first node is in a state.
func (s *selfFenced) says(ctx context.Context, state selffence.State) error {
	var l coordinationv1.Lease
	if err := s.Get(ctx, client.ObjectKey{Namespace: promiselease.Namespace, Name: s.first()}, &l); err != nil {
		return err
	}
	r, err := promiselease.Decode(&l)
	if err == nil && r.State != state {
		err = fmt.Errorf("it is %+v", r)
	}
	return err
}

// checkedBy creates a health check that has a node fence itself once it is not Ready. Without fields of a template it names that of
// config/selffence.
func (s *selfFenced) checkedBy(fields string) {
	s.Helper()
	template := "reset"
	if fields != "" {
		template = s.name
		s.Apply(s.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: SelfFenceRemediationTemplate
metadata: {name: %s, namespace: fettle-system}
spec: {template: {spec: {%s}}}
`, template, fields))
	}
	s.Apply(s.T, fmt.Sprintf(`apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {pool: %[1]s}}
  minHealthy: 1
  unhealthyConditions: [{type: Ready, status: Unknown, duration: 1s}]
  remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: SelfFenceRemediationTemplate, name: %[2]s, namespace: fettle-system}
`, s.name, template))
}

// own returns the SelfFenceRemediation of the first node.
func (s *selfFenced) own(ctx context.Context) (*v1alpha1.SelfFenceRemediation, error) {
	var all v1alpha1.SelfFenceRemediationList
	if err := s.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].Name, s.name) {
			return &all.Items[i], nil
		}
	}
	return nil, errors.New("there is none")
}

// isGone waits until the remediation of the first node is gone.
func (s *selfFenced) isGone() {
	s.Helper()
	s.Eventually(s.T, "end of the remediation of "+s.first(), func(ctx context.Context) error {
		if r, err := s.own(ctx); err == nil {
			return fmt.Errorf("it is %s: %+v", r.Status.Phase, r.Status.Conditions)
		}
		return nil
	})
}

// resetsItself: the node resets itself, its pod runs elsewhere and never twice, and the agent of the new boot promises anew.
func resetsItself(s *selfFenced) {
	boot := s.promised()
	s.checkedBy("")
	s.takesNoMore(s.first())
	s.hangs(s.first())
	s.comesBack(boot)
	s.runsOn(s.second())
	s.ranTimes(2)
}

// comesBack waits until the node is back and restored, and its agent of the new boot promises again.
func (s *selfFenced) comesBack(boot string) {
	s.Helper()
	s.isBack(s.first(), boot)
	s.mu.Lock()
	stop := s.agent
	s.mu.Unlock()
	stop() // it has ended with its boot
	s.boots()
	s.isGone()
	s.leaseSays(selffence.Promised)
	s.isRestored(s.first())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resets != 1 {
		s.Errorf("the node was reset %d times", s.resets)
	}
}

// resetsItselfByDeletion does so where a node would be deleted. A node that is back already is not.
func resetsItselfByDeletion(s *selfFenced) {
	boot := s.promised()
	s.checkedBy("release: DeleteNode")
	s.takesNoMore(s.first())
	s.hangs(s.first())
	s.comesBack(boot)
	s.runsOn(s.second())
	s.ranTimes(2)
}

// takesNoMore has the scheduler bind no more pods to a node.
func (s *selfFenced) takesNoMore(node string) {
	s.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))
	if err := s.Patch(cluster.Context(s.T), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch); err != nil {
		s.Fatalf("cordoning node %s: %v", node, err)
	}
}

// promisesNothing: a node without an agent is not fenced, and the remediation says why.
func promisesNothing(s *selfFenced) {
	s.checkedBy("")
	s.hangs(s.first())
	s.Eventually(s.T, "refusal", func(ctx context.Context) error {
		r, err := s.own(ctx)
		if err != nil {
			return err
		}
		for _, c := range r.Status.Conditions {
			if c.Type == v1alpha1.SucceededCondition && c.Reason == v1alpha1.CannotStartNoPromiseReason && strings.Contains(c.Message, "FencePolicy") {
				return nil
			}
		}
		return fmt.Errorf("%+v", r.Status)
	})
	n := s.node(cluster.Context(s.T), s.first())
	for _, taint := range n.Spec.Taints {
		if strings.HasPrefix(taint.Key, "fettle.io/") || taint.Key == corev1.TaintNodeOutOfService {
			s.Errorf("the node has %v", taint)
		}
	}
	s.ranTimes(1)
}

// resetsItselfForItsMachine does so for a health check of machines. The machine is claimed meanwhile.
func resetsItselfForItsMachine(s *selfFenced) {
	boot := s.promised()
	s.ofMachine()
	s.isOld(s.first())
	s.Apply(s.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: SelfFenceRemediationTemplate
metadata: {name: %s, namespace: %s}
spec: {template: {spec: {}}}
`, s.name, machines))
	s.machineCheckedBy(nil, map[string]any{"remediationTemplate": map[string]any{
		"apiVersion": "fettle.io/v1alpha1", "kind": "SelfFenceRemediationTemplate", "namespace": machines, "name": s.name,
	}})
	s.hangs(s.first())
	s.Eventually(s.T, "claim on machine "+s.name, func(ctx context.Context) error {
		m := s.newMachine()
		if err := s.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if by := m.GetAnnotations()[annotation.ClaimedBy]; !strings.HasPrefix(by, machines+"/"+s.name+"/") {
			return fmt.Errorf("%q has claimed it", by)
		}
		return nil
	})
	s.comesBack(boot)
	s.isUnclaimed()
	s.ranAlone()
}

// recoversMeanwhile: the remediation is deleted while the node is condemned and its agent does not know. The Lease and the node are freed.
func recoversMeanwhile(s *selfFenced) {
	r := s.condemnedWithoutItsAgent()
	if err := s.Delete(cluster.Context(s.T), r); err != nil {
		s.Fatal(err)
	}
	s.isGone()
	s.leaseSays(selffence.Withdrawn)
	s.isRestored(s.first())
}

// isFreedAfterRemoval: the remediation is removed by force while the node is condemned. Fettle frees the Lease all the same.
func isFreedAfterRemoval(s *selfFenced) {
	ctx, r := cluster.Context(s.T), s.condemnedWithoutItsAgent()
	s.Eventually(s.T, "removal of the remediation of "+s.first(), func(context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		r.Finalizers = nil
		r.Annotations = map[string]string{"example.org/removed": "by-force"}
		if err := s.Update(ctx, r); err != nil {
			return err
		}
		uid, revision := r.UID, r.ResourceVersion // without a finalizer it goes at once
		return s.Delete(ctx, r, client.Preconditions{UID: &uid, ResourceVersion: &revision})
	})
	s.isGone()
	s.leaseSays(selffence.Withdrawn)
}

// promisesByHand writes a promise of the present boot of the first node, with the rights of its agent. Nothing renews it. It returns the client of
// the agent, and the Lease.
func (s *selfFenced) promisesByHand(promise selffence.Promise) (client.Client, *coordinationv1.Lease) {
	s.Helper()
	ctx := cluster.Context(s.T)
	as, err := client.New(s.asAgent(), client.Options{Scheme: s.Scheme()})
	if err != nil {
		s.Fatal(err)
	}
	promise.Boot = s.node(ctx, s.first()).Status.NodeInfo.BootID
	lease, err := promiselease.Encode(s.first(), promiselease.Record{Lease: selffence.Lease{State: selffence.Promised, Promise: promise}}, time.Now())
	if err != nil {
		s.Fatal(err)
	}
	if err := as.Create(ctx, lease); err != nil {
		s.Fatalf("promising: %v", err)
	}
	return as, lease
}

// condemnedWithoutItsAgent creates a remediation of the first node and waits until it has condemned the node. It returns the remediation.
func (s *selfFenced) condemnedWithoutItsAgent() *v1alpha1.SelfFenceRemediation {
	s.Helper()
	ctx := cluster.Context(s.T)
	as, lease := s.promisesByHand(selffence.Promise{})
	s.isOld(s.first())
	r := &v1alpha1.SelfFenceRemediation{}
	r.Namespace, r.Name = namespace, s.first()
	if err := s.Create(ctx, r); err != nil {
		s.Fatal(err)
	}
	s.leaseSays(selffence.Condemned)
	if err := as.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		s.Fatal(err)
	}
	if err := as.Update(ctx, lease); !apierrors.IsForbidden(err) {
		s.Errorf("the agent may write a Lease that is condemned: %v", err)
	}
	return r
}
