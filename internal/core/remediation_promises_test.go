package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// The promises once more, on worlds of nodes, of machines with the same nodes, and of requests in every
// state that the API server could show.

// drawRemediation makes a world of up to four nodes, some with a machine, and up to three health checks, of
// which most make requests. The world has repairs and requests that fit them, and others.
func drawRemediation(d dice) world {
	w := world{now: noon}
	w.cluster.ClockAgrees = oneOf(d, core.Yes, core.Yes, core.Yes, core.Yes, core.Yes, core.No, core.Unknown)
	w.cluster.Observed, w.cluster.Upgrading = core.Yes, oneOf(d, core.No, core.No, core.No, core.Yes, core.Unknown)
	for i := range 1 + d(4) {
		w.cluster.Targets = append(w.cluster.Targets, drawNode(d, i))
		if d(2) == 1 {
			m := drawTarget(d, i)
			m.Node = w.cluster.Targets[len(w.cluster.Targets)-1].Node
			m.RepairRequest = core.RepairRequest{} // byhand_test.go has requests that remediators serve
			w.cluster.Targets = append(w.cluster.Targets, m)
		}
	}
	for i := range 1 + d(3) {
		w.policies = append(w.policies, drawCheck(d, i, w.cluster.Targets))
	}
	for i := range d(4) {
		r := drawRepair(d, i, w)
		if p := w.policies[d(len(w.policies))]; len(p.Members) > 0 && d(4) > 0 {
			t := w.cluster.Targets[p.Members[d(len(p.Members))]].ID
			r.Policy, r.Target, r.Name = p.ID, t, core.RepairName(t, i+1)
		}
		r.Steps = oneOf(d, []core.Step{ask(rebooting, 0)}, []core.Step{ask(rebooting, patience), ask(reprovisioning, patience)}, r.Steps)
		for range d(3) {
			gaveUp(oneOf(d, noon, ago(time.Minute), ago(time.Hour)))(&r)
		}
		r.Recovered, r.StepSeen = oneOf(d, time.Time{}, ago(time.Minute)), d(3)
		w.cluster.Repairs = append(w.cluster.Repairs, r)
	}
	for i := range d(4) {
		w.cluster.Requests = append(w.cluster.Requests, drawRequest(d, i, w))
	}
	if d(8) == 7 {
		w.cluster.UnlistedTemplates = []core.Reference{{APIVersion: rebooting.APIVersion, Kind: rebooting.Kind}}
	}
	return w
}

func drawNode(d dice, i int) core.Target {
	t := drawTarget(d, i)
	t.ID, t.Owner = core.ID{Kind: "Node", Name: t.Node.Name, UID: fmt.Sprintf("node-%d-uid", i)}, core.ID{}
	if t.ID.Name == "" {
		t.ID.Name = fmt.Sprintf("node-%d", i)
	}
	t.Failed, t.Problem, t.ExternallyRemediated = false, "", false
	t.RepairRequest = core.RepairRequest{}
	t.Node.Excluded, t.ConfirmedHealthy, t.Node.Upgrading = d(8) == 7, d(8) == 7, d(8) == 7
	t.Lease = core.Lease{Holder: oneOf(d, "", "", "p-0", "maintenance"), Until: oneOf(d, noon.Add(time.Hour), ago(time.Minute))}
	return t
}

func drawCheck(d dice, i int, targets []core.Target) core.Policy {
	p := drawPolicy(d, i, 0)
	for m := range targets {
		if d(4) > 0 && targets[m].ID.Kind == "Node" == (i != 1) {
			p.Members = append(p.Members, m)
		}
	}
	oneOf(d, classic, escalating)(&p)
	if d(8) == 7 {
		p.Steps[0].Problem = "there is no such template"
	}
	p.HealthyDelay = oneOf(d, 0, 0, patience, -1)
	p.WaitsForUpgrades, p.IgnoresRequests = d(2) == 1, d(4) == 3
	p.Holder = oneOf(d, "", p.ID.Name)
	return p
}

