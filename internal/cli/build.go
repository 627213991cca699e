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

// nameOf gives an ID as an argument of explain would name it.
func nameOf(id core.ID) string { return id.Name }

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

// controllerOf says who leads as of an instant.
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
		c.Leads, c.Message = "no", "NOBODY LEADS: no Fettle controller holds the lease, so nothing will be repaired."
	case renewed.Add(time.Duration(c.Duration) * time.Second).Before(at):
		c.Leads, c.Message = "no", "NOBODY LEADS: the last Fettle controller has not renewed its lease, so nothing will be repaired."
	default:
		c.Leads = "yes"
	}
	return c
}

func (w *world) healthCheck(i int) HealthCheck {
	p, t := &w.policies[i], w.decision.Tallies[i]
	h := HealthCheck{
		Reference: reference(p.ID), TargetKind: "Machine",
		Total: t.Total, Healthy: t.Healthy, MostUnhealthy: t.MostUnhealthy,
		Repairs: "Allowed", DryRun: p.DryRun, InFlight: w.inFlight(i), Next: w.nextOfPolicy(i),
	}
	if len(p.Members) > 0 {
		h.TargetKind = w.fleet.Targets[p.Members[0]].ID.Kind
	}
	if t.MostInFlight != math.MaxInt {
		h.MostInFlight = &t.MostInFlight
	}
	if r, stopped := core.Stopped(p, t); stopped {
		h.Repairs, h.Reason, h.Message, h.Until = "Stopped", r.Gate.String(), r.Text(), instant(r.Until)
	}
	return h
}

// inFlight counts the members of a policy that are under repair already: the tally also counts those
// whose repair is to start.
func (w *world) inFlight(policy int) int {
	n := w.decision.Tallies[policy].InFlight
	for _, s := range w.decision.Starts {
		if _, selected := w.verdictOf(policy, s.Target); selected {
			n--
		}
	}
	for _, s := range w.decision.Rehearsals {
		if s.Policy == policy {
			n--
		}
	}
	return n
}

func (w *world) verdictOf(policy, target int) (core.Verdict, bool) {
	for _, v := range w.verdictsOf[target] {
		if v.Policy == policy {
			return v, true
		}
	}
	return core.Verdict{}, false
}

func (w *world) target(i int) Target {
	t := &w.fleet.Targets[i]
	out := Target{
		Reference: reference(t.ID), Node: t.Node.Name, Owner: ownerOf(t.Owner),
		Health: "unjudged", Verdicts: []Verdict{},
	}
	if v, judged := w.worst(i); judged {
		out.Health, out.Reason, out.Since, out.Until = v.Health.String(), v.Reason.String(), instant(v.Since), instant(v.Until)
	}
	if r, runs := w.running[i]; runs {
		out.Repair = w.fleet.Repairs[r].Name
	}
	lead, leads := w.lead(i)
	for _, v := range w.verdictsOf[i] {
		out.Verdicts = append(out.Verdicts, Verdict{
			HealthCheck: nameOf(w.policies[v.Policy].ID), Health: v.Health.String(), Reason: v.Reason.String(),
			Message: verdictText(v), Since: instant(v.Since), Until: instant(v.Until),
			Leads: leads && lead.Policy == v.Policy, DryRun: w.policies[v.Policy].DryRun,
		})
	}
	for _, r := range w.refusalsOf[i] {
		out.HeldBy = append(out.HeldBy, Refusal{
			Gate: r.Gate.String(), HealthCheck: nameOf(w.policies[r.Policy].ID), Message: r.Text(),
			Until: instant(r.Until), DryRun: r.Rehearsed,
		})
	}
	return out
}

// verdictText says of a target that is leaving whether it was well.
func verdictText(v core.Verdict) string {
	if v.Health == core.Gone && !v.Unsound {
		return "it is being deleted, and was healthy"
	}
	if v.Health == core.Gone {
		return "it is being deleted; " + v.Text()
	}
	return v.Text()
}

func repairOf(r *v1alpha1.Repair) Repair {
	out := Repair{
		Namespace: r.Namespace, Name: r.Name, Node: r.Spec.Target.Node, HealthCheck: r.Spec.Policy.Name,
		Target: referenceOf(r.Spec.Target.ObjectReference), Remedies: []string{},
		Reason: r.Spec.Reason, Message: r.Spec.Message, Progress: r.Status.Message, Phase: string(r.Status.Phase),
		Started: instant(r.Spec.StartedAt.Time), Retry: int(r.Spec.Retry),
		Attempts: int(r.Status.Attempts), LastError: r.Status.LastError,
	}
	if out.Phase == "" {
		out.Phase = string(v1alpha1.RepairRunning)
	}
	if r.Spec.Owner != nil {
		owner := referenceOf(*r.Spec.Owner)
		out.Owner = &owner
	}
	for _, step := range r.Spec.Ladder {
		out.Remedies = append(out.Remedies, step.Remedy)
	}
	if r.Spec.UnhealthySince != nil {
		out.UnhealthySince = instant(r.Spec.UnhealthySince.Time)
	}
	if r.Status.LastAttempt != nil {
		out.LastAttempt = instant(r.Status.LastAttempt.Time)
	}
	if r.Status.FinishedAt != nil {
		out.Finished = instant(r.Status.FinishedAt.Time)
	}
	return out
}

func referenceOf(r v1alpha1.ObjectReference) Reference {
	return Reference{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

// buildStatus answers fettle status.
func buildStatus(w *world, h Header) Status {
	h.Kind = kindStatus
	s := Status{Header: h, HealthChecks: []HealthCheck{}, NotHealthy: []Target{}, Repairs: []Repair{}}
	for i := range w.policies {
		s.HealthChecks = append(s.HealthChecks, w.healthCheck(i))
	}
	slices.SortStableFunc(s.HealthChecks, func(a, b HealthCheck) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, i := range w.notHealthy() {
		s.NotHealthy = append(s.NotHealthy, w.target(i))
	}
	for i := range w.fleet.Repairs {
		if w.fleet.Repairs[i].Running() {
			s.Repairs = append(s.Repairs, repairOf(w.repairs[i]))
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

// notHealthy gives the targets that some policy does not find healthy, or that are under repair, the
// gravest first, then what ends soonest, then the longest so.
func (w *world) notHealthy() []int {
	worst := map[int]core.Verdict{}
	var found []int
	for i := range w.fleet.Targets {
		v, judged := w.worst(i)
		_, repaired := w.running[i]
		if !judged || (v.Health == core.Healthy && !repaired && !w.doubted(i)) {
			continue
		}
		worst[i] = v
		found = append(found, i)
	}
	slices.SortFunc(found, func(a, b int) int {
		p, q := worst[a], worst[b]
		return cmp.Or(
			cmp.Compare(gravity(p.Health), gravity(q.Health)),
			compareInstants(p.Until, q.Until),
			compareInstants(p.Since, q.Since),
			w.fleet.Targets[a].ID.Compare(w.fleet.Targets[b].ID),
		)
	})
	return found
}

func (w *world) doubted(target int) bool {
	return slices.ContainsFunc(w.verdictsOf[target], func(v core.Verdict) bool { return v.Health != core.Healthy })
}
