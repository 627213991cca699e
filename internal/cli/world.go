package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// world is the facts of one cluster at one instant and what the core decides on them, with what belongs to a target
// within reach.
type world struct {
	at time.Time
	// cluster is a workload cluster, and the zero one is the cluster that was read itself.
	cluster ledger.Fleet
	// blind says why nothing of it can be judged from here, nil when it can. Then witnesses tell what there is to tell.
	blind     *Blindness
	witnesses []Witness

	policies []core.Policy
	fleet    core.Fleet
	decision core.Decision
	// accounts are those of fleet.Repairs.
	accounts []ledger.Account
	// dialectOf gives the dialect of each policy, kindOf the kind of its targets, and reports what was found for it.
	dialectOf []Dialect
	kindOf    []string
	reports   []core.PolicyReport
	unread    unread
	// rivals are what the controller has written of another controller, by policy.
	rivals map[core.ID]string

	// bodies are those of the targets, and parts the targets of each: a Machine and its Node are one.
	bodies []int
	parts  map[int][]int
	// verdictsOf are by target, and bodyVerdicts by body; both in the order of the policies' age.
	verdictsOf, bodyVerdicts map[int][]core.Verdict
	// What follows is by target.
	refusalsOf    map[int][]core.Refusal
	startOf       map[int]core.Start
	rehearsals    map[int][]core.Start
	actOf         map[int]core.Act
	advanceOf     map[int]core.Advance
	withdrawalsOf map[int][]core.Withdrawal
	// finishOf is by repair, as running is its repair by body.
	finishOf map[int]core.Finish
	running  map[int]int
	// byID are the targets.
	byID map[core.ID]int
}

// observed is what one dialect sees of a cluster.
type observed struct {
	Fleet

	dialect Dialect
	witness Witness
	rivals  rivals
}

// newWorld decides on observations of one cluster, the ledger and what else was read.
func newWorld(cluster ledger.Fleet, observations []observed, accounts map[string]ledger.Account, around *surroundings, at time.Time) *world {
	w := &world{at: at, cluster: cluster, fleet: core.Fleet{Observed: core.Yes, ClockAgrees: core.Yes}, unread: around.unread, rivals: map[core.ID]string{}}
	if cluster != (ledger.Fleet{}) {
		w.unread.upgrade = "" // that is about the cluster that was read
	}
	kinds := map[string]bool{}
	for i := range observations {
		kinds[observations[i].Kind] = true
		w.add(&observations[i])
	}
	for _, key := range slices.Sorted(maps.Keys(accounts)) {
		if a := accounts[key]; !a.Ignored && a.Fleet == cluster && kinds[a.Target.Kind] {
			w.fleet.Repairs = append(w.fleet.Repairs, a.Repair)
			w.accounts = append(w.accounts, a)
		}
	}
	w.holdByClock()
	core.Ration(w.policies, w.fleet.Targets, core.MostJudgements(len(w.fleet.Targets)))
	around.lay(w.policies, &w.fleet, cluster, at)
	w.fleet.Requests = slices.DeleteFunc(w.fleet.Requests, func(r core.Request) bool { return !kinds[r.Target.Kind] })
	// When the controller has first seen a state of the future is not known here: it counts from now.
	new(core.Memory).LayInstants(&w.fleet, at)
	w.decide()
	return w
}

// holdByClock holds each policy back by what its own status says of the controller's clock. A status may be old, or forged by
// who may write it, so it holds back no other policy.
func (w *world) holdByClock() {
	w.fleet.ClockHeld = map[core.ID]core.Gate{}
	for i := range w.policies {
		if p := &w.policies[i]; p.ClockHeld != 0 {
			w.fleet.ClockHeld[p.ID] = p.ClockHeld
		}
	}
}

// decide decides anew on the facts.
func (w *world) decide() {
	w.decision = core.Decide(w.policies, w.fleet, w.at)
	for i := range w.decision.Verdicts {
		v := &w.decision.Verdicts[i]
		if p := &w.policies[v.Policy]; p.Illegible && v.Health == core.Healthy {
			// It meets none of the criteria that can be read. Nothing is taken back for that, and it isn't counted.
			v.Health, v.Reason, v.Detail = core.Undetermined, core.TargetUnreadable, p.Problem
			w.decision.Tallies[v.Policy].Healthy--
		}
	}
	w.index()
}