func drawRequest(d dice, i int, w world) core.Request {
	t := w.cluster.Targets[d(len(w.cluster.Targets))]
	if d(6) == 5 {
		t.ID = core.ID{Kind: "Node", Name: "gone", UID: "gone-uid"}
	}
	p := w.policies[d(len(w.policies))]
	if d(6) == 5 {
		p = policy("unknown", nil)
	}
	if n := len(w.cluster.Repairs); n > 0 && d(3) > 0 {
		r := w.cluster.Repairs[d(n)]
		t.ID, p.ID = r.Target, r.Policy
	}
	q := requestFor(p, t, oneOf(d, rebooting, rebooting, reprovisioning), says(oneOf(d, core.Unknown, core.Yes, core.No)))
	q.ID.UID = fmt.Sprintf("request-%d", i)
	q.Leaving, q.Replaces = d(5) == 4, d(6) == 5
	if d(6) == 5 {
		q.Policy = core.ID{}
	}
	if d(4) == 3 {
		q.Target.UID = ""
	}
	return q
}

// alwaysWithRequests checks facts on such worlds.
func alwaysWithRequests(t *testing.T, facts ...fact) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		w := drawRemediation(rapidDice(r))
		d := w.decide()
		for _, f := range facts {
			if wrong := f(w, d); wrong != "" {
				r.Fatalf("%s\nworld: %+v\ndeeds: %v", wrong, w, actionTexts(w.cluster, d))
			}
		}
	})
}

func TestI01UnknownRequestsNothing(t *testing.T) {
	// A further step of a repair takes nothing more away from a control plane than its first has.
	alwaysWithRequests(t, func(w world, d core.Decision) string {
		d.StepStarts = slices.DeleteFunc(slices.Clone(d.StepStarts), func(a core.StepStart) bool {
			return w.cluster.Targets[a.Target].ControlPlane && (a.Step > 0 || slices.ContainsFunc(w.cluster.Requests, func(q core.Request) bool {
				return q.Target.Name == w.cluster.Targets[a.Target].ID.Name
			}))
		})
		return unknownNeverActs(w, d)
	})
	rapid.Check(t, func(r *rapid.T) {
		w := drawRemediation(rapidDice(r))
		w.cluster.Observed = core.Unknown
		if done := actionTexts(w.cluster, w.decide()); len(done) > 0 {
			r.Fatalf("the cluster was not observed, yet: %v", done)
		}
	})
}

// TestI02OneRepairPerGroup: of a node and its machine one is repaired.
func TestI02OneRepairPerGroup(t *testing.T) {
	alwaysWithRequests(t, oneRepairPerTarget, func(w world, d core.Decision) string {
		under := map[string]string{}
		for _, do := range actions(d) {
			target := &w.cluster.Targets[do.target]
			if other, twice := under[target.Node.Name]; twice && target.Node.Name != "" {
				return fmt.Sprintf("%s is repaired, and so is %s", target.ID, other)
			}
			under[target.Node.Name] = target.ID.String()
		}
		return ""
	})
}

func TestI04RequestsForOneOfTheControlPlane(t *testing.T) {
	alwaysWithRequests(t, func(w world, d core.Decision) string {
		begun, nodes := map[string]bool{}, map[string]bool{} // a machine and its node are one member
		for _, s := range d.Starts {
			if target := &w.cluster.Targets[s.Target]; target.ControlPlane {
				begun[target.ID.UID], nodes[target.Node.Name] = true, true
			}
		}
		for i := range w.cluster.Requests {
			for _, target := range w.cluster.Targets {
				if q := w.cluster.Requests[i]; target.ControlPlane && q.Target.Name == target.ID.Name && q.Target.Kind == target.ID.Kind &&
					(q.Target.UID == "" || q.Target.UID == target.ID.UID) && len(begun) > 0 && !begun[target.ID.UID] && !nodes[target.Node.Name] {
					return fmt.Sprintf("a remediator is at work on %s, yet there begin %v", target.ID, begun)
				}
			}
		}
		if len(begun) > 1 {
			return fmt.Sprintf("%d of the control plane begin", len(begun))
		}
		return ""
	})
}

