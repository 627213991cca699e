package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed fencenodes.yaml
var fenceNodes []byte

//go:embed fencepolicy.yaml
var fencePolicy []byte

// The nodes of the demo, and times that are longer than their promises: a promise ends at the latest 8 s + 3 × 3 s after its last renewal.
const (
	fencersInAll = 5
	awayFor      = 25 * time.Second
	settledFor   = 5 * time.Second
	// fenceWithin is how long one step may take on a busy machine.
	fenceWithin = 3 * time.Minute
)

// logOfAgents is the name of the log of the agents.
const logOfAgents = "agents"

// fenceScenario is about nodes that fence themselves by their watchdogs.
type fenceScenario struct{}

func (fenceScenario) cluster() cluster {
	return cluster{
		title: "A cluster without BMCs and without a Machine API", parts: "kubelets on simulated hosts", takes: "between two and three minutes, and needs no root",
		sandbox: []string{"--metal"}, podLog: true, elects: true,
		kinds: []string{"remediation.medik8s.io_nodehealthchecks.yaml"}, folders: []string{"selffence"},
	}
}

func (fenceScenario) play(ctx context.Context, s *demo) error {
	scheduling, stop := context.WithCancel(ctx)
	defer stop()
	go s.schedule(scheduling)
	t := &timeline[fences]{stage: s, look: s.lookAtFences, tell: tellFences}
	if err := t.play(ctx, bootFencers, applyFencePolicy, runDatabase, kubeletHangs, nodeIsCutOff, serverGoesAway); err != nil {
		return err
	}
	fmt.Print("\nAll of it came true: a node whose kubelet hung reset itself once, a node that was cut off reset itself once, " +
		"no node reset itself while the API server was away, and the database never ran twice.\n")
	return nil
}

func (fenceScenario) around(s *demo) string {
	return fmt.Sprintf(`  kubectl get nodes,fencepolicies; kubectl get pods -o wide
  kubectl get leases -n %s -o yaml
  kubectl get selffenceremediations,repairs -A
  %s/podruns %s
  cat %s/agents.log

Break something, and watch what happens:

  kubectl label node NAME sandbox.fettle.io/kubelet=stopped                                # its kubelet is silent and its pods go on
  kubectl label node NAME sandbox.fettle.io/kubelet=stopped sandbox.fettle.io/link=cut     # its agent reaches no API server either
`, namespaceOfAgents, s.Bin, filepath.Join(s.Dir, podLog), s.Dir)
}

// bootFencers boots the hosts and starts their agents.
func bootFencers(ctx context.Context, t *timeline[fences]) error {
	say("%d nodes boot; each has an agent with a stand-in for its watchdog", fencersInAll)
	if err := t.stage.applyText(ctx, fenceNodes, false); err != nil {
		return err
	}
	err := t.until(ctx, "waiting for all nodes to be ready", time.Minute, func(s fences) (bool, error) {
		for _, n := range s.nodes {
			if n.ready != "True" || n.boot == "" {
				return false, nil
			}
		}
		return len(s.nodes) == fencersInAll, nil
	})
	if err != nil {
		return err
	}
	if err := t.stage.authoritiesPublished(ctx); err != nil {
		return err
	}
	_, err = t.stage.Launch(logOfAgents, "simagents", append([]string{t.stage.Kubeconfig()}, slices.Sorted(maps.Keys(t.last.nodes))...)...)
	return err
}

// authoritiesPublished waits until agents can ask for certificates. An agent that can't waits for half a minute.
func (s *demo) authoritiesPublished(ctx context.Context) error {
	return s.await(ctx, "waiting for the authorities of agents", func(ctx context.Context) (bool, error) {
		var m corev1.ConfigMap
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespaceOfAgents, Name: "fettle-agent-authorities"}, &m)
		return err == nil && len(m.Data) > 0, client.IgnoreNotFound(err)
	})
}

