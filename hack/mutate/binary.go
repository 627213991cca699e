package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binary is the compiled tests of one package, with the mutants of a package in it.
type binary struct {
	file  string
	dir   string // of the package, where its tests run
	flags []string
	tests []*test
	grace time.Duration // how long tests may take at least with a mutant
}

// test is one test, and what it reaches while no mutant is on.
type test struct {
	name    string
	binary  *binary
	took    time.Duration
	reaches map[int]bool
	fails   bool // with no mutant on: such a test notices nothing
}

// overlay writes the changed files to a folder and returns the file that tells Go's tools of them.
func overlay(folder string, files map[string][]byte) (string, error) {
	replace := map[string]string{}
	for path, source := range files {
		original, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("finding %s: %w", path, err)
		}
		changed := filepath.Join(folder, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(changed, source, 0o600); err != nil {
			return "", fmt.Errorf("writing an overlay: %w", err)
		}
		replace[original] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encoding an overlay: %w", err)
	}
	name := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return "", fmt.Errorf("writing an overlay: %w", err)
	}
	return name, nil
}

// build compiles the tests of a package. It returns nil if there are none.
func build(ctx context.Context, folder, overlay string, p testPackage) (*binary, error) {
	name := filepath.Join(folder, strings.ReplaceAll(p.dir, "/", "-")+".test")
	if _, err := output(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", name, "./"+p.dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(name); err != nil {
		return nil, nil //nolint:nilerr // go test -c writes nothing where there is no test
	}
	b := &binary{file: name, dir: p.dir, flags: []string{"-test.short"}, grace: 10 * time.Second}
	// The draws of rapid are the same for each mutant, and nothing is written to testdata.
	help := exec.CommandContext(ctx, name, "-h") //nolint:gosec // it was just built
	usage, _ := help.CombinedOutput()            // asking for help fails by design
	if bytes.Contains(usage, []byte("-rapid.nofailfile")) {
		b.flags = append(b.flags, "-rapid.nofailfile", "-rapid.seed=1")
	}
	if err := b.list(ctx, p.skip); err != nil {
		return nil, err
	}
	return b, nil
}

// list finds the tests.
func (b *binary) list(ctx context.Context, skip string) error {
	list := exec.CommandContext(ctx, b.file, "-test.list", "^(Test|Fuzz|Example)") //nolint:gosec // it was just built
	list.Dir = b.dir
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing the tests of %s: %w", b.dir, err)
	}
	skipped, err := regexp.Compile(skip)
	if err != nil {
		return fmt.Errorf("reading what to skip: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if skip == "" || !skipped.MatchString(name) {
			b.tests = append(b.tests, &test{name: name, binary: b})
		}
	}
	return nil
}

// result is how tests ended.
type result struct {
	passed bool
	test   string // the first that failed
	ended  bool   // whether they ended in time
}

// run runs some tests with a mutant, or with none, for at most a time.
func (b *binary) run(ctx context.Context, names []string, limit time.Duration, env ...string) result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := append([]string{
		"-c", `ulimit -v 6000000 2>/dev/null || true; exec "$@"`, "mutate", // a mutant may want endless memory
		b.file, "-test.run", "^(" + strings.Join(names, "|") + ")$", "-test.failfast", "-test.v",
	}, b.flags...)
	cmd := exec.CommandContext(ctx, "bash", args...) //nolint:gosec // a test that was just built
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	failed := make(chan string, 1)
	go func() { failed <- firstFailure(reader) }()
	err := cmd.Run()
	_ = writer.Close() // a pipe in memory
	return result{passed: err == nil, test: <-failed, ended: ctx.Err() == nil}
}

// runPatiently is run, but gives tests that don't end in time more time once. A busy machine may have withheld the
// processor, and a mutant that only met such a machine is not noticed.
func (b *binary) runPatiently(ctx context.Context, names []string, limit time.Duration, env ...string) result {
	const more = 3
	r := b.run(ctx, names, limit, env...)
	if r.ended || ctx.Err() != nil {
		return r
	}
	return b.run(ctx, names, more*limit, env...)
}

// firstFailure reads the output of tests to its end. It returns the name of the first test that failed or, after a panic, of the
// test that ran.
func firstFailure(r io.Reader) string {
	var failed, running string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if name, ok := strings.CutPrefix(line, "=== RUN "); ok && failed == "" {
			running = strings.TrimSpace(name)
		}
		if _, name, ok := strings.Cut(line, "--- FAIL: "); ok && failed == "" {
			failed, _, _ = strings.Cut(name, " ")
		}
		if err != nil {
			break
		}
	}
	if failed == "" {
		return running
	}
	return strings.TrimSpace(failed)
}

// measure runs each test alone, without a mutant, and stores what it reaches.
func (b *binary) measure(ctx context.Context, folder string, procs int) {
	const limit = 3 * time.Minute
	each(procs, len(b.tests), func(i int) {
		t := b.tests[i]
		record := filepath.Join(folder, "reached-"+strings.ReplaceAll(b.dir, "/", "-")+"-"+t.name)
		start := time.Now()
		r := b.run(ctx, []string{t.name}, limit, "FETTLE_MUTANTS_REACHED="+absolute(record))
		t.took, t.fails, t.reaches = time.Since(start), !r.passed, map[int]bool{}
		out, _ := os.ReadFile(record) // a test that reaches nothing writes none
		for id := range strings.FieldsSeq(string(out)) {
			if n, err := strconv.Atoi(id); err == nil {
				t.reaches[n] = true
			}
		}
	})
	slices.SortStableFunc(b.tests, func(a, b *test) int { return int(a.took - b.took) })
}

// batches returns the tests that reach a mutant, quick ones first and together.
func (b *binary) batches(id int) [][]*test {
	const quick = 2 * time.Second
	var batches [][]*test
	var sum time.Duration
	for _, t := range b.tests {
		if t.fails || !t.reaches[id] {
			continue
		}
		if len(batches) == 0 || sum+t.took > quick {
			batches, sum = append(batches, nil), 0
		}
		last := len(batches) - 1
		batches[last], sum = append(batches[last], t), sum+t.took
	}
	return batches
}

// meet runs the tests that reach a mutant with it until one notices it.
func (b *binary) meet(ctx context.Context, id int) (reached bool, caught string) {
	for _, batch := range b.batches(id) {
		names, limit := make([]string, 0, len(batch)), b.grace
		for _, t := range batch {
			names, limit = append(names, t.name), limit+5*t.took
		}
		switch r := b.runPatiently(ctx, names, limit, "FETTLE_MUTANT="+strconv.Itoa(id)); {
		case ctx.Err() != nil:
			return true, ""
		case !r.ended:
			return true, r.test + " (it doesn't end)"
		case !r.passed:
			return true, r.test
		}
		reached = true
	}
	return reached, ""
}
