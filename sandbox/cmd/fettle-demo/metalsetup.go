package main

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/sandbox/metal"
)

//go:embed metalmachines.yaml
var metalMachines []byte

//go:embed metalhealthchecks.yaml
var metalHealthChecks []byte

//go:embed bmcs.yaml
var bmcAccount []byte

//go:embed database.yaml
var databaseManifest []byte

func bootHosts(ctx context.Context, t *timeline[metals]) error {
	say("three machines of the control plane and a machine set of three workers boot")
	if err := t.stage.applyText(ctx, metalMachines, false); err != nil {
		return err
	}
	return t.until(ctx, "waiting for all nodes to be ready", time.Minute, func(s metals) (bool, error) { return s.wellOff(), nil })
}

// applyBMCs: Fettle reads the power of each host.
func applyBMCs(ctx context.Context, t *timeline[metals]) error {
	title("An administrator describes the BMCs")
	if err := t.stage.applyText(ctx, bmcAccount, false); err != nil {
		return err
	}
	for i, n := range append(t.last.masters(), t.last.workers()...) {
		if err := t.stage.applyBMC(ctx, n.name, i == 0); err != nil {
			return err
		}
	}
	say("and the BMCs of the other hosts")
	if err := t.stage.bmcsReachable(ctx, hostsInAll); err != nil {
		return err
	}
	if err := t.stage.kubectlGet(ctx, "/apis/"+fettles+"/namespaces/"+fettleSystem+"/bmcs", "bmcs -n "+fettleSystem); err != nil {
		return err
	}
	_, err := t.stage.run(ctx, "fettle", "bmc", "check", "master-0")
	return err
}

// applyBMC describes the BMC of a node, whose annotations have its address and the fingerprint of its certificate.
func (s *demo) applyBMC(ctx context.Context, name string, shown bool) error {
	node := &corev1.Node{}
	if err := s.Client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	text := fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: BMC
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  nodeName: %[1]s
  address: %[3]s
  credentialsName: bmc-account
  tls: {fingerprint: %[4]s}
`, name, fettleSystem, node.Annotations[metal.AnnotationAddress], node.Annotations[metal.AnnotationFingerprint])
	return s.applyText(ctx, []byte(text), shown)
}

// bmcsReachable waits until Fettle has reached this many BMCs.
func (s *demo) bmcsReachable(ctx context.Context, wanted int) error {
	return s.await(ctx, fmt.Sprintf("waiting until %d BMCs are reachable", wanted), func(ctx context.Context) (bool, error) {
		bmcs, err := s.list(ctx, fettles, "BMCList")
		reachable := 0
		for i := range bmcs {
			if status, _, _ := conditionOf(&bmcs[i], "Reachable"); status == "True" {
				reachable++
			}
		}
		return reachable == wanted, err
	})
}

func applyMetalHealthChecks(ctx context.Context, t *timeline[metals]) error {
	title("An administrator applies two health checks, which power hosts off and on")
	if err := t.stage.applyText(ctx, metalHealthChecks, true); err != nil {
		return err
	}
	return t.stage.await(ctx, "waiting for the status of the health checks", func(ctx context.Context) (bool, error) {
		checks, err := t.stage.list(ctx, "machine.openshift.io/v1beta1", "MachineHealthCheckList")
		allowed := 0
		for i := range checks {
			if status, _, _ := conditionOf(&checks[i], "RemediationAllowed"); status == "True" {
				allowed++
			}
		}
		return allowed == 2, err
	})
}

func applyDatabase(ctx context.Context, t *timeline[metals]) error {
	title("A user applies a StatefulSet")
	say("%s must never run twice at a time; the simulated hosts log which pods they really run", databasePod)
	if err := t.stage.applyText(ctx, databaseManifest, false); err != nil {
		return err
	}
	return t.until(ctx, "waiting for the pod to run", fencedLimit, func(s metals) (bool, error) { return s.running, nil })
}

func (s *demo) hasBMC(ctx context.Context, name string) (bool, error) {
	bmcs, err := s.list(ctx, fettles, "BMCList")
	for i := range bmcs {
		if bmcs[i].GetName() == name {
			return true, nil
		}
	}
	return false, err
}

// await asks until the answer is yes.
func (s *demo) await(ctx context.Context, what string, wanted func(context.Context) (bool, error)) error {
	t := &timeline[bool]{stage: s, look: wanted, tell: func(bool, bool) {}}
	return t.until(ctx, what, fencedLimit, func(yes bool) (bool, error) { return yes, nil })
}
