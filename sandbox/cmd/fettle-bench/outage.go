package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

const (
	// repairedWithin is the longest that the repairs may take before the run counts as broken.
	repairedWithin = 5 * time.Minute
	// quietFor is how long Fettle must have asked nothing of the API before its repairs count as over.
	quietFor = 3 * time.Second
)

const (
	// deletionRequested is the step at which the API server has got the request; Fettle's own part ends here.
	deletionRequested = "deletion requested"
	// deletionSeen is the step at which whoever watches machines sees that one is deleted.
	deletionSeen = "deletion seen"
)

// victim is a machine whose node breaks, and when Fettle may repair it.
type victim struct {
	machine, node string
	deadline      time.Time
}

// outage breaks many nodes at once, while the others' heartbeats go on, and measures how their machines are repaired.
func (r *run) outage(ctx context.Context) error {
	say("outage: %d nodes turn Ready=False", r.Broken)
	deletions, err := r.watchDeletions(ctx)
	if err != nil {
		return err
	}
	defer deletions.stop()
	if err := r.collectGarbage(ctx); err != nil {
		return err
	}
	before, unread := r.metrics.scrape(ctx)
	if unread != nil {
		say("no delays from Fettle itself: %v", unread)
	}
	pulse := r.kubelets.startPulse(ctx, r.indices(false), r.Rate)
	began := time.Now()
	var victims []victim
	spent, err := r.spentDuring(func() error {
		var failed error
		if victims, failed = r.breakNodes(ctx); failed != nil {
			return failed
		}
		return r.awaitRepairs(ctx, deletions)
	})
	if err := errors.Join(err, pulse.stop()); err != nil {
		return err
	}
	requests := r.audit.between(began, time.Now())
	gone := deletions.seen()
	if err := onlyThese(victims, gone, deletionsOf(requests, r.machines.Resource)); err != nil {
		return err
	}
	r.result.Outage = outage{
		traffic: trafficOf(requests), Stages: stagesOf(victims, requests, gone, r.machines.Resource),
		Deadlines: deadlinesOf(victims), Stolen: spent.stolen,
		FloorCPU: seconds(spent.floor), FettleCPU: seconds(spent.fettle), SandboxCPU: seconds(spent.sandbox), Lasted: seconds(time.Since(began)),
	}
	r.result.Outage.PerRepair = float64(r.result.Outage.Writes) / float64(r.Broken)
	r.result.Histograms = r.histograms(ctx, before)
	return nil
}

// histograms tells what Fettle observed of itself since an earlier reading; nothing if there was none.
func (r *run) histograms(ctx context.Context, before map[string]histogram) []summary {
	after, err := r.metrics.scrape(ctx)
	if before == nil || err != nil {
		return nil
	}
	var told []summary
	for _, name := range histogramNames {
		if h, kept := after[name]; kept {
			told = append(told, summaryOf(name, h.since(before[name])))
		}
	}
	return told
}

