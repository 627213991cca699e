package capi

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/specparse"
)

// Remark is a remark about a health check that a user is about to apply.
type Remark = specparse.Remark

// Review returns the faults of a health check, and the settings that its author may not have meant. It returns false
// for objects of another kind. It reviews the deprecated version as the API server would convert it.
func Review(u *unstructured.Unstructured) ([]Remark, bool) {
	of := u.GroupVersionKind()
	if of.Kind != healthCheckKind || of.Group != clusterv1.GroupVersion.Group {
		return nil, false
	}
	if of.Version == deprecatedVersion.Version {
		return reviewDeprecated(u), true
	}
	remarks := specparse.ReviewIdentity(u, clusterv1.GroupVersion)
	mhc, wrong := specparse.ReadLeniently[clusterv1.MachineHealthCheck](u, "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo")
	return slices.Concat(remarks, wrong, reviewSpec(&mhc.Spec, u.GetAnnotations(), len(wrong) == 0)), true
}

// reviewSpec returns the faults of a specification. It adds warnings only if every field could be read, since a field
// that could not be read would look like a missing one.
func reviewSpec(spec *clusterv1.MachineHealthCheckSpec, annotations map[string]string, readable bool) []Remark {
	var remarks []Remark
	for _, problem := range (&healthCheck{}).problemsOf(spec, annotations) {
		remarks = append(remarks, specparse.Problem(problem))
	}
	remarks = append(remarks, refusedByAdmission(spec)...)
	if !readable {
		return remarks
	}
	return slices.Concat(remarks, conditionWarnings(spec.Checks.UnhealthyNodeConditions, annotations), limitWarnings(spec, annotations), annotationWarnings(annotations))
}

func warning(field, format string, args ...any) Remark {
	return specparse.Warning(field, format, args...)
}

// minStartup is the shortest startup timeout in seconds that Cluster API's admission accepts.
const minStartup = 30

var wholeNumber = regexp.MustCompile(`^[0-9]+$`)

// refusedByAdmission returns the faults for which Cluster API's admission refuses a health check that Fettle could
// follow.
func refusedByAdmission(spec *clusterv1.MachineHealthCheckSpec) []Remark {
	var remarks []Remark
	const field = "spec.checks.nodeStartupTimeoutSeconds"
	if s := spec.Checks.NodeStartupTimeoutSeconds; s != nil && *s > 0 && *s < minStartup {
		remarks = append(remarks, specparse.Fault(field, "is %ds, and Cluster API refuses less than %ds; give more, or 0 for no limit", *s, minStartup))
	}
	const limit = "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"
	if v := spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo; v != nil && wholeNumber.MatchString(v.StrVal) {
		remarks = append(remarks, specparse.Fault(limit, "is %q, and Cluster API refuses a number in quotes; give %s", v.StrVal, v.StrVal))
	}
	if of, set := spec.Selector.MatchLabels[clusterv1.ClusterNameLabel]; set && of != spec.ClusterName {
		remarks = append(remarks, specparse.Fault("spec.selector", "requires cluster %q, and spec.clusterName is %q; leave the label out, since spec.clusterName requires it already", of, spec.ClusterName))
	}
	return slices.Concat(remarks, refusedConditions(spec.Checks.UnhealthyMachineConditions), refusedTemplate(&spec.Remediation.TemplateRef))
}

