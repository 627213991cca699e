// Package lenient reads objects whose definition may let anything through, as far as they can be
// read. An object that fails to decode ends the list and the watch of all others of its kind, so
// what can't be read must become a fact about one object.
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

// Problem is one field that can't be read.
type Problem struct {
	// Field is its path, such as spec.selector.matchLabels.
	Field string
	// Value is what it has, as JSON, shortened.
	Value string
}

// Part reads a part of an unstructured object, such as its spec, into a struct. A field that can't be
// read is absent from it, and all others are there.
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

// convert goes by JSON, since the converter of unstructured objects cuts numbers that are too wide
// and does not say where it fails.
func convert[T any](fields map[string]any) (T, error) {
	var into T
	body, err := json.Marshal(fields)
	if err == nil {
		err = utiljson.Unmarshal(body, &into)
	}
	return into, err //nolint:wrapcheck // it becomes a problem and goes no further
}

// within is the place in a field that an error is about, where it says that.
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
