package capi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/setting"
)

// Remark is something to say about a health check that somebody is about to apply.
type Remark = setting.Remark

// The fields that doubts are about.
const (
	selectorField = "spec.selector"
	nodesField    = "spec.checks.unhealthyNodeConditions"
	startupField  = "spec.checks.nodeStartupTimeoutSeconds"
	mostField     = "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"
	rangeField    = "spec.remediation.triggerIf.unhealthyInRange"
)

// Review says what is wrong with a health check that was written, of either version, and what in it may not be meant.
// It is false for objects of another kind.
func Review(u *unstructured.Unstructured) ([]Remark, bool) {
	if u.GetKind() != healthCheckKind || u.GroupVersionKind().Group != clusterv1.GroupVersion.Group {
		return nil, false
	}
	if u.GroupVersionKind().GroupVersion() != olderVersion {
		remarks := setting.ReviewIdentity(u, clusterv1.GroupVersion)
		mhc, wrong := setting.ReadLeniently[clusterv1.MachineHealthCheck](u, mostField)
		return append(remarks, reviewSpec(u, &mhc.Spec, wrong)...), true
	}
	spec, wrong := readOlder(u)
	remarks := setting.ReviewIdentity(u, olderVersion)
	for _, r := range reviewSpec(u, spec, wrong) {
		r.Field, r.Text = olderNames.Replace(r.Field), olderNames.Replace(r.Text)
		remarks = append(remarks, r)
	}
	return remarks, true
}

// reviewSpec adds to what was wrong in reading.
func reviewSpec(u *unstructured.Unstructured, spec *clusterv1.MachineHealthCheckSpec, wrong []Remark) []Remark {
	h := &healthCheck{policy: core.Policy{ID: core.ID{Kind: healthCheckKind, Namespace: u.GetNamespace(), Name: u.GetName()}}}
	remarks := slices.Clone(wrong)
	for _, problem := range h.problemsOf(spec, u.GetAnnotations()) {
		if !slices.ContainsFunc(wrong, func(r Remark) bool {
			return r.Fault && r.Field != "" && strings.HasPrefix(olderNames.Replace(problem), parent(r.Field))
		}) {
			remarks = append(remarks, setting.Problem(problem))
		}
	}
	if slices.ContainsFunc(wrong, func(r Remark) bool { return r.Fault }) {
		return remarks // what could not be read, or was misspelt, would be taken for missing
	}
	return slices.Concat(remarks, doubtfulSelector(spec), doubtfulConditions(&spec.Checks), doubtfulStartup(spec.Checks.NodeStartupTimeoutSeconds),
		doubtfulLimits(&spec.Remediation.TriggerIf, u.GetAnnotations()), doubtfulSwitches(u.GetAnnotations()))
}

// parent is the entry of a list that a field is in, or the field itself.
func parent(field string) string {
	if i := strings.LastIndexByte(field, ']'); i >= 0 {
		return field[:i+1]
	}
	return field
}

