package nhc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// shown returns what a collector exposes, as "name labels: value". Of histograms it returns the count, the sum, and how
// many values are below a minute.
func shown(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatalf("registering: %v", err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			line := f.GetName()[len("nodehealthcheck_"):]
			for _, l := range m.GetLabel() {
				line += fmt.Sprintf(" %s=%q", l.GetName(), l.GetValue())
			}
			if h := m.GetHistogram(); h != nil {
				var bounds []float64
				for _, b := range h.GetBucket() {
					bounds = append(bounds, b.GetUpperBound())
				}
				if want := []float64{30, 60, 120, 180, 240, 300, 600, 1200, 2400, 3600}; !slices.Equal(bounds, want) {
					t.Errorf("the buckets end at %v, want %v", bounds, want)
				}
				lines = append(lines, fmt.Sprintf("%s: %d in %gs, %d within 60s of %d buckets", line, h.GetSampleCount(), h.GetSampleSum(),
					h.GetBucket()[1].GetCumulativeCount(), len(h.GetBucket())))
				continue
			}
			lines = append(lines, fmt.Sprintf("%s: %g", line, m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestTodaysSeries have the names, labels and values that dashboards expect (docs/reference/medik8s.md#metrics).
func TestTodaysSeries(t *testing.T) {
	nodes := map[string]bool{"a": true, "b": true}
	find := func(name string) (node.Facts, bool) { return node.Facts{}, nodes[name] }
	var none *Metrics
	none.update([]core.PolicyReport{found()}, find, dawn)

	m := NewMetrics()
	second := requestOfAge("a-2", 30*time.Second)
	clusterScoped := requestOfAge("b", 48*time.Hour)
	clusterScoped.ID.Namespace, clusterScoped.ID.Kind = "", "Fence"
	const (
		rebootsA = `ongoing_remediation name="a" namespace="n" remediation="Reboot": 1`
		fencesB  = `ongoing_remediation name="b" namespace="" remediation="Fence": 1`
		oldB     = `old_remediation_cr name="b" namespace="": 1`
		oldA     = `old_remediation_cr name="a" namespace="": 1`
		lasted   = `unhealthy_node_duration_seconds name="a" namespace="n" remediation="Reboot": 2 in 210s, 1 within 60s of 10 buckets`
	)
	pass := func(at time.Time, reports ...core.PolicyReport) func() {
		return func() { m.update(reports, find, at) }
	}
	steps := []struct {
		sentence string
		do       func()
		want     []string
	}{
		{"before the first pass nothing is claimed", func() {}, nil},
		{"two nodes are under remediation, one for long", pass(dawn, found(
			ails("a", core.Unhealthy, requestOfAge("a-1", 2*time.Minute), second), ails("b", core.Unhealthy, clusterScoped),
		)), []string{oldB, rebootsA, fencesB}},
		{"what is old counts once", pass(dawn, found(
			ails("a", core.Unhealthy, requestOfAge("a-1", 2*time.Minute), second), ails("b", core.Unhealthy, clusterScoped),
		)), []string{oldB, rebootsA, fencesB}},
		{"one node has recovered", pass(dawn.Add(30*time.Second), found(ails("b", core.Unhealthy, clusterScoped))), []string{oldB, fencesB, lasted}},
		{"a request is gone, and its node is unhealthy still", pass(dawn.Add(30*time.Second), found(ails("b", core.Unhealthy))), []string{oldB, lasted}},
		{"a series ends with its node", func() {
			delete(nodes, "b")
			m.update([]core.PolicyReport{found(ails("a", core.Suspect, requestOfAge("a-3", 47*time.Hour)))}, find, dawn)
		}, []string{rebootsA, lasted}},
		{"it grows old", pass(dawn.Add(time.Hour), found(ails("a", core.Suspect, requestOfAge("a-3", 47*time.Hour)))), []string{oldA, rebootsA, lasted}},
		{"its health check is gone", pass(dawn.Add(time.Hour)), []string{oldA, lasted}},
		{"so is the node", func() {
			delete(nodes, "a")
			m.update(nil, find, dawn)
		}, nil},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, shown(t, m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.sentence, diff)
		}
	}
	if kept := len(m.requests) + len(m.aged) + len(m.observed); kept > 0 {
		t.Errorf("%d series of no node are kept", kept)
	}
}

// TestSuspectNodesHaveRecovered: a request that is withdrawn while its node is suspect ends a remediation.
func TestSuspectNodesHaveRecovered(t *testing.T) {
	find := func(string) (node.Facts, bool) { return node.Facts{}, true }
	for health, want := range map[core.Health]int{core.Healthy: 1, core.Suspect: 1, core.Unhealthy: 0} {
		m := NewMetrics()
		m.update([]core.PolicyReport{found(ails("a", core.Unhealthy, requestOfAge("r", time.Minute)))}, find, dawn)
		m.update([]core.PolicyReport{found(ails("b", core.Unhealthy), ails("a", health))}, find, dawn)
		if got := len(shown(t, m)); got != want {
			t.Errorf("%s: %d remediations have ended, want %d", health, got, want)
		}
	}
}
