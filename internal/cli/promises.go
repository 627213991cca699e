package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/fencepolicy"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/slim"
)

// These are the kinds of the remediator of nodes that fence themselves.
const (
	selfFenceKind         = "SelfFenceRemediation"
	selfFenceTemplateKind = "SelfFenceRemediationTemplate"
)

// NodePromise is what a node promises.
type NodePromise struct {
	Node string `json:"node"`
	// Policy is the FencePolicy that applies to the node, or empty.
	Policy string `json:"fencePolicy,omitempty"`
	// Missing is why the node promises nothing, and Message what that means. Without a reason its promise stands.
	Missing string `json:"missing,omitempty"`
	Message string `json:"message,omitempty"`
	// Timed is set if time proves that the node was reset. ProvenAfter is how long after Fettle saw the last renewal that is so.
	Timed       bool   `json:"timed,omitempty"`
	ProvenAfter string `json:"provenAfter,omitempty"`
	// Device is the watchdog, Watchdog its timeout, and Validity how long a renewal counts.
	Device    string   `json:"device,omitempty"`
	Watchdog  string   `json:"watchdogTimeout,omitempty"`
	Validity  string   `json:"validity,omitempty"`
	Witnesses []string `json:"witnesses,omitempty"`
	// RequiredProof is PowerAndPromise where the policy requires both. Then only a PowerRemediation fences the node.
	RequiredProof string `json:"requiredProof,omitempty"`
}

// These are reasons of the command line alone.
const (
	noFencePolicy      = "NoFencePolicy"
	fencePolicyUnknown = "FencePolicyUnknown"
)

// promiseReading has the FencePolicies, and the nodes with their Leases.
type promiseReading struct {
	policies []v1alpha1.FencePolicy
	nodes    map[string]fencepolicy.Node
	leases   map[string]*fencepolicy.Lease
	// unread says why they are not known, or is empty.
	unread string
	// some is set if only the policies were read: none of them requires both power and promise.
	some bool
}

// readPowerPromises reads what nodes promise if a FencePolicy requires that of a PowerRemediation. Where the policies can't be read, that is not
// known, and a health check that uses the power alone needs nothing more.
func readPowerPromises(ctx context.Context, c client.Client) *promiseReading {
	r := &promiseReading{some: true}
	if _, err := list(ctx, c, Source{List: &v1alpha1.FencePolicyList{}, Put: r.putPolicy}, ""); err != nil {
		return r
	}
	if slices.ContainsFunc(r.policies, func(p v1alpha1.FencePolicy) bool { return p.Spec.RequiredProof == v1alpha1.PowerAndPromise }) {
		return readPromises(ctx, c)
	}
	return r
}

// readPromises reads what nodes promise. It never fails: a promise that can't be read is unknown. Agents write their Leases every few seconds, so the list
// is not followed.
func readPromises(ctx context.Context, c client.Client) *promiseReading {
	r := &promiseReading{nodes: map[string]fencepolicy.Node{}, leases: map[string]*fencepolicy.Lease{}}
	for _, s := range []struct {
		Source

		namespace, where string
	}{
		{Source{List: &v1alpha1.FencePolicyList{}, Put: r.putPolicy}, "", "fencepolicies.fettle.io"},
		{Source{Resource: schema.GroupResource{Resource: "nodes"}, List: &slim.NodeList{}, Put: r.putNode}, "", "nodes"},
		{Source{List: &coordinationv1.LeaseList{}, Put: r.putLease}, promiselease.Namespace, "leases in namespace " + promiselease.Namespace},
	} {
		_, err := list(ctx, c, s.Source, s.namespace)
		switch {
		case isUnserved(err):
			r.unread = "the cluster does not serve " + s.where
			return r
		case err != nil:
			r.unread = whyUnread(s.where, err)
			return r
		}
	}
	return r
}

func (r *promiseReading) putPolicy(o client.Object) bool {
	if p, is := o.(*v1alpha1.FencePolicy); is {
		r.policies = append(r.policies, *p)
	}
	return true
}

func (r *promiseReading) putNode(o client.Object) bool {
	if n, is := o.(*slim.Node); is {
		r.nodes[n.Name] = fencepolicy.Node{Name: n.Name, Labels: n.Meta.Labels, Boot: n.BootID.String()}
	}
	return true
}

func (r *promiseReading) putLease(o client.Object) bool {
	if l, is := o.(*coordinationv1.Lease); is {
		r.leases[l.Name] = fencepolicy.Read(l)
	}
	return true
}

