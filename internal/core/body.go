package core

import "slices"

// A node may be a target of its own and also that of a machine. Targets with the same node are one body:
// of all policies that select any of them one leads and all are asked, and one repair at a time is under
// way.

// embody gives each target the index of its body, which is that of one of its targets. It is nil when
// each target is a body of its own, as where all are of one kind.
func embody(targets []Target) []int {
	if !mixed(targets) {
		return nil
	}
	return bodies(targets)
}

func bodies(targets []Target) []int {
	first := make(map[string]int, len(targets))
	of := make([]int, len(targets))
	for i := range targets {
		of[i] = i
		name := targets[i].Node.Name
		if name == "" {
			continue
		}
		if body, known := first[name]; known {
			of[i] = body
			continue
		}
		first[name] = i
	}
	return of
}

// Bodies gives each target the index of its body, which is that of one of its targets.
func Bodies(targets []Target) []int {
	bodies := embody(targets)
	if bodies != nil {
		return bodies
	}
	bodies = make([]int, len(targets))
	for i := range bodies {
		bodies[i] = i
	}
	return bodies
}

// Selecting returns the indices of the policies that select one of these targets, or another target of its body.
func Selecting(policies []Policy, fleet *Fleet, targets []int) []int {
	bodies, asked := Bodies(fleet.Targets), make([]bool, len(fleet.Targets))
	for _, t := range targets {
		asked[bodies[t]] = true
	}
	var selecting []int
	for i := range policies {
		if slices.ContainsFunc(policies[i].Members, func(m int) bool { return asked[bodies[m]] }) {
			selecting = append(selecting, i)
		}
	}
	return selecting
}

func mixed(targets []Target) bool {
	for i := range targets {
		if targets[i].ID.Kind != targets[0].ID.Kind {
			return true
		}
	}
	return false
}

// sharesBody tells whether any of those asked about has its body in common with another target.
func sharesBody(targets []Target, asked []bool) bool {
	bodies := embody(targets)
	members := make([]int, len(bodies))
	for _, b := range bodies {
		members[b]++
	}
	for i, b := range bodies {
		if asked[i] && members[b] > 1 {
			return true
		}
	}
	return false
}

// SiblingOf is the target of another kind with the same node. It is the zero ID when there is none, or when its facts
// can't be read, so that the node may not be its own.
func SiblingOf(fleet *Fleet, target int) ID {
	t := &fleet.Targets[target]
	if t.Node.Name == "" {
		return ID{}
	}
	for i := range fleet.Targets {
		if other := &fleet.Targets[i]; other.ID.Kind != t.ID.Kind && other.Node.Name == t.Node.Name && other.Problem == "" {
			return other.ID
		}
	}
	return ID{}
}