func TestI07RequestsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapidDice(r)
		w := drawRemediation(d)
		other := shuffled(d, w)
		other.cluster.Requests, _ = permuted(d, w.cluster.Requests)
		if diff := cmp.Diff(actionTexts(w.cluster, w.decide()), actionTexts(other.cluster, other.decide())); diff != "" {
			r.Fatalf("another order of input gives another decision (-one +other):\n%s\nworld: %+v", diff, w)
		}
	})
}

// withRequests is the world after a decision is carried out.
func withRequests(w world, d core.Decision) world {
	f := &w.cluster
	f.Targets, f.Repairs, f.Requests = slices.Clone(f.Targets), slices.Clone(f.Repairs), slices.Clone(f.Requests)
	for _, s := range d.Starts {
		t := &f.Targets[s.Target]
		f.Repairs = append(f.Repairs, core.Repair{
			Namespace: t.ID.Namespace, Name: s.Name, Target: t.ID, Policy: w.policies[s.Policy].ID, Owner: t.Owner,
			Retry: s.Retry, Started: w.now, Steps: s.Steps,
		})
	}
	for _, a := range d.StepStarts {
		r := &f.Repairs[a.Repair]
		switch step := r.Steps[a.Step]; step.Nature {
		case core.CreateRequest, core.AskOwner:
			f.Requests = append(f.Requests, core.Request{
				ID: core.ID{UID: r.Name + step.Template.Kind}, Remedy: step.Remedy, Template: step.Template, Target: r.Target, Policy: r.Policy, Created: w.now, Own: true,
			})
		case core.Delete:
			f.Targets[a.Target].Deleting = true
		case core.Annotate:
			f.Targets[a.Target].ExternallyRemediated, r.Begun = true, w.now
		}
	}
	for _, a := range d.Escalations {
		r := &f.Repairs[a.Repair]
		r.GiveUpStep(core.StepRecord{Ended: w.now, Outcome: a.Outcome})
	}
	for _, n := range d.Notes {
		f.Repairs[n.Repair].Recovered = n.Recovered
	}
	for _, e := range d.Finishes {
		f.Repairs[e.Repair].Ended, f.Repairs[e.Repair].Outcome = w.now, e.Outcome
	}
	for _, h := range d.LeaseHolds {
		f.Targets[h.Target].Lease = core.Lease{Holder: h.Holder, Until: w.now.Add(h.For)}
	}
	for _, x := range d.Withdrawals {
		f.Requests[x.Request].Leaving = true
	}
	f.Requests = slices.DeleteFunc(f.Requests, func(q core.Request) bool { return q.Leaving })
	return w
}

// TestI08RequestsComeToRest: a world without other changes is settled in a few passes.
func TestI08RequestsComeToRest(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawRemediation(rapidDice(r))
		var last []string
		for range 40 {
			d := w.decide()
			if last = done(w, d); len(last) == 0 {
				return
			}
			w = withRequests(w, d)
		}
		r.Fatalf("it does not come to rest: %v\nworld: %+v", last, w)
	})
}

// done are the actions of a decision without its refusals.
func done(w world, d core.Decision) []string {
	d.Refusals = nil
	return actionTexts(w.cluster, d)
}

func TestI09RequestsHaveReasons(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawRemediation(rapidDice(r))
		d := w.decide()
		for _, f := range d.Refusals {
			if f.Text() == "refused" {
				r.Fatalf("%s refuses without a word", f.Gate)
			}
		}
		for _, x := range d.Withdrawals {
			if x.Text == "" {
				r.Fatal("something is withdrawn without a text")
			}
		}
		for _, report := range d.Reports(w.policies, &w.cluster) {
			for _, c := range report.Members {
				if c.Health == core.Healthy {
					r.Fatalf("%s is healthy, and a case", c.Target)
				}
			}
		}
	})
}

