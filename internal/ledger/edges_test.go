package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestI15NamesOfARepairAreBounded: each name in a Repair may have twice the length of a name, and no more.
func TestI15NamesOfARepairAreBounded(t *testing.T) {
	names := map[string]func(*repairSpec) *string{
		"target.kind":      func(s *repairSpec) *string { return &s.Target.Kind },
		"target.namespace": func(s *repairSpec) *string { return &s.Target.Namespace },
		"target.name":      func(s *repairSpec) *string { return &s.Target.Name },
		"target.uid":       func(s *repairSpec) *string { return &s.Target.UID },
		"target.node":      func(s *repairSpec) *string { return &s.Target.Node },
		"cluster":          func(s *repairSpec) *string { return &s.Cluster },
		"holder":           func(s *repairSpec) *string { return &s.Holder },
		"policy.kind":      func(s *repairSpec) *string { return &s.Policy.Kind },
		"policy.namespace": func(s *repairSpec) *string { return &s.Policy.Namespace },
		"policy.name":      func(s *repairSpec) *string { return &s.Policy.Name },
		"policy.uid":       func(s *repairSpec) *string { return &s.Policy.UID },
		"owner.name":       func(s *repairSpec) *string { return &s.Owner.Name },
		"remedy":           func(s *repairSpec) *string { return &s.Ladder[0].Remedy },
		"apiVersion":       func(s *repairSpec) *string { return &s.Ladder[0].Template.APIVersion },
		"template.kind":    func(s *repairSpec) *string { return &s.Ladder[0].Template.Kind },
		"namespace":        func(s *repairSpec) *string { return &s.Ladder[0].Template.Namespace },
		"name":             func(s *repairSpec) *string { return &s.Ladder[0].Template.Name },
	}
	for name, field := range names {
		spec := repairSpec{Owner: &v1alpha1.ObjectReference{}, Ladder: []v1alpha1.RepairStep{{Template: &v1alpha1.TemplateReference{}}}}
		*field(&spec) = strings.Repeat("x", 2*maxNameLength)
		if exceeds(&spec, &repairStatus{}) {
			t.Errorf("%s of %d characters is too long", name, 2*maxNameLength)
		}
		*field(&spec) += "x"
		if !exceeds(&spec, &repairStatus{}) {
			t.Errorf("%s of %d characters is short enough", name, 2*maxNameLength+1)
		}
	}
}

func TestI15StepsOfARepairAreBounded(t *testing.T) {
	for n, want := range map[int]bool{maxSteps: false, maxSteps + 1: true} {
		if got := exceeds(&repairSpec{Ladder: make([]v1alpha1.RepairStep, n)}, &repairStatus{}); got != want {
			t.Errorf("%d steps exceed the bound: %t", n, got)
		}
		if got := exceeds(&repairSpec{}, &repairStatus{Steps: make([]attempt, n)}); got != want {
			t.Errorf("%d steps that were given up exceed the bound: %t", n, got)
		}
	}
}