// indices are the nodes that break, or all others.
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
	err := inParallel(ctx, len(indices), func(ctx context.Context, i int) error {
		return patiently(func() error {
			since, err := r.kubelets.fail(ctx, indices[i])
			victims[i] = victim{machine: machineName(indices[i]), node: nodeName(indices[i]), deadline: since.Add(timeout)}
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

// awaitRepairs waits until as many machines are gone as broke, and Fettle has nothing more to do.
func (r *run) awaitRepairs(ctx context.Context, deletions *deletions) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, repairedWithin, true, func(context.Context) (bool, error) {
		return len(deletions.seen()) >= r.Broken, errors.Join(r.fettle.Died(), deletions.failed())
	})
	if err != nil {
		return fmt.Errorf("waiting for %d machines to be deleted, of which %d are: %w", r.Broken, len(deletions.seen()), err)
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, repairedWithin, true, func(ctx context.Context) (bool, error) {
		running, err := r.runningRepairs(ctx)
		return running == 0 && r.audit.quietSince(time.Now().Add(-quietFor)), errors.Join(err, r.audit.catchUp(), r.fettle.Died())
	})
	if err != nil {
		return fmt.Errorf("waiting until Fettle has closed its repairs and asks nothing more of the API: %w", err)
	}
	return nil
}

// runningRepairs counts the repairs that have not come to their end.
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

// quietSince tells whether nothing but leases was asked for since then.
func (a *auditLog) quietSince(then time.Time) bool {
	return !slices.ContainsFunc(a.requests, func(r request) bool { return !r.isLease() && r.received.After(then) })
}

// deletions is when each machine was first seen to be deleted.
type deletions struct {
	watcher *toolswatch.RetryWatcher

	mu  sync.Mutex
	at  map[string]time.Time
	err error
}

func (r *run) watchDeletions(ctx context.Context) (*deletions, error) {
	c, err := metadata.NewForConfig(r.stage.Admin)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	machines := c.Resource(r.machines)
	list, err := machines.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return machines.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching machines: %w", err)
	}
	d := &deletions{watcher: watcher, at: map[string]time.Time{}}
	go d.note()
	return d, nil
}

func (d *deletions) note() {
	for event := range d.watcher.ResultChan() {
		now := time.Now()
		m, ok := event.Object.(*metav1.PartialObjectMetadata)
		d.mu.Lock()
		switch {
		case !ok:
			d.err = fmt.Errorf("watching machines: %v", event.Object)
		case event.Type == watch.Deleted || m.DeletionTimestamp != nil:
			if _, known := d.at[m.Name]; !known {
				d.at[m.Name] = now
			}
		}
		d.mu.Unlock()
	}
}

func (d *deletions) stop() { d.watcher.Stop() }

func (d *deletions) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *deletions) seen() map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.at)
}

// deletionsOf counts the accepted deletions of each object of a resource.
func deletionsOf(requests []request, resource string) map[string]int {
	counted := map[string]int{}
	for _, r := range requests {
		if r.verb == "delete" && r.resource == resource && r.code < 300 {
			counted[r.name]++
		}
	}
	return counted
}

// onlyThese fails unless exactly the victims were deleted, by Fettle, each once and none before its deadline.
func onlyThese(victims []victim, gone map[string]time.Time, deleted map[string]int) error {
	var problems []string
	expected := map[string]bool{}
	for _, v := range victims {
		expected[v.machine] = true
		switch {
		case deleted[v.machine] != 1:
			problems = append(problems, fmt.Sprintf("machine %s was deleted %d times instead of once", v.machine, deleted[v.machine]))
		case gone[v.machine].Before(v.deadline):
			problems = append(problems, fmt.Sprintf("machine %s was deleted %s before its deadline", v.machine, v.deadline.Sub(gone[v.machine])))
		}
	}
	for name := range deleted {
		if !expected[name] {
			problems = append(problems, fmt.Sprintf("machine %s was deleted and is not broken", name))
		}
	}
	for name := range gone {
		if !expected[name] && deleted[name] == 0 {
			problems = append(problems, fmt.Sprintf("machine %s is gone, and neither was it broken nor did Fettle delete it", name))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New("Fettle did something wrong: " + strings.Join(problems, "; "))
}

// stagesOf tells how long after the deadline of a machine each step of its repair came, as seen from outside.
func stagesOf(victims []victim, requests []request, gone map[string]time.Time, machines string) []stageDelay {
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
		{"repair recorded", func(v victim) time.Time { return first["create repairs "+v.machine] }},
		{deletionRequested, func(v victim) time.Time { return first["delete "+machines+" "+v.machine] }},
		{deletionSeen, func(v victim) time.Time { return gone[v.machine] }},
		{"repair closed", func(v victim) time.Time { return last["patch repairs/status "+v.machine] }},
	}
	told := make([]stageDelay, len(steps))
	for i, step := range steps {
		var delays []time.Duration
		for _, v := range victims {
			if at := step.at(v); !at.IsZero() {
				delays = append(delays, at.Sub(v.deadline))
			}
		}
		told[i] = stageDelay{Stage: step.name, distribution: distributionOf(delays)}
	}
	return told
}

// targetOf is the machine that a repair is named after: its name ends in a hash and a number.
func targetOf(repair string) string {
	parts := strings.Split(repair, "-")
	return strings.Join(parts[:max(0, len(parts)-2)], "-")
}
