package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// seriesOf returns all series of the connections as lines such as "fettle_workload_cluster_up east fleet 1".
func seriesOf(t *testing.T, c *Connections) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			line := strings.TrimPrefix(family.GetName(), "fettle_workload_cluster_")
			for _, label := range m.GetLabel() {
				line += " " + label.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return lines
}

// TestMetrics: a connection has series from when it begins until it is dropped.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		c, end := s.connects()
		defer end()
		after(time.Second)
		steps := []struct {
			sentence string
			do       func()
			want     []string
		}{
			{"it is connected", func() {}, []string{"connects_total east fleet error 0", "connects_total east fleet ok 1", "up east fleet 1"}},
			{"it goes beyond bounds", func() {
				c.recordLoss(errEndless, "it sends nonsense")
				c.recordLoss(errEndless, "it sends nonsense")
				c.recordLoss(errStalled, "it is slow")
			}, []string{"bound_exceeded_total pages east fleet 2", "bound_exceeded_total time east fleet 1", "connects_total east fleet error 3", "connects_total east fleet ok 1", "up east fleet 0"}},
			{"it is dropped", func() { c.Drop(c.cluster) }, nil},
		}
		for _, step := range steps {
			step.do()
			if got := seriesOf(t, c.Connections); !slices.Equal(got, step.want) {
				t.Errorf("%s: series are %q, want %q", step.sentence, got, step.want)
			}
		}
	})
	idle := New(Config{Now: clock})
	idle.Keep(types.NamespacedName{Name: "east"})
	if got := seriesOf(t, idle); len(got) > 0 {
		t.Errorf("a connection that has not begun has the series %q", got)
	}
}
