package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
	corev1 "k8s.io/api/core/v1"
)

// TestBadHealthCheckIsRefused: what a schema can refuse is refused when it is applied, and the
// message names the field.
func TestBadHealthCheckIsRefused(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	f := newFleet(t, c, "bad")
	refused := map[string]struct{ spec, field string }{
		"a percentage above 100":              {`maxUnhealthy: 101%`, "maxUnhealthy"},
		"a negative percentage":               {`maxUnhealthy: "-1%"`, "maxUnhealthy"},
		"a negative number":                   {`maxUnhealthy: -1`, "maxUnhealthy"},
		"a number beyond all fleets":          {`maxUnhealthy: 99999999999`, "maxUnhealthy"},
		"a word for a number":                 {`maxUnhealthy: many`, "maxUnhealthy"},
		"a fraction":                          {`maxUnhealthy: "1.5"`, "maxUnhealthy"},
		"a startup timeout without unit":      {`nodeStartupTimeout: "10"`, "nodeStartupTimeout"},
		"a startup timeout that only ends ok": {`nodeStartupTimeout: "x10m"`, "nodeStartupTimeout"},
		"a startup timeout beyond all time":   {`nodeStartupTimeout: "99999999999h"`, "nodeStartupTimeout"},
		"a negative startup timeout":          {`nodeStartupTimeout: "-10m"`, "nodeStartupTimeout"},
		"a condition timeout in words":        {`unhealthyConditions: [{type: Ready, status: "False", timeout: "5 minutes"}]`, "timeout"},
		"a condition timeout beyond all time": {`unhealthyConditions: [{type: Ready, status: "False", timeout: "99999999999h"}]`, "timeout"},
		"a condition without type":            {`unhealthyConditions: [{status: "False", timeout: 5m}]`, "type"},
		"a condition with an empty status":    {`unhealthyConditions: [{type: Ready, status: "", timeout: 5m}]`, "status"},
		"no conditions in the list":           {`unhealthyConditions: []`, "unhealthyConditions"},
		"an unknown operator":                 {`selector: {matchExpressions: [{key: a, operator: exists}]}`, "operator"},
		"In without values":                   {`selector: {matchExpressions: [{key: a, operator: In}]}`, "at least one value"},
		"Exists with values":                  {`selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}`, "values"},
		"a selector that is a list":           {`selector: [a]`, "selector"},
	}
	for reason, tc := range refused {
		err := f.tryHealthCheck("bad", nil, tc.spec)
		if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: want it refused, got %v", reason, err)
			continue
		}
		if !strings.Contains(err.Error(), tc.field) {
			t.Errorf("%s: the message does not name %s: %v", reason, tc.field, err)
		}
	}
}

// TestSeedManifestsAreAccepted: the examples of the proposal and of the product guide apply as they are
// printed, with names in place of their placeholders.
func TestSeedManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Namespace(t, "openshift-machine-api")
	examples, err := filepath.Glob(filepath.Join(cluster.Root(), "internal", "dialect", "openshift", "testdata", "*.yaml"))
	if err != nil || len(examples) != 3 {
		t.Fatalf("want the three examples of the seeds, have %v (%v)", examples, err)
	}
	for _, example := range examples {
		text, err := os.ReadFile(example)
		if err != nil {
			t.Fatalf("reading an example: %v", err)
		}
		for _, u := range cluster.Decode(t, text) {
			u.SetName(strings.TrimSuffix(filepath.Base(example), ".yaml"))
			if err := c.Create(cluster.Context(t), u); err != nil {
				t.Errorf("%s: %v", example, err)
			}
		}
	}
}

// badAnnotation: what no schema can refuse is said on the object, once, and keeps nobody else.
func badAnnotation(f *fleet) {
	f.machine("a", machineOptions{phase: "Failed", labels: map[string]string{"role": "pet"}})
	f.machine("b", machineOptions{phase: "Failed"})
	f.healthCheck("broken", map[string]string{v1beta1.MaxInFlightAnnotation: "lots"}, "selector: {matchLabels: {role: pet}}")
	said := f.wantStatus("broken", 0, 1, 0, v1beta1.InvalidSpecReason)
	if said.Severity != v1beta1.SeverityError || !strings.Contains(said.Message, v1beta1.MaxInFlightAnnotation) || !strings.Contains(said.Message, "unlimited") {
		f.t.Errorf("the condition does not say what is wrong and what to write instead: %+v", said)
	}
	f.wantEvent("broken", v1beta1.InvalidSpecReason)
	f.healthCheck("fine", nil, readyCheck())
	f.wantMachines("a")
	before := len(f.requestsAbout())
	f.Never(f.t, "no requests while nothing changes", quiet, func(context.Context) error {
		if after := len(f.requestsAbout()); after > before+3 {
			return fmt.Errorf("%d requests in %s", after-before, quiet)
		}
		return nil
	})
	f.annotate(f.check("broken"), v1beta1.MaxInFlightAnnotation, "2")
	f.wantMachines()
}

// repair creates a Repair as somebody would who has read about them.
func (f *fleet) repair(name string, spec, status any) {
	f.t.Helper()
	r := object("fettle.io/v1alpha1", "Repair", f.namespace, name)
	r.Object["spec"] = spec
	f.create(r)
	if status == nil {
		return
	}
	r.Object["status"] = status
	if err := f.Status().Update(cluster.Context(f.t), r); err != nil {
		f.t.Fatalf("giving repair %s its status: %v", name, err)
	}
}

func (f *fleet) requestsAbout() []cluster.Request {
	f.t.Helper()
	var about []cluster.Request
	for _, r := range f.Requests(f.t) {
		if r.Namespace == f.namespace {
			about = append(about, r)
		}
	}
	return about
}

// TestLenientDefinition: on a cluster whose own definition of the kind lets more through, nonsense
// becomes a condition on the object, and breaks nothing.
func TestLenientDefinition(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.Apply(t, lenientDefinition)
	c.InstallFettle(t)
	c.StartFettle(t)
	f := newFleet(t, c, "lenient")
	f.machine("a", machineOptions{phase: "Failed"})
	nonsense := map[string]string{
		"bad-percent":   `maxUnhealthy: a%`,
		"bad-number":    `maxUnhealthy: 99999999999`,
		"bad-timeout":   `nodeStartupTimeout: 0 whatever`,
		"bad-condition": `unhealthyConditions: [{type: Ready, status: "False", timeout: soon}]`,
		"bad-operator":  `selector: {matchExpressions: [{key: role, operator: Near}]}`,
		"bad-type":      `unhealthyConditions: 7`,
	}
	for name, spec := range nonsense {
		f.healthCheck(name, nil, spec)
	}
	for name := range nonsense {
		f.wantEvent(name, v1beta1.InvalidSpecReason)
	}
	f.keepsMachines("a")
	for name := range nonsense {
		if err := f.Delete(cluster.Context(t), f.check(name)); err != nil {
			t.Fatalf("deleting %s: %v", name, err)
		}
	}
	f.machine("b", machineOptions{})
	f.setCondition("b", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.healthCheck("fine", nil, readyCheck())
	f.wantMachines()
}

const lenientDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machinehealthchecks.machine.openshift.io}
spec:
  group: machine.openshift.io
  names: {kind: MachineHealthCheck, listKind: MachineHealthCheckList, plural: machinehealthchecks, singular: machinehealthcheck}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
