package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

// written returns the record of a Repair with this spec and status.
func written(t testing.TB, spec, status string) *record {
	t.Helper()
	return writtenAs(t, "machines", ofM, spec, status)
}

// ofM is the name of the first repair of the target that aSpec names.
var ofM = core.RepairName(core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}, 1)

// writtenAs is written with a namespace and a name.
func writtenAs(t testing.TB, namespace, name, spec, status string) *record {
	t.Helper()
	return readRecord(rawAs(t, namespace, name, spec, status), "fettle-system")
}

// rawAs returns a Repair as the API server delivers it.
func rawAs(t testing.TB, namespace, name, spec, status string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := `{"apiVersion": "fettle.io/v1alpha1", "kind": "Repair", "metadata": {"namespace": "` + namespace + `", "name": "` + name + `", "uid": "r-uid",
		"creationTimestamp": "2026-08-03T12:00:00Z"}, "spec": ` + spec + `, "status": ` + status + `}`
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return u
}

// aSpec returns the text of a spec. The given fields replace earlier ones.
func aSpec(more ...string) string {
	return `{"target": {"kind": "Machine", "namespace": "machines", "name": "m", "uid": "m-uid"},
		"policy": {"kind": "MachineHealthCheck", "namespace": "machines", "name": "workers", "uid": "check-uid"},
		"owner": {"kind": "MachineSet", "namespace": "machines", "name": "pool", "uid": "pool-uid"},
		"reason": "Failed", "ladder": [{"remedy": "DeleteMachine"}], "startedAt": "2026-08-03T12:00:00.250000Z", "retry": 2` +
		strings.Join(append([]string{""}, more...), ", ") + `}`
}

