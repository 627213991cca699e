package cli

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// TestWorkloadClustersOfAQuestion: a command reads the nodes of those workload clusters alone that its question is about.
func TestWorkloadClustersOfAQuestion(t *testing.T) {
	east, west := core.ClusterKey{Namespace: "fleets", Name: "east"}, core.ClusterKey{Namespace: "fleets", Name: "west"}
	machine := core.ID{Kind: "Machine", Namespace: "fleets", Name: "a"}
	running := core.Repair{Namespace: "fleets", Name: "r", Target: core.ID{Kind: "Machine", Namespace: "fleets", Name: "gone"}, Node: "node-gone"}
	ended := running
	ended.Ended = noon
	details := map[string]ledger.Details{
		"fleets/r": {Cluster: east, Repair: running}, "fleets/ended": {Cluster: west, Repair: ended}, "fleets/forged": {Cluster: west, Ignored: true, Repair: running},
	}
	checked := core.Observation{Policies: []core.Policy{{}}}
	here := core.Observation{Targets: []core.Target{{ID: machine, Node: core.Node{Name: "node-a"}}}}
	target := func(kind, name, within string) func(*session) clusterFilter {
		return func(s *session) clusterFilter { return s.aboutTarget(kind, name, within) }
	}
	checks := func(s *session) clusterFilter { return s.aboutHealthChecks }
	repair := func(s *session) clusterFilter { return s.aboutRepair("r") }
	drafts := func(d draft) func(*session) clusterFilter {
		return func(*session) clusterFilter { return aboutDrafts([]draft{d}) }
	}
	drafted := core.Observation{Policies: []core.Policy{{ID: core.ID{Kind: "MachineHealthCheck", Namespace: "fleets", Name: "a"}}}}
	named := func(kind, namespace, name string) draft {
		var d draft
		d.Kind, d.Namespace, d.Name, d.dialect = kind, namespace, name, NHC{}
		return d
	}
	broken := named("MachineHealthCheck", "fleets", "a")
	broken.Problems = []Finding{{}}
	for name, c := range map[string]struct {
		about     func(*session) clusterFilter
		cluster   core.ClusterKey
		seen      core.Observation
		namespace string
		flags     []string
		want      bool
	}{
		"it has a health check":                     {checks, west, checked, "fleets", nil, true},
		"it has one, in any namespace":              {checks, west, checked, "", nil, true},
		"it has one in another namespace":           {checks, west, checked, "machines", nil, false},
		"it has a running repair":                   {checks, east, core.Observation{}, "", nil, true},
		"its repair has ended":                      {checks, west, core.Observation{}, "", nil, false},
		"the flag names it":                         {checks, west, checked, "", []string{"--workload-cluster=west"}, true},
		"the flag names another":                    {checks, west, checked, "", []string{"--workload-cluster=east"}, false},
		"it has the machine":                        {target("machine", "a", "fleets"), west, here, "", nil, true},
		"it has the machine, and the flag does not": {target("machine", "a", "fleets"), west, here, "", []string{"--workload-cluster=east"}, false},
		"it has another machine":                    {target("machine", "b", ""), west, here, "", nil, false},
		"the machine is in another namespace":       {target("machine", "a", "machines"), west, here, "", nil, false},
		"it has the node of a machine":              {target("node", "node-a", ""), west, here, "", nil, true},
		"a node has the name of its machine":        {target("node", "a", ""), west, here, "", nil, false},
		"a machine has the name of its node":        {target("machine", "node-a", ""), west, here, "", nil, false},
		"it has a repair of a machine that is gone": {target("machine", "gone", ""), east, core.Observation{}, "", nil, true},
		"another cluster has that repair":           {target("machine", "gone", ""), core.ClusterKey{}, core.Observation{}, "", nil, false},
		"it has the repair":                         {repair, east, core.Observation{}, "", nil, true},
		"it has the repair, and the flag does not":  {repair, east, core.Observation{}, "", []string{"--workload-cluster=west"}, false},
		"it has no repair":                          {repair, core.ClusterKey{}, core.Observation{}, "", nil, false},
		"it has the drafted check":                  {drafts(named("MachineHealthCheck", "fleets", "a")), east, drafted, "", nil, true},
		"the draft is of another kind":              {drafts(named("NodeHealthCheck", "fleets", "a")), east, drafted, "", nil, false},
		"the draft is of another namespace":         {drafts(named("MachineHealthCheck", "machines", "a")), east, drafted, "", nil, false},
		"the draft has another name":                {drafts(named("MachineHealthCheck", "fleets", "b")), east, drafted, "", nil, false},
		"the draft is not valid":                    {drafts(broken), east, drafted, "", nil, false},
	} {
		s, flags := &session{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		s.chosen.addFlag(flags, "")
		if err := flags.Parse(c.flags); err != nil {
			t.Fatal(err)
		}
		v := &view{scope: scope{namespace: c.namespace}, repairDetails: details}
		if got := c.about(s)(v, &ClusterObservation{Observation: c.seen, Cluster: c.cluster}); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	v := &view{repairDetails: map[string]ledger.Details{"fleets/forged": {Cluster: west, Ignored: true, Repair: running}}}
	if repairs := v.repairsOf(west); len(repairs) > 0 {
		t.Errorf("an ignored Repair counts: %v", repairs)
	}
}

// TestMatchesTarget: a node has a name whatever the namespace, and is no machine.
func TestMatchesTarget(t *testing.T) {
	node := &core.Target{ID: core.ID{Kind: "Node", Name: "a"}}
	for _, namespace := range []string{"", "machines"} {
		if !matchesTarget(node, nodeSubject, "a", namespace) || matchesTarget(node, machineSubject, "a", namespace) {
			t.Errorf("in namespace %q a node is not found by its name, or a machine is", namespace)
		}
	}
}
