package pass_test

import (
	"slices"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// observed returns the observation of a dialect with a policy and so many targets, the last of which is its only member.
func observed(kind string, targets int) core.Observation {
	o := core.Observation{Kind: kind, Observed: core.Yes}
	for i := range targets {
		o.Targets = append(o.Targets, core.Target{ID: core.ID{Kind: kind, Name: string(rune('a' + i))}})
	}
	o.Policies = []core.Policy{{ID: core.ID{Kind: kind + "Check"}, Members: []int{targets - 1}}}
	o.Requests = []core.Request{{Target: o.Targets[0].ID}}
	return o
}

// TestNewSnapshot: the members of each policy are the targets of its own dialect, and each policy and target knows its dialect.
func TestNewSnapshot(t *testing.T) {
	t.Parallel()
	machines, nodes := observed("Machine", 2), observed("Node", 3)
	nodes.Upgrading, nodes.UpgradingWhy = core.Yes, "because"
	absent := core.Observation{Kind: "Host", Observed: core.No, Policies: nodes.Policies, Targets: nodes.Targets}
	members := slices.Clone(nodes.Policies[0].Members)
	s := pass.NewSnapshot(pass.ClockReading{Agrees: core.Yes}, []core.Observation{machines, absent, nodes}, []core.Repair{{Name: "r"}}, core.Yes)
	if c := &s.Cluster; c.Observed != core.Yes || c.ClockAgrees != core.Yes || len(c.Targets) != 5 || len(c.Requests) != 2 || len(c.Repairs) != 1 {
		t.Fatalf("the cluster is %+v", c)
	}
	if s.Cluster.Upgrading != core.Yes || s.Cluster.UpgradingWhy != "because" {
		t.Errorf("upgrading is %v, %q", s.Cluster.Upgrading, s.Cluster.UpgradingWhy)
	}
	for i, kind := range []string{"Machine", "Node"} {
		p := &s.Policies[i]
		if got := s.Cluster.Targets[p.Members[0]].ID; len(p.Members) != 1 || got.Kind != kind || got.Name != map[string]string{"Machine": "b", "Node": "c"}[kind] {
			t.Errorf("the members of %s are %v, which is %s", p.ID.Kind, p.Members, got)
		}
		if s.PolicyDialect[p.ID] != 2*i {
			t.Errorf("%s is of dialect %d", p.ID.Kind, s.PolicyDialect[p.ID])
		}
	}
	if !slices.Equal(s.TargetDialect, []int{0, 0, 2, 2, 2}) {
		t.Errorf("the targets are of the dialects %v", s.TargetDialect)
	}
	if !s.Kinds["Machine"] || !s.Kinds["Node"] || s.Kinds["Host"] || len(s.Unknown) > 0 {
		t.Errorf("the kinds are %v, unknown are %v", s.Kinds, s.Unknown)
	}
	if !slices.Equal(nodes.Policies[0].Members, members) {
		t.Errorf("the observation has changed: %v", nodes.Policies[0].Members)
	}
}

// TestSnapshotUnknown (I1): a cluster is not observed while one dialect doesn't know what it would observe, while none is served, and while
// the repairs are not known.
func TestSnapshotUnknown(t *testing.T) {
	t.Parallel()
	known, unknown, absent := observed("Machine", 1), observed("Node", 1), observed("Node", 1)
	unknown.Observed, absent.Observed = core.Unknown, core.No
	for name, c := range map[string]struct {
		of      []core.Observation
		synced  core.Tri
		unknown []int
	}{
		"one is unknown":      {[]core.Observation{known, unknown}, core.Yes, []int{1}},
		"none is served":      {[]core.Observation{absent}, core.Yes, nil},
		"the repairs are not": {[]core.Observation{known}, core.Unknown, nil},
		"there are none":      {nil, core.Yes, nil},
	} {
		s := pass.NewSnapshot(pass.ClockReading{Agrees: core.Yes}, c.of, nil, c.synced)
		if s.Cluster.Observed == core.Yes || !slices.Equal(s.Unknown, c.unknown) {
			t.Errorf("%s: observed %v, unknown %v", name, s.Cluster.Observed, s.Unknown)
		}
	}
	limited := observed("Machine", 1)
	limited.Policies = slices.Repeat(limited.Policies, core.MaxVerdicts(1)+1)
	s := pass.NewSnapshot(pass.ClockReading{}, []core.Observation{limited}, nil, core.Yes)
	if !slices.ContainsFunc(s.Policies, func(p core.Policy) bool { return p.Unjudged }) {
		t.Error("the verdicts of a pass are not limited")
	}
}

// TestSnapshotOfTwoDialects: a single target before others moves their members, and the last dialect that tells whether an upgrade runs, or why
// that is unknown, counts.
func TestSnapshotOfTwoDialects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		upgrading core.Tri
		why       string
	}{{core.No, ""}, {core.Yes, ""}, {core.Unknown, "it can't be read"}} {
		first, second := observed("Machine", 1), observed("Node", 1)
		first.Upgrading, first.UpgradingWhy = c.upgrading, c.why
		for _, of := range [][]core.Observation{{first, second}, {second, first}} {
			s := pass.NewSnapshot(pass.ClockReading{}, of, nil, core.Yes)
			if got := s.Policies[1].Members; !slices.Equal(got, []int{1}) {
				t.Errorf("the members are %v", got)
			}
			if s.Cluster.Upgrading != c.upgrading || s.Cluster.UpgradingWhy != c.why {
				t.Errorf("upgrading is %v, %q, want %v, %q", s.Cluster.Upgrading, s.Cluster.UpgradingWhy, c.upgrading, c.why)
			}
		}
	}
}
