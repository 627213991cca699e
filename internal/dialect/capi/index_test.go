package capi

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
)

func checkOf(name, value string) *healthCheck {
	selector := labels.Everything()
	if value != "" {
		selector = labels.SelectorFromSet(labels.Set{"absent": value})
	}
	return &healthCheck{policy: core.Policy{ID: core.ID{Kind: healthCheckKind, Namespace: "machines", Name: name, UID: "uid-of-" + name}}, selector: selector}
}

// TestI15HealthChecksThatSelectTheSame: the cost of a health check does not depend on how many others select the same
// machines. A list of selections per machine would take gigabytes.
func TestI15HealthChecksThatSelectTheSame(t *testing.T) {
	const machines, checks = 100, 2000
	s := newStore()
	for i := range machines {
		m := &clusterapi.Machine{}
		m.Namespace, m.Name = "machines", fmt.Sprintf("m-%d", i)
		s.putMachine(m)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range checks {
		s.putCheck(checkOf(fmt.Sprintf("check-%d", i), ""))
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
		t.Errorf("taking in %d health checks of %d machines took %d MiB of memory", checks, machines, took)
	}
	for name, check := range s.checks {
		if got := len(s.index.Members(check.selection)); got != machines {
			t.Fatalf("%s selects %d machines, want %d", name, got, machines)
		}
	}
}

// TestI15SelectionsThatAreOverAreEnded: a selector that changes again and again leaves no selections behind.
func TestI15SelectionsThatAreOverAreEnded(t *testing.T) {
	s := newStore()
	m := &clusterapi.Machine{}
	m.Namespace, m.Name = "machines", "m"
	s.putMachine(m)
	for i := range 1000 {
		s.putCheck(checkOf("check", []string{"", "x"}[i%2]))
		s.putCheck(checkOf("other", ""))
		s.dropCheck("other")
	}
	if kept := s.index.Selections(); kept != 1 {
		t.Errorf("%d selections of one health check are kept", kept)
	}
}