func TestI14WhichRepairsAreIgnored(t *testing.T) {
	target := core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
	node := core.ID{Kind: "Node", Name: "n", UID: "n-uid"}
	spec := func(of core.ID, changes ...func(*repairSpec)) repairSpec {
		s := repairSpec{Target: repairTarget{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, UID: of.UID}, Policy: v1alpha1.ObjectReference{Namespace: of.Namespace}}
		if of.Kind == nodeKind {
			s.Target.Node = of.Name
		}
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	for name, tc := range map[string]struct {
		of        core.ID
		namespace string
		home      string
		change    func(*repairSpec)
		want      string
		says      string
	}{
		"as Fettle writes it":              {of: target, namespace: "machines", home: "repairs"},
		"of a workload cluster":            {of: target, namespace: "machines", home: "repairs", change: func(s *repairSpec) { s.Cluster = "east" }},
		"without a kind":                   {of: target, namespace: "machines", change: func(s *repairSpec) { s.Target.Kind = "" }, want: unreadable},
		"without a UID":                    {of: target, namespace: "machines", change: func(s *repairSpec) { s.Target.UID = "" }, want: unreadable},
		"of a node, in the home namespace": {of: node, namespace: "repairs", home: "repairs"},
		"of a node, and home is unknown":   {of: node, namespace: "elsewhere"},
		"of a node, in another namespace":  {of: node, namespace: "elsewhere", home: "repairs", want: wrongNamespace},
		"of a node of a workload cluster":  {of: node, namespace: "repairs", home: "repairs", change: func(s *repairSpec) { s.Cluster = "east" }, want: inconsistent},
		"too large": {
			of: target, namespace: "machines", change: func(s *repairSpec) { s.Holder = strings.Repeat("x", 1000) }, want: tooLarge,
			says: "it has more than 100 steps, or a name in its spec that is longer than 253 characters",
		},
	} {
		s := spec(tc.of)
		if tc.change != nil {
			tc.change(&s)
		}
		got := ignoreReasonOf(&metav1.ObjectMeta{Namespace: tc.namespace, Name: core.RepairName(tc.of, 1)}, &s, &repairStatus{}, tc.home)
		if got.reason != tc.want || (tc.says != "" && got.text != tc.says) {
			t.Errorf("a Repair %s is ignored as %q: %s", name, got.reason, got.text)
		}
	}
}

// TestClustersAreNotified: the ledger reports each change of a Repair of a workload cluster, and none of its own cluster.
func TestClustersAreNotified(t *testing.T) {
	c, in, told := ledgerOf(t)
	c.ClusterChanged = func() { *told = append(*told, "changed") }
	handler := in.Of("Repair").Handler
	did := func(sentence string, want []string, event func()) {
		t.Helper()
		*told = nil
		event()
		if !slices.Equal(*told, want) {
			t.Errorf("%s: the ledger reports %q, want %q", sentence, *told, want)
		}
	}
	own, other := written(t, aSpec(), `{}`), written(t, aSpec(`"cluster": "east"`), `{}`)
	did("a Repair of its own cluster", []string{"woken"}, func() { handler.OnAdd(own, false) })
	did("it is gone", []string{"woken"}, func() { handler.OnDelete(own) })
	did("a Repair of a workload cluster", []string{"changed", "woken"}, func() { handler.OnAdd(other, false) })
	did("it is gone too", []string{"changed", "woken"}, func() { handler.OnDelete(other) })
	did("a Repair that is not there is deleted", nil, func() { handler.OnDelete(other) })
	did("objects of other types", nil, func() { handler.OnAdd("a word", false); handler.OnDelete("a word") })
	c.ClusterChanged = nil
	did("nothing is to be notified", []string{"woken"}, func() { handler.OnAdd(other, false) })
	if !c.HasSynced() {
		t.Error("an event has broken the watch")
	}
}

// TestChangedProblemIsReported: a Repair is reported once for each problem. An ignored Repair wakes nothing, whatever it
// was before.
func TestChangedProblemIsReported(t *testing.T) {
	_, in, told := ledgerOf(t)
	handler := in.Of("Repair").Handler
	one, other := written(t, aSpec(`"retry": "often"`), `{}`), written(t, aSpec(`"retry": []`), `{}`)
	handler.OnAdd(one, false)
	handler.OnUpdate(one, one)
	handler.OnUpdate(one, other)
	if events := slices.DeleteFunc(*told, func(line string) bool { return line == "woken" }); len(events) != 2 {
		t.Errorf("the ledger reports %q, want two events", events)
	}
	tried := written(t, aSpec(), `{"begunAt": "2026-08-03T12:01:00Z"}`)
	ignored := written(t, aSpec(`"policy": {}`), `{}`)
	*told = nil
	handler.OnUpdate(other, tried)
	handler.OnUpdate(tried, ignored)
	if got := *told; len(got) != 2 || got[0] != "woken" || !strings.Contains(got[1], "RepairIgnored") {
		t.Errorf("the ledger reports %q", got)
	}
}

func TestWarningsAreLimitedByScope(t *testing.T) {
	limits := warningLimits{}
	scope := func(i int) warningScope { return warningScope{namespace: fmt.Sprint("n", i), counts: true} }
	for i := range maxWarningScopes {
		limits.allow(scope(i))
	}
	allowed := 0
	for i := range 2 * warningBurst {
		if limits.allow(scope(maxWarningScopes + i)) {
			allowed++
		}
	}
	if allowed != warningBurst || len(limits) != maxWarningScopes+1 {
		t.Errorf("beyond the bound %d warnings are allowed, and there are %d scopes", allowed, len(limits))
	}
	if !limits.allow(scope(0)) || len(limits) != maxWarningScopes+1 {
		t.Error("a scope within the bound has lost its limit")
	}
	if rate := limits[scope(0)].QPS(); rate != warningRate {
		t.Errorf("%v warnings are allowed in a second", rate)
	}
}

func TestMissingNamespaceIsRecognised(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"none":                    {nil, false},
		"the namespace":           {apierrors.NewNotFound(namespaces, "repairs"), true},
		"wrapped":                 {fmt.Errorf("creating: %w", apierrors.NewNotFound(namespaces, "repairs")), true},
		"another object":          {apierrors.NewNotFound(repairs, "r"), false},
		"forbidden":               {apierrors.NewForbidden(namespaces, "repairs", errDown), false},
		"no details":              {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound}}, false},
		"not by the API server":   {errDown, false},
		"another kind of problem": {apierrors.NewConflict(namespaces, "repairs", errDown), false},
	} {
		if got := lacksNamespace(tc.err); got != tc.want {
			t.Errorf("%s: the namespace is missing: %t", name, got)
		}
	}
	w := &writer{answer: apierrors.NewNotFound(namespaces, "machines")}
	if _, _, err := NewClient(Config{Namespace: "repairs", Writer: w}).Store(core.ClusterKey{}).Create(t.Context(), anEntry()); err == nil || strings.Contains(err.Error(), "--repair-namespace") {
		t.Errorf("the namespace of a machine is missing, and the error is %v", err)
	}
}

