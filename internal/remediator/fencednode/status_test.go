package fencednode

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// TestInstantsOfAStatus are in whole microseconds and in UTC, also odd ones, and the zero instant is missing.
func TestInstantsOfAStatus(t *testing.T) {
	odd := noon.Add(3 * time.Microsecond)
	if got := MicroTime(odd.Add(999).In(time.FixedZone("east", 3600))); !got.Time.Equal(odd) || got.Location() != time.UTC || MicroTime(time.Time{}) != nil {
		t.Errorf("%v is written", got)
	}
	if !Instant(nil).IsZero() || !Instant(MicroTime(odd)).Equal(odd) {
		t.Error("another instant is read than was written")
	}
	var s v1alpha1.FencingStatus
	WriteRecord(&s, "node-a", fencing.Record{Since: odd.Add(999)})
	if !s.PhaseSince.Time.Equal(odd) {
		t.Errorf("the phase began at %v", s.PhaseSince)
	}
}

// TestKeepSaved: a node gets back the fields that it had when it was deleted. A node that has registered in its place is not saved.
func TestKeepSaved(t *testing.T) {
	releases := fencing.Record{Phase: fencing.Releasing, Released: true, DeletedNode: true}
	before := func(uid string) *v1alpha1.SavedNode {
		return &v1alpha1.SavedNode{UID: uid, Labels: map[string]string{"pool": "old"}}
	}
	labelled := func(n *corev1.Node) { n.Labels = map[string]string{"pool": "new"} }
	relabelled := func(n *corev1.Node) { n.Labels = map[string]string{"pool": "old"} }
	for name, tc := range map[string]struct {
		saved  *v1alpha1.SavedNode
		record fencing.Record
		raw    *corev1.Node
		want   string
	}{
		"nothing was saved":          {nil, releases, node(labelled), "new"},
		"the node has changed since": {before("node-uid"), releases, node(labelled), "new"},
		"another has registered":     {before("earlier"), releases, node(labelled), "old"},
		"it was not read":            {before("node-uid"), releases, nil, "old"},
		"it is not released":         {before("node-uid"), fencing.Record{Phase: fencing.Releasing, DeletedNode: true}, node(labelled), "old"},
		"it is not deleted":          {nil, fencing.Record{Phase: fencing.Releasing, Released: true}, node(labelled), ""},
		"it has got all back":        {before("earlier"), fencing.Record{Phase: fencing.Succeeded}, node(relabelled), ""},
		"it has got all back early":  {before("earlier"), fencing.Record{Phase: fencing.Restoring}, node(relabelled), "old"},
		"it lacks some at the end":   {before("earlier"), fencing.Record{Phase: fencing.Failed}, node(), "old"},
	} {
		s := v1alpha1.FencingStatus{Node: &v1alpha1.FencedNode{Name: "node-a", Saved: tc.saved}}
		KeepSaved(&s, by, tc.record, tc.raw, Facts(by, tc.saved, tc.raw))
		got := ""
		if s.Node.Saved != nil {
			got = s.Node.Saved.Labels["pool"]
		}
		if got != tc.want {
			t.Errorf("%s: the label is %q, want %q", name, got, tc.want)
		}
	}
}

// TestIsRestored: the node must be known, another object than was deleted, and as it was.
func TestIsRestored(t *testing.T) {
	saved := &v1alpha1.SavedNode{UID: "old"}
	for name, tc := range map[string]struct {
		saved *v1alpha1.SavedNode
		node  *fencing.Node
		want  bool
	}{
		"it is":                  {saved, &fencing.Node{Exists: true, UID: "new"}, true},
		"nothing was saved":      {nil, &fencing.Node{Exists: true, UID: "new"}, false},
		"the node was not read":  {saved, nil, false},
		"there is no node":       {saved, &fencing.Node{UID: "new"}, false},
		"it is still changed":    {saved, &fencing.Node{Exists: true, UID: "new", Changed: true}, false},
		"it was not deleted yet": {saved, &fencing.Node{Exists: true, UID: "old"}, false},
	} {
		if got := IsRestored(tc.saved, tc.node); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestMessagesAreBounded: a condition has as much of a message as fits.
func TestMessagesAreBounded(t *testing.T) {
	const most = 4096 // bytes
	var s v1alpha1.FencingStatus
	long := NewCondition("Processing", metav1.ConditionTrue, "Waits", strings.Repeat("x", 2*most))
	if !SetConditions(&s, noon, long) || len(s.Conditions[0].Message) != most {
		t.Errorf("the conditions are %d long", len(s.Conditions[0].Message))
	}
	if SetConditions(&s, noon, long) {
		t.Error("the same condition is a change")
	}
}

// TestNotReleased: a proof alone releases nothing, and a user has to know.
func TestNotReleased(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.FencingStatus)
		want   bool
	}{
		"it was not":             {func(*v1alpha1.FencingStatus) {}, true},
		"there is no proof":      {func(s *v1alpha1.FencingStatus) { s.Proof = nil }, false},
		"it was":                 {func(s *v1alpha1.FencingStatus) { s.WorkloadReleased = true }, false},
		"nothing is known":       {func(s *v1alpha1.FencingStatus) { s.Node = nil }, false},
		"there was no node":      {func(s *v1alpha1.FencingStatus) { s.Node.UID = "" }, false},
		"others had released it": {func(s *v1alpha1.FencingStatus) { s.Node.OutOfService = true }, false},
	} {
		s := v1alpha1.FencingStatus{Node: &v1alpha1.FencedNode{Name: "node-a", UID: "node-uid"}, Proof: &v1alpha1.FencingProof{Kind: "PowerOff"}}
		tc.change(&s)
		if got := strings.Contains(NotReleased(&s), "node.kubernetes.io/out-of-service"); got != tc.want {
			t.Errorf("%s: it says %q", name, NotReleased(&s))
		}
	}
}

