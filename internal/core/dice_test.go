package core_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// dice returns a number from 0 to n-1. A property test or the bytes of a fuzzer supply the numbers.
type dice func(n int) int

func rapidDice(t *rapid.T) dice {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "die") }
}

func byteDice(data []byte) dice {
	return func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
}

func oneOf[T any](d dice, options ...T) T { return options[d(len(options))] }

// world is an input of Decide.
type world struct {
	policies []core.Policy
	cluster  core.Cluster
	now      time.Time
}

func (w world) decide() core.Decision { return core.Decide(w.policies, w.cluster, w.now) }

// instant returns noon, an instant before or after it, one at or beside a deadline, or an unknown
// one.
func instant(d dice) time.Time {
	return oneOf(d, ago(24*time.Hour), ago(time.Hour), ago(patience), ago(patience-time.Second), ago(10*time.Minute),
		ago(time.Minute), ago(20*time.Second), ago(5*time.Second), noon, noon.Add(time.Minute), time.Time{})
}

// drawWorld returns a world as adapters could make it: IDs are unique, and members are targets.
func drawWorld(d dice) world {
	w := world{now: noon}
	w.cluster.Observed = oneOf(d, core.Yes, core.Yes, core.Yes, core.Yes, core.Yes, core.Yes, core.Yes, core.Unknown, core.No)
	w.cluster.ClockAgrees = oneOf(d, core.Yes, core.Yes, core.Yes, core.Yes, core.Yes, core.Yes, core.Yes, core.Unknown, core.No)
	for i := range d(7) {
		w.cluster.Targets = append(w.cluster.Targets, drawTarget(d, i))
	}
	for i := range d(4) {
		w.policies = append(w.policies, drawPolicy(d, i, len(w.cluster.Targets)))
	}
	for i := range d(6) {
		w.cluster.Repairs = append(w.cluster.Repairs, drawRepair(d, i, w))
	}
	return w
}

func drawOwner(d dice) core.ID {
	return oneOf(d, pool, pool, pool, core.ID{Kind: "MachineSet", Name: "others", UID: "others-uid"}, core.ID{})
}

func drawTarget(d dice, i int) core.Target {
	t := machine(fmt.Sprintf("m-%d", i), created(instant(d)), ownedBy(drawOwner(d)))
	t.StartupFrom = instant(d)
	t.NodeReadAt = oneOf(d, noon, noon, ago(time.Second), ago(time.Minute), time.Time{})
	t.QuorumSurvives, t.QuorumReadAt = oneOf(d, core.Unknown, core.No, core.Yes), oneOf(d, noon, noon, ago(time.Minute))
	t.ControlPlane, t.Deleting, t.ExternallyRemediated = d(5) == 4, d(6) == 5, d(9) == 8
	t.ControlPlaneByLabel = !t.ControlPlane && d(7) == 6
	if d(5) == 4 {
		failed(instant(d))(&t)
	}
	if d(12) == 11 {
		unreadable("a field")(&t)
	}
	t.RemediationRequested = d(14) == 13
	if d(8) == 7 {
		t.RepairRequest = core.RepairRequest{At: instant(d), Unreadable: d(9) == 8}
	}
	t.Premature = oneOf(d, "", "", "", "", "", "", "", "", "", "the cluster is not up")
	if d(6) == 5 {
		t.Conditions = []core.Condition{{Type: "Bootstrapped", Status: oneOf(d, "True", "False"), Since: instant(d)}}
	}
	switch d(8) {
	case 4:
		t.Node = core.Node{State: core.NodeAwaited}
	case 5:
		nodeIs(core.NodeUnseen)(&t)
	case 6:
		nodeIs(core.NodeGone)(&t)
	case 0, 1, 2:
		ready(oneOf(d, "False", "Unknown"), instant(d))(&t)
	default:
	}
	if t.Node.State == core.NodePresent && d(4) == 3 {
		condition("DiskPressure", oneOf(d, "True", "False"), instant(d))(&t)
	}
	if t.Node.State == core.NodePresent && d(8) == 7 {
		t.Node.Conditions = append(t.Node.Conditions, core.Condition{Type: "Ready", Status: oneOf(d, "True", "False", "Unknown"), Since: instant(d)})
		t.Node.Unread = oneOf(d, "", "", "", "", "", "", "", "it has too much of something")
	}
	if t.Node.State == core.NodeGone {
		t.NodeGoneSince = oneOf(d, time.Time{}, ago(time.Minute), ago(patience), noon)
	}
	drawReasons(d, &t)
	return t
}

