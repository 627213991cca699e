package openshift

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/telling"
)

// externalConditions gives the two conditions of a health check that has a template, and none for
// others. Today's controller sets them after it has written its status, so nobody ever sees them
// (docs/reference/openshift.md#conditions).
func externalConditions(r core.PolicyReport) []v1beta1.Condition {
	step, has := requestStep(r.Policy)
	if !has {
		return nil
	}
	return []v1beta1.Condition{requestAvailable(r), templateAvailable(step)}
}

// requestStep is the step of a policy that makes remediation objects.
func requestStep(p core.Policy) (core.Step, bool) {
	i := slices.IndexFunc(p.Ladder, func(s core.Step) bool { return s.Remedy == RequestMachineRemediation })
	if i < 0 {
		return core.Step{}, false
	}
	return p.Ladder[i], true
}

func templateAvailable(step core.Step) v1beta1.Condition {
	c := v1beta1.Condition{Type: v1beta1.ExternalRemediationTemplateAvailableCondition, Status: string(corev1.ConditionTrue)}
	if step.Problem == "" {
		return c
	}
	c.Status, c.Severity, c.Message = string(corev1.ConditionFalse), v1beta1.SeverityError, step.Problem
	c.Reason = v1beta1.ExternalRemediationTemplateUnusableReason
	if step.Missing {
		c.Reason = v1beta1.ExternalRemediationTemplateNotFoundReason
	}
	return c
}

// requestAvailable is False while the creation of a remediation object is refused, and True otherwise,
// also while none is asked for.
func requestAvailable(r core.PolicyReport) v1beta1.Condition {
	c := v1beta1.Condition{Type: v1beta1.ExternalRemediationRequestAvailableCondition, Status: string(corev1.ConditionTrue)}
	refused := refusedRequests(r)
	if len(refused) == 0 {
		return c
	}
	first := refused[0]
	c.Status, c.Severity, c.Reason = string(corev1.ConditionFalse), v1beta1.SeverityError, v1beta1.ExternalRemediationRequestCreationFailedReason
	c.Message = fmt.Sprintf("No remediation object could be created for %s; it is tried again after a pause; kubectl -n %s describe repair %s says why",
		telling.Names(targetsOf(refused)), first.Repair.Namespace, first.Repair.Name)
	return c
}

// refusedRequests are the cases under repair, led by the policy itself, for which an object was to be
// created and none is there.
func refusedRequests(r core.PolicyReport) []core.Case {
	var refused []core.Case
	for _, c := range r.Cases {
		if c.Repair == nil || !c.Repair.Running() || c.Repair.Attempts == 0 || len(c.Requests) > 0 || c.Lead != r.Policy.ID {
			continue
		}
		if slices.ContainsFunc(c.Repair.Ladder, func(s core.Step) bool { return s.Remedy == RequestMachineRemediation }) {
			refused = append(refused, c)
		}
	}
	slices.SortFunc(refused, func(a, b core.Case) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	return refused
}

func targetsOf(cases []core.Case) []core.ID {
	targets := make([]core.ID, len(cases))
	for i := range cases {
		targets[i] = cases[i].Target
	}
	return targets
}
