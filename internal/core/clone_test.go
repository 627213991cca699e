package core

import (
	"reflect"
	"testing"
	"unsafe"
)

// fill sets all fields below v, unexported fields too: maps and slices get one element, and pointers
// a value.
func fill(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // core has no values of the others
	case reflect.Struct:
		for _, f := range v.Fields() {
			fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem())
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		if v.Type().Elem().PkgPath() != "time" { // a time has a pointer to its location
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(1)
	}
}

// clearMaps empties the maps of a filled struct. It blanks the values first that maps refer to.
func clearMaps(v reflect.Value) {
	for _, f := range v.Fields() {
		f = reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
		switch f.Kind() { //nolint:exhaustive // the others are copied with the struct
		case reflect.Struct:
			clearMaps(f)
		case reflect.Map:
			for _, key := range f.MapKeys() {
				switch value := f.MapIndex(key); value.Kind() { //nolint:exhaustive // the others are copied with the map
				case reflect.Pointer:
					value.Elem().SetZero()
				case reflect.Slice:
					value.Index(0).SetZero()
				}
				f.SetMapIndex(key, reflect.Value{})
			}
		}
	}
}

// clones checks that a clone of a filled T is equal to it, and stays when that changes.
func clones[T any](t *testing.T, clone func(*T) T) {
	t.Helper()
	var original, filled T
	fill(reflect.ValueOf(&original).Elem())
	fill(reflect.ValueOf(&filled).Elem())
	got := clone(&original)
	if !reflect.DeepEqual(got, filled) {
		t.Errorf("the clone is %+v, want %+v", got, filled)
	}
	clearMaps(reflect.ValueOf(&original).Elem())
	if !reflect.DeepEqual(got, filled) {
		t.Errorf("the clone follows its original: %+v", got)
	}
}

// TestClones: a clone has each field of its original, and nothing that changes with that.
func TestClones(t *testing.T) {
	clones(t, (*Expectations).Clone)
	clones(t, (*Deduplicator).Clone)
	clones(t, (*Aggregator).Clone)
	clones(t, (*LatencyRecorder).Clone)
}

// TestClonedBatchesPart: events that either of two clones collects don't show in the other.
func TestClonedBatchesPart(t *testing.T) {
	key := aggregationKey{kind: EventSuspected}
	original := Aggregator{batches: map[aggregationKey]*batch{key: {names: make([]ID, 1, 8)}}}
	clone := original.Clone()
	for name, a := range map[string]*Aggregator{"a": &original, "b": &clone} {
		b := a.batches[key]
		b.names = append(b.names, ID{Name: name})
	}
	if a, b := original.batches[key].names[1].Name, clone.batches[key].names[1].Name; a != "a" || b != "b" {
		t.Errorf("the batches have %s and %s, want a and b", a, b)
	}
}