// of returns what a node promises.
func (r *promiseReading) of(node string) NodePromise {
	p, n := NodePromise{Node: node}, r.nodes[node]
	policy, err := fencepolicy.NewRule(r.policies).Applies(n.Labels)
	switch {
	case err != nil:
		p.Missing, p.Message = fencePolicyUnknown, "the selector of a FencePolicy can't be read, so it is not known which one applies; correct it"
		return p
	case policy == nil:
		p.Missing, p.Message = noFencePolicy, "no FencePolicy selects it; create one, or label the node"
		return p
	}
	p.Policy = policy.Name
	if policy.Spec.RequiredProof == v1alpha1.PowerAndPromise {
		p.RequiredProof = string(policy.Spec.RequiredProof)
	}
	lease := r.leases[node]
	if why := n.Missing(lease); why != "" {
		p.Missing, p.Message = string(why), why.Text()
		return p
	}
	promise := lease.Promise
	p.Timed, p.Device, p.Watchdog = promise.Timed, lease.Device, durationText(promise.Times.Watchdog)
	if promise.Timed {
		p.Validity, p.ProvenAfter = durationText(promise.Times.Validity), durationText(promise.Times.Wait())
	}
	for _, w := range promise.Witnesses {
		if w != "" {
			p.Witnesses = append(p.Witnesses, w)
		}
	}
	return p
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// all returns the nodes to which a FencePolicy applies, in the order of their names: the nodes with a promise, and the others.
func (r *promiseReading) all() (with, without []NodePromise) {
	if r == nil || r.unread != "" {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		switch p := r.of(name); p.Missing {
		case "":
			with = append(with, p)
		case noFencePolicy:
		default:
			without = append(without, p)
		}
	}
	return with, without
}

// notes returns a sentence about promises that could not be read.
func (r *promiseReading) notes() []string {
	if r == nil || r.unread == "" {
		return nil
	}
	return []string{"Which nodes promise to fence themselves is not known: " + r.unread + "."}
}

// usesSelfFence reports whether a step has a SelfFenceRemediation made.
func usesSelfFence(steps []core.Step) bool {
	return slices.ContainsFunc(steps, func(s core.Step) bool {
		return s.Template.Kind == selfFenceTemplateKind && apiGroupOf(s.Template.APIVersion) == v1alpha1.GroupVersion.Group
	})
}

// needsPromises reports whether a health check or a running repair has nodes fence themselves, and no promise was read.
func (v *view) needsPromises(policies []core.Policy, repairs []core.Repair) bool {
	read := v.external.promises
	return (read == nil || read.some) && anySteps(policies, repairs, usesSelfFence)
}

// needsPowerPromises reports whether a health check or a running repair fences nodes by their power, while it is not known whether a policy
// requires their promise too.
func (v *view) needsPowerPromises(policies []core.Policy, repairs []core.Repair) bool {
	return v.external.promises == nil && anySteps(policies, repairs, usesPower)
}

// anySteps reports whether a health check or a running repair has steps of a kind.
func anySteps(policies []core.Policy, repairs []core.Repair, are func([]core.Step) bool) bool {
	return slices.ContainsFunc(policies, func(p core.Policy) bool { return are(p.Steps) }) ||
		slices.ContainsFunc(repairs, func(r core.Repair) bool { return r.Running() && are(r.Steps) })
}

// fillPromise fills in what the node of a target promises, if a health check has the node fence itself.
func (w *assessment) fillPromise(target int, e *ExplainedTarget) {
	node := w.cluster.Targets[target].Node.Name
	if w.promises == nil || w.promises.unread != "" || node == "" {
		return
	}
	p := w.promises.of(node)
	fences := func(v core.Verdict) bool {
		steps := w.policySteps(v.Policy, target)
		return usesSelfFence(steps) || usesPower(steps) && p.RequiredProof != ""
	}
	if slices.ContainsFunc(w.verdictsOf[target], fences) {
		e.Promise = &p
	}
}

// promise prints what the node of a target promises.
func (p *page) promise(n *NodePromise) {
	switch {
	case n == nil:
	case n.Missing != "":
		p.field("Promise", p.in(red, "none")+" ("+n.Missing+"), so no "+n.fencedBy()+" of it can start: "+n.Message)
	default:
		p.field("Promise", p.in(green, "stands")+" by FencePolicy "+n.Policy+", "+n.text())
	}
	if n != nil && n.RequiredProof != "" {
		p.field("Required proof", "FencePolicy "+n.Policy+" requires both power and promise"+n.consequence())
	}
}

// fencedBy returns the kind of remediations that fence a node by its promise.
func (n *NodePromise) fencedBy() string {
	if n.RequiredProof != "" {
		return powerKind
	}
	return selfFenceKind
}

// consequence says what a policy that requires both means for a node, to append to a sentence.
func (n *NodePromise) consequence() string {
	text := ", so no " + selfFenceKind + " of it can start"
	if n.Missing == "" && !n.Timed {
		return text + ", and no " + powerKind + ", since the promise is not timed"
	}
	return text
}

// text says what a promise that stands is worth.
func (n *NodePromise) text() string {
	text := "watchdog " + cmp.Or(n.Device, "of an unknown name")
	if n.Watchdog != "" {
		text += " with a timeout of " + n.Watchdog
	}
	if !n.Timed {
		return text + "; not timed: once it is revoked, only a new boot proves that the node was reset"
	}
	text += ", each renewal counts for " + n.Validity
	if len(n.Witnesses) > 0 {
		text += ", witnesses " + strings.Join(n.Witnesses, ", ")
	}
	return text + "; once it is revoked, the node is proven to be reset " + n.ProvenAfter + " after Fettle has seen its last renewal"
}

// warnOfNodesWithoutPromise warns each health check that has nodes fenced of its nodes that can't be fenced so, as far as that depends on
// promises.
func warnOfNodesWithoutPromise(assessments []*assessment, judged []*draft, promises *promiseReading) {
	for _, d := range judged {
		w, i, found := policyOf(assessments, d)
		if !found || promises == nil || promises.some || !usesSelfFence(w.policies[i].Steps) && !usesPower(w.policies[i].Steps) {
			continue
		}
		if promises.unread != "" {
			d.Unchecked = append(d.Unchecked, "whether the nodes that it selects promise to fence themselves, since "+promises.unread)
			continue
		}
		field := d.fieldOf(fieldOfSteps(w.policies[i].Steps))
		for _, text := range w.promiseWarnings(i) {
			d.Warnings = append(d.Warnings, Finding{Line: d.locate(field, ""), Field: field, Message: text})
		}
	}
}

// promiseWarnings returns a sentence for each reason for which nodes of a health check can't be fenced by their promise.
func (w *assessment) promiseWarnings(policy int) []string {
	self, power := usesSelfFence(w.policies[policy].Steps), usesPower(w.policies[policy].Steps)
	found := map[string][]string{}
	for _, m := range w.policies[policy].Members {
		node := w.cluster.Targets[m].Node.Name
		if node == "" || node != nodeIn(w.key, node) {
			continue // no policy of this cluster applies to a node of a workload cluster
		}
		p := w.promises.of(node)
		for _, text := range p.warnings(self, power) {
			found[text] = append(found[text], node)
		}
	}
	var texts []string
	for _, text := range slices.Sorted(maps.Keys(found)) {
		nodes := found[text]
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
		texts = append(texts, fmt.Sprintf(text, count(len(nodes), "node"))+": "+firstOf(nodes, len(nodes)))
	}
	return texts
}

// warnings returns why a node can't be fenced by itself, or by its power. Each text has room for the number of such nodes.
func (n *NodePromise) warnings(self, power bool) []string {
	both := n.RequiredProof != ""
	escaped := strings.ReplaceAll(n.Message, "%", "%%")
	var texts []string
	switch {
	case both && self:
		texts = append(texts, "both power and promise are required of %s that it selects, by a FencePolicy, so no "+selfFenceKind+" of such a node can start; name a PowerRemediationTemplate")
	case self && n.Missing != "":
		texts = append(texts, "no promise stands of %s that it selects, so no "+selfFenceKind+" of such a node can start ("+n.Missing+": "+escaped+")")
	}
	switch {
	case !both || !power:
	case n.Missing != "":
		texts = append(texts, "no promise stands of %s that it selects, and a FencePolicy requires both power and promise, so no "+powerKind+" of such a node can start ("+n.Missing+": "+escaped+")")
	case !n.Timed:
		texts = append(texts, "the promise of %s that it selects is not timed, and a FencePolicy requires both power and promise, so no "+powerKind+" of such a node can start")
	}
	return texts
}