// TestReadyMeanwhile: a node that is Ready needs no fencing that has waited for one of the reasons.
func TestReadyMeanwhile(t *testing.T) {
	saying := func(reason string) *v1alpha1.FencingStatus {
		s := &v1alpha1.FencingStatus{}
		SetConditions(s, noon, NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, reason, "it waits"))
		return s
	}
	meanwhile := Problem{
		Reason:  v1alpha1.CannotStartFencedMeanwhileReason,
		Message: "node node-a has become Ready while this remediation waited for another controller or remediation, so nothing is left to do",
	}
	for name, tc := range map[string]struct {
		status *v1alpha1.FencingStatus
		node   *corev1.Node
		want   Problem
	}{
		"it has waited for another remediation": {saying(AnotherRemediation), node(ready), meanwhile},
		"it has waited for another controller":  {saying(MachineMarked), node(ready), meanwhile},
		"it has waited for something else":      {saying("FencePolicyUnknown"), node(ready), Problem{}},
		"it has not waited":                     {&v1alpha1.FencingStatus{}, node(ready), Problem{}},
		"the node is not Ready":                 {saying(AnotherRemediation), node(), Problem{}},
		"there is no node":                      {saying(AnotherRemediation), nil, Problem{}},
	} {
		if got := ReadyWhileTaken(tc.status, tc.node); got != tc.want {
			t.Errorf("%s: want %+v, have %+v", name, tc.want, got)
		}
	}
	got := ReadyMeanwhile(saying("FencePolicyUnknown"), node(ready), "no policy was known", "FencePolicyUnknown")
	if got.Message != "node node-a has become Ready while no policy was known, so nothing is left to do" {
		t.Errorf("a clause of the caller gives %q", got.Message)
	}
}

// TestSavedOf: only a fencing that has recorded its node can have saved something of it.
func TestSavedOf(t *testing.T) {
	saved := &v1alpha1.SavedNode{UID: "node-uid"}
	if got := SavedOf(&v1alpha1.FencingStatus{Node: &v1alpha1.FencedNode{Saved: saved}}); got != saved {
		t.Errorf("saved is %v", got)
	}
	if got := SavedOf(&v1alpha1.FencingStatus{}); got != nil {
		t.Errorf("without a node %v is saved", got)
	}
}

// TestCountsOfAStatusAreBounded: a record counts on, and a status has no more than fits.
func TestCountsOfAStatusAreBounded(t *testing.T) {
	for _, tc := range []struct {
		attempts, voids int
		attempt, void   int32
	}{{3, 4, 3, 4}, {100, 1 << 30, 100, 1 << 30}, {101, 1<<30 + 1, 100, 1 << 30}, {1 << 40, 1 << 40, 100, 1 << 30}} {
		var s v1alpha1.FencingStatus
		WriteRecord(&s, "node-a", fencing.Record{Attempt: tc.attempts, Void: tc.voids})
		if s.Attempt != tc.attempt || s.VoidProofs != tc.void {
			t.Errorf("%d attempts are %d, and %d void proofs %d", tc.attempts, s.Attempt, tc.voids, s.VoidProofs)
		}
	}
}

// TestAProofIsTakenBack: a status has the proof of its record, and none where the record has none any more.
func TestAProofIsTakenBack(t *testing.T) {
	var s v1alpha1.FencingStatus
	WriteRecord(&s, "node-a", fencing.Record{Proof: fencing.Proof{Kind: "NewBoot", At: noon, BootID: "boot-2"}})
	if p := s.Proof; p == nil || p.Kind != "NewBoot" || !p.At.Time.Equal(noon) || p.BootID != "boot-2" {
		t.Errorf("the proof is %+v", p)
	}
	WriteRecord(&s, "node-a", fencing.Record{})
	if s.Proof != nil {
		t.Errorf("the proof is %+v", s.Proof)
	}
}

