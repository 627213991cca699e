package metal

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// TestEachFaultCanBeOrdered: a fault that the emulator gets later has its key too.
func TestEachFaultCanBeOrdered(t *testing.T) {
	kinds := reflect.TypeFor[redfish.Faults]()
	for i := range kinds.NumField() {
		field := kinds.Field(i)
		value := map[reflect.Kind]any{
			reflect.Bool: true, reflect.Int: 7, reflect.Int64: "3s", reflect.String: "/x", reflect.Pointer: true,
		}[field.Type.Kind()]
		key := strings.ToLower(field.Name[:1]) + field.Name[1:]
		text, err := json.Marshal(map[string]any{key: value})
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseFaults(string(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		set := reflect.ValueOf(got).Field(i)
		if set.IsZero() || field.Type.Kind() == reflect.Int64 && set.Int() != int64(3*time.Second) {
			t.Errorf("%s orders %+v", text, got)
		}
		reflect.ValueOf(&got).Elem().Field(i).SetZero()
		if !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s orders %+v besides", text, got)
		}
	}
}

func TestNonsenseOrdersNothing(t *testing.T) {
	for _, text := range []string{"nonsense", `{"lag":"soon"}`, `{"sayOff":true}`, `[]`} {
		if got, err := parseFaults(text); err == nil || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := parseFaults(""); err != nil || !reflect.ValueOf(got).IsZero() {
		t.Errorf("no order: %+v, %v", got, err)
	}
}
