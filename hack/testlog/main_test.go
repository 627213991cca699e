package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const events = `# a line of the compiler
{"ImportPath":"m/broken","Action":"build-output","Output":"broken.go:3: undefined: x\n"}
{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Output":"-test.shuffle 17\n"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"    a_test.go:1: all is well\n"}
{"Action":"output","Package":"m/b","Test":"TestOther","Output":"    b_test.go:1: of another package\n"}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"    a_test.go:2: it is wrong\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":1}
{"Action":"output","Package":"m/a","Test":"TestBad","Output":"a line of a log\n"}
{"Action":"output","Package":"m/a","Test":"TestRaces","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"m/a","Test":"TestRaces","Output":"Write by a goroutine of TestBad\n"}
{"Action":"pass","Package":"m/a","Test":"TestRaces","Elapsed":1}
{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":1}
{"Action":"output","Package":"m/a","Test":"TestEndless","Output":"    a_test.go:3: still waiting\n"}
{"Action":"fail","Package":"m/a","Elapsed":2.6}
{"Action":"pass","Package":"m/b","Elapsed":61.2}
{"Action":"output","Package":"m/c","Test":"TestSkipped","Output":"=== RUN   TestSkipped\n"}
{"Action":"output","Package":"m/c","Test":"TestSkipped","Output":"    c_test.go:1: the package ipmi can't be installed\n"}
{"Action":"skip","Package":"m/c","Test":"TestSkipped","Elapsed":0}
{"Action":"skip","Package":"m/none","Elapsed":0}
`
	name := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(name, []byte("5 ok m/before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	failures, skipped := filepath.Join(t.TempDir(), "failures"), filepath.Join(t.TempDir(), "skipped")
	if err := run(strings.NewReader(events), &out, name, failures, skipped); err != nil {
		t.Fatal(err)
	}
	const want = `# a line of the compiler
broken.go:3: undefined: x
    a_test.go:2: it is wrong
a line of a log
-test.shuffle 17
    a_test.go:3: still waiting
WARNING: DATA RACE
Write by a goroutine of TestBad
FAIL      3 s  m/a
ok       61 s  m/b
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	results, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := "5 ok m/before\n3 FAIL m/a\n61 ok m/b\n"; string(results) != want {
		t.Errorf("got results %q, want %q", results, want)
	}
	const shortened = `m/a TestBad
    a_test.go:2: it is wrong
a line of a log
m/a TestEndless
    a_test.go:3: still waiting
m/a TestRaces
`
	if got, err := os.ReadFile(failures); err != nil || string(got) != shortened {
		t.Errorf("got failures (%v)\n%s\nwant\n%s", err, got, shortened)
	}
	const notTested = "m/c TestSkipped\n    c_test.go:1: the package ipmi can't be installed\n"
	if got, err := os.ReadFile(skipped); err != nil || string(got) != notTested {
		t.Errorf("got skipped tests (%v)\n%s\nwant\n%s", err, got, notTested)
	}
}

// TestFailures: of a long output the last messages are kept, and of a long message its first lines.
func TestFailures(t *testing.T) {
	var events strings.Builder
	for i := range 9 {
		for _, line := range []string{"    a_test.go:%d: message\\n", "        b\\n", "        c\\n", "        d\\n", "        left out %d\\n"} {
			if strings.Contains(line, "%d") {
				line = fmt.Sprintf(line, i)
			}
			fmt.Fprintf(&events, `{"Action":"output","Package":"m/a","Test":"TestBad","Output":"%s"}`+"\n", line)
		}
	}
	events.WriteString(`{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":1}`)
	failures := filepath.Join(t.TempDir(), "failures")
	if err := run(strings.NewReader(events.String()), io.Discard, filepath.Join(t.TempDir(), "results"), failures, filepath.Join(t.TempDir(), "skipped")); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("m/a TestBad\n")
	for i := 3; i < 9; i++ {
		fmt.Fprintf(&want, "    a_test.go:%d: message\n        b\n        c\n        d\n", i)
	}
	if got, err := os.ReadFile(failures); err != nil || string(got) != want.String() {
		t.Errorf("got failures (%v)\n%s\nwant\n%s", err, got, want.String())
	}
}
