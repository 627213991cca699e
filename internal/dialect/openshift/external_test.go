package openshift

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
)

var metal = requests("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3RemediationTemplate", "reboot")

// unusable sets why the template of a policy can't be used.
func unusable(problem string, missing bool) func(*core.Policy) {
	return func(p *core.Policy) { p.Steps[0].Problem, p.Steps[0].Missing = problem, missing }
}

// handled returns a case under repair for which so many attempts to create an object were refused.
func handled(name string, attempts int, requests ...core.Request) core.MemberReport {
	p := plain(metal)
	return core.MemberReport{
		Target:   core.ID{Kind: "Machine", Namespace: "machines", Name: name},
		Repair:   &core.Repair{Namespace: "machines", Name: name + "-1", Steps: p.Steps, StepState: core.StepState{Attempts: attempts}},
		Lead:     p.ID,
		Requests: requests,
	}
}

func withCases(r core.PolicyReport, cases ...core.MemberReport) core.PolicyReport {
	r.Members = cases
	return r
}

func TestExternalRemediation(t *testing.T) {
	const (
		allowed  = "RemediationAllowed"
		request  = "ExternalRemediationRequestAvailable"
		template = "ExternalRemediationTemplateAvailable"
	)
	yes := func(kind string) v1beta1.Condition { return v1beta1.Condition{Type: kind, Status: "True"} }
	no := func(kind, severity, reason, message string) v1beta1.Condition {
		return v1beta1.Condition{Type: kind, Status: "False", Severity: severity, Reason: reason, Message: message}
	}
	over := handled("b", 1)
	over.Repair.Ended = noon
	byDeletion := handled("b", 1)
	byDeletion.Repair.Steps = deletion()
	ledByAnother := handled("b", 1)
	ledByAnother.Lead.Name = "another"
	cases := map[string]struct {
		reason string
		report core.PolicyReport
		want   []v1beta1.Condition
	}{
		"no template": {
			reason: "nothing external is to be available", report: report(10, nil), want: []v1beta1.Condition{yes(allowed)},
		},
		"machines are marked": {
			reason: "that takes no template and makes no object", report: report(10, nil, handsOver), want: []v1beta1.Condition{yes(allowed)},
		},
		"all is well": {
			reason: "what would be needed is there", report: report(10, nil, metal), want: []v1beta1.Condition{yes(request), yes(template), yes(allowed)},
		},
		"a template that does not exist": {
			reason: "OpenShift's reason, and no user waits for a repair in vain", report: report(9, nil, metal, unusable("there is no reboot; create it", true)),
			want: []v1beta1.Condition{
				yes(request), no(template, "Error", "ExternalRemediationTemplateNotFound", "there is no reboot; create it"),
				no(allowed, "Error", "TemplateUnusable", "Fettle can't request a repair from a remediator: there is no reboot; create it"),
			},
		},
		"a template that makes nothing": {
			reason: "it is there, so it is not missing", report: report(9, nil, metal, unusable("it has no spec.template; add it", false)),
			want: []v1beta1.Condition{
				yes(request), no(template, "Error", "ExternalRemediationTemplateUnusable", "it has no spec.template; add it"),
				no(allowed, "Error", "TemplateUnusable", "Fettle can't request a repair from a remediator: it has no spec.template; add it"),
			},
		},
		"a storm without template": {
			reason: "the short circuit comes first, since users wait for its end", report: report(0, func(t *core.Tally) { t.Permitted = false }, metal, unusable("none", true), maxUnhealthy(core.Count(1))),
			want: []v1beta1.Condition{
				yes(request), no(template, "Error", "ExternalRemediationTemplateNotFound", "none"),
				no(allowed, "Warning", "TooManyUnhealthy", "Repairs are stopped, since more machines are not healthy than maxUnhealthy allows, which points to a fault that they share; "+
					"they resume when enough are healthy again (total: 10, unhealthy: 10, maxUnhealthy: 1)"),
			},
		},
		"objects that stand": {
			reason: "they could be created", report: withCases(report(8, nil, metal), handled("a", 0, core.Request{}), handled("b", 2, core.Request{})),
			want: []v1beta1.Condition{yes(request), yes(template), yes(allowed)},
		},
		"objects that are refused": {
			reason: "who waits for one, and where to read why", report: withCases(report(7, nil, metal), handled("c", 1), handled("a", 0), handled("b", 3)),
			want: []v1beta1.Condition{
				no(request, "Error", "ExternalRemediationRequestCreationFailed",
					"No remediation object could be created for b, c; it is tried again after a pause; kubectl -n machines describe repair b-1 says why"),
				yes(template), yes(allowed),
			},
		},
		"an object that is refused": {
			reason: "one is enough", report: withCases(report(7, nil, metal), handled("b", 3)),
			want: []v1beta1.Condition{
				no(request, "Error", "ExternalRemediationRequestCreationFailed",
					"No remediation object could be created for b; it is tried again after a pause; kubectl -n machines describe repair b-1 says why"),
				yes(template), yes(allowed),
			},
		},
		"what is over, and what others do": {
			reason: "a deletion that is refused is no object that is refused", report: withCases(report(7, nil, metal), over, byDeletion, ledByAnother, core.MemberReport{}),
			want: []v1beta1.Condition{yes(request), yes(template), yes(allowed)},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			for i := range tc.want {
				tc.want[i].LastTransitionTime = metav1.NewTime(noon.UTC())
			}
			got, _ := statusOf(v1beta1.MachineHealthCheckStatus{}, tc.report, noon)
			if diff := cmp.Diff(tc.want, got.Conditions); diff != "" {
				t.Errorf("%s\nconditions (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestConditionsOfATemplateGoWithIt: without a template its conditions would say nothing.
func TestConditionsOfATemplateGoWithIt(t *testing.T) {
	with, _ := statusOf(v1beta1.MachineHealthCheckStatus{}, report(10, nil, metal), noon)
	if len(with.Conditions) != 3 {
		t.Fatalf("with a template there are %d conditions: %v", len(with.Conditions), with.Conditions)
	}
	without, changed := statusOf(with, report(10, nil), noon.Add(time.Hour))
	if !changed || len(without.Conditions) != 1 || !without.Conditions[0].LastTransitionTime.Time.Equal(noon) {
		t.Errorf("changed: %t, conditions: %v", changed, without.Conditions)
	}
	if _, changed := statusOf(with, report(10, nil, metal), noon.Add(time.Hour)); changed {
		t.Error("the same is written again")
	}
}

// TestUnusableTemplateIsNoStorm: once the template can be used again, repairs need not wait for a
// cooldown.
func TestUnusableTemplateIsNoStorm(t *testing.T) {
	for reason, held := range map[string]bool{"TemplateUnusable": false, "TooManyUnhealthy": true, "Paused": true, "InvalidSpec": true, "ClockSkewed": false, "ClockUnknown": false} {
		got := wasHeld([]v1beta1.Condition{{Type: "ExternalRemediationTemplateAvailable", Status: "False"}, {Type: "RemediationAllowed", Status: "False", Reason: reason}})
		if got != held {
			t.Errorf("after %s repairs were stopped: %t, want %t", reason, got, held)
		}
	}
}
