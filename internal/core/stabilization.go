package core

import "time"

// An agent that starts may report a condition as healthy before it has looked. For example, node-problem-detector
// sets all its conditions to False. So while a request of Fettle's about a target stands, a condition that has just
// turned does not make the target healthy. The kubelet reports its own conditions only after it has looked, so they
// count at once.

// stabilizationWindow is how long such a condition must have been well. Agents look for the first time when they start, and an attempt of
// node-problem-detector takes 5 s by default.
const stabilizationWindow = time.Minute

// ofKubelet reports whether the kubelet reports the conditions of a type.
func ofKubelet(kind string) bool {
	switch kind {
	case "Ready", "MemoryPressure", "DiskPressure", "PIDPressure":
		return true
	}
	return false
}

// stableAt returns from when on the conditions of a target's node have been as they are for long enough to end a
// repair. Only conditions that the criteria name count. It is zero where no such condition says since when. A user's
// confirmation needs no time.
func stableAt(c *Criteria, t *Target) time.Time {
	if t.ConfirmedHealthy {
		return time.Time{}
	}
	turned := t.lastTurned(func(kind string) bool { return !ofKubelet(kind) && c.names(kind) })
	if turned.IsZero() {
		return time.Time{}
	}
	return turned.Add(stabilizationWindow)
}

// lastTurned returns the last transition among the conditions of the target's node whose types matter; zero when none says.
func (t *Target) lastTurned(matters func(kind string) bool) time.Time {
	var last time.Time
	for i := range t.Node.Conditions {
		if have := &t.Node.Conditions[i]; have.Since.After(last) && matters(have.Type) {
			last = have.Since
		}
	}
	return last
}

// healthySince returns the last time at which a condition that matters turned; zero when none says.
func healthySince(c *Criteria, t *Target) time.Time { return t.lastTurned(c.names) }