// drawReasons adds reasons to conditions, and has some tests been seen to hold.
func drawReasons(d dice, t *core.Target) {
	if d(3) > 0 {
		return
	}
	for i := range t.Node.Conditions {
		t.Node.Conditions[i].Reason = oneOf(d, "", "KubeletDown", "KernelDeadlock", "Kernel")
	}
	for range d(3) {
		t.TestsSeen = append(t.TestsSeen, core.SeenTest{
			Test: drawTest(d), Node: oneOf(d, t.Node.UID, t.Node.UID, "another"), Since: oneOf(d, ago(time.Hour), ago(patience), ago(time.Minute), noon), StartSeen: d(2) == 0,
		})
	}
}

func drawTest(d dice) core.ConditionTest {
	kind := oneOf(d, "Ready", "DiskPressure", "Agent")
	if d(3) == 2 {
		return core.ConditionTest{Type: kind, Missing: true}
	}
	return core.ConditionTest{Type: kind, Status: oneOf(d, "False", "True", "Unknown"), Reason: oneOf(d, "", "", "Kernel*", "*Down")}
}

func drawAmount(d dice) core.Amount {
	return oneOf(d, core.Percent(100), core.Unlimited(), core.Count(0), core.Count(1), core.Count(2), core.Count(3),
		core.Percent(0), core.Percent(40), core.Percent(50), core.Percent(99), core.Amount{})
}

func drawGroup(d dice) core.ConditionGroup {
	g := core.ConditionGroup{For: oneOf(d, patience, patience, time.Minute, 0)}
	for range d(4) {
		g.Tests = append(g.Tests, drawTest(d))
	}
	return g
}

func drawPolicy(d dice, i, targets int) core.Policy {
	p := policy(fmt.Sprintf("p-%d", i), nil, since(instant(d)))
	for m := range targets {
		if d(4) > 0 {
			p.Members = append(p.Members, m)
		}
	}
	p.Paused, p.DryRun = d(8) == 7, d(5) == 4
	if d(10) == 9 {
		p.Problem = "broken"
	}
	p.Criteria.NodeStartup = oneOf(d, 10*time.Minute, 10*time.Minute, 0, time.Minute)
	p.Criteria.Conditions = oneOf(d, p.Criteria.Conditions, p.Criteria.Conditions,
		[]core.ConditionCriterion{notReady, pressure}, []core.ConditionCriterion{{Type: "Ready", Status: "False"}}, nil)
	p.Criteria.NodeGoneDelay = oneOf(d, 0, 0, patience)
	for d(4) == 3 && len(p.Criteria.Groups) < 3 {
		p.Criteria.Groups = append(p.Criteria.Groups, drawGroup(d))
	}
	if d(4) == 3 {
		p.Criteria.TargetConditions = []core.ConditionCriterion{{Type: "Bootstrapped", Status: "False", For: oneOf(d, patience, 0)}}
	}
	p.ShortCircuit.MaxUnhealthy = oneOf(d, core.Percent(100), core.Unlimited(), drawAmount(d))
	if d(10) == 9 {
		least := oneOf(d, core.Count(d(4)), core.Percent(100*d(11)/10))
		p.ShortCircuit.MinHealthy = &least
	}
	if d(10) == 9 {
		p.ShortCircuit.Range = &core.Range{From: d(3), To: d(6)}
	}
	if d(4) == 3 {
		p.WasStopped, p.StormCooldown = true, oneOf(d, 0, time.Second, time.Minute)
		p.Cooldown = oneOf(d, core.CooldownState{}, core.CooldownState{First: ago(time.Minute), Last: ago(time.Second), Unhealthy: 1 + d(3)},
			core.CooldownState{First: ago(time.Second), Last: ago(time.Second), Unhealthy: 1 + d(3)})
	}
	p.MaxInFlight = drawAmount(d)
	p.Backoff = oneOf(d, core.DefaultBackoff(), core.DefaultBackoff(), core.Backoff{Base: time.Minute, Limit: time.Hour}, core.Backoff{},
		core.Backoff{Base: time.Minute, Limit: time.Hour, GiveUpAfter: 1 + d(3)}, core.Backoff{Base: time.Minute, Limit: time.Hour, GiveUpAfter: 1 + d(3), ResumedAt: ago(time.Duration(d(200)-20) * time.Minute)})
	p.Steps = oneOf(d, p.Steps, p.Steps, p.Steps, nil)
	return p
}

