package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// gatesOf returns the states of a policy's own gates, and of the others that hold back its targets.
func (w *assessment) gatesOf(policy int) []GateState {
	gates := w.policyGates(policy)
	for _, v := range w.decision.Verdicts {
		if v.Policy != policy {
			continue
		}
		for _, r := range w.refusalsOf[v.Target] {
			if !r.DryRun || r.Policy == policy {
				gates = w.addRefusal(gates, policy, r)
			}
		}
	}
	if slices.ContainsFunc(gates, func(g GateState) bool { return g.Gate == core.QuorumUnknown.String() }) {
		gates = slices.DeleteFunc(gates, func(g GateState) bool { return g.Gate == core.QuorumLost.String() && g.State == gateOpen })
	}
	return gates
}

// addRefusal adds a refusal to the states of gates.
func (w *assessment) addRefusal(gates []GateState, policy int, r core.Refusal) []GateState {
	var of *Reference
	if r.Policy != policy {
		other := reference(w.policies[r.Policy].ID)
		of = &other
	}
	at := slices.IndexFunc(gates, func(g GateState) bool {
		return g.Gate == r.Gate.String() && (g.HealthCheck == nil) == (of == nil) && (of == nil || *of == *g.HealthCheck)
	})
	if at < 0 {
		gates = append(gates, GateState{Gate: r.Gate.String(), HealthCheck: of, State: gateOpen})
		at = len(gates) - 1
	}
	g := &gates[at]
	if g.State == gateOpen {
		w.closeGate(g, r)
	}
	if until := instant(r.Until); until != nil && g.Until != nil && until.Before(*g.Until) {
		g.Until = until
	}
	g.Holds++
	if name := w.nameOfTarget(r.Target); len(g.Names) < mostNamed && !slices.Contains(g.Names, name) {
		g.Names = append(g.Names, name)
	}
	return gates
}

// closeGate marks a gate as closed, or as unknown.
func (w *assessment) closeGate(g *GateState, r core.Refusal) {
	g.State, g.Message, g.Until = gateClosed, w.textOf(r), instant(r.Until)
	if why, hidden := w.hidden(r); hidden {
		g.State, g.Message = gateUnknown, why
	}
}

// policyGates returns the gates that don't depend on a target.
func (w *assessment) policyGates(policy int) []GateState {
	p := &w.policies[policy]
	gates := []GateState{
		closedIf(p.Problem != "", core.Refusal{Gate: core.PolicyInvalid, Detail: p.Problem}, ""),
		closedIf(p.Paused, core.Refusal{Gate: core.PolicyPaused, Detail: p.PauseReason, Advice: p.Advice[core.PolicyPaused]}, ""),
		closedIf(p.ClockGate != 0, core.Refusal{Gate: cmp.Or(p.ClockGate, core.ClockSkewed)}, ""),
	}
	if p.DryRun {
		gates = append(gates, GateState{Gate: "DryRun", State: gateClosed, Message: "it is a dry run, so it decides and repairs nothing; remove its annotation " + annotation.DryRun + " to have it repair"})
	}
	if p.Unparsable { // its targets are not counted
		return gates
	}
	return append(append(gates, w.limitGates(policy)...), w.externalGates(policy)...)
}

// limitGates returns the gates with numbers.
func (w *assessment) limitGates(policy int) []GateState {
	p, t := &w.policies[policy], w.decision.Tallies[policy]
	gates := []GateState{shortCircuitState(p, t)}
	if p.StormCooldown > 0 {
		gates = append(gates, closedIf(t.CoolingDown, core.Refusal{Gate: core.StormCooldown, Until: t.ResumeAt}, fmt.Sprintf("repairs wait for %s after too many were unhealthy", p.StormCooldown)))
	}
	if t.MaxInFlight != math.MaxInt {
		n := w.inFlight(policy)
		gates = append(gates, closedIf(n >= t.MaxInFlight, core.Refusal{Gate: core.InFlightLimit, Have: n, Max: t.MaxInFlight, Detail: t.Waits, Advice: p.Advice[core.InFlightLimit]},
			fmt.Sprintf("%d under repair, and at most %d may be at a time", n, t.MaxInFlight)))
	}
	if n := p.Backoff.GiveUpAfter; n > 0 {
		gates = append(gates, GateState{Gate: core.PoolGivenUp.String(), State: gateOpen, Message: fmt.Sprintf("after %s in a row that did not last nothing more is repaired in their pool (annotation %s changes the number)", count(n, "repair"), annotation.GiveUpAfter)})
	}
	if p.Backoff.Base > 0 {
		gates = append(gates, GateState{Gate: core.BackingOff.String(), State: gateOpen, Message: fmt.Sprintf("after a repair that did not last the next waits for %s, and twice as long each time, up to %s", p.Backoff.Base, p.Backoff.Limit)})
	}
	return gates
}

