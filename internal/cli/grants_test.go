package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// accessReviewer is an API server that answers reviews of access: allowed are verbs and resources.
type accessReviewer struct {
	client.WithWatch

	allowed []string
	refuse  error
	users   []string
}

func (j *accessReviewer) RESTMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	for _, kind := range []string{"Pod", "PodTemplate"} {
		m.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	// A template without requests, requests without a template, a kind that does not end in Template, and kinds without any other word.
	for _, kind := range []string{"Reboot", "RebootTemplate", "HaltTemplate", "Boot", "Twice", "TwiceTemplate", "Template", ""} {
		for _, version := range []string{"v1", "v2"} {
			m.Add(schema.GroupVersionKind{Group: "fix.example", Version: version, Kind: kind}, meta.RESTScopeNamespace)
		}
	}
	return m
}

func (j *accessReviewer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	u := o.(*unstructured.Unstructured)
	reviewed, _, _ := unstructured.NestedStringMap(u.Object, "spec", "resourceAttributes")
	user, _, _ := unstructured.NestedString(u.Object, "spec", "user")
	j.users = append(j.users, user)
	may := slices.Contains(j.allowed, reviewed["verb"]+" "+reviewed["resource"]+"."+reviewed["group"])
	_ = unstructured.SetNestedField(u.Object, may, "status", "allowed")
	return j.refuse
}

// TestMayWrite: a refusal is for want of rights only where a review says so. An object that exists needs no right to create.
func TestMayWrite(t *testing.T) {
	resource := schema.GroupResource{Group: "fix.example", Resource: "reboots"}
	forbidden := apierrors.NewForbidden(resource, "a", nil)
	both := []string{"patch reboots.fix.example", "create reboots.fix.example"}
	for sentence, tc := range map[string]struct {
		err     error
		isNew   bool
		allowed []string
		refuse  error
		want    core.Tri
	}{
		"it may":                     {forbidden, true, both, nil, core.Yes},
		"it may not patch":           {forbidden, false, both[1:], nil, core.No},
		"it may not create":          {forbidden, true, both[:1], nil, core.No},
		"it may patch, and it is":    {forbidden, false, both[:1], nil, core.Yes},
		"the review fails":           {forbidden, false, both, apierrors.NewForbidden(resource, "", nil), core.Unknown},
		"the answer has no resource": {&apierrors.StatusError{}, false, both, nil, core.Unknown},
		"there is no answer":         {errors.New("connection refused"), false, both, nil, core.Unknown},
	} {
		s := &session{cluster: &accessReviewer{allowed: tc.allowed, refuse: tc.refuse}}
		if got := s.mayWrite(t.Context(), tc.err, tc.isNew, "n"); got != tc.want {
			t.Errorf("%s: %v, want %v", sentence, got, tc.want)
		}
	}
}

// TestI14MissingGrants: each right on a remediator that the controller lacks is told, with the ClusterRole that grants exactly that.
func TestI14MissingGrants(t *testing.T) {
	all := []string{"list reboottemplates.fix.example", "watch reboottemplates.fix.example"}
	for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
		all = append(all, verb+" reboots.fix.example")
	}
	lack := func(j *accessReviewer) (*Grant, string) {
		s := &session{cluster: j, connection: &connection{controller: "home"}}
		kinds, served := kindsOfRemediator(j, core.Reference{APIVersion: "fix.example/v1", Kind: "RebootTemplate", Name: "usual"})
		if !served {
			t.Fatal("the kinds are not found")
		}
		return s.missingGrant(t.Context(), kinds)
	}
	if g, why := lack(&accessReviewer{allowed: all}); g != nil || why != "" {
		t.Errorf("nothing is missing, yet it lacks %+v, %q", g, why)
	}
	for i, without := range all {
		j := &accessReviewer{allowed: slices.Delete(slices.Clone(all), i, i+1)}
		if g, _ := lack(j); g == nil || !slices.Equal(g.Lacks, []string{without}) {
			t.Errorf("it lacks %+v, want %s", g, without)
		}
		if slices.Compact(j.users)[0] != "system:serviceaccount:home:fettle" {
			t.Errorf("reviews are about %q", j.users)
		}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", nil)
	if g, why := lack(&accessReviewer{refuse: forbidden}); g != nil || !strings.Contains(why, "you may not create subjectaccessreviews") {
		t.Errorf("who may not ask is told %+v, %q", g, why)
	}
	for _, of := range []core.Reference{
		{APIVersion: "fix.example/v1", Kind: "PrayTemplate"}, {APIVersion: "fix.example/v1", Kind: "HaltTemplate"}, {APIVersion: "fix.example/v1", Kind: "BootTemplate"},
		{APIVersion: "fix.example/v1", Kind: "Twice"}, {APIVersion: "fix.example/v1", Kind: "Template"}, {APIVersion: "fix.example/v1/v2", Kind: "PodTemplate"},
	} {
		if _, served := kindsOfRemediator(&accessReviewer{}, of); served {
			t.Errorf("the kinds of %v are found, and are no template and its requests that are served", of)
		}
	}
	g, _ := lack(&accessReviewer{})
	var out bytes.Buffer
	(&page{Writer: &out}).grants([]Grant{*g})
	const want = `Apply this to let Fettle, and other health checkers, ask by Reboot. Then every author of a health check that may name a
RebootTemplate can have Fettle create and delete what is made from it:

apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: "ext-remediation:reboots.fix.example"
  labels:
    rbac.ext-remediation/aggregate-to-ext-remediation: "true"
rules:
- apiGroups: ["fix.example"]
  resources: ["reboottemplates"]
  verbs: [get, list, watch]
- apiGroups: ["fix.example"]
  resources: ["reboots"]
  verbs: [get, list, watch, create, patch, delete]

`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
}

