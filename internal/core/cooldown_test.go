package core

import (
	"testing"
	"time"
)

func TestStormCooldown(t *testing.T) {
	opened := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) time.Time { return opened.Add(time.Duration(s) * time.Second) }
	const cooldown = 5 * time.Second
	cases := map[string]struct {
		reason    string
		before    CooldownState
		unhealthy int
		now       time.Time
		resume    time.Time
	}{
		"it begins when nothing is remembered": {
			reason: "a new process must not resume at once (I6)", unhealthy: 2, now: at(0), resume: at(5),
		},
		"it runs on while no member recovers": {
			reason: "those who are still unhealthy have had their time", before: CooldownState{at(0), at(0), 2}, unhealthy: 2, now: at(3), resume: at(5),
		},
		"it begins anew when a member recovers": {
			reason: "the others may be about to", before: CooldownState{at(0), at(0), 2}, unhealthy: 1, now: at(3), resume: at(8),
		},
		"it does not begin anew when a member fails": {
			reason: "that is no sign of a recovery", before: CooldownState{at(0), at(1), 1}, unhealthy: 2, now: at(3), resume: at(6),
		},
		"recoveries can't prolong it for ever": {
			reason: "a node that flaps must not keep repairs off", before: CooldownState{at(0), at(57), 2}, unhealthy: 1, now: at(58), resume: at(60),
		},
		"it does not begin in the future": {
			reason: "the clock of the leader that told it was ahead", before: CooldownState{at(7200), at(7200), 2}, unhealthy: 2, now: at(0), resume: at(5),
		},
	}
	for name, tc := range cases {
		if _, resume := tc.before.advance(cooldown, tc.unhealthy, tc.now); !resume.Equal(tc.resume) {
			t.Errorf("%s: resumes %s after the opening, want %s: %s", name, resume.Sub(opened), tc.resume.Sub(opened), tc.reason)
		}
	}
}

// TestStormCooldownOfAges: the bound of a very long cooldown would overflow, and does not apply.
func TestStormCooldownOfAges(t *testing.T) {
	opened := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, cooldown := range []time.Duration{25 * year, 30 * year, 49 * year, 1<<63 - 1} {
		if _, resume := (CooldownState{opened, opened, 2}).advance(cooldown, 2, opened); !resume.Equal(opened.Add(cooldown)) {
			t.Errorf("a cooldown of %s ends at %s", cooldown, resume)
		}
	}
}

// TestStormCooldownAtItsBound: the bound of the longest cooldown that has one applies.
func TestStormCooldownAtItsBound(t *testing.T) {
	opened := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const longest = 1<<63 - 1
	before := CooldownState{First: opened, Last: opened.Add(280 * year), Unhealthy: 1}
	want := opened.Add(longestCooldown * (longest / longestCooldown))
	if _, resume := before.advance(longest/longestCooldown, 1, before.Last); !resume.Equal(want) {
		t.Errorf("repairs resume at %s, want %s", resume, want)
	}
}

const year = 365 * 24 * time.Hour

func TestStormCooldownHoldsOnlyAfterAStorm(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cluster := Cluster{Observed: Yes, ClockAgrees: Yes, Targets: []Target{{
		ID: ID{Kind: "Machine", Name: "m", UID: "u"}, Failed: true, Node: Node{State: NodeAwaited}, Created: now.Add(-time.Hour),
	}}}
	policy := Policy{
		Members: []int{0}, MaxInFlight: Unlimited(), StormCooldown: time.Second,
		ShortCircuit: ShortCircuit{MaxUnhealthy: Percent(100)}, Steps: []Step{{Remedy: "any", Nature: Annotate}},
	}
	if d := Decide([]Policy{policy}, cluster, now); len(d.Starts) != 1 {
		t.Errorf("without a storm before it the repair must start at once: %+v", d.Refusals)
	}
	policy.WasStopped = true
	held := Decide([]Policy{policy}, cluster, now)
	if len(held.Starts) != 0 || len(held.Refusals) != 1 || held.Refusals[0].Gate != StormCooldown || !held.NextAt.Equal(now.Add(time.Second)) {
		t.Fatalf("after a storm the repair must wait for the cooldown: %+v", held)
	}
	paused := policy
	paused.Paused = true
	if d := Decide([]Policy{paused}, cluster, now); d.Tallies[0].Cooldown != (CooldownState{}) {
		t.Error("the cooldown must not run out behind a pause")
	}
	policy.Cooldown = held.Tallies[0].Cooldown
	if d := Decide([]Policy{policy}, cluster, now.Add(time.Second)); len(d.Starts) != 1 {
		t.Errorf("after the cooldown the repair must start: %+v", d.Refusals)
	}
}

// TestLiveReadsAreAsManyAsMayBeRepaired: a thousand unhealthy targets with one place cost one read.
func TestLiveReadsAreAsManyAsMayBeRepaired(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cluster := Cluster{Observed: Yes, ClockAgrees: Yes}
	policy := Policy{MaxInFlight: Count(1), ShortCircuit: ShortCircuit{MaxUnhealthy: Percent(100)}, Steps: []Step{{Remedy: "any", Nature: Annotate}}}
	for _, uid := range []string{"a", "b", "c"} {
		policy.Members = append(policy.Members, len(cluster.Targets))
		cluster.Targets = append(cluster.Targets, Target{ID: ID{Name: uid, UID: uid}, Failed: true, Node: Node{State: NodePresent}})
	}
	if d := Decide([]Policy{policy}, cluster, now); len(d.Confirm) != 1 || d.Confirm[0] != 0 {
		t.Errorf("want the first read alone, have %v", d.Confirm)
	}
	cluster.Targets[0].NodeUnreadable = true
	if d := Decide([]Policy{policy}, cluster, now); len(d.Confirm) != 1 || d.Confirm[0] != 1 {
		t.Errorf("an unreadable node must not keep the others waiting, have %v", d.Confirm)
	}
	policy.MaxInFlight = Unlimited()
	if d := Decide([]Policy{policy}, cluster, now); len(d.Confirm) != 2 {
		t.Errorf("want both that can be read, have %v", d.Confirm)
	}
}

// TestCooldownFromStatus: once one cooldown is over and it still lasts, members recovered since.
func TestCooldownFromStatus(t *testing.T) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for after, last := range map[time.Duration]time.Duration{0: 0, time.Minute - 1: 0, time.Minute: time.Minute, time.Hour: time.Hour} {
		want := CooldownState{First: first, Last: first.Add(last)}
		if got := CooldownFromStatus(first, time.Minute, first.Add(after)); got != want {
			t.Errorf("after %s it is %+v, want %+v", after, got, want)
		}
	}
}