// capturing keeps the objects that were written.
type capturing struct {
	writer

	objects []client.Object
}

func (c *capturing) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	c.objects = append(c.objects, obj)
	return c.answer
}

func (c *capturing) Status() client.SubResourceWriter {
	return capturingStatus{statusWriter{writer: &c.writer}, c}
}

type capturingStatus struct {
	statusWriter

	of *capturing
}

func (s capturingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	s.of.objects = append(s.of.objects, obj)
	return s.statusWriter.Patch(ctx, obj, patch, opts...)
}

// TestWritesNameKindClusterAndRevision: the API server needs the kind and the revision, and readers the cluster.
func TestWritesNameKindClusterAndRevision(t *testing.T) {
	w := &capturing{}
	store := NewClient(Config{Writer: w}).Store(core.ClusterKey{Namespace: "machines", Name: "east"})
	if _, created, err := store.Create(t.Context(), anEntry()); !created || err != nil {
		t.Fatalf("created: %t (%v)", created, err)
	}
	if r, ok := w.objects[0].(*v1alpha1.Repair); !ok || r.Spec.Cluster != "east" {
		t.Errorf("the Repair is %+v", w.objects[0])
	}
	r := core.Repair{Namespace: "machines", Name: "r", UID: "r-uid", Revision: 1234, StepState: core.StepState{Answer: "not yet"}}
	if _, _, err := store.Update(t.Context(), r, "", nil); err != nil {
		t.Fatalf("updating: %v", err)
	}
	if kind := w.objects[1].GetObjectKind().GroupVersionKind(); kind != repairKind {
		t.Errorf("the kind of what is patched is %s", kind)
	}
	if _, err := store.Delete(t.Context(), r); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	if !strings.Contains(w.lines[0], `"resourceVersion":"1234"`) || !strings.Contains(w.lines[0], `"answer":"not yet"`) || !strings.Contains(w.lines[1], `"resourceVersion":"1234"`) {
		t.Errorf("the writes are %q", w.lines)
	}
}

