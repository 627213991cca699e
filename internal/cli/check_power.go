package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// isValidPower reports whether a document is of a kind for bare metal and has no problems.
func (d *draft) isValidPower() bool { return d.isPower && len(d.Problems) == 0 }

// compareBMCs notes the BMCs of the input that name the node of an earlier one, or have its address.
func compareBMCs(drafts []draft) {
	for i := range drafts {
		if drafts[i].bmc == nil {
			continue
		}
		for j := range i {
			if other := &drafts[j]; other.bmc != nil && other.Name != drafts[i].Name {
				drafts[i].compareBMC(other.bmc, fmt.Sprintf("BMC %s (%s:%d)", other.Name, other.File, other.Line))
			}
		}
	}
}

// compareBMC notes what a BMC has in common with another, which is described.
func (d *draft) compareBMC(other *v1alpha1.BMC, described string) {
	if node := nodeOf(&d.bmc.Spec); node != "" && node == nodeOf(&other.Spec) {
		d.note(Remark{Field: "spec.nodeName", Fault: true, Text: fmt.Sprintf(
			"spec.nodeName is %s, as in %s; Fettle fences no node that two BMCs name; delete one of them, or correct its node", node, described)})
	}
	if mine, theirs := d.bmc.Spec.BareMetalHost, other.Spec.BareMetalHost; mine != nil && theirs != nil && *mine == *theirs {
		d.note(Remark{Field: bareMetalHostField, Fault: true, Text: fmt.Sprintf(
			"spec.bareMetalHost is that of %s too; Fettle uses neither, since one of them would power off the host of another node; correct one of them", described)})
	}
	mine, _, _ := addressOf(&d.bmc.Spec) // zero where it can't be parsed, which overlaps with none
	theirs, _, _ := addressOf(&other.Spec)
	if mine.Overlaps(theirs) {
		d.note(Remark{Field: "spec.address", Fault: true, Text: fmt.Sprintf(
			"spec.address is of the same system as that of %s; Fettle uses neither, since one of them would power off the host of another node; correct one of them", described)})
	}
}

// judgePower judges the valid documents for bare metal with the cluster.
func (s *session) judgePower(ctx context.Context, drafts []draft) {
	var existing *bmcReading
	for i := range drafts {
		d := &drafts[i]
		if !d.isValidPower() {
			continue
		}
		if d.Namespace == "" && d.policy == nil {
			d.Namespace = s.namespace
			d.object.SetNamespace(s.namespace)
			s.reviewNamespace(d)
		}
		if d.bmc != nil && d.isValidPower() {
			if existing == nil {
				existing = readBMCsOnce(ctx, s.cluster, s.connection.bmcs)
			}
			d.compareExisting(existing, drafts)
			if d.bmc.Spec.BareMetalHost != nil {
				s.checkBareMetalHost(ctx, d)
			} else {
				s.checkSecret(ctx, d, drafts)
			}
		}
		if d.isValidPower() {
			s.admit(ctx, d)
		}
	}
}

// putPower stores the valid templates and remediations of the input, as if they were applied.
func (v *view) putPower(drafts []draft) {
	for i := range drafts {
		if d := &drafts[i]; d.isValidPower() {
			v.external.templates.Put(d.object.GroupVersionKind(), d.object)
		}
	}
}

// compareExisting compares a BMC with those of the cluster that no document replaces.
func (d *draft) compareExisting(existing *bmcReading, drafts []draft) {
	if existing.unread != "" {
		d.Unchecked = append(d.Unchecked, "whether another BMC of the cluster has its node or its address, since "+existing.unread)
	}
	for _, b := range existing.inOrder() {
		if !slices.ContainsFunc(drafts, func(o draft) bool { return o.bmc != nil && o.Name == b.Name }) {
			d.compareBMC(b, "BMC "+b.Name+" of the cluster")
		}
	}
}

// checkSecret checks that the Secret of a BMC has the keys of credentials, in the input or else in the cluster. It
// shows nothing of its contents.
func (s *session) checkSecret(ctx context.Context, d *draft, drafts []draft) {
	const field = "spec.credentialsName"
	at := types.NamespacedName{Namespace: d.Namespace, Name: d.bmc.Spec.CredentialsName}
	secret, in := secretOf(drafts, at), ""
	if secret == nil {
		var err error
		switch secret, err = s.readSecret(ctx, at); {
		case apierrors.IsNotFound(err):
			d.note(Remark{Field: field, Text: fmt.Sprintf("there is no Secret %s, so Fettle can't log in to the BMC; create it with the keys %s and %s",
				at, v1alpha1.UsernameKey, v1alpha1.PasswordKey)})
			return
		case apierrors.IsForbidden(err):
			d.Unchecked = append(d.Unchecked, fmt.Sprintf("the keys of Secret %s, since you may not get it", at))
			return
		case err != nil:
			d.Unchecked = append(d.Unchecked, fmt.Sprintf("the keys of Secret %s, since it could not be read (%s)", at, failureText(err)))
			return
		}
	} else {
		in = " of the input"
	}
	if lacks := lackingKeys(secret); len(lacks) > 0 {
		d.note(Remark{Field: field, Fault: true, Text: lackText(at.String()+in, lacks)})
	}
}

// secretOf returns a Secret of the input, or nil.
func secretOf(drafts []draft, at types.NamespacedName) *unstructured.Unstructured {
	for i := range drafts {
		u := drafts[i].object
		here := u != nil && (u.GetNamespace() == at.Namespace || u.GetNamespace() == "")
		if here && u.GetKind() == "Secret" && u.GetAPIVersion() == "v1" && u.GetName() == at.Name {
			return u
		}
	}
	return nil
}

