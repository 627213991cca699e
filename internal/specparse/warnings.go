package specparse

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ReviewIdentity returns the faults of the version and the name of a health check.
func ReviewIdentity(u *unstructured.Unstructured, version schema.GroupVersion) []Remark {
	var remarks []Remark
	if u.GroupVersionKind().Version != version.Version {
		remarks = append(remarks, Fault("apiVersion", "is %q; give %s", u.GetAPIVersion(), version))
	}
	if name, _, err := unstructured.NestedString(u.Object, "metadata", "name"); name == "" && err == nil {
		remarks = append(remarks, Fault("metadata.name", "is missing; give the health check a name"))
	}
	return remarks
}

// AnnotationWarnings returns a warning for each annotation of Fettle's that is unknown, in the order of their keys.
func AnnotationWarnings(annotations map[string]string, known ...string) []Remark {
	var remarks []Remark
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, "fettle.io/") && !slices.Contains(known, key) {
			remarks = append(remarks, Warning("metadata.annotations."+key, "annotation %s means nothing to this version of Fettle; it knows %s", key, strings.Join(known, ", ")))
		}
	}
	return remarks
}

// WrittenCondition is a condition of unhealthy nodes, as it is written.
type WrittenCondition struct{ Type, Status, For string }

// ConditionWords are the API's name of the field with the duration, and the noun for its targets.
type ConditionWords struct{ Duration, Target string }

// ConditionWarnings returns warnings about conditions. The caller decides which of two equal conditions counts.
func ConditionWarnings(conditions []WrittenCondition, words ConditionWords) []Remark {
	var remarks []Remark
	statuses := map[string]map[string]int{}
	for i, c := range conditions {
		field := conditionField(i)
		if statuses[c.Type] == nil {
			statuses[c.Type] = map[string]int{}
		}
		if _, twice := statuses[c.Type][c.Status]; twice {
			continue
		}
		statuses[c.Type][c.Status] = i
		remarks = append(remarks, conditionWarnings(field, c, words)...)
	}
	return append(remarks, combinationWarnings(conditions, statuses)...)
}

// Repeated returns the positions of conditions that equal an earlier one, with the position of that one.
func Repeated(conditions []WrittenCondition) map[int]int {
	type condition struct{ kind, status string }
	seen, repeated := map[condition]int{}, map[int]int{}
	for i, c := range conditions {
		key := condition{c.Type, c.Status}
		if first, twice := seen[key]; twice {
			repeated[i] = first
			continue
		}
		seen[key] = i
	}
	return repeated
}

func conditionField(i int) string { return fmt.Sprintf("spec.unhealthyConditions[%d]", i) }

// The statuses of nodes' conditions, and the type of the condition that all nodes have.
const (
	statusTrue    = "True"
	statusFalse   = "False"
	statusUnknown = "Unknown"
	nodeReady     = "Ready"
)

// readyListed is the text about a condition that holds for nodes that are Ready, for its place.
const readyListed = "%s takes nodes that are Ready for unhealthy; False and Unknown are the statuses of other nodes"

func conditionWarnings(field string, c WrittenCondition, words ConditionWords) []Remark {
	var remarks []Remark
	switch c.Status {
	case statusTrue, statusFalse, statusUnknown:
	default:
		remarks = append(remarks, Warning(field+".status", "%s.status is %q, and conditions of nodes are True, False or Unknown, so it never matches", field, c.Status))
	}
	switch {
	case c.Type == nodeReady && c.Status == statusTrue:
		remarks = append(remarks, Warning(field+".status", readyListed, field))
	case c.Type == "NotReady":
		remarks = append(remarks, Warning(field+".type", "%s.type is NotReady, which no node has; the condition is Ready, and its status is False or Unknown then", field))
	}
	if d, err := time.ParseDuration(c.For); c.For == "" || (err == nil && d == 0) {
		remarks = append(remarks, Warning(field+"."+words.Duration, "%s.%s is 0, so a %s is repaired on the first report, however short the fault; give a duration such as 300s", field, words.Duration, words.Target))
	}
	return remarks
}

func combinationWarnings(conditions []WrittenCondition, statuses map[string]map[string]int) []Remark {
	var remarks []Remark
	for i, c := range conditions {
		if statuses[c.Type][c.Status] != i {
			continue
		}
		field := conditionField(i)
		_, both := statuses[c.Type][statusTrue]
		if both && c.Status == statusFalse {
			remarks = append(remarks, Warning(field, "%s and another contradict each other: condition %s counts as a fault when True and when False, so every node that reports it is unhealthy in time", field, c.Type))
		}
		if _, silent := statuses[c.Type][statusUnknown]; c.Type == nodeReady && c.Status == statusFalse && !silent {
			remarks = append(remarks, Warning(field, "Ready is listed with status False and not with Unknown, so a node that falls silent is never found; most faults end that way"))
		}
	}
	return remarks
}

// IsAmount reports whether a number or percentage was written as the text, quoted or not.
func IsAmount(v *intstr.IntOrString, text string) bool {
	if v.Type == intstr.Int {
		return strconv.Itoa(v.IntValue()) == text
	}
	return v.StrVal == text
}