// applyFencePolicy waits until all nodes promise something.
func applyFencePolicy(ctx context.Context, t *timeline[fences]) error {
	title("An administrator has the nodes fence themselves")
	if err := t.stage.applyText(ctx, fencePolicy, true); err != nil {
		return err
	}
	say("each node gets a certificate, and chooses three others as its witnesses; a node that is cut off resets itself in time, " +
		"unless most of its witnesses reach no API server either")
	return settle(ctx, t, nil)
}

// settle waits until all nodes are well off, and no promise has changed for a while: while an agent changes its promise, it asks no witness.
func settle(ctx context.Context, t *timeline[fences], resets map[string]int) error {
	var promises map[string]promise
	var since time.Time
	return t.until(ctx, "waiting for the promises of all nodes", fenceWithin, func(s fences) (bool, error) {
		if !maps.Equal(s.promises, promises) {
			promises, since = s.promises, time.Now()
		}
		return s.wellOff() && time.Since(since) > settledFor, errors.Join(s.only(""), s.onlyReset(resets, ""))
	})
}

func runDatabase(ctx context.Context, t *timeline[fences]) error {
	title("A user applies a StatefulSet")
	say("%s must never run twice at a time; the simulated hosts log which pods they really run", databasePod)
	if err := t.stage.applyText(ctx, databaseManifest, false); err != nil {
		return err
	}
	return t.until(ctx, "waiting for the pod to run", fenceWithin, func(s fences) (bool, error) { return s.running, nil })
}