// add appends what one dialect sees. Members are indices into its own targets.
func (w *world) add(o *observed) {
	first := len(w.fleet.Targets)
	if o.Observed != core.Yes {
		w.fleet.Observed = core.Unknown
	}
	if o.Blind != nil {
		w.blind = o.Blind
	}
	w.fleet.Upgrading, w.fleet.UpgradingWhy = o.Upgrading, o.UpgradingWhy
	if o.witness != nil {
		w.witnesses = append(w.witnesses, o.witness)
	}
	for _, p := range o.Policies {
		members := make([]int, len(p.Members))
		for i, m := range p.Members {
			members[i] = m + first
		}
		p.Members = members
		w.policies = append(w.policies, p)
		w.rivals[p.ID] = o.rivals[p.ID.UID]
		w.dialectOf, w.kindOf = append(w.dialectOf, o.dialect), append(w.kindOf, o.Kind)
	}
	w.fleet.Targets = append(w.fleet.Targets, o.Targets...)
	w.fleet.Requests = append(w.fleet.Requests, o.Requests...)
}

func (w *world) index() {
	d := &w.decision
	w.reports = d.Reports(w.policies, &w.fleet)
	w.bodies, w.parts = core.Bodies(w.fleet.Targets), map[int][]int{}
	for i, body := range w.bodies {
		w.parts[body] = append(w.parts[body], i)
	}
	w.verdictsOf, w.bodyVerdicts = map[int][]core.Verdict{}, map[int][]core.Verdict{}
	for _, v := range d.Verdicts {
		w.verdictsOf[v.Target] = append(w.verdictsOf[v.Target], v)
		w.bodyVerdicts[w.bodies[v.Target]] = append(w.bodyVerdicts[w.bodies[v.Target]], v)
	}
	w.refusalsOf = map[int][]core.Refusal{}
	for _, r := range d.Refusals {
		if _, hidden := w.hidden(r); hidden {
			r.Until = time.Time{} // the instant is made up
		}
		w.refusalsOf[r.Target] = append(w.refusalsOf[r.Target], r)
	}
	w.indexDeeds()
	w.indexRepairs()
}

func (w *world) indexDeeds() {
	d := &w.decision
	w.startOf, w.rehearsals, w.actOf = map[int]core.Start{}, map[int][]core.Start{}, map[int]core.Act{}
	w.advanceOf, w.withdrawalsOf, w.finishOf = map[int]core.Advance{}, map[int][]core.Withdrawal{}, map[int]core.Finish{}
	for _, s := range d.Starts {
		w.startOf[s.Target] = s
	}
	for _, s := range d.Rehearsals {
		w.rehearsals[s.Target] = append(w.rehearsals[s.Target], s)
	}
	for _, a := range d.Acts {
		w.actOf[a.Target] = a
	}
	for _, a := range d.Advances {
		w.advanceOf[a.Target] = a
	}
	for _, g := range d.Withdrawals {
		w.withdrawalsOf[g.Target] = append(w.withdrawalsOf[g.Target], g)
	}
	for _, f := range d.Finishes {
		w.finishOf[f.Repair] = f
	}
}

// indexRepairs finds the repair under way of each body: the oldest.
func (w *world) indexRepairs() {
	w.running = map[int]int{}
	w.byID = make(map[core.ID]int, len(w.fleet.Targets))
	for i := range w.fleet.Targets {
		w.byID[w.fleet.Targets[i].ID] = i
	}
	for i := range w.fleet.Repairs {
		r := &w.fleet.Repairs[i]
		t, exists := w.byID[r.Target]
		if !exists || !r.Running() {
			continue
		}
		body := w.bodies[t]
		if before, taken := w.running[body]; !taken || older(r, &w.fleet.Repairs[before]) {
			w.running[body] = i
		}
	}
}

func older(a, b *core.Repair) bool {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), a.Started.Compare(b.Started), strings.Compare(a.Name, b.Name)) < 0
}

// repairOf gives the repair under way of a target's body, by its index.
func (w *world) repairOf(target int) (int, bool) {
	repair, under := w.running[w.bodies[target]]
	return repair, under
}

// isOf tells whether a repair is that of the target itself, and not of another with the same node.
func (w *world) isOf(repair, target int) bool {
	return w.fleet.Repairs[repair].Target == w.fleet.Targets[target].ID
}

