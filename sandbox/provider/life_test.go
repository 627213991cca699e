package provider

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

func TestAdvance(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason      string
		spec        providerv1.SandboxMachineSpec
		before      providerv1.SandboxMachineStatus
		provisioned bool
		failure     string
		providerID  string
		wake        time.Time
	}{
		"while it boots": {
			reason:     "a machine has an identity at once, but is provisioned only when it has booted",
			spec:       providerv1.SandboxMachineSpec{Zone: "z", BootTime: metav1.Duration{Duration: time.Second}},
			providerID: "sandbox:///z/m",
			wake:       start.Add(time.Second),
		},
		"when it has booted": {
			reason:      "with no time to boot, that is at once",
			spec:        providerv1.SandboxMachineSpec{Zone: "z"},
			provisioned: true,
			providerID:  "sandbox:///z/m",
		},
		"when it terminates": {
			reason:      "a provisioned machine stays provisioned by the contract, and the failure is separate",
			spec:        providerv1.SandboxMachineSpec{Zone: "z", Fault: cloudv1.FaultTerminated},
			before:      running(start),
			provisioned: true,
			failure:     reasonTerminated,
			providerID:  "sandbox:///z/m",
		},
		"when it is refused for now": {
			reason: "nothing is launched, and nothing has failed",
			spec:   providerv1.SandboxMachineSpec{Zone: "z", Launch: cloudv1.LaunchError},
		},
		"when it is refused for ever": {
			reason:  "nothing is launched, and the machine has failed",
			spec:    providerv1.SandboxMachineSpec{Zone: "z", Launch: cloudv1.LaunchInvalidConfiguration},
			failure: reasonInvalid,
		},
		"when refused after its launch": {
			reason:      "launch is about the launch alone",
			spec:        providerv1.SandboxMachineSpec{Zone: "z", Launch: cloudv1.LaunchInvalidConfiguration},
			before:      running(start),
			provisioned: true,
			providerID:  "sandbox:///z/m",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			machine := &providerv1.SandboxMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: c.spec, Status: c.before}
			status, wake := advance(machine, &clusterv1.Machine{}, start)
			if got := ptr.Deref(status.Initialization.Provisioned, false); got != c.provisioned {
				t.Errorf("provisioned is %v, want %v: %s", got, c.provisioned, c.reason)
			}
			if status.FailureReason != c.failure {
				t.Errorf("the failure is %q, want %q: %s", status.FailureReason, c.failure, c.reason)
			}
			if status.ProviderID != c.providerID {
				t.Errorf("the provider ID is %q, want %q: %s", status.ProviderID, c.providerID, c.reason)
			}
			if !wake.Equal(c.wake) {
				t.Errorf("it changes next at %v, want %v: %s", wake, c.wake, c.reason)
			}
		})
	}
}

func running(since time.Time) providerv1.SandboxMachineStatus {
	machine := &providerv1.SandboxMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: providerv1.SandboxMachineSpec{Zone: "z"}}
	status, _ := advance(machine, &clusterv1.Machine{}, since)
	return status
}

func TestNodeLabels(t *testing.T) {
	member := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}}
	own := map[string]string{"own": "label"}
	cases := map[string]struct {
		owner *clusterv1.Machine
		spec  providerv1.SandboxMachineSpec
		want  string
	}{
		"a worker":                          {owner: &clusterv1.Machine{}, want: workerLabel},
		"a machine of the control plane":    {owner: member, want: controlPlaneLabel},
		"a machine that says what it wants": {owner: member, spec: providerv1.SandboxMachineSpec{NodeLabels: own}, want: "own"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			labels := instance(&providerv1.SandboxMachine{Spec: c.spec}, c.owner).Spec.NodeLabels
			if _, ok := labels[c.want]; !ok || len(labels) != 1 {
				t.Errorf("its node has the labels %v, want %s alone", labels, c.want)
			}
		})
	}
}
