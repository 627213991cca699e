package cli

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// nameOf returns the name of an ID, as an argument of explain.
func nameOf(id core.ID) string { return id.Name }

// isIn reports whether an object is in a namespace, or is cluster-scoped. An empty namespace is any.
func isIn(id core.ID, namespace string) bool {
	return namespace == "" || id.Namespace == "" || id.Namespace == namespace
}

func reference(id core.ID) Reference {
	return Reference{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, UID: id.UID}
}

func ownerOf(id core.ID) *Reference {
	if id.UID == "" {
		return nil
	}
	r := reference(id)
	return &r
}

// controllerOf says whether a controller leads at an instant.
func controllerOf(lease *coordinationv1.Lease, unknown, namespace string, at time.Time) *Controller {
	c := &Controller{Leads: "unknown", Lease: namespace + "/" + leaseName}
	if lease == nil {
		c.Message = "It is not known whether a Fettle controller runs: " + unknown + "."
		return c
	}
	var renewed time.Time
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	if lease.Spec.LeaseDurationSeconds != nil {
		c.Duration = int(*lease.Spec.LeaseDurationSeconds)
	}
	if lease.Spec.HolderIdentity != nil {
		c.Holder = *lease.Spec.HolderIdentity
	}
	c.Renewed = instant(renewed)
	switch {
	case c.Holder == "":
		c.Leads, c.Message = "no", "NO LEADER: no Fettle controller holds the lease, so nothing will be repaired."
	case renewed.Add(time.Duration(c.Duration) * time.Second).Before(at):
		c.Leads, c.Message = "no", "NO LEADER: the last Fettle controller has not renewed its lease, so nothing will be repaired."
	default:
		c.Leads = "yes"
	}
	return c
}

func (w *assessment) healthCheck(i int) HealthCheck {
	p, t := &w.policies[i], w.decision.Tallies[i]
	h := HealthCheck{
		Reference: reference(p.ID), Cluster: w.key.Name, TargetKind: w.kindOf[i],
		Total: t.Total, Healthy: t.Healthy, MostUnhealthy: t.MaxUnhealthy,
		Repairs: repairsAllowed, DryRun: p.DryRun, InFlight: w.inFlight(i), Next: w.nextOfPolicy(i),
		Phase: w.phase(i),
	}
	if t.MaxInFlight != math.MaxInt {
		h.MostInFlight = &t.MaxInFlight
	}
	if w.blocked != nil {
		w.useWrittenStatus(i, &h)
		return h
	}
	if r, stopped := w.stopped(i); stopped {
		h.Repairs, h.Reason, h.Message, h.Until = repairsStopped, r.Gate.String(), r.Text(), instant(r.Until)
	} else if why, hidden := w.hiddenSteps(i); hidden {
		h.Repairs, h.Reason = repairsUnknown, "TemplatesUnread"
		h.Message = "it is not known whether its steps can be taken: " + why
	}
	return h
}

// hiddenSteps says why it is not known whether the steps of a policy can be taken. It reports false where that is
// known.
func (w *assessment) hiddenSteps(policy int) (string, bool) {
	p := &w.policies[policy]
	for _, step := range slices.Concat(p.Steps, p.FailedSteps) {
		if why, hidden := w.unread.requests(step); hidden {
			return why, true
		}
	}
	return "", false
}

// phase returns the phase of a policy in one word. It is empty when it depends on templates that the user may not read.
func (w *assessment) phase(policy int) string {
	p := &w.policies[policy]
	if p.Problem == "" && slices.ContainsFunc(p.Steps, func(s core.Step) bool { _, hidden := w.unread.requests(s); return hidden }) {
		return ""
	}
	return w.dialectOf[policy].Phase(w.reports[policy])
}

// stopped returns the gate that holds back every repair of a policy.
func (w *assessment) stopped(policy int) (core.Refusal, bool) {
	p := &w.policies[policy]
	r, stopped := core.PolicyRefusal(p, w.decision.Tallies[policy])
	if stopped && r.Gate != core.StormCooldown {
		return r, true
	}
	if p.ClockGate != 0 {
		return core.Refusal{Gate: p.ClockGate}, true
	}
	if p.WaitsForUpgrades && w.cluster.Upgrading != core.No {
		if upgrade := w.upgradeRefusal(p); !w.isHidden(upgrade) {
			return upgrade, true
		}
	}
	for _, step := range p.Steps {
		if _, hidden := w.unread.requests(step); step.Problem != "" && !hidden {
			return core.Refusal{Gate: core.TemplateUnusable, Detail: step.Problem}, true
		}
	}
	return r, stopped
}

