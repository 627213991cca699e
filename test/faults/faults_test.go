package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-io/fettle/test/cluster"
)

// sandboxes is how many faults run at a time. Most of them wait: for a lease to expire, or for a pause.
const sandboxes = 4

// TestFaults runs each fault on a sandbox for itself, since every Fettle works on the whole of its cluster.
func TestFaults(t *testing.T) {
	t.Parallel()
	free := make(chan *cluster.Cluster, sandboxes)
	for range sandboxes {
		// No kubelet renews the leases of these nodes, so only Fettle may judge them.
		c := cluster.Start(t, cluster.Options{Args: ofClusterAPI})
		c.InstallFettle(t)
		c.AllowClusterAPI(t)
		c.InstallRemediators(t)
		free <- c
	}
	beside := cluster.BesideN(t, sandboxes)
	defer beside.Wait()
	run := func(name string, fault func(t *testing.T, c *cluster.Cluster, name string)) {
		beside.Run(name, func(t *testing.T) {
			c := <-free
			t.Cleanup(func() { free <- c })
			fault(t, c, strings.ReplaceAll(name, " ", "-"))
		})
	}
	for name, fault := range faultsOfMachines() {
		run(name, func(t *testing.T, c *cluster.Cluster, name string) {
			t.Helper()
			fault(newMachineFixture(t, c, name))
		})
	}
	for name, fault := range faultsOfRemediations() {
		run(name, func(t *testing.T, c *cluster.Cluster, name string) {
			t.Helper()
			fault(newPool(t, c, name))
		})
	}
	for name, fault := range faultsOfClusters() {
		run(name, func(t *testing.T, c *cluster.Cluster, name string) {
			t.Helper()
			fault(newClusterFixture(t, c, name))
		})
	}
}

func faultsOfMachines() map[string]func(*machineFixture) {
	return map[string]func(*machineFixture){
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
		"clock ahead":                    clockDiffers(-time.Hour),
		"clock behind":                   clockDiffers(time.Hour),
	}
}

// faultsOfRemediations are the faults of nodes that outside remediators repair.
func faultsOfRemediations() map[string]func(*pool) {
	return map[string]func(*pool){
		"remediations api server killed":      remediationsWithoutServer,
		"remediations leader killed":          remediationsLeftBy(kill, inTheMiddle()),
		"remediations leader stopped":         remediationsLeftBy(stop, inTheMiddle()),
		"remediations leader halted":          remediationsLeftBy(halt, inTheMiddle()),
		"escalating leader killed":            remediationsLeftBy(kill, asItEscalates()),
		"escalating leader stopped":           remediationsLeftBy(stop, asItEscalates()),
		"escalating leader halted":            remediationsLeftBy(halt, asItEscalates()),
		"withdrawing leader killed":           remediationsLeftBy(kill, asItWithdraws()),
		"withdrawing leader stopped":          remediationsLeftBy(stop, asItWithdraws()),
		"withdrawing leader halted":           remediationsLeftBy(halt, asItWithdraws()),
		"remediations by two leaders":         remediationsOfTwoLeaders(3),
		"remediations by two without limit":   remediationsOfTwoLeaders(unlimited),
		"escalated by two leaders":            escalationOfTwoLeaders,
		"machines remediations leader killed": machinesOfRemediators,
		"remediations beside strangers":       strangersOfTheControlPlane,
		"remediations stall":                  remediationsStall,
		"templates stall":                     templatesStall,
		"remediations answers 409":            remediationsAnswered(409),
		"remediations answers 500":            remediationsAnswered(500),
		"remediations answers 429":            remediationsThrottled,
		"requests refused for long":           remediationsRefusedForLong("ask", 500),
		"requests throttled for long":         remediationsRefusedForLong("ask", 429),
		"withdrawals refused for long":        remediationsRefusedForLong("withdraw", 500),
		"leases refused":                      leasesRefused,
		"check force deleted":                 forceDeleted,
		"check force deleted unseen":          forceDeletedUnseen,
		"definition reinstalled":              definitionReinstalled,
		"repairs deleted":                     repairsDeleted,
		"remediations deleted":                objectsDeleted,
		"nodes registered again":              nodesRegisteredAgain,
	}
}

// faultsOfClusters are the faults of workload clusters, whose machines are marked for their owners.
func faultsOfClusters() map[string]func(*clusterFixture) {
	return map[string]func(*clusterFixture){
		"marking leader killed":        markingLeaderKilled,
		"marking leader halted":        marksOnTheirWay,
		"marked by two leaders":        marksOfTwoLeaders,
		"marked by two and one behind": marksOfOneBehind,
		"workload server away":         workloadServerAway,
		"clusters handed over":         clustersHandedOver,
		"marks answered 409":           marksRefused(409),
		"marks answered 429":           marksRefused(429),
		"marks throttled":              marksThrottled,
		"cluster check deleted":        clusterCheckDeleted,
		"cluster check deleted unseen": clusterCheckDeletedUnseen,
	}
}
