package main

import (
	"fmt"
	"time"
)

// The steps of a repair on bare metal, as seen from outside.
const (
	remediationRequested = "PowerRemediation requested"
	nodeTainted          = "node tainted"
	offReceived          = "power-off received by the BMC"
	proofRecorded        = "proof recorded, as seen"
	workloadReleased     = "workload released"
	onReceived           = "power-on received by the BMC"
)

// metalRound is the result of one round on bare metal.
type metalRound struct {
	NodeBytes int `json:"nodeBytes"`
	// Outages are those of the rack whose BMCs all answer, and of the rack in which some hang.
	Outages []metalOutage `json:"outages"`
	// Floor is how long after they were due the BMCs received the power-offs of a client that does nothing else.
	Floor bareRequests `json:"floor"`
	// Recorder is the same for a client that makes the API writes of Fettle before each.
	Recorder bareRequests `json:"recorder"`
}

// metalOutage is how the hosts of one rack were powered off and on. Its stages are of the hosts whose BMCs answer.
type metalOutage struct {
	Hanging   int          `json:"hanging"`
	Deadlines []int        `json:"deadlines"`
	Stages    []stageDelay `json:"stages"`
	// UntilOff is the traffic until the last power-off was received, and All that of the whole repair.
	UntilOff traffic `json:"untilOff"`
	All      traffic `json:"all"`
	// CPU is the use of the processor from when the last node had broken until the last power-off was received.
	CPU metalCPU `json:"cpu"`
	// Stolen is the share of the processor's time that went to other guests of the host until then, from 0 to 1.
	Stolen float64 `json:"stolen"`
}

// metalCPU is the use of the processor by each process. That of the BMCs includes the kubelets.
type metalCPU struct {
	Fettle  seconds `json:"fettle"`
	Sandbox seconds `json:"sandbox"`
	BMCs    seconds `json:"bmcs"`
}

func (c metalCPU) minus(before metalCPU) metalCPU {
	return metalCPU{Fettle: c.Fettle - before.Fettle, Sandbox: c.Sandbox - before.Sandbox, BMCs: c.BMCs - before.BMCs}
}

// stage returns the delays of a stage.
func (o *metalOutage) stage(name string) distribution {
	for _, s := range o.Stages {
		if s.Stage == name {
			return s.distribution
		}
	}
	return distribution{}
}

// commands are when a host has received power commands.
type commands struct{ off, on []time.Time }

// onlyThese returns an error unless exactly the hosts of the broken nodes were powered off and then on, each once and not
// before its deadline.
func onlyThese(victims []victim, received map[string]commands) error {
	var problems []string
	expected := map[string]bool{}
	for _, v := range victims {
		expected[v.node] = true
		c := received[v.node]
		switch {
		case len(c.off) != 1 || len(c.on) != 1:
			problems = append(problems, fmt.Sprintf("the host of node %s was powered off %d times and on %d times instead of once", v.node, len(c.off), len(c.on)))
		case c.off[0].Before(v.deadline):
			problems = append(problems, fmt.Sprintf("the host of node %s was powered off %s before its deadline", v.node, v.deadline.Sub(c.off[0])))
		case c.on[0].Before(c.off[0]):
			problems = append(problems, fmt.Sprintf("the host of node %s was powered on before it was powered off", v.node))
		}
	}
	for node, c := range received {
		if !expected[node] && len(c.off)+len(c.on) > 0 {
			problems = append(problems, fmt.Sprintf("the host of node %s was powered off %d times and on %d times, and the node is not broken", node, len(c.off), len(c.on)))
		}
	}
	return wrong(problems)
}

// blackout is one outage of a rack.
type blackout struct {
	// nodes are those of the rack. The BMCs of the silent ones hang.
	nodes, answering, silent []int
	victims                  []victim
	// began is before the first node breaks, and ended is when the last host with a BMC that answers was powered off. The rest is
	// what was used meanwhile.
	began, ended time.Time
	stolen       float64
	spent        metalCPU
}

// measure returns the result of an outage.
func (b *blackout) measure(hosts []*bmcHost, requests []request, proven map[string]time.Time) metalOutage {
	received := map[string]commands{}
	for _, i := range b.answering {
		received[nodeName(i)] = commands{off: hosts[i].offSince(b.began), on: hosts[i].onSince(b.began)}
	}
	var early []request
	for _, q := range requests {
		if q.received.Before(b.ended) {
			early = append(early, q)
		}
	}
	return metalOutage{
		Hanging: len(b.silent), Deadlines: deadlinesOf(b.victims), Stages: metalStages(b.victims, requests, proven, received),
		UntilOff: trafficOf(early), All: trafficOf(requests), CPU: b.spent, Stolen: b.stolen,
	}
}

// metalStages returns how long after the deadline of its node each step of a repair came, for the hosts that have received
// commands.
func metalStages(victims []victim, requests []request, proven map[string]time.Time, received map[string]commands) []stageDelay {
	created, patched := map[string]time.Time{}, map[string][]time.Time{}
	for _, q := range requests {
		switch {
		case q.code >= 300:
		case q.verb == "create" && q.resource == "powerremediations":
			created[q.name] = q.received
		case q.verb == "patch" && q.resource == "nodes":
			patched[q.name] = append(patched[q.name], q.received)
		}
	}
	nth := func(all []time.Time, n int) time.Time {
		if len(all) <= n {
			return time.Time{}
		}
		return all[n]
	}
	steps := []struct {
		name string
		at   func(string) time.Time
	}{
		{remediationRequested, func(node string) time.Time { return created[node] }},
		{nodeTainted, func(node string) time.Time { return nth(patched[node], 0) }},
		{offReceived, func(node string) time.Time { return nth(received[node].off, 0) }},
		{proofRecorded, func(node string) time.Time { return proven[node] }},
		{workloadReleased, func(node string) time.Time { return nth(patched[node], 1) }},
		{onReceived, func(node string) time.Time { return nth(received[node].on, 0) }},
	}
	reported := make([]stageDelay, len(steps))
	for i, step := range steps {
		var delays []time.Duration
		for _, v := range victims {
			if _, answers := received[v.node]; !answers {
				continue
			}
			if at := step.at(v.node); !at.IsZero() {
				delays = append(delays, at.Sub(v.deadline))
			}
		}
		reported[i] = stageDelay{Stage: step.name, distribution: distributionOf(delays)}
	}
	return reported
}
