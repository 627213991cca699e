package cli

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
)

// TestControllerLacksRights: a person may read a template that Fettle may not. Then nothing is repaired, and status and explain
// say so.
func TestControllerLacksRights(t *testing.T) {
	for reason, want := range map[string]bool{v1alpha1.TemplateInvalidReason: true, v1alpha1.TemplateNotFoundReason: true, "InvalidSpec": false} {
		r := nhc.NewReading()
		r.PutCheck(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeHealthCheck", "metadata": map[string]any{"name": "workers", "uid": "uid-workers"},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": v1alpha1.DisabledCondition, "status": "True", "reason": reason, "message": "Fettle may not list RebootTemplate",
			}}},
		}})
		s := newNodeScene(t)
		s.ready(0, "Unknown", 8*time.Minute)
		w := s.assessment()
		w.statusReaders = []StatusReader{nhcReading{r}}
		if notes := w.notesAtOddsOn([]int{0, 0}); (len(notes) == 1) != want {
			t.Errorf("%s: explain of a node notes %q, want a note: %t", reason, notes, want)
		}
		if note := w.noteAtOdds(0); strings.Contains(note, "Fettle may not list RebootTemplate") != want {
			t.Errorf("%s: explain of the health check notes %q, want a note: %t", reason, note, want)
		}
		if notes := w.notesAtOdds(""); (len(notes) == 1) != want {
			t.Errorf("%s: status notes %q, want a note: %t", reason, notes, want)
		}
	}
}

// TestControllerAtOdds: a person sees the nodes of a cluster which Fettle can't see, for want of a right or since a bound is
// exceeded. Then nothing is repaired, and status says so.
func TestControllerAtOdds(t *testing.T) {
	notes := func(s *clusterScene) []string {
		var notes []string
		for _, w := range s.view().decided() {
			notes = append(notes, w.notesAtOdds("")...)
		}
		return notes
	}
	if got := notes(newClusterScene(t)); len(got) > 0 {
		t.Errorf("where the controller agrees status notes %q, want nothing", got)
	}
	s := newClusterScene(t)
	s.edit("MachineHealthCheck/east", `status: "True", reason: RemediationAllowed`, `status: Unknown, reason: ConnectionDown, message: Fettle may not read Secret fleets/east-kubeconfig`)
	got := notes(s)
	if len(got) != 1 || !strings.Contains(got[0], "MachineHealthCheck fleets/east") || !strings.Contains(got[0], "Fettle may not read Secret fleets/east-kubeconfig") {
		t.Errorf("status notes %q, want what the controller has written of east", got)
	}
}

// written has the status that a controller wrote of each health check, and the health that it wrote of each target.
type written struct {
	status WrittenStatus
	health *WrittenHealth
}

func (w written) StatusOf(core.ID) WrittenStatus { return w.status }

func (w written) HealthOf(core.ID) (WrittenHealth, bool) {
	if w.health == nil {
		return WrittenHealth{}, false
	}
	return *w.health, true
}

func (written) SkippedBy(core.ID) (string, bool) { return "", false }

