package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/sandbox/stage"
	"github.com/fettle-io/fettle/sandbox/workload"
)

//go:embed clusterhealthchecks.yaml
var clusterHealthChecks []byte

// The workload clusters of the demo, and how many workers each has.
const (
	eastWorkers, westWorkers = 5, 3
	namespaceOfClusters      = "default"
)

// clusterScenario is about workload clusters of a management cluster.
type clusterScenario struct{}

func (clusterScenario) cluster() cluster {
	return cluster{
		title: "A management cluster and two workload clusters", parts: "the controllers of Cluster API, which are the real ones",
		sandbox: []string{"--cluster-api"}, folders: []string{"cluster_api"},
	}
}

func (clusterScenario) play(ctx context.Context, s *demo) error {
	t := &timeline[clusters]{stage: s, look: s.lookAtClusters, tell: tellClusters}
	if err := t.play(ctx, connectClusters, applyClusterChecks, workerDies, clusterFallsSilent, rangeHolds, rangeOpens, controlPlaneFails); err != nil {
		return err
	}
	fmt.Print("\nAll of it came true: a dead worker was replaced by its machine set, a cluster that did not answer was left alone, the range held and opened, " +
		"and a machine of the control plane waits for its own controller.\n")
	return nil
}

func (clusterScenario) around(*demo) string {
	return `  kubectl get clusters,machines,machinehealthchecks,repairs
  kubectl describe machinehealthcheck east
  kubectl get sandboxmachines

Break something, and watch what happens:

  kubectl patch sandboxmachine NAME --type=merge -p '{"spec":{"fault":"Unresponsive"}}'   # its node falls silent
  kubectl annotate machine NAME cluster.x-k8s.io/remediate-machine=                       # a person asks for its repair
`
}

// connectClusters starts two control planes, and makes Cluster API manage them.
func connectClusters(ctx context.Context, t *timeline[clusters]) error {
	for name, workers := range map[string]int32{"east": eastWorkers, "west": westWorkers} {
		say("starting the control plane of %s; %d machines join it", name, workers)
		if err := t.stage.startWorkload(ctx, name, workers); err != nil {
			return err
		}
	}
	return t.until(ctx, "waiting for the nodes of all machines", 2*time.Minute, func(s clusters) (bool, error) {
		for _, m := range s.machines {
			if !strings.HasPrefix(m.node, "True") {
				return false, nil
			}
		}
		return len(s.workersOf("east")) == eastWorkers && len(s.workersOf("west")) == westWorkers, nil
	})
}

// startWorkload starts a control plane with kubelets, and registers it with the management cluster.
func (s *demo) startWorkload(ctx context.Context, name string, workers int32) error {
	dir := filepath.Join(s.Dir, name)
	process, err := s.Launch(name, "fettle-sandbox", "--dir", dir, "--kubelets", "--node-monitor-grace-period", "4s", "--node-monitor-period", "1s")
	if err != nil {
		return err
	}
	s.workloads[name] = process
	if err := process.AwaitText(ctx, "is ready", stage.UpWithin); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	management, err := workload.NewClient(s.Admin)
	if err != nil {
		return err
	}
	c := workload.Cluster{Namespace: namespaceOfClusters, Name: name, Kubeconfig: kubeconfig, ControlPlaneMachines: 1, Workers: workers}
	if err := workload.Register(ctx, management, c); err != nil {
		return err
	}
	return workload.Await(ctx, management, types.NamespacedName{Namespace: namespaceOfClusters, Name: name})
}

func applyClusterChecks(ctx context.Context, t *timeline[clusters]) error {
	title("An administrator applies health checks, one of them of the older version")
	if err := t.stage.applyText(ctx, clusterHealthChecks, true); err != nil {
		return err
	}
	return t.until(ctx, "waiting for the health checks' status", time.Minute, func(s clusters) (bool, error) {
		return s.well("east", eastWorkers) && s.well("east-control-plane", 1) && s.well("west", westWorkers), nil
	})
}

// breakMachine makes the host of a machine hang, or come back.
func (s *demo) breakMachine(ctx context.Context, m clusterMachine, fault string) error {
	host := &unstructured.Unstructured{}
	host.SetAPIVersion("sandbox.fettle.io/v1alpha1")
	host.SetKind("SandboxMachine")
	host.SetNamespace(namespaceOfClusters)
	host.SetName(m.infrastructure)
	return s.change(ctx, host, `{"spec":{"fault":"`+fault+`"}}`)
}

