package selffencing

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// cannotStart stands for the phase of a remediation that ends before it has one.
const cannotStart = "CannotStart"

// Metrics are the metrics of the remediator. A nil Metrics measures nothing.
type Metrics struct{ phases *prometheus.CounterVec }

// NewMetrics returns the metrics. The series of failures begin at 0, so that an alert sees the first of each.
func NewMetrics() *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fettle_self_fence_remediation_phases_total", Help: "Phases of SelfFenceRemediations that have begun, and remediations that could not start.",
	}, []string{"phase", "reason"})}
	for _, reason := range []fencing.Reason{fencing.FenceTimedOut, fencing.FreedByOthers, fencing.BootedUntainted, fencing.BootTimedOut, fencing.NodeReplaced} {
		m.phases.WithLabelValues(string(fencing.Failed), string(reason))
	}
	for _, reason := range []string{
		v1alpha1.CannotStartNoPromiseReason, v1alpha1.CannotStartNodeNotFoundReason, v1alpha1.CannotStartMachineNotFoundReason,
		v1alpha1.CannotStartWorkloadClusterReason, statusInvalid,
	} {
		m.phases.WithLabelValues(cannotStart, reason)
	}
	return m
}

// Describe sends the descriptions of the metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.phases.Describe(to) }

// Collect sends the metrics.
func (m *Metrics) Collect(to chan<- prometheus.Metric) { m.phases.Collect(to) }

// count counts a phase that has begun, or that a remediation can't start.
func (m *Metrics) count(phase, reason string) {
	if m != nil {
		m.phases.WithLabelValues(phase, reason).Inc()
	}
}
