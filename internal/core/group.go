package core

import "slices"

// A node may be a target of its own and also belong to a machine that is a target. Targets with the
// same node are one group. Of all policies that select a target of the group, one leads its repair,
// and the gates of all must be open. One repair at a time runs for a group.

// groupsOf maps each target to its group: the index of one of the targets in it. It returns nil
// when each target is a group of its own, as where all have one kind.
func groupsOf(targets []Target) []int {
	if !mixedKinds(targets) {
		return nil
	}
	return groupsByNode(targets)
}

func groupsByNode(targets []Target) []int {
	first := make(map[string]int, len(targets))
	of := make([]int, len(targets))
	for i := range targets {
		of[i] = i
		name := targets[i].Node.Name
		if name == "" {
			continue
		}
		if group, known := first[name]; known {
			of[i] = group
			continue
		}
		first[name] = i
	}
	return of
}

// Groups maps each target to its group: the index of one of the targets in it.
func Groups(targets []Target) []int {
	groups := groupsOf(targets)
	if groups != nil {
		return groups
	}
	groups = make([]int, len(targets))
	for i := range groups {
		groups[i] = i
	}
	return groups
}

// PoliciesSelecting returns the indices of the policies that select one of these targets, or
// another target of its group.
func PoliciesSelecting(policies []Policy, cluster *Cluster, targets []int) []int {
	groups, marked := Groups(cluster.Targets), make([]bool, len(cluster.Targets))
	for _, t := range targets {
		marked[groups[t]] = true
	}
	var selecting []int
	for i := range policies {
		if slices.ContainsFunc(policies[i].Members, func(m int) bool { return marked[groups[m]] }) {
			selecting = append(selecting, i)
		}
	}
	return selecting
}

func mixedKinds(targets []Target) bool {
	for i := range targets {
		if targets[i].ID.Kind != targets[0].ID.Kind {
			return true
		}
	}
	return false
}

// sharesGroup reports whether one of the marked targets shares its group with another target.
func sharesGroup(targets []Target, marked []bool) bool {
	groups := groupsOf(targets)
	members := make([]int, len(groups))
	for _, b := range groups {
		members[b]++
	}
	for i, b := range groups {
		if marked[i] && members[b] > 1 {
			return true
		}
	}
	return false
}

// SiblingOf returns the target of another kind with the same node. It returns the zero ID when
// there is none, and when its facts can't be read, since the node may not be its own then.
func SiblingOf(cluster *Cluster, target int) ID {
	t := &cluster.Targets[target]
	if t.Node.Name == "" {
		return ID{}
	}
	for i := range cluster.Targets {
		if other := &cluster.Targets[i]; other.ID.Kind != t.ID.Kind && other.Node.Name == t.Node.Name && other.Problem == "" {
			return other.ID
		}
	}
	return ID{}
}