// inFlight counts the members of a policy that are under repair already. The tally also counts repairs that are about
// to start.
func (w *assessment) inFlight(policy int) int {
	n := w.decision.Tallies[policy].InFlight
	for _, s := range w.decision.Starts {
		if w.judges(policy, s.Target) {
			n--
		}
	}
	for _, s := range w.decision.DryRunStarts {
		if s.Policy == policy {
			n--
		}
	}
	return n
}

// judges reports whether a policy selects a member of a target's group.
func (w *assessment) judges(policy, target int) bool {
	return slices.ContainsFunc(w.groupVerdicts[w.groups[target]], func(v core.Verdict) bool { return v.Policy == policy })
}

func (w *assessment) verdictOf(policy, target int) (core.Verdict, bool) {
	for _, v := range w.verdictsOf[target] {
		if v.Policy == policy {
			return v, true
		}
	}
	return core.Verdict{}, false
}

func (w *assessment) target(i int) Target {
	t := &w.cluster.Targets[i]
	out := Target{
		Reference: reference(t.ID), Cluster: w.key.Name, Node: t.Node.Name, Owner: ownerOf(t.Owner),
		Health: "unjudged", Verdicts: []Verdict{},
	}
	if v, judged := w.worst(i); judged {
		out.Health, out.Reason, out.Since, out.Until = v.Health.String(), v.Reason.String(), instant(v.Since), instant(v.Until)
	}
	if r, runs := w.repairOf(i); runs {
		out.Repair = w.cluster.Repairs[r].Name
	}
	lead, leads := w.lead(i)
	out.Lead = w.leadOf(i)
	for _, v := range w.verdictsOf[i] {
		out.Verdicts = append(out.Verdicts, Verdict{
			HealthCheck: nameOf(w.policies[v.Policy].ID), HealthCheckKind: w.policies[v.Policy].ID.Kind,
			Health: v.Health.String(), Reason: v.Reason.String(),
			Message: verdictText(v), Since: instant(v.Since), Until: instant(v.Until),
			Leads: leads && lead.Policy == v.Policy && lead.Target == i, DryRun: w.policies[v.Policy].DryRun,
		})
	}
	for _, r := range w.refusalsOf[i] {
		held := Refusal{
			Gate: r.Gate.String(), HealthCheck: nameOf(w.policies[r.Policy].ID), HealthCheckKind: w.policies[r.Policy].ID.Kind,
			Message: w.textOf(r), Until: instant(r.Until), DryRun: r.DryRun,
		}
		if repair, runs := w.repairOf(i); r.Gate == core.AttemptPause && runs && w.repairDetails[repair].LastError != "" {
			held.Message += "; the last error is: " + w.repairDetails[repair].LastError
		}
		if why, hidden := w.hidden(r); hidden {
			held.Message, held.Unknown = why, true
		}
		out.HeldBy = append(out.HeldBy, held)
	}
	if w.blocked != nil {
		w.useWrittenHealth(i, &out)
	}
	return out
}

// leadOf returns the health check that leads the repair of a target's group, or nil.
func (w *assessment) leadOf(target int) *Lead {
	v, leads := w.lead(target)
	if !leads {
		return nil
	}
	l := &Lead{HealthCheck: reference(w.policies[v.Policy].ID)}
	if v.Target != target {
		of := reference(w.cluster.Targets[v.Target].ID)
		l.Of = &of
	}
	return l
}

// verdictText returns the text of a verdict. For a target that is being deleted it says whether the target was healthy.
func verdictText(v core.Verdict) string {
	if v.Health == core.Gone && !v.WasUnhealthy {
		return "it is being deleted, and was healthy"
	}
	if v.Health == core.Gone {
		return "it is being deleted; " + v.Text()
	}
	return v.Text()
}

