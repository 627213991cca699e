package machinedeletion

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// summary returns the conditions as "type=status reason".
func summary(s v1alpha1.MachineDeletionRemediationStatus) []string {
	var lines []string
	for _, c := range s.Conditions {
		lines = append(lines, c.Type+"="+string(c.Status)+" "+c.Reason)
	}
	return lines
}

func TestConditions(t *testing.T) {
	f := func(r *v1alpha1.MachineDeletionRemediation, m *machineFacts) *facts {
		return &facts{remediation: r, machine: m, pool: &pool{joined: 2}, now: noon}
	}
	cases := map[string]struct {
		got   next
		want  []string
		event event
	}{
		"started": {
			started(f(remediation(finalized), machineA())),
			[]string{"Processing=True RemediationStarted", "Succeeded=Unknown RemediationStarted", "PermanentNodeDeletionExpected=True NodeIsReplaced"},
			event{"Normal", "RemediationStarted", "[remediation] machine machines/worker-a is being deleted, for MachineSet workers to replace"},
		},
		"can't start": {
			cannotStart(f(remediation(finalized), nil), "RemediationCannotStartNodeNotFound", "there is no node node-a"),
			[]string{"Processing=False RemediationCannotStartNodeNotFound", "Succeeded=False RemediationCannotStartNodeNotFound", "PermanentNodeDeletionExpected=False NothingDeleted"},
			event{"Warning", "RemediationCannotStart", "[remediation] nothing was deleted, since there is no node node-a"},
		},
		"stopped before it began": {
			stopped(f(remediation(), nil)),
			[]string{"PermanentNodeDeletionExpected=False NothingDeleted", "Processing=False RemediationStoppedByNHC", "Succeeded=False RemediationStoppedByNHC"},
			event{"Normal", "RemediationStopped", "[remediation] the health checker has requested a stop, and nothing was deleted"},
		},
		"stopped on the way": {
			stopped(f(remediation(begun), nil)),
			[]string{"Processing=False RemediationStoppedByNHC", "Succeeded=False RemediationStoppedByNHC"},
			event{"Normal", "RemediationStopped", "[remediation] the health checker has requested a stop; the deletion of machine machines/worker-a, if it was granted, goes on by itself"},
		},
		"finished": {
			finished(f(remediation(begun), nil), false),
			[]string{"Processing=False MachineDeleted", "Succeeded=True MachineDeleted"},
			event{"Normal", "RemediationFinished", "[remediation] machine machines/worker-a is gone, and MachineSet workers has 2 that have joined the cluster"},
		},
		"finished without owner": {
			finished(f(remediation(begun), nil), true),
			[]string{"Processing=False MachineDeleted", "Succeeded=True MachineDeleted"},
			event{"Normal", "RemediationFinished", "[remediation] machine machines/worker-a is gone, and so is MachineSet workers, so nothing replaces it"},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if tc.got.step != record {
				t.Errorf("it is not recorded: %d", tc.got.step)
			}
			if diff := cmp.Diff(tc.want, summary(tc.got.status)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.event, tc.got.event, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			for _, c := range tc.got.status.Conditions {
				if c.Message == "" || !c.LastTransitionTime.Time.Equal(noon) || strings.Contains(c.Message, "2026") {
					t.Errorf("condition %+v must say why, be of now, and have no time in its message", c)
				}
			}
		})
	}
}

// TestStartedRecordsTheMachine: everything that is needed to go on, since nothing else is remembered.
func TestStartedRecordsTheMachine(t *testing.T) {
	r := remediation(finalized)
	n := started(&facts{remediation: r, machine: machineA(), pool: &pool{joined: 2, coming: 4}, now: noon})
	want := remediation(begun).Status
	n.status.Conditions = nil
	if diff := cmp.Diff(want, n.status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if r.Status.Machine != nil {
		t.Error("the remediation was changed under its owner, a cache")
	}
}

func TestPermanence(t *testing.T) {
	for providerID, want := range map[string]metav1.ConditionStatus{
		"aws:///us-east-1a/i-0123": metav1.ConditionTrue, "sandbox://x": metav1.ConditionTrue,
		"baremetalhost:///machines/host-1/uid": metav1.ConditionFalse, "": metav1.ConditionUnknown,
	} {
		if got := permanentDeletionCondition(machineA(func(m *machineFacts) { m.providerID = providerID })); got.status != want {
			t.Errorf("%q: the node is gone for good: %s, want %s", providerID, got.status, want)
		}
	}
}

// TestTransitionTimes: a condition that stays as it is keeps its time.
func TestTransitionTimes(t *testing.T) {
	f := &facts{remediation: remediation(finalized), machine: machineA(), pool: &pool{}, now: noon}
	f.remediation.Status = started(f).status
	f.now = noon.Add(time.Hour)
	for _, c := range finished(f, false).status.Conditions {
		want := f.now
		if c.Type == v1alpha1.PermanentNodeDeletionExpectedCondition {
			want = noon
		}
		if !c.LastTransitionTime.Time.Equal(want) {
			t.Errorf("%s has changed at %s, want %s", c.Type, c.LastTransitionTime, want)
		}
	}
}
