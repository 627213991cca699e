package cli

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// Fencing is how far a PowerRemediation or a SelfFenceRemediation has come.
type Fencing struct {
	Phase string     `json:"phase,omitempty"`
	Since *time.Time `json:"phaseSince,omitempty"`
	// Reason is why the phase began, where that needs one. Waiting is what it waits for, and Message what that means.
	Reason  string `json:"reason,omitempty"`
	Waiting string `json:"waitsFor,omitempty"`
	Message string `json:"message,omitempty"`
	// Attempt counts the power cycles from 1.
	Attempt int `json:"attempt,omitempty"`
	// BMC is the name of the BMC, and Protocol how Fettle speaks to it.
	BMC      string `json:"bmc,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// BootID is the boot ID of the node before the first command, and BackBootID the one under which it is back.
	BootID     string `json:"bootIDBefore,omitempty"`
	BackBootID string `json:"bootIDAfter,omitempty"`
	// Proof is why the node is known to have stopped.
	Proof *StopProof `json:"proof,omitempty"`
	// VoidProofs counts the proofs that no longer held just before the release.
	VoidProofs int `json:"voidProofs,omitempty"`
	// Released is set before the workload is released, and PoweredOff before the power is commanded off.
	Released   bool `json:"workloadReleased,omitempty"`
	PoweredOff bool `json:"poweredOff,omitempty"`
}

// StopProof is why a node is known to have stopped.
type StopProof struct {
	// Kind is PowerOff or NewBoot.
	Kind string     `json:"kind"`
	At   *time.Time `json:"at,omitempty"`
	// BootID is the boot ID under which the node runs now, for NewBoot.
	BootID string `json:"bootID,omitempty"`
}

// BMCState is what Fettle wrote last about a BMC.
type BMCState struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	// Reachable is yes, no or unknown. Reason and Message say why.
	Reachable string     `json:"reachable"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Power     string     `json:"power,omitempty"`
	// HeldUntil is until when Fettle tries no login.
	HeldUntil *time.Time `json:"heldUntil,omitempty"`
}

// needsBMCs reports whether a health check or a running repair has PowerRemediations made, and no BMC was read.
func (v *view) needsBMCs(policies []core.Policy, repairs []core.Repair) bool {
	return v.external.bmcs == nil &&
		(slices.ContainsFunc(policies, func(p core.Policy) bool { return usesPower(p.Steps) }) ||
			slices.ContainsFunc(repairs, func(r core.Repair) bool { return r.Running() && usesPower(r.Steps) }))
}

// putFencing stores how far a PowerRemediation has come, and reports whether that has changed.
func (s *externalFacts) putFencing(kind schema.GroupVersionKind, u *unstructured.Unstructured) bool {
	if kind.Group != v1alpha1.GroupVersion.Group || kind.Kind != powerKind && kind.Kind != selfFenceKind {
		return false
	}
	of := kind.Kind + " " + key(u)
	old, known := s.fencings[of]
	fresh := fencingOf(u)
	if kind.Kind == selfFenceKind {
		fresh.Attempt = 0 // it has one, and no power cycles
	}
	s.fencings[of] = fresh
	return !known || !old.equals(&fresh)
}

// equals compares what both say.
func (f *Fencing) equals(other *Fencing) bool {
	a, b := *f, *other
	same := compareInstants(timeOf(a.Since), timeOf(b.Since)) == 0 && (a.Proof == nil) == (b.Proof == nil) &&
		(a.Proof == nil || a.Proof.Kind == b.Proof.Kind && a.Proof.BootID == b.Proof.BootID && compareInstants(timeOf(a.Proof.At), timeOf(b.Proof.At)) == 0)
	a.Since, b.Since, a.Proof, b.Proof = nil, nil, nil, nil
	return same && a == b
}

// fencingOf returns how far a PowerRemediation or a SelfFenceRemediation has come. It is empty if its status can't be decoded.
func fencingOf(u *unstructured.Unstructured) Fencing {
	var s v1alpha1.PowerRemediationStatus
	decode(u, "status", &s)
	f := Fencing{
		Phase: s.Phase, Reason: s.Reason, Attempt: int(s.Attempt), VoidProofs: int(s.VoidProofs),
		Released: s.WorkloadReleased, PoweredOff: s.PoweredOff, Protocol: s.Protocol,
	}
	if s.PhaseSince != nil {
		f.Since = instant(s.PhaseSince.Time)
	}
	if s.BMC != nil {
		f.BMC = s.BMC.Name
	}
	if s.Node != nil {
		f.BootID, f.BackBootID = s.Node.BootID, s.Node.BackBootID
	}
	if s.Proof != nil {
		f.Proof = &StopProof{Kind: s.Proof.Kind, At: instant(s.Proof.At.Time), BootID: s.Proof.BootID}
	}
	for _, c := range s.Conditions {
		failed, processing := c.Type == "Succeeded" && c.Status == "False", c.Type == "Processing" && c.Status == "True"
		if failed || processing && f.Waiting == "" {
			f.Waiting, f.Message = c.Reason, c.Message
		}
	}
	return f
}