// lead gives the policy that leads what happens to a target's body, and its verdict, which names the target that it is
// about: that of the repair which runs, else the oldest that finds the body unhealthy.
func (w *world) lead(target int) (core.Verdict, bool) {
	repair, repaired := w.repairOf(target)
	for _, v := range w.bodyVerdicts[w.bodies[target]] {
		p := &w.policies[v.Policy]
		switch {
		case p.DryRun:
		case repaired && p.ID == w.fleet.Repairs[repair].Policy && w.isOf(repair, v.Target),
			!repaired && v.Health == core.Unhealthy:
			return v, true
		}
	}
	return core.Verdict{}, false
}

// worst gives the verdict that matters most on a target, of the policies that act if there are any.
func (w *world) worst(target int) (core.Verdict, bool) {
	if v, leads := w.lead(target); leads && v.Target == target {
		return v, true
	}
	verdicts := slices.Clone(w.verdictsOf[target])
	if len(verdicts) == 0 {
		return core.Verdict{}, false
	}
	slices.SortStableFunc(verdicts, func(a, b core.Verdict) int {
		return cmp.Or(
			compareBool(w.policies[a.Policy].DryRun, w.policies[b.Policy].DryRun),
			cmp.Compare(gravity(a.Health), gravity(b.Health)),
			compareInstants(a.Until, b.Until),
		)
	})
	return verdicts[0], true
}

// hidden tells why it is not known whether a gate holds: the person may not see what the controller goes by.
func (w *world) hidden(r core.Refusal) (why string, is bool) {
	switch r.Gate { //nolint:exhaustive // the others go by what was read
	case core.ClusterUpgrading:
		why = w.unread.upgrade
		return "it is not known whether the cluster is being upgraded: " + why, why != "" && r.Fact == core.Unknown
	case core.LeaseHeld:
		why = w.unread.leases
		return "it is not known whether another holder has the lease of its node: " + why, why != "" && r.Detail == hiddenHolder
	case core.QuorumUnknown:
		why, is = w.unread.quorum[w.fleet.Targets[r.Target].ID.UID]
		return "it is not known whether the cluster's quorum survives while it is out: " + why, is
	case core.TemplateUnusable, core.RequestsUnseen:
		for _, step := range w.ladderOf(r.Policy, r.Target) {
			if why, is := w.unread.requests(step); is && (r.Gate == core.RequestsUnseen || step.Problem == r.Detail) {
				return "the state of its remediation objects is not known: " + why, true
			}
		}
	}
	return "", false
}

func (w *world) isHidden(r core.Refusal) bool {
	_, is := w.hidden(r)
	return is
}

// ladderOf gives the steps by which a policy repairs a target: those of the repair under way, if it leads that.
func (w *world) ladderOf(policy, target int) []core.Step {
	for i := range w.fleet.Repairs {
		r := &w.fleet.Repairs[i]
		if r.Running() && r.Target == w.fleet.Targets[target].ID && r.Policy == w.policies[policy].ID {
			return r.Ladder
		}
	}
	return w.policies[policy].LadderFor(&w.fleet.Targets[target])
}

// gravity orders verdicts, the gravest first.
func gravity(h core.Health) int {
	switch h {
	case core.Unhealthy:
		return 0
	case core.Gone:
		return 1
	case core.Undetermined:
		return 2
	case core.Suspect:
		return 3
	case core.Healthy:
	}
	return 4
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareInstants orders instants, the zero instant last.
func compareInstants(a, b time.Time) int {
	if c := compareBool(a.IsZero(), b.IsZero()); c != 0 {
		return c
	}
	return a.Compare(b)
}

// asOf decides on the same facts at a later instant, as if nothing changed until then, and as if the controller had first seen now
// what only its memory dates.
func (w *world) asOf(at time.Time) *world {
	then := &world{
		at: at, cluster: w.cluster, blind: w.blind, witnesses: w.witnesses, policies: slices.Clone(w.policies), fleet: w.fleet, accounts: w.accounts,
		dialectOf: w.dialectOf, kindOf: w.kindOf, unread: w.unread,
	}
	for i := range then.policies {
		then.policies[i].Opening = w.decision.Tallies[i].Opening
	}
	then.fleet.Targets = slices.Clone(w.fleet.Targets)
	for i := range then.fleet.Targets {
		t := &then.fleet.Targets[i]
		t.NodeReadAt = at
		if !t.QuorumReadAt.IsZero() {
			t.QuorumReadAt = at
		}
		if t.NodeGoneSince.IsZero() {
			t.NodeGoneSince = w.at
		}
	}
	(&core.Memory{}).LayTests(then.policies, &then.fleet, w.at)
	then.decide()
	return then
}