// TestNameOfACountingRepairIsKept: another leader may have created it, and then the API server refuses the name.
func TestNameOfACountingRepairIsKept(t *testing.T) {
	c, in, _ := ledgerOf(t)
	in.Of("Repair").Handler.OnAdd(stored(t, render(anEntry(), "")), false)
	w := &writer{answer: errExists}
	c.Writer = w
	if _, created, err := c.Store(core.ClusterKey{}).Create(t.Context(), anEntry()); created || err != nil || !slices.Equal(w.lines, []string{"create machines/" + anEntry().Name}) {
		t.Errorf("created: %t (%v), by %q", created, err, w.lines)
	}
}

// TestIndexKeepsNothingOfWhatIsGone: of waiting Repairs one takes each free place, and one may go before it has a place.
func TestIndexKeepsNothingOfWhatIsGone(t *testing.T) {
	c, in, _ := ledgerOf(t)
	east := core.ClusterKey{Namespace: "machines", Name: "east"}
	pages := flood(in, east, "machines", maxInNamespace+5, noon)
	handler := in.Of("Repair").Handler
	for i, want := range []float64{4, 3} {
		handler.OnDelete(pages[i])
		if got := ignoredOf(t, c)[tooMany]; got != want || c.index.counts[bucket{east, "machines"}] != maxInNamespace {
			t.Fatalf("%v wait, want %v; %d count", got, want, c.index.counts[bucket{east, "machines"}])
		}
	}
	for key := range c.index.waiting[bucket{east, "machines"}] {
		handler.OnDelete(c.index.records[key])
		break
	}
	if got := ignoredOf(t, c)[tooMany]; got != 2 {
		t.Errorf("%v wait after one of them has gone", got)
	}
	for _, p := range pages {
		handler.OnDelete(p)
	}
	i := &c.index
	if len(i.records)+len(i.counting)+len(i.since)+len(i.counts)+len(i.waiting) > 0 || ignoredOf(t, c)[tooMany] != 0 {
		t.Errorf("the index keeps %d records, %d counting clusters, %d times, %d counts, %d waiting", len(i.records), len(i.counting), len(i.since), len(i.counts), len(i.waiting))
	}
}

func TestCountsStayWhileAnyRepairIsLeft(t *testing.T) {
	c, in, _ := ledgerOf(t)
	east := core.ClusterKey{Namespace: "machines", Name: "east"}
	pages := flood(in, east, "machines", 2, noon)
	in.Of("Repair").Handler.OnDelete(pages[0])
	if got := c.index.counts[bucket{east, "machines"}]; got != 1 || len(c.Clusters()) != 1 {
		t.Errorf("%d are counted, and %v have Repairs", got, c.Clusters())
	}
}

func TestClustersAreSorted(t *testing.T) {
	c, in, _ := ledgerOf(t)
	keys := []core.ClusterKey{{Namespace: "a", Name: "late"}, {Namespace: "b", Name: "x"}, {Namespace: "a", Name: "y"}, {Namespace: "a", Name: "x"}, {Namespace: "b", Name: "early"}}
	created := map[string]time.Time{"late": noon.Add(time.Hour), "early": noon.Add(-time.Hour)}
	for _, key := range keys {
		at := noon
		if other, has := created[key.Name]; has {
			at = other
		}
		flood(in, key, key.Namespace, 1, at)
	}
	want := []core.ClusterKey{{Namespace: "a", Name: "x"}, {Namespace: "a", Name: "y"}, {Namespace: "a", Name: "late"}, {Namespace: "b", Name: "early"}, {Namespace: "b", Name: "x"}}
	for range 2 {
		if diff := cmp.Diff(want, c.Clusters()); diff != "" {
			t.Errorf("the clusters (-want +got):\n%s", diff)
		}
	}
}

