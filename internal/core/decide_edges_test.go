package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestLiveReadsOfUnseenNodes: a node that the cache lacks is read once, and with it the quorum that a
// step of any policy may cost.
func TestLiveReadsOfUnseenNodes(t *testing.T) {
	unseen := machine("m", nodeIs(core.NodeUnseen), controlPlane)
	deletes, asks, none := policy("deletes", []int{0}), policy("asks", []int{0}, asksOwner), policy("none", []int{0}, noSteps)
	older := policy("older", []int{0}, since(ago(48*time.Hour)))
	later := noon.Add(5 * time.Second)
	for name, c := range map[string]struct {
		target        core.Target
		policies      []core.Policy
		reads, quorum []int
		next          time.Time
	}{
		"a step that deletes":          {unseen, []core.Policy{deletes}, []int{0}, []int{0}, noon.Add(10 * time.Second)},
		"two of them":                  {unseen, []core.Policy{deletes, deletes}, []int{0}, []int{0}, noon.Add(10 * time.Second)},
		"a step that asks the owner":   {unseen, []core.Policy{asks}, []int{0}, nil, noon.Add(10 * time.Second)},
		"a deleting step comes later":  {unseen, []core.Policy{asks, deletes}, []int{0}, []int{0}, noon.Add(10 * time.Second)},
		"it comes first":               {unseen, []core.Policy{older, asks, deletes}, []int{0}, []int{0}, noon.Add(10 * time.Second)},
		"no step":                      {unseen, []core.Policy{none}, []int{0}, []int{0}, noon.Add(10 * time.Second)},
		"the machine is being deleted": {machine("m", nodeIs(core.NodeUnseen), controlPlane, deleting), []core.Policy{deletes}, nil, nil, time.Time{}},
		"it was read a moment ago": {machine("m", nodeIs(core.NodeUnseen), controlPlane, func(t *core.Target) { t.NodeReadAgain = later }),
			[]core.Policy{deletes}, nil, nil, later},
	} {
		d := core.Decide(c.policies, clusterOf([]core.Target{c.target}), noon)
		if diff := cmp.Diff([][]int{c.reads, c.quorum}, [][]int{d.Confirm, d.QuorumReads}); diff != "" {
			t.Errorf("%s: reads of nodes and quorums (-want +got):\n%s", name, diff)
		}
		if !d.NextAt.Equal(c.next) {
			t.Errorf("%s: the next pass is at %s, want %s", name, d.NextAt, c.next)
		}
	}
}

// TestQuorumIsFreshForTenSeconds: a quorum that was read ten seconds ago is read again.
func TestQuorumIsFreshForTenSeconds(t *testing.T) {
	for age, starts := range map[time.Duration]int{10*time.Second - 1: 1, 10 * time.Second: 0} {
		sick := machine("m", dead, controlPlane, func(t *core.Target) { t.QuorumSurvives, t.QuorumReadAt = core.Yes, ago(age) })
		d := core.Decide([]core.Policy{policy("p", []int{0})}, clusterOf([]core.Target{sick}), noon)
		if len(d.Starts) != starts || len(d.QuorumReads) != 1-starts {
			t.Errorf("after %s: %d repairs start, quorums of %v are read", age, len(d.Starts), d.QuorumReads)
		}
	}
}

// TestPrematureTargetWithARequest: its time has not come, so it does not recover either.
func TestPrematureTargetWithARequest(t *testing.T) {
	p := check("p", []int{0}, classic)
	n := aNode("n", func(t *core.Target) { t.Premature = "it is being prepared" })
	f := clusterOf([]core.Target{n})
	f.Requests = []core.Request{requestFor(p, n, rebooting)}
	if v := core.Decide([]core.Policy{p}, f, noon).Verdicts[0]; v.Health != core.Healthy || v.Reason != core.Premature {
		t.Errorf("the verdict is %+v", v)
	}
}

// TestCooldownOfATally: a cooldown lasts while a member is not healthy, and a fixed one ends in time.
func TestCooldownOfATally(t *testing.T) {
	fixed := func(p *core.Policy) { p.FixedCooldown = true }
	stopped := func(p *core.Policy) {
		p.WasStopped, p.StormCooldown = true, time.Minute
		p.Cooldown = core.CooldownState{First: ago(50 * time.Second), Last: ago(20 * time.Second), Unhealthy: 1}
	}
	for name, c := range map[string]struct {
		target core.Target
		policy core.Policy
		until  time.Time
	}{
		"all are healthy":   {machine("m"), policy("p", []int{0}, stopped), time.Time{}},
		"a recovery before": {machine("m", dead), policy("p", []int{0}, stopped), noon.Add(40 * time.Second)},
		"a suspect member":  {machine("m", ready("False", noon)), policy("p", []int{0}, stopped), noon.Add(40 * time.Second)},
		"a fixed cooldown":  {machine("m", dead), policy("p", []int{0}, stopped, fixed), noon.Add(10 * time.Second)},
	} {
		d := core.Decide([]core.Policy{c.policy}, clusterOf([]core.Target{c.target}), noon)
		tally := d.Tallies[0]
		if cools := !c.until.IsZero(); tally.CoolingDown != cools || (tally.Cooldown == core.CooldownState{}) == cools {
			t.Errorf("%s: the tally is %+v", name, tally)
		}
		if !tally.ResumeAt.Equal(c.until) || !d.NextAt.Equal(c.until) {
			t.Errorf("%s: repairs resume at %s, and the next pass is at %s, want %s", name, tally.ResumeAt, d.NextAt, c.until)
		}
	}
}

// TestInFlightWithoutAStepLeft: a target whose repair has no step left is in flight only while it is
// being deleted, or another remediator repairs it. Another target of its group is in flight by its own
// request.
func TestInFlightWithoutAStepLeft(t *testing.T) {
	nodes, machines := check("nodes", []int{0}, escalating), policy("machines", []int{1}, asksOwner)
	owned := func(t *core.Target) { t.Node.Name = "n" }
	spent := func(n core.Target) core.Repair {
		return repair(n, nodes, gaveUp(ago(2*time.Minute)), gaveUp(ago(time.Minute)))
	}
	m := machine("m", dead, owned)
	for name, c := range map[string]struct {
		node           core.Target
		machine        core.Target
		request        []core.Request
		ofNode, ofMach int
	}{
		"left to users":           {aNode("n", dead), m, nil, 0, 0},
		"being deleted":           {aNode("n", dead, deleting), m, nil, 1, 0},
		"with another remediator": {aNode("n", dead, externallyRemediated), m, nil, 1, 0},
		"its machine is marked":   {aNode("n", dead), m, []core.Request{markOn(m, ago(time.Minute))}, 0, 1},
	} {
		f := clusterOf([]core.Target{c.node, c.machine}, spent(c.node))
		f.Requests = c.request
		d := core.Decide([]core.Policy{nodes, machines}, f, noon)
		if got, want := []int{d.Tallies[0].InFlight, d.Tallies[1].InFlight}, []int{c.ofNode, c.ofMach}; !cmp.Equal(got, want) {
			t.Errorf("%s: in flight are %v, want %v", name, got, want)
		}
	}
}
