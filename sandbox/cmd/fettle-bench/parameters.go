package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// timeout is the time-out of the health check. Conditions have whole seconds.
const timeout = 5 * time.Second

// parameters are the sizes and times of a run.
type parameters struct {
	Dialect  string `json:"dialect"`
	Nodes    int    `json:"nodes"`
	Machines int    `json:"machines"`
	// Rate is the number of heartbeats in a second, of all nodes together.
	Rate   int `json:"rate"`
	Broken int `json:"broken"`
	// Breaking is how many nodes break in a second, 0 for as fast as they can be patched.
	Breaking int `json:"breaking"`
	// Idle and Heartbeats are how long these phases last.
	Idle       seconds `json:"idleSeconds"`
	Heartbeats seconds `json:"heartbeatsSeconds"`
	Rounds     int     `json:"rounds"`
	// Hanging is how many BMCs hang in the second outage, on bare metal.
	Hanging int `json:"hanging,omitempty"`
	// Clusters is how many workload clusters there are in which nothing happens, in a run of their own.
	Clusters int  `json:"clusters"`
	Decide   bool `json:"-"`
}

func (p *parameters) register(f *pflag.FlagSet) {
	f.StringVar(&p.Dialect, "dialect", "openshift", "API of health checks: "+strings.Join(dialectNames(), ", "))
	f.IntVar(&p.Nodes, "nodes", 5000, "nodes of the fleet")
	f.IntVar(&p.Machines, "machines", 5000, "machines of the fleet, for dialects that have them; at most one for each node")
	f.IntVar(&p.Rate, "rate", 100, "heartbeats of kubelets in a second, of all nodes together")
	f.IntVar(&p.Broken, "broken", 200, "nodes that turn Ready=False")
	f.IntVar(&p.Breaking, "breaking", 0, "how many nodes turn Ready=False in a second; 0 for as fast as they can be patched")
	f.DurationVar((*time.Duration)(&p.Idle), "idle", time.Minute, "how long nothing changes at all")
	f.DurationVar((*time.Duration)(&p.Heartbeats), "heartbeats", time.Minute, "how long heartbeats come and nothing else changes")
	f.IntVar(&p.Rounds, "rounds", 1, "how many rounds are measured; the table has their medians")
	f.IntVar(&p.Hanging, "hanging", 4, "how many of the BMCs hang while a second rack of nodes breaks, for dialects that have any")
	f.IntVar(&p.Clusters, "clusters", 100, "idle workload clusters, for dialects that have any; 0 leaves them out")
	f.BoolVar(&p.Decide, "decide", true, "time decisions as well, with go test")
}

func (p *parameters) validate() error {
	const shortest = seconds(time.Second)
	d, known := dialects()[p.Dialect]
	p.leaveOut(d)
	switch {
	case !known:
		return fmt.Errorf("--dialect %q is not known; there is %s", p.Dialect, strings.Join(dialectNames(), ", "))
	case p.Nodes < 1:
		return fmt.Errorf("--nodes %d must be above zero", p.Nodes)
	case !d.withoutMachines && (p.Machines < 1 || p.Nodes < p.Machines):
		return fmt.Errorf("--machines %d must be between 1 and --nodes %d, since every machine has a node", p.Machines, p.Nodes)
	case p.Broken < 1 || p.Broken > p.targets():
		return fmt.Errorf("--broken %d must be between 1 and the %d nodes that can be repaired", p.Broken, p.targets())
	case d.metal && !p.haveRacks():
		return fmt.Errorf("--nodes %d must be two racks of --broken %d at least, of which --hanging %d BMCs and never all hang", p.Nodes, p.Broken, p.Hanging)
	case min(p.Rate, p.Rounds) < 1:
		return fmt.Errorf("--rate %d and --rounds %d must be above zero", p.Rate, p.Rounds)
	case min(p.Clusters, p.Breaking) < 0:
		return fmt.Errorf("--clusters %d and --breaking %d must not be below zero", p.Clusters, p.Breaking)
	case p.Idle < shortest || p.Heartbeats < shortest:
		return fmt.Errorf("--idle and --heartbeats must be at least %s", time.Duration(shortest))
	}
	return nil
}

// haveRacks reports whether there are nodes for two racks, and BMCs of a rack that don't hang.
func (p *parameters) haveRacks() bool {
	return p.Nodes >= 2*p.Broken && p.Hanging >= 0 && p.Hanging < p.Broken
}

// leaveOut leaves out what a dialect doesn't have.
func (p *parameters) leaveOut(d dialect) {
	if d.withoutMachines {
		p.Machines = 0
	}
	if !d.apart {
		p.Clusters = 0
	}
	if !d.metal {
		p.Hanging = 0
	}
}

// targets returns how many nodes can be repaired: the nodes with a machine, where there are any.
func (p *parameters) targets() int {
	if p.Machines == 0 {
		return p.Nodes
	}
	return p.Machines
}

// broken reports whether the node of the target of this index breaks. Such nodes are spread evenly.
func (p *parameters) broken(target int) bool {
	// One target in each of p.Broken equal parts: where the running share passes a whole number.
	return target < p.targets() && (target+1)*p.Broken/p.targets() > target*p.Broken/p.targets()
}

func dialectNames() []string { return slices.Sorted(maps.Keys(dialects())) }
