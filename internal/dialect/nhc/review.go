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
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/specparse"
)

// Review returns the faults of a health check, and the settings that its author may not have meant. It returns false
// for objects of another kind.
func Review(u *unstructured.Unstructured) ([]specparse.Remark, bool) {
	if u.GetKind() != healthCheckKind || u.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
		return nil, false
	}
	remarks := specparse.ReviewIdentity(u, v1alpha1.GroupVersion)
	nhc, wrong := specparse.ReadLeniently[v1alpha1.NodeHealthCheck](u, "spec.maxUnhealthy", "spec.minHealthy")
	remarks = append(remarks, wrong...)
	var unread mistyped
	for _, w := range wrong {
		unread = append(unread, lenient.Problem{Field: w.Field})
	}
	operators := faultyOperators(nhc.Spec.Selector)
	h, spec := &healthCheck{}, nhc.Spec
	if len(operators) > 0 { // they say more about the selector
		spec.Selector = nil
	}
	for _, problem := range h.problemsOf(&spec, unread, nhc.Annotations) {
		remarks = append(remarks, specparse.Problem(problem))
	}
	for i := range h.policy.Steps {
		if problem := h.policy.Steps[i].Problem; problem != "" {
			remarks = append(remarks, specparse.Problem(problem))
		}
	}
	remarks = slices.Concat(remarks, operators, faultyNames(&nhc.Spec), refused(&nhc.Spec, unread))
	if len(wrong) > 0 {
		return remarks, true // a field that could not be read would look like a missing one
	}
	return slices.Concat(remarks, specparse.ConditionWarnings(asWritten(nhc.Spec.UnhealthyConditions), specparse.ConditionWords{Duration: "duration", Target: "node"}), specparse.GroupWarnings(nhc.Annotations, annotation.UnhealthyConditions, "node"), limitWarnings(nhc), annotationWarnings(u, nhc)), true
}

// faultyOperators returns the faults of the selector's operators, since the selector's own error names neither the
// field nor the valid operators.
func faultyOperators(s *metav1.LabelSelector) []specparse.Remark {
	if s == nil {
		return nil
	}
	known := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	var remarks []specparse.Remark
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
		remarks = append(remarks, specparse.Fault(fmt.Sprintf("spec.selector.matchExpressions[%d].operator", i), "is %s; %s", lenient.Quote(string(e.Operator)), mend))
	}
	return remarks
}

