package core_test

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// allowed checks every gate of the twin.
func (w *twin) allowed(target, lead, repair, retry int) bool {
	t := &w.cluster.Targets[target]
	before := len(w.out)
	for _, i := range w.acting(target) {
		w.policyAllows(i, target, repair, retry, w.failedAt(target, lead))
	}
	hold := func(refused bool, gate string) {
		if refused {
			w.say("%s refuses %s: %s", w.policies[lead].ID.Name, t.ID.Name, gate)
		}
	}
	steps := w.policies[lead].Steps
	if repair != none {
		steps = w.cluster.Repairs[repair].Steps
	}
	hold(w.cluster.ClockAgrees == core.Unknown, "ClockUnknown")
	hold(w.cluster.ClockAgrees == core.No, "ClockSkewed")
	hold(len(steps) == 0, "NoRemedy")
	hold(len(steps) > 0 && steps[0].Nature == core.Delete && t.Owner.UID == "", "NoOwner")
	quorumRead := w.now.Sub(t.QuorumReadAt) < 10*time.Second
	member := t.ControlPlane || t.ControlPlaneByLabel
	hold(member && quorumRead && t.QuorumSurvives == core.Unknown, "QuorumUnknown")
	hold(member && quorumRead && t.QuorumSurvives == core.No, "QuorumLost")
	hold(member && w.controlPlaneOut(target, repair) > 0, "ControlPlaneBusy")
	if len(w.out) > before {
		return false
	}
	unread := t.Node.State != core.NodeAwaited && (t.Node.State == core.NodeUnseen || w.now.Sub(t.NodeReadAt) >= 10*time.Second)
	hold(unread || member && !quorumRead, "Unconfirmed")
	return len(w.out) == before
}

