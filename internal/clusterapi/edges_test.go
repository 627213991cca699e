package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/slim"
)

// sharesMemory reports whether two texts are the same bytes in memory.
func sharesMemory(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }

// TestMetadataThatIsNone: metadata that can't be decoded is an error.
func TestMetadataThatIsNone(t *testing.T) {
	const body = `{"metadata":{"labels":7},"spec":{},"status":{}}`
	if err := (&Machine{}).UnmarshalJSON([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), "decoding a machine: ") {
		t.Errorf("decoding a machine returns %v", err)
	}
	if err := (&Cluster{}).UnmarshalJSON([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), "decoding a cluster: ") {
		t.Errorf("decoding a cluster returns %v", err)
	}
}

// TestI15LabelsOfAClusterAreBounded: a cluster with a label that is too long can't be read. The text comes after those of
// fields.
func TestI15LabelsOfAClusterAreBounded(t *testing.T) {
	c := &Cluster{}
	if err := c.UnmarshalJSON([]byte(`{"metadata":{"name":"c","labels":{"a":"` + strings.Repeat("x", maxWord+1) + `"}},"status":7}`)); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	want := "status is 7 and can't be read; it has a label whose key or value is longer than the 317 bytes that Fettle reads"
	if c.Unreadable != want {
		t.Errorf("reported is %q, want %q", c.Unreadable, want)
	}
}

// TestSameClusters: each field that decisions read makes two versions of a cluster differ, and no other does.
func TestSameClusters(t *testing.T) {
	since := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	plain := func() *Cluster {
		m := Milestone{Reached: true, Since: since}
		c := &Cluster{Paused: core.No, InfrastructureReady: m, ControlPlaneInitialized: m, Upgrade: Upgrade{core.No, "why"}, Unreadable: "x"}
		c.UID, c.ResourceVersion = "uid", "1"
		return c
	}
	for name, tc := range map[string]struct {
		change func(*Cluster)
		same   bool
	}{
		"nothing":                        {func(*Cluster) {}, true},
		"the revision":                   {func(c *Cluster) { c.ResourceVersion = "2" }, true},
		"the time zone":                  {func(c *Cluster) { c.InfrastructureReady.Since = since.In(time.FixedZone("east", 3600)) }, true},
		"the UID":                        {func(c *Cluster) { c.UID = "other" }, false},
		"the pause":                      {func(c *Cluster) { c.Paused = core.Yes }, false},
		"the problem":                    {func(c *Cluster) { c.Unreadable = "" }, false},
		"the upgrade":                    {func(c *Cluster) { c.Upgrade.Is = core.Yes }, false},
		"the sign of an upgrade":         {func(c *Cluster) { c.Upgrade.Why = "other" }, false},
		"the infrastructure":             {func(c *Cluster) { c.InfrastructureReady.Reached = false }, false},
		"the time of the infrastructure": {func(c *Cluster) { c.InfrastructureReady.Since = since.Add(time.Second) }, false},
		"the control plane":              {func(c *Cluster) { c.ControlPlaneInitialized.Reached = false }, false},
		"the time of the control plane":  {func(c *Cluster) { c.ControlPlaneInitialized.Since = since.Add(time.Second) }, false},
	} {
		a, b := plain(), plain()
		tc.change(b)
		if a.Same(b) != tc.same || b.Same(a) != tc.same {
			t.Errorf("%s differs: Same returns %t", name, a.Same(b))
		}
	}
}

