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

// assessment is the facts of one cluster at one instant, the core's decision on them, and indices of both.
type assessment struct {
	at time.Time
	// key is a workload cluster, or zero for the user's own cluster.
	key core.ClusterKey
	// blocked says why no target can be judged from here, or is nil. If it is set, statusReaders have the known facts.
	blocked       *Blocked
	statusReaders []StatusReader

	policies []core.Policy
	cluster  core.Cluster
	decision core.Decision
	// repairDetails are those of cluster.Repairs.
	repairDetails []ledger.Details
	// dialectOf has the dialect of each policy, kindOf the kind of its targets, and reports its report.
	dialectOf []Dialect
	kindOf    []string
	reports   []core.PolicyReport
	unread    unreadReasons
	// bmcs are nil where no step needs them. fencings are by the kind and the namespace/name of a remediation.
	bmcs     *bmcReading
	fencings map[string]Fencing
	// promises are nil where no step needs them, and for a workload cluster.
	promises *promiseReading
	// foreignWriters has the controller's messages about another controller, by policy.
	foreignWriters map[core.ID]string

	// groups has the group of each target. A Machine and its Node are one group.
	groups []int
	// verdictsOf is by target, and groupVerdicts by group. Both are in the order of the policies' age.
	verdictsOf, groupVerdicts map[int][]core.Verdict
	// The following maps are by target.
	refusalsOf    map[int][]core.Refusal
	startOf       map[int]core.Start
	dryRuns       map[int][]core.Start
	actOf         map[int]core.StepStart
	advanceOf     map[int]core.Escalation
	withdrawalsOf map[int][]core.Withdrawal
	// finishOf is by repair. running has the repair of each group.
	finishOf map[int]core.Finish
	running  map[int]int
	// byID has the targets.
	byID map[core.ID]int
}

// observed is what one dialect sees of a cluster.
type observed struct {
	ClusterObservation

	dialect        Dialect
	statusReader   StatusReader
	foreignWriters foreignWriters
}

// newAssessment decides on observations of one cluster, its repairs and the external facts.
func newAssessment(cluster core.ClusterKey, observations []observed, repairDetails map[string]ledger.Details, external *externalFacts, at time.Time) *assessment {
	w := &assessment{at: at, key: cluster, cluster: core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes}, unread: external.unread, fencings: external.fencings, foreignWriters: map[core.ID]string{}}
	if cluster == (core.ClusterKey{}) {
		w.bmcs, w.promises = external.bmcs, external.promises
	} else {
		w.unread.upgrade, w.unread.leases = "", "" // they are about the user's own cluster
	}
	kinds := map[string]bool{}
	for i := range observations {
		kinds[observations[i].Kind] = true
		w.add(&observations[i])
	}
	for _, key := range slices.Sorted(maps.Keys(repairDetails)) {
		if a := repairDetails[key]; !a.Ignored && a.Cluster == cluster && kinds[a.Target.Kind] {
			w.cluster.Repairs = append(w.cluster.Repairs, a.Repair)
			w.repairDetails = append(w.repairDetails, a)
		}
	}
	w.holdByClock()
	core.LimitVerdicts(w.policies, w.cluster.Targets, core.MaxVerdicts(len(w.cluster.Targets)))
	external.addTo(w.policies, &w.cluster, cluster, at)
	w.cluster.Requests = slices.DeleteFunc(w.cluster.Requests, func(r core.Request) bool { return !kinds[r.Target.Kind] })
	// When the controller has first seen a state of the future is not known here: it counts from now.
	new(core.Expectations).OverlayTimes(&w.cluster, at)
	w.decide()
	return w
}

// holdByClock holds each policy back by the controller's clock in its own status. A status may be old, or forged by a
// user who may write it, so it holds back no other policy.
func (w *assessment) holdByClock() {
	w.cluster.ClockGates = map[core.ID]core.Gate{}
	for i := range w.policies {
		if p := &w.policies[i]; p.ClockGate != 0 {
			w.cluster.ClockGates[p.ID] = p.ClockGate
		}
	}
}

