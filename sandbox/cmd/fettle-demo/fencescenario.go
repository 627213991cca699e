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
)

//go:embed fencenodes.yaml
var fenceNodes []byte

//go:embed fencepolicy.yaml
var fencePolicy []byte

// The nodes of the demo, and times that are longer than their promises.
const (
	fencersInAll = 3
	holdsFor     = 12 * time.Second
	awayFor      = 15 * time.Second
)

// fenceScenario is about nodes that fence themselves by their watchdogs.
type fenceScenario struct{}

func (fenceScenario) cluster() cluster {
	return cluster{
		title: "A cluster without BMCs and without a Machine API", parts: "kubelets on simulated hosts",
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
	fmt.Print("\nAll of it came true: a node whose kubelet hung reset itself, a node that was cut off was held until it could learn that it is condemned, " +
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
	_, err = t.stage.Launch("agents", "simagents", append([]string{t.stage.Kubeconfig()}, slices.Sorted(maps.Keys(t.last.nodes))...)...)
	return err
}

// applyFencePolicy waits until all nodes promise something.
func applyFencePolicy(ctx context.Context, t *timeline[fences]) error {
	title("An administrator has the nodes fence themselves")
	if err := t.stage.applyText(ctx, fencePolicy, true); err != nil {
		return err
	}
	return t.until(ctx, "waiting for the promises of all nodes", fencedLimit, func(s fences) (bool, error) { return s.wellOff(), s.only("") })
}

func runDatabase(ctx context.Context, t *timeline[fences]) error {
	title("A user applies a StatefulSet")
	say("%s must never run twice at a time; the simulated hosts log which pods they really run", databasePod)
	if err := t.stage.applyText(ctx, databaseManifest, false); err != nil {
		return err
	}
	return t.until(ctx, "waiting for the pod to run", fencedLimit, func(s fences) (bool, error) { return s.running, nil })
}

// cordon keeps pods away from a node, so that the database moves.
func (s *demo) cordon(ctx context.Context, name string, on bool) error {
	return s.patch(ctx, "v1", "Node", name, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
}

// kubeletHangs: the agent learns that the node is condemned, and resets it.
func kubeletHangs(ctx context.Context, t *timeline[fences]) error {
	title("The kubelet of a node hangs")
	victim := t.last.nodes[t.last.database]
	say("the kubelet of %s is silent, and %s still runs there; its agent reaches the API server", victim.name, databasePod)
	if err := errors.Join(t.stage.cordon(ctx, victim.name, true), t.stage.hang(ctx, victim.name)); err != nil {
		return err
	}
	return resetItself(ctx, t, victim, 2)
}

// resetItself waits until the node is back in another boot and the database runs elsewhere. The log has this many runs then.
func resetItself(ctx context.Context, t *timeline[fences], victim metalNode, times int) error {
	hung := time.Now()
	err := t.until(ctx, "waiting for "+victim.name+" to reset itself", fencedLimit, func(s fences) (bool, error) {
		moved := s.running && s.database != victim.name
		return moved && s.wellOff() && s.nodes[victim.name].boot != victim.boot, s.only(victim.name)
	})
	if err != nil {
		return err
	}
	if err := t.stage.cordon(ctx, victim.name, false); err != nil {
		return err
	}
	say("%s was back after %.0f seconds in another boot, and %s runs on %s", victim.name, time.Since(hung).Seconds(), databasePod, t.last.database)
	return t.stage.ran(ctx, times)
}

// link cuts or mends the link of a node. A node that is cut off goes on by itself. The kubelet of a link that is mended is silent until the
// next boot: were the node Ready first, its health check would have the Lease freed before the agent reads it.
func (s *demo) link(ctx context.Context, name string, cut bool) error {
	labels := `{"sandbox.fettle.io/link":null}`
	if cut {
		labels = `{"sandbox.fettle.io/kubelet":"stopped","sandbox.fettle.io/link":"cut"}`
	}
	return s.patch(ctx, "v1", "Node", name, `{"metadata":{"labels":`+labels+`}}`)
}

// nodeIsCutOff: with onIsolation Hold nothing proves that the node has stopped. It learns that it is condemned once its link works.
func nodeIsCutOff(ctx context.Context, t *timeline[fences]) error {
	title("A node is cut off")
	victim := t.last.nodes[t.last.database]
	say("the link of %s is cut, and %s still runs there", victim.name, databasePod)
	if err := errors.Join(t.stage.cordon(ctx, victim.name, true), t.stage.link(ctx, victim.name, true)); err != nil {
		return err
	}
	condemned := time.Time{}
	err := t.until(ctx, "waiting for the workload to be held", fencedLimit, func(s fences) (bool, error) {
		if s.nodes[victim.name].outOfService || s.database != victim.name {
			return false, fmt.Errorf("the workload of node %s is released without a proof", victim.name)
		}
		if s.promises[victim.name].state == "Condemned" && condemned.IsZero() {
			condemned = time.Now()
			say("with onIsolation: Hold the node goes on; watching that nothing is released")
		}
		return !condemned.IsZero() && time.Since(condemned) > holdsFor, s.only(victim.name)
	})
	if err != nil {
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
	say("the link works again, and the agent learns that its node is condemned")
	if err := t.stage.link(ctx, victim.name, false); err != nil {
		return err
	}
	return resetItself(ctx, t, victim, 3)
}

// serverGoesAway: nothing is known, so no node is fenced, and none resets itself.
func serverGoesAway(ctx context.Context, t *timeline[fences]) error {
	title("The API server goes away for longer than the promise of any node")
	before := t.last.boots()
	say("it answers nothing for %s", awayFor)
	if err := t.stage.plane.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(awayFor):
	}
	say("it is back")
	if err := t.stage.plane.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	back := time.Now()
	err := t.until(ctx, "watching that no node resets itself", fencedLimit, func(s fences) (bool, error) {
		if now := s.boots(); now != before {
			return false, fmt.Errorf("a node was reset: the boots were %s, and are %s", before, now)
		}
		return s.wellOff() && time.Since(back) > awayFor/2, s.only("")
	})
	if err != nil {
		return err
	}
	say("all nodes are in the boots that they were in, and promise on")
	return t.stage.ran(ctx, 3)
}
