package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fettle-io/fettle/internal/core"
)

// clusterFlag selects a workload cluster. kubectl's --cluster has another meaning.
const clusterFlag = "workload-cluster"

// chosen is the workload cluster that the user has chosen.
type chosen struct {
	flags *pflag.FlagSet
	name  string
}

func (c *chosen) addFlag(f *pflag.FlagSet, use string) {
	c.flags = f
	f.StringVar(&c.name, clusterFlag, "", use)
}

// given reports whether the user has given the flag.
func (c *chosen) given() bool { return c.flags != nil && c.flags.Changed(clusterFlag) }

// allows reports whether a cluster matches the flag. An empty name is the user's own cluster. Without the flag, every
// cluster matches.
func (c *chosen) allows(f core.ClusterKey) bool { return !c.given() || f.Name == c.name }

// aboutHealthChecks selects the clusters that have health checks in a namespace, or in any.
func (s *session) aboutHealthChecks(v *view, f *ClusterObservation) bool {
	here := v.namespace == "" || f.Cluster.Namespace == v.namespace
	runs := slices.ContainsFunc(v.repairsOf(f.Cluster), (*core.Repair).Running)
	return here && s.chosen.allows(f.Cluster) && (len(f.Policies) > 0 || runs)
}

// aboutTarget selects the clusters that have a machine or a node of a name, or a repair of one.
func (s *session) aboutTarget(kind, name, within string) clusterFilter {
	return func(v *view, f *ClusterObservation) bool {
		return s.chosen.allows(f.Cluster) &&
			(slices.ContainsFunc(f.Targets, func(t core.Target) bool { return matchesTarget(&t, kind, name, within) }) ||
				slices.ContainsFunc(v.repairsOf(f.Cluster), func(r *core.Repair) bool { return isRepairOf(r, kind, name, within) }))
	}
}

// aboutRepair selects the clusters that have a repair of a name.
func (s *session) aboutRepair(name string) clusterFilter {
	return func(v *view, f *ClusterObservation) bool {
		return s.chosen.allows(f.Cluster) && slices.ContainsFunc(v.repairsOf(f.Cluster), func(r *core.Repair) bool { return r.Name == name })
	}
}

// aboutDrafts selects the clusters of the drafts.
func aboutDrafts(drafts []draft) clusterFilter {
	return func(_ *view, f *ClusterObservation) bool {
		return slices.ContainsFunc(f.Policies, func(p core.Policy) bool {
			return slices.ContainsFunc(drafts, func(d draft) bool {
				return d.isValid() && d.Kind == p.ID.Kind && d.Namespace == p.ID.Namespace && d.Name == p.ID.Name
			})
		})
	}
}

func (v *view) repairsOf(f core.ClusterKey) []*core.Repair {
	var repairs []*core.Repair
	for _, a := range v.repairDetails {
		if a.Cluster == f && !a.Ignored {
			repairs = append(repairs, &a.Repair)
		}
	}
	return repairs
}

// matchesTarget reports whether a target has a machine's or a node's name, in a namespace or in all.
func matchesTarget(t *core.Target, kind, name, namespace string) bool {
	here := namespace == "" || t.ID.Namespace == "" || t.ID.Namespace == namespace
	named := strings.EqualFold(t.ID.Kind, kind) && t.ID.Name == name
	return here && (named || (kind == nodeSubject && t.Node.Name == name))
}

// foundTargets are the targets of a name in one cluster.
type foundTargets struct {
	*assessment

	targets []int
}

// findIn finds the targets of a name. If several clusters have some, the error says how to choose one.
func (s *session) findIn(assessments []*assessment, kind, name, within string) (foundTargets, error) {
	var found []foundTargets
	for _, w := range assessments {
		if targets := w.find(kind, name, within); len(targets) > 0 && s.chosen.allows(w.key) {
			found = append(found, foundTargets{w, targets})
		}
	}
	switch len(found) {
	case 0:
		return foundTargets{}, nil
	case 1:
		return found[0], nil
	}
	var ways []string
	for _, f := range found {
		ways = append(ways, f.chosenBy(f.cluster.Targets[f.targets[0]].ID.Namespace))
	}
	return foundTargets{}, ambiguous(kind, name, ways)
}

// chosenBy returns the flags that select a cluster and a namespace.
func (w *assessment) chosenBy(namespace string) string {
	if w.key.Name == "" {
		return "--" + clusterFlag + "=''" + inNamespace(namespace)
	}
	return "--" + clusterFlag + " " + w.key.Name + inNamespace(namespace)
}

// ambiguous is the error for a name that several objects have. Each way selects one of them.
func ambiguous(kind, name string, ways []string) error {
	return fmt.Errorf("there are several of the name %s %s; choose one by %s", kind, name, strings.Join(ways, ", or ")) //nolint:err113 // told to a person
}
