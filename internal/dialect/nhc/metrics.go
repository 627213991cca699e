package nhc

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// oldAfter is the age from which a remediation counts as old (docs/reference/medik8s.md#metrics).
const oldAfter = 48 * time.Hour

// Metrics are the series of medik8s' operator (docs/reference/medik8s.md#metrics), so that dashboards and alerts keep
// working. A series ends with its remediation or its node. A nil *Metrics counts nothing.
type Metrics struct {
	ongoing, old *prometheus.Desc
	durations    *prometheus.HistogramVec

	mu sync.Mutex
	// requests are the remediation requests by UID. aged counts the old ones by node.
	requests map[string]openRequest
	aged     map[string]float64
	// observed are the series that durations has.
	observed map[series]bool
}

// series has the labels of a remediation, which name its node and not the object.
type series struct{ node, namespace, kind string }

// openRequest is a remediation request that is not withdrawn.
type openRequest struct {
	series

	policy  string
	created time.Time
	aged    bool
}

// NewMetrics returns metrics that have counted nothing yet.
func NewMetrics() *Metrics {
	labels := []string{"name", "namespace", "remediation"}
	return &Metrics{
		ongoing: prometheus.NewDesc("nodehealthcheck_ongoing_remediation", "1 while a node has a remediation of this kind.", labels, nil),
		old:     prometheus.NewDesc("nodehealthcheck_old_remediation_cr", "Remediations of a node that were there for 48 hours.", []string{"name", "namespace"}, nil),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodehealthcheck_unhealthy_node_duration_seconds",
			Help:    "How long remediations of a node were there until it was healthy again.",
			Buckets: []float64{30, 60, 120, 180, 240, 300, 600, 1200, 2400, 3600},
		}, labels),
		requests: map[string]openRequest{}, aged: map[string]float64{}, observed: map[series]bool{},
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.ongoing
	out <- m.old
	m.durations.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	current := map[series]bool{}
	for _, a := range m.requests {
		current[a.series] = true
	}
	for s := range current {
		out <- prometheus.MustNewConstMetric(m.ongoing, prometheus.GaugeValue, 1, s.node, s.namespace, s.kind)
	}
	for name, n := range m.aged {
		out <- prometheus.MustNewConstMetric(m.old, prometheus.CounterValue, n, name, "")
	}
	m.durations.Collect(out)
}

// update counts the results of one pass over all health checks.
func (m *Metrics) update(reports []core.PolicyReport, find func(name string) (node.Facts, bool), now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, well := m.requests, map[string]func(node string) bool{}
	m.requests = map[string]openRequest{}
	for i := range reports {
		m.addRequests(&reports[i], before, now)
		well[reports[i].Policy.ID.UID] = recoveredIn(&reports[i])
	}
	for uid, a := range before {
		_, stands := m.requests[uid]
		// A request that ends with its health check, or before the node is healthy, is no recovery.
		if !stands && well[a.policy] != nil && well[a.policy](a.node) {
			m.durations.WithLabelValues(a.node, a.namespace, a.kind).Observe(now.Sub(a.created).Seconds())
			m.observed[a.series] = true
		}
	}
	m.endSeries(find)
}

// recoveredIn returns a function that reports whether a node is not unhealthy.
func recoveredIn(r *core.PolicyReport) func(node string) bool {
	return func(name string) bool {
		return !slices.ContainsFunc(r.Members, func(c core.MemberReport) bool { return c.Target.Name == name && c.Health == core.Unhealthy })
	}
}

// addRequests adds the requests of one health check, and counts each old request once.
func (m *Metrics) addRequests(r *core.PolicyReport, before map[string]openRequest, now time.Time) {
	for i := range r.Members {
		c := &r.Members[i]
		for j := range c.Requests {
			q := &c.Requests[j]
			a := openRequest{
				series: series{node: c.Target.Name, namespace: q.ID.Namespace, kind: q.ID.Kind},
				policy: r.Policy.ID.UID, created: q.Created, aged: before[q.ID.UID].aged,
			}
			if !a.aged && now.Sub(q.Created) >= oldAfter {
				a.aged = true
				m.aged[c.Target.Name]++
			}
			m.requests[q.ID.UID] = a
		}
	}
}

// endSeries deletes the series of nodes that are gone.
func (m *Metrics) endSeries(find func(name string) (node.Facts, bool)) {
	for s := range m.observed {
		if _, exists := find(s.node); !exists {
			m.durations.DeleteLabelValues(s.node, s.namespace, s.kind)
			delete(m.observed, s)
		}
	}
	for name := range m.aged {
		if _, exists := find(name); !exists {
			delete(m.aged, name)
		}
	}
}
