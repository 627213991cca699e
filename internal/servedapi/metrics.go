package servedapi

import "github.com/prometheus/client_golang/prometheus"

var partForbidden = prometheus.NewDesc( //nolint:gochecknoglobals // a constant
	"fettle_part_forbidden", "1 while the cluster serves what a part of Fettle needs and does not let it read that, 0 while not.", []string{"part"}, nil)

// Describe implements prometheus.Collector.
func (*Starter) Describe(out chan<- *prometheus.Desc) { out <- partForbidden }

// Collect implements prometheus.Collector.
func (w *Starter) Collect(out chan<- prometheus.Metric) {
	for _, part := range w.Parts {
		value := 0.0
		if _, barred := w.forbidden.Load(part.Name); barred {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(partForbidden, prometheus.GaugeValue, value, part.Name)
	}
}
