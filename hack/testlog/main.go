// Testlog reads the output of go test -json and reports by package: how it ended, after how many seconds, and the
// output of failed tests. Other lines pass through.
//
//	go test -json ./... | testlog RESULTS FAILURES SKIPPED
//
// It adds a line for each package to the file RESULTS: the seconds, the result and the package. To the file FAILURES it adds
// the last messages of each failed test, shortened. The output itself may be too long to find them. To the file SKIPPED it
// adds the same of each skipped test, since nothing has tested its subject.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go test -json ... | testlog RESULTS FAILURES SKIPPED")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}

func run(in io.Reader, out io.Writer, results, failures, skipped string) error {
	l := &log{out: out, output: map[string]*strings.Builder{}}
	resultsFile, err := appendTo(results)
	if err != nil {
		return err
	}
	defer resultsFile.Close() //nolint:errcheck // hack/test reads what was written
	failuresFile, err := appendTo(failures)
	if err != nil {
		return err
	}
	defer failuresFile.Close() //nolint:errcheck // the same
	skippedFile, err := appendTo(skipped)
	if err != nil {
		return err
	}
	defer skippedFile.Close() //nolint:errcheck // the same
	l.results, l.failures, l.skipped = resultsFile, failuresFile, skippedFile
	return l.read(in)
}

func appendTo(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // its caller, hack/test, names the file
	if err != nil {
		return nil, fmt.Errorf("opening a file of results: %w", err)
	}
	return file, nil
}

// event is a line of go test -json.
type event struct {
	Action     string  `json:"Action"`
	Package    string  `json:"Package"`
	ImportPath string  `json:"ImportPath"`
	Test       string  `json:"Test"`
	Elapsed    float64 `json:"Elapsed"`
	Output     string  `json:"Output"`
}

// log holds the output of tests until it is known whether they pass.
type log struct {
	out      io.Writer
	results  io.Writer
	failures io.Writer
	skipped  io.Writer
	output   map[string]*strings.Builder // by package, and by package and test
}

func (l *log) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			l.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the results of tests: %w", err)
		}
	}
}

func (l *log) line(line string) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Action == "" {
		fmt.Fprint(l.out, line)
		return
	}
	switch e.Action {
	case "output":
		l.keep(&e)
	case "build-output":
		fmt.Fprint(l.out, e.Output)
	case "fail":
		l.shorten(l.failures, &e)
		l.show(&e)
		l.ended(&e, "FAIL")
	case "pass":
		if !l.hasRace(&e) { // its output may have the race of another test, which fails
			l.drop(&e)
		}
		l.ended(&e, "ok")
	case "skip":
		l.shorten(l.skipped, &e)
		l.drop(&e)
	}
}

func key(e *event) string { return e.Package + " " + e.Test }

func (l *log) keep(e *event) {
	if l.output[key(e)] == nil {
		l.output[key(e)] = &strings.Builder{}
	}
	l.output[key(e)].WriteString(e.Output)
}

// show prints what a test or a package has printed.
func (l *log) show(e *event) {
	if kept := l.output[key(e)]; kept != nil {
		fmt.Fprint(l.out, kept.String())
	}
	l.drop(e)
}

// message is the first line of a message of a test: its place in the code stands before it.
var message = regexp.MustCompile(`^\s+[\w./-]+\.go:\d+: `)

// shorten writes the last messages of a test, and the first lines of each.
func (l *log) shorten(to io.Writer, e *event) {
	const messages, lines = 6, 4
	kept := l.output[key(e)]
	if e.Test == "" || kept == nil {
		return
	}
	var found [][]string
	for line := range strings.Lines(kept.String()) {
		switch last := len(found) - 1; {
		case message.MatchString(line):
			found = append(found, []string{line})
		case last >= 0 && len(found[last]) < lines:
			found[last] = append(found[last], line)
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", e.Package, e.Test)
	for _, m := range found[max(0, len(found)-messages):] {
		for _, line := range m {
			fmt.Fprintf(&text, "%.300s\n", strings.TrimRight(line, "\n"))
		}
	}
	fmt.Fprint(to, text.String()) // at once, since others append to the file
}

// hasRace reports whether the race detector has written into the output of a test. It writes to the test that printed
// last, which may pass.
func (l *log) hasRace(e *event) bool {
	kept := l.output[key(e)]
	return kept != nil && strings.Contains(kept.String(), "WARNING: DATA RACE")
}

func (l *log) drop(e *event) { delete(l.output, key(e)) }

// ended prints the result of a package.
func (l *log) ended(e *event, result string) {
	if e.Test != "" {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l.output)) {
		if !strings.HasPrefix(name, e.Package+" ") {
			continue
		}
		if result != "ok" { // a test that never ended, or a race
			l.shorten(l.failures, &event{Package: e.Package, Test: strings.TrimPrefix(name, e.Package+" ")})
			fmt.Fprint(l.out, l.output[name].String())
		}
		delete(l.output, name)
	}
	fmt.Fprintf(l.out, "%-4s %6.0f s  %s\n", result, e.Elapsed, e.Package)
	fmt.Fprintf(l.results, "%.0f %s %s\n", e.Elapsed, result, e.Package)
}
