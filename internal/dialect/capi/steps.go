package capi

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/specparse"
)

// The names of the remedies of this dialect.
const (
	// MarkOwner sets conditions by which the owner replaces the machine.
	MarkOwner = "MarkOwner"
	// RequestMachineRemediation creates a remediation object for the machine from a template.
	RequestMachineRemediation = "RequestClusterMachineRemediation"
)

// templateSuffix ends the kind of a template. The kind of the objects made from it lacks the suffix.
const templateSuffix = "Template"

// readSteps returns the steps of a repair. With a template, an external remediator repairs the machine first, and its
// owner replaces it afterwards. Without one, the owner replaces it at once.
func readSteps(t *clusterv1.MachineHealthCheckRemediationTemplateReference, namespace string) []core.Step {
	owner := core.Step{Remedy: MarkOwner, Nature: core.AskOwner}
	if !t.IsDefined() {
		return []core.Step{owner}
	}
	return []core.Step{{
		Remedy: RequestMachineRemediation, Nature: core.CreateRequest,
		Template: core.Reference{APIVersion: t.APIVersion, Kind: t.Kind, Namespace: namespace, Name: t.Name},
	}, owner}
}

const templateExample = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Metal3RemediationTemplate, name: reboot}"

// checkTemplate returns an error if a template reference can't be valid.
func checkTemplate(r *clusterv1.MachineHealthCheckRemediationTemplateReference) error {
	const field = "spec.remediation.templateRef"
	if !r.IsDefined() {
		return nil
	}
	var lacks []string
	for _, f := range [...]struct{ name, value string }{{"apiVersion", r.APIVersion}, {"kind", r.Kind}, {"name", r.Name}} {
		if f.value == "" {
			lacks = append(lacks, f.name)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%s lacks %s; give all of %s", field, strings.Join(lacks, " and "), templateExample)
	}
	var problems []error
	if version, _ := schema.ParseGroupVersion(r.APIVersion); version.Version == "" { // it is empty with an error
		problems = append(problems, fmt.Errorf("%s.apiVersion is %s; give a group and a version, as in %s", field, lenient.Quote(r.APIVersion), templateExample))
	}
	if kind, is := strings.CutSuffix(r.Kind, templateSuffix); !is || kind == "" {
		problems = append(problems, fmt.Errorf("%s.kind is %s; give a kind that ends in %s, as in %s", field, lenient.Quote(r.Kind), templateSuffix, templateExample))
	}
	if err := specparse.RequestKind(r.APIVersion, r.Kind); err != nil && len(problems) == 0 {
		problems = append(problems, fmt.Errorf("%s.kind is %w", field, err))
	}
	if len(content.IsPathSegmentName(r.Name)) > 0 {
		problems = append(problems, fmt.Errorf("%s.name is %s, which no object can be called; give the name of a template, as in %s", field, lenient.Quote(r.Name), templateExample))
	}
	return errors.Join(problems...)
}

// requestsExternal reports whether a policy requests repairs of its machines from an external remediator.
func requestsExternal(p *core.Policy) bool {
	_, requests := machineConditions().RequestStep(p)
	return requests
}

// readMaxInFlight returns the limit of the annotation. By default there is none, as in Cluster API, since owners and
// remediators pace themselves.
func readMaxInFlight(annotations map[string]string) (core.Amount, error) {
	return specparse.InFlight(annotations, annotation.MaxInFlight, core.Unlimited())
}
