package core_test

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// allowed asks every gate of the twin.
func (w *twin) allowed(target, lead, repair, retry int) bool {
	t := &w.fleet.Targets[target]
	before := len(w.out)
	for _, i := range w.acting(target) {
		w.policyAllows(i, target, repair, retry)
	}
	hold := func(refused bool, gate string) {
		if refused {
			w.say("%s refuses %s: %s", w.policies[lead].ID.Name, t.ID.Name, gate)
		}
	}
	ladder := w.policies[lead].Ladder
	if repair != none {
		ladder = w.fleet.Repairs[repair].Ladder
	}
	hold(len(ladder) == 0, "NoRemedy")
	hold(len(ladder) > 0 && ladder[0].Nature == core.Destroys && t.Owner.UID == "", "NoOwner")
	asked := w.now.Sub(t.QuorumReadAt) < 10*time.Second
	hold(t.ControlPlane && asked && t.QuorumSurvives == core.Unknown, "QuorumUnknown")
	hold(t.ControlPlane && asked && t.QuorumSurvives == core.No, "QuorumLost")
	hold(t.ControlPlane && w.controlPlaneOut(target, repair) > 0, "ControlPlaneBusy")
	if len(w.out) > before {
		return false
	}
	unread := t.Node.State != core.NodeAwaited && (t.Node.State == core.NodeUnseen || w.now.Sub(t.NodeReadAt) >= 10*time.Second)
	hold(unread || t.ControlPlane && !asked, "Unconfirmed")
	return len(w.out) == before
}

func (w *twin) policyAllows(i, target, repair, retry int) {
	t, p := &w.fleet.Targets[target], &w.policies[i]
	hold := func(refused bool, gate string) {
		if refused {
			w.say("%s refuses %s: %s", p.ID.Name, t.ID.Name, gate)
		}
	}
	unhealthy := 0
	for _, m := range p.Members {
		if naiveHealth(p, &w.fleet.Targets[m], w.now) != "healthy" {
			unhealthy++
		}
	}
	most := naiveMost(p.MaxInFlight, len(p.Members))
	hold(p.Problem != "", "InvalidSpec")
	hold(p.Paused, "Paused")
	hold(!naivePermits(p, unhealthy, len(p.Members)), "TooManyUnhealthy")
	hold(unhealthy > 0 && naivePermits(p, unhealthy, len(p.Members)) && p.Held && !p.Paused && p.Problem == "" && w.now.Before(naiveResume(p, unhealthy, w.now)), "StormCooldown")
	hold(!p.MaxInFlight.Unlimited && w.inFlight(i, target, repair) >= most, "InFlightLimit")
	if repair != none || retry == 0 {
		return
	}
	last := w.now
	if !w.pools[t.Owner.UID] {
		last = time.Time{}
		for _, r := range w.fleet.Repairs {
			if r.Owner.UID == t.Owner.UID && r.Started.After(last) {
				last = r.Started
			}
		}
	}
	delay := p.Backoff.Base
	for range retry - 1 {
		delay = min(2*delay, p.Backoff.Limit)
	}
	hold(w.now.Sub(last) < delay, "BackingOff")
}

// controlPlaneOut counts those other than a target that has no repair.
func (w *twin) controlPlaneOut(target, repair int) int {
	n := 0
	for m := range w.fleet.Targets {
		t := &w.fleet.Targets[m]
		switch of := w.repairOf(m); {
		case !t.ControlPlane, m == target && repair == none:
		case t.Deleting, w.placed[m], t.Claimed && of == none, of != none && (repair == none || w.begun[m]):
			n++
		}
	}
	return n
}

// retry is one more than that of the repair with the highest one among those that the target may
// owe its life to: of its pool, started before it was made and within an hour before it failed,
// and no younger machine of the pool is well for everybody.
func (w *twin) retry(target, lead int) int {
	t := &w.fleet.Targets[target]
	since := w.now
	for _, v := range w.world.decide().Verdicts {
		if v.Target == target && v.Policy == lead && !v.Since.IsZero() && v.Since.Before(w.now) {
			since = v.Since
		}
	}
	retry := 0
	for _, r := range w.fleet.Repairs {
		switch {
		case t.Owner.UID == "" || r.Owner.UID != t.Owner.UID || r.Target.UID == t.ID.UID:
		case r.Started.After(t.Created) || slices.Contains(r.Contemporaries, t.ID.UID):
		case since.Sub(r.Started) >= time.Hour || w.proven(t.Owner, r.Started):
		case r.Retry >= retry:
			retry = r.Retry + 1
		}
	}
	return retry
}

func (w *twin) proven(owner core.ID, after time.Time) bool {
	for i := range w.fleet.Targets {
		t := &w.fleet.Targets[i]
		if t.Owner.UID != owner.UID || t.Created.Before(after) || len(w.acting(i)) == 0 {
			continue
		}
		well := true
		for _, p := range w.acting(i) {
			well = well && t.Premature == "" && naiveHealth(&w.policies[p], t, w.now) == "healthy"
		}
		if well {
			return true
		}
	}
	return false
}