// TestLimits: a limit that is missing, or no time at all, is the usual one.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		given *metav1.Duration
		want  time.Duration
	}{{nil, time.Minute}, {&metav1.Duration{}, time.Minute}, {&metav1.Duration{Duration: -1}, time.Minute}, {&metav1.Duration{Duration: 1}, 1}} {
		if got := Limit(tc.given, time.Minute); got != tc.want {
			t.Errorf("%v is %v", tc.given, got)
		}
	}
}

// TestAChangeOfAnyConditionIsOne, at a whole second.
func TestAChangeOfAnyConditionIsOne(t *testing.T) {
	processing := func(message string) Condition {
		return NewCondition("Processing", metav1.ConditionTrue, "Waits", message)
	}
	succeeded := NewCondition("Succeeded", metav1.ConditionUnknown, "Waits", "")
	var s v1alpha1.FencingStatus
	at := noon.Add(3*time.Second + 1)
	for _, step := range []struct {
		message string
		want    bool
	}{{"a", true}, {"b", true}, {"b", false}} {
		if got := SetConditions(&s, at, processing(step.message), succeeded); got != step.want {
			t.Errorf("%q is a change: %t", step.message, got)
		}
	}
	if got := s.Conditions[1].LastTransitionTime; !got.Time.Equal(noon.Add(3*time.Second)) || got.Location() != time.UTC {
		t.Errorf("it has changed at %v", got)
	}
}

// TestRecordsAreReadAsWritten: a process that has just started goes on from what the status says.
func TestRecordsAreReadAsWritten(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	for name, want := range map[string]fencing.Record{
		"without a node": {Phase: fencing.Preparing, Since: at(0)},
		"with all": {
			Phase: fencing.Releasing, Since: at(0), Attempt: 2, NodeUID: "uid", BootID: "boot-1", OffBootID: "boot-2", ForeignOutOfService: true,
			Proof: fencing.Proof{Kind: fencing.PowerOff, At: at(1), BootID: "boot-3"}, Void: 3, Released: true, ReleasedBefore: true, DeletedNode: true,
			Reason: fencing.PromiseNotRead, Times: fencing.Times{ReleasedAt: at(2), BackAt: at(3), BackBootID: "boot-4"},
		},
		"released":              {Phase: fencing.Releasing, Since: at(0), Released: true},
		"with a machine's node": {Phase: fencing.Releasing, Since: at(0), DeletedNode: true, NodeUID: "uid"},
	} {
		s := v1alpha1.FencingStatus{Node: &v1alpha1.FencedNode{Saved: &v1alpha1.SavedNode{UID: "old"}}}
		WriteRecord(&s, "node-a", want)
		if diff := cmp.Diff(want, RecordOf(&s)); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
		if s.Node.Name != "node-a" || s.Node.Saved == nil {
			t.Errorf("%s: the node is %+v", name, s.Node)
		}
	}
	if got := RecordOf(&v1alpha1.FencingStatus{}); got != (fencing.Record{}) {
		t.Errorf("nothing is read as %+v", got)
	}
}

// TestConditions: each list has all conditions, in the order in which a user sees them.
func TestConditions(t *testing.T) {
	const processing, succeeded, gone = v1alpha1.ProcessingCondition, v1alpha1.SucceededCondition, v1alpha1.PermanentNodeDeletionExpectedCondition
	s := &v1alpha1.FencingStatus{Phase: "Booting", Node: &v1alpha1.FencedNode{Name: "node-a"}}
	reused := Condition{gone, metav1.ConditionFalse, "HostIsReused", "the host comes back as a node of the same name"}
	for name, tc := range map[string]struct{ got, want []Condition }{
		"progress": {ProgressConditions(s, "it boots"), []Condition{
			{processing, metav1.ConditionTrue, "Booting", "it boots"},
			{succeeded, metav1.ConditionUnknown, "Booting", "it is not known yet whether node node-a comes back"}, reused,
		}},
		"end": {EndConditions(metav1.ConditionTrue, "Done", "it is back"), []Condition{
			{processing, metav1.ConditionFalse, "Done", "it is back"}, {succeeded, metav1.ConditionTrue, "Done", "it is back"}, reused,
		}},
		"refusal": {RefusalConditions("No", "it can't"), []Condition{
			{processing, metav1.ConditionFalse, "No", "it can't"}, {succeeded, metav1.ConditionFalse, "No", "it can't"},
			{gone, metav1.ConditionFalse, "HostIsReused", "it can't"},
		}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
