package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// nudges is how often Fettle must decide anew without a cause.
	nudges = 10
	// nudgeEvery is long enough for each to have a pass of its own.
	nudgeEvery = 500 * time.Millisecond
)

// passTraffic is Fettle's traffic to the API in passes in which nothing had changed.
type passTraffic struct {
	// Passes is the number of passes by Fettle's own count, or 0 without one.
	Passes uint64 `json:"passes"`
	traffic
}

// nudge changes the time-out to and fro while every node is ready. So Fettle passes over the whole cluster with the
// same result. nudge counts the calls to the API meanwhile.
func (r *run) nudge(ctx context.Context) error {
	say("passes: the health check is changed %d times, and nothing follows from it", nudges)
	before, unread := r.metrics.scrape(ctx)
	began := time.Now()
	for i := range nudges {
		if err := r.changeTimeout(ctx, timeout+time.Duration((i+1)%2)*time.Second); err != nil {
			return err
		}
		if err := pause(ctx, nudgeEvery); err != nil {
			return err
		}
	}
	if err := r.servers.audit.catchUp(); err != nil {
		return err
	}
	r.result.Passes.traffic = trafficOf(r.servers.audit.between(began, time.Now()))
	if after, err := r.metrics.scrape(ctx); err == nil && unread == nil {
		r.result.Passes.Passes = after[decisions].count - before[decisions].count
	}
	return nil
}

func (r *run) changeTimeout(ctx context.Context, to time.Duration) error {
	check, err := r.manifest(benchCluster, to)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": check[0].Object["spec"]})
	if err != nil {
		return fmt.Errorf("encoding the health check: %w", err)
	}
	if err := r.stage.Client.Patch(ctx, check[0], client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("changing the health check: %w", err)
	}
	return nil
}

// decisions is the histogram that has one observation for each pass.
const decisions = "fettle_decision_duration_seconds"

// callsPerPass returns how many calls each such pass made, the most of all rounds. It returns false if Fettle doesn't
// count the passes.
func (r *report) callsPerPass() (float64, bool) {
	most, known := 0.0, len(r.Rounds) > 0
	for i := range r.Rounds {
		p := &r.Rounds[i].Passes
		made := 0
		for _, n := range p.Calls {
			made += n
		}
		if p.Passes == 0 {
			known = false
			continue
		}
		most = max(most, float64(made)/float64(p.Passes))
	}
	return most, known
}