// TestI14GrantsOfRefusedSteps: no role is printed for a template that Fettle refuses, and each draft that names a kind has the warning.
func TestI14GrantsOfRefusedSteps(t *testing.T) {
	const refused = "it is a template of the machine's own parts"
	for sentence, c := range map[string]struct {
		step            core.Step
		hidden, granted bool
	}{
		"usable":              {granted: true},
		"refused":             {step: core.Step{Problem: refused}},
		"missing":             {step: core.Step{Problem: "it does not exist", Missing: true}, granted: true},
		"not known yet":       {step: core.Step{Problem: "it is not known", Pending: true}, granted: true},
		"not for you to read": {step: core.Step{Problem: "it can't be read"}, hidden: true, granted: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			assessments, drafts := rebooting(c.step, c.hidden)
			s := &session{cluster: &accessReviewer{}, connection: &connection{controller: "home"}}
			grants, _ := s.missingGrants(t.Context(), assessments, drafts)
			if granted := len(grants) == 1; granted != c.granted || len(grants) > 1 {
				t.Fatalf("the grants are %+v", grants)
			}
			warnOfMissingGrants(assessments, drafts, grants)
			for _, d := range drafts {
				if warned := len(d.Warnings) == 1; warned != c.granted {
					t.Errorf("%s has the warnings %+v", d.Name, d.Warnings)
				}
			}
		})
	}
}

// TestI14WarningsOfRefusedSteps: a draft whose template Fettle refuses has no warning, also where another draft needs the role.
func TestI14WarningsOfRefusedSteps(t *testing.T) {
	assessments, drafts := rebooting(core.Step{}, false)
	assessments[0].policies[0].Steps[0].Problem = "it is a template of the machine's own parts"
	s := &session{cluster: &accessReviewer{}, connection: &connection{controller: "home"}}
	grants, _ := s.missingGrants(t.Context(), assessments, drafts)
	warnOfMissingGrants(assessments, drafts, grants)
	if len(drafts[0].Warnings) != 0 || len(drafts[1].Warnings) != 1 {
		t.Errorf("the refused one has the warnings %+v, and the other %+v", drafts[0].Warnings, drafts[1].Warnings)
	}
}

// rebooting returns two drafts that name the same kind in two versions.
func rebooting(step core.Step, hidden bool) ([]*assessment, []*draft) {
	w := &assessment{}
	w.unread.requests = func(core.Step) (string, bool) { return "", hidden }
	var drafts []*draft
	for _, version := range []string{"v1", "v2"} {
		step.Template = core.Reference{APIVersion: "fix.example/" + version, Kind: "RebootTemplate", Name: "usual"}
		w.policies = append(w.policies, core.Policy{ID: core.ID{Kind: "NodeHealthCheck", Name: version}, Steps: []core.Step{step}})
		w.dialectOf = append(w.dialectOf, nil)
		drafts = append(drafts, &draft{Document: Document{Kind: "NodeHealthCheck", Name: version}})
	}
	return []*assessment{w}, drafts
}

// TestPhaseOfARemediator: one without conditions has taken up what its phase tells.
func TestPhaseOfARemediator(t *testing.T) {
	p := &page{}
	for want, q := range map[string]core.Request{
		"not taken up yet": {Own: true}, "in phase Waiting": {Own: true, Phase: "Waiting"},
		"failed": {Own: true, Phase: "Waiting", Succeeded: core.No},
	} {
		r := requestOf(&q)
		if got := p.answerOf(&r); got != want {
			t.Errorf("it is told as %q, want %q", got, want)
		}
	}
}
