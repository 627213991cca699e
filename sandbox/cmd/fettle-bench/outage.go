package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// repairedWithin is the longest that the repairs may take before the run fails.
	repairedWithin = 5 * time.Minute
	// quietFor is how long Fettle must have made no request before its repairs count as over.
	quietFor = 3 * time.Second
)

const (
	// deletionRequested is the step at which the API server has got the request. Fettle's own part ends here.
	deletionRequested = "deletion requested"
	// deletionSeen is the step at which a watcher of machines sees the deletion.
	deletionSeen = "deletion seen"
)

// victim is a target whose node breaks, and when Fettle may repair it.
type victim struct {
	target, node string
	deadline     time.Time
}

// outage breaks many nodes at once, while the others' heartbeats go on, and measures their repairs.
func (r *run) outage(ctx context.Context) error {
	say("outage: %d nodes turn Ready=False", r.Broken)
	done, err := r.watchRemedyCalls(ctx)
	if err != nil {
		return err
	}
	defer done.stop()
	if err := r.servers.collectGarbage(ctx); err != nil {
		return err
	}
	before, unread := r.metrics.scrape(ctx)
	if unread != nil {
		say("no delays from Fettle itself: %v", unread)
	}
	pulse := r.kubelets.startHeartbeats(ctx, r.indices(false), r.Rate)
	began := time.Now()
	var victims []victim
	var recovery time.Time
	spent, err := r.spentDuring(func() error {
		var failed error
		if victims, failed = r.breakNodes(ctx); failed != nil {
			return failed
		}
		recovery, failed = r.awaitRepairs(ctx, done)
		return failed
	})
	if err := errors.Join(err, pulse.stop()); err != nil {
		return err
	}
	requests := r.servers.audit.between(began, time.Now())
	seen := done.seen()
	err = errors.Join(
		r.remedyCall.onlyTo(victims, seen, r.remedyCall.countIn(r.servers.audit.between(began, recovery))),
		r.remedyCall.notAgain(victims, r.remedyCall.countIn(r.servers.audit.between(recovery, time.Now()))))
	if err != nil {
		return err
	}
	r.result.Outage = outage{
		traffic: trafficOf(requests), Stages: r.stagesOf(victims, requests, seen),
		Deadlines: deadlinesOf(victims), Stolen: spent.stolen,
		FloorCPU: seconds(spent.floor), FettleCPU: seconds(spent.fettle), SandboxCPU: seconds(spent.sandbox), Lasted: seconds(time.Since(began)),
	}
	r.result.Outage.PerRepair = float64(r.result.Outage.Writes) / float64(r.Broken)
	r.result.Histograms = r.histograms(ctx, before)
	return nil
}

// histograms returns Fettle's own observations since an earlier reading, or nothing without any.
func (r *run) histograms(ctx context.Context, before map[string]histogram) []summary {
	after, err := r.metrics.scrape(ctx)
	if before == nil || err != nil {
		return nil
	}
	var reported []summary
	for _, name := range histogramNames {
		if h, kept := after[name]; kept {
			reported = append(reported, summaryOf(name, h.since(before[name])))
		}
	}
	return reported
}

// indices returns the nodes that break, or all others.
func (r *run) indices(broken bool) []int {
	var found []int
	for i := range r.Nodes {
		if r.broken(i) == broken {
			found = append(found, i)
		}
	}
	return found
}

func (r *run) breakNodes(ctx context.Context) ([]victim, error) {
	indices := r.indices(true)
	victims := make([]victim, len(indices))
	pace := rate.NewLimiter(rate.Inf, 1)
	if r.Breaking > 0 {
		pace.SetLimit(rate.Limit(r.Breaking))
	}
	err := inParallel(ctx, len(indices), func(ctx context.Context, i int) error {
		if err := pace.Wait(ctx); err != nil {
			return fmt.Errorf("waiting for the next node to break: %w", err)
		}
		return patiently(func() error {
			since, err := r.kubelets.fail(ctx, indices[i])
			victims[i] = victim{target: r.target(indices[i]), node: nodeName(indices[i]), deadline: since.Add(timeout)}
			return err
		})
	})
	return victims, err
}

