package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/engine"
)

// begins reports whether any repair was recorded or begun.
func begins(did []string) bool {
	return slices.ContainsFunc(did, func(line string) bool {
		return len(line) > 5 && (line[:5] == "open " || line[:5] == "begin")
	})
}

// TestI1NothingBeginsForAPolicyThatDoesNotStand: a user stops repairs by deleting or changing a
// health check. That works at once, while the watch lags and the status is up to date.
func TestI1NothingBeginsForAPolicyThatDoesNotStand(t *testing.T) {
	for sentence, now := range map[string]string{"it is gone": "", "it has changed": "as it is now"} {
		t.Run(sentence, func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(machine("a", dead), machine("b", dead), machine("c", dead))
			s.machines.observation.Policies = []core.Policy{policy("workers", []int{0, 1}), policy("others", []int{2}), policy("both", []int{1, 2})}
			s.machines.fingerprints["workers"] = now
			did, next := s.pass()
			if slices.Contains(did, "open a") || slices.Contains(did, "open b") || !slices.Contains(did, "begin c") {
				t.Errorf("%s, and the engine does %q", sentence, did)
			}
			s.wantNext(next, noon.Add(time.Second))
			delete(s.machines.fingerprints, "workers")
			s.syncCaches()
			did, _ = s.pass()
			if !slices.Contains(did, "begin a") || !slices.Contains(did, "begin b") {
				t.Errorf("the policy stands, and the engine does %q", did)
			}
		})
	}
}

// TestI1NothingBeginsByAnOldWordOfTheNode: labels and annotations from a live read count, also
// while the watch lags.
func TestI1NothingBeginsByAnOldWordOfTheNode(t *testing.T) {
	for sentence, change := range map[string]func(*core.Node){
		"a person has excluded it":           func(n *core.Node) { n.Excluded = true },
		"it is of the control plane":         func(n *core.Node) { n.ControlPlane = true },
		"it is to have a new configuration":  func(n *core.Node) { n.Upgrading = true },
		"it was not seen, and is excluded":   func(n *core.Node) { n.Excluded = true },
		"it was not seen, and leads":         func(n *core.Node) { n.ControlPlane = true },
		"it was not seen, and has an update": func(n *core.Node) { n.Upgrading = true },
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newFixture(t)
			m := machine("m", dead)
			live := m.Node
			change(&live)
			if strings.HasPrefix(sentence, "it was not seen") {
				unseen(&m)
			}
			s.machines.observes(m)
			s.machines.observation.Policies[0].WaitsForUpgrades = true
			s.FactSources = []engine.FactSource{&factSource{fixture: s, addFacts: func(_ []core.Policy, f *core.Cluster) { f.Upgrading = core.No }}}
			s.machines.live["m-node"] = live
			for range 2 { // the second pass goes by what the first has read, where the cache lacks the node
				if did, _ := s.pass(); begins(did) {
					t.Errorf("it did %q", did)
				}
			}
			s.machines.live["m-node"] = core.Node{State: live.State, Name: live.Name, UID: live.UID, Conditions: live.Conditions}
			s.now = s.now.Add(time.Minute)
			if did, _ := s.pass(); !slices.Contains(did, "begin m") {
				t.Errorf("nothing holds it back, and it did %q", did)
			}
		})
	}
}

// TestI1PolicyWithoutFingerprintBeginsNothing: a deleted policy has no fingerprint either.
func TestI1PolicyWithoutFingerprintBeginsNothing(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead))
	s.machines.observation.Policies[0].Fingerprint = ""
	s.machines.fingerprints["workers"] = ""
	if did, _ := s.pass(); begins(did) {
		t.Errorf("the engine does %q", did)
	}
}

