package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

var (
	unready = core.ConditionTest{Type: "Ready", Status: "False"}
	frozen  = core.ConditionTest{Type: "KernelDeadlock", Status: "True", Reason: "*Hung*"}
	mute    = core.ConditionTest{Type: "AgentReady", Missing: true}
)

// groups has a policy judge by these groups alone, each for the usual time.
func groups(all ...[]core.ConditionTest) func(*core.Policy) {
	return func(p *core.Policy) {
		p.Criteria.Conditions = nil
		for _, tests := range all {
			p.Criteria.Groups = append(p.Criteria.Groups, core.ConditionGroup{Tests: tests, For: patience})
		}
	}
}

func tests(all ...core.ConditionTest) []core.ConditionTest { return all }

// reasoned adds a condition with a reason to a node.
func reasoned(kind, status, reason string, since time.Time) func(*core.Target) {
	return func(t *core.Target) {
		condition(kind, status, since)(t)
		t.Node.Conditions[len(t.Node.Conditions)-1].Reason = reason
	}
}

// seen has a test been seen to hold for the node.
func seen(test core.ConditionTest, since time.Time) func(*core.Target) {
	return func(t *core.Target) {
		t.TestsSeen = append(t.TestsSeen, core.SeenTest{Test: test, Node: t.Node.UID, Since: since})
	}
}

// together returns the verdict on a node that has matched a group since an instant.
func together(h core.Health, since time.Time, detail string) core.Verdict {
	v := core.Verdict{Health: h, Reason: core.ConditionsMet, Since: since, Limit: patience, Detail: detail}
	if h == core.Suspect {
		v.Until = since.Add(patience)
	}
	return v
}

const (
	unreadyText = "node condition Ready=False"
	frozenText  = "node condition KernelDeadlock=True with a reason like *Hung*"
	muteText    = "node condition AgentReady has been missing"
)