// decide decides again on the facts.
func (w *assessment) decide() {
	w.decision = core.Decide(w.policies, w.cluster, w.at)
	for i := range w.decision.Verdicts {
		v := &w.decision.Verdicts[i]
		if p := &w.policies[v.Policy]; p.Unparsable && v.Health == core.Healthy {
			// It meets none of the criteria that can be read. Nothing is taken back for that, and it isn't counted.
			v.Health, v.Reason, v.Detail = core.Undetermined, core.TargetUnreadable, p.Problem
			w.decision.Tallies[v.Policy].Healthy--
		}
	}
	w.index()
}

// add appends an observation of one dialect. Its members are indices of its own targets.
func (w *assessment) add(o *observed) {
	first := len(w.cluster.Targets)
	if o.Observed != core.Yes {
		w.cluster.Observed = core.Unknown
	}
	if o.Blocked != nil {
		w.blocked = o.Blocked
	}
	w.cluster.Upgrading, w.cluster.UpgradingWhy = o.Upgrading, o.UpgradingWhy
	if o.statusReader != nil {
		w.statusReaders = append(w.statusReaders, o.statusReader)
	}
	for _, p := range o.Policies {
		members := make([]int, len(p.Members))
		for i, m := range p.Members {
			members[i] = m + first
		}
		p.Members = members
		w.policies = append(w.policies, p)
		w.foreignWriters[p.ID] = o.foreignWriters[p.ID.UID]
		w.dialectOf, w.kindOf = append(w.dialectOf, o.dialect), append(w.kindOf, o.Kind)
	}
	w.cluster.Targets = append(w.cluster.Targets, o.Targets...)
	w.cluster.Requests = append(w.cluster.Requests, o.Requests...)
}

func (w *assessment) index() {
	d := &w.decision
	w.reports = d.Reports(w.policies, &w.cluster)
	w.groups = core.Groups(w.cluster.Targets)
	w.verdictsOf, w.groupVerdicts = map[int][]core.Verdict{}, map[int][]core.Verdict{}
	for _, v := range d.Verdicts {
		w.verdictsOf[v.Target] = append(w.verdictsOf[v.Target], v)
		w.groupVerdicts[w.groups[v.Target]] = append(w.groupVerdicts[w.groups[v.Target]], v)
	}
	w.refusalsOf = map[int][]core.Refusal{}
	for _, r := range d.Refusals {
		if _, hidden := w.hidden(r); hidden {
			r.Until = time.Time{} // the instant is not real
		}
		w.refusalsOf[r.Target] = append(w.refusalsOf[r.Target], r)
	}
	w.indexActions()
	w.indexRepairs()
}

func (w *assessment) indexActions() {
	d := &w.decision
	w.startOf, w.dryRuns, w.actOf = map[int]core.Start{}, map[int][]core.Start{}, map[int]core.StepStart{}
	w.advanceOf, w.withdrawalsOf, w.finishOf = map[int]core.Escalation{}, map[int][]core.Withdrawal{}, map[int]core.Finish{}
	for _, s := range d.Starts {
		w.startOf[s.Target] = s
	}
	for _, s := range d.DryRunStarts {
		w.dryRuns[s.Target] = append(w.dryRuns[s.Target], s)
	}
	for _, a := range d.StepStarts {
		w.actOf[a.Target] = a
	}
	for _, a := range d.Escalations {
		w.advanceOf[a.Target] = a
	}
	for _, g := range d.Withdrawals {
		w.withdrawalsOf[g.Target] = append(w.withdrawalsOf[g.Target], g)
	}
	for _, f := range d.Finishes {
		w.finishOf[f.Repair] = f
	}
}

// indexRepairs finds the running repair of each group: the oldest.
func (w *assessment) indexRepairs() {
	w.running = map[int]int{}
	w.byID = make(map[core.ID]int, len(w.cluster.Targets))
	for i := range w.cluster.Targets {
		w.byID[w.cluster.Targets[i].ID] = i
	}
	for i := range w.cluster.Repairs {
		r := &w.cluster.Repairs[i]
		t, exists := w.byID[r.Target]
		if !exists || !r.Running() {
			continue
		}
		group := w.groups[t]
		if before, taken := w.running[group]; !taken || older(r, &w.cluster.Repairs[before]) {
			w.running[group] = i
		}
	}
}