func at(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// doubtfulSelector: what the label of the cluster says goes before spec.clusterName nowhere.
func doubtfulSelector(spec *clusterv1.MachineHealthCheckSpec) []Remark {
	of, set := spec.Selector.MatchLabels[clusterv1.ClusterNameLabel]
	if !set || of == spec.ClusterName || spec.ClusterName == "" {
		return nil
	}
	return []Remark{setting.Doubt(selectorField, "%s asks for machines of cluster %s, and spec.clusterName is %s, so it selects nothing, and Cluster API refuses it", selectorField, of, spec.ClusterName)}
}

func doubtfulConditions(checks *clusterv1.MachineHealthCheckChecks) []Remark {
	if len(checks.UnhealthyNodeConditions) == 0 {
		return []Remark{setting.Doubt(nodesField, "there are no %s, so only machines that lose their node, never get one, or say themselves that something is wrong are found; "+
			"a node that falls silent is not (condition Ready, status Unknown)", nodesField)}
	}
	written := make([]setting.WrittenCondition, len(checks.UnhealthyNodeConditions))
	for i, c := range checks.UnhealthyNodeConditions {
		written[i] = setting.WrittenCondition{Type: string(c.Type), Status: string(c.Status), For: seconds(c.TimeoutSeconds, 0).String()}
	}
	remarks := setting.DoubtConditions(written, setting.ConditionWords{Duration: "timeoutSeconds", Target: "machine"})
	for i := range remarks {
		r := &remarks[i]
		r.Field = strings.ReplaceAll(r.Field, "spec.unhealthyConditions", nodesField)
		r.Text = strings.ReplaceAll(strings.ReplaceAll(r.Text, "spec.unhealthyConditions", nodesField), "give a duration such as 300s", "give more, such as 5 minutes")
	}
	repeated := setting.Repeated(written)
	for _, i := range slices.Sorted(maps.Keys(repeated)) {
		field := at(nodesField, i)
		remarks = append(remarks, setting.Doubt(field, "%s names condition %s with status %s once more, after [%d]; the shorter time decides", field, written[i].Type, written[i].Status, repeated[i]))
	}
	return remarks
}

// leastStartup is the least time to start that Cluster API admits, apart from none.
const leastStartup = 30 * time.Second

func doubtfulStartup(limit *int32) []Remark {
	switch {
	case limit == nil:
	case *limit == 0:
		return []Remark{setting.Doubt(startupField, "%s is 0, so a machine whose node never joins is never found", startupField)}
	case *limit > 0 && seconds(limit, 0) < leastStartup:
		return []Remark{setting.Doubt(startupField, "%s is %s, and Cluster API refuses less than %s other than 0", startupField, seconds(limit, 0), leastStartup)}
	}
	return nil
}

func doubtfulLimits(t *clusterv1.MachineHealthCheckRemediationTriggerIf, annotations map[string]string) []Remark {
	var remarks []Remark
	doubt := func(field, format string, args ...any) {
		remarks = append(remarks, setting.Doubt(field, format, args...))
	}
	switch v := t.UnhealthyLessThanOrEqualTo; {
	case t.UnhealthyInRange != "":
		remarks = doubtfulRange(t)
	case v == nil:
		doubt(mostField, "%s is not set, so it is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", mostField)
	case setting.IsAmount(v, "100%"):
		doubt(mostField, "%s is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", mostField)
	case negative(v):
		doubt(mostField, "%s is negative, so nothing is ever repaired", mostField)
	case setting.IsAmount(v, "0"), setting.IsAmount(v, "0%"):
		doubt(mostField, "%s is 0, so nothing is ever repaired: one unhealthy machine is too many already; the annotation %s or %s says that better",
			mostField, clusterv1.PausedAnnotation, DryRunAnnotation)
	case v.Type == intstr.String && !strings.HasSuffix(v.StrVal, "%"):
		doubt(mostField, "%s is a number in quotes, which Cluster API refuses; leave out the quotes", mostField)
	}
	if v := annotations[MaxInFlightAnnotation]; v == "0" || v == "0%" {
		doubt("metadata.annotations."+MaxInFlightAnnotation, "annotation %s is 0, so nothing is ever repaired", MaxInFlightAnnotation)
	}
	return remarks
}

func negative(v *intstr.IntOrString) bool {
	return (v.Type == intstr.Int && v.IntValue() < 0) || (v.Type == intstr.String && strings.HasPrefix(v.StrVal, "-"))
}

func doubtfulRange(t *clusterv1.MachineHealthCheckRemediationTriggerIf) []Remark {
	var remarks []Remark
	if t.UnhealthyLessThanOrEqualTo != nil {
		remarks = append(remarks, setting.Doubt(mostField, "%s means nothing beside %s, which goes before it", mostField, rangeField))
	}
	r, err := readRange(t.UnhealthyInRange)
	switch {
	case err != nil: // told as a problem
	case r.To == 0:
		remarks = append(remarks, setting.Doubt(rangeField, "%s is %s, so nothing is ever repaired: one unhealthy machine is too many already", rangeField, t.UnhealthyInRange))
	case r.From > 1:
		remarks = append(remarks, setting.Doubt(rangeField, "%s is %s, so up to %s stay as they are until there are %d", rangeField, t.UnhealthyInRange, machines(r.From-1), r.From))
	}
	return remarks
}

func machines(n int) string {
	if n == 1 {
		return "1 unhealthy machine"
	}
	return fmt.Sprintf("%d unhealthy machines", n)
}

func doubtfulSwitches(annotations map[string]string) []Remark {
	remarks := setting.DoubtAnnotations(annotations, DryRunAnnotation, MaxInFlightAnnotation, StormCooldownAnnotation, BackoffBaseAnnotation, BackoffLimitAnnotation)
	if _, paused := annotations[clusterv1.PausedAnnotation]; paused {
		remarks = append(remarks, setting.Doubt("metadata.annotations."+clusterv1.PausedAnnotation, "annotation %s is set, with whatever value, so nothing is repaired until it is removed", clusterv1.PausedAnnotation))
	}
	return remarks
}

// FieldOf gives the path by which a health check has a setting, by its path in v1beta1.
func FieldOf(u *unstructured.Unstructured, field string) string {
	if u.GroupVersionKind().GroupVersion() == olderVersion {
		return field
	}
	switch field {
	case "spec.maxUnhealthy":
		return mostField
	case "spec.remediationTemplate":
		return "spec.remediation.templateRef"
	}
	return field
}
