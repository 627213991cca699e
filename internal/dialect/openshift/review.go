package openshift

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/specparse"
)

// Remark is a remark for the author of a health check.
type Remark = specparse.Remark

// Review returns remarks about a health check: its mistakes, and settings that its author may not
// have meant. It returns false for objects of another kind. External is the controller's setting.
func Review(u *unstructured.Unstructured, external ExternalBaremetal) ([]Remark, bool) {
	if u.GetKind() != healthCheckKind || u.GroupVersionKind().Group != v1beta1.GroupVersion.Group {
		return nil, false
	}
	remarks := specparse.ReviewIdentity(u, v1beta1.GroupVersion)
	mhc, wrong := specparse.ReadLeniently[v1beta1.MachineHealthCheck](u, "spec.maxUnhealthy")
	remarks = append(remarks, wrong...)
	for _, problem := range (&healthCheck{external: external}).problemsOf(&mhc.Spec, mhc.Annotations) {
		remarks = append(remarks, specparse.Problem(problem))
	}
	if len(wrong) > 0 {
		return remarks, true // a field that is misspelt or can't be read would pass for a missing one
	}
	return slices.Concat(remarks, selectorWarnings(mhc), conditionWarnings(mhc), limitWarnings(mhc), annotationWarnings(mhc, external)), true
}

func warning(field, format string, args ...any) Remark {
	return specparse.Warning(field, format, args...)
}

func selectorWarnings(mhc *v1beta1.MachineHealthCheck) []Remark {
	s := &mhc.Spec.Selector
	if len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		return nil
	}
	return []Remark{warning("spec.selector", "spec.selector is empty, so every machine in the namespace is selected, those of the control plane too; "+
		"name your machines, for example by matchLabels with %s: worker", roleLabel)}
}

func conditionWarnings(mhc *v1beta1.MachineHealthCheck) []Remark {
	conditions := mhc.Spec.UnhealthyConditions
	if _, others := mhc.Annotations[annotation.UnhealthyConditions]; others && len(conditions) == 0 {
		return nil
	}
	if len(conditions) == 0 {
		return []Remark{warning("spec.unhealthyConditions", "there are no unhealthyConditions, so only machines that fail, lose their node or never get one are found; "+
			"a node that falls silent is not (condition Ready, status Unknown)")}
	}
	written := make([]specparse.WrittenCondition, len(conditions))
	for i, c := range conditions {
		written[i] = specparse.WrittenCondition{Type: c.Type, Status: c.Status, For: string(c.Timeout)}
	}
	remarks := specparse.ConditionWarnings(written, specparse.ConditionWords{Duration: "timeout", Target: "machine"})
	repeated := specparse.Repeated(written)
	for _, i := range slices.Sorted(maps.Keys(repeated)) {
		field := fmt.Sprintf("spec.unhealthyConditions[%d]", i)
		remarks = append(remarks, warning(field, "%s names condition %s with status %s once more, after [%d]; the shorter timeout decides", field, written[i].Type, written[i].Status, repeated[i]))
	}
	return remarks
}

func limitWarnings(mhc *v1beta1.MachineHealthCheck) []Remark {
	var remarks []Remark
	const field = "spec.maxUnhealthy"
	switch v := mhc.Spec.MaxUnhealthy; {
	case v == nil:
		remarks = append(remarks, warning(field, "%s is not set, so it is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case specparse.IsAmount(v, "100%"):
		remarks = append(remarks, warning(field, "%s is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case v.Type == intstr.Int && v.IntValue() < 0:
		remarks = append(remarks, warning(field, "%s is negative and counts as 0, so nothing is ever repaired", field))
	case specparse.IsAmount(v, "0"), specparse.IsAmount(v, "0%"):
		remarks = append(remarks, warning(field, "%s is 0, so nothing is ever repaired: one unhealthy machine is too many already; the annotation %s or %s says that better",
			field, v1beta1.PausedAnnotation, annotation.DryRun))
	}
	if v := mhc.Annotations[annotation.MaxInFlight]; v == "0" || v == "0%" {
		remarks = append(remarks, warning("metadata.annotations."+annotation.MaxInFlight, "annotation %s is 0, so nothing is ever repaired", annotation.MaxInFlight))
	}
	if d := mhc.Spec.NodeStartupTimeout; d != nil {
		if limit, err := specparse.Duration(string(*d)); err == nil && limit == 0 {
			remarks = append(remarks, warning("spec.nodeStartupTimeout", "spec.nodeStartupTimeout is 0, so a machine whose node never joins is never found"))
		}
	}
	return remarks
}

func annotationWarnings(mhc *v1beta1.MachineHealthCheck, external ExternalBaremetal) []Remark {
	remarks := specparse.AnnotationWarnings(mhc.Annotations,
		annotation.DryRun, annotation.MaxInFlight, annotation.StormCooldown, annotation.BackoffBase, annotation.BackoffLimit, annotation.GiveUpAfter, annotation.ResumedAt,
		annotation.WaitForUpgrades, annotation.UnhealthyConditions, annotation.NodeGoneDelay, annotation.ExternalBaremetal, annotation.PowerRelease)
	remarks = append(remarks, specparse.GroupWarnings(mhc.Annotations, annotation.UnhealthyConditions, "machine")...)
	if _, paused := mhc.Annotations[v1beta1.PausedAnnotation]; paused {
		remarks = append(remarks, warning("metadata.annotations."+v1beta1.PausedAnnotation, "annotation %s is set, with whatever value, so nothing is repaired until it is removed", v1beta1.PausedAnnotation))
	}
	return append(remarks, remedyWarnings(mhc, external)...)
}
