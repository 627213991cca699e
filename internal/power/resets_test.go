package power

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const actionInfoPath = "/redfish/v1/Systems/1/ResetActionInfo"

// TestRedfishResetsThatAreNotAllowed: they are known before they are needed, from the system itself or from the resource to which it refers.
func TestRedfishResetsThatAreNotAllowed(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed []string
		apart   http.HandlerFunc // nil: the system itself lists them
		want    []string
	}{
		"both":                      {[]string{"On", "ForceOff", "PushPowerButton"}, nil, nil},
		"no power-off":              {[]string{"On", "GracefulShutdown"}, nil, []string{"ForceOff"}},
		"no power-on":               {[]string{"ForceOff"}, nil, []string{"On"}},
		"neither":                   {[]string{"PushPowerButton"}, nil, []string{"ForceOff", "On"}},
		"none is listed":            {nil, nil, nil},
		"both, apart":               {nil, listing("On", "ForceOff"), nil},
		"no power-off, apart":       {nil, listing("On"), []string{"ForceOff"}},
		"none is listed apart":      {nil, listing(), nil},
		"the list can't be read":    {nil, func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusInternalServerError) }, nil},
		"the list is of other sort": {nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"Parameters": 7}`)) }, nil},
		"the list is too long": {nil, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"Parameters": [{"Name": "ResetType", "AllowableValues": ["` + strings.Repeat("x", 5<<20) + `"]}]}`))
		}, nil},
	} {
		b := plainRedfish(t)
		b.allowed, b.fault = tc.allowed, apart(b, tc.apart)
		h := b.host(t, newClock(), testPassword)
		if got := h.Lacks(); len(got) != 0 {
			t.Errorf("%s: before a read, %v are not allowed", name, got)
		}
		if f := h.ReadResets(t.Context()); f.Failed() || !slices.Equal(h.Lacks(), tc.want) {
			t.Errorf("%s: %v are not allowed, want %v (%+v)", name, h.Lacks(), tc.want, f)
		}
		if len(b.resets) != 0 {
			t.Errorf("%s: commands %v came", name, b.resets)
		}
	}
}

// TestCommandsReadNoListElsewhere: a BMC that does not answer for its list of resets must not take the time of a command.
func TestCommandsReadNoListElsewhere(t *testing.T) {
	b := plainRedfish(t)
	b.fault = apart(b, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	h := b.host(t, newClock(), testPassword)
	wantCommand(t, h, TurnOff)
	if n := b.count("GET " + actionInfoPath); n != 0 || !slices.Equal(b.resets, []string{"ForceOff"}) {
		t.Errorf("commands %v came, and the list was read %d times", b.resets, n)
	}
}

// TestListedElsewhereDecidesNoCommand: the BMC itself refuses what it lacks.
func TestListedElsewhereDecidesNoCommand(t *testing.T) {
	b := plainRedfish(t)
	b.fault = either(apart(b, listing("On")), refusing(resetPath, http.StatusBadRequest))
	h := b.host(t, newClock(), testPassword)
	if f := h.ReadResets(t.Context()); f.Failed() || !slices.Equal(h.Lacks(), []string{"ForceOff"}) {
		t.Errorf("%v are not allowed (%+v)", h.Lacks(), f)
	}
	wantRefused(t, h, TurnOff, CommandRefused)
	b.set(func() { b.fault = apart(b, listing("On")) })
	wantCommand(t, h, TurnOff)
}

// slowResets is a driver that says how long reading the resets may take.
type slowResets struct {
	*played

	left time.Duration
}

func (s *slowResets) Lacks(ctx context.Context) ([]Command, Failure) {
	end, _ := ctx.Deadline()
	s.left = time.Until(end) //nolint:forbidigo // contexts are of this clock
	return nil, Failure{}
}

// TestReadingResetsIsShort: a command waits for it.
func TestReadingResetsIsShort(t *testing.T) {
	driver := &slowResets{}
	h := NewHost(Config{Now: newClock().now}, mustCredentials(t, testUser, testPassword))
	h.open = func(Config, Credentials) connection { return driver }
	if f := h.ReadResets(t.Context()); f.Failed() || driver.left <= 0 || driver.left > 5*time.Second {
		t.Errorf("reading the resets may take %v (%+v)", driver.left, f)
	}
}

// listing answers with a list of resets.
func listing(kinds ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"@odata.id": actionInfoPath, "Parameters": []map[string]any{{
			"Name": "ResetType", "DataType": "String", "Required": true, "AllowableValues": kinds,
		}}})
	}
}

// apart has the system of a BMC refer to a resource with its resets.
func apart(b *redfishBMC, info http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	if info == nil {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) bool {
		switch r.Method + " " + r.URL.Path {
		case "GET " + actionInfoPath:
			info(w, r)
		case "GET /redfish/v1/Systems/1":
			answer(w, map[string]any{"@odata.id": r.URL.Path, "PowerState": b.power, "Actions": map[string]any{
				"#ComputerSystem.Reset": map[string]any{"target": resetPath, "@Redfish.ActionInfo": actionInfoPath},
			}})
		default:
			return false
		}
		return true
	}
}

// TestResetsAreKnownUntilTheyAreReadAgain: a failed read changes nothing.
func TestResetsAreKnownUntilTheyAreReadAgain(t *testing.T) {
	b := plainRedfish(t)
	b.allowed = []string{"On"}
	h := b.host(t, newClock(), testPassword)
	for _, step := range []struct {
		change func()
		fails  Reason
		want   []string
	}{
		{func() {}, "", []string{"ForceOff"}},
		{func() { b.fault = refusing(systemPath, http.StatusNotFound) }, UnsupportedSystem, []string{"ForceOff"}},
		{func() { b.fault, b.allowed = nil, []string{"On", "ForceOff"} }, "", nil},
	} {
		b.set(step.change)
		if f := h.ReadResets(t.Context()); f.Reason != step.fails || !slices.Equal(h.Lacks(), step.want) {
			t.Errorf("%v are not allowed, want %v (%+v)", h.Lacks(), step.want, f)
		}
	}
}

// TestIPMIListsNoResets: the protocol has no list, so nothing is read.
func TestIPMIListsNoResets(t *testing.T) {
	h, _, _ := play(t, newClock())
	if f := h.ReadResets(t.Context()); f.Failed() || len(h.Lacks()) != 0 {
		t.Errorf("%v are not allowed (%+v)", h.Lacks(), f)
	}
}
