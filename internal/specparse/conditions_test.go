package specparse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

const groupsKey = "fettle.io/unhealthy-conditions"

func groupsOf(text string) ([]core.ConditionGroup, error) {
	return Groups(map[string]string{groupsKey: text}, groupsKey)
}

func TestGroupsAreRead(t *testing.T) {
	if got, err := Groups(nil, groupsKey); got != nil || err != nil {
		t.Errorf("without the annotation there are %v, %v", got, err)
	}
	together := []core.ConditionGroup{
		{For: 5 * time.Minute, Tests: []core.ConditionTest{{Type: "Ready", Status: "False", Reason: "Kubelet*"}, {Type: "example.com/Agent", Missing: true}}},
		{For: 90 * time.Second, Tests: []core.ConditionTest{{Type: "DiskPressure", Status: "Unknown"}}},
	}
	for sentence, text := range map[string]string{
		"YAML": `
- all:
  - {type: Ready, status: "False", reason: Kubelet*}
  - type: example.com/Agent
    missing: true
  for: 5m
- {all: [{type: DiskPressure, status: Unknown}], for: 90s}
`,
		"JSON": `[{"all":[{"type":"Ready","status":"False","reason":"Kubelet*"},{"type":"example.com/Agent","missing":true}],"for":"5m"},` +
			`{"all":[{"type":"DiskPressure","status":"Unknown"}],"for":"1m30s"}]`,
	} {
		got, err := groupsOf(text)
		if diff := cmp.Diff(together, got); diff != "" || err != nil {
			t.Errorf("%s: %v, groups (-want +got):\n%s", sentence, err, diff)
		}
	}
	for _, example := range []string{groupsExample, `[{all: [` + strings.ReplaceAll(testExample, " or ", ", ") + `], for: 1m}]`} {
		if _, err := groupsOf(example); err != nil {
			t.Errorf("the example %s is not read: %v", example, err)
		}
	}
}

