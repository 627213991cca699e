package openshift

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// Metrics has the series of OpenShift's own health check controller
// (docs/reference/openshift.md#metrics), so that its dashboards and alerts go on working. A nil
// *Metrics counts nothing.
type Metrics struct {
	covered, short, deleted *prometheus.Desc

	mu     sync.Mutex
	checks map[checkName]*checkSeries
}

// checkName has the labels of the series of one health check.
type checkName struct{ namespace, name string }

// checkSeries has the values of one health check. A nil value has no series yet.
type checkSeries struct {
	deleted        float64
	covered, short *float64
}

// NewMetrics returns metrics without series.
func NewMetrics() *Metrics {
	labels := []string{"name", "namespace"}
	return &Metrics{
		covered: prometheus.NewDesc("mapi_machinehealthcheck_nodes_covered", "Number of machines that a MachineHealthCheck selects.", labels, nil),
		short:   prometheus.NewDesc("mapi_machinehealthcheck_short_circuit", "1 while a MachineHealthCheck's short circuit holds repairs back; 0 otherwise.", labels, nil),
		deleted: prometheus.NewDesc("mapi_machinehealthcheck_remediation_success_total", "Deletions of machines that were accepted.", labels, nil),
		checks:  map[checkName]*checkSeries{},
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.covered
	out <- m.short
	out <- m.deleted
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, s := range m.checks {
		out <- prometheus.MustNewConstMetric(m.deleted, prometheus.CounterValue, s.deleted, of.name, of.namespace)
		if s.covered != nil {
			out <- prometheus.MustNewConstMetric(m.covered, prometheus.GaugeValue, *s.covered, of.name, of.namespace)
		}
		if s.short != nil {
			out <- prometheus.MustNewConstMetric(m.short, prometheus.GaugeValue, *s.short, of.name, of.namespace)
		}
	}
}

// setGauges sets the gauges of all health checks from the reports of one pass. The series of a
// deleted health check end. The gauges of a paused health check keep their values, and so does the
// short circuit of a health check that can't be followed.
func (m *Metrics) setGauges(reports []core.PolicyReport) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	checks := make(map[checkName]*checkSeries, len(reports))
	for _, r := range reports {
		of := checkName{r.Policy.ID.Namespace, r.Policy.ID.Name}
		s := m.checks[of]
		if s == nil {
			s = &checkSeries{}
		}
		checks[of] = s
		if r.Policy.Paused {
			continue
		}
		covered := float64(r.Tally.Total)
		s.covered = &covered
		if r.Policy.Problem == "" {
			short := 0.0
			if !r.Tally.Permitted {
				short = 1
			}
			s.short = &short
		}
	}
	m.checks = checks
}

// countEvents counts the accepted deletions. One event may tell of several. Machines that are left
// to an outside remediator don't count, as in OpenShift (docs/reference/openshift.md#metrics).
func (m *Metrics) countEvents(coreEvents []core.Event) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range coreEvents {
		outside := h.Remedy == AnnotateMachine || h.Remedy == RequestMachineRemediation
		if s := m.checks[checkName{h.Policy.Namespace, h.Policy.Name}]; s != nil && h.Kind == core.EventStarted && !outside {
			s.deleted += float64(max(1, len(h.Targets)))
		}
	}
}
