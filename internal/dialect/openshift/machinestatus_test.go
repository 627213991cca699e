package openshift

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
)

// TestStatusIsReadAsFarAsItCanBe: a field that can't be read is absent and named, and hides no
// other field.
func TestStatusIsReadAsFarAsItCanBe(t *testing.T) {
	node := nodeReference{Name: "n"}
	cases := map[string]struct {
		status string
		want   plainStatus
	}{
		"nothing":              {`{}`, plainStatus{}},
		"null":                 {`null`, plainStatus{}},
		"null in every field":  {`{"phase": null, "lastUpdated": null, "nodeRef": null}`, plainStatus{}},
		"null for a name":      {`{"nodeRef": {"name": null}}`, plainStatus{NodeRef: nodeReference{}}},
		"all of it":            {`{"phase": "Running", "lastUpdated": "2026-08-03T12:00:00Z", "nodeRef": {"kind": "Node", "name": "n"}}`, plainStatus{Phase: "Running", LastUpdated: metav1.NewTime(noon), NodeRef: node}},
		"a name twice":         {`{"nodeRef": {"name": "w", "name": 5}}`, plainStatus{unreadable: "status.nodeRef is {\"name\": \"w\", \"name\": 5} and not a reference such as {kind: Node, name: worker-1}"}},
		"unread fields":        {`{"phase": "Running", "addresses": 7, "Phase": 5, "conditions": "x"}`, plainStatus{Phase: "Running"}},
		"an empty phase":       {`{"phase": ""}`, plainStatus{Phase: ""}},
		"a number for a phase": {`{"phase": 5, "nodeRef": {"name": "n"}}`, plainStatus{NodeRef: node, unreadable: "status.phase is 5 and not a word such as Running"}},
		"a word for a time": {
			`{"phase": "Running", "lastUpdated": "yesterday"}`,
			plainStatus{Phase: "Running", unreadable: `status.lastUpdated is "yesterday" and not a time such as 2026-08-03T12:00:00Z`},
		},
		"an empty time":     {`{"lastUpdated": ""}`, plainStatus{unreadable: `status.lastUpdated is "" and not a time such as 2026-08-03T12:00:00Z`}},
		"a number for time": {`{"lastUpdated": 1e18}`, plainStatus{unreadable: `status.lastUpdated is 1e18 and not a time such as 2026-08-03T12:00:00Z`}},
		"a word for a node": {
			`{"phase": "Running", "nodeRef": "n"}`,
			plainStatus{Phase: "Running", unreadable: `status.nodeRef is "n" and not a reference such as {kind: Node, name: worker-1}`},
		},
		"a number for a node's name": {`{"nodeRef": {"name": 7}}`, plainStatus{unreadable: `status.nodeRef is {"name": 7} and not a reference such as {kind: Node, name: worker-1}`}},
		"a path for a node's name":   {`{"nodeRef": {"name": "../x"}}`, plainStatus{unreadable: `status.nodeRef.name is "../x", which no node can be called`}},
		"a node's name of lines":     {`{"nodeRef": {"name": "a\nb"}}`, plainStatus{unreadable: `status.nodeRef.name is "a\nb", which no node can be called`}},
		"everything at once": {
			`{"phase": true, "lastUpdated": [], "nodeRef": 1}`,
			plainStatus{unreadable: "status.phase is true and not a word such as Running; status.lastUpdated is [] and not a time such as 2026-08-03T12:00:00Z; " +
				"status.nodeRef is 1 and not a reference such as {kind: Node, name: worker-1}"},
		},
		"a bad time and a bad name": {
			`{"lastUpdated": 1, "nodeRef": {"name": "A"}}`,
			plainStatus{unreadable: `status.lastUpdated is 1 and not a time such as 2026-08-03T12:00:00Z; status.nodeRef.name is "A", which no node can be called`},
		},
		"a word for the status": {`"Failed"`, plainStatus{unreadable: `status is "Failed" and not an object`}},
		"a list for the status": {`[1]`, plainStatus{unreadable: `status is [1] and not an object`}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			var m Machine
			if err := json.Unmarshal([]byte(`{"metadata": {"name": "m"}, "status": `+tc.status+`}`), &m); err != nil {
				t.Fatalf("decoding fails, and so would the watch of all machines: %v", err)
			}
			got := plainStatus{Phase: m.Phase, LastUpdated: metav1.NewTime(m.LastUpdated), NodeRef: nodeReference{Name: m.Node}, unreadable: m.Unreadable}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(plainStatus{})); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if got := readMachine(&m).target; got.Problem != tc.want.unreadable {
				t.Errorf("the target's problem is %q, want %q", got.Problem, tc.want.unreadable)
			}
		})
	}
}

func TestProblemOfAMachineIsShort(t *testing.T) {
	huge := strings.Repeat("ü", 1<<19)
	var m Machine
	body, err := json.Marshal(map[string]any{"status": map[string]any{"phase": []string{huge}, "lastUpdated": huge, "nodeRef": map[string]string{"name": huge}}})
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if len(m.Unreadable) > 1024 || !utf8.ValidString(m.Unreadable) || !strings.Contains(m.Unreadable, "(1048576 bytes), which no node") {
		t.Errorf("the problem has %d bytes: %.300s", len(m.Unreadable), m.Unreadable)
	}
}

// FuzzReadMachine: a machine with any status decodes, and only its readable fields count.
func FuzzReadMachine(f *testing.F) {
	for _, status := range []string{
		`{"phase":"Failed","lastUpdated":"2026-08-03T12:00:00Z","nodeRef":{"kind":"Node","name":"n"}}`,
		`{"phase":5}`, `{"lastUpdated":"yesterday"}`, `{"lastUpdated":"0000-01-01T00:00:00Z"}`, `{"lastUpdated":"9999-12-31T23:59:59Z"}`,
		`{"nodeRef":"n"}`, `{"nodeRef":{"name":"../n"}}`, `{"nodeRef":{"name":["n"]}}`, `{"nodeRef":{"name":"\u202e"}}`, `null`, `"Failed"`, `[]`, `1e308`,
		`{"phase":{"phase":{}},"lastUpdated":false,"nodeRef":{"name":null}}`, "{\"phase\":\"\xff\"}",
	} {
		f.Add([]byte(status))
	}
	f.Fuzz(func(t *testing.T, status []byte) {
		if !json.Valid(status) {
			return
		}
		created := `{"metadata":{"name":"m","creationTimestamp":"2026-08-02T12:00:00Z"},"status":`
		var m Machine
		if err := json.Unmarshal(append([]byte(created), append(status, '}')...), &m); err != nil {
			t.Fatalf("decoding fails: %v", err)
		}
		read := readMachine(&m)
		target := read.target
		if len(target.Problem) > 1024 || strings.ContainsAny(target.Problem, "\x00\n") || !utf8.ValidString(target.Problem) {
			t.Errorf("the problem can't be shown: %q", target.Problem)
		}
		if target.Problem == "" && target.Node.State == core.NodeUnseen && (read.node == "" || len(read.node) > 253) {
			t.Errorf("a node of the impossible name %q is looked for", read.node)
		}
		policy := plain(func(p *core.Policy) { p.Members = []int{0} })
		d := core.Decide([]core.Policy{policy}, core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: []core.Target{target}}, noon.Add(time.Hour))
		if v := d.Verdicts[0]; target.Problem != "" && v.Health != core.Undetermined {
			t.Errorf("%q, and yet it is judged: %s", target.Problem, v.Text())
		}
	})
}