func (w *twin) policyAllows(i, target, repair, retry int, failed time.Time) {
	t, p := &w.cluster.Targets[target], &w.policies[i]
	hold := func(refused bool, gate string) {
		if refused {
			w.say("%s refuses %s: %s", p.ID.Name, t.ID.Name, gate)
		}
	}
	unhealthy := 0
	for _, m := range p.Members {
		if naiveHealth(p, &w.cluster.Targets[m], w.now) != "healthy" {
			unhealthy++
		}
	}
	most := naiveMost(p.MaxInFlight, len(p.Members))
	hold(p.Problem != "", "InvalidSpec")
	hold(p.Paused, "Paused")
	hold(!naivePermits(p, unhealthy, len(p.Members)), "TooManyUnhealthy")
	hold(unhealthy > 0 && naivePermits(p, unhealthy, len(p.Members)) && p.WasStopped && !p.Paused && p.Problem == "" && w.now.Before(naiveResume(p, unhealthy, w.now)), "StormCooldown")
	hold(!p.MaxInFlight.Unlimited && w.inFlight(i, target, repair) >= most, "InFlightLimit")
	if repair != none {
		return
	}
	if w.givenUp(i, target) {
		hold(true, "PoolGivenUp")
		return
	}
	if retry == 0 {
		return
	}
	last := w.now
	if !w.pools[t.Owner.UID] {
		last = time.Time{}
		for _, r := range w.cluster.Repairs {
			if r.Owner.UID == t.Owner.UID && r.Started.After(last) {
				last = r.Started
			}
		}
		if failed.After(last) {
			last = failed
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
	for m := range w.cluster.Targets {
		t := &w.cluster.Targets[m]
		asker := &w.cluster.Targets[target]
		inTurn := t.ControlPlane || (t.ControlPlaneByLabel && asker.ControlPlaneByLabel && t.ID.Namespace == asker.ID.Namespace)
		switch of := w.repairOf(m); {
		case !inTurn, m == target && repair == none:
		case t.ControlPlane && asker.ControlPlaneByLabel && of != none:
			n++
		case t.Deleting, w.placed[m], t.ExternallyRemediated && of == none, of != none && (repair == none || w.begun[m]):
			n++
		}
	}
	return n
}

// retry returns one more than the highest retry among the repairs that the target may replace. Such a
// repair is of its pool, and started before the target was made and within an hour before it failed.
// No machine of the pool that was made since is healthy for all policies.
func (w *twin) retry(target, lead int) int {
	t := &w.cluster.Targets[target]
	since := w.now
	for _, v := range w.drawn.decide().Verdicts {
		if v.Target == target && v.Policy == lead && !v.Since.IsZero() && v.Since.Before(w.now) {
			since = v.Since
		}
		if dated, missed := w.dated(t, &w.policies[lead]); v.Target == target && v.Policy == lead && v.Reason == core.ConditionsMet && missed {
			since = dated
		}
	}
	retry := 0
	for _, r := range w.cluster.Repairs {
		switch {
		case t.Owner.UID == "" || r.Owner.UID != t.Owner.UID || r.Target.UID == t.ID.UID:
		case r.Started.After(t.Created) || slices.Contains(r.CreatedSameSecond, t.ID.UID):
		case since.Sub(r.Started) >= time.Hour || w.proven(t.Owner, r.Started):
		case !r.Started.After(w.resumed(target)):
		case r.Retry >= retry:
			retry = r.Retry + 1
		}
	}
	return retry
}

// givenUp reports whether a repair of the pool was the last try of a policy. The youngest machine that is not healthy
// for all policies must be younger than that repair. No machine that is younger may have been healthy.
func (w *twin) givenUp(policy, target int) bool {
	b, owner := w.policies[policy].Backoff, w.cluster.Targets[target].Owner
	heir := w.youngestUnwell(owner)
	if b.GiveUpAfter == 0 || owner.UID == "" || heir == nil {
		return false
	}
	for _, r := range w.cluster.Repairs {
		switch {
		case r.Owner.UID != owner.UID || r.Retry+1 < b.GiveUpAfter || (!r.Started.After(b.ResumedAt) && !b.ResumedAt.After(w.now)):
		case r.Target.UID == heir.ID.UID || r.Started.After(heir.Created) || slices.Contains(r.CreatedSameSecond, heir.ID.UID):
		case w.proven(owner, r.Started) || w.lived(owner, r.Started):
		default:
			return true
		}
	}
	return false
}

func (w *twin) youngestUnwell(owner core.ID) *core.Target {
	var youngest *core.Target
	for i := range w.cluster.Targets {
		t := &w.cluster.Targets[i]
		if t.Owner.UID != owner.UID || len(w.acting(i)) == 0 || w.well(i) {
			continue
		}
		if youngest == nil || t.Created.After(youngest.Created) || (t.Created.Equal(youngest.Created) && t.ID.Compare(youngest.ID) < 0) {
			youngest = t
		}
	}
	return youngest
}

// lived reports whether a machine of the pool that was made since was up for an hour before it failed. It also
// reports true for a machine that is healthy but for a user's request.
func (w *twin) lived(owner core.ID, after time.Time) bool {
	calm := w.cluster
	calm.Targets = slices.Clone(calm.Targets)
	for i := range calm.Targets {
		calm.Targets[i].RemediationRequested, calm.Targets[i].RepairRequest = false, core.RepairRequest{}
	}
	byUser := map[[2]int]bool{}
	for _, v := range w.drawn.decide().Verdicts {
		byUser[[2]int{v.Target, v.Policy}] = v.Reason == core.RemediationRequested
	}
	for _, v := range core.Decide(w.policies, calm, w.now).Verdicts {
		t, p := &calm.Targets[v.Target], &w.policies[v.Policy]
		if t.Owner.UID != owner.UID || p.DryRun || t.Created.Before(after) {
			continue
		}
		if byUser[[2]int{v.Target, v.Policy}] && t.Premature == "" && naiveHealth(p, t, w.now) == "healthy" {
			return true
		}
		if w.stoodFor(t, p, v) >= time.Hour {
			return true
		}
	}
	return false
}

// stoodFor is how long a machine has been up before it failed, as far as times of the cluster tell.
func (w *twin) stoodFor(t *core.Target, p *core.Policy, v core.Verdict) time.Duration {
	failed := v.Since
	switch v.Reason { //nolint:exhaustive // the others don't tell
	case core.ConditionMet:
	case core.TargetFailed, core.TargetConditionMet:
		if t.Node.State == core.NodeAwaited {
			return 0
		}
	case core.ConditionsMet:
		failed, _ = w.dated(t, p)
	default:
		return 0
	}
	return failed.Sub(t.Created)
}

// dated returns the earliest time at which any group that holds may have begun to, by the times of conditions. It
// also reports whether a beginning was missed.
func (w *twin) dated(t *core.Target, p *core.Policy) (earliest time.Time, missed bool) {
	earliest = w.now
	for _, g := range p.Criteria.Groups {
		if naiveGroup(g, t, w.now) == "healthy" {
			continue
		}
		turned := time.Time{}
		for _, test := range g.Tests {
			for _, have := range t.Node.Conditions {
				if have.Type == test.Type && have.Since.After(turned) {
					turned = have.Since
				}
			}
			caught := slices.IndexFunc(t.TestsSeen, func(s core.SeenTest) bool { return s.Test == test && s.Node == t.Node.UID })
			missed = missed || ((test.Missing || test.Reason != "") && (caught < 0 || !t.TestsSeen[caught].StartSeen))
		}
		if turned.Before(earliest) {
			earliest = turned
		}
	}
	return earliest, missed
}

// resumed is the earliest time at which a policy that gives up was resumed; zero where one of them was not.
func (w *twin) resumed(target int) time.Time {
	var at []time.Time
	for _, i := range w.acting(target) {
		switch b := w.policies[i].Backoff; {
		case b.GiveUpAfter == 0:
		case b.ResumedAt.After(w.now):
			return time.Time{}
		default:
			at = append(at, b.ResumedAt)
		}
	}
	if len(at) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(at, time.Time.Compare)
}

// failedAt is when a target became unhealthy for the policy that leads, zero when that is not known.
func (w *twin) failedAt(target, lead int) time.Time {
	for _, v := range w.drawn.decide().Verdicts {
		if v.Target == target && v.Policy == lead && !v.Since.IsZero() {
			return slices.MinFunc([]time.Time{w.now, v.Since.Add(v.Limit)}, time.Time.Compare)
		}
	}
	return time.Time{}
}

func (w *twin) proven(owner core.ID, after time.Time) bool {
	for i := range w.cluster.Targets {
		t := &w.cluster.Targets[i]
		if t.Owner.UID != owner.UID || t.Created.Before(after) || len(w.acting(i)) == 0 {
			continue
		}
		if w.well(i) {
			return true
		}
	}
	return false
}

// well reports whether everybody who acts finds a target healthy.
func (w *twin) well(target int) bool {
	t, well := &w.cluster.Targets[target], true
	for _, p := range w.acting(target) {
		leavesWell := t.Deleting && !naiveUnsound(&w.policies[p], t, w.now)
		well = well && t.Premature == "" && (leavesWell || naiveHealth(&w.policies[p], t, w.now) == "healthy")
	}
	return well
}
