package nhc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/specparse"
)

const (
	// RequestRemediation is the name of this dialect's remedy. It creates an object from a template, and a remediator
	// then repairs the node.
	RequestRemediation = "RequestNodeRemediation"

	templateSuffix          = "Template"
	machineDeletionTemplate = "MachineDeletionRemediationTemplate"
	// Templates of metal3 work in one namespace only (docs/reference/medik8s.md#templates).
	metal3Template  = "Metal3RemediationTemplate"
	metal3Namespace = "openshift-machine-api"
)

// minTimeout is the shortest timeout that a step of an escalation may have (docs/reference/medik8s.md#spec).
const minTimeout = time.Minute

// maxSteps bounds the number of steps.
const maxSteps = 20

// readSteps returns the steps of a remediation in their order. A faulty template is the problem of its step. A faulty
// list of steps is an error.
func readSteps(spec *v1alpha1.NodeHealthCheckSpec) ([]core.Step, error) {
	one, several := spec.RemediationTemplate != nil, len(spec.EscalatingRemediations) > 0
	switch {
	case one && several:
		return nil, errors.New("spec.remediationTemplate and spec.escalatingRemediations exclude each other; remove one of them")
	case one:
		return []core.Step{stepOf("spec.remediationTemplate", spec.RemediationTemplate)}, nil
	case several:
		return readEscalation(spec.EscalatingRemediations)
	}
	return nil, errors.New("spec.remediationTemplate and spec.escalatingRemediations are both missing; give one of them, " +
		"such as remediationTemplate: {apiVersion: GROUP/VERSION, kind: KIND, namespace: NAMESPACE, name: NAME}")
}

func readEscalation(remediations []v1alpha1.EscalatingRemediation) ([]core.Step, error) {
	if len(remediations) > maxSteps {
		return nil, fmt.Errorf("spec.escalatingRemediations has %d entries; give at most %d", len(remediations), maxSteps)
	}
	places := make([]int, len(remediations))
	unsorted := make([]core.Step, len(remediations))
	var problems []error
	for i := range remediations {
		r, field := &remediations[i], fmt.Sprintf("spec.escalatingRemediations[%d]", i)
		places[i], unsorted[i] = i, stepOf(field+".remediationTemplate", &r.RemediationTemplate)
		limit, _ := time.ParseDuration(string(r.Timeout)) // 0 for text that is no duration
		if limit < minTimeout {
			problems = append(problems, fmt.Errorf("%s.timeout is %s; give a duration of at least 60s, such as 300s, 10m or 1h30m", field, lenient.Quote(string(r.Timeout))))
		}
		unsorted[i].Limit = limit
		for before := range i {
			if remediations[before].Order == r.Order {
				problems = append(problems, fmt.Errorf("%s.order is %d, as that of [%d]; give each an order of its own", field, r.Order, before))
				break
			}
		}
		if slices.ContainsFunc(unsorted[:i], func(s core.Step) bool { return s.Template == unsorted[i].Template }) && unsorted[i].Problem == "" {
			unsorted[i].Problem = field + ".remediationTemplate is that of an earlier entry too; remove one of them, since what failed once is not tried again"
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(remediations[a].Order, remediations[b].Order) })
	steps := make([]core.Step, len(unsorted))
	for i, place := range places {
		steps[i] = unsorted[place]
	}
	return steps, nil
}

// stepOf returns the step for a template, without a timeout.
func stepOf(field string, t *v1alpha1.TemplateReference) core.Step {
	return core.Step{
		Remedy: RequestRemediation, Nature: core.CreateRequest,
		Template: core.Reference{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: t.Namespace, Name: t.Name},
		Problem:  templateProblem(field, t),
	}
}

// templateProblem returns the fault of a template reference, without looking for the template.
func templateProblem(field string, t *v1alpha1.TemplateReference) string {
	stem, isTemplate := strings.CutSuffix(t.Kind, templateSuffix)
	switch {
	case t.APIVersion == "" || t.Kind == "" || t.Name == "":
		return field + " lacks an apiVersion, a kind or a name; give all three, such as {apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, namespace: NAMESPACE, name: NAME}"
	case !isTemplate || stem == "":
		return fmt.Sprintf("%s.kind is %s; give the kind of a template, which ends in Template, such as SelfNodeRemediationTemplate", field, lenient.Quote(t.Kind))
	case specparse.RequestKind(t.APIVersion, t.Kind) != nil:
		return fmt.Sprintf("%s.kind is %s", field, specparse.RequestKind(t.APIVersion, t.Kind))
	case t.Kind == metal3Template && t.Namespace != metal3Namespace:
		return fmt.Sprintf("%s.namespace is %s; a %s works in %s only, so make one there and refer to that", field, lenient.Quote(t.Namespace), metal3Template, metal3Namespace)
	}
	return ""
}

// deletesMachines reports whether a step deletes machines. Like medik8s' operator, it ignores the case of the kind.
func deletesMachines(spec *v1alpha1.NodeHealthCheckSpec) bool {
	deletes := func(t *v1alpha1.TemplateReference) bool { return strings.EqualFold(t.Kind, machineDeletionTemplate) }
	if spec.RemediationTemplate != nil && deletes(spec.RemediationTemplate) {
		return true
	}
	return slices.ContainsFunc(spec.EscalatingRemediations, func(r v1alpha1.EscalatingRemediation) bool { return deletes(&r.RemediationTemplate) })
}
