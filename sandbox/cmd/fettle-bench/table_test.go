package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected output")

func ms(n float64) seconds { return seconds(n * float64(time.Millisecond)) }

// aRound returns a round in which Fettle costs a share of the floor.
func aRound(share float64) round {
	return round{
		NodeBytes: 14037, MachineBytes: 4611,
		Floor: cost{
			StartUp: ms(1500), StartUpCPU: ms(2000), Settled: 60, SettledAnonymous: 30, AfterHeartbeats: 61, Peak: 64, IdleCPU: ms(0),
		},
		Fettle: cost{
			StartUp: ms(1800), StartUpCPU: ms(2500), Settled: 60 * share, SettledAnonymous: 30 * share, AfterHeartbeats: 61 * share, Peak: 64 * share, IdleCPU: ms(40),
		},
		Start: start{Writes: 12, Lasted: ms(2400), CPU: ms(2600)},
		Heartbeats: heartbeatCosts{
			Sent: 6000, PerSecond: 99.7, Floor: ms(3000), Fettle: ms(3000 * share), Sandbox: ms(48000),
			Windows: []window{{1000, ms(500), ms(400)}, {1000, ms(500), ms(600)}, {0, 0, 0}},
		},
		Passes: passTraffic{Passes: 10, traffic: traffic{Calls: calls{"patch machinehealthchecks/status": 5}, Routine: calls{"update leases": 2}}},
		Idle:   idleTraffic{Minutes: 2, traffic: traffic{Calls: calls{"watch nodes": 1}, Routine: calls{"update leases": 60}}},
		Outage: outage{
			traffic: traffic{
				Calls:  calls{"create repairs": 200, "delete machines": 200, "get nodes": 200, "patch repairs/status": 200, "patch machinehealthchecks/status": 8},
				Writes: 608, Routine: calls{"update leases": 6},
			},
			PerRepair: 3.04, Deadlines: []int{80, 120}, Stolen: 0.034,
			Stages: []stageDelay{
				{"repair recorded", distribution{200, ms(100), ms(300), ms(310)}},
				{deletionRequested, distribution{200, ms(350), ms(1100 * share), ms(1150 * share)}},
				{deletionSeen, distribution{200, ms(400), ms(1200 * share), ms(1250 * share)}},
			},
			FloorCPU: ms(400), FettleCPU: ms(900), SandboxCPU: ms(24000), Lasted: ms(16000),
		},
		Bare:        bareRequests{distribution: distribution{200, ms(250), ms(700), ms(800)}, Stolen: 0.01},
		Histograms:  []summary{{"fettle_act_seconds", 200, ms(12.5), ms(11), ms(24)}},
		SandboxPeak: 812.5,
	}
}

// TestTable compares the tables of three rounds with the recorded ones. -update rewrites them.
func TestTable(t *testing.T) {
	machines := report{
		Host:       host{At: noon, Cores: 2, CPU: "Example CPU", Memory: 23552, Go: "go1.26.8", Load: 0.25},
		Parameters: parameters{Dialect: "openshift", Nodes: 5000, Machines: 5000, Rate: 100, Broken: 200, Idle: seconds(time.Minute), Heartbeats: seconds(time.Minute), Rounds: 3},
		Rounds:     []round{aRound(0.5), aRound(2), aRound(0.9)},
		Decide: []benchmark{
			{"Decide/disjoint/healthy", ms(22), 7217408, 11}, {"Decide/disjoint/one percent unhealthy", ms(30.5), 7607208, 2047},
		},
	}
	clusters := report{Host: machines.Host, Parameters: machines.Parameters, Rounds: []round{aRound(0.5)}, Clusters: &clusterCosts{
		Clusters: 100, Nodes: 20, Joined: ms(31200),
		Without: idleCosts{Resident: 40, Anonymous: 12.5, CPU: ms(50), idleTraffic: idleTraffic{Minutes: 1}},
		With: idleCosts{Resident: 75, Anonymous: 47.5, CPU: ms(450), idleTraffic: idleTraffic{
			Minutes: 2, traffic: traffic{Calls: calls{"watch nodes": 20}, Routine: calls{"get secrets": 200, "get /readyz": 600}},
		}},
	}}
	clusters.Parameters.Dialect, clusters.Parameters.Clusters = "capi", 100
	clusters.Rounds[0].Bare = bareRequests{} // too few machines were left for it
	clusters.Rounds[0].Outage.Stages = []stageDelay{{"mark requested", distribution{200, ms(350), ms(900), ms(950)}}}
	for name, r := range map[string]report{"table.txt": machines, "clusters.txt": clusters} {
		t.Run(name, func(t *testing.T) {
			got, golden := r.table(), filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	r := report{Parameters: parameters{Nodes: 3}, Rounds: []round{aRound(1)}}
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Parameters struct{ Nodes int }
		Rounds     []struct {
			Fettle struct {
				PeakMiB, StartUp float64
			}
			Outage struct {
				Writes          int
				WritesPerRepair float64
				Stages          []struct {
					Stage string
					Last  float64
				}
			}
		}
	}
	if err := json.Unmarshal(body, &back); err != nil {
		t.Fatal(err)
	}
	o := back.Rounds[0].Outage
	if back.Parameters.Nodes != 3 || back.Rounds[0].Fettle.PeakMiB != 64 || back.Rounds[0].Fettle.StartUp != 1.8 ||
		o.Writes != 608 || o.WritesPerRepair != 3.04 || o.Stages[2].Stage != deletionSeen || o.Stages[2].Last != 1.25 {
		t.Errorf("this was not written: %s", body)
	}
}

func TestReadBenchmarks(t *testing.T) {
	got := readBenchmarks("goos: linux\n" +
		"BenchmarkDecide/disjoint/one_percent_unhealthy-2         \t      10\t  30888857 ns/op\t 7607208 B/op\t    2047 allocs/op\n" +
		"BenchmarkDecide/disjoint/one_percent_unhealthy-2         \t      10\t  20888857 ns/op\t 7607200 B/op\t    2046 allocs/op\n" +
		"BenchmarkDecide/disjoint/storm-2  1  8 ns/op  9 B/op  7 allocs/op\n" +
		"BenchmarkDecide/disjoint/one_percent_unhealthy-2         \t      10\t  40888857 ns/op\t 7607208 B/op\t    2047 allocs/op\n" +
		"PASS\nok  \texample\t8.398s\n")
	want := []benchmark{
		{Name: "Decide/disjoint/one percent unhealthy", Time: seconds(20888857), Bytes: 7607200, Allocs: 2046},
		{Name: "Decide/disjoint/storm", Time: 8, Bytes: 9, Allocs: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
