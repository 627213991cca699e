package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/core"
)

// count is one series of a census: what is counted, and by which labels.
type count struct {
	what   *prometheus.Desc
	of     account
	labels [3]string
}

// census counts. Policies of two dialects may share a name, and then share their series too: their
// numbers add up, and of their states the one that somebody should look at is shown.
type census map[count]float64

// censusOf counts how things stand in one pass.
func (m *Metrics) censusOf(policies []core.Policy, fleet *core.Fleet, d *core.Decision) census {
	c := census{}
	m.countPolicies(c, policies, fleet, d)
	m.countVerdicts(c, policies, d)
	for i := range d.Refusals {
		if r := &d.Refusals[i]; !r.Rehearsed {
			c[count{what: m.refusals, of: accountOf(policies[r.Policy].ID), labels: [3]string{r.Gate.String()}}]++
		}
	}
	for _, s := range d.Stuck {
		if s.Policy >= 0 {
			c[count{what: m.stuck, of: accountOf(policies[s.Policy].ID)}]++
		}
	}
	return c
}

// merge adds the census of a fleet to that of others.
func (m *Metrics) merge(all, more census) {
	for of, n := range more {
		before, shared := all[of]
		switch {
		case !shared:
			all[of] = n
		case of.what == m.permitted:
			all[of] = min(before, n)
		case of.what == m.invalid, of.what == m.paused:
			all[of] = max(before, n)
		default:
			all[of] = before + n
		}
	}
}

// series is what is shown of a count.
func (c *count) series(n float64) prometheus.Metric {
	labels := []string{c.of.namespace, c.of.policy}
	for _, l := range c.labels {
		if l != "" {
			labels = append(labels, l)
		}
	}
	return prometheus.MustNewConstMetric(c.what, prometheus.GaugeValue, n, labels...)
}

func (m *Metrics) countPolicies(c census, policies []core.Policy, fleet *core.Fleet, d *core.Decision) {
	for i := range policies {
		p := &policies[i]
		of := accountOf(p.ID)
		permitted := count{what: m.permitted, of: of}
		if before, shared := c[permitted]; !shared || before == 1 {
			c[permitted] = number(d.Tallies[i].Permitted)
		}
		c[count{what: m.invalid, of: of}] = max(c[count{what: m.invalid, of: of}], number(p.Problem != ""))
		c[count{what: m.paused, of: of}] = max(c[count{what: m.paused, of: of}], number(p.Paused))
		c[count{what: m.running, of: of}] += 0
		c[count{what: m.stuck, of: of}] += 0
	}
	for i := range fleet.Repairs {
		r := &fleet.Repairs[i]
		running := count{what: m.running, of: accountOf(r.Policy)}
		if _, exists := c[running]; exists && r.Running() {
			c[running]++
		}
	}
}

// countVerdicts counts runs of verdicts that are alike, since nearly all are.
func (m *Metrics) countVerdicts(c census, policies []core.Policy, d *core.Decision) {
	for i := 0; i < len(d.Verdicts); {
		v := &d.Verdicts[i]
		n := 1
		for i+n < len(d.Verdicts) && alike(v, &d.Verdicts[i+n]) {
			n++
		}
		id := policies[v.Policy].ID
		c[count{what: m.verdicts, of: accountOf(id), labels: [3]string{id.Kind, v.Health.String(), v.Reason.String()}}] += float64(n)
		i += n
	}
}

func alike(a, b *core.Verdict) bool {
	return a.Policy == b.Policy && a.Health == b.Health && a.Reason == b.Reason
}
