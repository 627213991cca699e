package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// benchCluster is the name of the cluster whose nodes are judged, where it has one.
const benchCluster = "bench"

const (
	// settleFor is how long both processes are left alone after their start. They collect their garbage meanwhile.
	settleFor = 15 * time.Second
	// windows are the parts of the heartbeats' phase that are measured separately, to show how much the figures vary.
	windows = 6
	// drainFor is how long after the last heartbeat watchers may take to see it.
	drainFor = time.Second
	// startsWithin is the longest that the floor may take to sync, and Fettle to its first decision.
	startsWithin = 10 * time.Minute
)

// run is one round: a sandbox, nodes with their machines, Fettle and the floor.
type run struct {
	parameters
	dialect

	// stage has the cluster in which Fettle runs, and nodes the cluster whose nodes are judged. Mostly they are the
	// same.
	stage, nodes *stage.Stage
	servers      servers
	kubelets     kubelets
	metrics      *endpoint

	fettle, floor observed
	result        round
}

// play plays one round on its own sandbox.
func play(ctx context.Context, p parameters) (round, error) {
	r := &run{parameters: p}
	phases := []func(context.Context) error{r.raise, r.populate, r.startUp, r.settle, r.idle, r.nudge, r.beat, r.outage, r.look, r.bare}
	err := r.through(ctx, phases)
	return r.result, err
}

// through goes through all phases on its own stage.
func (r *run) through(ctx context.Context, phases []func(context.Context) error) error {
	s, err := stage.New("fettle-bench-")
	if err != nil {
		return err
	}
	defer s.Strike()
	r.stage, r.nodes, r.dialect = s, s, dialects()[r.Dialect]
	for _, phase := range phases {
		if err := phase(ctx); err != nil {
			return fmt.Errorf("%w\nthe logs are in %s", err, s.Keep())
		}
	}
	return nil
}

// raise starts the API servers and installs Fettle.
func (r *run) raise(ctx context.Context) error {
	say("starting the sandbox")
	var err error
	if r.servers.fs, err = procfs.NewDefaultFS(); err != nil {
		return fmt.Errorf("reading what processes use: %w", err)
	}
	stages := []*stage.Stage{r.stage}
	if r.apart {
		if r.nodes, err = r.stage.Beside("workload"); err != nil {
			return err
		}
		stages = append(stages, r.nodes)
	}
	for _, s := range stages {
		if err := r.servers.start(ctx, s, len(stages)); err != nil {
			return err
		}
	}
	if err := r.stage.InstallFettle(ctx, r.kinds...); err != nil {
		return err
	}
	if err := r.install(ctx, r.stage); err != nil {
		return err
	}
	if r.kubelets, err = newKubelets(r.nodes.Admin); err != nil {
		return err
	}
	r.metrics, err = newEndpoint(ctx, r.stage.Admin)
	return err
}

// populate makes the nodes, the machines and their health check.
func (r *run) populate(ctx context.Context) error {
	say("making %s", r.objects())
	if err := inParallel(ctx, r.Nodes, r.kubelets.register); err != nil {
		return err
	}
	of := cluster{name: benchCluster, machines: r.Machines}
	var err error
	if r.apart {
		if of.kubeconfig, err = admit(ctx, r.nodes); err != nil {
			return err
		}
	}
	if r.result.MachineBytes, err = r.dialect.populate(ctx, r.stage, of); err != nil {
		return err
	}
	if r.result.NodeBytes, err = r.kubelets.sizeOf(ctx, 0); err != nil {
		return err
	}
	check, err := r.manifest(benchCluster, timeout)
	if err != nil {
		return err
	}
	return r.stage.Apply(ctx, check...)
}

// objects describes the objects.
func (p *parameters) objects() string {
	if p.Machines == 0 {
		return fmt.Sprintf("%d nodes", p.Nodes)
	}
	return fmt.Sprintf("%d nodes and %d machines", p.Nodes, p.Machines)
}