// TestCopiesOfClustersAndLists: no copy shares the owner of its original.
func TestCopiesOfClustersAndLists(t *testing.T) {
	meta := func() slim.Meta { return slim.Meta{Name: "x", Owner: &slim.Owner{Name: "original"}} }
	cluster := &Cluster{Meta: meta(), Upgrade: Upgrade{Why: "why"}}
	machines := &MachineList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []Machine{{Meta: meta(), Node: "n"}}}
	clusters := &ClusterList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []Cluster{*cluster}}

	clusterCopy, _ := cluster.DeepCopyObject().(*Cluster)
	machinesCopy, _ := machines.DeepCopyObject().(*MachineList)
	clustersCopy, _ := clusters.DeepCopyObject().(*ClusterList)
	if clusterCopy.Upgrade != cluster.Upgrade || machinesCopy.ResourceVersion != "7" || clustersCopy.ResourceVersion != "7" ||
		machinesCopy.Items[0].Node != "n" || clustersCopy.Items[0].Name != "x" {
		t.Error("a copy differs from its original")
	}
	for name, m := range map[string]struct{ original, copied *slim.Meta }{
		"a cluster":          {&cluster.Meta, &clusterCopy.Meta},
		"a list of machines": {&machines.Items[0].Meta, &machinesCopy.Items[0].Meta},
		"a list of clusters": {&clusters.Items[0].Meta, &clustersCopy.Items[0].Meta},
	} {
		m.copied.Owner.Name = "other"
		if m.original.Owner.Name != "original" {
			t.Errorf("the copy of %s shares the owner", name)
		}
	}
}

// TestTypesAreInTheScheme, and the types of every API group are too.
func TestTypesAreInTheScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatalf("adding the types: %v", err)
	}
	for kind, want := range map[string]string{
		"Machine": "*clusterapi.Machine", "MachineList": "*clusterapi.MachineList", "Cluster": "*clusterapi.Cluster",
		"ClusterList": "*clusterapi.ClusterList", "ListOptions": "*v1.ListOptions", "WatchEvent": "*v1.WatchEvent",
	} {
		got, err := s.New(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind})
		if is := fmt.Sprintf("%T", got); err != nil || is != want {
			t.Errorf("the type of kind %s is %s, want %s: %v", kind, is, want, err)
		}
	}
}

func TestNamesOfLists(t *testing.T) {
	if Current.String() != "v1beta2" || Deprecated.String() != "v1beta1" {
		t.Errorf("the lists are called %s and %s", Current, Deprecated)
	}
}

