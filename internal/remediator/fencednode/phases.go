package fencednode

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// Phases measures how long remediations of a kind have been in their present phases. For each phase it has the start of the remediation that
// entered it first. It is a Prometheus collector. A nil Phases measures nothing.
type Phases struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	since map[types.NamespacedName]phase
}

// phase is a phase that a remediation is in.
type phase struct {
	name fencing.Phase
	// recorded is when it began by its record, and began from when it counts.
	recorded, began time.Time
}

// NewPhases returns what measures the remediations of a kind. No two for the same kind can be registered.
func NewPhases(kind string) *Phases {
	return &Phases{
		desc: prometheus.NewDesc("fettle_fencing_oldest_phase_timestamp_seconds",
			"When the phase began that has lasted longest, by the phase. A phase that no remediation is in has no series.",
			[]string{"phase"}, prometheus.Labels{"kind": kind}),
		since: map[types.NamespacedName]phase{},
	}
}

// Set stores the phase of a remediation at an instant. A remediation that has not begun, or has ended, is in none. A
// start that is recorded for later counts from now on: the clock of the process that recorded it was fast.
func (p *Phases) Set(key types.NamespacedName, s *v1alpha1.FencingStatus, now time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !Underway(s) || s.PhaseSince == nil {
		delete(p.since, key)
		return
	}
	is, was := phase{name: fencing.Phase(s.Phase), recorded: s.PhaseSince.Time, began: s.PhaseSince.Time}, p.since[key]
	if is.began.After(now) {
		is.began = now
	}
	if goesOn := is.name == was.name && is.recorded.Equal(was.recorded); goesOn && was.began.Before(is.began) {
		return
	}
	p.since[key] = is
}

// Drop drops a remediation that is gone.
func (p *Phases) Drop(key types.NamespacedName) { p.Set(key, &v1alpha1.FencingStatus{}, time.Time{}) }

// Describe sends the description of the metric.
func (p *Phases) Describe(to chan<- *prometheus.Desc) { to <- p.desc }

// Collect sends the metric.
func (p *Phases) Collect(to chan<- prometheus.Metric) {
	for name, began := range p.oldest() {
		to <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(began.UnixMilli())/1000, string(name))
	}
}

// oldest returns when each phase began that has lasted longest.
func (p *Phases) oldest() map[fencing.Phase]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := map[fencing.Phase]time.Time{}
	for _, is := range p.since {
		if began, known := oldest[is.name]; !known || is.began.Before(began) {
			oldest[is.name] = is.began
		}
	}
	return oldest
}
