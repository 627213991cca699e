package openshift

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// ExternalBaremetal is how the strategy external-baremetal of health checks is carried out. It
// implements pflag.Value. The zero value counts as Mark.
type ExternalBaremetal string

// The ways.
const (
	// Mark marks the machine, for the machine controller of its platform to power the host.
	Mark ExternalBaremetal = "Mark"
	// PowerRemediation creates a PowerRemediation for the machine, by which Fettle powers the host.
	PowerRemediation ExternalBaremetal = "PowerRemediation"
)

var errExternalBaremetal = errors.New("give Mark or PowerRemediation")

// Set sets the way by its name.
func (e *ExternalBaremetal) Set(name string) error {
	if way := ExternalBaremetal(name); way == Mark || way == PowerRemediation {
		*e = way
		return nil
	}
	return errExternalBaremetal
}

// String returns the name of the way.
func (e *ExternalBaremetal) String() string { return string(*e) }

// Type returns the name of the flag's type.
func (*ExternalBaremetal) Type() string { return "way" }

// The templates of the strategy, and the kind that they have.
const (
	powerAPIVersion    = "fettle.io/v1alpha1"
	powerTemplateKind  = "PowerRemediationTemplate"
	deletingTemplate   = "external-baremetal"
	taintingTemplate   = "external-baremetal-taint"
	releaseByDeletion  = "DeleteNode"
	releaseByTaint     = "Taint"
	failsIntoProvision = "DeleteMachine"
)

// releases has the way in which each template releases the workload of a node.
var releases = map[string]string{ //nolint:gochecknoglobals // a constant table
	deletingTemplate: releaseByDeletion,
	taintingTemplate: releaseByTaint,
}

// BuiltInTemplate returns the template of a reference if it is one of the strategy
// external-baremetal, and nil otherwise. It has the host powered off and on as the machine
// controller of OpenShift's bare-metal platform has it
// (docs/reference/openshift.md#deletion-and-annotation).
func BuiltInTemplate(r core.Reference) *unstructured.Unstructured {
	release := releases[r.Name]
	if release == "" || r.APIVersion != powerAPIVersion || r.Kind != powerTemplateKind || r.Namespace == "" {
		return nil
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"release": release, "onFailure": failsIntoProvision,
	}}}}}
	u.SetAPIVersion(r.APIVersion)
	u.SetKind(r.Kind)
	u.SetNamespace(r.Namespace)
	u.SetName(r.Name)
	return u
}

// readPower returns the name of the template of PowerRemediations for a health check with the
// strategy, or "" if its machines are marked.
func readPower(annotations map[string]string, usual ExternalBaremetal) (template string, err error) {
	way, template := usual, deletingTemplate
	var problems []error
	if value, set := annotations[annotation.ExternalBaremetal]; set {
		if err := way.Set(value); err != nil {
			problems = append(problems, fmt.Errorf("annotation %s is %s; %w", annotation.ExternalBaremetal, lenient.Quote(value), err))
		}
	}
	switch value, set := annotations[annotation.PowerRelease]; {
	case !set, value == releaseByDeletion:
	case value == releaseByTaint:
		template = taintingTemplate
	default:
		problems = append(problems, fmt.Errorf("annotation %s is %s; give %s or %s", annotation.PowerRelease, lenient.Quote(value), releaseByDeletion, releaseByTaint))
	}
	if way != PowerRemediation {
		template = ""
	}
	return template, errors.Join(problems...)
}

// strategyStep returns the first step of a health check with the strategy external-baremetal.
func strategyStep(namespace, template string) core.Step {
	if template == "" {
		return core.Step{Remedy: AnnotateMachine, Nature: core.Annotate}
	}
	return core.Step{Remedy: RequestMachineRemediation, Nature: core.CreateRequest, Template: core.Reference{
		APIVersion: powerAPIVersion, Kind: powerTemplateKind, Namespace: namespace, Name: template,
	}}
}

// powerWarnings returns remarks about how the strategy is carried out.
func powerWarnings(mhc *v1beta1.MachineHealthCheck, usual ExternalBaremetal) []Remark {
	template, err := readPower(mhc.Annotations, usual)
	if err != nil {
		return nil
	}
	var remarks []Remark
	follows := hasStrategy(&mhc.Spec, mhc.Annotations)
	for _, key := range [...]string{annotation.ExternalBaremetal, annotation.PowerRelease} {
		_, set := mhc.Annotations[key]
		switch field := "metadata.annotations." + key; {
		case !set:
		case !follows:
			remarks = append(remarks, warning(field, "annotation %s is ignored, since it is for machines of the strategy %s", key, externalStrategy))
		case key == annotation.PowerRelease && template == "":
			remarks = append(remarks, warning(field, "annotation %s is ignored, since machines are marked; annotation %s=%s has Fettle power their hosts", key, annotation.ExternalBaremetal, PowerRemediation))
		}
	}
	if !follows {
		return remarks
	}
	const field = "metadata.annotations." + v1beta1.RemediationStrategyAnnotation
	if template != "" {
		return append(remarks, warning(field, "unhealthy machines get a PowerRemediation, by which Fettle powers their hosts off and on through their BMCs; a machine with the annotation %s is left to the controller that acts on it. "+
			"Machines in phase Failed are deleted all the same", externalAnnotation))
	}
	return append(remarks, warning(field, "unhealthy machines get the annotation %s and are left to the controller that repairs their hosts and removes it, such as the machine controller of OpenShift's bare-metal platform; "+
		"without such a controller nothing happens. Machines in phase Failed are deleted all the same", externalAnnotation))
}
