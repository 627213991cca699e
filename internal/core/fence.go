package core

import "slices"

// Two leaders at once must not together exceed a limit, which each of them keeps by what its caches
// show. So each records its repairs first, then reads from the API server itself what runs, and
// begins only what the limits allow with all of that:
//
//	leader A   record x ─── read {x}    ─── begin x
//	leader B     record y ─── read {x, y} ─── y waits
//
// Of two repairs the later recorded is in no way overlooked: whoever recorded it has read the other
// one after that. The ledger's own order says which is the later, so that both leaders agree.

// Contested tells whether another leader might start repairs that leave no room for these targets'.
// It might not where nothing limits their number, and each has a node of its own.
func Contested(policies []Policy, fleet *Fleet, d Decision, targets []int) bool {
	asked := make([]bool, len(fleet.Targets))
	for _, t := range targets {
		if fleet.Targets[t].MaybeControlPlane() {
			return true
		}
		asked[t] = true
	}
	if sharesBody(fleet.Targets, asked) {
		return true
	}
	for i := range d.Verdicts {
		p := &policies[d.Verdicts[i].Policy]
		if asked[d.Verdicts[i].Target] && !p.DryRun && !p.MaxInFlight.Unlimited {
			return true
		}
	}
	return false
}

// Fenced is the world to decide in anew before a remedy begins: those of the recorded repairs may
// that are among the acts of this decision. Running must be what the API server itself had, after
// the repairs in question were recorded.
func Fenced(policies []Policy, fleet Fleet, running []Repair) ([]Policy, Fleet) {
	repairs := slices.Clone(running)
	for i := range fleet.Repairs {
		if !fleet.Repairs[i].Running() {
			repairs = append(repairs, fleet.Repairs[i])
		}
	}
	policies, fleet.Targets = withStrangers(policies, &fleet, running)
	fleet.Repairs = repairs
	return policies, fleet
}

// withStrangers adds the targets of repairs that others have recorded meanwhile and that the fleet does not show yet: they
// take their room all the same, in the policy that leads their repair. A target that was never seen may belong to the
// control plane, and counts as if it did. A target about which requests are seen is gone, and was decided on as such, and so
// was one whose repair this fleet shows and whose requests can't be seen.
func withStrangers(policies []Policy, fleet *Fleet, running []Repair) ([]Policy, []Target) {
	known := make(map[ID]bool, len(fleet.Targets))
	for i := range fleet.Requests {
		if q := &fleet.Requests[i]; q.Own {
			known[q.Target] = true
		}
	}
	before := &deliberation{policies: policies, fleet: fleet}
	for i := range fleet.Repairs {
		if r := &fleet.Repairs[i]; r.Running() && (before.blind(r) || before.unreadable(i, none, false)) {
			known[r.Target] = true
		}
	}
	for i := range fleet.Targets {
		known[fleet.Targets[i].ID] = true
	}
	policies, targets := slices.Clone(policies), slices.Clip(fleet.Targets)
	for i := range running {
		r := &running[i]
		if known[r.Target] {
			continue
		}
		known[r.Target] = true
		targets = append(targets, Target{
			ID: r.Target, Owner: r.Owner, Deleting: true, Failed: true, ControlPlane: !fleet.Workers[r.Target],
		})
		for j := range policies {
			if policies[j].ID == r.Policy {
				policies[j].Members = append(slices.Clip(policies[j].Members), len(targets)-1)
			}
		}
	}
	return policies, targets
}
