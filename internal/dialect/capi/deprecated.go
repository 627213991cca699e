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

// deprecatedSpec is the specification in v1beta1, which most manifests still use. The API server converts it. Fettle
// reads it only to review a manifest before a user applies it.
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

// deprecatedNames replaces the names of fields in problems by those of v1beta1.
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

// reviewDeprecated reviews a health check of v1beta1 as converted, and names the fields as v1beta1 does.
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

// converted returns the specification as the API server converts it, and the fields that it can't convert.
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

// seconds converts a duration. For text that is no duration it records a problem and returns 0, for which a review adds
// nothing.
func (c *conversion) seconds(field, text string) *int32 {
	d, err := specparse.Duration(text)
	if err != nil {
		c.problems = append(c.problems, specparse.Problem(fmt.Sprintf("%s %v", field, err)))
	}
	whole := int32(min(d/time.Second, math.MaxInt32)) //nolint:gosec // bounded on the same line
	return &whole
}
