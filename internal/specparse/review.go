package specparse

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// Remark is a fault of a health check, or a warning about it, for the user who is about to apply it.
type Remark struct {
	// Field is the path of the field, such as spec.unhealthyConditions[0].timeout.
	Field string
	// Text says what is wrong, or what follows, and what to do.
	Text string
	// Fault is set if Fettle can't act on the health check as it is. Otherwise the remark is a warning.
	Fault bool
	// JSONType is the type of the value, if the type is the fault.
	JSONType string
	// Known are the valid names, if an unknown name is the fault.
	Known []string
}

// Fault returns a fault of a field. The text follows the name of the field.
func Fault(field, format string, args ...any) Remark {
	return Remark{Field: field, Text: field + " " + fmt.Sprintf(format, args...), Fault: true}
}

// Warning returns a warning about a field that may not be meant as it is.
func Warning(field, format string, args ...any) Remark {
	return Remark{Field: field, Text: fmt.Sprintf(format, args...)}
}

// Problem returns a fault for a text that begins with its field, or with the word "annotation" and the key.
func Problem(problem string) Remark {
	words := strings.Fields(problem)
	if words[0] == "annotation" && len(words) > 1 {
		words[0] = "metadata.annotations." + words[1]
	}
	return Remark{Field: words[0], Text: problem, Fault: true}
}

// ReadLeniently reads all fields of a health check that have the right type. It returns faults for the others, and
// for unknown names. Amounts are the paths of fields that are numbers or percentages. The error of their decoder names
// an int32 only.
func ReadLeniently[T any](u *unstructured.Unstructured, amounts ...string) (*T, []Remark) {
	object := u.DeepCopy().Object
	var remarks []Remark
	for _, field := range amounts {
		remarks = append(remarks, removeInvalidAmount(object, field)...)
	}
	for {
		body, err := json.Marshal(object)
		into := new(T)
		if err == nil {
			err = json.Unmarshal(body, into)
		}
		if err == nil {
			return into, append(remarks, unknownFields[T](body)...)
		}
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) || wrong.Field == "" {
			return new(T), append(remarks, Remark{Text: fmt.Sprintf("it can't be read (%v); correct it", err), Fault: true})
		}
		kind, _, _ := strings.Cut(wrong.Value, " ")
		remarks = append(remarks, Remark{Field: wrong.Field, Text: wrongType(wrong, kind), Fault: true, JSONType: kind})
		if !remove(object, strings.Split(wrong.Field, "."), kind) {
			return new(T), remarks
		}
	}
}

// unknownFields returns faults for unknown names. The API server would drop the fields without an error.
func unknownFields[T any](body []byte) []Remark {
	strict, _ := kjson.UnmarshalStrict(body, new(T), kjson.DisallowUnknownFields) // the types were right
	var remarks []Remark
	for _, err := range strict {
		if unknown, ok := errors.AsType[kjson.FieldError](err); ok {
			field, of := unknown.FieldPath(), reflect.TypeFor[T]()
			path := strings.Split(field, ".")
			remarks = append(remarks, Remark{
				Field: field, Fault: true, Text: field + " is not a field of a " + of.Name() + ", so it would be ignored",
				Known: fieldsOf(of, path[:len(path)-1]),
			})
		}
	}
	return remarks
}

// fieldsOf returns the JSON names of the type at a path.
func fieldsOf(t reflect.Type, path []string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for f := range t.Fields() {
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name == "":
			if f.Anonymous { // JSON has the fields of an inline struct among those of t
				names = append(names, fieldsOf(f.Type, path)...)
			}
		case len(path) == 0:
			names = append(names, name)
		case name == withoutIndex(path[0]):
			return fieldsOf(f.Type, path[1:])
		}
	}
	return names
}

// withoutIndex returns the name of a field for one of its elements, such as conditions for conditions[0].
func withoutIndex(element string) string {
	name, _, _ := strings.Cut(element, "[")
	return name
}

// removeInvalidAmount removes an amount that is neither a whole number nor a string.
func removeInvalidAmount(object map[string]any, field string) []Remark {
	path := strings.Split(field, ".")
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...) // nil where there is none
	switch value.(type) {
	case nil, int64, string:
		return nil
	}
	remove(object, path, jsonType(value))
	return []Remark{{
		Field: field, JSONType: jsonType(value), Fault: true,
		Text: fmt.Sprintf("%s is of the wrong type: it is a %s; give a whole number such as 2 or a percentage such as 40%%", field, jsonType(value)),
	}}
}

func wrongType(wrong *json.UnmarshalTypeError, kind string) string {
	text := fmt.Sprintf("%s is of the wrong type: it is %s and must be %s", wrong.Field, aJSONType(kind), aGoType(wrong.Type))
	switch {
	case kind == "object" && wrong.Type.Kind() == reflect.Slice:
		text += `; put a dash before each entry, such as "- key: …"`
	case wrong.Type.Kind() != reflect.String:
	case kind == "bool":
		text += `; put it into quotes, such as "False"`
	case kind == "number" && wrong.Type.Name() == "Duration":
		text += `; give a duration such as 300s`
	case kind == "number":
		text += "; put it into quotes"
	}
	return text
}

func aJSONType(kind string) string {
	switch kind {
	case "object":
		return "a map"
	case "array":
		return "a list"
	}
	return "a " + kind
}

func aGoType(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // the others have the same names in YAML and in Go
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a map"
	}
	return "a " + t.Kind().String()
}

// remove removes a field of an object if the value has the JSON type, or those parts of the value that have it. It
// enters all elements of the lists on the path.
func remove(value any, path []string, kind string) bool {
	switch v := value.(type) {
	case []any:
		removed := false
		for _, element := range v {
			removed = remove(element, path, kind) || removed
		}
		return removed
	case map[string]any:
		child := v[path[0]]
		if len(path) > 1 {
			return remove(child, path[1:], kind)
		}
		if jsonType(child) == kind {
			delete(v, path[0])
			return true
		}
		return removeParts(v, path[0], kind)
	}
	return false
}

// removeParts removes the parts of that JSON type from a field that is a list or a map. The decoder names the field
// and not the part.
func removeParts(object map[string]any, field, kind string) bool {
	switch parts := object[field].(type) {
	case []any:
		kept := slices.DeleteFunc(slices.Clone(parts), func(part any) bool { return jsonType(part) == kind })
		object[field] = kept
		return len(kept) < len(parts)
	case map[string]any:
		before := len(parts)
		maps.DeleteFunc(parts, func(_ string, part any) bool { return jsonType(part) == kind })
		return len(parts) < before
	}
	return false
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