// startUp starts both at the same time. It waits until the floor has synced and Fettle has written its first decision.
func (r *run) startUp(ctx context.Context) error {
	say("starting Fettle and the floor")
	floor, err := r.stage.Launch("floor", "fettle-bench", "floor", "--kubeconfig", r.stage.Kubeconfig(), "--nodes-kubeconfig", r.nodes.Kubeconfig(), "--dialect", r.Dialect)
	if err != nil {
		return err
	}
	fettle, err := r.stage.LaunchFettle(ctx, "--metrics-bind-address", r.metrics.address)
	if err != nil {
		return err
	}
	r.floor, r.fettle = observed{floor, r.servers.fs}, observed{fettle, r.servers.fs}
	if err := floor.AwaitText(ctx, inStep, startsWithin); err != nil {
		return err
	}
	decided, err := r.firstDecision(ctx)
	if err != nil {
		return err
	}
	synced, err := syncedAt(floor.Log)
	if err != nil {
		return err
	}
	r.result.Floor.StartUp, r.result.Fettle.StartUp = seconds(synced.Sub(floor.Started)), seconds(decided.Sub(fettle.Started))
	return r.eachUsage(func(c *cost, u usage) { c.StartUpCPU = seconds(u.cpu) })
}

// firstDecision waits until Fettle has found every target healthy, and returns when it first wrote a status.
func (r *run) firstDecision(ctx context.Context) (time.Time, error) {
	if err := r.awaitHealthy(ctx); err != nil {
		return time.Time{}, err
	}
	if err := r.servers.audit.catchUp(); err != nil {
		return time.Time{}, err
	}
	for _, q := range r.servers.audit.between(r.fettle.Started, time.Now()) {
		if q.isWrite() && q.resource == r.checks {
			return q.received, nil
		}
	}
	return time.Time{}, errors.New("the audit log doesn't show that Fettle wrote a status")
}

func (r *run) awaitHealthy(ctx context.Context) error {
	healthy := 0
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startsWithin, true, func(ctx context.Context) (bool, error) {
		var err error
		healthy, err = r.healthy(ctx, r.stage.Client)
		return healthy == r.targets(), errors.Join(err, r.fettle.Died())
	})
	if err != nil {
		return fmt.Errorf("waiting until Fettle finds %d targets healthy, which it does of %d: %w", r.targets(), healthy, err)
	}
	return nil
}

func syncedAt(log string) (time.Time, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the floor's log: %w", err)
	}
	_, after, _ := strings.Cut(string(text), inStep)
	line, _, _ := strings.Cut(after, "\n")
	at, err := time.Parse(time.RFC3339Nano, line)
	if err != nil {
		return at, fmt.Errorf("reading the floor's log: %w", err)
	}
	return at, nil
}

// settle waits until Fettle has written everything for objects that it sees for the first time.
func (r *run) settle(ctx context.Context) error {
	if err := r.awaitNoWrites(ctx); err != nil {
		return err
	}
	r.result.Start = startOf(r.servers.audit.between(r.fettle.Started, time.Now()), r.fettle.Started)
	u, err := r.fettle.usage()
	r.result.Start.CPU = seconds(u.cpu)
	return err
}

// awaitNoWrites returns when Fettle has written nothing for a while.
func (r *run) awaitNoWrites(ctx context.Context) error {
	began := time.Now()
	err := wait.PollUntilContextTimeout(ctx, time.Second, startsWithin, false, func(context.Context) (bool, error) {
		err := errors.Join(r.servers.audit.catchUp(), r.fettle.Died())
		return time.Since(began) >= settleFor && !r.servers.audit.wroteSince(time.Now().Add(-settleFor)), err
	})
	if err != nil {
		return fmt.Errorf("waiting until Fettle writes nothing more: %w", err)
	}
	return nil
}