// TestRepairIsReadAsFarAsItCanBe: any user may write a Repair, and a field that can't be read hides no other.
func TestRepairIsReadAsFarAsItCanBe(t *testing.T) {
	created := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	whole := core.Repair{
		Namespace: "machines", Name: ofM, UID: "r-uid", Retry: 2, Started: created.Add(250 * time.Millisecond), Owner: anOwner,
		Target: core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}, Policy: aPolicy,
		Steps: []core.Step{{Remedy: "DeleteMachine"}},
	}
	withSteps := func(steps ...core.Step) core.Repair {
		r := whole
		r.Steps = steps
		return r
	}
	template := core.Reference{APIVersion: "fix.example/v1", Kind: "FixTemplate", Name: "quick"}
	atMinute := func(minute int) time.Time { return created.Add(time.Duration(minute) * time.Minute) }
	with := func(change func(*core.Repair)) core.Repair {
		r := whole
		change(&r)
		return r
	}
	succeeded := func(at time.Time) core.Repair {
		return with(func(r *core.Repair) { r.Outcome, r.Ended = core.Succeeded, at })
	}
	atCreation := with(func(r *core.Repair) { r.Started = created })
	cases := map[string]struct {
		reason, spec, status string
		want                 core.Repair
		problem              string
	}{
		"all of it":                {"", aSpec(), `{"phase": "Running"}`, whole, ""},
		"no status":                {"it runs", aSpec(), `null`, whole, ""},
		"a start in whole seconds": {"as people write it, and the definition allows", aSpec(`"startedAt": "2026-08-03T12:00:00Z"`), `{}`, atCreation, ""},
		"a start in words":         {"its creation is known", aSpec(`"startedAt": "yesterday"`), `{}`, atCreation, `spec.startedAt is "yesterday" and can't be read`},
		"a start in the year 1":    {"it is unknown when it began", aSpec(`"startedAt": "0001-01-01T00:00:00Z"`), `{}`, atCreation, ""},
		"a start last year":        {"a Repair is created when its repair starts", aSpec(`"startedAt": "2025-08-03T12:00:00Z"`), `{}`, atCreation, ""},
		"a start in the year 9999": {"back-off must not wait for it", aSpec(`"startedAt": "9999-12-31T23:59:59Z"`), `{}`, atCreation, ""},
		"a retry beyond all":       {"", aSpec(`"retry": 9999999999`), `{}`, with(func(r *core.Repair) { r.Retry = 0 }), "spec.retry is 9999999999 and can't be read"},
		"an owner that is a word":  {"", aSpec(`"owner": "pool"`), `{}`, with(func(r *core.Repair) { r.Owner = core.ID{} }), `spec.owner is "pool" and can't be read`},
		"a policy that is a list":  {"", aSpec(`"policy": []`), `{}`, core.Repair{}, "spec.policy is [] and can't be read; spec.policy is not in the namespace of spec.target"},
		"a message of a number":    {"it is not read", aSpec(`"message": 5, "ladder": "up"`), `{}`, withSteps(), `spec.ladder is "up" and can't be read`},
		"a phase of a number":      {"it does not say that it ended", aSpec(), `{"phase": 7, "attempts": 1}`, with(func(r *core.Repair) { r.Attempts = 1 }), "status.phase is 7 and can't be read"},
		"an unknown phase":         {"the same", aSpec(), `{"phase": "Exploded"}`, whole, ""},
		"attempts in words":        {"", aSpec(), `{"attempts": "many"}`, whole, `status.attempts is "many" and can't be read`},
		"a status of a word":       {"", aSpec(), `"done"`, whole, `status is "done" and can't be read`},
		"an end in words":          {"that it ended is known", aSpec(), `{"phase": "Succeeded", "finishedAt": "never"}`, succeeded(whole.Started), `status.finishedAt is "never" and can't be read`},
		"an end in the year 1":     {"the same", aSpec(), `{"phase": "Succeeded", "finishedAt": "0001-01-01T00:00:00Z"}`, succeeded(whole.Started), ""},
		"an end without start":     {"the same", aSpec(`"startedAt": 5`), `{"phase": "Succeeded"}`, with(func(r *core.Repair) { r.Started, r.Outcome, r.Ended = created, core.Succeeded, created }), "spec.startedAt is 5 and can't be read"},
		"an attempt in seconds":    {"", aSpec(), `{"attempts": 1, "lastAttempt": "2026-08-03T12:00:00Z"}`, with(func(r *core.Repair) { r.Attempts, r.LastAttempt = 1, created }), ""},
		"a step with a request": {
			"", aSpec(`"ladder": [{"remedy": "Ask", "nature": "CreateRequest", "timeout": "5m", "template": {"apiVersion": "fix.example/v1", "kind": "FixTemplate", "name": "quick"}}]`),
			`{}`, withSteps(core.Step{Remedy: "Ask", Nature: core.CreateRequest, Template: template, Limit: 5 * time.Minute}), "",
		},
		"steps of an earlier version": {
			"", aSpec(`"ladder": [{"remedy": "A"}, {"remedy": "B", "nature": "Destroys"}, {"remedy": "C", "nature": "Requests"}, {"remedy": "D", "nature": "HandsOver"}, {"remedy": "E", "nature": "Delegates"}]`),
			`{}`, withSteps(core.Step{Remedy: "A"}, core.Step{Remedy: "B", Nature: core.Delete}, core.Step{Remedy: "C", Nature: core.CreateRequest},
				core.Step{Remedy: "D", Nature: core.Annotate}, core.Step{Remedy: "E", Nature: core.AskOwner}), "",
		},
		"steps of today": {
			"", aSpec(`"ladder": [{"remedy": "B", "nature": "Delete"}, {"remedy": "C", "nature": "CreateRequest"}, {"remedy": "D", "nature": "Annotate"}, {"remedy": "E", "nature": "AskOwner"}]`),
			`{}`, withSteps(core.Step{Remedy: "B", Nature: core.Delete}, core.Step{Remedy: "C", Nature: core.CreateRequest},
				core.Step{Remedy: "D", Nature: core.Annotate}, core.Step{Remedy: "E", Nature: core.AskOwner}), "",
		},
		"a step of an unknown nature": {
			"what it would do to the target is no matter for a guess", aSpec(`"ladder": [{"remedy": "A", "nature": "Annotate"}, {"remedy": "B", "nature": "Blesses"}]`),
			`{}`, withSteps(), `spec.ladder[1].nature is "Blesses" and can't be read`,
		},
		"a time limit in words":     {"", aSpec(`"ladder": [{"remedy": "A", "timeout": "soon"}]`), `{}`, withSteps(), `spec.ladder is [{"remedy":"A","timeout":"soon"}] and can't be read`},
		"a time limit of less than": {"it would be over before it began", aSpec(`"ladder": [{"remedy": "A", "timeout": "-5m"}]`), `{}`, withSteps(core.Step{Remedy: "A"}), ""},
		"steps that were given up": {
			"", aSpec(), `{"step": 2, "steps": [{"outcome": "TimedOut", "endedAt": "2026-08-03T12:05:00Z", "message": "slow"}, {"outcome": "Failed", "endedAt": "2026-08-03T12:06:00.000000Z"}]}`,
			with(func(r *core.Repair) {
				r.Tried = []core.StepRecord{{Ended: atMinute(5), Outcome: core.TimedOut, Text: "slow"}, {Ended: atMinute(6), Outcome: core.Failed}}
			}), "",
		},
		"a step given up before the start": {
			"the next one would be over before its time", aSpec(), `{"steps": [{"outcome": "Failed", "endedAt": "2026-08-03T11:00:00Z"}, {"outcome": "Bored"}]}`,
			with(func(r *core.Repair) {
				r.Tried = []core.StepRecord{{Ended: whole.Started, Outcome: core.Failed}, {Ended: whole.Started, Outcome: core.TimedOut}}
			}), "",
		},
		"a recovery and a hand-over": {
			"", aSpec(), `{"recoveredAt": "2026-08-03T12:05:00Z", "begunAt": "2026-08-03T12:02:00.000000Z"}`,
			with(func(r *core.Repair) { r.Recovered, r.Begun = atMinute(5), atMinute(2) }), "",
		},
		"a target that is a word": {
			"it does not say what is repaired", aSpec(`"target": "m"`), `{}`, core.Repair{},
			`spec.target is "m" and can't be read; spec.target does not say what is repaired`,
		},
		"a kind that is a list": {
			"the place is told as it is written", aSpec(`"target": {"kind": [], "uid": "none"}`), `{}`, core.Repair{},
			`spec.target.kind is {"kind":[],"uid":"none"} and can't be read; spec.target does not say what is repaired`,
		},
		"a spec that is a word": {
			"it says nothing", `"m"`, `{}`, core.Repair{},
			`spec is "m" and can't be read; spec.target does not say what is repaired`,
		},
		"no spec": {"the same", `null`, `{}`, core.Repair{}, "spec.target does not say what is repaired"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := written(t, tc.spec, tc.status)
			if diff := cmp.Diff(tc.want, got.repair); diff != "" {
				t.Errorf("%s\nrepair (-want +got):\n%s", tc.reason, diff)
			}
			if got.problem != tc.problem {
				t.Errorf("the problem is %q, want %q", got.problem, tc.problem)
			}
		})
	}
}

