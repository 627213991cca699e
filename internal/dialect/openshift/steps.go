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

// The names of the remedies that steps of this dialect use.
const (
	// DeleteMachine deletes the machine, for its owner to replace.
	DeleteMachine = "DeleteMachine"
	// RequestMachineRemediation creates a remediation object for the machine from a template.
	RequestMachineRemediation = "RequestMachineRemediation"
	// AnnotateMachine annotates the machine for an outside remediator.
	AnnotateMachine = "AnnotateMachine"
)

// externalStrategy is the only value of the strategy annotation that has an effect.
const externalStrategy = "external-baremetal"

// ExternalRemediationMarks returns the annotations that leave a machine to an outside remediator.
// OpenShift's bare-metal platform acts on the first, and removes it when it is done. Remediators
// that follow the proposal of health checks look for the strategy
// (docs/reference/proposals.md#machine-health-checks).
func ExternalRemediationMarks() map[string]string {
	return map[string]string{externalAnnotation: "", v1beta1.RemediationStrategyAnnotation: externalStrategy}
}

// templateSuffix ends the kind of a template. Without it, the kind is that of the objects made from
// the template.
const templateSuffix = "Template"

// readSteps returns the steps for the machines of a health check, and the steps for machines in
// phase Failed where they differ (docs/reference/openshift.md#deletion-and-annotation). A template
// serves for all machines. The strategy annotation leaves failed machines to deletion, since they
// have no host to reboot.
//
// Power is the name of the template for the strategy, or "" if it marks machines.
func readSteps(spec *v1beta1.MachineHealthCheckSpec, annotations map[string]string, namespace, power string) (all, failed []core.Step) {
	deletion := []core.Step{{Remedy: DeleteMachine, Nature: core.Delete}}
	switch {
	case spec.RemediationTemplate != nil:
		return []core.Step{{
			Remedy: RequestMachineRemediation, Nature: core.CreateRequest, Template: templateIn(namespace, spec.RemediationTemplate),
		}}, nil
	case hasStrategy(spec, annotations):
		return []core.Step{strategyStep(namespace, power)}, deletion
	}
	return deletion, nil
}

// hasStrategy reports whether a health check has the strategy external-baremetal. With a template it
// has no effect.
func hasStrategy(spec *v1beta1.MachineHealthCheckSpec, annotations map[string]string) bool {
	return spec.RemediationTemplate == nil && annotations[v1beta1.RemediationStrategyAnnotation] == externalStrategy
}

// templateIn returns the reference to a template in the health check's own namespace, whatever
// namespace r has, as OpenShift does (docs/reference/openshift.md#spec). A user who may write
// health checks in one namespace must not thereby read another.
func templateIn(namespace string, r *corev1.ObjectReference) core.Reference {
	return core.Reference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: namespace, Name: r.Name}
}

const templateExample = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: reboot}"

// checkTemplate returns an error if a reference can't be that of a template.
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

// readMaxInFlight returns how many machines may be under repair at a time. By default machines are
// deleted one at a time (docs/reference/proposals.md#openshift-guide), and remediation requests are
// unlimited. Remediators pace themselves, and the short circuit bounds the requests.
func readMaxInFlight(annotations map[string]string, steps []core.Step) (core.Amount, error) {
	usual := core.Count(1)
	if !steps[0].Nature.Effect().Deletes {
		usual = core.Unlimited()
	}
	return specparse.InFlight(annotations, annotation.MaxInFlight, usual)
}

// remedyWarnings returns remarks about settings of the remedy that the author may not have meant.
func remedyWarnings(mhc *v1beta1.MachineHealthCheck, usual ExternalBaremetal) []Remark {
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
	}
	remarks = append(remarks, powerWarnings(mhc, usual)...)
	if template != nil && template.Namespace != "" && mhc.Namespace != "" && template.Namespace != mhc.Namespace {
		remarks = append(remarks, warning("spec.remediationTemplate.namespace", "spec.remediationTemplate.namespace is ignored: the template is looked for in the health check's own namespace"))
	}
	return remarks
}