func TestMetricIsDescribed(t *testing.T) {
	out := make(chan *prometheus.Desc, 2)
	NewClient(Config{}).Describe(out)
	if len(out) != 1 || !strings.Contains((<-out).String(), "fettle_repairs_ignored") {
		t.Error("the metric is not described")
	}
}

// listing answers each list the same, and keeps the kinds of the lists.
type listing struct {
	client.Reader

	err   error
	kinds []schema.GroupVersionKind
}

func (l *listing) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	l.kinds = append(l.kinds, into.GetObjectKind().GroupVersionKind())
	return l.err
}

func TestListOfRunningRepairs(t *testing.T) {
	for _, answer := range []error{nil, errDown} {
		live := &listing{err: answer}
		_, err := NewClient(Config{Live: live}).Store(core.ClusterKey{}).Running(t.Context())
		if !errors.Is(err, answer) || !slices.Equal(live.kinds, []schema.GroupVersionKind{repairKind.GroupVersion().WithKind("RepairList")}) {
			t.Errorf("lists of %v return %v, want %v", live.kinds, err, answer)
		}
	}
}

func TestCopyOfARecordSharesNothing(t *testing.T) {
	p := written(t, aSpec(), `{}`)
	p.DeletionTimestamp = &metav1.Time{Time: noon}
	c, ok := p.DeepCopyObject().(*record)
	if !ok || c.DeletionTimestamp == p.DeletionTimestamp || !c.DeletionTimestamp.Equal(p.DeletionTimestamp) {
		t.Errorf("the copy is %+v", c)
	}
}

func TestProgressOfARepair(t *testing.T) {
	of := func(r core.Repair) *record { return &record{repair: r} }
	none, ended := of(core.Repair{}), of(core.Repair{Ended: noon, Outcome: core.Withdrawn})
	tried := of(core.Repair{Tried: []core.StepRecord{{}}})
	for name, tc := range map[string]struct {
		now, old *record
		want     bool
	}{
		"new, and ended":             {ended, nil, false},
		"new, without progress":      {none, nil, true},
		"new, after calls":           {of(core.Repair{StepState: core.StepState{Attempts: 1}}), nil, true},
		"new, after a step":          {tried, nil, true},
		"new, recovered":             {of(core.Repair{Recovered: noon}), nil, true},
		"new, begun":                 {of(core.Repair{StepState: core.StepState{Begun: noon}}), nil, true},
		"new, ended after a step":    {of(core.Repair{Ended: noon, Tried: []core.StepRecord{{}}}), nil, true},
		"new, ended after it began":  {of(core.Repair{Ended: noon, StepState: core.StepState{Begun: noon}}), nil, true},
		"new, ended and recovered":   {of(core.Repair{Ended: noon, Recovered: noon}), nil, true},
		"unchanged":                  {tried, tried, false},
		"a step was given up":        {tried, none, true},
		"the target has recovered":   {of(core.Repair{Recovered: noon}), none, true},
		"the remedy has begun":       {of(core.Repair{StepState: core.StepState{Begun: noon}}), none, true},
		"the owner has answered":     {of(core.Repair{StepState: core.StepState{Answer: "no"}}), none, true},
		"the answer is taken back":   {none, of(core.Repair{StepState: core.StepState{Answer: "no"}}), true},
		"the recovery is taken back": {none, of(core.Repair{Recovered: noon}), true},
	} {
		if got := tc.now.hasProgressed(tc.old); got != tc.want {
			t.Errorf("%s: the repair has progressed: %t", name, got)
		}
	}
}