// TestI3EveryPolicyMustStand: each policy is read that selects the target or another target of its
// group.
func TestI3EveryPolicyMustStand(t *testing.T) {
	s, nodes := two(t)
	s.machines.observes(machine("m", dead))
	nodes.observes(target("Node", "m", dead))
	nodes.observation.Policies[0].ID.Name, nodes.observation.Policies[0].ID.UID = "nodes", "nodes-uid"
	for _, fallen := range []*dialect{s.machines, nodes} {
		name := fallen.observation.Policies[0].ID.Name
		fallen.fingerprints[name] = ""
		if did, _ := s.pass(); begins(did) {
			t.Errorf("%s is gone, and the engine does %q", name, did)
		}
		delete(fallen.fingerprints, name)
	}
	if did, _ := s.pass(); !begins(did) {
		t.Errorf("both stand, and the engine does %q", did)
	}
}

// TestI1NextStepOfARepairNeedsItsPolicy, as the first step does.
func TestI1NextStepOfARepairNeedsItsPolicy(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead))
	s.ledger.has(running(s.machines.observation.Targets[0]))
	s.machines.fingerprints["workers"] = ""
	if did, _ := s.pass(); begins(did) {
		t.Errorf("the policy is gone, and the engine does %q", did)
	}
	delete(s.machines.fingerprints, "workers")
	if did, _ := s.pass(); !slices.Contains(did, "begin a") {
		t.Errorf("the policy stands, and the engine does %q", did)
	}
}

// TestI1StepIsNotGivenUpForAPolicyThatDoesNotStand: the next step would be blocked, and no
// remediator would work. The request for another target is withdrawn meanwhile.
func TestI1StepIsNotGivenUpForAPolicyThatDoesNotStand(t *testing.T) {
	gone := func(c *stepFixture) { c.nodes.fingerprints["workers"] = "" }
	for sentence, tc := range map[string]struct {
		change func(*stepFixture)
		fails  bool
	}{
		"it is gone":     {gone, false},
		"it has changed": {func(c *stepFixture) { c.nodes.fingerprints["workers"] = "as it is now" }, false},
		"it is not read": {func(c *stepFixture) { c.refuse["read policy workers"] = errDown }, true},
		"the clock is set": {func(c *stepFixture) {
			c.wait["record workers"] = func(context.Context) error { c.clock.agrees = core.No; return nil }
		}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, sick("a"))
			c.ledger.has(runningSteps(sick("a"), func(r *core.Repair) { r.Started = ago(time.Hour) }))
			c.factSource.requests = []core.Request{request("fix-a", sick("a"), func(r *core.Request) { r.Created = ago(time.Hour) })}
			tc.change(c)
			did, next, err := c.tryPass()
			if slices.Contains(did, "stop fix-a") || slices.Contains(did, "amend a: TimedOut") || slices.Contains(did, "tell escalated a") {
				t.Errorf("%s, and the engine does %q", sentence, did)
			}
			if tc.fails != errors.Is(err, errDown) || tc.fails != next.IsZero() || next.After(noon.Add(time.Second)) {
				t.Errorf("%s, and the pass gives %v and the next at %s", sentence, err, next)
			}
			c.nodes.observes(sick("a"), target("Node", "b"))
			c.nodes.observation.Policies[0].Steps = twoSteps()
			c.ledger.has(runningSteps(target("Node", "b")))
			c.factSource.requests = append(c.factSource.requests, request("fix-b", target("Node", "b")))
			if did, _, _ = c.tryPass(); slices.Contains(did, "stop fix-a") || !slices.Contains(did, "withdraw fix-b") {
				t.Errorf("another is healthy, and the engine does %q", did)
			}
			c.nodes.fingerprints, c.refuse, c.wait, c.clock.agrees = map[string]string{}, map[string]error{}, map[string]func(context.Context) error{}, core.Yes
			if did, _ = c.pass(); !slices.Contains(did, "stop fix-a") || !slices.Contains(did, "amend a: TimedOut") {
				t.Errorf("the policy stands, and the engine does %q", did)
			}
		})
	}
}

// TestI1NothingBeginsForAPolicyThatCannotBeRead, and the pass fails.
func TestI1NothingBeginsForAPolicyThatCannotBeRead(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead))
	s.refuse["read policy workers"] = errDown
	did, _, err := s.tryPass()
	if !errors.Is(err, errDown) || begins(did) {
		t.Errorf("the engine does %q and tells %v", did, err)
	}
}

