package cluster

import (
	"bytes"
	"regexp"
)

const manager = `  sigs\.k8s\.io/controller-runtime/pkg/manager\.\(\*controllerManager\)\.`

// raceOfManagers matches the report of a race that controller-runtime has with itself. A leader that loses its lease sets a
// field of the manager, and the end of the manager reads it. Both happen at once where Fettle ends for another reason.
var raceOfManagers = regexp.MustCompile(`(?s)^\s*(Write|Read) at [^\n]*\n` + manager + `(initLeaderElector\.func\d+|engageStopProcedure)\(\)\n` +
	`.*\nPrevious (write|read) at [^\n]*\n` + manager + `(initLeaderElector\.func\d+|engageStopProcedure)\(\)\n`)

// races returns how many data races the log of a process reports. A race of controller-runtime with itself does not count.
func races(log []byte) int {
	found := 0
	for i, report := range bytes.Split(log, []byte("WARNING: DATA RACE")) {
		report, _, _ = bytes.Cut(report, []byte("\n=================="))
		if i > 0 && !raceOfManagers.Match(report) {
			found++
		}
	}
	return found
}
