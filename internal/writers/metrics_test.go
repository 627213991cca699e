package writers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// TestMetrics: the series says whether the health check is a dry run, which the alert leaves out.
func TestMetrics(t *testing.T) {
	m := NewMetrics()
	descriptions := make(chan *prometheus.Desc, 2)
	m.Describe(descriptions)
	if len(descriptions) != 1 {
		t.Errorf("%d series are described, want 1", len(descriptions))
	}
	now := noon
	r := NewRegistry("machinehealthchecks.machine.openshift.io", m, func() time.Time { return now }, func(time.Duration, func()) {})
	policy := &core.Policy{ID: core.ID{Namespace: "ns", Name: "example"}, DryRun: true}
	r.Observe("ns", "example", nil, func() {})
	for range minWrites {
		now = now.Add(time.Second)
		r.Observe("ns", "example", []Write{{Manager: "manager", At: now}}, func() {})
	}
	for _, dryRun := range []bool{true, false} {
		policy.DryRun = dryRun
		r.Find(policy, func() {})
		wantSeries(t, m, fmt.Sprintf("dry_run=%t manager=manager name=example namespace=ns resource=machinehealthchecks.machine.openshift.io 1", dryRun))
	}
	r.Drop("ns", "example")
	wantSeries(t, m)
}

// wantSeries compares all series with lines, in the form "label=value ... 1".
func wantSeries(t *testing.T, m *Metrics, want ...string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			line := ""
			for _, label := range metric.GetLabel() {
				line += label.GetName() + "=" + label.GetValue() + " "
			}
			got = append(got, fmt.Sprint(line, metric.GetGauge().GetValue()))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("series are %q, want %q", got, want)
	}
}
