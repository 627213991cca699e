package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// module writes a module with one package and its tests, and makes it the working folder.
func module(t *testing.T, code, tests string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/sample\n\ngo 1.26\n", "pkg/pkg.go": code, "pkg/pkg_test.go": tests,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
}

// mutantsOf returns the mutants of the package as "OPERATOR: TEXT".
func mutantsOf(t *testing.T) []string {
	t.Helper()
	_, m := loaded(t)
	var list []string
	for _, mu := range m.mutants {
		list = append(list, mu.operator+": "+mu.text)
	}
	return list
}

func loaded(t *testing.T) (*checked, *mutated) {
	t.Helper()
	found, err := listExports(t.Context(), []string{"pkg"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := load(t.Context(), "pkg", found)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mutate(p, found)
	if err != nil {
		t.Fatal(err)
	}
	return p, m
}

const limits = `package pkg

import "time"

const most = 3

var order = []func(int) int{double, next}

func double(n int) int { return n * 2 }
func next(n int) int { return n + 1 }

// Apply runs the order.
func Apply(n int) int {
	for _, f := range order {
		n = f(n)
	}
	return n
}

// Allows reports whether there is room.
func Allows(n int, since time.Duration, paused bool) bool {
	if paused && n > 0 { // a comment with " and (
		return false
	}
	switch n {
	case 7:
		return false
	}
	return n < most && since >= time.Minute
}

type log struct{ lines []string }

func (l *log) add(s string) { l.lines = append(l.lines, s) }

// Write writes one line before the other.
func Write() []string {
	l := &log{}
	l.add("record")
	l.add("act")
	return l.lines
}
`

const limitsTest = `package pkg

import (
	"strings"
	"testing"
	"time"
)

func TestApply(t *testing.T) {
	if got := Apply(5); got != 11 {
		t.Fatal(got)
	}
}

func TestAllows(t *testing.T) {
	if !Allows(2, time.Minute, false) || Allows(3, time.Minute, false) || Allows(2, time.Minute-1, false) {
		t.Fatal("the limits are wrong")
	}
	if Allows(1, time.Minute, true) || !Allows(0, time.Minute, true) {
		t.Fatal("the pause is wrong")
	}
}

func TestWrite(t *testing.T) {
	if got := strings.Join(Write(), " "); got != "record act" {
		t.Fatal(got)
	}
}

func TestFails(t *testing.T) { t.Fatal("always") }
`

func TestMutants(t *testing.T) {
	module(t, limits, limitsTest)
	got := mutantsOf(t)
	for _, want := range []string{
		"skip element: double",
		"swap with next: double",
		"skip element: next",
		"drop statement: n = f(n)",
		"negate: paused && n > 0",
		"drop operand: paused of paused && n > 0",
		"drop operand: n > 0 of paused && n > 0",
		"move bound: n > 0",
		"move constant: 0 in if paused && n > 0 {",
		"drop return: return false",
		"negate result: return n < most && since >= time.Minute",
		"move bound: n < most",
		"move constant: most in return n < most && since >= time.Minute",
		"move bound: since >= time.Minute",
		"move constant: time.Minute in return n < most && since >= time.Minute",
		"swap with next: l.add(\"record\"); l.add(\"act\")",
		"drop statement: l.add(\"act\")",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no mutant %q among:\n%s", want, strings.Join(got, "\n"))
		}
	}
	for _, m := range got {
		if strings.HasPrefix(m, "move constant: 7") {
			t.Errorf("the value of a case must stay constant: %s", m)
		}
	}
}

// The tests above tell every mutant from the code, except the mutants that the test names.
func TestMutantsAreCaught(t *testing.T) {
	module(t, limits, limitsTest)
	_, m := loaded(t)
	folder := t.TempDir()
	changed, err := overlay(folder, m.files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := build(t.Context(), folder, changed, testPackage{dir: "pkg"})
	if err != nil {
		t.Fatal(err)
	}
	b.measure(t.Context(), folder, 1)
	survivors, by := []string{}, map[string]string{}
	for _, mu := range m.mutants {
		reached, caught := meetAll(t.Context(), []*binary{b}, mu.id)
		by[mu.operator+": "+mu.text] = caught
		if caught == "" {
			survivors = append(survivors, mu.operator+": "+mu.text)
		}
		if !reached && mu.text != "return false" {
			t.Errorf("no test reaches %s", mu.key())
		}
	}
	slices.Sort(survivors)
	want := []string{
		"drop return: return false",   // of the case that no test has
		"negate result: return false", // the same
	}
	if !slices.Equal(survivors, want) {
		t.Errorf("got survivors\n%s\nwant\n%s", strings.Join(survivors, "\n"), strings.Join(want, "\n"))
	}
	if got := by["move bound: n < most"]; got != "pkg.TestAllows" {
		t.Errorf("got %q for the test that catches a moved bound, want TestAllows", got)
	}
	if source, err := os.ReadFile("pkg/pkg.go"); err != nil || string(source) != limits {
		t.Errorf("the tree was written: %v", err)
	}
}

func TestEndlessMutantIsCaught(t *testing.T) {
	module(t, `package pkg

func Count(n int) int {
	i := 0
	for i < n {
		i++
	}
	return i
}
`, `package pkg

import "testing"

func TestCount(t *testing.T) {
	if Count(3) != 3 {
		t.Fatal("wrong")
	}
}
`)
	_, m := loaded(t)
	folder := t.TempDir()
	changed, err := overlay(folder, m.files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := build(t.Context(), folder, changed, testPackage{dir: "pkg"})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(m.mutants, func(mu *mutant) bool { return mu.operator == "drop statement" })
	id := m.mutants[at].id
	r := b.run(t.Context(), []string{"TestCount"}, time.Second, "FETTLE_MUTANT="+strconv.Itoa(id))
	if r.passed || r.ended {
		t.Errorf("got %+v for a loop that doesn't end", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := b.run(ctx, []string{"TestCount"}, time.Second); r.passed {
		t.Errorf("got %+v for a run that was cancelled", r)
	}
}

// TestSlowMachine: tests that end in time only when they run again don't notice the mutant.
func TestSlowMachine(t *testing.T) {
	module(t, "package pkg\n\nfunc Two() int { return 2 }\n", `package pkg

import (
	"os"
	"testing"
	"time"
)

func TestTwo(t *testing.T) {
	Two()
	if os.Getenv("FETTLE_MUTANT") == "" {
		return
	}
	if _, err := os.Stat("before"); err != nil {
		os.WriteFile("before", nil, 0o600)
		time.Sleep(time.Hour)
	}
}
`)
	_, m := loaded(t)
	folder := t.TempDir()
	changed, err := overlay(folder, m.files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := build(t.Context(), folder, changed, testPackage{dir: "pkg"})
	if err != nil {
		t.Fatal(err)
	}
	b.measure(t.Context(), folder, 1)
	b.grace = time.Second
	if reached, caught := b.meet(t.Context(), m.mutants[0].id); !reached || caught != "" {
		t.Errorf("got reached %t, caught by %q; want a mutant that no test notices", reached, caught)
	}
	if _, err := os.Stat("pkg/before"); err != nil {
		t.Errorf("the tests did not run: %v", err)
	}
}

// TestSwitchesAllocateNothing: a test that counts allocations passes while it is measured.
func TestSwitchesAllocateNothing(t *testing.T) {
	module(t, "package pkg\n\nfunc Count() int {\n\ti := 0\n"+strings.Repeat("\ti++\n", 300)+"\treturn i\n}\n", `package pkg

import "testing"

func TestCount(t *testing.T) {
	if got := testing.AllocsPerRun(10, func() { Count() }); got > 0 {
		t.Fatal(got)
	}
}
`)
	_, m := loaded(t)
	folder := t.TempDir()
	changed, err := overlay(folder, m.files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := build(t.Context(), folder, changed, testPackage{dir: "pkg"})
	if err != nil {
		t.Fatal(err)
	}
	b.measure(t.Context(), folder, 1)
	if b.tests[0].fails || len(b.tests[0].reaches) < 300 {
		t.Errorf("the test fails: %t; it reaches %d mutants", b.tests[0].fails, len(b.tests[0].reaches))
	}
}

func TestParts(t *testing.T) {
	const total, n = 103, 7
	held := 0
	for i := range n {
		for place := range total {
			if (part{i, n}).has(place, total) {
				held++
			}
		}
	}
	if held != total {
		t.Errorf("the parts hold %d mutants of %d", held, total)
	}
	for text, want := range map[string]bool{
		"": true, "0/4": true, "3/4": true, "4/4": false, "-1/4": false, "1": false, "1/0": false, "x/y": false,
		"8146518c0ffee/40": true, "12345678/40": true,
	} {
		if p, err := parsePart(text); (err == nil) != want || want && (p.i < 0 || p.i >= p.n) {
			t.Errorf("parsePart(%q) = %v, %v", text, p, err)
		}
	}
}

func TestExplained(t *testing.T) {
	e, err := parseExplained("# a comment\n\npkg/a.go | F | negate | a || b -- it is equal\n")
	if err != nil || e["pkg/a.go | F | negate | a || b"] != "it is equal" {
		t.Errorf("got %v, %v", e, err)
	}
	here := &mutant{file: "pkg/a.go", function: "F", operator: "negate", text: "a || b"}
	if got := e.unknown("pkg", []*mutant{here}); len(got) != 0 {
		t.Errorf("got %v unknown, want none", got)
	}
	if got := e.unknown("pkg", nil); len(got) != 1 {
		t.Errorf("got %v unknown, want the one", got)
	}
	if got := e.unknown("pk", nil); len(got) != 0 {
		t.Errorf("got %v unknown of another package, want none", got)
	}
	for _, wrong := range []string{"pkg/a.go | F | negate -- why", "pkg/a.go | F | negate | a", "a | b | c | d -- x\na | b | c | d -- y"} {
		if _, err := parseExplained(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// A run may try the mutants of some files, functions or operators alone.
func TestChoosesByMatch(t *testing.T) {
	m := &mutant{file: "pkg/pkg.go", operator: "negate", text: "a > b"}
	for pattern, want := range map[string]bool{"": true, "^pkg/pkg.go": true, `negate \| a`: true, "^pkg/other.go": false} {
		s := &session{}
		if pattern != "" {
			s.match = regexp.MustCompile(pattern)
		}
		if got := s.chooses(m); got != want {
			t.Errorf("%q chooses %s: %t", pattern, m.key(), got)
		}
		if s.again = true; s.chooses(m) {
			t.Errorf("%q chooses a mutant that is not explained, where only others are", pattern)
		}
	}
}

// A run fails on an unexplained survivor, and on too many survivors of an open package. It fails on an
// explanation of a mutant that a test notices.
func TestTally(t *testing.T) {
	m := &mutant{file: "pkg/a.go", function: "F", operator: "negate", text: "a"}
	why := explained{m.key(): "equal"}
	tests := map[string]struct {
		target    target
		explained explained
		caught    string
		ok        bool
	}{
		"caught":            {caught: "pkg.TestA", ok: true},
		"survives":          {},
		"explained":         {explained: why, ok: true},
		"explained, caught": {explained: why, caught: "pkg.TestA"},
		"open":              {target: target{open: 1}, ok: true},
		"not yet counted":   {target: target{unmeasured: true}, ok: true},
	}
	for name, test := range tests {
		var out strings.Builder
		tally := &tally{target: test.target, explained: test.explained, report: &out}
		tally.add(m, true, test.caught)
		if got := tally.print(&out, time.Second); got != test.ok {
			t.Errorf("%s: got %v\n%s", name, got, out.String())
		}
	}
}