// TestFaultsOfGroupsAreReported: each names its place and what to give, and nothing is judged by any of the groups then.
func TestFaultsOfGroupsAreReported(t *testing.T) {
	one := func(test string) string { return `[{all: [` + test + `], for: 5m}]` }
	long := strings.Repeat("x", 200)
	for text, says := range map[string][]string{
		"":                                     {"has no list of entries; give one such as " + groupsExample},
		"[]":                                   {"has no list of entries"},
		"{all: []}":                            {"has no list of entries"},
		"Ready=False":                          {"has no list of entries"},
		"- [":                                  {"is not YAML ("},
		"[{all: [], all: [], for: 5m}]":        {"is not YAML (", `key "all" already set in map); give a list such as ` + groupsExample},
		"[&a {all: []}, *a]":                   {"has the character &"},
		strings.Repeat(" ", 4097):              {"has 4097 bytes; give at most 4096"},
		"[" + strings.Repeat("{}, ", 17) + "]": {"has 17 entries; give at most 16"},
		"[Ready]":                              {`[0] is "Ready"; give an object such as {all:`},
		"[{all: [{type: A, missing: true}], for: 5m}, {any: []}]": {`[1] has the field "any", which means nothing; the fields are all, for`},
		"[{all: [{type: A, missing: true}]}]":                     {"[0].for is missing; give a duration above zero, such as 10m"},
		"[{all: [{type: A, missing: true}], for: 300}]":           {"[0].for is 300; give a duration"},
		"[{all: [{type: A, missing: true}], for: 0s}]":            {`[0].for is "0s"`},
		"[{all: [{type: A, missing: true}], for: -5m}]":           {`[0].for is "-5m"`},
		"[{for: 5m}]":                  {"[0].all is no list of conditions; give one such as [{type: Ready"},
		"[{all: {}, for: 5m}]":         {"[0].all is no list"},
		"[{all: [], for: 5m}]":         {"[0].all is no list"},
		one(strings.Repeat("{}, ", 9)): {"[0].all has 9 conditions; give at most 8"},
		one("Ready"):                   {`[0].all[0] is "Ready"; give an object such as {type: Ready, status: "False"}`},
		one(`{type: Ready, status: "False", message: x}`):                             {`[0].all[0] has the field "message", which means nothing; the fields are type, status, reason, missing`},
		one(`{status: "False"}`):                                                      {"[0].all[0].type is missing; give the type"},
		one(`{type: 7, status: "False"}`):                                             {"[0].all[0].type is 7"},
		one(`{type: "a b", status: "False"}`):                                         {`[0].all[0].type is "a b"`},
		one(`{type: ` + strings.Repeat("x", 317) + `, missing: true}`):                {"[0].all[0].type is"},
		one(`{type: Ready}`):                                                          {`[0].all[0].status is missing; give "True", "False" or "Unknown", in quotes`},
		one(`{type: Ready, status: False}`):                                           {`[0].all[0].status is false; give "True", "False" or "Unknown", in quotes`},
		one(`{type: Ready, status: Bad}`):                                             {`[0].all[0].status is "Bad"`},
		one(`{type: Ready, missing: yes-please}`):                                     {`[0].all[0].missing is "yes-please"; give true, or remove it`},
		one(`{type: Ready, missing: false}`):                                          {`[0].all[0].missing is false`},
		one(`{type: Ready, missing: true, status: "True"}`):                           {"[0].all[0] requires a condition to be missing, and its status or reason"},
		one(`{type: Ready, missing: true, reason: A}`):                                {"[0].all[0] requires a condition to be missing, and its status or reason"},
		one(`{type: Ready, status: "True", reason: "^Kube(let)?"}`):                   {`[0].all[0].reason is "^Kube(let)?"; give a reason such as KubeletNotReady`, "it is no regular expression"},
		one(`{type: Ready, status: "True", reason: ""}`):                              {`[0].all[0].reason is ""`},
		one(`{type: Ready, status: "True", reason: null}`):                            {`[0].all[0].reason is missing`},
		one(`{type: Ready, status: "True", reason: [A]}`):                             {`[0].all[0].reason is a list`},
		one(`{type: Ready, status: "True", reason: ` + long + `}`):                    {"[0].all[0].reason is", "(200 bytes)"},
		one(`{type: Ready, status: "True"}, {type: Ready, missing: true}`):            {"[0].all[1] names condition Ready once more; give each condition once"},
		"[" + strings.Repeat("{all: [{type: A, missing: true}], for: 5m}, ", 9) + "]": {"requires 9 conditions that are missing or have a reason; give at most 8"},
		"[{all: [{type: A}], for: 1}, {all: [{type: B}], for: 2}]":                    {"[0].for is 1", "[0].all[0].status", "[1].for is 2", "[1].all[0].status"},
	} {
		got, err := groupsOf(text)
		if got != nil || err == nil {
			t.Errorf("%s is read as %v, %v", text, got, err)
			continue
		}
		for _, words := range says {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: the error does not say %q: %v", text, words, err)
			}
		}
		for _, problem := range ErrorLines(err) {
			if !strings.HasPrefix(problem, "annotation "+groupsKey+" ") || Problem(problem).Field != "metadata.annotations."+groupsKey {
				t.Errorf("%s: the problem does not begin with its field: %s", text, problem)
			}
		}
	}
}

