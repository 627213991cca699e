package nhc

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

func aReading(t *testing.T, checks ...*unstructured.Unstructured) *Reading {
	t.Helper()
	r := NewReading()
	for _, u := range checks {
		if !r.PutCheck(u) {
			t.Errorf("health check %s changes nothing", u.GetName())
		}
	}
	if selected := r.PutNode(seen("a")); selected != (len(checks) > 0) || r.PutNode(seen("other", tagged("role", "infra"))) {
		t.Errorf("a node that is selected changes something: %t", selected)
	}
	return r
}

// TestReadingIsLive: an object that was just read needs no second read.
func TestReadingIsLive(t *testing.T) {
	o := aReading(t, posted(t, "workers", "1", selectsWorkers)).Observe(dawn)
	if o.Observed != core.Yes || o.Kind != nodeKind || len(o.Policies) != 1 || !slices.Equal(o.Policies[0].Members, []int{0}) {
		t.Fatalf("observed %+v", o)
	}
	if len(o.Targets) != 1 || o.Targets[0].ID != nodeID("a") || !o.Targets[0].NodeReadAt.Equal(dawn) {
		t.Errorf("targets are %+v", o.Targets)
	}
}

func TestReadingForgets(t *testing.T) {
	r := aReading(t, posted(t, "workers", "1", selectsWorkers))
	r.DropNode("a")
	if o := r.Observe(dawn); len(o.Targets) != 0 || len(o.Policies) != 1 {
		t.Errorf("without the node: %+v", o)
	}
	r.DropCheck("workers")
	if o := r.Observe(dawn); len(o.Policies) != 0 {
		t.Errorf("without the health check: %+v", o)
	}
}

// TestOpeningIsReadFromTheStatus: only a cooldown that the health check sets records when the storm began.
func TestOpeningIsReadFromTheStatus(t *testing.T) {
	conditions := func(status metav1.ConditionStatus) *unstructured.Unstructured {
		u := posted(t, "workers", "1", selectsWorkers)
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": v1alpha1.StormCooldownCondition, "status": string(status), "reason": "R", "message": "", "lastTransitionTime": before(time.Minute).UTC().Format(time.RFC3339),
		}}}
		return u
	}
	for sentence, tc := range map[string]struct {
		check *unstructured.Unstructured
		want  time.Time
	}{
		"a cooldown":           {conditions(metav1.ConditionTrue), before(time.Minute)},
		"a storm that is over": {conditions(metav1.ConditionFalse), time.Time{}},
		"no such condition":    {posted(t, "workers", "1", selectsWorkers), time.Time{}},
	} {
		if got := aReading(t, tc.check).Observe(dawn).Policies[0].Cooldown; !got.First.Equal(tc.want) || !got.Last.Equal(tc.want) {
			t.Errorf("%s: the opening is %+v, want %s", sentence, got, tc.want)
		}
	}
}

// TestTemplateProblem: the controller has the rights to look for templates, and a reader reports what it found.
func TestTemplateProblem(t *testing.T) {
	disabled := func(status, reason string) *unstructured.Unstructured {
		u := posted(t, "workers", "1", selectsWorkers)
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": v1alpha1.DisabledCondition, "status": status, "reason": reason, "message": "m"}}}
		return u
	}
	for sentence, tc := range map[string]struct {
		check *unstructured.Unstructured
		of    core.ID
		has   bool
	}{
		"a missing template":      {disabled("True", v1alpha1.TemplateNotFoundReason), checkID("workers"), true},
		"an unusable template":    {disabled("True", v1alpha1.TemplateInvalidReason), checkID("workers"), true},
		"another problem":         {disabled("True", v1alpha1.InvalidSpecReason), checkID("workers"), false},
		"no longer":               {disabled("False", v1alpha1.TemplateNotFoundReason), checkID("workers"), false},
		"no condition":            {posted(t, "workers", "1", selectsWorkers), checkID("workers"), false},
		"another kind":            {disabled("True", v1alpha1.TemplateNotFoundReason), core.ID{Kind: "MachineHealthCheck", Name: "workers", UID: "workers-uid"}, false},
		"an unknown health check": {disabled("True", v1alpha1.TemplateNotFoundReason), checkID("unknown"), false},
		"a namesake":              {disabled("True", v1alpha1.TemplateNotFoundReason), core.ID{Kind: healthCheckKind, Name: "workers", UID: "another"}, false},
	} {
		c, has := aReading(t, tc.check).TemplateProblem(tc.of)
		if has != tc.has || (has && (c.Type != v1alpha1.DisabledCondition || c.Message != "m")) {
			t.Errorf("%s: %t, %+v", sentence, has, c)
		}
	}
}

func TestUnmet(t *testing.T) {
	r := aReading(t, posted(t, "workers", "1", selectsWorkers))
	for sentence, tc := range map[string]struct {
		check, node core.ID
		want        []string
		possible    bool
	}{
		"selected":                        {checkID("workers"), nodeID("a"), []string{}, true},
		"of another role":                 {checkID("workers"), nodeID("other"), []string{"role=worker"}, true},
		"a node that is not there":        {checkID("workers"), nodeID("none"), nil, false},
		"a health check that isn't there": {checkID("none"), nodeID("a"), nil, false},
		"a health check of machines":      {core.ID{Kind: "MachineHealthCheck", Name: "workers"}, nodeID("a"), nil, false},
		"a machine":                       {checkID("workers"), core.ID{Kind: "Machine", Name: "a"}, nil, false},
	} {
		if got, possible := r.Unmet(tc.check, tc.node); !slices.Equal(got, tc.want) || possible != tc.possible {
			t.Errorf("%s: %v %t, want %v %t", sentence, got, possible, tc.want, tc.possible)
		}
	}
}

func TestPhaseIsThatOfTheStatus(t *testing.T) {
	if got := Phase(core.PolicyReport{Policy: core.Policy{Paused: true}}); got != "Paused" {
		t.Errorf("the phase is %q", got)
	}
}
