package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

var (
	errDown   = errors.New("the API server is down")
	repairs   = schema.GroupResource{Group: "fettle.io", Resource: "repairs"}
	errGone   = apierrors.NewNotFound(repairs, "r")
	errExists = apierrors.NewAlreadyExists(repairs, "r")
)

// writer answers every write of an object the same, and keeps what was written as lines.
type writer struct {
	client.Client

	answer error
	// first are answered instead, one for each of the first writes.
	first []error
	lines []string
	// uncounted has revisions that are no numbers.
	uncounted bool
}

func (w *writer) write(verb string, obj client.Object, body string) error {
	w.lines = append(w.lines, strings.TrimSpace(verb+" "+obj.GetNamespace()+"/"+obj.GetName()+" "+body))
	if len(w.first) == 0 {
		return w.answer
	}
	answer := w.first[0]
	w.first = w.first[1:]
	return answer
}

func (w *writer) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return w.write("create", obj, "")
}

func (w *writer) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var of client.DeleteOptions
	body, err := json.Marshal(of.ApplyOptions(opts).Preconditions)
	if err != nil {
		return err
	}
	return w.write("delete", obj, string(body))
}

func (w *writer) Status() client.SubResourceWriter { return statusWriter{writer: w} }

type statusWriter struct {
	client.SubResourceWriter

	writer *writer
}

func (s statusWriter) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	body, err := patch.Data(obj)
	if err != nil {
		return err
	}
	obj.SetResourceVersion("9")
	if s.writer.uncounted {
		obj.SetResourceVersion("of another kind")
	}
	return s.writer.write("patch", obj, string(body))
}

func TestWatching(t *testing.T) {
	woken := 0
	in := informertest.New()
	c := NewClient(Config{Informers: in, Wake: func(core.ClusterKey) { woken++ }, Log: logr.Discard()}).Store(core.ClusterKey{})
	if _, inStep := c.Repairs(); inStep != core.Unknown || c.HasSynced() {
		t.Errorf("nothing is watched, yet it is in step: %s", inStep)
	}
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	if entries, inStep := c.Repairs(); inStep != core.Unknown || c.HasSynced() || len(entries) > 0 {
		t.Errorf("the cache is not filled, yet it is in step: %s", inStep)
	}
	in.SetSynced(true)
	wakes := func(sentence string, want int, event func()) {
		t.Helper()
		woken = 0
		event()
		if woken != want {
			t.Errorf("%s woke the engine %d times, want %d", sentence, woken, want)
		}
	}
	r := render(anEntry(), "")
	ended := r.DeepCopy()
	ended.Status.Phase = "Succeeded"
	wakes("a repair that has ended", 0, func() { in.Of("Repair").Handler.OnAdd(stored(t, ended), false) })
	in.Of("Repair").Handler.OnDelete(stored(t, ended))
	wakes("a repair that runs", 1, func() { in.Of("Repair").Handler.OnAdd(stored(t, r), false) })
	tried := r.DeepCopy()
	tried.Status.Attempts = 1
	wakes("how far it has come", 1, func() { in.Of("Repair").Handler.OnUpdate(stored(t, r), stored(t, tried)) })
	recovered := r.DeepCopy()
	recovered.Status.RecoveredAt = &metav1.MicroTime{Time: noon.Add(time.Minute)}
	wakes("that its target has recovered", 1, func() { in.Of("Repair").Handler.OnUpdate(stored(t, tried), stored(t, recovered)) })
	wakes("the same once more", 0, func() { in.Of("Repair").Handler.OnUpdate(stored(t, recovered), stored(t, recovered)) })
	wakes("that it has not", 1, func() { in.Of("Repair").Handler.OnUpdate(stored(t, recovered), stored(t, r)) })
	in.Of("Repair").Handler.OnUpdate(stored(t, r), stored(t, tried))
	entries, inStep := c.Repairs()
	if diff := cmp.Diff([]core.Repair{read(sent(t, tried))}, entries); diff != "" || inStep != core.Yes {
		t.Errorf("in step: %s; entries (-want +got):\n%s", inStep, diff)
	}
	wakes("a deletion that was seen late", 1, func() {
		in.Of("Repair").Handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: r.Namespace + "/" + r.Name, Obj: stored(t, r)})
	})
	wakes("what no watch delivers", 0, func() { in.Of("Repair").Handler.OnAdd("a word", false); in.Of("Repair").Handler.OnDelete("a word") })
	if entries, _ := c.Repairs(); len(entries) > 0 {
		t.Errorf("what was deleted is still there: %+v", entries)
	}
}

