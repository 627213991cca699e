package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// report is the result of a run, as it is written as JSON. Memory is in MiB, times are in seconds.
type report struct {
	Host       host       `json:"host"`
	Parameters parameters `json:"parameters"`
	Rounds     []round    `json:"rounds,omitempty"`
	// Metal are the rounds on bare metal, which has no others.
	Metal  []metalRound `json:"metal,omitempty"`
	Decide []benchmark  `json:"decide,omitempty"`
	// Clusters are the idle workload clusters, or nil without any.
	Clusters *clusterCosts `json:"clusters,omitempty"`
}

// round is the result of one round.
type round struct {
	NodeBytes    int            `json:"nodeBytes"`
	MachineBytes int            `json:"machineBytes"`
	Floor        cost           `json:"floor"`
	Fettle       cost           `json:"fettle"`
	Start        start          `json:"start"`
	Heartbeats   heartbeatCosts `json:"heartbeats"`
	Idle         idleTraffic    `json:"idle"`
	Passes       passTraffic    `json:"passes"`
	Outage       outage         `json:"outage"`
	Bare         bareRequests   `json:"bare"`
	// Histograms are Fettle's own observations during the outage, or empty without any.
	Histograms  []summary `json:"histograms,omitempty"`
	SandboxPeak float64   `json:"sandboxPeakMiB"`
}

// cost is the cost of a process without its heartbeats.
type cost struct {
	// StartUp is the time from the start of the process until the floor has synced, or Fettle has written its first
	// decision.
	StartUp    seconds `json:"startUp"`
	StartUpCPU seconds `json:"startUpCPU"`
	// Settled is the resident memory after a while without any change. SettledAnonymous leaves out the pages of the
	// binary.
	Settled          float64 `json:"settledMiB"`
	SettledAnonymous float64 `json:"settledAnonymousMiB"`
	AfterHeartbeats  float64 `json:"afterHeartbeatsMiB"`
	// Peak is the largest resident memory as the kernel counted it, including the outage.
	Peak    float64 `json:"peakMiB"`
	IdleCPU seconds `json:"idleCPUPerMinute"`
}

// heartbeatCosts is the processor time of heartbeats for both, in all and by window.
type heartbeatCosts struct {
	Sent      int64    `json:"sent"`
	PerSecond float64  `json:"perSecond"`
	Floor     seconds  `json:"floorCPU"`
	Fettle    seconds  `json:"fettleCPU"`
	Sandbox   seconds  `json:"sandboxCPU"`
	Windows   []window `json:"windows"`
}

type window struct {
	Sent   int64   `json:"sent"`
	Floor  seconds `json:"floorCPU"`
	Fettle seconds `json:"fettleCPU"`
}

func (h *heartbeatCosts) add(s spending, sent int64) {
	h.Windows = append(h.Windows, window{Sent: sent, Floor: seconds(s.floor), Fettle: seconds(s.fettle)})
	h.Floor += seconds(s.floor)
	h.Fettle += seconds(s.fettle)
	h.Sandbox += seconds(s.sandbox)
}

// finish adds the rest after the last window.
func (h *heartbeatCosts) finish(rest spending, sent int64, took time.Duration) {
	h.Floor += seconds(rest.floor)
	h.Fettle += seconds(rest.fettle)
	h.Sandbox += seconds(rest.sandbox)
	h.Sent, h.PerSecond = sent, float64(sent)/took.Seconds()
}

// start is what Fettle writes for objects that it sees for the first time.
type start struct {
	Writes int `json:"writes"`
	// Lasted is the time from the start of the process until the last of them, and CPU the processor time until then.
	Lasted seconds `json:"lasted"`
	CPU    seconds `json:"cpu"`
}

func startOf(requests []request, began time.Time) start {
	s := start{Writes: trafficOf(requests).Writes}
	for _, r := range requests {
		if r.isWrite() && !r.isRoutine() {
			s.Lasted = max(s.Lasted, seconds(r.received.Sub(began)))
		}
	}
	return s
}

// idleTraffic is Fettle's traffic to the API while nothing changed.
type idleTraffic struct {
	Minutes float64 `json:"minutes"`
	traffic
}

// outage is how the machines of broken nodes were repaired.
type outage struct {
	traffic

	// PerRepair is the number of all writes except routine ones, divided by the number of repairs.
	PerRepair float64 `json:"writesPerRepair"`
	// Deadlines is how many machines have each deadline, the earliest first. They are repaired one after the other.
	Deadlines []int        `json:"deadlines"`
	Stages    []stageDelay `json:"stages"`
	// Stolen is the share of the processor's time that went to other guests of the host, from 0 to 1.
	Stolen     float64 `json:"stolen"`
	FloorCPU   seconds `json:"floorCPU"`
	FettleCPU  seconds `json:"fettleCPU"`
	SandboxCPU seconds `json:"sandboxCPU"`
	Lasted     seconds `json:"lasted"`
}

// lastOf returns when the last of the repairs reached the stage of that name.
func (o *outage) lastOf(stage string) seconds {
	for _, s := range o.Stages {
		if s.Stage == stage {
			return s.Last
		}
	}
	return 0
}

// bareRequests is how long after they were due a client that does nothing else sent the requests of the outage. None
// are counted if too few targets were left for it.
type bareRequests struct {
	distribution

	// Stolen is the share of the processor's time that went to other guests of the host meanwhile, from 0 to 1.
	Stolen float64 `json:"stolen"`
}

// stageDelay is how long after the deadline of its machine a step of a repair came.
type stageDelay struct {
	Stage string `json:"stage"`
	distribution
}

// write writes the report as JSON, if to any file.
func (r *report) write(file string) error {
	if file == "" {
		return nil
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(file, append(body, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}
