package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// orphaned is a cluster of healthy nodes, each with a request that no repair accounts for, of as many health checks as there are.
func orphaned(nodes, checks int) ([]core.Policy, core.Cluster) {
	cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes}
	policies := make([]core.Policy, checks)
	for i := range policies {
		policies[i] = core.Policy{
			ID:    core.ID{Kind: "NodeHealthCheck", Name: fmt.Sprint("check-", i), UID: fmt.Sprint("check-uid-", i)},
			Steps: []core.Step{{Remedy: "Request", Nature: core.CreateRequest, Template: core.Reference{Kind: "T", Name: "t"}}},
		}
	}
	for i := range nodes {
		id := core.ID{Kind: "Node", Name: fmt.Sprint("node-", i), UID: fmt.Sprint("uid-", i)}
		cluster.Targets = append(cluster.Targets, core.Target{ID: id, Node: core.Node{State: core.NodePresent, Name: id.Name, UID: id.UID}})
		of := &policies[i%checks]
		of.Members = append(of.Members, i)
		cluster.Requests = append(cluster.Requests, core.Request{
			ID: core.ID{Kind: "R", Name: id.Name, UID: fmt.Sprint("request-", i)}, Remedy: "Request", Template: of.Steps[0].Template,
			Target: id, Policy: of.ID, Own: true,
		})
	}
	return policies, cluster
}

// BenchmarkOrphans: ten times as many requests take about ten times as long.
func BenchmarkOrphans(b *testing.B) {
	for _, size := range [...]struct{ nodes, checks int }{{2_000, 1}, {20_000, 1}, {2_000, 500}, {20_000, 5_000}} {
		policies, cluster := orphaned(size.nodes, size.checks)
		b.Run(fmt.Sprintf("%d_of_%d", size.nodes, size.checks), func(b *testing.B) {
			for b.Loop() {
				if d := core.Decide(policies, cluster, noon); len(d.Withdrawals) != size.nodes {
					b.Fatalf("%d of %d are withdrawn", len(d.Withdrawals), size.nodes)
				}
			}
		})
	}
}

// BenchmarkRequestsThatAreNotShown: the memory of many requests is laid over as many that are shown.
func BenchmarkRequestsThatAreNotShown(b *testing.B) {
	for _, nodes := range [...]int{2_000, 20_000} {
		_, cluster := orphaned(nodes, 1)
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			for b.Loop() {
				var m core.Expectations
				for _, r := range cluster.Requests {
					r.ID.UID, r.Target.UID = "", r.Target.UID+"-later"
					m.ExpectRequest(r, noon)
				}
				laid := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Requests: cluster.Requests[:nodes:nodes]}
				m.Overlay(&laid, noon.Add(time.Second))
				if len(laid.Requests) != 2*nodes {
					b.Fatalf("there are %d requests, want %d", len(laid.Requests), 2*nodes)
				}
			}
		})
	}
}
