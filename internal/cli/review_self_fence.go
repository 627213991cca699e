package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencepolicy"
	"github.com/fettle-io/fettle/internal/specparse"
)

const fencePolicyKind = "FencePolicy"

// reviewSelfFence reviews a document of a kind for nodes that fence themselves by itself. It reports false for other kinds.
func (s *session) reviewSelfFence(d *draft) bool {
	kind := d.object.GroupVersionKind()
	if kind.Group != v1alpha1.GroupVersion.Group {
		return false
	}
	var remarks []Remark
	switch kind.Kind {
	case fencePolicyKind:
		d.policy, remarks = specparse.ReadLeniently[v1alpha1.FencePolicy](withoutStatus(d.object))
		remarks = append(remarks, reviewFencePolicy(&d.policy.Spec)...)
	case selfFenceTemplateKind:
		_, remarks = specparse.ReadLeniently[v1alpha1.SelfFenceRemediationTemplate](d.object)
	default:
		return false
	}
	d.isPower = true
	for _, r := range append(reviewOwnIdentity(d.object), remarks...) {
		d.note(r)
	}
	return true
}

// leastRenewals is how many renewals fit into a validity at least.
const leastRenewals = 3

// reviewFencePolicy returns the remarks about the fields of a policy that the definition refuses together.
func reviewFencePolicy(spec *v1alpha1.FencePolicySpec) []Remark {
	var remarks []Remark
	if _, err := metav1.LabelSelectorAsSelector(&spec.NodeSelector); err != nil {
		remarks = append(remarks, specparse.Fault("spec.nodeSelector", "can't be read: %v", err))
	}
	renewal, validity := 5*time.Second, 20*time.Second
	if spec.Renewal != nil {
		renewal = spec.Renewal.Duration
	}
	if spec.Validity != nil {
		validity = spec.Validity.Duration
	}
	if validity < leastRenewals*renewal {
		remarks = append(remarks, specparse.Fault("spec.validity", "is %s, and must be at least three times the renewal of %s", validity, renewal))
	}
	witnesses, resets := witnessesOf(spec), resetsIsolated(spec)
	switch {
	case resets && witnesses != 0 && witnesses != fewWitnesses && witnesses != 5:
		remarks = append(remarks, specparse.Fault("spec.witnesses", "is %d; give 3 or 5, or leave it out", witnesses))
	case !resets && witnesses != 0:
		remarks = append(remarks, specparse.Fault("spec.witnesses", "is %d; leave it out, since onIsolation Hold uses no witnesses", witnesses))
	}
	if spec.RequiredProof == v1alpha1.PowerAndPromise && !resets {
		remarks = append(remarks, specparse.Fault("spec.requiredProof", "is PowerAndPromise, which needs onIsolation Reset; with Hold no time proves that a node was reset"))
	}
	return remarks
}

// fewWitnesses is how many witnesses a node has at least that resets itself when it is cut off.
const fewWitnesses = 3

// resetsIsolated reports whether a node resets itself that reaches no API server, as it does by default.
func resetsIsolated(spec *v1alpha1.FencePolicySpec) bool {
	return spec.OnIsolation != v1alpha1.HoldOnIsolation
}

func witnessesOf(spec *v1alpha1.FencePolicySpec) int {
	if spec.Witnesses == nil {
		return 0
	}
	return int(*spec.Witnesses)
}

// judgeFencePolicies judges the valid FencePolicies of the input with the nodes of the cluster, as if all were applied.
func (s *session) judgeFencePolicies(ctx context.Context, drafts []draft) {
	is := func(d draft) bool { return d.policy != nil && d.isValidPower() }
	if !slices.ContainsFunc(drafts, is) {
		return
	}
	r := readPromises(ctx, s.cluster)
	for i := range drafts {
		if is(drafts[i]) {
			r.apply(drafts[i].policy, s.Now())
		}
	}
	var bmcs *bmcReading
	for i := range drafts {
		d := &drafts[i]
		if is(*d) && d.policy.Spec.RequiredProof == v1alpha1.PowerAndPromise && bmcs == nil {
			bmcs = s.bmcsWith(ctx, drafts)
		}
		switch {
		case !is(*d):
		case len(r.nodes) == 0 && r.unread != "":
			d.Unchecked = append(d.Unchecked, "which nodes it would apply to, since "+r.unread)
		default:
			for _, text := range r.warnings(d.policy) {
				d.note(specparse.Warning("spec.nodeSelector", "%s", text))
			}
			s.judgeRequiredProof(d, r, bmcs)
		}
	}
}

// bmcsWith returns the BMCs of the cluster with those of the input.
func (s *session) bmcsWith(ctx context.Context, drafts []draft) *bmcReading {
	r := readBMCsOnce(ctx, s.cluster, s.connection.bmcs)
	for i := range drafts {
		if b := drafts[i].bmc; b != nil {
			r.byName[b.Name] = b
		}
	}
	return r
}

// judgeRequiredProof notes the nodes without a BMC of which a policy requires both power and promise.
func (s *session) judgeRequiredProof(d *draft, r *promiseReading, bmcs *bmcReading) {
	if d.policy.Spec.RequiredProof != v1alpha1.PowerAndPromise {
		return
	}
	if bmcs.unread != "" {
		d.Unchecked = append(d.Unchecked, "whether each node that it applies to has a BMC, since "+bmcs.unread)
		return
	}
	var without []string
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		policy, _ := fencepolicy.NewRule(r.policies).Applies(r.nodes[name].Labels) // nil where it is not known
		if policy != nil && policy.Name == d.policy.Name && len(bmcs.of(name)) == 0 {
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		d.note(specparse.Warning("spec.requiredProof", "spec.requiredProof is PowerAndPromise, and no BMC names %s that it applies to, so no remediation fences such a node: %s",
			count(len(without), "node"), firstOf(without, len(without))))
	}
}

// apply has a policy replace that of its name, which keeps its age.
func (r *promiseReading) apply(p *v1alpha1.FencePolicy, now time.Time) {
	p.CreationTimestamp = metav1.NewTime(now)
	if i := slices.IndexFunc(r.policies, func(o v1alpha1.FencePolicy) bool { return o.Name == p.Name }); i >= 0 {
		p.CreationTimestamp = r.policies[i].CreationTimestamp
		r.policies[i] = *p
		return
	}
	r.policies = append(r.policies, *p)
}

// warnings says what may not be meant about the nodes that a policy would apply to.
func (r *promiseReading) warnings(p *v1alpha1.FencePolicy) []string {
	verdicts := fencepolicy.Judge(fencepolicy.Facts{Policies: r.policies, Nodes: slices.Collect(maps.Values(r.nodes))})
	v := verdicts[p.Name]
	var texts []string
	if c := v.Status(p, time.Time{}).Conditions[0]; c.Status == metav1.ConditionFalse || v.Others > 0 {
		texts = append(texts, c.Message)
	}
	agents := 0
	for _, each := range verdicts {
		agents += each.Nodes
	}
	most := witnessesOf(&p.Spec)
	if most == 0 && resetsIsolated(&p.Spec) {
		most = fewWitnesses
	}
	if v.Nodes > 0 && agents <= most {
		texts = append(texts, fmt.Sprintf("each node needs %d others as witnesses, and FencePolicies apply to %s in all; have them select more nodes, or set fewer witnesses",
			most, count(agents, "node")))
	}
	return texts
}
