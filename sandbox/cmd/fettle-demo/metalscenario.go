package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fettle-io/fettle/sandbox/metal"
)

// The hosts of the demo: three of the control plane, and three workers.
const (
	hostsInAll  = 6
	fencedLimit = time.Minute
	podLog      = "pods.log"
)

// metalScenario is about nodes on bare metal that are powered off and on.
type metalScenario struct{}

func (metalScenario) cluster() cluster {
	return cluster{
		title: "A cluster on bare metal", parts: "kubelets on hosts with BMCs, and a simulated Machine API",
		sandbox: []string{"--machine-api", "--metal"}, podLog: true, elects: true,
		kinds: []string{"machine.openshift.io_machinehealthchecks.yaml"}, folders: []string{"power"},
	}
}

func (metalScenario) play(ctx context.Context, s *demo) error {
	scheduling, stop := context.WithCancel(ctx)
	defer stop()
	go s.schedule(scheduling)
	t := &timeline[metals]{stage: s, look: s.lookAtMetal, tell: tellMetal}
	err := t.play(ctx, bootHosts, applyBMCs, applyMetalHealthChecks, applyDatabase, workerHangs, masterHangs, workerWithoutBMC, masterWithoutBMC, masterIsMended, databaseRanOnce)
	if err != nil {
		return err
	}
	fmt.Print("\nAll of it came true: a worker and a node of the control plane hung and were back in another boot with all that they had, " +
		"a worker whose BMC was dead was replaced, a node of the control plane whose BMC was dead was held and said why, " +
		"and the database never ran twice.\n")
	return nil
}

func (metalScenario) around(s *demo) string {
	return fmt.Sprintf(`  kubectl get bmcs -n %[1]s
  kubectl get machines,machinehealthchecks,powerremediations,repairs -n %[2]s
  kubectl get nodes; kubectl get pods -o wide
  %[3]s/podruns %[4]s

Break something, and watch what happens:

  kubectl label node NAME sandbox.fettle.io/kubelet=stopped                      # it hangs: its kubelet is silent and its pods go on
  kubectl annotate node NAME sandbox.fettle.io/bmc-faults='{"drops":true}'       # its BMC answers nothing
  kubectl annotate node NAME sandbox.fettle.io/bmc-faults='{"saysOff":true}'     # its BMC lies
  kubectl annotate node NAME sandbox.fettle.io/power=off                         # a person presses its button; or on
`, fettleSystem, namespace, s.Bin, filepath.Join(s.Dir, podLog))
}

// hang stops the kubelet of a node, whose pods go on.
func (s *demo) hang(ctx context.Context, name string) error {
	return s.patch(ctx, "v1", "Node", name, `{"metadata":{"labels":{"sandbox.fettle.io/kubelet":"stopped"}}}`)
}

// workerHangs: the host is powered off and on, and the pod moves meanwhile.
func workerHangs(ctx context.Context, t *timeline[metals]) error {
	title("A worker hangs")
	victim := t.last.nodes[t.last.database]
	say("%s hangs: its kubelet is silent, and %s still runs there", victim.name, databasePod)
	if err := t.stage.hang(ctx, victim.name); err != nil {
		return err
	}
	if err := cycled(ctx, t, victim, func(s metals) bool { return s.running && s.database != victim.name }); err != nil {
		return err
	}
	say("%s runs on %s", databasePod, t.last.database)
	return t.stage.ran(ctx, 2)
}

// cycled waits until a node is back in another boot with all that it had, and its repair has ended.
func cycled(ctx context.Context, t *timeline[metals], victim metalNode, also func(metals) bool) error {
	hung := time.Now()
	fenced, wasOff := false, false
	err := t.until(ctx, "waiting for "+victim.name+" to be powered off and on", fencedLimit, func(s metals) (bool, error) {
		now := s.nodes[victim.name]
		_, remediated := s.fencings[victim.name]
		fenced, wasOff = fenced || remediated && now.fenced, wasOff || now.power == metal.PowerOff
		if now.uid != victim.uid {
			return false, fmt.Errorf("node %s is another one, though a power cycle was enough", victim.name)
		}
		back := s.wellOff() && now.boot != victim.boot && now.belongings == victim.belongings && s.repaired(victim.name)
		return fenced && wasOff && back && also(s), s.only(victim.name)
	})
	if err != nil {
		return err
	}
	say("%s was back %.0f seconds after it hung, in another boot, with its labels, annotations and taints, and nothing is left behind", victim.name, time.Since(hung).Seconds())
	return nil
}

// ran prints when the pods of StatefulSets ran, and fails if one ran twice at a time. It waits until the log has this many
// runs, since a pod is in the log a moment after it runs.
func (s *demo) ran(ctx context.Context, times int) error {
	log := filepath.Join(s.Dir, podLog)
	err := s.await(ctx, fmt.Sprintf("waiting for %d runs of %s in the log", times, databasePod), func(ctx context.Context) (bool, error) {
		out, err := s.output(ctx, "podruns", log)
		return strings.Count(out, "default/"+databasePod) == times, err
	})
	if err != nil {
		return err
	}
	_, err = s.run(ctx, "podruns", log)
	return err
}

// masterHangs: the other two members of the control plane work, so quorum is known to survive.
func masterHangs(ctx context.Context, t *timeline[metals]) error {
	title("A node of the control plane hangs")
	victim := t.last.masters()[0]
	say("%s hangs; the other two members work, so that quorum survives without it", victim.name)
	if err := t.stage.hang(ctx, victim.name); err != nil {
		return err
	}
	if err := cycled(ctx, t, victim, func(metals) bool { return true }); err != nil {
		return err
	}
	return t.stage.kubectlGet(ctx, "/apis/"+fettles+"/namespaces/"+namespace+"/repairs", "repairs -n "+namespace)
}