// cordon keeps pods away from a node, so that the database moves.
func (s *demo) cordon(ctx context.Context, name string, on bool) error {
	return s.patch(ctx, "v1", "Node", name, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
}

// kubeletHangs: the agent learns that the node is condemned, and resets it.
func kubeletHangs(ctx context.Context, t *timeline[fences]) error {
	title("The kubelet of a node hangs")
	victim, resets := t.last.nodes[t.last.database], t.last.resets
	say("the kubelet of %s is silent, and %s still runs there; its agent reaches the API server", victim.name, databasePod)
	if err := errors.Join(t.stage.cordon(ctx, victim.name, true), t.stage.hang(ctx, victim.name)); err != nil {
		return err
	}
	hung := time.Now()
	err := t.until(ctx, "waiting for "+victim.name+" to reset itself", fenceWithin, func(s fences) (bool, error) {
		return s.movedFrom(victim.name), errors.Join(s.only(victim.name), s.onlyReset(resets, victim.name))
	})
	if err != nil {
		return err
	}
	say("%s runs on %s, %.1f seconds after the kubelet had hung", databasePod, t.last.database, time.Since(hung).Seconds())
	return isBack(ctx, t, victim, resets, 2)
}

// movedFrom reports whether the database runs elsewhere.
func (f fences) movedFrom(name string) bool { return f.running && f.database != name }

// isBack waits until a node is back in another boot. It was reset once since then, and the log has this many runs.
func isBack(ctx context.Context, t *timeline[fences], victim metalNode, resets map[string]int, times int) error {
	err := t.until(ctx, "waiting for "+victim.name+" to be back", fenceWithin, func(s fences) (bool, error) {
		back := s.wellOff() && s.nodes[victim.name].boot != victim.boot
		return back, errors.Join(s.only(victim.name), s.onlyReset(resets, victim.name))
	})
	if err != nil {
		return err
	}
	if got := t.last.resets[victim.name] - resets[victim.name]; got != 1 {
		return fmt.Errorf("host %s was reset %d times, and should have been once", victim.name, got)
	}
	if err := t.stage.cordon(ctx, victim.name, false); err != nil {
		return err
	}
	say("%s is back in another boot; it was reset once, and no other host was", victim.name)
	return t.stage.ran(ctx, times)
}

// link cuts or mends the link of a node. A kubelet that was cut off is silent until the next boot.
func (s *demo) link(ctx context.Context, name string, cut bool) error {
	labels := `{"sandbox.fettle.io/link":null}`
	if cut {
		labels = `{"sandbox.fettle.io/kubelet":"stopped","sandbox.fettle.io/link":"cut"}`
	}
	return s.patch(ctx, "v1", "Node", name, `{"metadata":{"labels":`+labels+`}}`)
}

// nodeIsCutOff: the node resets itself, since its witnesses reach the API server. Fettle waits until it must have done so.
func nodeIsCutOff(ctx context.Context, t *timeline[fences]) error {
	title("A node is cut off")
	if err := settle(ctx, t, t.last.resets); err != nil {
		return err
	}
	victim, resets := t.last.nodes[t.last.database], t.last.resets
	say("the link of %s is cut, and %s still runs there; its agent reaches neither the API server nor another agent", victim.name, databasePod)
	if err := errors.Join(t.stage.cordon(ctx, victim.name, true), t.stage.link(ctx, victim.name, true)); err != nil {
		return err
	}
	if err := movesByPromise(ctx, t, victim, resets); err != nil {
		return err
	}
	say("Fettle explains itself:")
	out, err := t.stage.run(ctx, "fettle", "explain", "node/"+victim.name)
	if err != nil {
		return err
	}
	if !strings.Contains(out, victim.name) {
		return fmt.Errorf("fettle explain does not say %q", victim.name)
	}
	say("the link works again")
	if err := t.stage.link(ctx, victim.name, false); err != nil {
		return err
	}
	return isBack(ctx, t, victim, resets, 3)
}

// movesByPromise waits until the database runs elsewhere while a node is cut off. The host must have been reset before, and the promise is the proof.
func movesByPromise(ctx context.Context, t *timeline[fences], victim metalNode, resets map[string]int) error {
	began := time.Now()
	var condemned, reset time.Duration
	err := t.until(ctx, "waiting for the workload to run elsewhere", fenceWithin, func(s fences) (bool, error) {
		passed := time.Since(began)
		if s.promises[victim.name].state == "Condemned" && condemned == 0 {
			condemned = passed
		}
		if s.resets[victim.name] > resets[victim.name] && reset == 0 {
			reset = passed
		}
		if s.nodes[victim.name].outOfService && reset == 0 {
			return false, fmt.Errorf("the workload of node %s is released, and its host was not reset", victim.name)
		}
		if f := s.fencings[victim.name]; f.proof != "" && f.proof != promiseExpired {
			return false, fmt.Errorf("the proof for node %s is %s, and its link is cut", victim.name, f.proof)
		}
		return s.movedFrom(victim.name), errors.Join(s.only(victim.name), s.onlyReset(resets, victim.name))
	})
	if err != nil {
		return err
	}
	say("after the cut, %s was condemned after %.1f s and had reset itself after %.1f s; %s ran on %s after %.1f s, while the link was cut",
		victim.name, condemned.Seconds(), reset.Seconds(), databasePod, t.last.database, time.Since(began).Seconds())
	return nil
}

// serverGoesAway: nothing is known, so no node is fenced. None resets itself, since its witnesses reach no API server either.
func serverGoesAway(ctx context.Context, t *timeline[fences]) error {
	title("The API server goes away for longer than the promise of any node")
	if err := settle(ctx, t, t.last.resets); err != nil {
		return err
	}
	before, resets := t.last.boots(), t.last.resets
	say("it answers nothing for %s; each promise alone would end after 17 s at the latest", awayFor)
	if err := t.stage.plane.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(awayFor):
	}
	during, err := t.stage.resets()
	if err != nil {
		return err
	}
	if err := (fences{resets: during}).onlyReset(resets, ""); err != nil {
		return err
	}
	say("no host was reset, and the API server is back")
	if err := t.stage.plane.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	back := time.Now()
	err = t.until(ctx, "watching that no node resets itself", fenceWithin, func(s fences) (bool, error) {
		if now := s.boots(); now != before {
			return false, fmt.Errorf("a node was reset: the boots were %s, and are %s", before, now)
		}
		return s.wellOff() && time.Since(back) > awayFor/2, errors.Join(s.only(""), s.onlyReset(resets, ""))
	})
	if err != nil {
		return err
	}
	say("all nodes are in the boots that they were in, and promise on")
	return t.stage.ran(ctx, 3)
}
