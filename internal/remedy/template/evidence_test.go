package template

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
)

// fenced is a request of Fettle's own for the power of node w.
const fenced = `
apiVersion: fettle.io/v1alpha1
kind: PowerRemediation
metadata:
  name: w
  namespace: remediators
  uid: x-uid
  annotations:
    remediation.medik8s.io/node-name: w
    remediation.medik8s.io/template-name: t
    fettle.io/requested-by-uid: check-uid
    fettle.io/requested-as: PowerRemediation.fettle.io/remediators/w/w-uid
  ownerReferences:
  - {apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: check, uid: check-uid}
  - {apiVersion: v1, kind: Node, name: w, uid: w-uid}
status:
  phase: Succeeded
  attempt: 2
  node: {name: w, bootID: before, backBootID: after}
  bmc: {name: bmc-1, uid: b, generation: 1}
  protocol: Redfish
  commandedAt: "2026-08-03T12:00:01.000000Z"
  proof: {kind: PowerOff, at: "2026-08-03T12:00:02.123456Z"}
  releasedAt: "2026-08-03T12:00:03.000000Z"
  backAt: "2026-08-03T14:00:04.000000+02:00"
`

func wholeEvidence() core.Evidence {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	return core.Evidence{
		Request: core.ID{Kind: "PowerRemediation", Namespace: "remediators", Name: "w", UID: "x-uid"}, Cycle: 2,
		Method: "PowerOff", Means: "bmc-1", Protocol: "Redfish", BootIDBefore: "before", BootIDAfter: "after",
		Commanded: at(1), Proven: at(2).Add(123456 * time.Microsecond), Released: at(3), Back: at(4),
	}
}