// workerDies: the worker is marked, and the real machine set controller replaces it.
func workerDies(ctx context.Context, t *timeline[clusters]) error {
	title("A worker of east dies")
	victim := t.last.workersOf("east")[0]
	say("the host of %s hangs: its kubelet falls silent", victim.name)
	if err := t.stage.breakMachine(ctx, victim, "Unresponsive"); err != nil {
		return err
	}
	err := t.until(ctx, "waiting for "+victim.name+" to be replaced", 2*time.Minute, func(s clusters) (bool, error) {
		_, there := s.machines[victim.name]
		return !there && s.well("east", eastWorkers), s.onlyMarked(victim)
	})
	if err == nil {
		say("its machine set has replaced it")
	}
	return err
}

// clusterFallsSilent: nothing is known of the cluster, so nothing is done, and the health check says why.
func clusterFallsSilent(ctx context.Context, t *timeline[clusters]) error {
	title("The API server of west goes away")
	if err := t.stage.workloads["west"].Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := t.stage.breakMachine(ctx, t.last.workersOf("west")[0], "Unresponsive"); err != nil {
		return err
	}
	silent := time.Time{}
	err := t.until(ctx, "waiting for the silence to be told", time.Minute, func(s clusters) (bool, error) {
		if s.checks["west"].allowed == "Unknown" && silent.IsZero() {
			silent = time.Now()
			say("watching that nothing there is touched:")
			fmt.Println(indented(s.checks["west"].message))
		}
		return !silent.IsZero() && time.Since(silent) > twoTimeouts, s.onlyMarked()
	})
	if err != nil {
		return err
	}
	title("It comes back")
	victim := t.last.workersOf("west")[0]
	if err := t.stage.workloads["west"].Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return t.until(ctx, "waiting for what broke meanwhile to be replaced", 2*time.Minute, func(s clusters) (bool, error) {
		_, there := s.machines[victim.name]
		return !there && s.well("west", westWorkers), s.onlyMarked(victim)
	})
}

// rangeHolds: with three of five unhealthy, the count is outside the range from one to two.
func rangeHolds(ctx context.Context, t *timeline[clusters]) error {
	title("Three workers of east die at once")
	for _, m := range t.last.workersOf("east")[:3] {
		if err := t.stage.breakMachine(ctx, m, "Unresponsive"); err != nil {
			return err
		}
	}
	held := time.Time{}
	err := t.until(ctx, "waiting for the range to hold", time.Minute, func(s clusters) (bool, error) {
		if c := s.checks["east"]; c.reason == "TooManyUnhealthy" && c.healthy == eastWorkers-3 && held.IsZero() {
			held = time.Now()
		}
		return !held.IsZero() && time.Since(held) > twoTimeouts, s.onlyMarked()
	})
	if err != nil {
		return err
	}
	say("nothing was done, and the health check explains itself:")
	fmt.Println(indented(t.last.checks["east"].message))
	return nil
}

// rangeOpens: one comes back, and the other two are replaced.
func rangeOpens(ctx context.Context, t *timeline[clusters]) error {
	title("One of them comes back")
	workers := t.last.workersOf("east")
	back, left := workers[0], workers[1:3]
	if err := t.stage.breakMachine(ctx, back, ""); err != nil {
		return err
	}
	err := t.until(ctx, "waiting for the others to be replaced", 2*time.Minute, func(s clusters) (bool, error) {
		_, first := s.machines[left[0].name]
		_, second := s.machines[left[1].name]
		return !first && !second && s.well("east", eastWorkers), s.onlyMarked(left...)
	})
	if err == nil {
		say("%s was left alone, the other two were replaced", back.name)
	}
	return err
}

// controlPlaneFails: its machine is marked, and left to the controller of the control plane, which isn't run here.
func controlPlaneFails(ctx context.Context, t *timeline[clusters]) error {
	title("A machine of the control plane dies")
	var victim clusterMachine
	for _, m := range t.last.machines {
		if m.cluster == "east" && m.controlPlane {
			victim = m
		}
	}
	if err := t.stage.breakMachine(ctx, victim, "Unresponsive"); err != nil {
		return err
	}
	err := t.until(ctx, "waiting for "+victim.name+" to be marked", time.Minute, func(s clusters) (bool, error) {
		return s.machines[victim.name].owner == "False WaitingForRemediation", s.onlyMarked(victim)
	})
	if err == nil {
		say("it is marked for its KubeadmControlPlane, which replaces its machines one at a time and minds etcd")
	}
	return err
}
