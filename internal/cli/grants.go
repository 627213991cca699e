package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// aggregationLabel on a ClusterRole grants its rights to health checkers, such as Fettle
// (docs/reference/medik8s.md#aggregated-rights).
const aggregationLabel = "rbac.ext-remediation/aggregate-to-ext-remediation"

// serviceAccount is the service account of the controller.
const serviceAccount = "fettle"

// templateVerbs and requestVerbs are the verbs that the controller uses.
//
//nolint:gochecknoglobals // constants
var (
	templateVerbs = []string{"list", "watch"}
	requestVerbs  = []string{"get", "list", "watch", "create", "patch", "delete"}
)

// remediatorKinds are the resources of a template and of its requests.
type remediatorKinds struct {
	template           core.Reference
	templates, request schema.GroupResource
}

// missingGrants returns the rights that the controller lacks for the remediators in the steps of the drafts. The second
// result says why some are not known.
func (s *session) missingGrants(ctx context.Context, assessments []*assessment, drafts []*draft) (grants []Grant, unknown []string) {
	checked := map[schema.GroupResource]bool{}
	for _, d := range drafts {
		w, i, found := policyOf(assessments, d)
		if !found {
			continue
		}
		for _, step := range w.policies[i].Steps {
			kinds, served := kindsOfRemediator(s.cluster, step.Template)
			if !served || checked[kinds.templates] || w.refuses(step) {
				continue
			}
			checked[kinds.templates] = true
			grant, why := s.missingGrant(ctx, kinds)
			switch {
			case why != "":
				unknown = append(unknown, why)
			case grant != nil:
				grants = append(grants, *grant)
			}
		}
	}
	return grants, slices.Compact(unknown)
}

// refuses reports whether Fettle never takes a step, whatever its rights, since its template is not a remediator's.
func (w *assessment) refuses(step core.Step) bool {
	if _, hidden := w.unread.requests(step); hidden || step.Missing || step.Pending {
		return false
	}
	return step.Problem != ""
}

// kindsOfRemediator returns the resources of a template and its requests. It reports false if the cluster does not
// serve them.
func kindsOfRemediator(c client.Client, template core.Reference) (remediatorKinds, bool) {
	version, err := schema.ParseGroupVersion(template.APIVersion)
	request, is := strings.CutSuffix(template.Kind, "Template")
	if err != nil || !is || request == "" {
		return remediatorKinds{}, false
	}
	resource := func(kind string) (schema.GroupResource, bool) {
		m, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: version.Group, Kind: kind}, version.Version)
		if err != nil {
			return schema.GroupResource{}, false
		}
		return m.Resource.GroupResource(), true
	}
	templates, one := resource(template.Kind)
	requests, both := resource(request)
	return remediatorKinds{template, templates, requests}, one && both
}

// missingGrant reviews the controller's access. It returns the missing ClusterRole, or nil, or the reason why that is
// not known.
func (s *session) missingGrant(ctx context.Context, kinds remediatorKinds) (*Grant, string) {
	var lacks []string
	for _, need := range []struct {
		verbs []string
		of    schema.GroupResource
	}{{templateVerbs, kinds.templates}, {requestVerbs, kinds.request}} {
		for _, verb := range need.verbs {
			may, err := s.mayController(ctx, verb, "", need.of)
			switch {
			case apierrors.IsForbidden(err):
				return nil, "whether Fettle may use " + kinds.template.Kind + ", since you may not create subjectaccessreviews.authorization.k8s.io"
			case err != nil:
				return nil, "whether Fettle may use " + kinds.template.Kind + ": " + failureText(err)
			case !may:
				lacks = append(lacks, verb+" "+need.of.String())
			}
		}
	}
	if len(lacks) == 0 {
		return nil, ""
	}
	return &Grant{APIVersion: kinds.template.APIVersion, Kind: kinds.template.Kind, Lacks: lacks, ClusterRole: roleOf(kinds)}, ""
}

