package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// noon is a local time with fractions, as a clock gives it.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 123456789, time.UTC).Local()

var (
	aTarget = core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "0a1b2c3d-0000-4000-8000-000000000001"}
	aPolicy = core.ID{Kind: "MachineHealthCheck", Namespace: "machines", Name: "workers", UID: "check-uid"}
	anOwner = core.ID{Kind: "MachineSet", Namespace: "machines", Name: "pool", UID: "pool-uid"}
)

func anEntry(changes ...func(*core.NewRepair)) core.NewRepair {
	e := core.NewRepair{
		Name:   core.RepairName(aTarget, 3),
		Target: core.Target{ID: aTarget, Owner: anOwner, OwnerTemplate: "fingerprint", Node: core.Node{Name: "m-node"}},
		Policy: core.Policy{ID: aPolicy},
		Steps:  []core.Step{{Remedy: "DeleteMachine"}},
		Verdict: core.Verdict{
			Health: core.Unhealthy, Reason: core.ConditionMet, Since: noon.Add(-5 * time.Minute),
			Criterion: core.ConditionCriterion{Type: "Ready", Status: "False", For: 5 * time.Minute},
		},
		Retry: 2, Started: noon,
	}
	for _, change := range changes {
		change(&e)
	}
	return e
}

// fataler is a test, or a check of a property.
type fataler interface {
	Fatalf(format string, args ...any)
}

// sent returns an object as another client reads it.
func sent[T any](t fataler, object T) T {
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	var got T
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return got
}

func TestEntryBecomesRepair(t *testing.T) {
	since := metav1.NewTime(noon.Add(-5 * time.Minute))
	want := &v1alpha1.Repair{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "machines", Name: anEntry().Name,
			Labels: map[string]string{"fettle.io/target-uid": "0a1b2c3d-0000-4000-8000-000000000001"},
		},
		Spec: v1alpha1.RepairSpec{
			Target: v1alpha1.RepairTarget{
				ObjectReference: v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: aTarget.UID}, Node: "m-node",
			},
			Policy:         v1alpha1.ObjectReference{Kind: "MachineHealthCheck", Namespace: "machines", Name: "workers", UID: "check-uid"},
			Owner:          &v1alpha1.ObjectReference{Kind: "MachineSet", Namespace: "machines", Name: "pool", UID: "pool-uid"},
			OwnerTemplate:  "fingerprint",
			Reason:         "UnhealthyCondition",
			Message:        anEntry().Verdict.Text(),
			UnhealthySince: &since,
			Ladder:         []v1alpha1.RepairStep{{Remedy: "DeleteMachine", Nature: "Delete"}},
			StartedAt:      metav1.NewMicroTime(noon),
			Retry:          2,
		},
	}
	if diff := gocmp.Diff(want, render(anEntry(), "")); diff != "" {
		t.Errorf("Repair (-want +got):\n%s", diff)
	}
}

