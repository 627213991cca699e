package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// benchmark is one line of go test -bench.
type benchmark struct {
	Name   string  `json:"name"`
	Time   seconds `json:"time"`
	Bytes  int64   `json:"bytes"`
	Allocs int64   `json:"allocations"`
}

// benchDecide times decisions by the benchmarks of the core, in the repository that this program was built in.
func benchDecide(ctx context.Context) ([]benchmark, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./internal/core", "-run", "^$", "-bench", "^BenchmarkDecide$", "-benchmem")
	cmd.Dir = filepath.Dir(filepath.Dir(self))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("timing decisions with go test: %w", err)
	}
	return readBenchmarks(string(out)), nil
}

// readBenchmarks reads lines such as "BenchmarkDecide/disjoint/storm-2  10  34900055 ns/op  7408 B/op  11 allocs/op".
func readBenchmarks(text string) []benchmark {
	var found []benchmark
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		// The number of processors is no part of the name.
		if end := strings.LastIndexByte(name, '-'); end > 0 {
			name = name[:end]
		}
		b := benchmark{Name: strings.ReplaceAll(name, "_", " ")}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
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
		found = append(found, b)
	}
	return found
}
