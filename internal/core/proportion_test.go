package core_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestOrphansTakeWorkInProportion: ten times as many requests without a repair, or that no cache shows yet, cause ten
// times the work. No statement of the core is executed much more often than that. Times would say little on a busy
// machine.
func TestOrphansTakeWorkInProportion(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it compiles the core once more")
	}
	counting := filepath.Join(t.TempDir(), "counting.test")
	build := exec.Command("go", "test", "-c", "-covermode=count", "-o", counting, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests of the core so that they count: %v\n%s", err, out)
	}
	for few, many := range map[string]string{
		"Orphans/2000_of_1":            "Orphans/20000_of_1",
		"Orphans/2000_of_500":          "Orphans/20000_of_5000",
		"RequestsThatAreNotShown/2000": "RequestsThatAreNotShown/20000",
	} {
		before, after := mostOften(t, counting, few), mostOften(t, counting, many)
		t.Logf("a statement is executed at most %d times in %s and %d times in %s", before, few, after, many)
		if before < 2000 || after > 20*before {
			t.Errorf("a statement is executed at most %d times in %s, and %d times in %s", before, few, after, many)
		}
	}
}

// mostOften runs a benchmark once, and returns how often the statement is executed that is executed most often.
func mostOften(t *testing.T, counting, benchmark string) int {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	run := exec.Command(counting, "-test.run=^$", "-test.bench=^Benchmark"+strings.ReplaceAll(benchmark, "/", "$/^")+"$",
		"-test.benchtime=1x", "-test.coverprofile="+profile)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("running %s: %v\n%s", benchmark, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatalf("reading what was counted in %s: %v", benchmark, err)
	}
	most := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if times, err := strconv.Atoi(words[len(words)-1]); err == nil {
			most = max(most, times)
		}
	}
	return most
}
