package metal

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/sandbox/ipmi"
	"github.com/fettle-io/fettle/sandbox/redfish"
)

// TestEachFaultCanBeOrdered: a fault that an emulator gets later has its key too.
func TestEachFaultCanBeOrdered(t *testing.T) {
	orders(t, func(r redfish.Faults, i ipmi.Faults) (redfish.Faults, any) { return r, i })
	orders(t, func(r redfish.Faults, i ipmi.Faults) (ipmi.Faults, any) { return i, r })
}

// orders takes each fault of one emulator alone. The other emulator gets the fault of the same name, if it has one, and
// nothing else.
func orders[F any](t *testing.T, of func(redfish.Faults, ipmi.Faults) (F, any)) {
	t.Helper()
	kinds := reflect.TypeFor[F]()
	for i := range kinds.NumField() {
		field := kinds.Field(i)
		value := map[reflect.Kind]any{
			reflect.Bool: true, reflect.Int: 7, reflect.Int64: "3s", reflect.String: "/x", reflect.Pointer: true, reflect.Slice: []string{"On"},
		}[field.Type.Kind()]
		key := strings.ToLower(field.Name[:1]) + field.Name[1:]
		text, err := json.Marshal(map[string]any{key: value})
		if err != nil {
			t.Fatal(err)
		}
		byRedfish, byIPMI, err := parseFaults(string(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, other := of(byRedfish, byIPMI)
		set := reflect.ValueOf(got).Field(i)
		if set.IsZero() || field.Type.Kind() == reflect.Int64 && set.Int() != int64(3*time.Second) {
			t.Errorf("%s orders %+v", text, got)
		}
		reflect.ValueOf(&got).Elem().Field(i).SetZero()
		rest := reflect.New(reflect.TypeOf(other)).Elem()
		rest.Set(reflect.ValueOf(other))
		if same := rest.FieldByName(field.Name); same.IsValid() {
			if same.IsZero() {
				t.Errorf("%s orders %+v of one emulator and not of the other", text, got)
			}
			same.SetZero()
		}
		if !reflect.ValueOf(got).IsZero() || !rest.IsZero() {
			t.Errorf("%s orders %+v and %+v besides", text, got, rest.Interface())
		}
	}
}

func TestNonsenseOrdersNothing(t *testing.T) {
	for _, text := range []string{"nonsense", `{"lag":"soon"}`, `{"sayOff":true}`, `[]`} {
		if got, _, err := parseFaults(text); err == nil || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, _, err := parseFaults(""); err != nil || !reflect.ValueOf(got).IsZero() {
		t.Errorf("no order: %+v, %v", got, err)
	}
}
