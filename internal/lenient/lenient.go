// Package lenient reads objects whose definition may accept any content, as far as they can be read. An
// object that fails to decode would end the list and the watch of its kind. So a field that can't be read
// becomes a problem of its object.
package lenient

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Problem is a field that can't be read.
type Problem struct {
	// Field is the path of the field, such as spec.selector.matchLabels.
	Field string
	// Value is the value of the field as shortened JSON.
	Value string
}

// Child returns the name of the field of the part in which the problem is, such as selector. It is empty if the part as a whole can't be read.
func (p Problem) Child() string {
	_, below, _ := strings.Cut(p.Field, ".")
	child, _, _ := strings.Cut(below, ".")
	return child
}

// Part reads a part of an unstructured object, such as its spec, into a struct. A field that can't be read is
// absent from the struct, and is a problem.
func Part[T any](object map[string]any, name string) (T, []Problem) {
	value := object[name]
	if value == nil {
		return *new(T), nil
	}
	fields, isObject := value.(map[string]any)
	if !isObject {
		return *new(T), []Problem{{Field: name, Value: excerptOf(value)}}
	}
	into, err := convert[T](fields)
	if err == nil {
		return into, nil
	}
	fields = maps.Clone(fields)
	var problems []Problem
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if _, err := convert[T](map[string]any{field: fields[field]}); err != nil {
			problems = append(problems, Problem{Field: name + "." + within(field, err), Value: excerptOf(fields[field])})
			delete(fields, field)
		}
	}
	if into, err = convert[T](fields); err != nil {
		return *new(T), []Problem{{Field: name, Value: excerptOf(value)}}
	}
	return into, problems
}

// convert converts by way of JSON. The converter of unstructured objects cuts numbers that are too wide, and does
// not name the field that fails.
func convert[T any](fields map[string]any) (T, error) {
	var into T
	body, err := json.Marshal(fields)
	if err == nil {
		err = utiljson.Unmarshal(body, &into)
	}
	return into, err //nolint:wrapcheck // it becomes a problem and goes no further
}

// within returns the path in a field that an error is about, if the error has one.
func within(field string, err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && strings.HasPrefix(wrong.Field, field+".") {
		return wrong.Field
	}
	return field
}

func excerptOf(value any) string {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("a %T", value)
	}
	return Excerpt(string(body))
}
