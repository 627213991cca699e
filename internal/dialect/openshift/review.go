package openshift

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	kjson "sigs.k8s.io/json"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/setting"
)

// Remark is something to say about a health check that somebody is about to apply.
type Remark struct {
	// Field is its path, such as spec.unhealthyConditions[0].timeout.
	Field string
	// Text says what is wrong, or what follows, and what to do.
	Text string
	// Fault is set when the health check can't be followed as it is; otherwise it may be meant.
	Fault bool
	// JSONType is what kind of value stands there, where that is the fault.
	JSONType string
	// Known are the names that may stand where a name stands that means nothing.
	Known []string
}

// Review says what is wrong with a health check that was written, and what in it may not be meant.
// It is false for objects of another kind.
func Review(u *unstructured.Unstructured) ([]Remark, bool) {
	if u.GetKind() != healthCheckKind || u.GroupVersionKind().Group != v1beta1.GroupVersion.Group {
		return nil, false
	}
	var remarks []Remark
	if version := u.GroupVersionKind().Version; version != v1beta1.GroupVersion.Version {
		remarks = append(remarks, fault("apiVersion", "is %q; give %s", u.GetAPIVersion(), v1beta1.GroupVersion))
	}
	if name, _, err := unstructured.NestedString(u.Object, "metadata", "name"); name == "" && err == nil {
		remarks = append(remarks, fault("metadata.name", "is missing; give the health check a name"))
	}
	mhc, wrong := readLeniently(u)
	remarks = append(remarks, wrong...)
	for _, problem := range (&healthCheck{}).problemsOf(&mhc.Spec, mhc.Annotations) {
		remarks = append(remarks, Remark{Field: fieldOf(problem), Text: problem, Fault: true})
	}
	if len(wrong) > 0 {
		return remarks, true // what could not be read, or was misspelt, would be taken for missing
	}
	return slices.Concat(remarks, doubtfulSelector(mhc), doubtfulConditions(mhc.Spec.UnhealthyConditions), doubtfulLimits(mhc), doubtfulSwitches(mhc)), true
}

func fault(field, format string, args ...any) Remark {
	return Remark{Field: field, Text: field + " " + fmt.Sprintf(format, args...), Fault: true}
}

func doubt(field, format string, args ...any) Remark {
	return Remark{Field: field, Text: fmt.Sprintf(format, args...)}
}

// fieldOf gives the field that a problem begins with.
func fieldOf(problem string) string {
	words := strings.Fields(problem)
	if words[0] == "annotation" && len(words) > 1 {
		return "metadata.annotations." + words[1]
	}
	return words[0]
}

// readLeniently reads all fields of a health check that have the right type, and tells which have not.
func readLeniently(u *unstructured.Unstructured) (*v1beta1.MachineHealthCheck, []Remark) {
	object := u.DeepCopy().Object
	remarks := takeOutAmount(object)
	for {
		body, err := json.Marshal(object)
		mhc := &v1beta1.MachineHealthCheck{}
		if err == nil {
			err = json.Unmarshal(body, mhc)
		}
		if err == nil {
			return mhc, append(remarks, unknownFields(body)...)
		}
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) || wrong.Field == "" {
			return &v1beta1.MachineHealthCheck{}, append(remarks, Remark{Text: fmt.Sprintf("it can't be read (%v); correct it", err), Fault: true})
		}
		kind, _, _ := strings.Cut(wrong.Value, " ")
		remarks = append(remarks, Remark{Field: wrong.Field, Text: wrongType(wrong, kind), Fault: true, JSONType: kind})
		if !remove(object, strings.Split(wrong.Field, "."), kind) {
			return &v1beta1.MachineHealthCheck{}, remarks
		}
	}
}

// unknownFields finds names that mean nothing. The API server would drop them without a word.
func unknownFields(body []byte) []Remark {
	strict, _ := kjson.UnmarshalStrict(body, &v1beta1.MachineHealthCheck{}, kjson.DisallowUnknownFields) // the types were right
	var remarks []Remark
	for _, err := range strict {
		_, quoted, found := strings.Cut(err.Error(), "unknown field ")
		field, unquoting := strconv.Unquote(quoted)
		if !found || unquoting != nil {
			continue
		}
		path := strings.Split(field, ".")
		remarks = append(remarks, Remark{
			Field: field, Fault: true, Text: field + " is not a field of a MachineHealthCheck, so it would be ignored",
			Known: fieldsOf(reflect.TypeFor[v1beta1.MachineHealthCheck](), path[:len(path)-1]),
		})
	}
	return remarks
}

