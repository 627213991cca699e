package clock

import "github.com/prometheus/client_golang/prometheus"

//nolint:gochecknoglobals // a constant
var skew = prometheus.NewDesc("fettle_clock_skew_seconds",
	"By how much Fettle's clock is ahead of the API server's; negative while it is behind.", nil, nil)

// Describe implements prometheus.Collector.
func (*Meter) Describe(out chan<- *prometheus.Desc) { out <- skew }

// Collect implements prometheus.Collector. It collects nothing before the first answer.
func (m *Meter) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known {
		ahead := m.ahead.after(m.read().since(m.at)).middle()
		out <- prometheus.MustNewConstMetric(skew, prometheus.GaugeValue, ahead.Seconds())
	}
}