// TestStoredRepairReadsAsWritten: a cache keeps the same of a Repair as its writer.
func TestStoredRepairReadsAsWritten(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rendered := render(someEntry().Draw(r, "entry"), "repairs")
		rendered.CreationTimestamp = metav1.NewTime(rendered.Spec.StartedAt.Truncate(time.Second))
		if diff := cmp.Diff(read(sent(r, rendered)), stored(t, rendered).repair); diff != "" {
			r.Errorf("repair (-written +stored):\n%s", diff)
		}
	})
}

// recorder keeps events as lines.
type recorder func(line string)

func (r recorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	ref := regarding.(*corev1.ObjectReference)
	r(strings.Join([]string{kind, reason, ref.Kind + " " + ref.Namespace + "/" + ref.Name, string(ref.UID), fmt.Sprintf(note, args...)}, "|"))
}

// TestUnparsableRepairIsReported: a Repair that can't be read leads to one warning, and prevents nothing, not even a
// Repair of its name.
func TestUnparsableRepairIsReported(t *testing.T) {
	var logged []string
	in := informertest.New()
	in.SetSynced(true)
	w := &writer{}
	c := NewClient(Config{
		Informers: in, Writer: w, Wake: func(core.ClusterKey) {}, Log: logr.Discard(),
		Events: recorder(func(line string) { logged = append(logged, line) }),
	}).Store(core.ClusterKey{})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	aimless, late := written(t, `"m"`, `{}`), written(t, aSpec(`"startedAt": 5`), `{}`)
	aimless.Name = anEntry().Name
	for range 2 {
		in.Of("Repair").Handler.OnAdd(aimless, true)
		in.Of("Repair").Handler.OnAdd(late, true)
	}
	want := []string{
		`Warning|RepairIgnored|Repair machines/` + aimless.Name + `|r-uid|spec is "m" and can't be read; spec.target does not say what is repaired: ` +
			`only Fettle makes Repairs, and this one is ignored; delete it, and see who may write Repairs in its namespace`,
		`Warning|RepairUnreadable|Repair machines/` + ofM + `|r-uid|spec.startedAt is 5 and can't be read: what can be read of it counts; delete it if a user made it by hand`,
	}
	if diff := cmp.Diff(want, logged); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if entries, _ := c.Repairs(); len(entries) != 1 || entries[0].Name != ofM {
		t.Errorf("the entries are %+v; want the Repair that has a target", entries)
	}
	r, created, err := c.Create(t.Context(), anEntry())
	if want := core.NextRepairName(aimless.Name, aTarget); !created || err != nil || r.Name != want {
		t.Errorf("recording a repair whose name an ignored one has gives %q, %t, %v; want the next name, %q", r.Name, created, err, want)
	}
}

