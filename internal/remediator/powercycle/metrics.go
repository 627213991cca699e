package powercycle

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// maxUnreachable bounds the series of BMCs that can't be reached.
const maxUnreachable = 1000

// Metrics are the metrics of the remediator. A nil Metrics measures nothing.
type Metrics struct {
	unreachable  *prometheus.GaugeVec
	remediations *prometheus.CounterVec
	notBegun     *prometheus.GaugeVec
	phases       *fencednode.Phases

	mu     sync.Mutex
	series map[types.NamespacedName]prometheus.Labels
	// waiting has why the remediations that have not begun wait, or why they can't start.
	waiting map[types.NamespacedName]string
}

// failures are the phases of a failure with their reasons. Their series begin at 0, so that an alert sees the first of each.
//
//nolint:gochecknoglobals // a constant list
var failures = map[fencing.Phase][]fencing.Reason{
	fencing.DeletingMachine: {
		fencing.TaintTimedOut, fencing.PowerOffTimedOut, fencing.FenceTimedOut, fencing.PoweredOnByOthers, fencing.BootedUntainted, fencing.ReleaseTimedOut, fencing.PowerOnTimedOut, fencing.BootTimedOut,
	},
	fencing.Failed: {
		fencing.TaintTimedOut, fencing.PowerOffTimedOut, fencing.FenceTimedOut, fencing.PoweredOnByOthers, fencing.BootedUntainted, fencing.ReleaseTimedOut, fencing.PowerOnTimedOut, fencing.BootTimedOut,
		fencing.NodeReplaced, fencing.MachineDeletionTimedOut, fencing.HostNotLeft, statusNotKept,
		fencing.KeptControlPlane, fencing.KeptNoController, fencing.KeptOtherNode, fencing.KeptExternallyProvisioned, fencing.KeptHostUnknown, fencing.NoMachine,
	},
}

// NewMetrics returns the metrics.
func NewMetrics() *Metrics {
	m := &Metrics{
		unreachable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fettle_bmc_unreachable", Help: "BMCs on which the last operation failed, by the reason. A BMC that works has no series.",
		}, []string{"bmc", "node", "reason"}),
		remediations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fettle_power_remediation_phases_total", Help: "Phases of PowerRemediations that have begun.",
		}, []string{"phase", "reason"}),
		notBegun: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fettle_power_remediations_not_begun", Help: "PowerRemediations that exist and have done nothing, by what they wait for or why they can't start.",
		}, []string{"reason"}),
		phases: fencednode.NewPhases(Kind),
		series: map[types.NamespacedName]prometheus.Labels{}, waiting: map[types.NamespacedName]string{},
	}
	for phase, reasons := range failures {
		for _, reason := range reasons {
			m.remediations.WithLabelValues(string(phase), string(reason))
		}
	}
	return m
}

// Describe sends the descriptions of the metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.unreachable.Describe(to)
	m.remediations.Describe(to)
	m.notBegun.Describe(to)
	m.phases.Describe(to)
}

// Collect sends the metrics.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.unreachable.Collect(to)
	m.remediations.Collect(to)
	m.notBegun.Collect(to)
	m.phases.Collect(to)
}

// observe measures whether a BMC can be reached. The reason is empty if it can.
func (m *Metrics) observe(bmc *v1alpha1.BMC, reason string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: bmc.Namespace, Name: bmc.Name}
	m.clear(key)
	if reason == "" || len(m.series) >= maxUnreachable {
		return
	}
	labels := prometheus.Labels{"bmc": bmc.Name, "node": bmc.Spec.NodeName, "reason": reason}
	m.series[key] = labels
	m.unreachable.With(labels).Set(1)
}

// forget drops the series of a BMC that is gone.
func (m *Metrics) forget(key types.NamespacedName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear(key)
}

func (m *Metrics) clear(key types.NamespacedName) {
	if labels, known := m.series[key]; known {
		m.unreachable.Delete(labels)
		delete(m.series, key)
	}
}

// setPhase measures since when a remediation is in its phase.
func (m *Metrics) setPhase(r *v1alpha1.PowerRemediation, now time.Time) {
	if m != nil {
		m.phases.Set(client.ObjectKeyFromObject(r), &r.Status.FencingStatus, now)
	}
}

// drop drops what is measured of a remediation that is gone.
func (m *Metrics) drop(key types.NamespacedName) {
	if m != nil {
		m.phases.Drop(key)
		m.wait(key, "")
	}
}

// count counts a phase that has begun.
func (m *Metrics) count(phase, reason string) {
	if m != nil {
		m.remediations.WithLabelValues(phase, reason).Inc()
	}
}

// wait measures that a remediation has not begun, and why. The reason is empty once it has begun or is gone.
func (m *Metrics) wait(key types.NamespacedName, reason string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.waiting[key]
	if before == reason {
		return
	}
	if before != "" {
		m.notBegun.WithLabelValues(before).Dec()
	}
	if reason == "" {
		delete(m.waiting, key)
		return
	}
	m.waiting[key] = reason
	m.notBegun.WithLabelValues(reason).Inc()
}
