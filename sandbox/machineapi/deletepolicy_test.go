package machineapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

func TestVictims(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	old := aged("old", now.Add(-48*time.Hour))
	young := aged("young", now.Add(-time.Hour))
	marked := aged("marked", now.Add(-24*time.Hour))
	marked.Annotations = map[string]string{machinev1.DeleteAnnotation: "yes"}
	failed := aged("failed", now.Add(-24*time.Hour))
	failed.Status.ErrorMessage = new("broken")
	nodeless := aged("nodeless", now.Add(-24*time.Hour))
	nodeless.Status.NodeRef = nil
	all := []*machinev1.Machine{young, old, nodeless, failed, marked}

	cases := map[string]struct {
		reason string
		policy string
		n      int
		want   []string
	}{
		"by default": {
			reason: "first marked or failed machines, then machines without a node, then by name",
			n:      4, want: []string{"failed", "marked", "nodeless", "old"},
		},
		"the oldest": {
			reason: "age decides, except for marked or failed machines",
			policy: machinev1.DeleteOldest, n: 3, want: []string{"failed", "marked", "old"},
		},
		"the newest": {
			reason: "age decides the other way round",
			policy: machinev1.DeleteNewest, n: 3, want: []string{"failed", "marked", "young"},
		},
		"more than there are": {reason: "then all go", n: 9, want: []string{"failed", "marked", "nodeless", "old", "young"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, machine := range victims(tc.policy, all, tc.n, now) {
				got = append(got, machine.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: want(-) got(+)\n%s", tc.reason, diff)
			}
		})
	}
}

func aged(name string, created time.Time) *machinev1.Machine {
	return &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)},
		Status:     machinev1.MachineStatus{NodeRef: &corev1.ObjectReference{Name: name}},
	}
}
