package test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

func TestLaunchFaults(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		name, spec, phase string
		node              bool // the machine has had one
	}{
		"an invalid configuration fails the machine":   {"invalid", `{"launch":"InvalidConfiguration"}`, machinev1.PhaseFailed, false},
		"a misspelt field is an invalid configuration": {"misspelt", `{"zoen":"a"}`, machinev1.PhaseFailed, false},
		"another launch error is retried":              {"retried", `{"launch":"Error"}`, machinev1.PhaseProvisioning, false},
		"an instance that never joins stays":           {"joinless", `{"joins":false}`, machinev1.PhaseProvisioned, false},
		"an instance that terminates fails":            {"mortal", `{"failsAfter":"1s"}`, machinev1.PhaseFailed, true},
	}
	for reason, tc := range cases {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			machine := newMachine(tc.name, tc.spec)
			create(t, shared, machine)
			awaitPhase(t, machine, tc.phase)
			never(t, "it stays in that phase", 2*time.Second, func() string {
				get(t, shared, machine)
				if machine.Phase() != tc.phase {
					return "it is " + machine.Phase()
				}
				return ""
			})
			if failed := tc.phase == machinev1.PhaseFailed; failed != (machine.Status.ErrorMessage != nil) {
				t.Errorf("phase %s with error message %v", tc.phase, machine.Status.ErrorMessage)
			}
			if had := machine.Status.NodeRef != nil; had != tc.node {
				t.Errorf("node reference: %v, want one: %v", machine.Status.NodeRef, tc.node)
			}
			remove(t, shared, machine)
			eventually(t, "it can be deleted", func() string { return gone(shared, machine) })
		})
	}
}

func TestRetriedLaunchSucceedsWhenTheCloudRecovers(t *testing.T) {
	t.Parallel()
	machine := newMachine("patient", `{"launch":"Error"}`)
	create(t, shared, machine)
	awaitPhase(t, machine, machinev1.PhaseProvisioning)
	patch(t, shared, machine, `{"spec":{"providerSpec":{"value":{"launch":null}}}}`)
	awaitPhase(t, machine, machinev1.PhaseRunning)
}

func TestTerminatedInstanceFailsItsMachineAndSilencesItsNode(t *testing.T) {
	t.Parallel()
	machine := newMachine("killed", `{}`)
	create(t, shared, machine)
	awaitPhase(t, machine, machinev1.PhaseRunning)
	instance := &cloudv1.Instance{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
	patch(t, shared, instance, `{"spec":{"fault":"Terminated"}}`)
	awaitPhase(t, machine, machinev1.PhaseFailed)
	eventually(t, "the node becomes unknown", func() string { return readyIs(shared, machine.Name, corev1.ConditionUnknown) })
	if machine.Annotations[machinev1.InstanceStateAnnotation] != "Unknown" {
		t.Errorf("annotations: %v", machine.Annotations)
	}
}

func TestStatusTimeChangesOnlyWithTheStatus(t *testing.T) {
	t.Parallel()
	machine := newMachine("steady", `{"joins":false}`)
	create(t, shared, machine)
	awaitPhase(t, machine, machinev1.PhaseProvisioned)
	eventually(t, "the instance runs", func() string {
		get(t, shared, machine)
		if machine.Annotations[machinev1.InstanceStateAnnotation] != string(cloudv1.StateRunning) {
			return "it does not"
		}
		return ""
	})
	var version string
	eventually(t, "the machine comes to rest", func() string {
		get(t, shared, machine)
		if version == machine.ResourceVersion {
			return ""
		}
		version = machine.ResourceVersion
		return "it changes"
	})
	never(t, "polling the cloud changes nothing", 2*time.Second, func() string {
		get(t, shared, machine)
		if machine.ResourceVersion != version {
			return "the machine was written"
		}
		return ""
	})
}
