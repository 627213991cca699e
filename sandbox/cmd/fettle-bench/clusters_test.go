package main

import (
	"testing"
	"time"
)

// TestClusters: only dialects with workload clusters have idle ones.
func TestClusters(t *testing.T) {
	p := parameters{Dialect: "capi", Nodes: 10, Machines: 10, Rate: 1, Broken: 1, Rounds: 1, Clusters: 100, Idle: seconds(time.Second), Heartbeats: seconds(time.Second)}
	if err := p.validate(); err != nil || p.Clusters != 100 {
		t.Errorf("there are 100 clusters, but %d and %v", p.Clusters, err)
	}
	if p.Clusters = -1; p.validate() == nil {
		t.Error("there can't be fewer than none")
	}
	for _, other := range []string{"openshift", "nhc"} {
		p.Dialect, p.Clusters = other, 100
		if err := p.validate(); err != nil || p.Clusters != 0 {
			t.Errorf("%s has no workload clusters, but %d and %v", other, p.Clusters, err)
		}
	}
}