// drawRepair returns a repair of an existing target, of a gone one, or of a gone one whose name
// another target has now.
func drawRepair(d dice, i int, w world) core.Repair {
	t := machine(fmt.Sprintf("old-%d", i), ownedBy(drawOwner(d)))
	if n := len(w.cluster.Targets); n > 0 && d(3) > 0 {
		t = w.cluster.Targets[d(n)]
		if d(5) == 4 {
			t.ID.UID = "former-" + t.ID.UID
		}
	}
	lead := policy("unknown", nil)
	if n := len(w.policies); n > 0 && d(6) < 5 {
		lead = w.policies[d(n)]
	}
	r := repair(t, lead, number(i+1), started(oneOf(d, ago(time.Hour), ago(patience), ago(time.Minute), ago(5*time.Second), noon)), retry(d(4)))
	r.Steps = []core.Step{{Remedy: "Delete"}}
	if d(2) == 1 {
		ended(r.Started.Add(time.Second))(&r)
	}
	if d(4) == 3 {
		attempts(1+d(3), oneOf(d, ago(time.Minute), ago(time.Second), noon))(&r)
	}
	if d(4) == 3 {
		r.Requested = instant(d)
	}
	if d(4) == 3 && len(w.cluster.Targets) > 0 {
		r.CreatedSameSecond = []string{w.cluster.Targets[d(len(w.cluster.Targets))].ID.UID}
	}
	return r
}

// drawWildWorld returns a world that no adapter should make: members that don't exist, IDs that
// occur twice, numbers below zero. Decide must return a decision for that too.
func drawWildWorld(d dice) world {
	w := drawWorld(d)
	for i := range w.policies {
		p := &w.policies[i]
		for range d(3) {
			p.Members = append(p.Members, d(12)-3)
		}
		if d(4) == 3 {
			p.MaxInFlight = core.Amount{Number: d(300) - 100, Percent: d(2) == 1}
			p.Criteria.NodeStartup = time.Duration(d(100)-50) * time.Minute
			p.Backoff = core.Backoff{Base: time.Duration(d(100)-50) * time.Second, Limit: time.Duration(d(100)-50) * time.Second}
		}
		if d(6) == 5 {
			p.ID = core.ID{}
		}
	}
	for i := range w.cluster.Targets {
		if d(5) == 4 {
			w.cluster.Targets[i].ID = w.cluster.Targets[d(len(w.cluster.Targets))].ID
		}
	}
	for i := range w.cluster.Repairs {
		if d(5) == 4 {
			w.cluster.Repairs[i].Name = oneOf(d, "", "-", "by-hand", "x--7", "x-99999999999999999999")
		}
	}
	w.now = oneOf(d, noon, noon, noon, time.Time{}, noon.Add(1000000*time.Hour))
	return w
}
