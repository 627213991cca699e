package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// gauge identifies one series: its metric and its labels.
type gauge struct {
	desc   *prometheus.Desc
	policy policyKey
	labels [3]string
}

// gauges has the value of each series. Policies of two dialects may share a name and so a series.
// Their counts add up, and of their states the series has the worse one.
type gauges map[gauge]float64

// gaugesOf returns the gauges of one pass.
func (m *Metrics) gaugesOf(policies []core.Policy, cluster *core.Cluster, d *core.Decision) gauges {
	c := gauges{}
	m.addPolicies(c, policies, cluster, d)
	m.addVerdicts(c, policies, d)
	for i := range d.Refusals {
		if r := &d.Refusals[i]; !r.DryRun {
			c[gauge{desc: m.refusals, policy: policyKeyOf(policies[r.Policy].ID), labels: [3]string{r.Gate.String()}}]++
		}
	}
	for _, s := range d.Stuck {
		if s.Policy >= 0 {
			c[gauge{desc: m.stuck, policy: policyKeyOf(policies[s.Policy].ID)}]++
		}
	}
	return c
}

// merge adds the gauges of one cluster to those of others.
func (m *Metrics) merge(all, more gauges) {
	for of, n := range more {
		before, shared := all[of]
		switch {
		case !shared:
			all[of] = n
		case of.desc == m.permitted:
			all[of] = min(before, n)
		case of.desc == m.invalid, of.desc == m.paused:
			all[of] = max(before, n)
		default:
			all[of] = before + n
		}
	}
}

// metric returns the metric of a series.
func (c *gauge) metric(n float64) prometheus.Metric {
	labels := []string{c.policy.namespace, c.policy.policy}
	for _, l := range c.labels {
		if l != "" {
			labels = append(labels, l)
		}
	}
	return prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, n, labels...)
}

func (m *Metrics) addPolicies(c gauges, policies []core.Policy, cluster *core.Cluster, d *core.Decision) {
	for i := range policies {
		p := &policies[i]
		of := policyKeyOf(p.ID)
		permitted := gauge{desc: m.permitted, policy: of}
		if before, shared := c[permitted]; !shared || before == 1 {
			c[permitted] = boolToFloat(d.Tallies[i].Permitted)
		}
		c[gauge{desc: m.invalid, policy: of}] = max(c[gauge{desc: m.invalid, policy: of}], boolToFloat(p.Problem != ""))
		c[gauge{desc: m.paused, policy: of}] = max(c[gauge{desc: m.paused, policy: of}], boolToFloat(p.Paused))
		c[gauge{desc: m.running, policy: of}] += 0
		c[gauge{desc: m.stuck, policy: of}] += 0
	}
	for i := range cluster.Repairs {
		r := &cluster.Repairs[i]
		running := gauge{desc: m.running, policy: policyKeyOf(r.Policy)}
		if _, exists := c[running]; exists && r.Running() {
			c[running]++
		}
	}
}

// addVerdicts counts verdicts. Neighbours are nearly always alike, so it counts them in runs.
func (m *Metrics) addVerdicts(c gauges, policies []core.Policy, d *core.Decision) {
	for i := 0; i < len(d.Verdicts); {
		v := &d.Verdicts[i]
		n := 1
		for i+n < len(d.Verdicts) && sameSeries(v, &d.Verdicts[i+n]) {
			n++
		}
		id := policies[v.Policy].ID
		c[gauge{desc: m.verdicts, policy: policyKeyOf(id), labels: [3]string{id.Kind, v.Health.String(), v.Reason.String()}}] += float64(n)
		i += n
	}
}

func sameSeries(a, b *core.Verdict) bool {
	return a.Policy == b.Policy && a.Health == b.Health && a.Reason == b.Reason
}
