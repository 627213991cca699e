package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestRepairIsRefused shows where a request could do nothing.
func TestRepairIsRefused(t *testing.T) {
	for says, change := range map[string]func(*scene){
		"":                                  func(*scene) {},
		"it is being deleted already":       func(s *scene) { s.Targets[0].Deleting = true },
		"no health check selects it":        func(s *scene) { s.Policies[0].Members = []int{1, 2, 3, 4} },
		"whose selector also requires role": func(s *scene) { s.Policies[0].Members = []int{1, 2, 3, 4} },
		"is under way; fettle explain repair/" + core.RepairName(newScene().Targets[0].ID, 1): func(s *scene) {
			s.ready(0, "Unknown", time.Hour)
			s.repair(0, time.Minute, v1alpha1.RepairStatus{})
		},
		"every step of repair " + core.RepairName(newScene().Targets[0].ID, 1) + " was tried without success": func(s *scene) {
			s.ready(0, "Unknown", time.Hour)
			s.repair(0, time.Minute, v1alpha1.RepairStatus{Steps: []v1alpha1.RepairAttempt{{Outcome: v1alpha1.StepFailed}}})
		},
	} {
		s := newScene()
		change(s)
		err := s.assessment().refuseRequest(0, lacksRole)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

// TestRequestTime: a request is later than the last repair of its target, whatever the clock of the person says.
func TestRequestTime(t *testing.T) {
	for name, c := range map[string]struct {
		ended time.Duration
		want  time.Time
	}{
		"long after a repair":            {-time.Hour, noon},
		"in the second in which it did":  {0, noon.Add(time.Second)},
		"by a clock that runs behind it": {20 * time.Second, noon.Add(21 * time.Second)},
	} {
		s := newScene()
		s.repair(0, 2*time.Hour, v1alpha1.RepairStatus{Phase: v1alpha1.RepairSucceeded, FinishedAt: &metav1.Time{Time: noon.Add(c.ended)}})
		w := s.assessment()
		w.cluster.Repairs[0].Ended = noon.Add(c.ended)
		if got := w.requestTime(0, noon.Add(300*time.Millisecond)); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestRepairRequestPage: the page says what was done, what each gate says, and how the request is taken back.
func TestRepairRequestPage(t *testing.T) {
	s := newScene()
	s.Policies[0].Paused = true
	s.Targets[0].RepairRequest.At = noon
	w := s.assessment()
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "a"},
	}
	r := &RepairRequest{
		Header: header(), Written: true, Message: w.requestedText(0, noon, false), Target: w.explainTarget(0, nil, lacksRole),
		HealthChecks: w.selecting(0), Undo: undo(object),
	}
	var out bytes.Buffer
	(&page{Writer: &out, at: noon}).repairRequest(r)
	for _, words := range []string{
		"Requested a repair of machine machines/", "by annotation fettle.io/repair-requested-at=" + noon.Format(time.RFC3339),
		"Held back by\n  Paused (example)", "Gates of MachineHealthCheck machines/", "Paused is closed", "TooManyUnhealthy is open",
		"lapses at", "kubectl annotate -n machines machines.machine.openshift.io a fettle.io/repair-requested-at-",
	} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("it does not say %q:\n%s", words, out.String())
		}
	}
	if text := w.requestedText(0, noon, true); !strings.HasPrefix(text, "Nothing was written.") {
		t.Errorf("a dry run says %q", text)
	}
}