func TestI15TextsOfARepairHaveExactBounds(t *testing.T) {
	long := strings.Repeat("x", 5000)
	var wrong []string
	for i := range 40 {
		wrong = append(wrong, fmt.Sprintf(`"retry": "%s%d"`, long, i))
	}
	p := written(t, aSpec(wrong[0], `"startedAt": "`+long+`"`, `"holder": 7`, `"ladder": "`+long+`"`, `"requestedAt": "`+long+`"`, `"cluster": 7`, `"owner": "`+long+`"`, `"target": "`+long+`"`, `"policy": "`+long+`"`), `"`+long+`"`)
	if got := len(p.problem); got > maxProblem || got < maxProblem-8 {
		t.Errorf("a problem has %d bytes", got)
	}
	r := repairOf(&metav1.ObjectMeta{}, &repairSpec{Owner: &v1alpha1.ObjectReference{}, OwnerTemplate: long}, &repairStatus{Answer: long})
	if len(r.OwnerTemplate) != maxTemplate || len(r.Answer) != len(shortened(long)) || len(shortened(long)) != maxText {
		t.Errorf("a template has %d bytes, an answer %d, and a text %d", len(r.OwnerTemplate), len(r.Answer), len(shortened(long)))
	}
	if got := len(statusOf(core.Repair{}, "", errors.New(strings.Repeat("word ", 5000))).LastError); got > maxText || got < maxText-8 {
		t.Errorf("an error has %d bytes", got)
	}
}

func TestTimesOfARepairAreBounded(t *testing.T) {
	created := metav1.NewTime(noon)
	read := func(started, requested time.Duration) core.Repair {
		q := metav1.NewTime(noon.Add(started + requested))
		return repairOf(&metav1.ObjectMeta{CreationTimestamp: created}, &repairSpec{StartedAt: metav1.NewTime(noon.Add(started)), RequestedAt: &q}, &repairStatus{})
	}
	for _, skew := range []time.Duration{maxClockSkew, -maxClockSkew} {
		if r := read(skew, 0); !r.Started.Equal(noon.Add(skew)) {
			t.Errorf("a start within the skew is %s", r.Started)
		}
	}
	for _, skew := range []time.Duration{maxClockSkew + 1, -maxClockSkew - 1} {
		if r := read(skew, 0); !r.Started.Equal(noon) {
			t.Errorf("a start beyond the skew is %s", r.Started)
		}
	}
	if r := read(0, maxClockSkew-1); !r.Requested.Equal(noon.Add(maxClockSkew - 1)) {
		t.Errorf("a request within the skew is %s", r.Requested)
	}
	if r := read(0, maxClockSkew); !r.Requested.IsZero() {
		t.Errorf("a request in the future is %s", r.Requested)
	}
}

func TestSequenceAndRevision(t *testing.T) {
	finished := metav1.NewTime(noon)
	for name, tc := range map[string]struct {
		version string
		status  repairStatus
		want    uint64
	}{
		"created":      {"1234", repairStatus{}, 1234},
		"called once":  {"1234", repairStatus{Attempts: 1}, 0},
		"finished":     {"1234", repairStatus{FinishedAt: &finished}, 0},
		"reported":     {"1234", repairStatus{Message: "said"}, 0},
		"no number":    {"12a", repairStatus{}, 0},
		"out of range": {strings.Repeat("9", 30), repairStatus{}, 0},
	} {
		if got := sequence(&metav1.ObjectMeta{ResourceVersion: tc.version}, &tc.status); got != tc.want {
			t.Errorf("%s: the sequence is %d, want %d", name, got, tc.want)
		}
	}
}

// TestYearsThatAreWritten: a time of JSON has a year of four digits.
func TestYearsThatAreWritten(t *testing.T) {
	for since, want := range map[time.Time]bool{
		{}: false,
		time.Date(1, time.January, 2, 0, 0, 0, 0, time.UTC):      true,
		time.Date(0, time.December, 31, 0, 0, 0, 0, time.UTC):    false,
		time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC): true,
		time.Date(10000, time.January, 1, 0, 0, 0, 0, time.UTC):  false,
	} {
		r := render(anEntry(func(e *core.NewRepair) { e.Verdict.Since = since }), "")
		if got := r.Spec.UnhealthySince != nil; got != want {
			t.Errorf("since %s is written: %t", since, got)
		}
	}
}