// fieldsOf gives the JSON names that the type at a path has.
func fieldsOf(t reflect.Type, path []string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		names = append(names, name)
		if len(path) > 0 && name == strings.SplitN(path[0], "[", 2)[0] {
			return fieldsOf(f.Type, path[1:])
		}
	}
	if len(path) > 0 {
		return nil
	}
	return names
}

// takeOutAmount removes a maxUnhealthy that is neither a whole number nor a string: its decoder does not
// say which field it was.
func takeOutAmount(object map[string]any) []Remark {
	const field = "spec.maxUnhealthy"
	value, has, err := unstructured.NestedFieldNoCopy(object, "spec", "maxUnhealthy")
	if _, whole := value.(int64); err != nil || !has || whole || value == nil || jsonType(value) == "string" {
		return nil
	}
	remove(object, strings.Split(field, "."), jsonType(value))
	return []Remark{{
		Field: field, JSONType: jsonType(value), Fault: true,
		Text: fmt.Sprintf("%s is of the wrong type: it is a %s; give a whole number such as 2 or a percentage such as 40%%", field, jsonType(value)),
	}}
}

func wrongType(wrong *json.UnmarshalTypeError, kind string) string {
	text := fmt.Sprintf("%s is of the wrong type: it is a %s and must be a %s", wrong.Field, kind, wrong.Type.Kind())
	switch {
	case wrong.Type.Kind() != reflect.String:
	case kind == "bool":
		text += `; put it into quotes, such as "False"`
	case kind == "number" && wrong.Type == reflect.TypeFor[v1beta1.Duration]():
		text += `; give a duration such as 300s`
	case kind == "number":
		text += "; put it into quotes"
	}
	return text
}

// remove takes a field out of an object, and out of each element of the lists on its way where it
// has a value of that JSON type.
func remove(value any, path []string, kind string) bool {
	switch v := value.(type) {
	case []any:
		removed := false
		for _, element := range v {
			removed = remove(element, path, kind) || removed
		}
		return removed
	case map[string]any:
		child, has := v[path[0]]
		if !has {
			return false
		}
		if len(path) > 1 {
			return remove(child, path[1:], kind)
		}
		if jsonType(child) != kind {
			list, isList := child.([]any)
			return isList && removeFrom(v, path[0], list, kind)
		}
		delete(v, path[0])
		return true
	}
	return false
}

// removeFrom takes the elements of that type out of a list.
func removeFrom(object map[string]any, key string, list []any, kind string) bool {
	kept := slices.DeleteFunc(slices.Clone(list), func(element any) bool { return jsonType(element) == kind })
	object[key] = kept
	return len(kept) < len(list)
}

func jsonType(value any) string {
	switch value.(type) {
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case nil:
		return "null"
	}
	return "number"
}

func doubtfulSelector(mhc *v1beta1.MachineHealthCheck) []Remark {
	s := &mhc.Spec.Selector
	if len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		return nil
	}
	return []Remark{doubt("spec.selector", "spec.selector is empty, so every machine in the namespace is selected, those of the control plane too; "+
		"name the ones that you mean, for example by matchLabels with %s: worker", roleLabel)}
}

func doubtfulConditions(conditions []v1beta1.UnhealthyCondition) []Remark {
	if len(conditions) == 0 {
		return []Remark{doubt("spec.unhealthyConditions", "there are no unhealthyConditions, so only machines that fail, lose their node or never get one are found; "+
			"a node that falls silent is not (condition Ready, status Unknown)")}
	}
	var remarks []Remark
	statuses := map[string]map[string]int{}
	for i, c := range conditions {
		field := fmt.Sprintf("spec.unhealthyConditions[%d]", i)
		if statuses[c.Type] == nil {
			statuses[c.Type] = map[string]int{}
		}
		if first, twice := statuses[c.Type][c.Status]; twice {
			remarks = append(remarks, doubt(field, "%s names condition %s with status %s once more, after [%d]; the shorter timeout decides", field, c.Type, c.Status, first))
			continue
		}
		statuses[c.Type][c.Status] = i
		remarks = append(remarks, doubtfulCondition(field, c)...)
	}
	return append(remarks, doubtfulTogether(conditions, statuses)...)
}