// TestI10WhatIsNeededStands: no request is withdrawn twice. None is withdrawn while the health check that made it finds
// the target unhealthy, can't judge it, or is in dry run.
func TestI10WhatIsNeededStands(t *testing.T) {
	alwaysWithRequests(t, func(w world, d core.Decision) string {
		taken := map[int]bool{}
		for _, x := range d.Withdrawals {
			q := &w.cluster.Requests[x.Request]
			if taken[x.Request] || q.Leaving {
				return q.ID.UID + " is withdrawn twice"
			}
			taken[x.Request] = true
			if slices.ContainsFunc(w.policies, func(p core.Policy) bool { return p.DryRun && p.ID == q.Policy }) {
				return q.ID.UID + " is withdrawn, though its policy is a dry run"
			}
			for _, v := range d.Verdicts {
				p, target := &w.policies[v.Policy], w.cluster.Targets[v.Target].ID
				needed := v.Health == core.Unhealthy || v.Health == core.Undetermined
				if needed && p.ID == q.Policy && target == q.Target && leads(w, q) {
					return q.ID.UID + " is withdrawn, and its target is not well"
				}
			}
		}
		return ""
	})
}

// TestI10RequestsAreReported: no repair that has done something says that it has not.
func TestI10RequestsAreReported(t *testing.T) {
	alwaysWithRequests(t, func(w world, d core.Decision) string {
		for _, f := range d.Finishes {
			r := &w.cluster.Repairs[f.Repair]
			if did := r.StepSeen > 0 || len(r.Tried) > 0 || !r.Recovered.IsZero(); did && f.Outcome == core.Recovered {
				return r.Name + " has done something, and ends as if it had not"
			}
		}
		return ""
	})
}

// leads reports whether no other repair of the same node is older than that for which a request was made.
func leads(w world, q *core.Request) bool {
	running := 0
	for i := range w.cluster.Repairs {
		if w.cluster.Repairs[i].Running() {
			running++
		}
	}
	return running <= 1
}

// TestI12RequestsAreWithdrawn: Fettle withdraws each request for a target that its health check finds healthy
// back, unless it must stand for a while.
func TestI12RequestsAreWithdrawn(t *testing.T) {
	alwaysWithRequests(t, func(w world, d core.Decision) string {
		if len(w.cluster.UnlistedTemplates) > 0 {
			return ""
		}
		for i := range w.cluster.Requests {
			q := &w.cluster.Requests[i]
			for _, v := range d.Verdicts {
				p, target := &w.policies[v.Policy], &w.cluster.Targets[v.Target]
				well := (v.Health == core.Healthy && v.Reason != core.Premature) || v.Reason == core.Recovering
				if !well || p.DryRun || p.ID != q.Policy || target.ID != q.Target || q.Leaving || target.Deleting || p.HealthyDelay != 0 || settling(p, target, w.now) {
					continue
				}
				if !slices.ContainsFunc(d.Withdrawals, func(x core.Withdrawal) bool { return x.Request == i }) {
					return q.ID.UID + " stands though its target is well"
				}
			}
		}
		return ""
	})
}

// settling reports whether a condition that a policy names, other than those of the kubelet, has turned within the last minute.
func settling(p *core.Policy, t *core.Target, now time.Time) bool {
	return !t.ConfirmedHealthy && slices.ContainsFunc(t.Node.Conditions, func(c core.Condition) bool {
		named := slices.ContainsFunc(p.Criteria.Conditions, func(want core.ConditionCriterion) bool { return want.Type == c.Type })
		for _, g := range p.Criteria.Groups {
			named = named || slices.ContainsFunc(g.Tests, func(want core.ConditionTest) bool { return want.Type == c.Type })
		}
		kubelets := slices.Contains([]string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}, c.Type)
		return named && !kubelets && !c.Since.IsZero() && now.Sub(c.Since) < time.Minute
	})
}
