package ledger

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// fullEvidence has a value in every field.
func fullEvidence(cycle int) core.Evidence {
	at := func(seconds int) time.Time {
		return noon.Truncate(time.Microsecond).Add(time.Duration(seconds) * time.Second)
	}
	return core.Evidence{
		Request: core.ID{Kind: "PowerRemediation", Namespace: "fettle-system", Name: "worker-1", UID: "uid"}, Cycle: cycle,
		Method: "PowerOff", Means: "bmc-1", Protocol: "Redfish", BootIDBefore: "before", BootIDAfter: "after",
		Commanded: at(1), Proven: at(2), Released: at(3), Back: at(4),
	}
}

// TestEvidenceOutlivesItsRecord: each field is the same after a restart, from the cache and from an answer.
func TestEvidenceOutlivesItsRecord(t *testing.T) {
	for name, change := range map[string]func(*core.Evidence){
		"all":         func(*core.Evidence) {},
		"no proof":    func(e *core.Evidence) { e.Method, e.Proven, e.Released = "", time.Time{}, time.Time{} },
		"no command":  func(e *core.Evidence) { e.Commanded = time.Time{} },
		"not back":    func(e *core.Evidence) { e.Back, e.BootIDAfter = time.Time{}, "" },
		"no BMC":      func(e *core.Evidence) { e.Means, e.Protocol, e.BootIDBefore, e.Cycle = "", "", "", 0 },
		"many cycles": func(e *core.Evidence) { e.Cycle = 1 << 30 },
	} {
		object := render(anEntry(), "")
		want := []core.Evidence{fullEvidence(1), fullEvidence(2)}
		change(&want[1])
		object.Status = statusOf(core.Repair{Evidence: want}, "", nil)
		if diff := cmp.Diff(want, stored(t, object).repair.Evidence); diff != "" {
			t.Errorf("%s, from the cache (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(want, read(sent(t, object)).Evidence); diff != "" {
			t.Errorf("%s, from an answer (-want +got):\n%s", name, diff)
		}
	}
	if got := statusOf(core.Repair{Evidence: []core.Evidence{{Cycle: 1<<30 + 1}}}, "", nil).Evidence[0].PowerCycle; got != 1<<30 {
		t.Errorf("%d power cycles", got)
	}
}

// TestEvidenceIsBounded: evidence that any client has written is bounded, and can be written again.
func TestEvidenceIsBounded(t *testing.T) {
	entry := func(fields string) string {
		return `{"remediation": {"kind": "K", "name": "n", "uid": "u"}` + fields + `}`
	}
	evidence := func(entries ...string) []core.Evidence {
		return written(t, aSpec(), `{"evidence": [`+strings.Join(entries, ", ")+`]}`).repair.Evidence
	}
	one := core.Evidence{Request: core.ID{Kind: "K", Name: "n", UID: "u"}}
	for name, c := range map[string]struct {
		entry string
		want  []core.Evidence
	}{
		"nothing else":          {entry(""), []core.Evidence{one}},
		"no kind":               {`{"remediation": {"name": "n", "uid": "u"}}`, nil},
		"no name":               {`{"remediation": {"kind": "K", "uid": "u"}}`, nil},
		"no UID":                {`{"remediation": {"kind": "K", "name": "n"}}`, nil},
		"a year before 1970":    {entry(`, "provenAt": "1969-12-31T23:59:59.999999Z"`), []core.Evidence{one}},
		"a year after 9999":     {entry(`, "backAt": "9999-12-31T23:59:59.000000-01:00"`), []core.Evidence{one}},
		"a terminal's language": {entry(`, "method": "\u001b[2J\nPowerOff"`), []core.Evidence{func() core.Evidence { e := one; e.Method = word("\x1b[2J\nPowerOff"); return e }()}},
	} {
		if diff := cmp.Diff(c.want, evidence(c.entry)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for year, zero := range map[string]bool{"1970-01-01T00:00:00.000000Z": false, "9999-12-31T23:59:59.000000Z": false} {
		if got := evidence(entry(`, "commandedAt": "` + year + `"`))[0].Commanded; got.IsZero() != zero {
			t.Errorf("%s is read as %s", year, got)
		}
	}
	if got := evidence(entry(`, "backAt": "2026-08-03T14:00:00.000000+02:00"`))[0].Back; got.Location() != time.UTC || got.Hour() != 12 {
		t.Errorf("a time with an offset is read as %s", got)
	}
	if got := word("\x1b[2J\nPowerOff"); strings.ContainsAny(got, "\x1b\n") {
		t.Errorf("a word is %q", got)
	}
	long := evidence(entry(`, "bmc": "` + strings.Repeat("x", 9999) + `"`))[0].Means
	if len(long) != 253 {
		t.Errorf("a name has %d bytes", len(long))
	}
	var many []string
	for i := range 20 {
		many = append(many, entry(`, "powerCycle": `+strconv.Itoa(i)))
	}
	got := evidence(many...)
	if len(got) != core.MaxEvidence || got[0].Cycle != 20-core.MaxEvidence {
		t.Errorf("%d are kept, from cycle %d", len(got), got[0].Cycle)
	}
	if n := len(statusOf(core.Repair{Evidence: make([]core.Evidence, core.MaxEvidence+1)}, "", nil).Evidence); n != core.MaxEvidence {
		t.Errorf("%d are written", n)
	}
}
