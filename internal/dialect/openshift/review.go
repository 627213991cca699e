package openshift

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/setting"
)

// Remark is something to say about a health check that somebody is about to apply.
type Remark = setting.Remark

// Review says what is wrong with a health check that was written, and what in it may not be meant.
// It is false for objects of another kind.
func Review(u *unstructured.Unstructured) ([]Remark, bool) {
	if u.GetKind() != healthCheckKind || u.GroupVersionKind().Group != v1beta1.GroupVersion.Group {
		return nil, false
	}
	remarks := setting.ReviewIdentity(u, v1beta1.GroupVersion)
	mhc, wrong := setting.ReadLeniently[v1beta1.MachineHealthCheck](u, "spec.maxUnhealthy")
	remarks = append(remarks, wrong...)
	for _, problem := range (&healthCheck{}).problemsOf(&mhc.Spec, mhc.Annotations) {
		remarks = append(remarks, setting.Problem(problem))
	}
	if len(wrong) > 0 {
		return remarks, true // what could not be read, or was misspelt, would be taken for missing
	}
	return slices.Concat(remarks, doubtfulSelector(mhc), doubtfulConditions(mhc), doubtfulLimits(mhc), doubtfulSwitches(mhc)), true
}

func doubt(field, format string, args ...any) Remark { return setting.Doubt(field, format, args...) }

func doubtfulSelector(mhc *v1beta1.MachineHealthCheck) []Remark {
	s := &mhc.Spec.Selector
	if len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		return nil
	}
	return []Remark{doubt("spec.selector", "spec.selector is empty, so every machine in the namespace is selected, those of the control plane too; "+
		"name the ones that you mean, for example by matchLabels with %s: worker", roleLabel)}
}

func doubtfulConditions(mhc *v1beta1.MachineHealthCheck) []Remark {
	conditions := mhc.Spec.UnhealthyConditions
	if _, others := mhc.Annotations[annotation.UnhealthyConditions]; others && len(conditions) == 0 {
		return nil
	}
	if len(conditions) == 0 {
		return []Remark{doubt("spec.unhealthyConditions", "there are no unhealthyConditions, so only machines that fail, lose their node or never get one are found; "+
			"a node that falls silent is not (condition Ready, status Unknown)")}
	}
	written := make([]setting.WrittenCondition, len(conditions))
	for i, c := range conditions {
		written[i] = setting.WrittenCondition{Type: c.Type, Status: c.Status, For: string(c.Timeout)}
	}
	remarks := setting.DoubtConditions(written, setting.ConditionWords{Duration: "timeout", Target: "machine"})
	repeated := setting.Repeated(written)
	for _, i := range slices.Sorted(maps.Keys(repeated)) {
		field := fmt.Sprintf("spec.unhealthyConditions[%d]", i)
		remarks = append(remarks, doubt(field, "%s names condition %s with status %s once more, after [%d]; the shorter timeout decides", field, written[i].Type, written[i].Status, repeated[i]))
	}
	return remarks
}

func doubtfulLimits(mhc *v1beta1.MachineHealthCheck) []Remark {
	var remarks []Remark
	const field = "spec.maxUnhealthy"
	switch v := mhc.Spec.MaxUnhealthy; {
	case v == nil:
		remarks = append(remarks, doubt(field, "%s is not set, so it is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case setting.IsAmount(v, "100%"):
		remarks = append(remarks, doubt(field, "%s is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case v.Type == intstr.Int && v.IntValue() < 0:
		remarks = append(remarks, doubt(field, "%s is negative and counts as 0, so nothing is ever repaired", field))
	case setting.IsAmount(v, "0"), setting.IsAmount(v, "0%"):
		remarks = append(remarks, doubt(field, "%s is 0, so nothing is ever repaired: one unhealthy machine is too many already; the annotation %s or %s says that better",
			field, v1beta1.PausedAnnotation, annotation.DryRun))
	}
	if v := mhc.Annotations[annotation.MaxInFlight]; v == "0" || v == "0%" {
		remarks = append(remarks, doubt("metadata.annotations."+annotation.MaxInFlight, "annotation %s is 0, so nothing is ever repaired", annotation.MaxInFlight))
	}
	if d := mhc.Spec.NodeStartupTimeout; d != nil {
		if limit, err := setting.Duration(string(*d)); err == nil && limit == 0 {
			remarks = append(remarks, doubt("spec.nodeStartupTimeout", "spec.nodeStartupTimeout is 0, so a machine whose node never joins is never found"))
		}
	}
	return remarks
}

func doubtfulSwitches(mhc *v1beta1.MachineHealthCheck) []Remark {
	remarks := setting.DoubtAnnotations(mhc.Annotations,
		annotation.DryRun, annotation.MaxInFlight, annotation.StormCooldown, annotation.BackoffBase, annotation.BackoffLimit, annotation.GiveUpAfter, annotation.ResumedAt,
		annotation.WaitForUpgrades, annotation.UnhealthyConditions, annotation.NodeGoneDelay)
	remarks = append(remarks, setting.DoubtGroups(mhc.Annotations, annotation.UnhealthyConditions, "machine")...)
	if _, paused := mhc.Annotations[v1beta1.PausedAnnotation]; paused {
		remarks = append(remarks, doubt("metadata.annotations."+v1beta1.PausedAnnotation, "annotation %s is set, with whatever value, so nothing is repaired until it is removed", v1beta1.PausedAnnotation))
	}
	return append(remarks, doubtfulRemedy(mhc)...)
}