// shortCircuitState returns the state of a policy's short circuit.
func shortCircuitState(p *core.Policy, t core.Tally) GateState {
	if t.Permitted {
		return closedIf(false, core.Refusal{Gate: core.TooManyUnhealthy}, restrictionText(p, t))
	}
	r, _ := core.PolicyRefusal(&core.Policy{ShortCircuit: p.ShortCircuit}, t)
	return closedIf(true, r, "")
}

// restrictionText says up to which number of unhealthy targets the short circuit allows repairs.
func restrictionText(p *core.Policy, t core.Tally) string {
	text := fmt.Sprintf("%d of %d are not healthy, and repairs go on up to %d", t.Unhealthy(), t.Counted(), t.MaxUnhealthy)
	if p.ShortCircuit.Range != nil {
		text = fmt.Sprintf("%d of %d are not healthy, and repairs go on from %d to %d", t.Unhealthy(), t.Counted(), p.ShortCircuit.Range.From, p.ShortCircuit.Range.To)
	}
	if t.Waits != "" {
		text += "; " + t.Waits // replaced targets count no longer
	}
	return text
}

// externalGates returns the gates of upgrades, templates and quorum, for policies that have them.
func (w *assessment) externalGates(policy int) []GateState {
	p := &w.policies[policy]
	var gates []GateState
	if p.WaitsForUpgrades {
		g := closedIf(false, w.upgradeRefusal(p), "")
		if w.cluster.Upgrading != core.No {
			w.closeGate(&g, w.upgradeRefusal(p))
		}
		gates = append(gates, g)
	}
	if slices.ContainsFunc(p.Steps, func(s core.Step) bool { return s.Template != (core.Reference{}) }) {
		gates = append(gates, w.templateState(policy))
	}
	n := 0
	for _, v := range w.decision.Verdicts {
		if v.Policy == policy && w.cluster.Targets[v.Target].MaybeControlPlane() {
			n++
		}
	}
	if n > 0 {
		text := fmt.Sprintf("%d of what it selects %s of the control plane; Fettle reads the quorum when one is to be repaired", n, are(n))
		gates = append(gates, GateState{Gate: core.QuorumLost.String(), State: gateOpen, Message: text})
	}
	return gates
}

// upgradeRefusal returns the refusal of a policy that waits for upgrades.
func (w *assessment) upgradeRefusal(p *core.Policy) core.Refusal {
	return core.Refusal{
		Gate: core.ClusterUpgrading, Fact: w.cluster.Upgrading, Why: w.cluster.UpgradingWhy, Advice: p.Advice[core.ClusterUpgrading],
	}
}

// templateState says whether the steps of a policy can be taken.
func (w *assessment) templateState(policy int) GateState {
	if why, hidden := w.hiddenSteps(policy); hidden {
		return GateState{Gate: core.TemplateUnusable.String(), State: gateUnknown, Message: "it is not known whether its steps can be taken: " + why}
	}
	p := &w.policies[policy]
	for _, step := range slices.Concat(p.Steps, p.FailedSteps) {
		if step.Problem != "" {
			return closedIf(true, core.Refusal{Gate: core.TemplateUnusable, Detail: step.Problem}, "")
		}
	}
	return closedIf(false, core.Refusal{Gate: core.TemplateUnusable}, "")
}

// closedIf returns a closed gate with the text of a refusal, or an open gate with another text.
func closedIf(closed bool, r core.Refusal, text string) GateState {
	if !closed {
		return GateState{Gate: r.Gate.String(), State: gateOpen, Message: text}
	}
	return GateState{Gate: r.Gate.String(), State: gateClosed, Message: r.Text(), Until: instant(r.Until)}
}

// gateNames returns the names of the gates that refuse, each once.
func gateNames(refusals []core.Refusal) []string {
	var names []string
	for _, r := range refusals {
		if !slices.Contains(names, r.Gate.String()) {
			names = append(names, r.Gate.String())
		}
	}
	return names
}
