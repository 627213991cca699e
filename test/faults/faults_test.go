package faults

import (
	"strings"
	"syscall"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

// sandboxes are as many as two cores can carry.
const sandboxes = 2

// TestFaults runs each fault on a sandbox that it has for itself as long as it runs, since every
// Fettle keeps the whole of its cluster.
func TestFaults(t *testing.T) {
	t.Parallel()
	free := make(chan *cluster.Cluster, sandboxes)
	for range sandboxes {
		// Nobody keeps the nodes of these tests, so nobody may judge them but Fettle.
		c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
		c.InstallFettle(t)
		free <- c
	}
	faults := map[string]func(*scene){
		"api server stopped":             apiServerRestarted(syscall.SIGTERM),
		"api server killed":              apiServerRestarted(syscall.SIGKILL),
		"leader killed":                  leaderKilled,
		"leader stopped":                 leaderStopped,
		"leader halted":                  leaderHalted,
		"leader halted as it records":    leaderHaltedAsItRecords,
		"leader loses its lease":         leaderLosesItsLease,
		"two leaders one at a time":      twoLeaders(1),
		"two leaders three at a time":    twoLeaders(3),
		"two leaders without a limit":    twoLeaders(unlimited),
		"two leaders and one behind":     oneLeaderBehind(3),
		"two leaders and one blind":      oneLeaderBlind(3),
		"nodes stall":                    nodesStall,
		"machines stall":                 machinesStall,
		"repairs stall":                  repairsStall,
		"health checks stall":            healthChecksStall,
		"answers 409":                    answers(409),
		"answers 429":                    throttled,
		"records refused for long":       refusedForLong("record"),
		"outcomes refused for long":      refusedForLong("outcome"),
		"statuses refused for long":      refusedForLong("status"),
		"deletions refused for long":     refusedForLong("delete"),
		"nodes refused for long":         refusedForLong("node"),
		"answers 500":                    answers(500),
		"answers 503":                    answers(503),
		"health check deleted":           healthCheckDeleted,
		"selector changed":               selectorChanged,
		"machine set scaled down":        scaledDown,
		"machine gone before its repair": machineGoneBeforeItsRepair,
		"slow writes":                    slowWrites,
	}
	for name, run := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := <-free
			t.Cleanup(func() { free <- c })
			run(newScene(t, c, strings.ReplaceAll(name, " ", "-")))
		})
	}
}