// TestWrittenStatus: of targets that can't be judged from here, the numbers and the permission are as written last.
func TestWrittenStatus(t *testing.T) {
	three, two := new(int32), new(int32)
	*three, *two = 3, 2
	check := func(total, healthy int, repairs, reason, message string) HealthCheck {
		return HealthCheck{Total: total, Healthy: healthy, Repairs: repairs, Reason: reason, Message: message, AsWritten: true}
	}
	for sentence, tc := range map[string]struct {
		halted bool
		status WrittenStatus
		want   HealthCheck
	}{
		"nothing is written": {false, WrittenStatus{}, check(5, 4, repairsUnknown, "Unread", "it is unread")},
		"only one number":    {false, WrittenStatus{Total: three, Allowed: core.Yes}, check(5, 4, repairsAllowed, "", "")},
		"only the other":     {false, WrittenStatus{Healthy: two, Allowed: core.Yes}, check(5, 4, repairsAllowed, "", "")},
		"allowed":            {false, WrittenStatus{Total: three, Healthy: two, Allowed: core.Yes, Reason: "R", Message: "m"}, check(3, 2, repairsAllowed, "", "")},
		"not allowed":        {false, WrittenStatus{Total: three, Healthy: two, Allowed: core.No, Reason: "R", Message: "m"}, check(3, 2, repairsStopped, "R", "m")},
		"not known":          {false, WrittenStatus{Reason: "R", Message: "m"}, check(5, 4, repairsUnknown, "R", "m")},
		"halted":             {true, WrittenStatus{Allowed: core.Yes}, check(5, 4, repairsStopped, "Unread", "it is unread")},
	} {
		w := newScene().assessment()
		w.blocked, w.statusReaders = &Blocked{Halted: tc.halted, Reason: "Unread", Message: "it is unread"}, []StatusReader{written{status: tc.status}}
		h := HealthCheck{Total: 5, Healthy: 4, Repairs: repairsAllowed, Next: &Next{}}
		w.useWrittenStatus(0, &h)
		if diff := cmp.Diff(tc.want, h); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestWrittenHealth: a target that can't be judged from here is as its conditions say, while a controller judges it.
func TestWrittenHealth(t *testing.T) {
	since := noon.Add(-time.Minute)
	target := func(health, reason, message string, since *time.Time) Target {
		return Target{Health: health, Reason: reason, Since: since, Verdicts: []Verdict{{Health: health, Reason: reason, Message: message, Since: since}}}
	}
	for sentence, tc := range map[string]struct {
		halted, deleting bool
		health           *WrittenHealth
		want             Target
	}{
		"nothing is written":  {false, false, nil, target("unknown", "Unread", "it is unread", nil)},
		"it is healthy":       {false, false, &WrittenHealth{true, "R", "", since}, target("healthy", "R", "as the machine itself says: R", &since)},
		"it is unhealthy":     {false, false, &WrittenHealth{false, "R", "it\n is", since}, target("unhealthy", "R", "as the machine itself says: R (it is)", &since)},
		"no controller looks": {true, false, &WrittenHealth{true, "R", "m", since}, target("unknown", "Unread", "it is unread", nil)},
		"it goes":             {false, true, &WrittenHealth{false, "R", "m", since}, target("gone", "R", "as the machine itself says: R (m)", &since)},
	} {
		w := newScene().assessment()
		w.blocked, w.statusReaders = &Blocked{Halted: tc.halted, Reason: "Unread", Message: "It is unread"}, []StatusReader{written{health: tc.health}}
		w.cluster.Targets[0].Deleting = tc.deleting
		got := Target{Until: &since, Verdicts: []Verdict{{Until: &since, Leads: true}}, HeldBy: []Refusal{{}}, Lead: &Lead{}}
		w.useWrittenHealth(0, &got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestNotesAtOdds: where repairs go on as seen from here, notes tell the message of the controller, for ten health checks.
func TestNotesAtOdds(t *testing.T) {
	for sentence, tc := range map[string]struct {
		place func(*scene)
		then  func(*assessment)
		wrote WrittenStatus
		want  int
	}{
		"at odds":       {nil, nil, WrittenStatus{Reason: "R", Message: "m"}, mostAtOdds},
		"no message":    {nil, nil, WrittenStatus{Reason: "R"}, 0},
		"allowed":       {nil, nil, WrittenStatus{Allowed: core.Yes, Message: "m"}, 0},
		"none is seen":  {nil, func(w *assessment) { w.blocked = &Blocked{} }, WrittenStatus{Reason: "R", Message: "m"}, 0},
		"one is paused": {func(s *scene) { s.Policies[0].Paused = true }, nil, WrittenStatus{Reason: "R", Message: "m"}, mostAtOdds},
		"all stopped": {func(s *scene) {
			for i := range s.Policies {
				s.Policies[i].Problem = "so"
			}
		}, nil, WrittenStatus{Reason: "R", Message: "m"}, 0},
	} {
		s := newScene()
		for i := range mostAtOdds {
			s.check(string(rune('a'+i)), time.Hour)
		}
		if tc.place != nil {
			tc.place(s)
		}
		w := s.assessment()
		w.statusReaders = []StatusReader{written{status: tc.wrote}}
		if tc.then != nil {
			tc.then(w)
		}
		if got := w.notesAtOdds(""); len(got) != tc.want {
			t.Errorf("%s: %d notes, want %d: %q", sentence, len(got), tc.want, got)
		}
	}
}
