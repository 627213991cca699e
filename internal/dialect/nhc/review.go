package nhc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/legible"
	"github.com/fettle-io/fettle/internal/setting"
)

// Review says what is wrong with a health check that was written, and what in it may not be meant. It is false
// for objects of another kind.
func Review(u *unstructured.Unstructured) ([]setting.Remark, bool) {
	if u.GetKind() != healthCheckKind || u.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
		return nil, false
	}
	remarks := setting.ReviewIdentity(u, v1alpha1.GroupVersion)
	nhc, wrong := setting.ReadLeniently[v1alpha1.NodeHealthCheck](u, "spec.maxUnhealthy", "spec.minHealthy")
	remarks = append(remarks, wrong...)
	var unread mistyped
	for _, w := range wrong {
		unread = append(unread, legible.Problem{Field: w.Field})
	}
	operators := faultyOperators(nhc.Spec.Selector)
	h := &healthCheck{}
	for _, problem := range h.problemsOf(&nhc.Spec, unread, nhc.Annotations) {
		if len(operators) == 0 || !strings.HasPrefix(problem, "spec.selector ") { // the operators say more
			remarks = append(remarks, setting.Problem(problem))
		}
	}
	for i := range h.policy.Ladder {
		if problem := h.policy.Ladder[i].Problem; problem != "" {
			remarks = append(remarks, setting.Problem(problem))
		}
	}
	remarks = slices.Concat(remarks, operators, faultyNames(&nhc.Spec), refused(&nhc.Spec, unread))
	if len(wrong) > 0 {
		return remarks, true // what could not be read, or was misspelt, would be taken for missing
	}
	return slices.Concat(remarks, setting.DoubtConditions(asWritten(nhc.Spec.UnhealthyConditions), setting.ConditionWords{Duration: "duration", Target: "node"}), setting.DoubtGroups(nhc.Annotations, annotation.UnhealthyConditions, "node"), doubtfulLimits(nhc), doubtfulSwitches(u, nhc)), true
}

// faultyOperators: the selector's own error names neither the field nor what was meant.
func faultyOperators(s *metav1.LabelSelector) []setting.Remark {
	if s == nil {
		return nil
	}
	known := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	var remarks []setting.Remark
	for i, e := range s.MatchExpressions {
		if slices.Contains(known, e.Operator) {
			continue
		}
		mend := "give In, NotIn, Exists or DoesNotExist"
		for _, o := range known {
			if strings.EqualFold(string(o), string(e.Operator)) {
				mend = "write " + string(o)
			}
		}
		remarks = append(remarks, setting.Fault(fmt.Sprintf("spec.selector.matchExpressions[%d].operator", i), "is %s; %s", legible.Quote(string(e.Operator)), mend))
	}
	return remarks
}

// faultyNames finds templates that nothing can be called, such as those of examples.
func faultyNames(spec *v1alpha1.NodeHealthCheckSpec) []setting.Remark {
	var remarks []setting.Remark
	each := func(field string, t *v1alpha1.TemplateReference) {
		if problems := validation.IsDNS1123Subdomain(t.Name); t.Name != "" && len(problems) > 0 {
			remarks = append(remarks, setting.Fault(field+".name", "is %s, which no object can be called; give the name of a template, in small letters, digits, dashes and dots", legible.Quote(t.Name)))
		}
		version, err := schema.ParseGroupVersion(t.APIVersion)
		if t.APIVersion != "" && (err != nil || version.Group == "" || len(validation.IsDNS1035Label(version.Version)) > 0) {
			remarks = append(remarks, setting.Fault(field+".apiVersion", "is %s, which no API can have; give the template's group and version, such as self-node-remediation.medik8s.io/v1alpha1", legible.Quote(t.APIVersion)))
		}
	}
	if t := spec.RemediationTemplate; t != nil {
		each("spec.remediationTemplate", t)
	}
	for i := range spec.EscalatingRemediations {
		each(fmt.Sprintf("spec.escalatingRemediations[%d].remediationTemplate", i), &spec.EscalatingRemediations[i].RemediationTemplate)
	}
	return remarks
}