// faultyNames returns the faults of template references that can't be valid, such as those copied from examples.
func faultyNames(spec *v1alpha1.NodeHealthCheckSpec) []specparse.Remark {
	var remarks []specparse.Remark
	each := func(field string, t *v1alpha1.TemplateReference) {
		if problems := validation.IsDNS1123Subdomain(t.Name); t.Name != "" && len(problems) > 0 {
			remarks = append(remarks, specparse.Fault(field+".name", "is %s, which no object can be called; give the name of a template, in small letters, digits, dashes and dots", lenient.Quote(t.Name)))
		}
		version, _ := schema.ParseGroupVersion(t.APIVersion) // without a group for text that is no version
		if t.APIVersion != "" && (version.Group == "" || len(validation.IsDNS1035Label(version.Version)) > 0) {
			remarks = append(remarks, specparse.Fault(field+".apiVersion", "is %s, which no API can have; give the template's group and version, such as self-node-remediation.medik8s.io/v1alpha1", lenient.Quote(t.APIVersion)))
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

// refused returns the faults for which the definition refuses a health check. Fettle follows such a health check if it
// was stored before the definition did.
func refused(spec *v1alpha1.NodeHealthCheckSpec, unread mistyped) []specparse.Remark {
	var remarks []specparse.Remark
	if s := spec.Selector; s != nil && !unread.has("selector") && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		remarks = append(remarks, specparse.Fault("spec.selector", "is empty, so it would select every node; remove it for all workers, or give matchLabels or matchExpressions"))
	}
	written := asWritten(spec.UnhealthyConditions)
	repeated := specparse.Repeated(written)
	for _, i := range slices.Sorted(maps.Keys(repeated)) {
		remarks = append(remarks, specparse.Fault(fmt.Sprintf("spec.unhealthyConditions[%d]", i), "names condition %s with status %s once more, after [%d]; remove one of them", written[i].Type, written[i].Status, repeated[i]))
	}
	return remarks
}

func asWritten(conditions []v1alpha1.UnhealthyCondition) []specparse.WrittenCondition {
	written := make([]specparse.WrittenCondition, len(conditions))
	for i, c := range conditions {
		written[i] = specparse.WrittenCondition{Type: c.Type, Status: c.Status, For: string(c.Duration)}
	}
	return written
}

func limitWarnings(nhc *v1alpha1.NodeHealthCheck) []specparse.Remark {
	var remarks []specparse.Remark
	warn := func(field, format string, args ...any) {
		remarks = append(remarks, specparse.Warning(field, format, args...))
	}
	most, least := nhc.Spec.MaxUnhealthy, nhc.Spec.MinHealthy
	switch {
	case most != nil && specparse.IsAmount(most, "100%"):
		warn("spec.maxUnhealthy", "spec.maxUnhealthy is 100%% and never stops remediation, also when a whole zone fails; a limit such as 49%% would")
	case most != nil && (specparse.IsAmount(most, "0") || specparse.IsAmount(most, "0%")):
		warn("spec.maxUnhealthy", "spec.maxUnhealthy is 0, so nothing is ever remediated: one unhealthy node is too many already; spec.pauseRequests, or the annotation %s, says that better", annotation.DryRun)
	case least != nil && (specparse.IsAmount(least, "0") || specparse.IsAmount(least, "0%")):
		warn("spec.minHealthy", "spec.minHealthy is 0 and never stops remediation, also when a whole zone fails; a limit such as 51%% would")
	case least != nil && specparse.IsAmount(least, "100%"):
		warn("spec.minHealthy", "spec.minHealthy is 100%%, so nothing is ever remediated: one unhealthy node is too many already; spec.pauseRequests, or the annotation %s, says that better", annotation.DryRun)
	}
	if v := nhc.Annotations[annotation.MaxInFlight]; v == "0" || v == "0%" {
		warn("metadata.annotations."+annotation.MaxInFlight, "annotation %s is 0, so nothing is ever remediated", annotation.MaxInFlight)
	}
	return remarks
}

// pausedAnnotation pauses a MachineHealthCheck.
const pausedAnnotation = "cluster.x-k8s.io/paused"

func annotationWarnings(u *unstructured.Unstructured, nhc *v1alpha1.NodeHealthCheck) []specparse.Remark {
	remarks := specparse.AnnotationWarnings(nhc.Annotations,
		annotation.DryRun, annotation.MaxInFlight, annotation.BackoffBase, annotation.GiveUpAfter, annotation.ResumedAt, annotation.UnhealthyConditions,
		annotation.ForceDelete)
	warn := func(field, format string, args ...any) {
		remarks = append(remarks, specparse.Warning(field, format, args...))
	}
	if u.GetNamespace() != "" {
		warn("metadata.namespace", "metadata.namespace is %s, and a NodeHealthCheck belongs to the whole cluster; remove it", lenient.Quote(u.GetNamespace()))
	}
	if n := len(nhc.Spec.PauseRequests); n > 0 {
		warn("spec.pauseRequests", "spec.pauseRequests has an entry (%s), so no remediation begins until it is removed", lenient.Quote(nhc.Spec.PauseRequests[0]))
	}
	if _, set := nhc.Annotations[pausedAnnotation]; set {
		warn("metadata.annotations."+pausedAnnotation, "annotation %s means nothing to a NodeHealthCheck; an entry in spec.pauseRequests pauses it", pausedAnnotation)
	}
	if _, set := nhc.Annotations[annotation.ForceDelete]; set {
		warn("metadata.annotations."+annotation.ForceDelete, "annotation %s lets the health check be deleted while nodes are under remediation, which ends that; remove it unless that is meant", annotation.ForceDelete)
	}
	if _, set := nhc.Annotations[annotation.BackoffBase]; set && nhc.Spec.Backoff == nil {
		warn("metadata.annotations."+annotation.BackoffBase, "annotation %s means nothing without spec.backoff; add that, or remove it", annotation.BackoffBase)
	}
	return remarks
}
