package power

import (
	"net/http"
	"testing"
)

// TestRedfishOtherSystem: a system whose UUID is known to be another gets no command. The next command without a UUID, or with the right
// one, goes through.
func TestRedfishOtherSystem(t *testing.T) {
	const other = "00112233-4455-6677-8899-aabbccddeeff"
	for _, tc := range []struct {
		reported, expected string
		want               Reason
	}{
		{someUUID, someUUID, ""},
		{someUUID, swappedUUID, ""},
		{someUUID, "", ""},
		{"", someUUID, ""},
		{"not a UUID", someUUID, ""},
		{someUUID, other, OtherSystem},
		{other, someUUID, OtherSystem},
	} {
		b := plainRedfish(t)
		b.set(func() {
			b.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || r.URL.Path != "/redfish/v1/Systems/1" {
					return false
				}
				answer(w, map[string]any{"@odata.id": r.URL.Path, "UUID": tc.reported, "PowerState": b.power, "Actions": map[string]any{
					"#ComputerSystem.Reset": map[string]any{"target": resetPath},
				}})
				return true
			}
		})
		h := b.host(t, newClock(), testPassword)
		for _, command := range []Command{TurnOff, TurnOn} {
			if _, f := h.Command(t.Context(), command, tc.expected); f.Reason != tc.want {
				t.Errorf("%q, expected %q: the failure is %+v, want %s", tc.reported, tc.expected, f, tc.want)
			}
		}
		if done := b.count("POST " + resetPath); (done == 0) != (tc.want != "") {
			t.Errorf("%q, expected %q: %d commands came", tc.reported, tc.expected, done)
		}
		if got := h.UUID(); got != CanonicalUUID(tc.reported) {
			t.Errorf("%q is known as %q", tc.reported, got)
		}
		if _, f := h.Command(t.Context(), TurnOff, ""); f.Failed() {
			t.Errorf("%q: without a UUID, the failure is %+v", tc.reported, f)
		}
	}
}

// TestUUIDBeforeARead is not known.
func TestUUIDBeforeARead(t *testing.T) {
	if got := plainRedfish(t).host(t, newClock(), testPassword).UUID(); got != "" {
		t.Errorf("the UUID is %q", got)
	}
}