// mayController reports whether the controller's service account may use a verb in a namespace, or in all.
func (s *session) mayController(ctx context.Context, verb, in string, resource schema.GroupResource) (bool, error) {
	namespace := s.connection.controller
	review := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"user":               "system:serviceaccount:" + namespace + ":" + serviceAccount,
		"groups":             []any{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		"resourceAttributes": map[string]any{"verb": verb, "namespace": in, "group": resource.Group, "resource": resource.Resource},
	}}}
	review.SetGroupVersionKind(schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"})
	if err := s.cluster.Create(ctx, review); err != nil {
		if isUnserved(err) {
			return false, fmt.Errorf("the cluster does not serve subjectaccessreviews: %w", err)
		}
		return false, err //nolint:wrapcheck // the caller reads its kind, and says what was requested
	}
	may, _, _ := unstructured.NestedBool(review.Object, "status", "allowed")
	return may, nil
}

// roleOf returns the ClusterRole that a remediator installs for health checkers. Where it installs none, an
// administrator writes it.
func roleOf(kinds remediatorKinds) ClusterRole {
	rule := func(of schema.GroupResource, verbs []string) PolicyRule {
		return PolicyRule{APIGroups: []string{of.Group}, Resources: []string{of.Resource}, Verbs: verbs}
	}
	return ClusterRole{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole",
		Metadata: RoleMetadata{Name: "ext-remediation:" + kinds.request.String(), Labels: map[string]string{aggregationLabel: "true"}},
		Rules:    []PolicyRule{rule(kinds.templates, append([]string{"get"}, templateVerbs...)), rule(kinds.request, requestVerbs)},
	}
}

// warnOfMissingGrants warns each draft that names a kind which the controller may not use.
func warnOfMissingGrants(assessments []*assessment, drafts []*draft, grants []Grant) {
	for _, d := range drafts {
		w, i, found := policyOf(assessments, d)
		if !found {
			continue
		}
		for _, g := range grants {
			of := func(s core.Step) bool { return !w.refuses(s) && g.isAbout(s.Template) }
			if !slices.ContainsFunc(w.policies[i].Steps, of) {
				continue
			}
			field := d.fieldOf(fieldOfSteps(w.policies[i].Steps))
			d.Warnings = append(d.Warnings, Finding{Line: d.locate(field, ""), Field: field, Message: fmt.Sprintf(
				"Fettle lacks the permission to %s, so it can't ask the remediator; an administrator can apply the ClusterRole %s below",
				strings.Join(g.Lacks, ", "), g.ClusterRole.Metadata.Name)})
		}
	}
}

// isAbout reports whether a template is of the kind that the controller may not use, in any version.
func (g *Grant) isAbout(template core.Reference) bool {
	return template.Kind == g.Kind && apiGroupOf(template.APIVersion) == apiGroupOf(g.APIVersion)
}

// apiGroupOf returns the group of an API version. Rights don't depend on the version.
func apiGroupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// fieldOfSteps returns the field in which a health check names its templates. Only the steps of an escalation have limits.
func fieldOfSteps(steps []core.Step) string {
	if slices.ContainsFunc(steps, func(s core.Step) bool { return s.Limit > 0 }) {
		return "spec.escalatingRemediations"
	}
	return "spec.remediationTemplate"
}

// grants prints the missing ClusterRoles, as files to apply.
func (p *page) grants(grants []Grant) {
	for i := range grants {
		r := &grants[i].ClusterRole
		p.printf("Apply this to let Fettle, and other health checkers, ask by %s. Then every author of a health check that may name a\n"+
			"%s can have Fettle create and delete what is made from it:\n\n", strings.TrimSuffix(grants[i].Kind, "Template"), grants[i].Kind)
		p.printf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %q\n  labels:\n    %s: \"true\"\nrules:\n", r.APIVersion, r.Kind, r.Metadata.Name, aggregationLabel)
		for _, rule := range r.Rules {
			p.printf("- apiGroups: [%q]\n  resources: [%q]\n  verbs: [%s]\n", rule.APIGroups[0], rule.Resources[0], strings.Join(rule.Verbs, ", "))
		}
		p.printf("\n")
	}
}