// TestEachFaultOfGroupsIsToldOnce: a value that can't be read has no further faults.
func TestEachFaultOfGroupsIsToldOnce(t *testing.T) {
	one := func(tests string) string { return `[{all: [` + tests + `], for: 5m}]` }
	const typeFault = `.type is "a b"; give the type of a condition of nodes, such as Ready`
	for text, want := range map[string][]string{
		"[Ready]":                      {`[0] is "Ready"; give an object such as {all: [{type: Ready, status: "False"}, {type: KernelDeadlock, missing: true}], for: 10m}`},
		"[{any: []}]":                  {`[0] has the field "any", which means nothing; the fields are all, for`},
		"[{for: 5m}]":                  {`[0].all is no list of conditions; give one such as [{type: Ready, status: "False"}]`},
		one("Ready"):                   {`[0].all[0] is "Ready"; give an object such as {type: Ready, status: "False"} or {type: KernelDeadlock, missing: true}`},
		one("{what: 7}"):               {`[0].all[0] has the field "what", which means nothing; the fields are type, status, reason, missing`},
		one(strings.Repeat("{}, ", 9)): {"[0].all has 9 conditions; give at most 8"},
		one(`{type: "a b", status: "True"}, {type: "a b", status: "True"}`): {"[0].all[0]" + typeFault, "[0].all[1]" + typeFault},
	} {
		_, err := groupsOf(text)
		got := ErrorLines(err)
		for i, line := range got {
			got[i] = strings.TrimPrefix(line, "annotation "+groupsKey+" ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestI15FaultOfYAMLIsBounded: the parser quotes the text, and a part of that is shown.
func TestI15FaultOfYAMLIsBounded(t *testing.T) {
	key := strings.Repeat("x", 2*maxFault)
	_, err := groupsOf("[{" + key + ": 1, " + key + ": 2}]")
	_, fault, _ := strings.Cut(fmt.Sprint(err), "is not YAML (")
	fault, _, _ = strings.Cut(fault, "); give")
	if len(fault) != maxFault || !strings.HasSuffix(fault, "x…") {
		t.Errorf("%d bytes of the parser's error are shown, want %d: %s", len(fault), maxFault, fault)
	}
}

// TestI15GroupsAtTheirBounds: as much as is allowed is read.
func TestI15GroupsAtTheirBounds(t *testing.T) {
	one := `{all: [{type: A, status: "True"}], for: 5m}, `
	eight := "[{all: ["
	for kind := range strings.SplitSeq("A,B,C,D,E,F,G,H", ",") {
		eight += "{type: " + kind + ", missing: true}, "
	}
	eight += "], for: 5m}]"
	for text, want := range map[string]int{
		"[" + strings.Repeat(one, 16) + "]": 16,
		eight:                               1,
		"[" + one + "]" + strings.Repeat(" ", 4096-len(one)-2): 1,
	} {
		if groups, err := groupsOf(text); err != nil || len(groups) != want {
			t.Errorf("%s is read as %d groups, %v; want %d", text, len(groups), err, want)
		}
	}
}

func TestGoneDelay(t *testing.T) {
	const key = "fettle.io/node-gone-delay"
	for text, want := range map[string]time.Duration{"5m": 5 * time.Minute, "0s": 0, "1h30m": 90 * time.Minute, "": -1, "300": -1, "-5m": -1, "soon": -1} {
		got, err := GoneDelay(map[string]string{key: text}, key)
		if (err != nil) != (want < 0) || got != max(0, want) {
			t.Errorf("%q is read as %s, %v", text, got, err)
		}
		if err != nil && !strings.HasSuffix(err.Error(), "; give a duration such as 5m, or 0s for no delay") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got, err := GoneDelay(nil, key); got != 0 || err != nil {
		t.Errorf("without the annotation the delay is %s, %v", got, err)
	}
}

func TestDoubtGroups(t *testing.T) {
	for text, want := range map[string]string{
		`[{all: [{type: A, missing: true}], for: 4m59s}]`:                                      "[0].all[0] requires condition A to be missing for 4m59s",
		`[{all: [{type: A, missing: true}], for: 5m}]`:                                         "",
		`[{all: [{type: B, status: "True"}], for: 1s}]`:                                        "",
		`[{all: [{type: Ready, status: "False"}], for: 5m}]`:                                   "",
		`[{all: [{type: Ready, status: "True"}], for: 5m}]`:                                    "[0].all[0] takes nodes that are Ready for unhealthy",
		`[{all: [{type: Ready, status: "True"}, {type: B, status: "True"}], for: 5m}]`:         "",
		`[{all: [{type: Ready, status: "False"}, {type: B, missing: true}], for: 1m}, {a: b}]`: "",
	} {
		remarks := GroupWarnings(map[string]string{groupsKey: text}, groupsKey, "machine")
		if (len(remarks) == 1) != (want != "") || (want != "" && (remarks[0].Fault || !strings.Contains(remarks[0].Text, want))) {
			t.Errorf("of %s it is said: %+v", text, remarks)
		}
	}
}

// FuzzGroups: whatever is written is either read, within bounds that make sense, or told in lines that may be shown.
func FuzzGroups(f *testing.F) {
	for _, seed := range []string{
		groupsExample, "", "[]", "- all: [{type: Ready, status: False}]\n  for: 5m", `[{"all":[{"type":"A","missing":true}],"for":"1s"}]`, "a: &a [*a, *a]",
		"<<: {}", "!!binary x", strings.Repeat("[", 4000), "[{all: [{type: A, status: \"True\", reason: \"*a*b*\"}], for: 5m}]", "\x00", "[1e400]", "? [",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		groups, err := groupsOf(text)
		if err != nil {
			if said := JoinProblems(ErrorLines(err)); groups != nil || said == "" || strings.ContainsAny(said, "\n\r") || !utf8.ValidString(said) || len(said) > MaxProblems+len("…") {
				t.Errorf("it is told as %q", said)
			}
			return
		}
		if len(groups) > 16 {
			t.Errorf("%d groups are read", len(groups))
		}
		for _, g := range groups {
			senseless := func(c core.ConditionTest) bool {
				return c.Type == "" || len(c.Type) > 317 || len(c.Reason) > 128 || c.Missing != (c.Status == "") || c.Missing && c.Reason != ""
			}
			if g.For <= 0 || len(g.Tests) == 0 || len(g.Tests) > 8 || slices.ContainsFunc(g.Tests, senseless) {
				t.Errorf("%q is read as %+v", text, g)
			}
		}
		if again, err := groupsOf(asJSON(groups)); err != nil || !cmp.Equal(groups, again) {
			t.Errorf("%q, written anew, is read as %+v, %v", text, again, err)
		}
	})
}

// asJSON is groups as JSON.
func asJSON(groups []core.ConditionGroup) string {
	var entries []map[string]any
	for _, g := range groups {
		var all []map[string]any
		for _, c := range g.Tests {
			fields := map[string]any{"type": c.Type}
			switch {
			case c.Missing:
				fields["missing"] = true
			default:
				fields["status"] = c.Status
			}
			if c.Reason != "" {
				fields["reason"] = c.Reason
			}
			all = append(all, fields)
		}
		entries = append(entries, map[string]any{"all": all, "for": g.For.String()})
	}
	body, err := json.Marshal(entries)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// TestI15CutGroupsAreRefused: a cache keeps the beginning of an annotation that is too long. That may read as fewer conditions, which
// more nodes meet, so it is refused as the whole annotation is.
func TestI15CutGroupsAreRefused(t *testing.T) {
	const first, second = "- for: 5m\n  all:\n  - {type: Ready, status: \"False\"}\n", "  - {type: AgentReady, missing: true}\n"
	text := first + "#" + strings.Repeat("x", maxGroupBytes) + "\n" + second
	for _, most := range []int{len(first) + 10, maxGroupBytes - 1, maxGroupBytes} {
		if got, err := groupsOf(text[:most]); err != nil || len(got) != 1 || len(got[0].Tests) != 1 {
			t.Fatalf("the first %d bytes read as %v, %v: this test needs a text that is cut to another meaning", most, got, err)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{groupsKey: text}}}}
	lenient.Bound(u)
	if got, err := Groups(u.GetAnnotations(), groupsKey); err == nil || !strings.Contains(err.Error(), "give at most 4096") {
		t.Errorf("a cache has %d of %d bytes, which read as %v, %v", len(u.GetAnnotations()[groupsKey]), len(text), got, err)
	}
	annotations := map[string]string{groupsKey: text}
	lenient.BoundAnnotations(annotations)
	if got, err := Groups(annotations, groupsKey); err == nil {
		t.Errorf("a cache has %d of %d bytes, which read as %v", len(annotations[groupsKey]), len(text), got)
	}
}
