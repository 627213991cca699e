package pass

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// fill makes each map below v have one entry, and each pointer point to something.
func fill(v reflect.Value, depth int) {
	if depth > 6 {
		return
	}
	v = writable(v)
	switch v.Kind() { //nolint:exhaustive // the others are shared or copied as they are
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.Kind() != reflect.Pointer || strings.HasPrefix(v.Type().PkgPath(), "github.com/fettle-io") {
				fill(f, depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), value)
	}
}

// writable returns a field so that it can be set though it is not exported.
func writable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	}
	return v
}

// shared returns the paths at which two values have a map or a pointer in common.
func shared(a, b reflect.Value, path string) []string {
	switch a.Kind() { //nolint:exhaustive // the others share nothing that changes
	case reflect.Struct:
		var found []string
		for i := range a.NumField() {
			found = append(found, shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
		return found
	case reflect.Map, reflect.Pointer:
		if a.Type().Elem().Kind() == reflect.Struct && a.Type().Elem().Name() == "Location" { // that of a time.Time
			return nil
		}
		if a.IsNil() || b.IsNil() {
			return []string{path + " is lost"}
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return []string{path + " is shared"}
		}
		if a.Kind() == reflect.Pointer {
			return shared(a.Elem(), b.Elem(), path)
		}
		var found []string
		for _, key := range a.MapKeys() {
			if e := a.MapIndex(key); e.Kind() == reflect.Pointer {
				found = append(found, shared(e, b.MapIndex(key), fmt.Sprintf("%s[]", path))...)
			}
		}
		return found
	}
	return nil
}

// TestClone: a clone has all that the state has, and changes to one don't reach the other.
func TestClone(t *testing.T) {
	var s State
	fill(reflect.ValueOf(&s).Elem(), 0)
	twin := s.Clone()
	if found := shared(reflect.ValueOf(&s).Elem(), reflect.ValueOf(twin).Elem(), "State"); len(found) > 0 {
		t.Errorf("%v", found)
	}
	if !reflect.DeepEqual(&s, twin) {
		t.Errorf("the clone differs:\n%+v\n%+v", &s, twin)
	}
}