// repair returns a repair, by its index in the cluster.
func (w *assessment) repair(i int) Repair {
	r := &w.repairDetails[i]
	out := Repair{
		Namespace: r.Namespace, Name: r.Name, Cluster: r.Cluster.Name, Node: r.Node, HealthCheck: r.Policy.Name, HealthCheckKind: r.Policy.Kind,
		Target: reference(r.Target), Owner: ownerOf(r.Owner), Remedies: []string{}, Steps: w.stepsOf(i),
		Reason: r.Reason, Message: r.Message, Progress: r.Progress, Answer: r.Answer, Phase: cmp.Or(r.Phase, string(v1alpha1.RepairRunning)),
		UnhealthySince: instant(r.UnhealthySince), Started: instant(r.Started), Finished: instant(r.Ended), Retry: r.Retry,
		Attempts: r.Attempts, LastAttempt: instant(r.LastAttempt), LastError: r.LastError, Evidence: evidenceOf(r.Evidence), Problem: r.Problem,
	}
	for _, step := range r.Steps {
		out.Remedies = append(out.Remedies, step.Remedy)
	}
	return out
}

// buildStatus returns the answer of fettle status for a namespace, or for all. It includes cluster-scoped objects.
func buildStatus(assessments []*assessment, namespace string, h Header) Status {
	h.Kind = kindStatus
	within := func(id core.ID) bool { return isIn(id, namespace) }
	s := Status{Header: h, HealthChecks: []HealthCheck{}, NotHealthy: []Target{}, Repairs: []Repair{}}
	for _, w := range assessments {
		if w.bmcs != nil {
			s.UnreachableBMCs = w.bmcs.notReachable()
		}
		with, without := w.promises.all()
		s.WithPromise, s.WithoutPromise = append(s.WithPromise, with...), append(s.WithoutPromise, without...)
		for i := range w.policies {
			if within(w.policies[i].ID) {
				s.HealthChecks = append(s.HealthChecks, w.healthCheck(i))
			}
		}
		for i := range w.cluster.Repairs {
			if r := &w.cluster.Repairs[i]; r.Running() && within(r.Target) {
				s.Repairs = append(s.Repairs, w.repair(i))
			}
		}
	}
	slices.SortStableFunc(s.HealthChecks, func(a, b HealthCheck) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	for _, n := range notHealthy(assessments) {
		if within(n.in.cluster.Targets[n.target].ID) {
			s.NotHealthy = append(s.NotHealthy, n.in.target(n.target))
		}
	}
	slices.SortStableFunc(s.Repairs, func(a, b Repair) int {
		if a.Started == nil || b.Started == nil {
			return compareBool(a.Started == nil, b.Started == nil)
		}
		return a.Started.Compare(*b.Started)
	})
	return s
}

// notHealthyTarget is a target that is not known to be healthy, with its most severe verdict.
type notHealthyTarget struct {
	in     *assessment
	target int
	worst  core.Verdict
}

// notHealthy returns the targets that a policy does not find healthy, or that are under repair.
func notHealthy(assessments []*assessment) []notHealthyTarget {
	var found []notHealthyTarget
	for _, w := range assessments {
		for i := range w.cluster.Targets {
			if v, ails := w.isNotHealthy(i); ails {
				found = append(found, notHealthyTarget{w, i, v})
			}
		}
	}
	sortNotHealthy(found)
	return found
}

// sortNotHealthy sorts by severity, then by the next deadline, then by age.
func sortNotHealthy(found []notHealthyTarget) {
	slices.SortFunc(found, func(a, b notHealthyTarget) int {
		return cmp.Or(
			cmp.Compare(gravity(a.worst.Health), gravity(b.worst.Health)),
			compareInstants(a.worst.Until, b.worst.Until),
			compareInstants(a.worst.Since, b.worst.Since),
			a.in.cluster.Targets[a.target].ID.Compare(b.in.cluster.Targets[b.target].ID),
		)
	})
}

// isNotHealthy reports whether a target is not known to be healthy. A target that can't be judged from here counts as
// its own conditions say.
func (w *assessment) isNotHealthy(target int) (core.Verdict, bool) {
	v, judged := w.worst(target)
	_, repaired := w.repairOf(target)
	if !judged {
		return v, false
	}
	if health, says := w.writtenHealth(target); w.blocked != nil && !w.blocked.Halted && says {
		v.Health, v.Since = core.Unhealthy, health.Since
		return v, !health.Healthy || repaired
	}
	return v, repaired || w.isDoubted(target)
}

func (w *assessment) isDoubted(target int) bool {
	return slices.ContainsFunc(w.verdictsOf[target], func(v core.Verdict) bool { return v.Health != core.Healthy })
}
