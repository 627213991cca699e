package selffencing

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// cannotStart stands for the phase of a remediation that ends before it has one.
const cannotStart = "CannotStart"

// Metrics are the metrics of the remediator. A nil Metrics measures nothing.
type Metrics struct {
	begun  *prometheus.CounterVec
	phases *fencednode.Phases
}

// NewMetrics returns the metrics. The series of failures begin at 0, so that an alert sees the first of each.
func NewMetrics() *Metrics {
	m := &Metrics{phases: fencednode.NewPhases(Kind), begun: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fettle_self_fence_remediation_phases_total", Help: "Phases of SelfFenceRemediations that have begun, and remediations that could not start.",
	}, []string{"phase", "reason"})}
	for _, reason := range []fencing.Reason{fencing.TaintTimedOut, fencing.FenceTimedOut, fencing.FreedByOthers, fencing.BootedUntainted, fencing.BootTimedOut, fencing.NodeReplaced} {
		m.begun.WithLabelValues(string(fencing.Failed), string(reason))
	}
	for _, reason := range []string{
		v1alpha1.CannotStartNoPromiseReason, v1alpha1.CannotStartNodeNotFoundReason, v1alpha1.CannotStartMachineNotFoundReason,
		v1alpha1.CannotStartWorkloadClusterReason, statusInvalid,
	} {
		m.begun.WithLabelValues(cannotStart, reason)
	}
	return m
}

// Describe sends the descriptions of the metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.begun.Describe(to)
	m.phases.Describe(to)
}

// Collect sends the metrics.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.begun.Collect(to)
	m.phases.Collect(to)
}

// setPhase measures since when a remediation is in its phase.
func (m *Metrics) setPhase(r *v1alpha1.SelfFenceRemediation, now time.Time) {
	if m != nil {
		m.phases.Set(client.ObjectKeyFromObject(r), &r.Status.FencingStatus, now)
	}
}

// drop drops what is measured of a remediation that is gone.
func (m *Metrics) drop(key types.NamespacedName) {
	if m != nil {
		m.phases.Drop(key)
	}
}

// count counts a phase that has begun, or that a remediation can't start.
func (m *Metrics) count(phase, reason string) {
	if m != nil {
		m.begun.WithLabelValues(phase, reason).Inc()
	}
}
