package capi

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/specparse"
)

// deprecatedSpec is a specification as v1beta1 has it, and as most manifests are still written. Clusters convert it; it
// is read here only to tell somebody what is wrong with it before.
type deprecatedSpec struct {
	ClusterName                string                  `json:"clusterName"`
	Selector                   metav1.LabelSelector    `json:"selector"`
	UnhealthyConditions        []deprecatedCondition   `json:"unhealthyConditions"`
	UnhealthyMachineConditions []deprecatedCondition   `json:"unhealthyMachineConditions"`
	MaxUnhealthy               *intstr.IntOrString     `json:"maxUnhealthy"`
	UnhealthyRange             *string                 `json:"unhealthyRange"`
	NodeStartupTimeout         *string                 `json:"nodeStartupTimeout"`
	RemediationTemplate        *corev1.ObjectReference `json:"remediationTemplate"`
}

type deprecatedCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Timeout string `json:"timeout"`
}

// deprecatedNames are what v1beta1 calls the fields that problems name.
var deprecatedNames = strings.NewReplacer( //nolint:gochecknoglobals // a constant table
	"spec.checks.unhealthyNodeConditions", "spec.unhealthyConditions",
	"spec.checks.unhealthyMachineConditions", "spec.unhealthyMachineConditions",
	"spec.checks.nodeStartupTimeoutSeconds", "spec.nodeStartupTimeout",
	"spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", "spec.maxUnhealthy",
	"spec.remediation.triggerIf.unhealthyInRange", "spec.unhealthyRange",
	"spec.remediation.templateRef", "spec.remediationTemplate",
	"unhealthyNodeConditions", "unhealthyConditions",
	"timeoutSeconds: 300", "timeout: 300s",
	"timeoutSeconds", "timeout",
	"a number of seconds such as 300", "a duration such as 300s",
)

// reviewDeprecated says of a health check in v1beta1 what would be said of what clusters make of it, by its own names.
func reviewDeprecated(u *unstructured.Unstructured) []Remark {
	type MachineHealthCheck struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec   deprecatedSpec `json:"spec"`
		Status any            `json:"status"`
	}
	remarks := specparse.ReviewIdentity(u, deprecatedVersion)
	mhc, wrong := specparse.ReadLeniently[MachineHealthCheck](u, "spec.maxUnhealthy")
	spec, problems := mhc.Spec.converted()
	of := reviewSpec(&spec, u.GetAnnotations(), len(wrong) == 0)
	for i := range of {
		of[i].Field, of[i].Text = deprecatedNames.Replace(of[i].Field), deprecatedNames.Replace(of[i].Text)
	}
	if t := mhc.Spec.RemediationTemplate; t != nil && t.Namespace != "" && t.Namespace != u.GetNamespace() {
		of = append(of, warning("spec.remediationTemplate.namespace", "spec.remediationTemplate.namespace is ignored: the template is looked for in the health check's own namespace"))
	}
	return slices.Concat(remarks, wrong, problems, of)
}

// converted gives the specification as clusters convert it, and what of it can't be.
func (s *deprecatedSpec) converted() (clusterv1.MachineHealthCheckSpec, []Remark) {
	c := conversion{}
	spec := clusterv1.MachineHealthCheckSpec{ClusterName: s.ClusterName, Selector: s.Selector}
	for i, from := range s.UnhealthyConditions {
		spec.Checks.UnhealthyNodeConditions = append(spec.Checks.UnhealthyNodeConditions, clusterv1.UnhealthyNodeCondition{
			Type: corev1.NodeConditionType(from.Type), Status: corev1.ConditionStatus(from.Status),
			TimeoutSeconds: c.seconds(fmt.Sprintf("spec.unhealthyConditions[%d].timeout", i), from.Timeout),
		})
	}
	for i, from := range s.UnhealthyMachineConditions {
		spec.Checks.UnhealthyMachineConditions = append(spec.Checks.UnhealthyMachineConditions, clusterv1.UnhealthyMachineCondition{
			Type: from.Type, Status: metav1.ConditionStatus(from.Status),
			TimeoutSeconds: c.seconds(fmt.Sprintf("spec.unhealthyMachineConditions[%d].timeout", i), from.Timeout),
		})
	}
	if s.NodeStartupTimeout != nil {
		spec.Checks.NodeStartupTimeoutSeconds = c.seconds("spec.nodeStartupTimeout", *s.NodeStartupTimeout)
	}
	spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = s.MaxUnhealthy
	if s.UnhealthyRange != nil {
		spec.Remediation.TriggerIf.UnhealthyInRange = *s.UnhealthyRange
	}
	if t := s.RemediationTemplate; t != nil {
		spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: t.APIVersion, Kind: t.Kind, Name: t.Name}
	}
	return spec, c.problems
}

type conversion struct{ problems []Remark }

// seconds converts a duration. What is none is told, and 0, of which nothing more is to be said.
func (c *conversion) seconds(field, text string) *int32 {
	d, err := specparse.Duration(text)
	if err != nil {
		c.problems = append(c.problems, specparse.Problem(fmt.Sprintf("%s %v", field, err)))
	}
	whole := int32(min(d/time.Second, math.MaxInt32)) //nolint:gosec // bounded on the same line
	return &whole
}