// FuzzReadRepair: any content of a Repair is read, and the problem is safe to show.
func FuzzReadRepair(f *testing.F) {
	for _, seed := range [][2]string{
		{aSpec(), `{"phase": "Running", "attempts": 3, "lastAttempt": "2026-08-03T12:00:00Z"}`},
		{aSpec(`"startedAt": "9999-12-31T23:59:59Z"`), `{"phase": "Succeeded", "finishedAt": "0000-01-01T00:00:00Z"}`},
		{aSpec(`"retry": -5`), `{"phase": 7, "attempts": -1}`}, {aSpec(`"target": "m"`), `{"attempts": 1e308}`}, {`"m"`, `[]`}, {`null`, `null`},
		{`{"target": {"kind": "Machine", "uid": "m-uid"}}`, `{"phase": "Withdrawn"}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, spec, status []byte) {
		if !json.Valid(spec) || !json.Valid(status) {
			return
		}
		p := written(t, string(spec), string(status))
		if strings.ContainsAny(p.problem, "\n\x00") || !utf8.ValidString(p.problem) || len(p.problem) > 2000 {
			t.Errorf("the problem can't be told: %q", p.problem)
		}
		r := p.repair
		if !p.counts() {
			return
		}
		if r.Started.IsZero() || (r.Outcome != 0 && r.Running()) || r.Started.After(p.CreationTimestamp.Add(maxClockSkew)) {
			t.Errorf("a repair that makes no sense: %+v", r)
		}
		core.Retention{For: time.Hour, Max: 1}.Expired(&core.Cluster{Repairs: []core.Repair{r}}, nil, noon)
	})
}
