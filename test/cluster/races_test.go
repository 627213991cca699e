package cluster

import (
	"strings"
	"testing"
)

// report is a report of the race detector, without the stacks below the two accesses.
func report(first, second string) string {
	return `==================
WARNING: DATA RACE
Write at 0x00c000101a00 by goroutine 71:
  ` + first + `()
      internal.go:633 +0x75
  runtime.deferreturn()
      panic.go:668 +0x5d

Previous read at 0x00c000101a00 by main goroutine:
  ` + second + `()
      internal.go:509 +0x90
  main.main()
      main.go:27 +0x3b5

Goroutine 71 (running) created at:
  ` + first + `()
==================
`
}

// TestRaces: each report counts, but that of controller-runtime with itself.
func TestRaces(t *testing.T) {
	t.Parallel()
	const ofManager = "sigs.k8s.io/controller-runtime/pkg/manager.(*controllerManager)."
	known, other := report(ofManager+"initLeaderElector.func2", ofManager+"engageStopProcedure"), report("main.a", "main.b")
	for log, want := range map[string]int{
		"":                           0,
		"no race":                    0,
		"before\n" + known + "after": 0,
		strings.NewReplacer("Write", "Read", "Previous read", "Previous write").Replace(report(ofManager+"engageStopProcedure", ofManager+"initLeaderElector.func2")): 0,
		other:                 1,
		known + other + other: 2,
		other + known:         1,
		report(ofManager+"initLeaderElector.func2", "main.b"):              1,
		report("main.a", ofManager+"engageStopProcedure"):                  1,
		report(ofManager+"initLeaderElector.func2", ofManager+"GetClient"): 1,
		"WARNING: DATA RACE": 1,
	} {
		if got := races([]byte(log)); got != want {
			t.Errorf("%d races, want %d, in:\n%s", got, want, log)
		}
	}
}