func TestGroups(t *testing.T) {
	for sentence, c := range groupCases() {
		t.Run(sentence, func(t *testing.T) {
			p := policy("p", []int{0}, c.policy)
			got := core.Decide([]core.Policy{p}, clusterOf([]core.Target{c.target}), noon).Verdicts
			if diff := cmp.Diff([]core.Verdict{c.want}, got); diff != "" {
				t.Errorf("%s\nverdict (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func groupCases() map[string]verdictCase {
	both := groups(tests(unready, core.ConditionTest{Type: "DiskPressure", Status: "True"}))
	const bothText = unreadyText + " and node condition DiskPressure=True"
	long, now := ago(time.Hour), ago(time.Minute)
	first := core.Verdict{Health: core.Suspect, Reason: core.ConditionsMet, Until: noon.Add(patience), Limit: patience, Detail: muteText}
	return map[string]verdictCase{
		"one of two is no fault": {
			reason: "all must hold", policy: both, want: healthy(),
			target: machine("m", ready("False", long), condition("DiskPressure", "False", long)),
		},
		"two count since the last of them": {
			reason: "until then they did not hold together", policy: both, want: together(core.Suspect, now, bothText),
			target: machine("m", ready("False", long), condition("DiskPressure", "True", now)),
		},
		"two for long enough are a fault": {
			reason: "at the deadline, not after it", policy: both, want: together(core.Unhealthy, ago(patience), bothText),
			target: machine("m", ready("False", ago(patience)), condition("DiskPressure", "True", long)),
		},
		"two of which one has no time": {
			reason: "I1: it is not known since when they hold together", policy: both,
			target: machine("m", ready("False", time.Time{}), condition("DiskPressure", "True", long)),
			want: core.Verdict{Health: core.Undetermined, Reason: core.ConditionUntimed, Limit: patience,
				Criterion: core.ConditionCriterion{Type: "Ready", Status: "False", For: patience}},
		},
		"one of two has no time and the other does not hold": {
			reason: "they do not hold together, since whenever", policy: both, want: healthy(),
			target: machine("m", ready("False", time.Time{}), condition("DiskPressure", "False", long)),
		},
		"a condition that is there is not missing": {
			reason: "whatever its status", policy: groups(tests(mute)), want: healthy(),
			target: machine("m", condition("AgentReady", "Unknown", long), seen(mute, long)),
		},
		"a condition that was never seen to be missing counts from now": {
			reason: "I5: neither the creation of the node nor anything else tells since when", policy: groups(tests(mute)), want: first, target: machine("m"),
		},
		"a condition that is missing counts since it was first seen to be": {
			reason: "which is never too early", policy: groups(tests(mute)), target: machine("m", seen(mute, now)), want: together(core.Suspect, now, muteText),
		},
		"a condition that has been seen missing for long enough": {
			reason: "", policy: groups(tests(mute)), target: machine("m", seen(mute, ago(patience))), want: together(core.Unhealthy, ago(patience), muteText),
		},
		"what was seen of another node of that name does not count": {
			reason: "it registered anew", policy: groups(tests(mute)), want: first,
			target: machine("m", seen(mute, long), func(t *core.Target) { t.TestsSeen[0].Node = "former" }),
		},
		"all conditions of a node that is not there are missing": {
			reason: "which another criterion judges", policy: groups(tests(mute)), target: machine("m", awaited(now), seen(mute, long)), want: starting(core.Suspect, now),
		},
		"a node that was not read as a whole may have it": {
			reason: "I15: it may be among the skipped conditions", policy: groups(tests(mute)), target: machine("m", seen(mute, long), cut),
			want: core.Verdict{Health: core.Undetermined, Reason: core.TargetUnreadable, Detail: "its node can't be read as a whole: it has too many conditions"},
		},
		"another reason is no fault": {
			reason: "the pattern does not match", policy: groups(tests(frozen)), want: healthy(),
			target: machine("m", reasoned("KernelDeadlock", "True", "TaskSlow", long), seen(frozen, long)),
		},
		"a reason may be younger than the transition": {
			reason: "the transition time moves with the status alone", policy: groups(tests(frozen)), want: together(core.Suspect, now, frozenText),
			target: machine("m", reasoned("KernelDeadlock", "True", "DockerHung", long), seen(frozen, now)),
		},
		"a transition may be younger than the reason": {
			reason: "it went and came back", policy: groups(tests(frozen)), want: together(core.Suspect, now, frozenText),
			target: machine("m", reasoned("KernelDeadlock", "True", "DockerHung", now), seen(frozen, long)),
		},
		"a reason without a transition time counts since it was seen": {
			reason: "that is known", policy: groups(tests(frozen)), want: together(core.Unhealthy, long, frozenText),
			target: machine("m", reasoned("KernelDeadlock", "True", "DockerHung", time.Time{}), seen(frozen, long)),
		},
		"two conditions of one type must both have the reason": {
			reason: "it is unknown which of them is so", policy: groups(tests(frozen)), want: healthy(),
			target: machine("m", reasoned("KernelDeadlock", "True", "DockerHung", long), reasoned("KernelDeadlock", "True", "Other", long), seen(frozen, long)),
		},
		"a group that is a fault is not hidden by a group that is not yet": {
			reason: "keep looking", policy: groups(tests(unready), tests(mute)), want: together(core.Unhealthy, long, muteText),
			target: machine("m", ready("False", now), seen(mute, long)),
		},
		"a group that is a fault is not hidden by a condition that is not yet": {
			reason: "keep looking", want: together(core.Unhealthy, long, muteText), target: machine("m", ready("False", now), seen(mute, long)),
			policy: func(p *core.Policy) { groups(tests(mute))(p); criteria(notReady)(p) },
		},
		"a condition that is a fault is not hidden by a group that is not yet": {
			reason: "keep looking", want: met(core.Unhealthy, notReady, long), target: machine("m", ready("False", long), seen(mute, now)),
			policy: func(p *core.Policy) { groups(tests(mute))(p); criteria(notReady)(p) },
		},
		"a group without tests never holds": {reason: "it has no test", policy: groups(tests()), target: machine("m", dead), want: healthy()},
	}
}

// TestNodeGoneDelay: the delay runs since a live read did not find the node.
func TestNodeGoneDelay(t *testing.T) {
	delayed := func(p *core.Policy) { p.Criteria.NodeGoneDelay = patience }
	gone := func(h core.Health, since, until time.Time) core.Verdict {
		return core.Verdict{Health: h, Reason: core.NodeNotFound, Since: since, Until: until, Limit: patience}
	}
	since := func(at time.Time) core.Target {
		return machine("m", nodeIs(core.NodeGone), func(t *core.Target) { t.NodeGoneSince = at })
	}
	for sentence, c := range map[string]verdictCase{
		"just now":              {target: since(noon), want: gone(core.Suspect, noon, noon.Add(patience))},
		"just before its time":  {target: since(ago(patience - 1)), want: gone(core.Suspect, ago(patience-1), noon.Add(1))},
		"at its time":           {target: since(ago(patience)), want: gone(core.Unhealthy, ago(patience), time.Time{})},
		"since an unknown time": {target: since(time.Time{}), want: gone(core.Suspect, time.Time{}, noon.Add(patience))},
		"a node that is a target": {
			target: func() core.Target {
				n := since(noon)
				n.ID.Kind = "Node"
				return n
			}(),
			want: core.Verdict{Health: core.Gone, Reason: core.NodeNotFound},
		},
	} {
		got := core.Decide([]core.Policy{policy("p", []int{0}, delayed)}, clusterOf([]core.Target{c.target}), noon)
		if diff := cmp.Diff([]core.Verdict{c.want}, got.Verdicts); diff != "" {
			t.Errorf("%s: verdict (-want +got):\n%s", sentence, diff)
		}
		if c.want.Health == core.Suspect && !got.NextAt.Equal(c.want.Until) {
			t.Errorf("%s: the next pass is at %s", sentence, got.NextAt)
		}
	}
}

// TestExpectedAbsence: the delay runs since the first read that did not find the node, and starts
// again once a read found it.
func TestExpectedAbsence(t *testing.T) {
	unseen := machine("x", nodeIs(core.NodeUnseen))
	var m core.Expectations
	name := unseen.Node.Name
	if at := m.KeepNodeGone(unseen.ID, name, ago(time.Hour)); !at.Equal(ago(time.Hour)) {
		t.Errorf("the first read is taken to be at %s", at)
	}
	laid(&m, noon, []core.Target{unseen})
	if at := m.KeepNodeGone(unseen.ID, name, noon); !at.Equal(ago(time.Hour)) {
		t.Errorf("after another read the node is gone since %s, want since the first", at)
	}
	if at := laid(&m, noon, []core.Target{unseen}).Targets[0].NodeGoneSince; !at.Equal(ago(time.Hour)) {
		t.Errorf("the target's node is gone since %s, want since the first read", at)
	}
	m.KeepLookup(unseen.ID, machine("x").Node, noon)
	if x := laid(&m, noon, []core.Target{unseen}).Targets[0]; x.Node.State != core.NodeUnseen || !x.NodeGoneSince.IsZero() {
		t.Errorf("a live read has found the node, and it is %s since %s", x.Node.State, x.NodeGoneSince)
	}
	if at := m.KeepNodeGone(unseen.ID, name, noon); !at.Equal(noon) {
		t.Errorf("it is gone again since %s, want since now", at)
	}
}

// TestI05AbsenceIsNotRememberedUnseen: the delay starts again after the cluster was not observed,
// since the node may have been there meanwhile.
func TestI05AbsenceIsNotRememberedUnseen(t *testing.T) {
	unseen := machine("x", nodeIs(core.NodeUnseen))
	var m core.Expectations
	m.KeepNodeGone(unseen.ID, unseen.Node.Name, ago(time.Hour))
	m.OverlayTests(nil, &core.Cluster{}, ago(time.Minute))
	if x := laid(&m, noon, []core.Target{unseen}).Targets[0]; x.Node.State != core.NodeUnseen || !x.NodeGoneSince.IsZero() {
		t.Errorf("after a time unobserved the node is %s since %s, want it read again", x.Node.State, x.NodeGoneSince)
	}
	if at := m.KeepNodeGone(unseen.ID, unseen.Node.Name, noon); !at.Equal(noon) {
		t.Errorf("a read after that has it gone since %s, want since now", at)
	}
}

// laidTests returns the targets with the remembered tests in them.
func laidTests(m *core.Expectations, p core.Policy, now time.Time, targets ...core.Target) []core.Target {
	f := laid(m, now, targets)
	m.OverlayTests([]core.Policy{p}, &f, now)
	return f.Targets
}

// TestRememberedTests: a test counts since it was first seen to hold, while it holds for the same
// node in every pass.
func TestRememberedTests(t *testing.T) {
	p := policy("p", []int{0, 1}, groups(tests(unready, mute, frozen)))
	holding, other := machine("x", reasoned("KernelDeadlock", "True", "DockerHung", ago(time.Hour))), machine("y", condition("AgentReady", "True", noon))
	want := []core.SeenTest{{Test: mute, Node: "x-node-uid", Since: noon}, {Test: frozen, Node: "x-node-uid", Since: noon}}
	remembering := func() *core.Expectations {
		m := &core.Expectations{}
		laidTests(m, p, noon, holding, other)
		return m
	}
	later := noon.Add(time.Minute)
	got := laidTests(remembering(), p, later, holding, other)
	if diff := cmp.Diff(want, got[0].TestsSeen); diff != "" || got[1].TestsSeen != nil {
		t.Errorf("seen (-want +got):\n%s\nand of the other %v", diff, got[1].TestsSeen)
	}
	turned := map[string]int{"it did not hold": 2, "the reason was another": 1, "a live read shows otherwise": 2}
	for sentence, between := range map[string]func(m *core.Expectations){
		"it did not hold": func(m *core.Expectations) {
			laidTests(m, p, noon, machine("x", condition("AgentReady", "True", noon)), other)
		},
		"no such target": func(m *core.Expectations) { laidTests(m, p, noon, other, other) },
		"the reason was another": func(m *core.Expectations) {
			laidTests(m, policy("p", []int{0}, groups(tests(frozen))), noon, machine("x", reasoned("KernelDeadlock", "True", "Other", ago(time.Hour))))
		},
		"another node": func(m *core.Expectations) {
			laidTests(m, p, noon, machine("x", func(t *core.Target) { t.Node.UID = "another" }), other)
		},
		"a node read in part": func(m *core.Expectations) { laidTests(m, p, noon, machine("x", cut), other) },
		"no such node":        func(m *core.Expectations) { laidTests(m, p, noon, machine("x", nodeIs(core.NodeUnseen)), other) },
		"not observed":        func(m *core.Expectations) { m.OverlayTests([]core.Policy{p}, &core.Cluster{}, noon) },
		"not asked for":       func(m *core.Expectations) { laidTests(m, policy("p", []int{0}), noon, holding) },
		"not selected":        func(m *core.Expectations) { laidTests(m, policy("p", nil, groups(tests(mute, frozen))), noon, holding) },
		"another process":     func(m *core.Expectations) { *m = core.Expectations{} },
		"a live read shows otherwise": func(m *core.Expectations) {
			live := machine("x", condition("AgentReady", "True", noon))
			m.OverlayLive(&live, noon)
		},
	} {
		m := remembering()
		between(m)
		begun := 0
		for _, s := range laidTests(m, p, later, holding, other)[0].TestsSeen {
			if !s.Since.Equal(later) {
				t.Errorf("%s: %s counts since %s, want anew", sentence, s.Test.String(), s.Since)
			}
			if s.StartSeen {
				begun++
			}
		}
		if begun != turned[sentence] {
			t.Errorf("%s: %d tests were seen to begin, want %d", sentence, begun, turned[sentence])
		}
	}
	m := remembering()
	live := holding
	m.OverlayLive(&live, noon)
	if got := laidTests(m, p, later, holding, other)[0].TestsSeen; len(got) != 2 || !got[0].Since.Equal(noon) {
		t.Errorf("a live read that shows the same has it count anew: %v", got)
	}
}

// TestPatternsMatchAllOfAReason compares with a matcher that tries every match.
func TestPatternsMatchAllOfAReason(t *testing.T) {
	matches := func(pattern, reason string) bool {
		p := policy("p", []int{0}, groups(tests(core.ConditionTest{Type: "X", Status: "True", Reason: pattern})))
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{machine("m", reasoned("X", "True", reason, noon))}), noon)
		return d.Verdicts[0].Health != core.Healthy
	}
	for pattern, c := range map[string]struct{ yes, no string }{
		"Kubelet*": {"Kubelet KubeletStopped", "NotKubelet kubelet"}, "*Hung": {"Hung DockerHung", "HungUp"}, "*Hung*": {"Hung AHungB", "Hun"},
		"A*B*C": {"ABC AxBxC ABBC ABCBC", "AC ABCx xABC"}, "*": {"A", ""}, "Exact": {"Exact", "exact ExactX XExact"}, "A**B": {"AB AxB", "A"}, "A.B": {"A.B", "AxB"},
	} {
		for reason := range strings.FieldsSeq(c.yes) {
			if !matches(pattern, reason) {
				t.Errorf("%s does not match %s", pattern, reason)
			}
		}
		for reason := range strings.FieldsSeq(c.no) {
			if matches(pattern, reason) {
				t.Errorf("%s matches %s", pattern, reason)
			}
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		pattern, reason := rapid.StringMatching(`[ab*]{0,8}`).Draw(r, "pattern"), rapid.StringMatching(`[ab]{0,10}`).Draw(r, "reason")
		if got, want := matches(pattern, reason), naiveGlob(pattern, reason); got != want {
			r.Fatalf("%q matches %q: %t", pattern, reason, got)
		}
	})
}

// TestI15PatternsAreMatchedQuickly: the worst pattern takes a moment. A matcher that tries every
// place for every * never ends here.
func TestI15PatternsAreMatchedQuickly(t *testing.T) {
	pattern, reason := strings.Repeat("*a", 64)+"b", strings.Repeat("a", 317)
	for i := range 1000 {
		p := policy(fmt.Sprint(i), []int{0}, groups(tests(core.ConditionTest{Type: "X", Status: "True", Reason: pattern})))
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{machine("m", reasoned("X", "True", reason, noon))}), noon)
		if d.Verdicts[0].Health != core.Healthy {
			t.Fatal("the pattern matches")
		}
	}
}