func TestRepairLeavesOutWhatIsNotKnown(t *testing.T) {
	r := render(anEntry(func(e *core.NewRepair) {
		e.Target.Owner, e.Target.Node, e.Verdict.Since = core.ID{}, core.Node{}, time.Time{}
	}), "")
	if r.Spec.Owner != nil || r.Spec.UnhealthySince != nil || r.Spec.Target.Node != "" {
		t.Errorf("owner %v, since %v, node %q; want none of them", r.Spec.Owner, r.Spec.UnhealthySince, r.Spec.Target.Node)
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	for _, field := range []string{"owner", "unhealthySince", `"node"`, "lastAttempt", "finishedAt"} {
		if strings.Contains(string(body), field) {
			t.Errorf("%s is sent: %s", field, body)
		}
	}
}

// TestRepairIsWrittenWhateverTheNodeSays: nodes may have times that JSON lacks, and names of any length.
func TestRepairIsWrittenWhateverTheNodeSays(t *testing.T) {
	for sentence, since := range map[string]time.Time{
		"before the year 1": time.Unix(-1e18, 0), "beyond the year 9999": time.Unix(1e18, 0), "the year 0": time.Date(0, 6, 1, 0, 0, 0, 0, time.UTC),
	} {
		if r := render(anEntry(func(e *core.NewRepair) { e.Verdict.Since = since }), ""); r.Spec.UnhealthySince != nil {
			t.Errorf("%s: unhealthy since %v, which the API server refuses or which is no time", sentence, r.Spec.UnhealthySince)
		}
	}
	long := strings.Repeat("ü", 1<<20)
	r := render(anEntry(func(e *core.NewRepair) { e.Verdict.Criterion.Type = long }), "")
	tried := statusOf(core.Repair{StepState: core.StepState{Attempts: 1}, Tried: []core.StepRecord{{Ended: noon, Outcome: core.Failed, Text: long}}}, long, errors.New(long))
	for _, text := range []string{r.Spec.Message, tried.Message, tried.LastError, tried.Steps[0].Message} {
		if len(text) > 5000 || len(text) < 1000 || !utf8.ValidString(text) {
			t.Errorf("a text has %d bytes", len(text))
		}
	}
}

func aName() *rapid.Generator[string] {
	return rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?`).Filter(func(s string) bool {
		return len(validation.IsDNS1123Subdomain(s)) == 0
	})
}

func anID(kind string) *rapid.Generator[core.ID] {
	return rapid.Custom(func(t *rapid.T) core.ID {
		return core.ID{
			Kind: kind, Namespace: rapid.StringMatching(`[a-z]{1,63}`).Draw(t, "namespace"), Name: aName().Draw(t, "name"),
			UID: rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).Draw(t, "uid"),
		}
	})
}

func aStep() *rapid.Generator[core.Step] {
	return rapid.Custom(func(t *rapid.T) core.Step {
		s := core.Step{
			Remedy: rapid.StringMatching(`[A-Z][a-z]{1,9}`).Draw(t, "remedy"), Nature: rapid.SampledFrom(natureList).Draw(t, "nature"),
			Limit: time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "limit")),
		}
		if rapid.Bool().Draw(t, "from a template") {
			s.Template = core.Reference{APIVersion: "remediation.example/v1", Kind: "FixTemplate", Name: aName().Draw(t, "template")}
			s.Template.Namespace = rapid.StringMatching(`[a-z]{0,63}`).Draw(t, "its namespace")
		}
		return s
	})
}

var natureList = []core.Nature{core.Delete, core.CreateRequest, core.Annotate, core.AskOwner}

func someEntry() *rapid.Generator[core.NewRepair] {
	return rapid.Custom(func(t *rapid.T) core.NewRepair {
		return anEntry(func(e *core.NewRepair) {
			e.Target.ID, e.Policy.ID = anID("Machine").Draw(t, "target"), anID("MachineHealthCheck").Draw(t, "policy")
			e.Target.Owner.Namespace, e.Policy.ID.Namespace = e.Target.ID.Namespace, e.Target.ID.Namespace
			if rapid.Bool().Draw(t, "orphan") {
				e.Target.Owner = core.ID{}
			}
			e.Retry = rapid.IntRange(0, 1<<30).Draw(t, "retry")
			e.Steps = rapid.SliceOfN(aStep(), 1, 4).Draw(t, "ladder")
			if rapid.Bool().Draw(t, "homeless") {
				e.Target.ID.Kind, e.Target.ID.Namespace, e.Policy.ID.Namespace, e.Target.Owner = "Node", "", "", core.ID{}
				e.Target.Node.Name, e.Policy.Holder = e.Target.ID.Name, core.HolderOf(e.Policy.ID)
			}
			if rapid.Bool().Draw(t, "requested") {
				e.Requested = time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "request"), 0).UTC()
			}
			e.Name = core.RepairName(e.Target.ID, rapid.IntRange(1, 1<<30).Draw(t, "number"))
			e.Started = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
		})
	})
}

// TestReadGivesBackWhatWasRendered: all that the core reads of a repair survives being stored, to the
// microsecond.
func TestReadGivesBackWhatWasRendered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := someEntry().Draw(t, "entry")
		got := read(sent(t, render(e, "repairs")))
		want := core.Repair{
			Namespace: cmp.Or(e.Target.ID.Namespace, "repairs"), Name: e.Name, Target: e.Target.ID, Policy: e.Policy.ID, Owner: e.Target.Owner,
			Node: e.Target.Node.Name, Steps: e.Steps, Holder: e.Policy.Holder, Retry: e.Retry, Started: e.Started.Truncate(time.Microsecond),
		}
		if e.Requested.Sub(e.Started) < time.Hour { // a later one is none of Fettle's
			want.Requested = e.Requested
		}
		if want.Owner != (core.ID{}) {
			want.OwnerTemplate = e.Target.OwnerTemplate
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("repair (-want +got):\n%s", diff)
		}
		if !got.Running() {
			t.Error("a new repair is not running")
		}
	})
}

// TestRepairIsAcceptable: names and labels are what the API server takes, whatever the target is called.
func TestRepairIsAcceptable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := render(someEntry().Draw(t, "entry"), "repairs")
		if problems := validation.IsDNS1123Subdomain(r.Name); len(problems) > 0 {
			t.Errorf("the name %q: %v", r.Name, problems)
		}
		for key, value := range r.Labels {
			if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
				t.Errorf("the label %s=%s: %v", key, value, problems)
			}
		}
	})
}

func TestHugeCountsFit(t *testing.T) {
	if got := render(anEntry(func(e *core.NewRepair) { e.Retry = 1 << 40 }), "").Spec.Retry; got != 1<<30 {
		t.Errorf("retry is %d, want %d: the field has 32 bits and its sign must not turn", got, 1<<30)
	}
	if got := statusOf(core.Repair{StepState: core.StepState{Attempts: 1 << 40}}, "", nil).Attempts; got != 1<<30 {
		t.Errorf("attempts are %d, want %d", got, 1<<30)
	}
}

func someTime(t *rapid.T) time.Time {
	return noon.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "after the start")))
}

// someProgress draws how far a repair can have come.
func someProgress() *rapid.Generator[core.Repair] {
	return rapid.Custom(func(t *rapid.T) core.Repair {
		r := read(render(anEntry(), ""))
		if r.Attempts = rapid.IntRange(0, 1<<30).Draw(t, "attempts"); r.Attempts > 0 {
			r.LastAttempt = noon.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "attempt")))
		}
		for range rapid.IntRange(0, 4).Draw(t, "records") {
			r.Tried = append(r.Tried, core.StepRecord{
				Ended: someTime(t), Text: rapid.StringMatching(`[a-z ]{0,20}`).Draw(t, "text"),
				Outcome: rapid.SampledFrom([]core.StepOutcome{core.TimedOut, core.Failed}).Draw(t, "outcome of a step"),
			})
		}
		if rapid.Bool().Draw(t, "recovered") {
			r.Recovered = someTime(t)
		}
		if rapid.Bool().Draw(t, "begun") {
			r.Begun = someTime(t)
		}
		if rapid.Bool().Draw(t, "ended") {
			r.Ended = someTime(t).Add(time.Hour) // after all else
			r.Outcome = rapid.SampledFrom([]core.Outcome{core.Succeeded, core.Recovered, core.Withdrawn}).Draw(t, "outcome")
		}
		return r
	})
}

// TestAmendmentReplacesWhatWasThere: whatever a status has had before, a repair reads as it was amended last.
func TestAmendmentReplacesWhatWasThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, want := someProgress().Draw(t, "before"), someProgress().Draw(t, "repair")
		before.Ended, before.Outcome = time.Time{}, 0 // what has ended is not amended any more
		if len(want.Tried) < len(before.Tried) {      // they don't become less
			before.Tried = nil
		}
		status := map[string]any{}
		for _, r := range []core.Repair{before, want} {
			body, err := statusPatch(r, "why", nil)
			if err != nil {
				t.Fatalf("encoding: %v", err)
			}
			mergeInto(t, status, body)
		}
		body, err := json.Marshal(status)
		if err != nil {
			t.Fatalf("encoding: %v", err)
		}
		object := render(anEntry(), "")
		if err := json.Unmarshal(body, &object.Status); err != nil {
			t.Fatalf("decoding: %v", err)
		}
		if diff := gocmp.Diff(rounded(want), read(sent(t, object))); diff != "" {
			t.Errorf("repair (-want +got):\n%s", diff)
		}
	})
}

// TestPlaceInTheOrderIsNotMadeUp: the revision of a changed Repair is not that of its creation, even if nothing
// else shows the change.
func TestPlaceInTheOrderIsNotMadeUp(t *testing.T) {
	object := render(anEntry(), "")
	object.ResourceVersion = "7"
	r := read(object)
	if r.Sequence != 7 || r.Revision != 7 {
		t.Errorf("the sequence of a new repair is %d and its revision %d, want 7", r.Sequence, r.Revision)
	}
	object.Status = statusOf(r, "the target is not healthy after all", nil)
	object.ResourceVersion = "9"
	if r := read(object); r.Sequence != 0 || r.Revision != 9 {
		t.Errorf("the sequence of a repair that was changed is %d and its revision %d, want 0 and 9", r.Sequence, r.Revision)
	}
}

// mergeInto patches a status as the API server would.
func mergeInto(t fataler, status map[string]any, body []byte) {
	var patch struct{ Status map[string]any }
	if err := json.Unmarshal(body, &patch); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	for field, value := range patch.Status {
		if status[field] = value; value == nil {
			delete(status, field)
		}
	}
}

// rounded is a repair as a Repair has it: to the microsecond, and its end to the second. Its revision is
// not that of its creation any more.
func rounded(r core.Repair) core.Repair {
	for _, at := range []*time.Time{&r.Started, &r.LastAttempt, &r.Recovered, &r.Begun} {
		*at = at.Truncate(time.Microsecond)
	}
	r.Tried = slices.Clone(r.Tried)
	for i := range r.Tried {
		r.Tried[i].Ended = r.Tried[i].Ended.Truncate(time.Microsecond)
	}
	r.Ended, r.Sequence = r.Ended.Truncate(time.Second), 0
	return r
}

// TestProgressIsReadBack: attempts to the microsecond, since the next one waits for the last; the
// end to the second.
func TestProgressIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := someProgress().Draw(t, "repair")
		object := render(anEntry(), "")
		object.Status = statusOf(want, "why", nil)
		got := read(sent(t, object))
		if diff := gocmp.Diff(rounded(want), got); diff != "" {
			t.Errorf("repair (-want +got):\n%s", diff)
		}
	})
}

func TestProgressSaysWhatHappened(t *testing.T) {
	at, end := metav1.NewMicroTime(noon), metav1.NewTime(noon)
	cases := map[string]struct {
		reason string
		repair core.Repair
		text   string
		err    error
		want   v1alpha1.RepairStatus
	}{
		"a refused attempt": {
			"what it was refused with is kept apart from what people read", core.Repair{StepState: core.StepState{Attempts: 2, LastAttempt: noon}}, "it is tried again", errors.New("forbidden"),
			v1alpha1.RepairStatus{Phase: "Running", Attempts: 2, LastAttempt: &at, LastError: "forbidden", Message: "it is tried again"},
		},
		"a step that is given up": {
			"the next one is under way", core.Repair{Tried: []core.StepRecord{{Ended: noon, Outcome: core.TimedOut, Text: "too slow"}}}, "too slow", nil,
			v1alpha1.RepairStatus{
				Phase: "Running", Step: 1, Steps: []v1alpha1.RepairAttempt{{Outcome: "TimedOut", EndedAt: at, Message: "too slow"}}, Message: "too slow",
			},
		},
		"a target that is well again": {
			"", core.Repair{Recovered: noon, StepState: core.StepState{Begun: noon}}, "it is well", nil,
			v1alpha1.RepairStatus{Phase: "Running", RecoveredAt: &at, BegunAt: &at, Message: "it is well"},
		},
		"a success": {
			"its end, and why", core.Repair{Ended: noon, Outcome: core.Succeeded}, "the target is gone", nil,
			v1alpha1.RepairStatus{Phase: "Succeeded", Message: "the target is gone", FinishedAt: &end},
		},
		"a recovery after an attempt": {
			"what was refused stays known", core.Repair{Ended: noon, Outcome: core.Recovered, StepState: core.StepState{Attempts: 1, LastAttempt: noon}}, "it is well", nil,
			v1alpha1.RepairStatus{Phase: "Recovered", Attempts: 1, LastAttempt: &at, Message: "it is well", FinishedAt: &end},
		},
		"a withdrawal": {
			"", core.Repair{Ended: noon, Outcome: core.Withdrawn}, "no policy requires it", nil,
			v1alpha1.RepairStatus{Phase: "Withdrawn", Message: "no policy requires it", FinishedAt: &end},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, statusOf(tc.repair, tc.text, tc.err)); diff != "" {
				t.Errorf("%s\nstatus (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestEveryOutcomeIsAPhase, or a repair that ended would be read as running.
func TestEveryOutcomeIsAPhase(t *testing.T) {
	for o := core.Outcome(1); o.String() != "Running"; o++ {
		if got := outcomes[v1alpha1.RepairPhase(o.String())]; got != o {
			t.Errorf("%s is read as %s", o, got)
		}
	}
	if len(outcomes) != 3 {
		t.Errorf("%d phases end a repair", len(outcomes))
	}
	for o := core.StepOutcome(1); o.String() != "None"; o++ {
		if got := stepOutcomes[v1alpha1.StepOutcome(o.String())]; got != o {
			t.Errorf("a step that %s is read as %s", o, got)
		}
	}
}

// TestReadingWhatOthersWrote: a status may be missing or half written.
func TestReadingWhatOthersWrote(t *testing.T) {
	end, early := metav1.NewTime(noon), metav1.NewTime(noon.Add(-2*time.Hour))
	later, latest := metav1.NewMicroTime(end.Add(time.Minute)), metav1.NewMicroTime(end.Add(2*time.Minute))
	step := []v1alpha1.RepairAttempt{{Outcome: "TimedOut", EndedAt: later}}
	cases := map[string]struct {
		reason string
		status v1alpha1.RepairStatus
		ended  time.Time
	}{
		"no status":                   {"it runs", v1alpha1.RepairStatus{}, time.Time{}},
		"running":                     {"it runs", v1alpha1.RepairStatus{Phase: "Running"}, time.Time{}},
		"a phase from a later Fettle": {"it is not known to have ended", v1alpha1.RepairStatus{Phase: "Escalated"}, time.Time{}},
		"an end without its time":     {"it ended; when it started is known", v1alpha1.RepairStatus{Phase: "Succeeded"}, noon},
		"an end":                      {"", v1alpha1.RepairStatus{Phase: "Succeeded", FinishedAt: &end}, noon},
		"an end before its start":     {"the clock was behind", v1alpha1.RepairStatus{Phase: "Succeeded", FinishedAt: &early}, noon.Truncate(time.Second)},
		"an end before its last step": {"the clock was behind", v1alpha1.RepairStatus{Phase: "Withdrawn", FinishedAt: &early, Steps: step}, later.Truncate(time.Second)},
		"an end before the recovery":  {"the clock was behind", v1alpha1.RepairStatus{Phase: "Succeeded", FinishedAt: &early, Steps: step, RecoveredAt: &latest}, latest.Truncate(time.Second)},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			object := render(anEntry(), "")
			object.Status = tc.status
			if got := read(object).Ended; !got.Equal(tc.ended) {
				t.Errorf("it ended at %s, want %s. %s", got, tc.ended, tc.reason)
			}
		})
	}
}
