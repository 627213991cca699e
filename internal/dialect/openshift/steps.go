package openshift

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/specparse"
)

// The names of the remedies that this dialect asks for.
const (
	// DeleteMachine has the machine deleted, for its owner to replace.
	DeleteMachine = "DeleteMachine"
	// RequestMachineRemediation has a remediation object made for the machine from a template.
	RequestMachineRemediation = "RequestMachineRemediation"
	// AnnotateMachine has the machine marked for a remediator which looks for the mark.
	AnnotateMachine = "AnnotateMachine"
)

// externalStrategy is the one value of the strategy annotation that means something.
const externalStrategy = "external-baremetal"

// ExternalRemediationMarks returns the annotations of a machine that is left to an outside remediator. OpenShift's bare-metal
// platform follows the first, and removes it when it is done; remediators that follow the proposal of health checks look for
// the strategy (docs/reference/proposals.md#machine-health-checks).
func ExternalRemediationMarks() map[string]string {
	return map[string]string{externalAnnotation: "", v1beta1.RemediationStrategyAnnotation: externalStrategy}
}

// templateSuffix is what the kind of a template has and that of the objects made from it lacks.
const templateSuffix = "Template"

// readSteps gives the steps for the machines of a health check, and those for machines that have
// failed where they differ (docs/reference/openshift.md#deletion-and-annotation). A template takes all machines; the
// strategy leaves the failed ones to deletion, since there is no host left to wake up.
func readSteps(spec *v1beta1.MachineHealthCheckSpec, annotations map[string]string, namespace string) (all, failed []core.Step) {
	deletion := []core.Step{{Remedy: DeleteMachine, Nature: core.Delete}}
	switch {
	case spec.RemediationTemplate != nil:
		return []core.Step{{
			Remedy: RequestMachineRemediation, Nature: core.CreateRequest, Template: templateIn(namespace, spec.RemediationTemplate),
		}}, nil
	case annotations[v1beta1.RemediationStrategyAnnotation] == externalStrategy:
		return []core.Step{{Remedy: AnnotateMachine, Nature: core.Annotate}}, deletion
	}
	return deletion, nil
}

// templateIn names a template. Whatever namespace the reference gives, the template is that of the health
// check's own, as today (docs/reference/openshift.md#spec): who may write health checks in a namespace may
// not for that reason read another.
func templateIn(namespace string, r *corev1.ObjectReference) core.Reference {
	return core.Reference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: namespace, Name: r.Name}
}

const templateExample = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: reboot}"

// checkTemplate says what of a reference to a template can't be meant.
func checkTemplate(r *corev1.ObjectReference) error {
	if r == nil {
		return nil
	}
	var lacks []string
	for _, field := range [...]struct{ name, value string }{{"apiVersion", r.APIVersion}, {"kind", r.Kind}, {"name", r.Name}} {
		if field.value == "" {
			lacks = append(lacks, field.name)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("spec.remediationTemplate lacks %s; give all of %s", strings.Join(lacks, " and "), templateExample)
	}
	if _, err := schema.ParseGroupVersion(r.APIVersion); err != nil {
		return fmt.Errorf("spec.remediationTemplate.apiVersion is %s; give a group and a version, as in %s", lenient.Quote(r.APIVersion), templateExample)
	}
	if kind, is := strings.CutSuffix(r.Kind, templateSuffix); !is || kind == "" {
		return fmt.Errorf("spec.remediationTemplate.kind is %s; give a kind that ends in %s, as in %s", lenient.Quote(r.Kind), templateSuffix, templateExample)
	}
	if err := specparse.RequestKind(r.APIVersion, r.Kind); err != nil {
		return fmt.Errorf("spec.remediationTemplate.kind is %w", err)
	}
	if len(content.IsPathSegmentName(r.Name)) > 0 {
		return fmt.Errorf("spec.remediationTemplate.name is %s, which no object can be called; give the name of a template, as in %s", lenient.Quote(r.Name), templateExample)
	}
	return nil
}

// readMaxInFlight: machines are deleted one at a time (docs/reference/proposals.md#openshift-guide). Remediators pace
// themselves, and the short circuit bounds how many they are asked for. The annotation changes either.
func readMaxInFlight(annotations map[string]string, steps []core.Step) (core.Amount, error) {
	usual := core.Count(1)
	if len(steps) > 0 && !steps[0].Nature.Effect().Deletes {
		usual = core.Unlimited()
	}
	return specparse.InFlight(annotations, annotation.MaxInFlight, usual)
}

// remedyWarnings says what may not be meant of how machines are to be repaired.
func remedyWarnings(mhc *v1beta1.MachineHealthCheck) []Remark {
	const key = v1beta1.RemediationStrategyAnnotation
	field := "metadata.annotations." + key
	strategy, set := mhc.Annotations[key]
	template := mhc.Spec.RemediationTemplate
	var remarks []Remark
	switch {
	case !set:
	case template != nil:
		remarks = append(remarks, warning(field, "annotation %s is ignored, since there is a remediationTemplate, which takes all machines; remove one of them", key))
	case strategy != externalStrategy:
		remarks = append(remarks, warning(field, "annotation %s is %s, which means nothing, so unhealthy machines are deleted; %s has them marked for an outside remediator", key, lenient.Quote(strategy), externalStrategy))
	default:
		remarks = append(remarks, warning(field, "unhealthy machines get the annotation %s and are left to whoever repairs hosts that have it and takes it away again, such as the machine controller of OpenShift's bare-metal platform; "+
			"where nobody does, nothing happens. Machines in phase Failed are deleted all the same", externalAnnotation))
	}
	if template != nil && template.Namespace != "" && mhc.Namespace != "" && template.Namespace != mhc.Namespace {
		remarks = append(remarks, warning("spec.remediationTemplate.namespace", "spec.remediationTemplate.namespace is ignored: the template is looked for in the health check's own namespace"))
	}
	return remarks
}