// TestEntriesAreTheTakers: a pass writes over them.
func TestEntriesAreTheTakers(t *testing.T) {
	in := informertest.New()
	in.SetSynced(true)
	c := NewClient(Config{Informers: in, Wake: func(core.ClusterKey) {}}).Store(core.ClusterKey{})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	in.Of("Repair").Handler.OnAdd(stored(t, render(anEntry(), "")), true)
	first, _ := c.Repairs()
	first[0].Attempts = 9
	if second, _ := c.Repairs(); second[0].Attempts != 0 {
		t.Error("a change of what one pass was given shows in the next")
	}
}

func TestWatchingIsTriedAgain(t *testing.T) {
	in := informertest.New()
	in.Refuse["Repair"] = errDown
	c := NewClient(Config{Informers: in, Wake: func(core.ClusterKey) {}})
	if err := c.Watch(t.Context()); !errors.Is(err, errDown) || c.HasSynced() {
		t.Fatalf("a watch that fails gives %v", err)
	}
	delete(in.Refuse, "Repair")
	in.Of("Repair").Refuse = errDown
	if err := c.Watch(t.Context()); !errors.Is(err, errDown) || c.HasSynced() {
		t.Fatalf("a subscription that fails gives %v", err)
	}
	in.Of("Repair").Refuse = nil
	in.SetSynced(true)
	if err := c.Watch(t.Context()); err != nil || !c.HasSynced() {
		t.Fatalf("watching gives %v", err)
	}
	in.Of("Repair").Handler = nil
	if err := c.Watch(t.Context()); err != nil || in.Of("Repair").Handler != nil {
		t.Errorf("watching once more begins anew: %v", err)
	}
}

func TestOpen(t *testing.T) {
	name := "machines/" + anEntry().Name
	cases := map[string]struct {
		reason  string
		answer  error
		created bool
		fails   bool
	}{
		"recorded":             {"", nil, true, false},
		"another was first":    {"an ordinary answer: the API server lets one of two create it (I2)", errExists, false, false},
		"it can't be recorded": {"and so nothing is begun", errDown, false, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			w := &writer{answer: tc.answer}
			got, created, err := NewClient(Config{Writer: w}).Store(core.ClusterKey{}).Create(t.Context(), anEntry())
			if created != tc.created || (err != nil) != tc.fails || (tc.fails && !errors.Is(err, tc.answer)) {
				t.Errorf("created: %t, error: %v. %s", created, err, tc.reason)
			}
			want := core.Repair{}
			if tc.created {
				want = read(render(anEntry(), ""))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("repair (-want +got):\n%s", diff)
			}
			if !slices.Equal(w.lines, []string{"create " + name}) {
				t.Errorf("it did %q", w.lines)
			}
		})
	}
}