// faultOfBMC has a BMC fail, or mends it. The fault is JSON in a string of JSON, or null.
func (s *demo) faultOfBMC(ctx context.Context, name, fault string) error {
	return s.patch(ctx, "v1", "Node", name, `{"metadata":{"annotations":{"sandbox.fettle.io/bmc-faults":`+fault+`}}}`)
}

// dead is the fault of a BMC that ends each connection without an answer.
const dead = `"{\"drops\":true}"`

// workerWithoutBMC: nothing proves that the host is off, so nothing is released, and the machine is deleted and replaced.
func workerWithoutBMC(ctx context.Context, t *timeline[metals]) error {
	title("A worker hangs whose BMC is dead")
	victim := t.last.nodes[t.last.database]
	machine := t.last.machines[victim.name]
	say("the BMC of %s answers nothing any more, and then the host hangs", victim.name)
	if err := t.stage.faultOfBMC(ctx, victim.name, dead); err != nil {
		return err
	}
	if err := t.stage.hang(ctx, victim.name); err != nil {
		return err
	}
	attempted := false
	err := t.until(ctx, "waiting for the machine of "+victim.name+" to be replaced", 2*fencedLimit, func(s metals) (bool, error) {
		_, remediated := s.fencings[victim.name]
		attempted = attempted || remediated
		if s.nodes[victim.name].outOfService {
			return false, fmt.Errorf("the workload of node %s is released without a proof", victim.name)
		}
		now, there := s.machines[victim.name]
		if there && now.uid != machine.uid {
			return false, fmt.Errorf("machine %s is another one", victim.name)
		}
		return attempted && !there && s.wellOff(), s.only(victim.name)
	})
	if err != nil {
		return err
	}
	for _, n := range t.last.workers() {
		bmc, err := t.stage.hasBMC(ctx, n.name)
		if err != nil {
			return err
		}
		if !bmc {
			say("an administrator describes the BMC of %s", n.name)
			if err := t.stage.applyBMC(ctx, n.name, false); err != nil {
				return err
			}
		}
	}
	say("the machine of %s was replaced, and nothing was released before its provider had stopped the host; "+
		"Kubernetes removes the pods of a node that is gone in about a minute", victim.name)
	return nil
}

// masterWithoutBMC: a machine of the control plane is never deleted. The repair is held, and Fettle says why and what to do.
func masterWithoutBMC(ctx context.Context, t *timeline[metals]) error {
	title("A node of the control plane hangs whose BMC is dead")
	victim := t.last.masters()[1]
	machine := t.last.machines[victim.name]
	say("the BMC of %s answers nothing any more, and then the host hangs", victim.name)
	if err := t.stage.faultOfBMC(ctx, victim.name, dead); err != nil {
		return err
	}
	if err := t.stage.hang(ctx, victim.name); err != nil {
		return err
	}
	held := func(s metals) (bool, error) {
		switch now := s.machines[victim.name]; {
		case now.uid != machine.uid || now.deleting:
			return false, fmt.Errorf("machine %s is deleted, though it is of the control plane", victim.name)
		case s.nodes[victim.name].outOfService || s.nodes[victim.name].power != metal.PowerOn:
			return false, fmt.Errorf("node %s is released or off without a proof", victim.name)
		}
		f := s.fencings[victim.name]
		return f.phase == "Failed" && f.result == "MachineKeptControlPlane" && s.nodes[victim.name].fenced, s.only(victim.name)
	}
	if err := t.until(ctx, "waiting for the repair of "+victim.name+" to be held", fencedLimit, held); err != nil {
		return err
	}
	say("the machine is kept, the workload of the node is held, and Fettle explains itself:")
	out, err := t.stage.run(ctx, "fettle", "explain", "machine/"+victim.name, "-n", namespace)
	if err != nil {
		return err
	}
	for _, word := range []string{"MachineKeptControlPlane", "control plane"} {
		if !strings.Contains(out, word) {
			return fmt.Errorf("fettle explain does not say %q", word)
		}
	}
	return nil
}

// masterIsMended: a person powers the host off and on, and Fettle takes back what it did.
func masterIsMended(ctx context.Context, t *timeline[metals]) error {
	title("A technician mends that BMC, and powers the host off and on by hand")
	victim := t.last.masters()[1]
	if err := t.stage.faultOfBMC(ctx, victim.name, "null"); err != nil {
		return err
	}
	for _, power := range []string{metal.PowerOff, metal.PowerOn} {
		if err := t.stage.patch(ctx, "v1", "Node", victim.name, `{"metadata":{"annotations":{"sandbox.fettle.io/power":"`+power+`"}}}`); err != nil {
			return err
		}
		err := t.until(ctx, "waiting for the host of "+victim.name+" to be "+power, fencedLimit, func(s metals) (bool, error) {
			return s.nodes[victim.name].power == power, nil
		})
		if err != nil {
			return err
		}
	}
	err := t.until(ctx, "waiting for "+victim.name+" to be restored", fencedLimit, func(s metals) (bool, error) {
		return s.wellOff() && s.nodes[victim.name].boot != victim.boot, s.only(victim.name)
	})
	if err == nil {
		say("%s is back, and the taint of the fencing is gone", victim.name)
	}
	return err
}

// databaseRanOnce: the pod has moved from the replaced worker, and has never run twice at a time.
func databaseRanOnce(ctx context.Context, t *timeline[metals]) error {
	title("The database runs again")
	err := t.until(ctx, "waiting for "+databasePod+" to run elsewhere", 2*fencedLimit, func(s metals) (bool, error) {
		_, there := s.nodes[s.database]
		return s.running && there, s.only("")
	})
	if err != nil {
		return err
	}
	return t.stage.ran(ctx, 3)
}