// readSecret reads a Secret with the user's own rights.
func (s *session) readSecret(ctx context.Context, at types.NamespacedName) (*unstructured.Unstructured, error) {
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	err := s.cluster.Get(ctx, at, secret)
	return secret, err //nolint:wrapcheck // the callers look at its kind
}

// lackingKeys returns the keys of credentials that a Secret lacks, or that have no value.
func lackingKeys(secret *unstructured.Unstructured) []string {
	var lacks []string
	for _, name := range [...]string{v1alpha1.UsernameKey, v1alpha1.PasswordKey} {
		has := false
		for _, part := range [...]string{"data", "stringData"} {
			value, _, _ := unstructured.NestedString(secret.Object, part, name) // empty where it is no text
			has = has || value != ""
		}
		if !has {
			lacks = append(lacks, name)
		}
	}
	return lacks
}

// lackText says which keys a Secret lacks.
func lackText(secret string, lacks []string) string {
	return fmt.Sprintf("Secret %s has no value for %s; it needs the keys %s and %s", secret, strings.Join(lacks, " and "), v1alpha1.UsernameKey, v1alpha1.PasswordKey)
}

// warnOfNodesWithoutBMC warns each health check with a PowerRemediationTemplate of its nodes that have no BMC, in the
// cluster or in the input.
func warnOfNodesWithoutBMC(assessments []*assessment, judged []*draft, bmcs *bmcReading, drafts []draft) {
	for _, d := range judged {
		w, i, found := policyOf(assessments, d)
		if !found || !usesPower(w.policies[i].Steps) {
			continue
		}
		if bmcs.unread != "" {
			d.Unchecked = append(d.Unchecked, "whether the nodes that it selects have a BMC, since "+bmcs.unread)
			continue
		}
		if without := w.nodesWithoutBMC(i, nodesWithBMC(bmcs, drafts)); len(without) > 0 {
			field := d.fieldOf(fieldOfSteps(w.policies[i].Steps))
			d.Warnings = append(d.Warnings, Finding{Line: d.locate(field, ""), Field: field, Message: fmt.Sprintf(
				"no BMC in namespace %s names %s that it selects, so no %s of such a node can start; create a BMC for each: %s",
				bmcs.namespace, count(len(without), "node"), powerKind, firstOf(without, len(without)))})
		}
	}
}

// powerRights are the rights of config/power. Those with the namespace of the BMCs are granted in it alone.
//
//nolint:gochecknoglobals // a constant table
var powerRights = []struct {
	verb   string
	of     schema.GroupResource
	ofBMCs bool
}{
	{"get", schema.GroupResource{Resource: "secrets"}, true},
	{"delete", schema.GroupResource{Resource: "nodes"}, false},
	{"list", schema.GroupResource{Resource: "pods"}, false},
	{"list", schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}, false},
	{"get", schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"}, false},
}

// warnOfMissingPower warns each health check that has Fettle power hosts of the rights of config/power that the controller lacks.
func (s *session) warnOfMissingPower(ctx context.Context, assessments []*assessment, judged []*draft) {
	var lacks []string
	var failed error
	reviewed := false
	for _, d := range judged {
		w, i, found := policyOf(assessments, d)
		if !found || !usesPower(w.policies[i].Steps) {
			continue
		}
		if !reviewed {
			lacks, failed = s.missingPower(ctx)
			reviewed = true
		}
		field := d.fieldOf(fieldOfSteps(w.policies[i].Steps))
		switch {
		case failed != nil:
			d.Unchecked = append(d.Unchecked, "whether Fettle has the rights of config/power ("+failureText(failed)+")")
		case len(lacks) > 0:
			d.Warnings = append(d.Warnings, Finding{Line: d.locate(field, ""), Field: field, Message: fmt.Sprintf(
				"Fettle lacks the permission to %s, so it can't power hosts; kubectl apply -k config/power grants that, or power.enabled=true in the chart", strings.Join(lacks, ", "))})
		}
	}
}

// missingPower returns the rights of config/power that the controller lacks.
func (s *session) missingPower(ctx context.Context) (lacks []string, err error) {
	for _, right := range powerRights {
		in, where := "", ""
		if right.ofBMCs {
			in, where = s.connection.bmcs, " of namespace "+s.connection.bmcs
		}
		may, err := s.mayController(ctx, right.verb, in, right.of)
		if err != nil {
			return nil, err
		}
		if !may {
			lacks = append(lacks, right.verb+" "+right.of.String()+where)
		}
	}
	return lacks, nil
}

// nodesWithBMC returns the nodes that a BMC names, in the cluster or in the input.
func nodesWithBMC(bmcs *bmcReading, drafts []draft) map[string]bool {
	has := map[string]bool{}
	for _, b := range bmcs.byName {
		has[nodeOf(&b.Spec)] = true
	}
	for i := range drafts {
		if drafts[i].bmc != nil {
			has[nodeOf(&drafts[i].bmc.Spec)] = true
		}
	}
	return has
}

// nodesWithoutBMC returns the nodes of a policy's targets that have none.
func (w *assessment) nodesWithoutBMC(policy int, has map[string]bool) []string {
	var without []string
	for _, m := range w.policies[policy].Members {
		if node := nodeIn(w.key, w.cluster.Targets[m].Node.Name); node != "" && !has[node] {
			without = append(without, node)
		}
	}
	slices.Sort(without)
	return slices.Compact(without)
}
