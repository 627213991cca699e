package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestStatusOfWorkloadClusters: the nodes of workload clusters are read with their own kubeconfigs. If one can't be read, the
// others still are, and a note says why.
func TestStatusOfWorkloadClusters(t *testing.T) {
	const secret = "/api/v1/namespaces/fleets/secrets/east-kubeconfig"
	broken := func(change func(*fleet)) func(*fleet) {
		return func(f *fleet) {
			f.clusters(func(s *clusterScene) { s.node("west", "b", "Unknown", time.Hour) })
			change(f)
		}
	}
	goldenRuns(t, "workloads.txt", []run{
		{"Both can be read.", "status -n fleets", broken(func(*fleet) {})},
		{"The Secret may not be read.", "status -n fleets", broken(refusing(http.StatusForbidden, secret))},
		{"There is no Secret.", "status -n fleets", broken(func(f *fleet) { f.drop("/api/v1/secrets", "fleets/east-kubeconfig") })},
		{"The Secret can't be read.", "status -n fleets", broken(refusing(http.StatusInternalServerError, secret))},
		{"The kubeconfig can't be read.", "status -n fleets", broken(func(f *fleet) {
			f.put("{apiVersion: v1, kind: Secret, metadata: {namespace: fleets, name: east-kubeconfig}, data: {value: bm9uc2Vuc2U=}}")
		})},
		{"Nodes may not be listed there.", "status -n fleets", broken(func(f *fleet) { f.workloads["east"].refuse("GET "+nodesPath, http.StatusForbidden) })},
	})
}

// TestQuestionsChooseClusters: only the workload clusters that a question is about are read.
func TestQuestionsChooseClusters(t *testing.T) {
	for args, want := range map[string][2]int{
		"status -n fleets":                                      {1, 1},
		"status -n machines":                                    {0, 0},
		"status -n fleets --workload-cluster west":              {0, 1},
		"explain mhc/east -n fleets":                            {1, 0},
		"explain mhc/east -n machines":                          {0, 0},
		"explain nhc/east -n fleets":                            {0, 0},
		"explain mhc/east -n fleets --workload-cluster west":    {0, 0},
		"explain machine/west-a -n fleets":                      {0, 1},
		"explain node/node-a":                                   {1, 1},
		"explain node/node-a -n fleets --workload-cluster=east": {1, 0},
	} {
		f := startFleet(t)
		f.clusters(func(*clusterScene) {})
		f.run(strings.Fields(args)...)
		if got := [2]int{f.workloads["east"].reads(nodesPath), f.workloads["west"].reads(nodesPath)}; got != want {
			t.Errorf("%s: the nodes of east and west were read %v times, want %v", args, got, want)
		}
	}
}