// refused is what the definition of the kind refuses, and what is stored from before that is followed all the same.
func refused(spec *v1alpha1.NodeHealthCheckSpec, unread mistyped) []setting.Remark {
	var remarks []setting.Remark
	if s := spec.Selector; s != nil && !unread.has("selector") && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		remarks = append(remarks, setting.Fault("spec.selector", "is empty, so it would select every node; remove it for all workers, or give matchLabels or matchExpressions"))
	}
	written := asWritten(spec.UnhealthyConditions)
	repeated := setting.Repeated(written)
	for _, i := range slices.Sorted(maps.Keys(repeated)) {
		remarks = append(remarks, setting.Fault(fmt.Sprintf("spec.unhealthyConditions[%d]", i), "names condition %s with status %s once more, after [%d]; remove one of them", written[i].Type, written[i].Status, repeated[i]))
	}
	return remarks
}

func asWritten(conditions []v1alpha1.UnhealthyCondition) []setting.WrittenCondition {
	written := make([]setting.WrittenCondition, len(conditions))
	for i, c := range conditions {
		written[i] = setting.WrittenCondition{Type: c.Type, Status: c.Status, For: string(c.Duration)}
	}
	return written
}

func doubtfulLimits(nhc *v1alpha1.NodeHealthCheck) []setting.Remark {
	var remarks []setting.Remark
	doubt := func(field, format string, args ...any) {
		remarks = append(remarks, setting.Doubt(field, format, args...))
	}
	most, least := nhc.Spec.MaxUnhealthy, nhc.Spec.MinHealthy
	switch {
	case most != nil && setting.IsAmount(most, "100%"):
		doubt("spec.maxUnhealthy", "spec.maxUnhealthy is 100%% and never stops remediation, also when a whole zone fails; a limit such as 49%% would")
	case most != nil && (setting.IsAmount(most, "0") || setting.IsAmount(most, "0%")):
		doubt("spec.maxUnhealthy", "spec.maxUnhealthy is 0, so nothing is ever remediated: one unhealthy node is too many already; spec.pauseRequests, or the annotation %s, says that better", annotation.DryRun)
	case least != nil && (setting.IsAmount(least, "0") || setting.IsAmount(least, "0%")):
		doubt("spec.minHealthy", "spec.minHealthy is 0 and never stops remediation, also when a whole zone fails; a limit such as 51%% would")
	case least != nil && setting.IsAmount(least, "100%"):
		doubt("spec.minHealthy", "spec.minHealthy is 100%%, so nothing is ever remediated: one unhealthy node is too many already; spec.pauseRequests, or the annotation %s, says that better", annotation.DryRun)
	}
	if v := nhc.Annotations[annotation.MaxInFlight]; v == "0" || v == "0%" {
		doubt("metadata.annotations."+annotation.MaxInFlight, "annotation %s is 0, so nothing is ever remediated", annotation.MaxInFlight)
	}
	return remarks
}

// pausedAnnotation pauses a MachineHealthCheck.
const pausedAnnotation = "cluster.x-k8s.io/paused"

func doubtfulSwitches(u *unstructured.Unstructured, nhc *v1alpha1.NodeHealthCheck) []setting.Remark {
	remarks := setting.DoubtAnnotations(nhc.Annotations,
		annotation.DryRun, annotation.MaxInFlight, annotation.BackoffBase, annotation.GiveUpAfter, annotation.ResumedAt, annotation.UnhealthyConditions,
		annotation.ForceDelete)
	doubt := func(field, format string, args ...any) {
		remarks = append(remarks, setting.Doubt(field, format, args...))
	}
	if u.GetNamespace() != "" {
		doubt("metadata.namespace", "metadata.namespace is %s, and a NodeHealthCheck belongs to the whole cluster; remove it", legible.Quote(u.GetNamespace()))
	}
	if n := len(nhc.Spec.PauseRequests); n > 0 {
		doubt("spec.pauseRequests", "spec.pauseRequests has an entry (%s), so no remediation begins until it is removed", legible.Quote(nhc.Spec.PauseRequests[0]))
	}
	if _, set := nhc.Annotations[pausedAnnotation]; set {
		doubt("metadata.annotations."+pausedAnnotation, "annotation %s means nothing to a NodeHealthCheck; an entry in spec.pauseRequests pauses it", pausedAnnotation)
	}
	if _, set := nhc.Annotations[annotation.ForceDelete]; set {
		doubt("metadata.annotations."+annotation.ForceDelete, "annotation %s lets the health check be deleted while nodes are under remediation, which ends that; remove it unless that is meant", annotation.ForceDelete)
	}
	if _, set := nhc.Annotations[annotation.BackoffBase]; set && nhc.Spec.Backoff == nil {
		doubt("metadata.annotations."+annotation.BackoffBase, "annotation %s means nothing without spec.backoff; add that, or remove it", annotation.BackoffBase)
	}
	return remarks
}