// idle measures what both do while nothing changes at all.
func (r *run) idle(ctx context.Context) error {
	say("idle: nothing changes for %s", time.Duration(r.Idle))
	began := time.Now()
	spent, err := r.spentDuring(func() error { return pause(ctx, time.Duration(r.Idle)) })
	if err != nil {
		return err
	}
	minutes := time.Since(began).Minutes()
	r.result.Floor.IdleCPU, r.result.Fettle.IdleCPU = spent.floor.perMinute(minutes), spent.fettle.perMinute(minutes)
	if err := r.servers.audit.catchUp(); err != nil {
		return err
	}
	r.result.Idle = idleTraffic{Minutes: minutes, traffic: trafficOf(r.servers.audit.between(began, time.Now()))}
	return r.eachUsage(func(c *cost, u usage) { c.Settled, c.SettledAnonymous = u.resident, u.anonymous })
}

// beat measures the cost of a heartbeat for both.
func (r *run) beat(ctx context.Context) error {
	say("heartbeats: %d a second for %s", r.Rate, time.Duration(r.Heartbeats))
	nodes := make([]int, r.Nodes)
	for i := range nodes {
		nodes[i] = i
	}
	pulse := r.kubelets.startHeartbeats(ctx, nodes, r.Rate)
	began := time.Now()
	for range windows {
		before := pulse.sent.Load()
		spent, err := r.spentDuring(func() error { return pause(ctx, time.Duration(r.Heartbeats)/windows) })
		if err != nil {
			return errors.Join(err, pulse.stop())
		}
		r.result.Heartbeats.add(spent, pulse.sent.Load()-before)
	}
	took := time.Since(began)
	// Events that are still on their way to the watchers belong to the last window.
	rest, err := r.spentDuring(func() error { return errors.Join(pulse.stop(), pause(ctx, drainFor)) })
	if err != nil {
		return err
	}
	r.result.Heartbeats.finish(rest, pulse.sent.Load(), took)
	return r.eachUsage(func(c *cost, u usage) { c.AfterHeartbeats = u.resident })
}

// look takes the last readings, when everything has happened that can make a process grow.
func (r *run) look(context.Context) error {
	sandbox, err := r.servers.usage()
	if err != nil {
		return err
	}
	r.result.SandboxPeak = sandbox.peak
	return r.eachUsage(func(c *cost, u usage) { c.Peak = u.peak })
}

// spending is the use of both processes in the same while, and of the API server with its etcd.
type spending struct {
	floor, fettle, sandbox processor
	// stolen is the share of all processors that went to the host's other guests in that while.
	stolen float64
}

// processor is time of the processor.
type processor time.Duration

func (p processor) perMinute(minutes float64) seconds { return seconds(float64(p) / minutes) }

func (r *run) spentDuring(something func() error) (spending, error) {
	var before, after spending
	read := func(s *spending) error {
		floor, badFloor := r.floor.usage()
		fettle, badFettle := r.fettle.usage()
		sandbox, badSandbox := r.servers.usage()
		s.floor, s.fettle, s.sandbox = processor(floor.cpu), processor(fettle.cpu), processor(sandbox.cpu)
		return errors.Join(badFloor, badFettle, badSandbox)
	}
	if err := read(&before); err != nil {
		return spending{}, err
	}
	began, lost := time.Now(), r.stolen()
	if err := something(); err != nil {
		return spending{}, err
	}
	if err := read(&after); err != nil {
		return spending{}, err
	}
	return spending{
		floor: after.floor - before.floor, fettle: after.fettle - before.fettle, sandbox: after.sandbox - before.sandbox,
		stolen: r.stolenSince(began, lost),
	}, nil
}

// stolenSince returns the share of all processors that went to other guests of the host since an earlier reading.
func (r *run) stolenSince(then time.Time, lost float64) float64 {
	return (r.stolen() - lost) / time.Since(then).Seconds() / float64(runtime.NumCPU())
}

// stolen returns the time in seconds that all processors together lost to other guests of the host, or zero where the
// kernel doesn't count it.
func (r *run) stolen() float64 {
	stat, err := r.servers.fs.Stat()
	if err != nil {
		return 0
	}
	return stat.CPUTotal.Steal
}

func (r *run) eachUsage(note func(*cost, usage)) error {
	for process, c := range map[*observed]*cost{&r.floor: &r.result.Floor, &r.fettle: &r.result.Fettle} {
		u, err := process.usage()
		if err != nil {
			return err
		}
		note(c, u)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
