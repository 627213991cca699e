package main

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

//go:embed machinesets.yaml
var machineSets []byte

//go:embed machinehealthcheck.yaml
var healthCheck []byte

// The machines of the demo.
const (
	machinesInAll = 9
	deadZone      = "zone-b"
)

// machineScenario is about machines that a machine set replaces.
type machineScenario struct{}

func (machineScenario) cluster() cluster {
	return cluster{
		title: "A cluster of three zones", parts: "a simulated cloud with kubelets",
		sandbox: []string{"--machine-api"}, kinds: []string{"machine.openshift.io_machinehealthchecks.yaml"},
	}
}

func (machineScenario) play(ctx context.Context, s *demo) error {
	t := &timeline[machines]{stage: s, look: s.lookAtMachines, tell: tellMachines}
	if err := t.play(ctx, fillZones, applyHealthCheck, nodeDies, zoneDies, zoneReturns); err != nil {
		return err
	}
	fmt.Print("\nAll of it came true: the dead node was replaced, the dead zone was left alone and said why, and the gate opened when it returned.\n")
	return nil
}

func (machineScenario) around(*demo) string {
	return fmt.Sprintf(`  kubectl get machines,machinehealthchecks,repairs -n %[1]s
  kubectl get nodes,instances
  kubectl describe machinehealthcheck example -n %[1]s
  kubectl events -n %[1]s

Break something, and watch what happens:

  kubectl patch instance NAME --type=merge -p '{"spec":{"fault":"Unresponsive"}}'   # its node falls silent
  kubectl patch instance NAME --type=merge -p '{"spec":{"fault":"Terminated"}}'     # its machine becomes Failed
`, namespace)
}

func fillZones(ctx context.Context, t *timeline[machines]) error {
	say("three machine sets make %d machines, whose nodes join", machinesInAll)
	if err := t.stage.applyText(ctx, machineSets, false); err != nil {
		return err
	}
	return t.until(ctx, "waiting for all machines to run", time.Minute, func(s machines) (bool, error) {
		return s.wellOff(machinesInAll), nil
	})
}

func applyHealthCheck(ctx context.Context, t *timeline[machines]) error {
	title("An administrator applies a health check")
	if err := t.stage.applyText(ctx, healthCheck, true); err != nil {
		return err
	}
	return t.until(ctx, "waiting for the health check's status", 30*time.Second, func(s machines) (bool, error) {
		return s.check.healthy == machinesInAll && s.check.allowed == "True", nil
	})
}

// nodeDies: of healthy machines one is deleted, and its machine set replaces it.
func nodeDies(ctx context.Context, t *timeline[machines]) error {
	title("A node dies")
	victim := t.last.inZone("zone-a")[0]
	say("pulling the plug of %s: its kubelet falls silent", victim.name)
	if err := t.stage.setFault(ctx, victim.name, "Unresponsive"); err != nil {
		return err
	}
	err := t.until(ctx, "waiting for the dead node's machine to be replaced", time.Minute, func(s machines) (bool, error) {
		_, there := s.byName[victim.name]
		return !there && s.wellOff(machinesInAll) && s.check.healthy == machinesInAll, onlyDeleting(s, victim.uid)
	})
	if err == nil {
		say("%s was replaced, and nothing else was touched", victim.name)
	}
	return err
}

// zoneDies: too many are unhealthy at once, so nothing is deleted, and the health check says why.
func zoneDies(ctx context.Context, t *timeline[machines]) error {
	title("A zone dies")
	dead := t.last.inZone(deadZone)
	say("the network of %s fails: %d nodes fall silent at once", deadZone, len(dead))
	for _, m := range dead {
		if err := t.stage.setFault(ctx, m.name, "Unresponsive"); err != nil {
			return err
		}
	}
	unready := time.Time{}
	err := t.until(ctx, "waiting for the short circuit to hold", time.Minute, func(s machines) (bool, error) {
		if s.check.reason == "TooManyUnhealthy" && s.check.healthy == int64(machinesInAll-len(dead)) && unready.IsZero() {
			unready = time.Now()
			say("every time-out runs out now; watching that nothing is deleted")
		}
		// Twice the health check's time-out: long enough for all of them to be over.
		return !unready.IsZero() && time.Since(unready) > 10*time.Second, onlyDeleting(s)
	})
	if err != nil {
		return err
	}
	say("nothing was deleted, and the health check explains itself:")
	fmt.Println(indented(t.last.check.message))
	return nil
}

// zoneReturns: the machines of the zone are the same as before, and repairs are possible again.
func zoneReturns(ctx context.Context, t *timeline[machines]) error {
	title("The zone returns")
	back := t.last.inZone(deadZone)
	say("the network of %s works again", deadZone)
	for _, m := range back {
		if err := t.stage.setFault(ctx, m.name, ""); err != nil {
			return err
		}
	}
	err := t.until(ctx, "waiting for the gate to open", time.Minute, func(s machines) (bool, error) {
		for _, m := range back {
			if s.byName[m.name].uid != m.uid {
				return false, fmt.Errorf("machine %s was replaced although its zone only had to return", m.name)
			}
		}
		return s.check.allowed == "True" && s.check.healthy == machinesInAll, onlyDeleting(s)
	})
	if err == nil {
		say("the gate is open again, and the zone's machines are the same as before")
	}
	return err
}

// onlyDeleting returns an error if any other machine is in deletion.
func onlyDeleting(s machines, expected ...types.UID) error {
	for _, m := range s.inZone("") {
		if !m.deleting {
			continue
		}
		isExpected := false
		for _, uid := range expected {
			isExpected = isExpected || m.uid == uid
		}
		if !isExpected {
			return fmt.Errorf("machine %s is being deleted and should not be", m.name)
		}
	}
	return nil
}
