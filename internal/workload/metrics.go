package workload

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// The series of connections. A series ends with its connection, and a replica that doesn't lead has none.
var (
	ofCluster = []string{"namespace", "cluster"} //nolint:gochecknoglobals // a constant list

	up = prometheus.NewDesc("fettle_workload_cluster_up", //nolint:gochecknoglobals // a constant
		"1 while a workload cluster answers and its nodes are known; 0 while nothing is done there.", ofCluster, nil)
	connects = prometheus.NewDesc("fettle_workload_cluster_connects_total", //nolint:gochecknoglobals // a constant
		"Attempts to connect to a workload cluster that took its nodes in (ok), and that failed then or later (error).",
		append(ofCluster, "result"), nil)
	exceeded = prometheus.NewDesc("fettle_workload_cluster_bound_exceeded_total", //nolint:gochecknoglobals // a constant
		"Attempts to connect to a workload cluster that ended since it sent more than is accepted, by the bound that it exceeded.",
		append(ofCluster, "bound"), nil)
)

// Describe implements prometheus.Collector.
func (*Connections) Describe(out chan<- *prometheus.Desc) {
	out <- up
	out <- connects
	out <- exceeded
}

// Collect implements prometheus.Collector.
func (c *Connections) Collect(out chan<- prometheus.Metric) {
	for _, each := range c.all() {
		each.collect(out)
	}
}

func (c *Connection) collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	begun, connected, failed, inStep := c.end != nil, c.connected, c.failed, 0.0
	bounds := maps.Clone(c.exceeded)
	if c.state.synced {
		inStep = 1
	}
	c.mu.Unlock()
	if !begun {
		return
	}
	at := []string{c.cluster.Namespace, c.cluster.Name}
	out <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, inStep, at...)
	out <- prometheus.MustNewConstMetric(connects, prometheus.CounterValue, float64(connected), append(at, "ok")...)
	out <- prometheus.MustNewConstMetric(connects, prometheus.CounterValue, float64(failed), append(at, "error")...)
	for bound, times := range bounds {
		out <- prometheus.MustNewConstMetric(exceeded, prometheus.CounterValue, float64(times), append(at, bound)...)
	}
}
