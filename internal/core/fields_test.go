package core

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// leaves returns the paths to all fields below v that hold no other fields. The fields of a slice's
// element count too.
func leaves(v reflect.Value, path []int) [][]int {
	switch v.Kind() { //nolint:exhaustive // the others are leaves
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return [][]int{path}
		}
		var all [][]int
		for i := range v.NumField() {
			all = append(all, leaves(v.Field(i), append(slices.Clip(path), i))...)
		}
		return all
	case reflect.Slice:
		return leaves(reflect.New(v.Type().Elem()).Elem(), append(slices.Clip(path), -1))
	}
	return [][]int{path}
}

// set changes the zero field at a path of v, and returns its name. Slices on the way have one
// element.
func set(t *testing.T, v reflect.Value, path []int) string {
	t.Helper()
	if len(path) > 0 && path[0] < 0 {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return set(t, v.Index(0), path[1:])
	}
	if len(path) > 0 {
		return v.Type().Field(path[0]).Name + "." + set(t, v.Field(path[0]), path[1:])
	}
	switch v.Kind() { //nolint:exhaustive // the others fail
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(1)
	default:
		at, isTime := reflect.TypeAssert[*time.Time](v.Addr())
		if !isTime {
			t.Fatalf("no value is known for a field of type %s", v.Type())
		}
		*at = time.Unix(1, 0)
	}
	return ""
}

// blank sets each slice on a path to one zero element, so that two values differ by the field
// alone.
func blank(v reflect.Value, path []int) {
	switch {
	case len(path) == 0:
	case path[0] < 0:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		blank(v.Index(0), path[1:])
	default:
		blank(v.Field(path[0]), path[1:])
	}
}

// eachField calls f with two values that differ in one field, once for each field of T.
func eachField[T any](t *testing.T, f func(name string, a, b T)) {
	t.Helper()
	paths := leaves(reflect.ValueOf(new(T)).Elem(), nil)
	if len(paths) == 0 {
		t.Fatal("it has no fields")
	}
	for _, path := range paths {
		var a, b T
		blank(reflect.ValueOf(&a).Elem(), path)
		name := set(t, reflect.ValueOf(&b).Elem(), path)
		f(name, a, b)
	}
}

// TestCriteriaDifferByEachField: criteria that differ in any field are not equal, and others are.
func TestCriteriaDifferByEachField(t *testing.T) {
	eachField(t, func(field string, a, b Criteria) {
		if a.equal(&b) || b.equal(&a) {
			t.Errorf("criteria that differ in %s are said to be the same", field)
		}
		if !b.equal(&b) {
			t.Errorf("criteria with %s are said to differ from themselves", field)
		}
	})
}

// TestNodesDifferByEachField: a live read counts only while each field agrees with the cache.
func TestNodesDifferByEachField(t *testing.T) {
	eachField(t, func(field string, a, b Node) {
		if a.same(&b) || !b.same(&b) {
			t.Errorf("nodes that differ in %s are said to be the same", field)
		}
	})
}

// TestGivenUpStepLeavesNoState: giving a step up resets each field of its state. The steps of a
// copy stay.
func TestGivenUpStepLeavesNoState(t *testing.T) {
	eachField(t, func(field string, _, state StepState) {
		before := Repair{Name: "x", StepState: state, Tried: make([]StepRecord, 1, 2)}
		after := before
		after.GiveUpStep(StepRecord{Outcome: Failed})
		if after.StepState != (StepState{}) || len(after.Tried) != 2 || after.Tried[1].Outcome != Failed || after.Name != "x" {
			t.Errorf("a step with %s is given up, and the repair is %+v", field, after)
		}
		if before.Tried[:2][1] != (StepRecord{}) {
			t.Errorf("giving up a step of one copy changes another")
		}
	})
}
