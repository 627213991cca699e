package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

var deadlock = core.ConditionCriterion{Type: "KernelDeadlock", Status: "True", For: patience}

// judgesAgents has a policy judge by the kubelet's word, by an agent's, and by an agent's beside another condition.
func judgesAgents(p *core.Policy) {
	p.Criteria.Conditions = append(p.Criteria.Conditions, deadlock)
	for _, pressure := range []string{"DiskPressure", "MemoryPressure", "PIDPressure"} {
		p.Criteria.Conditions = append(p.Criteria.Conditions, core.ConditionCriterion{Type: pressure, Status: "True", For: patience})
	}
	p.Criteria.Groups = []core.ConditionGroup{{Tests: []core.ConditionTest{{Type: "GPUHealthy", Status: "False", Reason: "Xid*"}, unready}, For: patience}}
}

// TestSettles: an agent that starts resets its conditions, which by itself ends no repair. The request to a remediator stands
// until such a condition has been well for a minute.
func TestSettles(t *testing.T) {
	long := ago(time.Hour)
	back := []string{"withdraw nRebootTemplate"}
	after := noon.Add
	for name, c := range map[string]struct {
		node  []func(*core.Target)
		delay time.Duration
		wants []string
		next  time.Time
	}{
		"the agent has just started":       {node: []func(*core.Target){condition("KernelDeadlock", "False", noon)}, next: after(time.Minute)},
		"it has not looked yet":            {node: []func(*core.Target){condition("KernelDeadlock", "False", ago(59*time.Second))}, next: after(time.Second)},
		"it has been well for a minute":    {node: []func(*core.Target){condition("KernelDeadlock", "False", ago(time.Minute))}, wants: back},
		"it does not know":                 {node: []func(*core.Target){condition("KernelDeadlock", "Unknown", noon)}, next: after(time.Minute)},
		"it reports the problem again":     {node: []func(*core.Target){condition("KernelDeadlock", "True", noon)}, next: after(patience)},
		"one of two has just turned":       {node: []func(*core.Target){condition("KernelDeadlock", "False", long), condition("GPUHealthy", "True", noon)}, next: after(time.Minute)},
		"another that no criterion names":  {node: []func(*core.Target){condition("KernelDeadlock", "False", long), condition("Frequent", "False", noon)}, wants: back},
		"the kubelet has just turned":      {node: []func(*core.Target){ready("True", noon), condition("KernelDeadlock", "False", long)}, wants: back},
		"the kubelet is no longer pressed": {node: []func(*core.Target){condition("DiskPressure", "False", noon), condition("MemoryPressure", "False", noon), condition("PIDPressure", "False", noon)}, wants: back},
		"it does not say when it turned":   {node: []func(*core.Target){condition("KernelDeadlock", "False", time.Time{})}, wants: back},
		"a person says that it is healthy": {node: []func(*core.Target){condition("KernelDeadlock", "False", noon), confirmedHealthy}, wants: back},
		"a delay that is shorter":          {node: []func(*core.Target){condition("KernelDeadlock", "False", ago(20*time.Second))}, delay: 30 * time.Second, next: after(40 * time.Second)},
		"a delay that is longer":           {node: []func(*core.Target){condition("KernelDeadlock", "False", ago(20*time.Second))}, delay: patience, next: after(patience - 20*time.Second)},
		"until a person says so":           {node: []func(*core.Target){condition("KernelDeadlock", "False", long)}, delay: -1},
	} {
		t.Run(name, func(t *testing.T) {
			p := check("p", []int{0}, classic, judgesAgents, func(p *core.Policy) { p.HealthyDelay = c.delay })
			n := aNode("n", c.node...)
			r := []core.Repair{repair(n, p, started(long))}
			if c.delay != 0 {
				r[0].Recovered = ago(20 * time.Second)
			}
			q := requestFor(p, n, rebooting, requestedAt(long))
			remediationCase{name, with([]core.Target{n}, r, q), c.wants, c.next}.run(t, p)
			if c.delay == 0 {
				remediationCase{name + ", without the entry of the ledger", with([]core.Target{n}, nil, q), c.wants, c.next}.run(t, p)
			}
		})
	}
}

func confirmedHealthy(t *core.Target) { t.ConfirmedHealthy = true }

// TestSettlesOnlyWhatIsUnderRepair: agents that start all over the cluster make no target unhealthy, and hold back no repair.
func TestSettlesOnlyWhatIsUnderRepair(t *testing.T) {
	p := check("p", []int{0}, classic, judgesAgents)
	fresh := aNode("n", condition("KernelDeadlock", "False", noon))
	remediationCase{"nothing was asked", with([]core.Target{fresh}, nil), nil, time.Time{}}.run(t, p)
	remediationCase{
		"nothing was asked yet", with([]core.Target{fresh}, []core.Repair{repair(fresh, p, started(ago(time.Second)))}),
		[]string{"end n: Recovered"}, time.Time{},
	}.run(t, p)
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{fresh}), noon)
	if v := d.Verdicts[0]; v.Health != core.Healthy {
		t.Errorf("a node whose agent has just started is %s (%s)", v.Health, v.Reason)
	}
}

// TestMarksSettle: a mark for the owner stands too, and the verdict says so, since owners read it. It stands no longer than that,
// and not once the owner has begun.
func TestMarksSettle(t *testing.T) {
	p := policy("p", all(1), asksOwner, judgesAgents)
	for name, c := range map[string]struct {
		since   time.Time
		leaving bool
		want    core.Health
		back    int
	}{
		"reset just now":       {noon, false, core.Suspect, 0},
		"well for a minute":    {ago(time.Minute), false, core.Healthy, 1},
		"its owner has begun":  {noon, true, core.Healthy, 0},
		"well before the mark": {ago(time.Hour), false, core.Healthy, 1},
	} {
		target := machine("a", condition("KernelDeadlock", "False", c.since))
		f := clusterOf([]core.Target{target}, repair(target, p))
		f.Requests = []core.Request{markOn(target, ago(10*time.Minute), func(q *core.Request) { q.Leaving = c.leaving })}
		d := core.Decide([]core.Policy{p}, f, noon)
		if v := d.Verdicts[0]; v.Health != c.want || len(d.Withdrawals) != c.back {
			t.Errorf("%s: it is %s (%s), and %d marks are withdrawn; want %s, and %d", name, v.Health, v.Reason, len(d.Withdrawals), c.want, c.back)
		}
		if c.want == core.Suspect && !cmp.Equal(d.NextAt, c.since.Add(time.Minute)) {
			t.Errorf("%s: it looks again at %s", name, d.NextAt)
		}
	}
}