// TestTargetsWithoutNamespace have their repairs in a namespace that an installation creates, and Fettle does not.
func TestTargetsWithoutNamespace(t *testing.T) {
	homeless := func(e *core.NewRepair) {
		e.Target.ID.Kind, e.Target.ID.Namespace, e.Target.Node.Name, e.Target.Owner, e.Policy.ID.Namespace = "Node", "", aTarget.Name, core.ID{}, ""
		e.Name = core.RepairName(e.Target.ID, 3)
	}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "repairs")
	open := "create repairs/" + anEntry(homeless).Name
	cases := map[string]struct {
		reason  string
		entry   core.NewRepair
		answers []error
		did     []string
		says    string
	}{
		"it is there": {"", anEntry(homeless), []error{nil}, []string{open}, ""},
		"it is missing": {
			"the error names the command", anEntry(homeless), []error{missing}, []string{open},
			"namespace repairs of --repair-namespace is missing; create it with: kubectl create namespace repairs",
		},
		"the definition is missing":          {"no namespace would help", anEntry(homeless), []error{errGone}, []string{open}, "not found"},
		"another's namespace is missing now": {"it is its target's, which is gone", anEntry(), []error{missing}, []string{"create machines/" + anEntry().Name}, "not found"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			w := &writer{first: tc.answers, answer: errDown}
			got, created, err := NewClient(Config{Namespace: "repairs", Writer: w}).Store(core.ClusterKey{}).Create(t.Context(), tc.entry)
			if created != (tc.says == "") || (err != nil) != (tc.says != "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("created: %t, error: %v, want an error with %q. %s", created, err, tc.says, tc.reason)
			}
			if created && (got.Namespace != "repairs" || got.Target != tc.entry.Target.ID) {
				t.Errorf("the repair is in %q and about %s", got.Namespace, got.Target)
			}
			if diff := cmp.Diff(tc.did, w.lines); diff != "" {
				t.Errorf("%s\ncalls (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAmendAndDrop(t *testing.T) {
	r := core.Repair{Namespace: "machines", Name: "r", UID: "r-uid", Ended: noon, Outcome: core.Succeeded, Revision: 7}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": "7"}, "status": map[string]any{
		"phase": "Succeeded", "message": "it is gone", "finishedAt": noon.UTC().Format(time.RFC3339),
		"recoveredAt": nil, "begunAt": nil, "answer": nil, "attempts": nil, "lastAttempt": nil,
	}})
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	cases := map[string]struct {
		reason string
		answer error
		fails  bool
	}{
		"it is written":       {"", nil, false},
		"another deleted it":  {"there is nothing to amend or to drop", errGone, false},
		"it can't be written": {"", errDown, true},
		"a right is missing":  {"", apierrors.NewForbidden(repairs, "r", errors.New("no")), true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			w := &writer{answer: tc.answer}
			c := NewClient(Config{Writer: w})
			_, written, amended := c.Update(t.Context(), r, "it is gone", nil)
			gone, dropped := c.Delete(t.Context(), r)
			if gone == tc.fails {
				t.Errorf("it is deleted: %t. %s", gone, tc.reason)
			}
			if written == tc.fails {
				t.Errorf("it is written: %t. %s", written, tc.reason)
			}
			for verb, err := range map[string]error{"amending": amended, "dropping": dropped} {
				if (err != nil) != tc.fails || (tc.fails && !errors.Is(err, tc.answer)) {
					t.Errorf("%s gives %v, want an error: %t. %s", verb, err, tc.fails, tc.reason)
				}
			}
			if want := []string{"patch machines/r " + sorted(t, string(body)), "delete machines/r " + sorted(t, `{"uid":"r-uid","resourceVersion":"7"}`)}; !slices.Equal(want, resorted(t, w.lines)) {
				t.Errorf("it did %q, want %q", w.lines, want)
			}
		})
	}
}

// TestDropInsistsOnWhatWasRead: an entry that has changed since, and another one of its name, stay.
func TestDropInsistsOnWhatWasRead(t *testing.T) {
	conflict := apierrors.NewConflict(repairs, "r", errors.New("the UID in the precondition does not match"))
	cases := map[string]struct {
		repair  core.Repair
		answer  error
		dropped bool
		want    string
	}{
		"as it was read":        {core.Repair{UID: "r-uid", Revision: 7}, nil, true, `{"uid":"r-uid","resourceVersion":"7"}`},
		"changed or another":    {core.Repair{UID: "r-uid", Revision: 7}, conflict, false, `{"uid":"r-uid","resourceVersion":"7"}`},
		"of an unknown version": {core.Repair{UID: "r-uid"}, nil, true, `{"uid":"r-uid"}`},
		"of an unknown UID":     {core.Repair{Revision: 7}, conflict, false, `{"uid":"","resourceVersion":"7"}`},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			w := &writer{answer: tc.answer}
			tc.repair.Namespace, tc.repair.Name = "machines", "r"
			if dropped, err := NewClient(Config{Writer: w}).Delete(t.Context(), tc.repair); dropped != tc.dropped || err != nil {
				t.Errorf("it is deleted: %t, with the error %v", dropped, err)
			}
			if want := []string{"delete machines/r " + tc.want}; !slices.Equal(want, w.lines) {
				t.Errorf("it did %q, want %q", w.lines, want)
			}
		})
	}
}