func doubtfulCondition(field string, c v1beta1.UnhealthyCondition) []Remark {
	var remarks []Remark
	switch c.Status {
	case string(corev1.ConditionTrue), string(corev1.ConditionFalse), string(corev1.ConditionUnknown):
	default:
		remarks = append(remarks, doubt(field+".status", "%s.status is %q, and conditions of nodes are True, False or Unknown, so it never matches", field, c.Status))
	}
	if c.Type == string(corev1.NodeReady) && c.Status == string(corev1.ConditionTrue) {
		remarks = append(remarks, doubt(field+".status", "%s takes nodes that are Ready for unhealthy; False and Unknown are the statuses of those that are not", field))
	}
	if d, err := time.ParseDuration(string(c.Timeout)); c.Timeout == "" || (err == nil && d == 0) {
		remarks = append(remarks, doubt(field+".timeout", "%s.timeout is 0, so a machine is repaired on the first report, however short the fault; give a duration such as 300s", field))
	}
	return remarks
}

func doubtfulTogether(conditions []v1beta1.UnhealthyCondition, statuses map[string]map[string]int) []Remark {
	var remarks []Remark
	for i, c := range conditions {
		if statuses[c.Type][c.Status] != i {
			continue
		}
		field := fmt.Sprintf("spec.unhealthyConditions[%d]", i)
		_, both := statuses[c.Type]["True"]
		if both && c.Status == "False" {
			remarks = append(remarks, doubt(field, "%s and another contradict each other: condition %s counts as a fault when True and when False, so every node that reports it is unhealthy in time", field, c.Type))
		}
		if _, silent := statuses[c.Type]["Unknown"]; c.Type == string(corev1.NodeReady) && c.Status == "False" && !silent {
			remarks = append(remarks, doubt(field, "Ready is listed with status False and not with Unknown, so a node that falls silent is never found; most faults end that way"))
		}
	}
	return remarks
}

func doubtfulLimits(mhc *v1beta1.MachineHealthCheck) []Remark {
	var remarks []Remark
	const field = "spec.maxUnhealthy"
	switch v := mhc.Spec.MaxUnhealthy; {
	case v == nil:
		remarks = append(remarks, doubt(field, "%s is not set, so it is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case isAmount(v, "100%"):
		remarks = append(remarks, doubt(field, "%s is 100%% and never stops repairs, also when a whole zone fails; a limit such as 40%% would", field))
	case v.Type == intstr.Int && v.IntValue() < 0:
		remarks = append(remarks, doubt(field, "%s is negative and counts as 0, so nothing is ever repaired", field))
	case isAmount(v, "0"), isAmount(v, "0%"):
		remarks = append(remarks, doubt(field, "%s is 0, so nothing is ever repaired: one unhealthy machine is too many already; the annotation %s or %s says that better",
			field, v1beta1.PausedAnnotation, v1beta1.DryRunAnnotation))
	}
	if v := mhc.Annotations[v1beta1.MaxInFlightAnnotation]; v == "0" || v == "0%" {
		remarks = append(remarks, doubt("metadata.annotations."+v1beta1.MaxInFlightAnnotation, "annotation %s is 0, so nothing is ever repaired", v1beta1.MaxInFlightAnnotation))
	}
	if d := mhc.Spec.NodeStartupTimeout; d != nil {
		if limit, err := setting.Duration(string(*d)); err == nil && limit == 0 {
			remarks = append(remarks, doubt("spec.nodeStartupTimeout", "spec.nodeStartupTimeout is 0, so a machine whose node never joins is never found"))
		}
	}
	return remarks
}

// isAmount tells whether a number or percentage was written as such, quoted or not.
func isAmount(v *intstr.IntOrString, text string) bool {
	if v.Type == intstr.Int {
		return strconv.Itoa(v.IntValue()) == text
	}
	return v.StrVal == text
}

func doubtfulSwitches(mhc *v1beta1.MachineHealthCheck) []Remark {
	var remarks []Remark
	known := [...]string{v1beta1.DryRunAnnotation, v1beta1.MaxInFlightAnnotation, v1beta1.StormCooldownAnnotation, v1beta1.BackoffBaseAnnotation, v1beta1.BackoffLimitAnnotation}
	for key := range mhc.Annotations {
		field := "metadata.annotations." + key
		if strings.HasPrefix(key, "fettle.io/") && !slices.Contains(known[:], key) {
			remarks = append(remarks, doubt(field, "annotation %s means nothing to this version of Fettle; it knows %s", key, strings.Join(known[:], ", ")))
		}
	}
	slices.SortFunc(remarks, func(a, b Remark) int { return strings.Compare(a.Field, b.Field) })
	if _, paused := mhc.Annotations[v1beta1.PausedAnnotation]; paused {
		remarks = append(remarks, doubt("metadata.annotations."+v1beta1.PausedAnnotation, "annotation %s is set, with whatever value, so nothing is repaired until it is removed", v1beta1.PausedAnnotation))
	}
	return append(remarks, doubtfulRemedy(mhc)...)
}
