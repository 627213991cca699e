package ledger

import (
	"reflect"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// fieldNames returns the names of the fields of a struct in JSON, without some.
func fieldNames(of reflect.Type, without ...string) map[string]bool {
	names := map[string]bool{}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names[name] = true
	}
	for _, name := range without {
		delete(names, name)
	}
	return names
}

// TestEachFieldOfARepairIsKept: the cache keeps each field of a Repair, except the fields that only users read.
func TestEachFieldOfARepairIsKept(t *testing.T) {
	for part, c := range map[string]struct {
		api, kept reflect.Type
		users     []string
	}{
		"spec":   {reflect.TypeFor[v1alpha1.RepairSpec](), reflect.TypeFor[repairSpec](), []string{"reason", "message", "unhealthySince"}},
		"status": {reflect.TypeFor[v1alpha1.RepairStatus](), reflect.TypeFor[repairStatus](), []string{"step", "lastError"}},
	} {
		if diff := gocmp.Diff(fieldNames(c.api, c.users...), fieldNames(c.kept)); diff != "" {
			t.Errorf("fields of the %s (-API +cache):\n%s", part, diff)
		}
	}
}

// TestEachFactOfARepairIsRecorded: a Repair has each field of a core.Repair, except the fields that a process has in
// memory alone. No Repair has all of them: only one of a machine has an owner, and only one of a node a holder.
func TestEachFactOfARepairIsRecorded(t *testing.T) {
	object := render(anEntry(func(e *core.NewRepair) { e.Requested = noon }), "repairs")
	object.UID, object.ResourceVersion = "uid", "7"
	running := stored(t, object).repair
	ended := running
	ended.StepState = core.StepState{Begun: noon, Answer: "later", Attempts: 1, LastAttempt: noon}
	ended.Tried, ended.Recovered = []core.StepRecord{{Ended: noon, Outcome: core.Failed}}, noon
	ended.Evidence = []core.Evidence{{Request: core.ID{Kind: "PowerRemediation", Name: "n", UID: "u"}, Method: "PowerOff"}}
	ended.Ended, ended.Outcome = noon.Add(time.Minute), core.Succeeded
	object.Status = statusOf(ended, "it has ended", nil)
	ended = stored(t, object).repair
	ofNode := stored(t, render(anEntry(func(e *core.NewRepair) {
		e.Target = core.Target{ID: core.ID{Kind: "Node", Name: "n", UID: aTarget.UID}, Node: core.Node{Name: "n"}}
		e.Name, e.Policy.ID.Namespace = core.RepairName(e.Target.ID, 1), ""
		e.Policy.Holder = core.HolderOf(e.Policy.ID)
	}), "repairs")).repair

	inMemory := map[string]bool{"RecordedElsewhere": true, "StepSeen": true, "Misdated": true, "CreatedSameSecond": true, "Written": true, "EvidenceUnrecorded": true}
	for i := range reflect.TypeFor[core.Repair]().NumField() {
		recorded := false
		for _, r := range []core.Repair{running, ended, ofNode} {
			recorded = recorded || !reflect.ValueOf(r).Field(i).IsZero()
		}
		if name := reflect.TypeFor[core.Repair]().Field(i).Name; recorded == inMemory[name] {
			t.Errorf("%s is recorded: %t", name, recorded)
		}
	}
	for i := range reflect.TypeFor[core.StepState]().NumField() {
		if reflect.ValueOf(ended.StepState).Field(i).IsZero() {
			t.Errorf("%s of the step under way is not recorded", reflect.TypeFor[core.StepState]().Field(i).Name)
		}
	}
}