// decode returns an object as a watch delivers it, whose whole numbers are integers.
func decode(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestEvidence: the evidence of a PowerRemediation, whatever its status holds.
func TestEvidence(t *testing.T) {
	with := func(change func(*core.Evidence)) core.Evidence {
		e := wholeEvidence()
		change(&e)
		return e
	}
	instead := func(pairs ...string) string {
		text := fenced
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("the object has no %q", pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		return text
	}
	const proof, command = `{kind: PowerOff, at: "2026-08-03T12:00:02.123456Z"}`, `commandedAt: "2026-08-03T12:00:01.000000Z"`
	long := strings.Repeat("x", 999)
	noProof := func(e *core.Evidence) { e.Method, e.Proven = "", time.Time{} }
	for name, c := range map[string]struct {
		object string
		want   core.Evidence
	}{
		"all of it":                   {fenced, wholeEvidence()},
		"another group":               {instead("fettle.io/v1alpha1", "fettle.example/v1alpha1"), core.Evidence{}},
		"the core group":              {instead("fettle.io/v1alpha1", "v1"), core.Evidence{}},
		"another version":             {instead("fettle.io/v1alpha1", "fettle.io/v2"), wholeEvidence()},
		"another kind of the group":   {instead("kind: PowerRemediation", "kind: MachineDeletionRemediation"), core.Evidence{}},
		"no UID":                      {instead("uid: x-uid", `uid: ""`), core.Evidence{}},
		"no status":                   {withoutStatus(fenced), core.Evidence{}},
		"a status that is a word":     {withoutStatus(fenced) + "status: well", core.Evidence{}},
		"nothing was commanded":       {instead(command, "x: 1", proof, "{}"), core.Evidence{}},
		"no proof":                    {instead(proof, "none"), with(noProof)},
		"a proof without a time":      {instead(proof, "{kind: PowerOff, bootID: now}"), with(noProof)},
		"a proof without a kind":      {instead(proof, `{at: "2026-08-03T12:00:02.123456Z"}`), with(noProof)},
		"a proof without a command":   {instead(command, "x: 1"), with(func(e *core.Evidence) { e.Commanded = time.Time{} })},
		"a new boot":                  {instead(proof, `{kind: NewBoot, at: "2026-08-03T12:00:02.123456Z", bootID: now}`, ", backBootID: after", ""), with(func(e *core.Evidence) { e.Method, e.BootIDAfter = "NewBoot", "now" })},
		"a new boot, and back":        {instead(proof, `{kind: NewBoot, at: "2026-08-03T12:00:02.123456Z", bootID: now}`), with(func(e *core.Evidence) { e.Method = "NewBoot" })},
		"fractions of a microsecond":  {instead("02.123456Z", "02.123456999Z"), wholeEvidence()},
		"an odd microsecond":          {instead("02.123456Z", "02.123457999Z"), with(func(e *core.Evidence) { e.Proven = e.Proven.Add(time.Microsecond) })},
		"a word for a time":           {instead(`"2026-08-03T12:00:03.000000Z"`, "soon"), with(func(e *core.Evidence) { e.Released = time.Time{} })},
		"a number for a time":         {instead(`"2026-08-03T12:00:03.000000Z"`, "5"), with(func(e *core.Evidence) { e.Released = time.Time{} })},
		"a time that JSON can't have": {instead(`"2026-08-03T12:00:03.000000Z"`, `"9999-12-31T23:59:59-01:00"`), with(func(e *core.Evidence) { e.Released = time.Time{} })},
		"the last time":               {instead(`"2026-08-03T12:00:03.000000Z"`, `"9999-12-31T23:59:59Z"`), with(func(e *core.Evidence) { e.Released = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) })},
		"a time before all computers": {instead(`"2026-08-03T12:00:03.000000Z"`, `"1969-12-31T23:59:59Z"`), with(func(e *core.Evidence) { e.Released = time.Time{} })},
		"the first time":              {instead(`"2026-08-03T12:00:03.000000Z"`, `"1970-01-01T00:00:00Z"`), with(func(e *core.Evidence) { e.Released = time.Unix(0, 0).UTC() })},
		"an attempt that is a word":   {instead("attempt: 2", "attempt: second"), with(func(e *core.Evidence) { e.Cycle = 0 })},
		"an attempt below zero":       {instead("attempt: 2", "attempt: -2"), with(func(e *core.Evidence) { e.Cycle = 0 })},
		"an attempt beyond all":       {instead("attempt: 2", "attempt: 9000000000"), with(func(e *core.Evidence) { e.Cycle = 1 << 30 })},
		"a boot ID that is a list":    {instead("bootID: before", "bootID: [1]"), with(func(e *core.Evidence) { e.BootIDBefore = "" })},
		"a node that is a list":       {instead("{name: w, bootID: before, backBootID: after}", "[5]"), with(func(e *core.Evidence) { e.BootIDBefore, e.BootIDAfter = "", "" })},
		"a long name":                 {instead("name: bmc-1", "name: "+long), with(func(e *core.Evidence) { e.Means = word(map[string]any{"n": long}, "n", 253) })},
		"a long protocol":             {instead("Redfish", long), with(func(e *core.Evidence) { e.Protocol = word(map[string]any{"n": long}, "n", 64) })},
		"a long boot ID before":       {instead("bootID: before", "bootID: "+long), with(func(e *core.Evidence) { e.BootIDBefore = word(map[string]any{"n": long}, "n", 64) })},
		"a long boot ID after":        {instead("backBootID: after", "backBootID: "+long), with(func(e *core.Evidence) { e.BootIDAfter = word(map[string]any{"n": long}, "n", 64) })},
		"a long kind of a proof":      {instead("kind: PowerOff", "kind: "+long), with(func(e *core.Evidence) { e.Method = word(map[string]any{"n": long}, "n", 64) })},
		"a long boot ID of a proof":   {instead(proof, `{kind: NewBoot, at: "2026-08-03T12:00:02.123456Z", bootID: `+long+"}", ", backBootID: after", ""), with(func(e *core.Evidence) { e.Method, e.BootIDAfter = "NewBoot", word(map[string]any{"n": long}, "n", 64) })},
		"what a terminal would obey":  {instead("bootID: before", `bootID: "a\e[2Jb\nc"`), with(func(e *core.Evidence) { e.BootIDBefore = word(map[string]any{"n": "a\x1b[2Jb\nc"}, "n", 64) })},
	} {
		if diff := cmp.Diff(c.want, evidenceOf(decode(t, c.object))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, most := range []int{mostOfName, mostOfWord} {
		if got := word(map[string]any{"n": long}, "n", most); len(got) != most || word(map[string]any{"n": got}, "n", most) != got {
			t.Errorf("a long word has %d bytes, and is cut again", len(got))
		}
	}
	if got := word(map[string]any{"n": "a\x1b[2Jb\nc"}, "n", mostOfWord); strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("a word is %q", got)
	}
}

// TestEvidenceIsPartOfTheRequest, and wakes the engine for a proof alone.
func TestEvidenceIsPartOfTheRequest(t *testing.T) {
	u := decode(t, fenced)
	r, _, is := readRequest(u)
	if diff := cmp.Diff(wholeEvidence(), r.Evidence); diff != "" || !is || !r.Own {
		t.Errorf("own %t, evidence (-want +got):\n%s", r.Own, diff)
	}
	s := newStore(nil)
	for i, c := range []struct {
		old, fresh string
		news       bool
	}{
		{"", "", true},
		{"backBootID: after", "backBootID: other", false},
		{"protocol: Redfish", "protocol: IPMI", false},
		{"02.123456Z", "03.123456Z", true},
		{"kind: PowerOff", "kind: NewBoot", true},
		{"attempt: 2", "attempt: 3", true},
		{"kind: PowerOff", "kind: PowerOff", true},
	} {
		if got := s.put(decode(t, strings.Replace(fenced, c.old, c.fresh, 1))); got != c.news {
			t.Errorf("%d: %s in the place of %s is news: %t", i, c.fresh, c.old, got)
		}
	}
}

// TestEvidenceOutlivesItsRequest: a pass may see nothing of a remediation between its last write and its deletion.
func TestEvidenceOutlivesItsRequest(t *testing.T) {
	name := types.NamespacedName{Namespace: "remediators", Name: "w"}
	past := func(s *store) []core.Request { return s.appendPast(nil, core.ClusterKey{}) }
	s := newStore(nil)
	s.put(decode(t, fenced))
	if got := past(s); len(got) > 0 {
		t.Errorf("it stands, and is gone: %+v", got)
	}
	s.put(decode(t, strings.Replace(fenced, "backBootID: after", "backBootID: later", 1)))
	s.drop(name)
	s.drop(name)
	if got := past(s); len(got) != 1 || got[0].Evidence.BootIDAfter != "later" || got[0].Target.UID != "w-uid" {
		t.Errorf("what is gone is %+v", got)
	}
	if got := s.appendPast(nil, core.ClusterKey{Name: "other"}); len(got) > 0 {
		t.Errorf("another cluster has %+v", got)
	}

	s = newStore(nil)
	s.put(decode(t, fenced))
	s.put(decode(t, strings.Replace(fenced, "uid: x-uid", "uid: y-uid", 1)))
	if got := past(s); len(got) != 1 || got[0].ID.UID != "x-uid" {
		t.Errorf("a namesake has followed, and what is gone is %+v", got)
	}

	for sentence, object := range map[string]string{
		"a request that Fettle did not make": strings.Replace(fenced, "requested-by-uid: check-uid", "x: y", 1),
		"a request without evidence":         withoutStatus(fenced),
	} {
		s = newStore(nil)
		s.put(decode(t, object))
		s.drop(name)
		if got := past(s); len(got) > 0 {
			t.Errorf("%s is kept: %+v", sentence, got)
		}
	}
}

// TestPastRequestsAreBounded: the earliest are dropped.
func TestPastRequestsAreBounded(t *testing.T) {
	s := newStore(nil)
	o := storedObject{isRequest: true, request: core.Request{Own: true, Evidence: core.Evidence{Method: "PowerOff"}}}
	for i := range mostPast + 3 {
		o.request.ID.UID = fmt.Sprint(i)
		s.keepPast(o)
	}
	got := s.appendPast(nil, core.ClusterKey{})
	if len(got) != mostPast || got[0].ID.UID != "3" || got[mostPast-1].ID.UID != fmt.Sprint(mostPast+2) {
		t.Errorf("%d are kept, from %s to %s", len(got), got[0].ID.UID, got[len(got)-1].ID.UID)
	}
}

// TestFactsHaveEvidence of the requests that stand, and of past ones.
func TestFactsHaveEvidence(t *testing.T) {
	r := NewReading()
	u := decode(t, fenced)
	requests := u.GroupVersionKind()
	templates := requests
	templates.Kind += "Template"
	r.Begin(templates, true)
	r.Begin(requests, true)
	r.Put(requests, u)
	facts := func() core.Cluster {
		var cluster core.Cluster
		r.AddFacts(nil, &cluster)
		return cluster
	}
	if got := facts(); len(got.Requests) != 1 || got.Requests[0].Evidence != wholeEvidence() || len(got.PastRequests) > 0 {
		t.Errorf("while it stands: %+v", got)
	}
	r.Drop(requests, types.NamespacedName{Namespace: "remediators", Name: "w"})
	if got := facts(); len(got.Requests) > 0 || len(got.PastRequests) != 1 || got.PastRequests[0].Evidence != wholeEvidence() {
		t.Errorf("once it is gone: %+v", got)
	}
}

// withoutStatus returns a manifest up to its status.
func withoutStatus(manifest string) string {
	before, _, _ := strings.Cut(manifest, "status:")
	return before
}
