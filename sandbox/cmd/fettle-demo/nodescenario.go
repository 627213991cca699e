package main

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

//go:embed nodes.yaml
var nodesManifest []byte

//go:embed remediators.yaml
var remediators []byte

//go:embed nodehealthcheck.yaml
var nodeHealthCheck []byte

// The nodes of the demo.
const (
	nodesInAll = 7
	checkName  = "workers"
	deadRack   = "rack-b"
)

// twoTimeouts is long enough for every time-out of the health check to be over.
const twoTimeouts = 10 * time.Second

// nodeScenario is about nodes that outside remediators repair.
type nodeScenario struct{}

func (nodeScenario) cluster() cluster {
	return cluster{
		title: "A cluster without a Machine API", parts: "kubelets, and two remediators: one power-cycles, one reinstalls",
		sandbox: []string{"--remediators"}, kinds: []string{"remediation.medik8s.io_nodehealthchecks.yaml"},
	}
}

func (nodeScenario) play(ctx context.Context, s *demo) error {
	t := &timeline[nodes]{stage: s, look: s.lookAtNodes, tell: tellNodes}
	err := t.play(ctx, registerNodes, applyNodeHealthCheck, nodeIsRebooted, nodeIsEscalated, rackDies, rackReturns, pauseHolds, pauseEnds)
	if err != nil {
		return err
	}
	fmt.Print("\nAll of it came true: one node was rebooted, one was reinstalled after its reboot had failed, " +
		"a rack that died was left alone until enough of it was back, and a pause held until it ended.\n")
	return nil
}

func (nodeScenario) around(*demo) string {
	return `  kubectl get nodes,nodehealthchecks
  kubectl get rebootremediations,repairs -A; kubectl get reprovisionremediations
  kubectl describe nodehealthcheck ` + checkName + `
  kubectl get leases -n medik8s-leases

Break something, and watch what happens:

  kubectl label node NAME sandbox.fettle.io/kubelet=stopped    # its kubelet falls silent
  kubectl annotate node NAME sandbox.fettle.io/reboot=fails    # and no reboot brings it back
`
}

func registerNodes(ctx context.Context, t *timeline[nodes]) error {
	say("%d nodes register", nodesInAll)
	if err := t.stage.applyText(ctx, nodesManifest, false); err != nil {
		return err
	}
	return t.until(ctx, "waiting for all nodes to be ready", time.Minute, func(s nodes) (bool, error) {
		for _, n := range s.byName {
			if n.ready != "True" {
				return false, nil
			}
		}
		return len(s.byName) == nodesInAll, nil
	})
}

func applyNodeHealthCheck(ctx context.Context, t *timeline[nodes]) error {
	title("An administrator applies the remediators' templates and a health check")
	if err := t.stage.applyText(ctx, remediators, false); err != nil {
		return err
	}
	if err := t.stage.applyText(ctx, nodeHealthCheck, true); err != nil {
		return err
	}
	return t.until(ctx, "waiting for the health check's status", 30*time.Second, func(s nodes) (bool, error) {
		return s.check.observed == nodesInAll && s.check.phase == "Enabled" && s.wellOff(), nil
	})
}

// stopKubelets lets nodes fall silent.
func (s *demo) stopKubelets(ctx context.Context, silent ...node) error {
	return s.eachNode(ctx, silent, `{"metadata":{"labels":{"sandbox.fettle.io/kubelet":"stopped"}}}`)
}

func (s *demo) eachNode(ctx context.Context, targets []node, patch string) error {
	for _, n := range targets {
		if err := s.patch(ctx, "v1", "Node", n.name, patch); err != nil {
			return err
		}
	}
	return nil
}

// nodeIsRebooted: a remediation object is made from the first template, and is gone once the node is healthy.
func nodeIsRebooted(ctx context.Context, t *timeline[nodes]) error {
	title("A node dies")
	victim := t.last.inRack("rack-a")[0]
	say("%s hangs: its kubelet falls silent", victim.name)
	if err := t.stage.stopKubelets(ctx, victim); err != nil {
		return err
	}
	if err := repaired(ctx, t, "RebootRemediation", victim); err != nil {
		return err
	}
	if t.last.byName[victim.name].uid != victim.uid {
		return fmt.Errorf("node %s is another one, though a reboot was enough", victim.name)
	}
	say("%s was rebooted, nothing else was touched, and nothing is left behind", victim.name)
	return nil
}

// repaired waits until the node had a remediation object of this kind, and is healthy again.
func repaired(ctx context.Context, t *timeline[nodes], kind string, victim node) error {
	requested := false
	return t.until(ctx, "waiting for "+victim.name+" to be repaired by a "+kind, time.Minute, func(s nodes) (bool, error) {
		requested = requested || s.requested(kind, victim.name)
		return requested && s.wellOff(), s.onlyRequested(victim.name)
	})
}

