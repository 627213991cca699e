package core

// A node may be a target of its own and also that of a machine. Targets with the same node are one body:
// of all policies that select any of them one leads and all are asked, and one repair at a time is under
// way.

// embody gives each target the index of its body, which is that of one of its targets. It is nil when
// each target is a body of its own, as where all are of one kind.
func embody(targets []Target) []int {
	if !mixed(targets) {
		return nil
	}
	first := make(map[string]int, len(targets))
	bodies := make([]int, len(targets))
	for i := range targets {
		bodies[i] = i
		name := targets[i].Node.Name
		if name == "" {
			continue
		}
		if of, known := first[name]; known {
			bodies[i] = of
			continue
		}
		first[name] = i
	}
	return bodies
}

func mixed(targets []Target) bool {
	for i := range targets {
		if targets[i].ID.Kind != targets[0].ID.Kind {
			return true
		}
	}
	return false
}

// body is the index of a target's body.
func (d *deliberation) body(target int) int {
	if d.bodies == nil {
		return target
	}
	return d.bodies[target]
}

// SiblingOf is the target of another kind with the same node, the zero ID when there is none.
func SiblingOf(fleet *Fleet, target int) ID {
	t := &fleet.Targets[target]
	if t.Node.Name == "" {
		return ID{}
	}
	for i := range fleet.Targets {
		if other := &fleet.Targets[i]; other.ID.Kind != t.ID.Kind && other.Node.Name == t.Node.Name {
			return other.ID
		}
	}
	return ID{}
}