// TestPoliciesAreReadOnlyForWhatBegins: a pass that starts no repair reads no policy.
func TestPoliciesAreReadOnlyForWhatBegins(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a"), machine("b", dead))
	s.machines.observation.Policies[0].Paused = true
	s.wait["read policy workers"] = func(context.Context) error { return nil }
	if did, _ := s.pass(); slices.Contains(did, "read policy workers") {
		t.Errorf("nothing begins, and the engine does %q", did)
	}
}

// TestI1PoliciesAreReadAgainBeforeALateStep, also if the node needs no read.
func TestI1PoliciesAreReadAgainBeforeALateStep(t *testing.T) {
	for sentence, tc := range map[string]struct {
		lease, read  time.Duration
		changes      bool
		reads, begun int
		wrote        string
	}{
		"in time":                            {lease: 9 * time.Second, reads: 1, begun: 1},
		"late":                               {lease: 10 * time.Second, reads: 2, begun: 1},
		"late, and each call is slow":        {lease: 10 * time.Second, read: 4 * time.Second, reads: 2, begun: 1},
		"late, and the policy is changed":    {lease: 10 * time.Second, changes: true, reads: 2},
		"late, and reading hangs for longer": {lease: 10 * time.Second, read: 10 * time.Second, reads: 2, wrote: "tell refused n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newStepFixture(t, sick("n"))
			c.ledger.has(runningSteps(sick("n"), onStep(1)))
			c.NodeLeases = slowLease{c, tc.lease}
			c.wait["read policy workers"] = func(context.Context) error {
				c.now = c.now.Add(tc.read)
				if tc.changes {
					c.nodes.fingerprints["workers"] = "as it was"
					c.wait["read policy workers"] = func(context.Context) error {
						c.nodes.fingerprints["workers"] = "changed"
						return nil
					}
				}
				return nil
			}
			did, _, err := c.runs(acts(1))
			if err != nil || len(c.requester.remedyCalls) != tc.begun || gauge(did, "read policy workers") != tc.reads {
				t.Errorf("the engine does %q and tells %v", did, err)
			}
			if tc.wrote != "" && (!slices.Contains(did, tc.wrote) || !slices.Contains(did, "amend n: attempts")) {
				t.Errorf("the engine does %q, want %q", did, tc.wrote)
			}
		})
	}
}

// TestI4LaterStepsNeedAFreshQuorum: a step that may cost the control plane its quorum waits if the
// last read of the quorum is old. This includes targets that belong to the control plane only by a
// label.
func TestI4LaterStepsNeedAFreshQuorum(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*core.Target)
		begun  int
	}{
		"a worker":                   {func(*core.Target) {}, 1},
		"a member":                   {func(t *core.Target) { t.ControlPlane = true }, 0},
		"a member by its label only": {func(t *core.Target) { t.ControlPlaneByLabel = true }, 0},
	} {
		c := newStepFixture(t, target("Node", "n", dead, tc.change))
		c.ledger.has(runningSteps(sick("n"), onStep(1)))
		c.NodeLeases = slowLease{c, 10 * time.Second}
		did, _, err := c.runs(func(d *core.Decision, cluster *core.Cluster) {
			acts(1)(d, cluster)
			cluster.Targets[0].QuorumSurvives, cluster.Targets[0].QuorumReadAt = core.Yes, noon
		})
		if err != nil || len(c.requester.remedyCalls) != tc.begun {
			t.Errorf("%s, and the engine does %q and tells %v", sentence, did, err)
		}
	}
}

// slowLease acquires leases slowly.
type slowLease struct {
	c     *stepFixture
	hangs time.Duration
}

func (l slowLease) Acquire(context.Context, core.Target, string, time.Duration) (bool, error) {
	l.c.now = l.c.now.Add(l.hangs)
	return true, nil
}

func (l slowLease) Release(context.Context, string, string, time.Time) (bool, error) {
	return true, nil
}