// nodeIsEscalated: the first remediator fails, so the second step begins at once.
func nodeIsEscalated(ctx context.Context, t *timeline[nodes]) error {
	title("A node dies that no reboot brings back")
	victim := t.last.inRack("rack-a")[1]
	say("the disk of %s breaks", victim.name)
	if err := t.stage.eachNode(ctx, []node{victim}, `{"metadata":{"annotations":{"sandbox.fettle.io/reboot":"fails"}}}`); err != nil {
		return err
	}
	if err := t.stage.stopKubelets(ctx, victim); err != nil {
		return err
	}
	if err := repaired(ctx, t, "ReprovisionRemediation", victim); err != nil {
		return err
	}
	if t.last.byName[victim.name].uid == victim.uid {
		return fmt.Errorf("node %s is the same, though it should have been reinstalled", victim.name)
	}
	say("the reboot failed, so %s was reinstalled: no minute was lost waiting for a time-out", victim.name)
	return nil
}

// rackDies: too many are unhealthy at once, so no remediation begins, and the health check says why.
func rackDies(ctx context.Context, t *timeline[nodes]) error {
	title("A rack dies")
	dead := t.last.inRack(deadRack)
	say("the switch of %s fails: %d of %d nodes fall silent at once", deadRack, len(dead), nodesInAll)
	if err := t.stage.stopKubelets(ctx, dead...); err != nil {
		return err
	}
	held := time.Time{}
	err := t.until(ctx, "waiting for the short circuit to hold", time.Minute, func(s nodes) (bool, error) {
		if s.check.healthy == int64(nodesInAll-len(dead)) && held.IsZero() {
			held = time.Now()
			say("every time-out runs out now; watching that no remediation begins")
		}
		return !held.IsZero() && time.Since(held) > twoTimeouts && s.check.allowed == "False", s.onlyRequested()
	})
	if err != nil {
		return err
	}
	say("nothing was done, and the health check explains itself:")
	fmt.Println(indented(t.last.check.message))
	return nil
}

// rackReturns: once enough nodes have recovered on their own, the rest are repaired.
func rackReturns(ctx context.Context, t *timeline[nodes]) error {
	title("Half of the rack returns")
	dead := t.last.inRack(deadRack)
	back, left := dead[:2], dead[2:]
	say("the switch works again, and %s and %s come back; %s and %s hang", back[0].name, back[1].name, left[0].name, left[1].name)
	if err := t.stage.eachNode(ctx, back, `{"metadata":{"labels":{"sandbox.fettle.io/kubelet":null}}}`); err != nil {
		return err
	}
	requested := map[string]bool{}
	err := t.until(ctx, "waiting for the rest of the rack to be rebooted", time.Minute, func(s nodes) (bool, error) {
		for _, n := range left {
			requested[n.name] = requested[n.name] || s.requested("RebootRemediation", n.name)
		}
		return requested[left[0].name] && requested[left[1].name] && s.wellOff(), s.onlyRequested(left[0].name, left[1].name)
	})
	if err == nil {
		say("nodes that came back were left alone, the others were rebooted")
	}
	return err
}

const maintenance = "the storage is being upgraded"

// pauseHolds: during a requested pause, no remediation begins.
func pauseHolds(ctx context.Context, t *timeline[nodes]) error {
	title("A user requests a pause")
	say("pauseRequests: [%q]", maintenance)
	if err := t.stage.pause(ctx, `["`+maintenance+`"]`); err != nil {
		return err
	}
	err := t.until(ctx, "waiting for the health check to say that it is paused", time.Minute, func(s nodes) (bool, error) {
		return s.check.phase == "Paused", s.onlyRequested()
	})
	if err != nil {
		return err
	}
	victim := t.last.inRack("rack-a")[2]
	say("%s hangs meanwhile", victim.name)
	if err := t.stage.stopKubelets(ctx, victim); err != nil {
		return err
	}
	down := time.Time{}
	return t.until(ctx, "waiting for the pause to hold", time.Minute, func(s nodes) (bool, error) {
		if s.byName[victim.name].ready == "Unknown" && down.IsZero() {
			down = time.Now()
			say("its time-out runs out now; watching that no remediation begins")
		}
		return !down.IsZero() && time.Since(down) > twoTimeouts*3/4, s.onlyRequested()
	})
}

// pauseEnds: Fettle now does what waited for the end of the pause.
func pauseEnds(ctx context.Context, t *timeline[nodes]) error {
	title("The pause ends")
	victim := t.last.inRack("rack-a")[2]
	say("pauseRequests: []")
	if err := t.stage.pause(ctx, "[]"); err != nil {
		return err
	}
	if err := repaired(ctx, t, "RebootRemediation", victim); err != nil {
		return err
	}
	say("%s was rebooted as soon as the pause was over", victim.name)
	return nil
}

func (s *demo) pause(ctx context.Context, requests string) error {
	return s.patch(ctx, "remediation.medik8s.io/v1alpha1", "NodeHealthCheck", checkName, `{"spec":{"pauseRequests":`+requests+`}}`)
}
