package core

import (
	"math"
	"time"
)

// DefaultStormCooldown applies where a policy sets none. Nodes that return after a fault which they
// shared report themselves within seconds of each other.
const DefaultStormCooldown = 5 * time.Second

// longestCooldown bounds a cooldown that recoveries prolong, in cooldowns.
const longestCooldown = 12

// CooldownState is a short circuit that has opened again after it held.
//
//	unhealthy   6 ──┐            limit 2
//	            4   └──┐
//	            2      └──┐ opens here: First
//	            1         └──┐ still falling: Last
//	            1            └────────── repairs resume one cooldown after Last
//
// Without the cooldown the last nodes of a zone to return would be repaired in the very instant in
// which the zone has proved to be well.
type CooldownState struct {
	// First is when the short circuit opened, Last when members recovered since.
	First, Last time.Time
	// Unhealthy is how many members were not healthy at Last.
	Unhealthy int
}

// CooldownFromStatus is the opening that a status tells to have begun at an instant, for whoever has nothing else to go by.
// When members recovered since, only the controller knows; once one cooldown is over and it still holds, some did.
func CooldownFromStatus(first time.Time, cooldown time.Duration, at time.Time) CooldownState {
	if at.Before(first.Add(cooldown)) {
		return CooldownState{First: first, Last: first}
	}
	return CooldownState{First: first, Last: at}
}

// advance gives the opening as of now, and when repairs resume. An opening that a status tells to lie in the future counts
// from now.
func (o CooldownState) advance(cooldown time.Duration, unhealthy int, now time.Time) (CooldownState, time.Time) {
	switch {
	case o.First.IsZero(), o.First.After(now):
		o = CooldownState{First: now, Last: now, Unhealthy: unhealthy}
	case unhealthy < o.Unhealthy:
		o.Last, o.Unhealthy = now, unhealthy
	}
	resume := o.Last.Add(cooldown)
	if cooldown > math.MaxInt64/longestCooldown {
		return o, resume // the bound is beyond what a duration can be
	}
	if bound := o.First.Add(longestCooldown * cooldown); bound.Before(resume) {
		resume = bound
	}
	return o, resume
}
