package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// benchmark is a result of go test -bench for one shape: the fastest of several runs, which other processes disturbed
// the least.
type benchmark struct {
	Name   string  `json:"name"`
	Time   seconds `json:"time"`
	Bytes  int64   `json:"bytes"`
	Allocs int64   `json:"allocations"`
}

// benchDecide runs the benchmarks of the core's decisions, in the repository from which this program was built.
func benchDecide(ctx context.Context) ([]benchmark, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./internal/core", "-run", "^$", "-bench", "^BenchmarkDecide$", "-benchmem", "-count", "3")
	cmd.Dir = filepath.Dir(filepath.Dir(self))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("timing decisions with go test: %w", err)
	}
	return readBenchmarks(string(out)), nil
}

// readBenchmarks reads the output of go test, in the order in which each benchmark first ran.
func readBenchmarks(text string) []benchmark {
	var found []benchmark
	for line := range strings.Lines(text) {
		b, ok := readBenchmark(line)
		same := slices.IndexFunc(found, func(other benchmark) bool { return other.Name == b.Name })
		switch {
		case ok && same < 0:
			found = append(found, b)
		case ok && b.Time < found[same].Time:
			found[same] = b
		}
	}
	return found
}

// readBenchmark reads a line such as "BenchmarkDecide/disjoint/storm-2  10  34900055 ns/op  7408 B/op  11 allocs/op".
func readBenchmark(line string) (benchmark, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return benchmark{}, false
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	// The number of processors is not part of the name.
	if end := strings.LastIndexByte(name, '-'); end > 0 {
		name = name[:end]
	}
	b := benchmark{Name: strings.ReplaceAll(name, "_", " ")}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return benchmark{}, false
		}
		switch fields[i+1] {
		case "ns/op":
			b.Time = seconds(value) * seconds(time.Nanosecond)
		case "B/op":
			b.Bytes = int64(value)
		case "allocs/op":
			b.Allocs = int64(value)
		}
	}
	return b, true
}