// conditionType and groupVersion are patterns of Cluster API's definition.
var (
	conditionType = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)
	groupVersion  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z]([-a-z0-9]*[a-z0-9])?$`)
)

// refusedConditions returns the faults of machine conditions that the definition refuses. It accepts any type for
// conditions of nodes. Other checks report missing fields.
func refusedConditions(conditions []clusterv1.UnhealthyMachineCondition) []Remark {
	var remarks []Remark
	for i, c := range conditions {
		field := fmt.Sprintf("spec.checks.unhealthyMachineConditions[%d]", i)
		if c.Type != "" && !conditionType.MatchString(c.Type) {
			remarks = append(remarks, specparse.Fault(field+".type", "is %s, which no condition of a machine can be called; give one such as NodeHealthy", lenient.Quote(c.Type)))
		}
		if c.Status != "" && !slices.Contains([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}, c.Status) {
			remarks = append(remarks, specparse.Fault(field+".status", "is %s; give \"True\", \"False\" or Unknown", lenient.Quote(string(c.Status))))
		}
	}
	return remarks
}

// refusedTemplate returns the fault of a template version that the definition refuses, if the version can be parsed.
func refusedTemplate(r *clusterv1.MachineHealthCheckRemediationTemplateReference) []Remark {
	const field = "spec.remediation.templateRef.apiVersion"
	version, _ := schema.ParseGroupVersion(r.APIVersion) // it is empty with an error
	if version.Version == "" || groupVersion.MatchString(r.APIVersion) {
		return nil
	}
	return []Remark{specparse.Fault(field, "is %s; give a group and a version, as in %s", lenient.Quote(r.APIVersion), templateExample)}
}

func conditionWarnings(conditions []clusterv1.UnhealthyNodeCondition, annotations map[string]string) []Remark {
	const list = "spec.checks.unhealthyNodeConditions"
	if _, others := annotations[annotation.UnhealthyConditions]; others && len(conditions) == 0 {
		return nil
	}
	if len(conditions) == 0 {
		return []Remark{warning(list, "there are no unhealthyNodeConditions, so only machines that fail, lose their node or never get one are found; "+
			"a node that falls silent is not (condition Ready, status Unknown)")}
	}
	written := make([]specparse.WrittenCondition, len(conditions))
	for i, c := range conditions {
		written[i] = specparse.WrittenCondition{Type: string(c.Type), Status: string(c.Status)}
		if c.TimeoutSeconds != nil {
			written[i].For = fmt.Sprintf("%ds", *c.TimeoutSeconds)
		}
	}
	remarks := specparse.ConditionWarnings(written, specparse.ConditionWords{Duration: "timeoutSeconds", Target: "machine"})
	inPlace := strings.NewReplacer("spec.unhealthyConditions", list, "a duration such as 300s", "a number of seconds such as 300")
	for i := range remarks {
		remarks[i].Field, remarks[i].Text = inPlace.Replace(remarks[i].Field), inPlace.Replace(remarks[i].Text)
	}
	repeated := specparse.Repeated(written)
	for _, i := range slices.Sorted(maps.Keys(repeated)) {
		field := fmt.Sprintf("%s[%d]", list, i)
		remarks = append(remarks, warning(field, "%s names condition %s with status %s once more, after [%d]; the shorter timeout decides", field, written[i].Type, written[i].Status, repeated[i]))
	}
	return remarks
}

func limitWarnings(spec *clusterv1.MachineHealthCheckSpec, annotations map[string]string) []Remark {
	var remarks []Remark
	limits := &spec.Remediation.TriggerIf
	const field, within = "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", "spec.remediation.triggerIf.unhealthyInRange"
	switch v := limits.UnhealthyLessThanOrEqualTo; {
	case limits.UnhealthyInRange != "" && v != nil:
		remarks = append(remarks, warning(field, "%s is ignored, since %s is set; remove one of them", field, within))
	case limits.UnhealthyInRange != "":
	case v == nil:
		remarks = append(remarks, warning(field, "%s is not set, so it is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case specparse.IsAmount(v, "100%"):
		remarks = append(remarks, warning(field, "%s is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case permitsNothing(v):
		remarks = append(remarks, warning(field, "%s is %s, so nothing is ever repaired: one unhealthy machine is too many already; the annotation %s or %s says that better",
			field, v, clusterv1.PausedAnnotation, annotation.DryRun))
	}
	if v := annotations[annotation.MaxInFlight]; v == "0" || v == "0%" {
		remarks = append(remarks, warning("metadata.annotations."+annotation.MaxInFlight, "annotation %s is %s, so nothing is ever repaired", annotation.MaxInFlight, v))
	}
	if s := spec.Checks.NodeStartupTimeoutSeconds; s != nil && *s == 0 {
		const startup = "spec.checks.nodeStartupTimeoutSeconds"
		remarks = append(remarks, warning(startup, "%s is 0, so a machine whose node never joins is never found", startup))
	}
	return remarks
}

// permitsNothing reports whether no repair starts with this limit. It is false for a limit that can't be read.
func permitsNothing(limit *intstr.IntOrString) bool {
	most, err := readMaxUnhealthy(limit)
	return err == nil && most.Number <= 0
}

func annotationWarnings(annotations map[string]string) []Remark {
	remarks := specparse.AnnotationWarnings(annotations,
		annotation.DryRun, annotation.MaxInFlight, annotation.StormCooldown, annotation.BackoffBase, annotation.BackoffLimit, annotation.GiveUpAfter, annotation.ResumedAt, annotation.TakesOver, annotation.Paused,
		annotation.WaitForUpgrades, annotation.UnhealthyConditions, annotation.NodeGoneDelay)
	remarks = append(remarks, specparse.GroupWarnings(annotations, annotation.UnhealthyConditions, "machine")...)
	for _, key := range [...]string{clusterv1.PausedAnnotation, annotation.Paused} {
		if _, paused := annotations[key]; paused && (key == annotation.Paused || annotations[annotation.TakesOver] != "true") {
			remarks = append(remarks, warning("metadata.annotations."+key, "annotation %s is set, with whatever value, so nothing is repaired until it is removed", key))
		}
	}
	return remarks
}

// deprecatedVersion is the older version of the kind.
var deprecatedVersion = schema.GroupVersion{Group: clusterv1.GroupVersion.Group, Version: "v1beta1"} //nolint:gochecknoglobals // a constant
