package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// nodesOfCluster is how many nodes, with a machine each, an idle workload cluster has.
const nodesOfCluster = 20

// clusterCosts is the cost of Fettle before and after it has got workload clusters in which nothing happens.
type clusterCosts struct {
	Clusters int `json:"clusters"`
	Nodes    int `json:"nodesEach"`
	// Joined is the time from the addition of the last cluster until Fettle had found the machines of all healthy.
	Joined  seconds   `json:"joined"`
	Without idleCosts `json:"without"`
	With    idleCosts `json:"with"`
}

// idleCosts is the cost of Fettle while nothing happens.
type idleCosts struct {
	Resident  float64 `json:"residentMiB"`
	Anonymous float64 `json:"anonymousMiB"`
	CPU       seconds `json:"cpuPerMinute"`
	idleTraffic
}

// manyClusters is a run with many small workload clusters, without the floor.
type manyClusters struct {
	run

	parts *parts
	costs clusterCosts
}

// benchClusters measures the cost of idle workload clusters. This Fettle has seen no others, whose garbage would
// distort the figures.
func benchClusters(ctx context.Context, p parameters) (*clusterCosts, error) {
	p.Nodes, p.Machines = p.Clusters*nodesOfCluster, p.Clusters*nodesOfCluster
	c := &manyClusters{run: run{parameters: p}, costs: clusterCosts{Clusters: p.Clusters, Nodes: nodesOfCluster}}
	err := c.through(ctx, []func(context.Context) error{c.raise, c.divide, c.begin, c.without, c.join, c.with})
	if c.parts != nil {
		err = errors.Join(err, c.parts.close())
	}
	return &c.costs, err
}

// divide makes the nodes of all clusters in one cluster.
func (c *manyClusters) divide(ctx context.Context) error {
	say("making %d nodes for %d idle workload clusters", c.Nodes, c.Clusters)
	kubeconfig, err := admit(ctx, c.nodes)
	if err != nil {
		return err
	}
	if c.parts, err = newParts(c.nodes.Dir, kubeconfig); err != nil {
		return err
	}
	return inParallel(ctx, c.Nodes, func(ctx context.Context, i int) error {
		n := node(i, time.Now())
		n.Labels[partLabel] = partName(i / nodesOfCluster)
		return c.kubelets.join(ctx, i, n)
	})
}

func (c *manyClusters) begin(ctx context.Context) error {
	say("starting Fettle, without any cluster")
	fettle, err := c.stage.StartFettle(ctx, "--metrics-bind-address", c.metrics.address)
	if err != nil {
		return err
	}
	c.fettle = observed{fettle, c.servers.fs}
	return c.awaitNoWrites(ctx)
}

func (c *manyClusters) without(ctx context.Context) error { return c.measure(ctx, &c.costs.Without) }

func (c *manyClusters) with(ctx context.Context) error { return c.measure(ctx, &c.costs.With) }

// join adds all clusters, with their machines and health checks, and waits until Fettle has handled them.
func (c *manyClusters) join(ctx context.Context) error {
	say("adding %d workload clusters of %d nodes", c.Clusters, nodesOfCluster)
	for i := range c.Clusters {
		if err := c.add(ctx, i); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := c.awaitHealthy(ctx); err != nil {
		return err
	}
	c.costs.Joined = seconds(time.Since(began))
	return c.awaitNoWrites(ctx)
}

func (c *manyClusters) add(ctx context.Context, i int) error {
	name := partName(i)
	kubeconfig, err := c.parts.serve(ctx, name)
	if err != nil {
		return err
	}
	of := cluster{name: name, kubeconfig: kubeconfig, first: i * nodesOfCluster, machines: nodesOfCluster}
	if _, err := c.dialect.populate(ctx, c.stage, of); err != nil {
		return err
	}
	check, err := c.manifest(name, timeout)
	if err != nil {
		return err
	}
	return c.stage.Apply(ctx, check...)
}

// measure measures an idle while. It reads memory at the end.
func (c *manyClusters) measure(ctx context.Context, costs *idleCosts) error {
	say("idle: nothing changes for %s", time.Duration(c.Idle))
	before, err := c.fettle.usage()
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(c.Idle)); err != nil {
		return err
	}
	after, err := c.fettle.usage()
	if err != nil {
		return err
	}
	if err := c.servers.audit.catchUp(); err != nil {
		return err
	}
	minutes := after.at.Sub(before.at).Minutes()
	*costs = idleCosts{
		Resident: after.resident, Anonymous: after.anonymous, CPU: processor(after.cpu - before.cpu).perMinute(minutes),
		idleTraffic: idleTraffic{Minutes: minutes, traffic: trafficOf(c.servers.audit.between(before.at, after.at))},
	}
	return nil
}

// clusters returns the costs of idle workload clusters, in all and of each.
func (r *report) clusters() [][]string {
	c := r.Clusters
	if c == nil {
		return nil
	}
	rows := [][]string{{fmt.Sprintf("%d idle workload clusters of %d nodes", c.Clusters, c.Nodes), "without", "with", "each"}}
	row := func(what string, show func(float64) string, of func(*idleCosts) float64) {
		without, with := of(&c.Without), of(&c.With)
		rows = append(rows, []string{what, show(without), show(with), show((with - without) / float64(c.Clusters))})
	}
	row("memory", inMemory, func(i *idleCosts) float64 { return i.Resident })
	row("memory, binary aside", inMemory, func(i *idleCosts) float64 { return i.Anonymous })
	row("processor in an idle minute", func(s float64) string { return inUnits(inSeconds(s)) }, func(i *idleCosts) float64 { return inFull(i.CPU) })
	names := map[string]bool{}
	for _, i := range []*idleCosts{&c.Without, &c.With} {
		for _, made := range []calls{i.Calls, i.Routine} {
			for name := range made {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		row(name+", in an idle minute", func(n float64) string { return fmt.Sprintf("%.1f", n) },
			func(i *idleCosts) float64 { return float64(i.Calls[name]+i.Routine[name]) / i.Minutes })
	}
	return append(rows, []string{"from the last one added until all are judged", "", inUnits(c.Joined), ""})
}

// inMemory renders an amount of MiB with a unit that suits it.
func inMemory(mib float64) string {
	if mib > -1 && mib < 1 {
		return fmt.Sprintf("%.0f KiB", mib*1024)
	}
	return fmt.Sprintf("%.1f MiB", mib)
}
