package capi

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/setting"
)

// Health checks of v1beta1 are converted by the cluster's own webhook. Those in files are read here, so that they can
// be judged before they are applied, and without a cluster.

// olderVersion is that of such health checks.
var olderVersion = schema.GroupVersion{Group: clusterv1.GroupVersion.Group, Version: "v1beta1"} //nolint:gochecknoglobals // a constant

// olderSpec is the spec of a health check of v1beta1.
type olderSpec struct {
	ClusterName                string                  `json:"clusterName,omitempty"`
	Selector                   metav1.LabelSelector    `json:"selector"`
	UnhealthyConditions        []olderCondition        `json:"unhealthyConditions,omitempty"`
	UnhealthyMachineConditions []olderCondition        `json:"unhealthyMachineConditions,omitempty"`
	MaxUnhealthy               *intstr.IntOrString     `json:"maxUnhealthy,omitempty"`
	UnhealthyRange             string                  `json:"unhealthyRange,omitempty"`
	NodeStartupTimeout         *string                 `json:"nodeStartupTimeout,omitempty"`
	RemediationTemplate        *corev1.ObjectReference `json:"remediationTemplate,omitempty"`
}

type olderCondition struct {
	Type    string  `json:"type"`
	Status  string  `json:"status"`
	Timeout *string `json:"timeout"`
}

// olderNames are what v1beta1 calls the fields of v1beta2, the longest first.
var olderNames = strings.NewReplacer( //nolint:gochecknoglobals // a constant
	"spec.checks.unhealthyNodeConditions", "spec.unhealthyConditions",
	"spec.checks.unhealthyMachineConditions", "spec.unhealthyMachineConditions",
	"spec.checks.nodeStartupTimeoutSeconds", "spec.nodeStartupTimeout",
	"spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", "spec.maxUnhealthy",
	"spec.remediation.triggerIf.unhealthyInRange", "spec.unhealthyRange",
	"spec.remediation.templateRef", "spec.remediationTemplate",
	"timeoutSeconds: 300", "timeout: 300s",
	"timeoutSeconds", "timeout",
	"give a number of seconds such as 600, or 0 for no limit", "give a duration such as 10m, or 0 for no limit",
)

// readOlder reads a health check of v1beta1 as one of v1beta2 would be. What can't be read of it is absent, and told.
func readOlder(u *unstructured.Unstructured) (*clusterv1.MachineHealthCheckSpec, []Remark) {
	type MachineHealthCheck struct { // the name is told where a field means nothing
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec   olderSpec `json:"spec"`
		Status any       `json:"status"`
	}
	mhc, remarks := setting.ReadLeniently[MachineHealthCheck](u, "spec.maxUnhealthy")
	old := &mhc.Spec
	spec := &clusterv1.MachineHealthCheckSpec{
		ClusterName: old.ClusterName, Selector: old.Selector,
		Remediation: clusterv1.MachineHealthCheckRemediation{
			TriggerIf: clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: old.MaxUnhealthy, UnhealthyInRange: old.UnhealthyRange},
		},
	}
	in := func(field string, d *string) *int32 {
		seconds, remark := wholeSeconds(field, d)
		remarks = append(remarks, remark...)
		return seconds
	}
	spec.Checks.NodeStartupTimeoutSeconds = in("spec.nodeStartupTimeout", old.NodeStartupTimeout)
	for i, c := range old.UnhealthyConditions {
		spec.Checks.UnhealthyNodeConditions = append(spec.Checks.UnhealthyNodeConditions, clusterv1.UnhealthyNodeCondition{
			Type: corev1.NodeConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), TimeoutSeconds: in(at("spec.unhealthyConditions", i)+".timeout", c.Timeout),
		})
	}
	for i, c := range old.UnhealthyMachineConditions {
		spec.Checks.UnhealthyMachineConditions = append(spec.Checks.UnhealthyMachineConditions, clusterv1.UnhealthyMachineCondition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), TimeoutSeconds: in(at("spec.unhealthyMachineConditions", i)+".timeout", c.Timeout),
		})
	}
	if t := old.RemediationTemplate; t != nil {
		spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: t.APIVersion, Kind: t.Kind, Name: t.Name}
		if t.Namespace != "" && t.Namespace != u.GetNamespace() && u.GetNamespace() != "" {
			const field = "spec.remediationTemplate.namespace"
			remarks = append(remarks, setting.Doubt(field, "%s is %s and means nothing: templates are looked for in the namespace of the health check", field, t.Namespace))
		}
	}
	return spec, remarks
}

// wholeSeconds converts a duration as the webhook does: to whole seconds, and no more than fit.
func wholeSeconds(field string, d *string) (*int32, []Remark) {
	if d == nil {
		return nil, nil
	}
	parsed, err := time.ParseDuration(*d)
	if err != nil {
		return nil, []Remark{setting.Fault(field, "is %q; give a duration such as 300s, 10m or 1h30m", *d)}
	}
	n := int32(min(max(parsed/time.Second, math.MinInt32), math.MaxInt32))
	return &n, nil
}

// Current gives a health check in the version in which a Reading takes it in.
func Current(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GroupVersionKind().GroupVersion() != olderVersion {
		return u
	}
	fresh := u.DeepCopy()
	spec, _ := readOlder(u)
	fresh.SetGroupVersionKind(checkKind)
	delete(fresh.Object, "status")
	var object map[string]any
	if body, err := json.Marshal(spec); err == nil && json.Unmarshal(body, &object) == nil {
		fresh.Object["spec"] = object
	}
	return fresh
}