// TestAmendmentOfAnOlderVersion: the API server refuses it, which is no error. An accepted amendment returns the next revision.
// A value that is not known is no precondition.
func TestAmendmentOfAnOlderVersion(t *testing.T) {
	conflict := apierrors.NewConflict(repairs, "r", errors.New("it has been modified"))
	cases := map[string]struct {
		reason         string
		revision       uint64
		answer         error
		uncounted      bool
		written, fails bool
		want           uint64
	}{
		"it is the latest":            {"", 7, nil, false, true, false, 9},
		"another has written since":   {"the next pass goes by what they wrote", 7, conflict, false, false, false, 0},
		"another has deleted it":      {"there is nothing to go on from", 7, errGone, false, true, false, 7},
		"nothing is known":            {"nothing is insisted on", 0, nil, false, true, false, 9},
		"nothing was insisted on":     {"something else is in conflict", 0, conflict, false, false, true, 0},
		"revisions that don't count":  {"the next one does not insist", 7, nil, true, true, false, 0},
		"the API server can't answer": {"", 7, errDown, false, false, true, 0},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			w := &writer{answer: tc.answer, uncounted: tc.uncounted}
			got, written, err := NewClient(Config{Writer: w}).Update(t.Context(), core.Repair{Namespace: "machines", Name: "r", Revision: tc.revision}, "", nil)
			if written != tc.written || (err != nil) != tc.fails || got.Revision != tc.want {
				t.Errorf("it is written: %t, as revision %d, with the error %v; want %t, %d and an error: %t. %s",
					written, got.Revision, err, tc.written, tc.want, tc.fails, tc.reason)
			}
			if insists := strings.Contains(w.lines[0], "resourceVersion"); insists != (tc.revision != 0) {
				t.Errorf("it insists on a revision: %t; %s", insists, w.lines[0])
			}
		})
	}
}

// sorted writes JSON with its keys in order.
func sorted(t *testing.T, body string) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(body), &tree); err != nil {
		t.Fatalf("decoding %s: %v", body, err)
	}
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	return string(out)
}

func resorted(t *testing.T, lines []string) []string {
	t.Helper()
	out := slices.Clone(lines)
	for i, line := range out {
		if at := strings.IndexByte(line, '{'); at >= 0 {
			out[i] = line[:at] + sorted(t, line[at:])
		}
	}
	return out
}

// stored is a Repair as the API server has it and a cache keeps it.
func stored(t *testing.T, r *v1alpha1.Repair) *record {
	t.Helper()
	r = r.DeepCopy()
	r.SetGroupVersionKind(repairKind)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		t.Fatalf("converting a Repair: %v", err)
	}
	out, isRepair := Trim(&unstructured.Unstructured{Object: object}, "repairs")
	if !isRepair {
		t.Fatalf("it is not known for a Repair: %v", object)
	}
	return out.(*record)
}

func TestTrim(t *testing.T) {
	other := &unstructured.Unstructured{}
	other.SetAPIVersion("machine.openshift.io/v1beta1")
	other.SetKind("Repair")
	for _, obj := range []any{nil, "a word", other, render(anEntry(), "")} {
		if got, isRepair := Trim(obj, "repairs"); isRepair || got != obj {
			t.Errorf("trimming a %T gives %v, %t", obj, got, isRepair)
		}
	}
	r := render(anEntry(), "")
	r.ManagedFields, r.Annotations = []metav1.ManagedFieldsEntry{{Manager: "fettle"}}, map[string]string{"a": "b"}
	r.ResourceVersion, r.UID = "7", "r-uid"
	p := stored(t, r)
	if len(p.ManagedFields)+len(p.Annotations) > 0 || p.Namespace != "machines" || p.Name != r.Name || p.ResourceVersion != "7" || p.UID != "r-uid" {
		t.Errorf("trimmed to %+v", p)
	}
	if diff := cmp.Diff(p, p.DeepCopyObject(), cmp.AllowUnexported(record{}, ignoreReason{})); diff != "" {
		t.Errorf("a copy differs (-original +copy):\n%s", diff)
	}
}