// requestWithFencing returns a request, with how far it has come if it is a PowerRemediation.
func (w *assessment) requestWithFencing(q *core.Request) Request {
	r := requestOf(q)
	if apiGroupOf(q.APIVersion) == v1alpha1.GroupVersion.Group {
		if f, known := w.fencings[q.ID.Kind+" "+q.ID.Namespace+"/"+q.ID.Name]; known {
			r.Fencing = &f
		}
	}
	return r
}

// fillBMCs fills in the BMCs of a target's node, if a health check has the node fenced by its power.
func (w *assessment) fillBMCs(target int, e *ExplainedTarget) {
	node := nodeIn(w.key, w.cluster.Targets[target].Node.Name)
	fences := slices.ContainsFunc(w.verdictsOf[target], func(v core.Verdict) bool { return usesPower(w.policySteps(v.Policy, target)) })
	if w.bmcs == nil || node == "" || !fences {
		return
	}
	if w.bmcs.unread != "" {
		e.BMCProblem = "it is not known which BMC it has: " + w.bmcs.unread
		return
	}
	bmcs := w.bmcs.of(node)
	for _, b := range bmcs[:min(len(bmcs), mostNames)] {
		e.BMCs = append(e.BMCs, stateOf(b))
	}
	switch {
	case len(bmcs) == 0:
		e.BMCProblem = "no BMC in namespace " + w.bmcs.namespace + " names node " + node + ", so no " + powerKind + " of it can start; create one"
	case len(bmcs) > 1:
		e.BMCProblem = "several BMCs name node " + node + ", so no " + powerKind + " of it can start; delete all but one"
	}
}

// bmcs prints the BMCs of a target's node.
func (p *page) bmcs(t *ExplainedTarget) {
	for i := range t.BMCs {
		p.field("BMC", qualified(Reference{Namespace: t.BMCs[i].Namespace, Name: t.BMCs[i].Name})+", "+p.reachable(&t.BMCs[i]))
	}
	if t.BMCProblem != "" {
		p.field("BMC problem", p.in(red, t.BMCProblem))
	}
}

// reachable says whether a BMC was reachable, and how the power was.
func (p *page) reachable(b *BMCState) string {
	var text string
	switch b.Reachable {
	case core.Yes.String():
		text = p.in(green, "reachable") + " since " + p.when(b.Since)
	case core.No.String():
		text = p.in(red, "not reachable") + " since " + p.when(b.Since) + " (" + b.Reason + ")"
	default:
		text = p.in(yellow, "not tried yet")
	}
	if b.Power != "" {
		text += ", power " + b.Power + " when Fettle read it last"
	}
	if p.distance(b.HeldUntil) > 0 {
		text += ", no login until " + p.when(b.HeldUntil)
	}
	return text
}

// fencing prints how far a PowerRemediation has come.
func (p *page) fencing(f *Fencing) {
	if f == nil {
		return
	}
	if f.Phase != "" {
		p.item("  %s", p.phaseOfFencing(f))
	}
	if f.Waiting != "" {
		p.item("  %s: %s", f.Waiting, f.Message)
	}
	if f.Phase == "" {
		return
	}
	p.item("  %s", p.proof(f))
	switch {
	case f.Released && f.Proof != nil:
		p.item("  its workload is released, so that it starts elsewhere")
	case f.Released:
		p.item("  its workload was released by an earlier proof, so that it starts elsewhere")
	}
}

func (p *page) phaseOfFencing(f *Fencing) string {
	text := "phase " + f.Phase
	if f.Reason != "" {
		text += " (" + f.Reason + ")"
	}
	if f.Since != nil {
		text += ", since " + p.when(f.Since)
	}
	if f.Attempt > 0 {
		text += ", power cycle " + strconv.Itoa(f.Attempt)
	}
	return text + byBMC(f.BMC, f.Protocol)
}

// proof says why the node is known to have stopped, and under which boot IDs it ran.
func (p *page) proof(f *Fencing) string {
	text := p.in(yellow, "not proven to have stopped")
	switch {
	case f.Proof == nil && !f.Released:
		text += ", so its workload is not released"
	case f.Proof != nil:
		text = p.in(green, "proven to have stopped") + " by " + f.Proof.Kind + " " + p.when(f.Proof.At)
	}
	if f.BootID != "" {
		text += "; boot ID " + f.BootID + " before the first command"
	}
	if f.Proof != nil && f.Proof.BootID != "" {
		text += "; boot ID " + f.Proof.BootID + " now"
	}
	if f.BackBootID != "" {
		text += "; back under boot ID " + f.BackBootID
	}
	if f.VoidProofs > 0 {
		text += "; " + count(f.VoidProofs, "earlier proof") + " no longer held"
	}
	return text
}

// unreachable prints the BMCs that Fettle could not reach.
func (p *statusPage) unreachable(bmcs []BMCState) {
	rows := make([][]cell, 0, len(bmcs))
	for i := range bmcs {
		b := &bmcs[i]
		held := ""
		if p.distance(b.HeldUntil) > 0 {
			held = p.when(b.HeldUntil)
		}
		rows = append(rows, []cell{text(b.Name), text(b.Node), {b.Reason, red}, text(p.when(b.Since)), text(held), text(b.Message)})
	}
	rows, left := limited(rows, p.limit)
	p.table([]string{"BMC NOT REACHABLE", "NODE", "REASON", "SINCE", "NO LOGIN UNTIL", "MESSAGE"}, rows)
	p.more(left, "BMC")
}
