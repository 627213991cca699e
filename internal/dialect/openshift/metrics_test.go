package openshift

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// seriesOf returns the series of a collector, as "name{label=value,…} value".
func seriesOf(t *testing.T, c prometheus.Collector) []string {
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
			line := f.GetName()[len("mapi_machinehealthcheck_"):]
			for _, l := range m.GetLabel() {
				line += " " + l.GetValue()
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			lines = append(lines, line+": "+string(rune('0'+int(value))))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestSeriesOfOpenShift: the series have the names, labels and values of OpenShift's own controller
// (docs/reference/openshift.md#metrics).
func TestSeriesOfOpenShift(t *testing.T) {
	report := func(name string, total int, permitted bool, changes ...func(*core.Policy)) core.PolicyReport {
		r := core.PolicyReport{Tally: core.Tally{Total: total, Permitted: permitted}}
		r.Policy.ID = core.ID{Kind: healthCheckKind, Namespace: "machines", Name: name, UID: name + "-uid"}
		for _, change := range changes {
			change(&r.Policy)
		}
		return r
	}
	paused := func(p *core.Policy) { p.Paused = true }
	broken := func(p *core.Policy) { p.Problem = "maxUnhealthy is not a number" }
	begun := core.Event{Kind: core.EventStarted, Policy: report("a", 0, true).Policy.ID}
	refused, stranger := begun, begun
	refused.Kind, stranger.Policy.Name = core.EventRefused, "z"
	marked, requested := begun, begun
	marked.Remedy, requested.Remedy = AnnotateMachine, RequestMachineRemediation
	several := begun
	several.Remedy = DeleteMachine
	several.Targets = make([]core.ID, 4)

	var none *Metrics
	none.setGauges([]core.PolicyReport{report("a", 1, true)})
	none.countEvents([]core.Event{begun})

	m := NewMetrics()
	steps := []struct {
		sentence string
		do       func()
		want     []string
	}{
		{"before the first pass nothing is claimed", func() {}, nil},
		{"each selects some", func() { m.setGauges([]core.PolicyReport{report("a", 3, true), report("b", 2, false)}) }, []string{
			"nodes_covered a machines: 3", "nodes_covered b machines: 2",
			"remediation_success_total a machines: 0", "remediation_success_total b machines: 0",
			"short_circuit a machines: 0", "short_circuit b machines: 1",
		}},
		{"accepted deletions count, and nothing else does", func() { m.countEvents([]core.Event{begun, refused, stranger, marked, requested, begun}) }, []string{
			"nodes_covered a machines: 3", "nodes_covered b machines: 2",
			"remediation_success_total a machines: 2", "remediation_success_total b machines: 0",
			"short_circuit a machines: 0", "short_circuit b machines: 1",
		}},
		{"each target of one event counts", func() { m.countEvents([]core.Event{several}) }, []string{
			"nodes_covered a machines: 3", "nodes_covered b machines: 2",
			"remediation_success_total a machines: 6", "remediation_success_total b machines: 0",
			"short_circuit a machines: 0", "short_circuit b machines: 1",
		}},
		{"a pause freezes, and nonsense leaves the short circuit alone", func() {
			m.setGauges([]core.PolicyReport{report("a", 5, false, paused), report("b", 4, true, broken), report("c", 1, true, paused)})
		}, []string{
			"nodes_covered a machines: 3", "nodes_covered b machines: 4",
			"remediation_success_total a machines: 6", "remediation_success_total b machines: 0", "remediation_success_total c machines: 0",
			"short_circuit a machines: 0", "short_circuit b machines: 1",
		}},
		{"series end with their health check", func() { m.setGauges([]core.PolicyReport{report("b", 2, true)}) }, []string{
			"nodes_covered b machines: 2", "remediation_success_total b machines: 0", "short_circuit b machines: 0",
		}},
		{"one of the same name begins anew", func() { m.setGauges([]core.PolicyReport{report("a", 1, true)}) }, []string{
			"nodes_covered a machines: 1", "remediation_success_total a machines: 0", "short_circuit a machines: 0",
		}},
		{"the last one ends", func() { m.setGauges(nil) }, nil},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, seriesOf(t, m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.sentence, diff)
		}
	}
}
