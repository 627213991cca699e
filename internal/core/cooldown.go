package core

import (
	"math"
	"time"
)

// DefaultStormCooldown applies where a policy sets none. Nodes that return after a shared fault
// report themselves within seconds of each other.
const DefaultStormCooldown = 5 * time.Second

// longestCooldown bounds how far recoveries prolong a cooldown, as a multiple of it.
const longestCooldown = 12

// CooldownState is what is remembered of a cooldown, which begins when the short circuit permits
// repairs again.
//
//	unhealthy   6 ──┐            limit 2
//	            4   └──┐
//	            2      └──┐ repairs permitted: First
//	            1         └──┐ still falling: Last
//	            1            └────────── repairs resume one cooldown after Last
//
// Without the cooldown, the last nodes of a zone to return would be repaired at the instant at
// which the others have returned.
type CooldownState struct {
	// First is when the short circuit permitted repairs again, Last when members recovered since.
	First, Last time.Time
	// Unhealthy is how many members were not healthy at Last.
	Unhealthy int
}

// CooldownFromStatus returns the cooldown that a status reports to have begun at an instant. It is
// for readers that know no more. Only the controller knows when members recovered since. Some did
// if one cooldown has passed and it still lasts.
func CooldownFromStatus(first time.Time, cooldown time.Duration, at time.Time) CooldownState {
	if at.Before(first.Add(cooldown)) {
		return CooldownState{First: first, Last: first}
	}
	return CooldownState{First: first, Last: at}
}

// advance returns the cooldown as of now, and when repairs resume. A cooldown that a status reports
// to begin in the future counts from now.
func (o CooldownState) advance(cooldown time.Duration, unhealthy int, now time.Time) (CooldownState, time.Time) {
	switch {
	case o.First.IsZero(), o.First.After(now):
		o = CooldownState{First: now, Last: now, Unhealthy: unhealthy}
	case unhealthy < o.Unhealthy:
		o.Last, o.Unhealthy = now, unhealthy
	}
	resume := o.Last.Add(cooldown)
	if cooldown > math.MaxInt64/longestCooldown {
		return o, resume // the bound exceeds any duration
	}
	if bound := o.First.Add(longestCooldown * cooldown); bound.Before(resume) {
		resume = bound
	}
	return o, resume
}
