package cloud

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
)

func TestAdvance(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	boots := metav1.Duration{Duration: 10 * time.Second}
	lasts := &metav1.Duration{Duration: time.Minute}
	type moment struct {
		at      time.Duration // since launch
		fault   cloudv1.Fault // set at that instant
		state   cloudv1.State
		kubelet cloudv1.Kubelet
		wake    time.Duration // since launch; zero for never
	}
	cases := map[string]struct {
		reason string
		spec   cloudv1.InstanceSpec
		story  []moment
	}{
		"an instance boots and runs": {
			reason: "it joins exactly when its boot time is over",
			spec:   cloudv1.InstanceSpec{BootTime: boots},
			story: []moment{
				{at: 0, state: cloudv1.StatePending, wake: 10 * time.Second},
				{at: 9 * time.Second, state: cloudv1.StatePending, wake: 10 * time.Second},
				{at: 10 * time.Second, state: cloudv1.StateRunning, kubelet: cloudv1.KubeletRunning},
			},
		},
		"an instance that doesn't join": {
			reason: "a kubelet that never ran isn't stopped either",
			spec:   cloudv1.InstanceSpec{Joins: new(false)},
			story:  []moment{{at: 0, state: cloudv1.StateRunning}, {at: time.Hour, state: cloudv1.StateRunning}},
		},
		"an unresponsive instance is revived": {
			reason: "the fault stops its kubelet only for as long as it is set",
			story: []moment{
				{at: 0, state: cloudv1.StateRunning, kubelet: cloudv1.KubeletRunning},
				{at: time.Second, fault: cloudv1.FaultUnresponsive, state: cloudv1.StateRunning, kubelet: cloudv1.KubeletStopped},
				{at: 2 * time.Second, state: cloudv1.StateRunning, kubelet: cloudv1.KubeletRunning},
			},
		},
		"an instance that is unresponsive from the start": {
			reason: "it boots, and its kubelet starts when the fault goes",
			spec:   cloudv1.InstanceSpec{BootTime: boots},
			story: []moment{
				{at: 0, fault: cloudv1.FaultUnresponsive, state: cloudv1.StatePending, wake: 10 * time.Second},
				{at: time.Minute, fault: cloudv1.FaultUnresponsive, state: cloudv1.StateRunning},
				{at: time.Hour, state: cloudv1.StateRunning, kubelet: cloudv1.KubeletRunning},
			},
		},
		"a terminated instance": {
			reason: "nothing brings it back",
			story: []moment{
				{at: 0, state: cloudv1.StateRunning, kubelet: cloudv1.KubeletRunning},
				{at: time.Second, fault: cloudv1.FaultTerminated, state: cloudv1.StateTerminated, kubelet: cloudv1.KubeletStopped},
				{at: time.Minute, state: cloudv1.StateTerminated, kubelet: cloudv1.KubeletStopped},
			},
		},
		"an instance that fails after a minute": {
			reason: "the minute counts from the end of its boot",
			spec:   cloudv1.InstanceSpec{BootTime: boots, FailsAfter: lasts},
			story: []moment{
				{at: 0, state: cloudv1.StatePending, wake: 10 * time.Second},
				{at: 10 * time.Second, state: cloudv1.StateRunning, kubelet: cloudv1.KubeletRunning, wake: 70 * time.Second},
				{at: 70 * time.Second, state: cloudv1.StateTerminated, kubelet: cloudv1.KubeletStopped},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			instance := &cloudv1.Instance{Spec: tc.spec}
			for _, m := range tc.story {
				instance.Spec.Fault = m.fault
				status, wake := Advance(instance, start.Add(m.at))
				instance.Status = status
				if status.State != m.state || status.Kubelet != m.kubelet {
					t.Errorf("%s: after %v it is %q with kubelet %q, want %q with %q",
						tc.reason, m.at, status.State, status.Kubelet, m.state, m.kubelet)
				}
				var want time.Time
				if m.wake != 0 {
					want = start.Add(m.wake)
				}
				if !wake.Equal(want) {
					t.Errorf("%s: after %v it wakes at %v, want %v", tc.reason, m.at, wake, want)
				}
			}
		})
	}
}