// TestI15TextsOfConditionsAreBounded: no text of an owner or of a machine makes a message longer than its bound.
func TestI15TextsOfConditionsAreBounded(t *testing.T) {
	const reason, blanks = "Long", sanitize.MaxMessage - 100
	// says returns an answer of the owner. It is quoted JSON, so that blanks stay.
	says := func(reason, message string) *Machine {
		return read(t, plainMeta+`status: {conditions: [{type: OwnerRemediated, status: "False", reason: "`+reason+`", message: "`+message+`"}]}`)
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, tc := range map[string]struct{ got, want string }{
		"a finding": {
			HealthCheckFailed(&Machine{}, "w", []core.Verdict{{Reason: core.ConditionsMet, Detail: x(9000), Limit: time.Minute}})[Deprecated].Content.Message,
			"The " + x(sanitize.MaxMessage-len("The …")) + "…",
		},
		"a failure, whose blanks count": {
			oneLine(strings.Repeat(" ", blanks) + x(9000)), x(100-len("…")) + "…",
		},
		"a reason without a message": {
			says(x(9000), "").Answer(), "the machine's owner says " + x(sanitize.MaxMessage-len("the machine's owner says …")) + "…",
		},
		"a reason with a message": {
			says(x(9000), "no").Answer(), "the machine's owner says " + x(sanitize.MaxPart-len("the machine's owner says …")) + "…: no",
		},
		"a message": {
			says(reason, x(9000)).Answer(), "the machine's owner says Long: " + x(sanitize.MaxMessage-len("the machine's owner says Long: …")) + "…",
		},
		"a message, whose blanks count": {
			says(reason, strings.Repeat(" ", blanks)+x(9000)).Answer(), "the machine's owner says Long: " + x(100-len("…")) + "…",
		},
	} {
		if tc.got != tc.want {
			t.Errorf("%s is shown in %d bytes, want %d: %.60q", name, len(tc.got), len(tc.want), tc.got)
		}
	}
}

// TestFailureWithoutAText: the message says that the machine has failed, also if the machine does not say why.
func TestFailureWithoutAText(t *testing.T) {
	if got := HealthCheckFailed(&Machine{}, "w", []core.Verdict{{Reason: core.TargetFailed}})[Deprecated].Content.Message; got != "Machine has failed for good" {
		t.Errorf("the message is %q", got)
	}
}

// TestUnknownKindsAreTheSame: without a kind of the infrastructure the kinds are unknown, for any bootstrap object.
func TestUnknownKindsAreTheSame(t *testing.T) {
	of := func(kind string) *Machine {
		return read(t, plainMeta+"spec: {bootstrap: {configRef: {apiGroup: b.example, kind: "+kind+"}}}")
	}
	a, b := of("A"), of("B")
	var p PartsCache
	if !a.SameParts(b) || p.Parts(a) != nil || p.Parts(b) != nil {
		t.Errorf("the kinds are %+v and %+v", p.Parts(a), p.Parts(b))
	}
}

// TestLongKindsAreCompared: machines don't share words as long as these, and are of the same kinds nevertheless.
func TestLongKindsAreCompared(t *testing.T) {
	of := func(kind string) *Machine {
		return read(t, plainMeta+"spec: {infrastructureRef: {apiGroup: g.example, kind: "+kind+"}, bootstrap: {configRef: {apiGroup: b.example, kind: "+kind+"}}}")
	}
	long := strings.Repeat("K", 129)
	a, b := of(long), of(long)
	if a.refs == b.refs {
		t.Error("the machines share their kinds, and no kinds are compared")
	}
	if !a.SameParts(b) || a.SameParts(of(long+"K")) {
		t.Error("equal kinds differ, or different kinds are equal")
	}
}

// TestGroupOfAReference: the group of v1beta2 counts if both are given.
func TestGroupOfAReference(t *testing.T) {
	var p PartsCache
	m := read(t, plainMeta+"spec: {infrastructureRef: {apiGroup: g.example, apiVersion: old.example/v1, kind: X}}")
	if diff := cmp.Diff(&core.Parts{Kinds: []core.Kind{{Group: "g.example", Kind: "X"}}}, p.Parts(m)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// TestPartsAreKept: machines share the result for their kinds, also if others come in between.
func TestPartsAreKept(t *testing.T) {
	of := func(kind string) *Machine {
		return read(t, plainMeta+"spec: {infrastructureRef: {apiGroup: g.example, kind: "+kind+"}}")
	}
	var p PartsCache
	a := p.Parts(of("A"))
	if got := p.Parts(read(t, plainMeta)); got != nil {
		t.Errorf("the kinds of a machine without references are %+v", got)
	}
	b := p.Parts(of("B"))
	if p.Parts(of("A")) != a || p.Parts(of("B")) != b || a == b {
		t.Error("machines of the same kinds have different results")
	}
	for i := range maxKnown - 2 {
		p.Parts(of(fmt.Sprint("Other", i)))
	}
	if len(p.known) != maxKnown {
		t.Errorf("%d combinations are kept, want %d", len(p.known), maxKnown)
	}
	p.Parts(of("OneMore"))
	if len(p.known) != 1 {
		t.Errorf("%d combinations are kept after one too many, want it alone", len(p.known))
	}
}

// TestCurrentConditionsHaveNoSeverity: Patch drops the severity of a current condition, and a condition without it does not
// differ.
func TestCurrentConditionsHaveNoSeverity(t *testing.T) {
	changes := []Change{{Current, "HealthCheckSucceeded", &ConditionContent{Status: "False", Severity: "Warning", Reason: "UnhealthyNode", Message: "Health check failed:\n  * x"}}}
	if m := read(t, running); m.Differs(changes) || patchOf(t, m, changes) != "" {
		t.Errorf("the condition is written again: %s", patchOf(t, m, changes))
	}
	if patch := patchOf(t, read(t, plainMeta), changes); strings.Contains(patch, "severity") || patch == "" {
		t.Errorf("the patch has a severity, or there is none: %s", patch)
	}
}

// TestTransitionThatIsMissing: a condition that had no transition gets one, although its status stays.
func TestTransitionThatIsMissing(t *testing.T) {
	m := read(t, plainMeta+`status: {conditions: [{type: HealthCheckSucceeded, status: "True"}]}`)
	want := only + `{"op":"replace","path":"/status/conditions/0","value":{"type":"HealthCheckSucceeded","status":"True","observedGeneration":3,"lastTransitionTime":"2026-08-03T12:00:00Z","reason":"HealthCheckSucceeded","message":""}}]`
	if diff := cmp.Diff(want, patchOf(t, m, HealthCheckSucceeded()[:1])); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

// TestMissingPathsAreAdded: a patch adds the missing parts of the path to a list, and no part that exists.
func TestMissingPathsAreAdded(t *testing.T) {
	const (
		add        = `{"op":"add","path":"/status`
		deprecated = add + `/deprecated","value":{}},`
		v1beta1    = add + `/deprecated/v1beta1","value":{}},`
		conditions = add + `/deprecated/v1beta1/conditions","value":[]},`
		condition  = add + `/deprecated/v1beta1/conditions/-","value":{"type":"HealthCheckSucceeded","status":"True","lastTransitionTime":"2026-08-03T12:00:00Z"}}]`
	)
	for status, want := range map[string]string{
		"":                                    add + `","value":{}},` + deprecated + v1beta1 + conditions,
		"status: {}":                          deprecated + v1beta1 + conditions,
		"status: {deprecated: {}}":            v1beta1 + conditions,
		"status: {deprecated: {v1beta1: {}}}": conditions,
		"status: {deprecated: {v1beta1: {conditions: []}}}": "",
	} {
		got := patchOf(t, read(t, plainMeta+status), HealthCheckSucceeded()[1:])
		if diff := cmp.Diff(only+want+condition, got); diff != "" {
			t.Errorf("%q: patch (-want +got):\n%s", status, diff)
		}
	}
}

// TestNodeOfTheSameName: the machine and the reference to its node share one text.
func TestNodeOfTheSameName(t *testing.T) {
	m := read(t, strings.Replace(plainMeta, "name: m", "name: worker-1", 1)+"status: {nodeRef: {name: worker-1}}")
	if !sharesMemory(m.Node, m.Name) {
		t.Errorf("node %q and machine %q are two texts", m.Node, m.Name)
	}
}

// TestI15WordsOfConditionsAreBounded: each word of a condition may be as long as its bound, and no longer.
func TestI15WordsOfConditionsAreBounded(t *testing.T) {
	for name, condition := range map[string]string{
		"the type":   `{type: WORD, status: "True"}`,
		"the status": `{type: Ready, status: WORD}`,
	} {
		with := func(n int) *Machine {
			word := strings.Repeat("x", n)
			return read(t, plainMeta+`status: {conditions: [{type: First, status: "True"}, `+strings.Replace(condition, "WORD", word, 1)+`, {type: Last, status: "True"}]}`)
		}
		if m := with(maxWord); m.Unreadable != "" || len(m.Conditions) != 3 {
			t.Errorf("%s of %d bytes: %d conditions are kept, and reported is %q", name, maxWord, len(m.Conditions), m.Unreadable)
		}
		m := with(maxWord + 1)
		if want := "status.conditions[1] has a type or status longer than the 317 bytes that Fettle reads"; m.Unreadable != want {
			t.Errorf("%s of %d bytes: reported is %q, want %q", name, maxWord+1, m.Unreadable, want)
		}
		if len(m.Conditions) != 1 || m.Conditions[0].Type() != "First" {
			t.Errorf("%s of %d bytes: %d conditions are kept", name, maxWord+1, len(m.Conditions))
		}
	}
}

// TestI15MarksAreBounded: each text of a mark is cut at the length of the longest message.
func TestI15MarksAreBounded(t *testing.T) {
	long := strings.Repeat("x", maxMessage+9)
	m := read(t, plainMeta+"status: {deprecated: {v1beta1: {conditions: [{type: OwnerRemediated, status: "+long+", severity: "+long+", reason: "+long+", message: "+long+"}]}}}")
	cut := long[:maxMessage]
	if got := *m.Mark(Deprecated, "OwnerRemediated").ConditionContent; got != (ConditionContent{cut, cut, cut, cut}) {
		t.Errorf("kept are %d, %d, %d and %d bytes", len(got.Status), len(got.Severity), len(got.Reason), len(got.Message))
	}
}

// TestI15FailuresAreBounded: the text of a failure is cut at its bound, with and without a reason.
func TestI15FailuresAreBounded(t *testing.T) {
	long := strings.Repeat("x", maxFailure+9)
	for fields, want := range map[string]string{
		"failureMessage: " + long:                        long[:maxFailure],
		"failureReason: Broken, failureMessage: " + long: ("Broken: " + long)[:maxFailure],
	} {
		if got := read(t, plainMeta+"status: {deprecated: {v1beta1: {"+fields+"}}}").Failure; got != want {
			t.Errorf("kept are %d bytes, want %d: %.30q", len(got), len(want), got)
		}
	}
}

// TestMarksTakeLittleMemory: a machine keeps the first condition of each type, in exactly the memory that they need. Healthy
// machines share the content.
func TestMarksTakeLittleMemory(t *testing.T) {
	m := read(t, plainMeta+`status: {deprecated: {v1beta1: {conditions: [
		{type: HealthCheckSucceeded, status: "True"}, {type: Ready, status: "True"}, {type: HealthCheckSucceeded, status: "False"},
		{type: OwnerRemediated, status: "True"}, {type: ExternallyRemediated, status: "True"}]}}}`)
	if len(m.Marks) != 3 || cap(m.Marks) != 3 {
		t.Errorf("%d marks take the memory of %d, want 3", len(m.Marks), cap(m.Marks))
	}
	if got := m.Mark(Deprecated, "HealthCheckSucceeded"); got == nil || got.ConditionContent != &healthyContent[Deprecated] {
		t.Errorf("the content of a healthy machine is not shared: %+v", got)
	}
}

// TestClassOfACluster: a cluster is from a ClusterClass if its topology is anything but null.
func TestClassOfACluster(t *testing.T) {
	for topology, want := range map[string]Upgrade{
		"null": {Is: core.No, Why: "condition RollingOut of Cluster blue is False"},
		"7":    {Is: core.Unknown, Why: "Cluster blue has no condition TopologyReconciled"},
		"{}":   {Is: core.Unknown, Why: "Cluster blue has no condition TopologyReconciled"},
	} {
		if got := decodeCluster(t, "spec: {topology: "+topology+`}
status: {conditions: [{type: RollingOut, status: "False"}]}`).Upgrade; got != want {
			t.Errorf("topology %s: it is being upgraded: %s (%s), want %s (%s)", topology, got.Is, got.Why, want.Is, want.Why)
		}
	}
}

// TestSignsOfUpgrades: the text about an upgrade is that of the sign that counts, and has no more than it needs.
func TestSignsOfUpgrades(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, tc := range map[string]struct {
		conditions string
		want       Upgrade
	}{
		"the first of two unknown signs": {
			`{type: TopologyReconciled, status: Unknown}`, Upgrade{core.Unknown, "Cluster blue has no condition RollingOut"},
		},
		"a reason of another condition": {
			`{type: RollingOut, status: "True", reason: RollingOut}`, Upgrade{core.Yes, "condition RollingOut of Cluster blue is True"},
		},
		"no reason": {
			`{type: RollingOut, status: "False"}, {type: TopologyReconciled, status: Unknown}`,
			Upgrade{core.Unknown, "condition TopologyReconciled of Cluster blue is Unknown"},
		},
		"deferred or not": {
			`{type: RollingOut, status: "False"}, {type: TopologyReconciled, status: Unknown, reason: MachinePoolsUpgradeDeferred}`,
			Upgrade{core.Unknown, "condition TopologyReconciled of Cluster blue is Unknown (MachinePoolsUpgradeDeferred)"},
		},
		"long words": {
			`{type: RollingOut, status: "False"}, {type: TopologyReconciled, status: ` + x(99) + `, reason: ` + x(99) + `}`,
			Upgrade{core.Unknown, "condition TopologyReconciled of Cluster blue is " + x(maxQuoted) + " (" + x(maxQuoted) + ")"},
		},
	} {
		if got := decodeCluster(t, "spec: {topology: {}}\nstatus: {conditions: ["+tc.conditions+"]}").Upgrade; got != tc.want {
			t.Errorf("%s: it is being upgraded: %s (%s), want %s (%s)", name, got.Is, got.Why, tc.want.Is, tc.want.Why)
		}
	}
}

// TestFieldsOfAStatus: of a field that can't be read nothing is kept, and a field that is absent can be read.
func TestFieldsOfAStatus(t *testing.T) {
	m := read(t, plainMeta+`status: {conditions: [{type: OwnerRemediated}, {lastTransitionTime: 7}]}`)
	if len(m.Conditions) != 0 || len(m.Marks) != 0 {
		t.Errorf("kept are %d conditions and %d marks", len(m.Conditions), len(m.Marks))
	}
	want := `status.conditions is [{"type":"OwnerRemediated"},{"lastTransitionTime":7}] and can't be read; it should be a list of conditions`
	if m.Unreadable != want {
		t.Errorf("reported is %q, want %q", m.Unreadable, want)
	}
}

// machineServer is an API server with one machine. It counts the patches.
type machineServer struct {
	client.Reader
	client.SubResourceWriter

	// stored has the UID and the revision of the machine, and readErr is the error of a read.
	stored  Machine
	readErr error
	// patchErr is the error of a patch.
	patchErr error
	patches  []string
}

func (s *machineServer) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.SetUID(s.stored.UID)
	into.SetResourceVersion(s.stored.ResourceVersion)
	return s.readErr
}

func (s *machineServer) Status() client.SubResourceWriter { return s }

func (s *machineServer) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	body, err := p.Data(o)
	s.patches = append(s.patches, fmt.Sprint(o.GetNamespace(), "/", o.GetName(), " ", p.Type(), " ", string(body)))
	return errors.Join(err, s.patchErr)
}

func TestWriterWritesConditions(t *testing.T) {
	s := &machineServer{}
	w := &Writer{Statuses: s, Live: s, Now: func() time.Time { return noon }}
	m := read(t, plainMeta)
	got, err := w.Write(t.Context(), m, HealthCheckSucceeded())
	if err != nil || got == m || got.Name != "m" || got.Namespace != "clusters" {
		t.Errorf("writing returns %+v, %v", got, err)
	}
	if want := []string{"clusters/m application/json-patch+json " + patchOf(t, m, HealthCheckSucceeded())}; !slices.Equal(s.patches, want) {
		t.Errorf("the patches are %q, want %q", s.patches, want)
	}
	if got, err := w.Write(t.Context(), m, nil); got != m || err != nil || len(s.patches) != 1 {
		t.Errorf("nothing is to be written: writing returns %+v, %v after %d patches", got, err, len(s.patches))
	}
}

// TestRefusedPatches: an invalid patch of a machine that has changed is a conflict. Any other error stays.
func TestRefusedPatches(t *testing.T) {
	kind := schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
	resource := schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}
	invalid := apierrors.NewInvalid(kind, "m", nil)
	var same, changed, replaced Machine
	same.UID, same.ResourceVersion = "m-uid", "7"
	changed.UID, changed.ResourceVersion = "m-uid", "8"
	replaced.UID, replaced.ResourceVersion = "other", "7"
	for name, tc := range map[string]struct {
		refusal  error
		now      Machine
		readErr  error
		conflict bool
	}{
		"the machine is the same":     {invalid, same, nil, false},
		"the machine has changed":     {invalid, changed, nil, true},
		"the machine was replaced":    {invalid, replaced, nil, true},
		"the machine is gone":         {invalid, same, apierrors.NewNotFound(resource, "m"), true},
		"the machine can't be read":   {invalid, changed, errors.New("the connection is lost"), false},
		"another error, and a change": {errors.New("the quota is used up"), changed, nil, false},
	} {
		s := &machineServer{stored: tc.now, readErr: tc.readErr, patchErr: tc.refusal}
		w := &Writer{Statuses: s, Live: s, Now: func() time.Time { return noon }}
		got, err := w.Write(t.Context(), read(t, plainMeta), HealthCheckSucceeded())
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), "patching the conditions of machine clusters/m: ") {
			t.Errorf("%s: writing returns %+v, %v", name, got, err)
		}
		if apierrors.IsConflict(err) != tc.conflict || (!tc.conflict && !errors.Is(err, tc.refusal)) {
			t.Errorf("%s: the error is a conflict: %t: %v", name, apierrors.IsConflict(err), err)
		}
	}
}

