package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// clusterFlag is the flag by which a person says which workload cluster is meant. kubectl has taken --cluster.
const clusterFlag = "workload-cluster"

// chosen is the workload cluster that a person has chosen.
type chosen struct {
	flags *pflag.FlagSet
	name  string
}

func (c *chosen) addFlag(f *pflag.FlagSet, use string) {
	c.flags = f
	f.StringVar(&c.name, clusterFlag, "", use)
}

// allows tells whether a cluster may be meant: that of the name, the cluster that is asked itself for an empty name, and
// any when nothing was said.
func (c *chosen) allows(f ledger.Fleet) bool {
	return c.flags == nil || !c.flags.Changed(clusterFlag) || f.Cluster == c.name
}

// aboutHealthChecks is about the clusters that have health checks in a namespace, "" for all.
func (s *session) aboutHealthChecks(v *view, f *Fleet) bool {
	here := v.namespace == "" || f.Cluster.Namespace == v.namespace
	runs := slices.ContainsFunc(v.repairsOf(f.Cluster), (*core.Repair).Running)
	return here && s.chosen.allows(f.Cluster) && (len(f.Policies) > 0 || runs)
}

// aboutTarget is about the clusters that have a machine or a node of a name, or a repair of one.
func (s *session) aboutTarget(kind, name, within string) concerns {
	return func(v *view, f *Fleet) bool {
		return s.chosen.allows(f.Cluster) &&
			(slices.ContainsFunc(f.Targets, func(t core.Target) bool { return means(&t, kind, name, within) }) ||
				slices.ContainsFunc(v.repairsOf(f.Cluster), func(r *core.Repair) bool { return isRepairOf(r, kind, name, within) }))
	}
}

// aboutRepair is about the clusters that have a repair of a name.
func (s *session) aboutRepair(name string) concerns {
	return func(v *view, f *Fleet) bool {
		return s.chosen.allows(f.Cluster) && slices.ContainsFunc(v.repairsOf(f.Cluster), func(r *core.Repair) bool { return r.Name == name })
	}
}

// aboutDrafts is about the clusters that health checks are for which are yet to be applied.
func aboutDrafts(drafts []draft) concerns {
	return func(_ *view, f *Fleet) bool {
		return slices.ContainsFunc(f.Policies, func(p core.Policy) bool {
			return slices.ContainsFunc(drafts, func(d draft) bool {
				return d.sound() && d.Kind == p.ID.Kind && d.Namespace == p.ID.Namespace && d.Name == p.ID.Name
			})
		})
	}
}

func (v *view) repairsOf(f ledger.Fleet) []*core.Repair {
	var repairs []*core.Repair
	for _, a := range v.accounts {
		if a.Fleet == f && !a.Ignored {
			repairs = append(repairs, &a.Repair)
		}
	}
	return repairs
}

// means tells whether a person means a target by a machine's or a node's name, in a namespace or in all.
func means(t *core.Target, kind, name, namespace string) bool {
	here := namespace == "" || t.ID.Namespace == "" || t.ID.Namespace == namespace
	named := strings.EqualFold(t.ID.Kind, kind) && t.ID.Name == name
	return here && (named || (kind == nodeSubject && t.Node.Name == name))
}

// inWorld is where targets of a name were found.
type inWorld struct {
	*world

	targets []int
}

// findIn finds what a person means, in each cluster. What is in several is to be told apart by the person.
func (s *session) findIn(worlds []*world, kind, name, within string) (inWorld, error) {
	var found []inWorld
	for _, w := range worlds {
		if targets := w.find(kind, name, within); len(targets) > 0 && s.chosen.allows(w.cluster) {
			found = append(found, inWorld{w, targets})
		}
	}
	switch len(found) {
	case 0:
		return inWorld{}, nil
	case 1:
		return found[0], nil
	}
	var ways []string
	for _, f := range found {
		ways = append(ways, f.chosenBy(f.fleet.Targets[f.targets[0]].ID.Namespace))
	}
	return inWorld{}, several(kind, name, ways)
}

// chosenBy returns the flags by which a person chooses what is in a cluster and a namespace.
func (w *world) chosenBy(namespace string) string {
	if w.cluster.Cluster == "" {
		return "--" + clusterFlag + "=''" + inNamespace(namespace)
	}
	return "--" + clusterFlag + " " + w.cluster.Cluster + inNamespace(namespace)
}

// several is the error for a name that several things have, each of which is chosen in its own way.
func several(kind, name string, ways []string) error {
	return fmt.Errorf("there are several of the name %s %s; choose one by %s", kind, name, strings.Join(ways, ", or ")) //nolint:err113 // told to a person
}