func older(a, b *core.Repair) bool {
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), a.Started.Compare(b.Started), strings.Compare(a.Name, b.Name)) < 0
}

// repairOf returns the running repair of a target's group, by its index.
func (w *assessment) repairOf(target int) (int, bool) {
	repair, under := w.running[w.groups[target]]
	return repair, under
}

// isOf reports whether a repair is of the target itself, and not of another with the same node.
func (w *assessment) isOf(repair, target int) bool {
	return w.cluster.Repairs[repair].Target == w.cluster.Targets[target].ID
}

// lead returns the leading verdict on a target's group. Its policy is that of the running repair, or else the oldest
// that finds the group unhealthy. The verdict names its target.
func (w *assessment) lead(target int) (core.Verdict, bool) {
	repair, repaired := w.repairOf(target)
	for _, v := range w.groupVerdicts[w.groups[target]] {
		p := &w.policies[v.Policy]
		switch {
		case p.DryRun:
		case repaired && p.ID == w.cluster.Repairs[repair].Policy && w.isOf(repair, v.Target),
			!repaired && v.Health == core.Unhealthy:
			return v, true
		}
	}
	return core.Verdict{}, false
}

// worst returns the most severe verdict on a target. Dry runs count only without others.
func (w *assessment) worst(target int) (core.Verdict, bool) {
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

// hidden says why it is not known whether a gate holds: the user may not read a fact that the controller uses.
func (w *assessment) hidden(r core.Refusal) (why string, is bool) {
	switch r.Gate { //nolint:exhaustive // the others go by what was read
	case core.ClusterUpgrading:
		why = w.unread.upgrade
		return "it is not known whether the cluster is being upgraded: " + why, why != ""
	case core.LeaseHeld:
		why = w.unread.leases
		return "it is not known whether another holder has the lease of its node: " + why, why != ""
	case core.QuorumUnknown:
		why, is = w.unread.quorum[w.cluster.Targets[r.Target].ID.UID]
		return "it is not known whether the cluster's quorum survives while it is out: " + why, is
	case core.TemplateUnusable:
		return w.hiddenRequests(w.unusableSteps(r))
	case core.RequestsUnseen:
		return w.hiddenRequests(w.policySteps(r.Policy, r.Target))
	}
	return "", false
}

// unusableSteps returns the step for which TemplateUnusable holds, or none. It is the first of the policy's steps that can't be taken, or else of
// the steps of the repair.
func (w *assessment) unusableSteps(r core.Refusal) []core.Step {
	t := &w.cluster.Targets[r.Target]
	for _, steps := range [][]core.Step{w.policies[r.Policy].StepsFor(t), w.policySteps(r.Policy, r.Target)} {
		if step := core.UnusableStep(steps, t); step != nil {
			return []core.Step{*step}
		}
	}
	return nil
}

// hiddenRequests says why the remediation objects of steps are not known: the user may not read them.
func (w *assessment) hiddenRequests(steps []core.Step) (why string, is bool) {
	for _, step := range steps {
		if why, is := w.unread.requests(step); is {
			return "the state of its remediation objects is not known: " + why, true
		}
	}
	return "", false
}

func (w *assessment) isHidden(r core.Refusal) bool {
	_, is := w.hidden(r)
	return is
}

// policySteps returns the steps by which a policy repairs a target: those of the running repair, if the policy leads it.
func (w *assessment) policySteps(policy, target int) []core.Step {
	for i := range w.cluster.Repairs {
		r := &w.cluster.Repairs[i]
		if r.Running() && r.Target == w.cluster.Targets[target].ID && r.Policy == w.policies[policy].ID {
			return r.Steps
		}
	}
	return w.policies[policy].StepsFor(&w.cluster.Targets[target])
}

// gravity orders verdicts by their severity, the most severe first.
func gravity(h core.Health) int {
	return slices.Index([]core.Health{core.Unhealthy, core.Gone, core.Undetermined, core.Suspect, core.Healthy}, h)
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
