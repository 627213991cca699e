package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/workload"
)

// TestNothingIsReportedBeforeAConnectionWasTried: each leader begins without connections, and health
// checks don't report that.
func TestNothingIsReportedBeforeAConnectionWasTried(t *testing.T) {
	connections := workload.New(workload.Config{Now: time.Now, Wake: func(types.NamespacedName) {}, Log: logr.Discard()})
	nodes := connections.Keep(types.NamespacedName{Namespace: "fleet", Name: "east"})
	passes := 0
	pass := skipUntilConnected(nodes, func(context.Context) (time.Time, error) {
		passes++
		return time.Time{}, nil
	})
	if due, err := pass(t.Context()); passes != 0 || !due.IsZero() || err != nil {
		t.Errorf("it was passed over %d times, and gave %s, %v", passes, due, err)
	}
}

// TestKeysOfClustersDiffer: keys of workload clusters differ from each other and from the
// home cluster's.
func TestKeysOfClustersDiffer(t *testing.T) {
	names := map[string]bool{homeKey: true}
	for _, of := range []types.NamespacedName{{Namespace: "a", Name: homeKey}, {Namespace: "b", Name: homeKey}, {Namespace: "a", Name: "b"}} {
		if name := clusterName(of); names[name] {
			t.Errorf("two clusters are called %s", name)
		} else {
			names[name] = true
		}
	}
}