// deadlinesOf counts the victims by deadline, the earliest first.
func deadlinesOf(victims []victim) []int {
	counted := map[int64]int{}
	for _, v := range victims {
		counted[v.deadline.UnixNano()]++
	}
	numbers := make([]int, 0, len(counted))
	for _, at := range slices.Sorted(maps.Keys(counted)) {
		numbers = append(numbers, counted[at])
	}
	return numbers
}

// awaitRepairs waits until all broken targets are under repair, and Fettle has nothing more to do. It returns when the
// nodes began to recover. Where they don't, it returns the instant at which all was over.
func (r *run) awaitRepairs(ctx context.Context, done *remedyCalls) (time.Time, error) {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, repairedWithin, true, func(context.Context) (bool, error) {
		return len(done.seen()) >= r.Broken, errors.Join(r.fettle.Died(), done.failed())
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("waiting for %d %ss to be %s, of which %d are: %w", r.Broken, r.remedyCall.noun, r.remedyCall.participle, len(done.seen()), err)
	}
	recovery := time.Now()
	if r.stands {
		if err := r.mendNodes(ctx); err != nil {
			return recovery, err
		}
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, repairedWithin, true, func(ctx context.Context) (bool, error) {
		running, err := r.runningRepairs(ctx)
		return running == 0 && r.servers.audit.quietSince(time.Now().Add(-quietFor)), errors.Join(err, r.servers.audit.catchUp(), r.fettle.Died())
	})
	if err != nil {
		return recovery, fmt.Errorf("waiting until Fettle has closed its repairs and asks nothing more of the API: %w", err)
	}
	if !r.stands {
		recovery = time.Now()
	}
	return recovery, nil
}

// runningRepairs counts the repairs that have not ended.
func (r *run) runningRepairs(ctx context.Context) (int, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("fettle.io/v1alpha1")
	list.SetKind("RepairList")
	if err := r.stage.Client.List(ctx, list); err != nil {
		return 0, fmt.Errorf("listing repairs: %w", err)
	}
	running := 0
	for i := range list.Items {
		if ended, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "finishedAt"); ended == "" {
			running++
		}
	}
	return running, nil
}

// stagesOf returns how long after the deadline of a target each step of its repair came, as seen from outside.
func (d *dialect) stagesOf(victims []victim, requests []request, seen map[string]time.Time) []stageDelay {
	first, last := map[string]time.Time{}, map[string]time.Time{}
	for _, r := range requests {
		name := r.name
		if strings.HasPrefix(r.resource, "repairs") {
			name = targetOf(name)
		}
		what := r.verb + " " + r.resource + " " + name
		if _, known := first[what]; !known {
			first[what] = r.received
		}
		last[what] = r.received
	}
	steps := []struct {
		name string
		at   func(victim) time.Time
	}{
		{"node read from the API server", func(v victim) time.Time { return last["get nodes "+v.node] }},
		{"repair recorded", func(v victim) time.Time { return first["create repairs "+v.target] }},
		{d.remedyCall.requested, func(v victim) time.Time { return first[d.remedyCall.verb+" "+d.remedyCall.object()+" "+v.target] }},
		{d.remedyCall.seen, func(v victim) time.Time { return seen[v.target] }},
		{"repair closed", func(v victim) time.Time { return last["patch repairs/status "+v.target] }},
	}
	if d.stands {
		steps = steps[:len(steps)-1] // it ends when the node is healthy again, whenever that is
	}
	reported := make([]stageDelay, len(steps))
	for i, step := range steps {
		var delays []time.Duration
		for _, v := range victims {
			if at := step.at(v); !at.IsZero() {
				delays = append(delays, at.Sub(v.deadline))
			}
		}
		reported[i] = stageDelay{Stage: step.name, distribution: distributionOf(delays)}
	}
	return reported
}

// targetOf returns the target in the name of a repair, which ends in a hash and a number.
func targetOf(repair string) string {
	parts := strings.Split(repair, "-")
	return strings.Join(parts[:max(0, len(parts)-2)], "-")
}