func TestWriterReads(t *testing.T) {
	s := &machineServer{}
	s.stored.UID, s.stored.ResourceVersion = "m-uid", "7"
	w := &Writer{Live: s}
	if m, err := w.Read(t.Context(), "clusters", "m"); err != nil || m.Namespace != "clusters" || m.Name != "m" || m.UID != "m-uid" {
		t.Errorf("reading returns %+v, %v", m, err)
	}
	s.readErr = errors.New("the connection is lost")
	if m, err := w.Read(t.Context(), "clusters", "m"); m != nil || !errors.Is(err, s.readErr) || err.Error() != "reading machine clusters/m: the connection is lost" {
		t.Errorf("reading returns %+v, %v", m, err)
	}
}

// TestHandBack requests the replacement from the owner in both lists of conditions, or the health check in the deprecated one. It leaves another machine alone.
func TestHandBack(t *testing.T) {
	key := types.NamespacedName{Namespace: "clusters", Name: "m"}
	for name, tc := range map[string]struct {
		uid             types.UID
		gated           bool
		readErr         error
		current, former bool
	}{
		"the owner decides":            {"m-uid", false, nil, true, true},
		"a health check decides":       {"m-uid", true, nil, false, true},
		"the machine was replaced":     {"other", false, nil, false, false},
		"the machine can't be read":    {"m-uid", false, errors.New("no"), false, false},
		"a health check, and no reply": {"m-uid", true, errors.New("no"), false, false},
	} {
		s := &machineServer{readErr: tc.readErr}
		s.stored.UID, s.stored.ResourceVersion = "m-uid", "7"
		w := &Writer{Statuses: s, Live: s, Now: func() time.Time { return noon }}
		if err := w.HandBack(t.Context(), key, tc.uid, tc.gated); !errors.Is(err, tc.readErr) {
			t.Errorf("%s: the error is %v", name, err)
		}
		sent := strings.Join(s.patches, "")
		if strings.Contains(sent, `"/status/conditions`) != tc.current || strings.Contains(sent, `"/status/deprecated`) != tc.former || strings.Contains(sent, "HealthCheckSucceeded") {
			t.Errorf("%s: the patches are %q", name, s.patches)
		}
	}
}
