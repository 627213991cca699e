package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEffectInWords pins what check says of an effect.
func TestEffectInWords(t *testing.T) {
	names := strings.Split("a b c d e f g h i j k l", " ")
	check := Reference{Kind: "NodeHealthCheck", Name: "workers"}
	suspect := func(name string, held ...Refusal) Target {
		return Target{Reference: Reference{Name: name}, Health: "suspect", Reason: "Own", HeldBy: held, Verdicts: []Verdict{
			{HealthCheck: "others", HealthCheckKind: "NodeHealthCheck", Message: "by another"},
			{HealthCheck: "workers", HealthCheckKind: "MachineHealthCheck", Message: "by another kind"},
			{HealthCheck: "workers", HealthCheckKind: "NodeHealthCheck", Message: "by this"},
		}}
	}
	health := func(total, healthy int, dryRun bool) HealthCheck {
		return HealthCheck{Reference: check, TargetKind: "Node", Total: total, Healthy: healthy, MostUnhealthy: 2, Repairs: repairsAllowed, DryRun: dryRun}
	}
	unknown, known := Refusal{Gate: "LeaseHeld", Unknown: true}, Refusal{Gate: "Paused"}
	for _, tc := range []struct {
		effect Effect
		want   string
	}{
		{Effect{HealthCheck: health(0, 0, false)}, "  Now: it repairs nothing; repairs would go on while at most 2 are not healthy.\n"},
		{Effect{HealthCheck: health(1, 1, false), Selected: names[:1], Exists: true}, "  It replaces the health check of that name.\n" +
			"  It selects 1 node: a. 1 of them is healthy.\n  Now: it repairs nothing; repairs would go on while at most 2 are not healthy.\n"},
		{Effect{HealthCheck: health(12, 10, true), Selected: names[:10], NotHealthy: []Target{suspect("a")}, RepairsNow: names[:11]}, "  It selects 12 nodes: a, b, c, d, e, f, g, h, i, j and 2 more. 10 of them are healthy.\n" +
			"    a is suspect: by this\n    … and 1 more\n  Now: as a dry run it reports that it would repair a, b, c, d, e, f, g, h, i, j and 1 more at once; repairs go on while at most 2 are not healthy.\n"},
		{Effect{HealthCheck: health(2, 0, false), Selected: names[:2], NotHealthy: []Target{suspect("a", unknown), suspect("b", known)}}, "  It selects 2 nodes: a, b. 0 of them are healthy.\n" +
			"    a is suspect: by this; held back by LeaseHeld?\n    b is suspect: by this; held back by Paused\n  Now: it is not known whether it repairs anything.\n"},
		{Effect{HealthCheck: health(1, 0, false), Selected: names[:1], NotHealthy: []Target{suspect("a", unknown, known)}}, "  It selects 1 node: a. 0 of them are healthy.\n" +
			"    a is suspect: by this; held back by LeaseHeld?,Paused\n  Now: it repairs nothing; repairs would go on while at most 2 are not healthy.\n"},
		{Effect{HealthCheck: health(1, 0, false), Selected: names[:1], NotHealthy: []Target{{Reference: Reference{Name: "a"}, Health: "unknown", Reason: "Own"}}, OthersRepair: names[:1]}, "  It selects 1 node: a. 0 of them are healthy.\n" +
			"    a is unknown: Own\n  Now: it leads no repair; another health check has a repaired at once.\n"},
	} {
		if d := cmp.Diff(tc.want, printed(false, func(p *page) { p.effect(&tc.effect) })); d != "" {
			t.Errorf("of %+v (-want +got)\n%s", tc.effect, d)
		}
	}
}

// TestResultInColour: a result without problems is green, and any other is red.
func TestResultInColour(t *testing.T) {
	for outcome, want := range map[string]colour{passed: green, problems: red, notChecked: red} {
		text := printed(true, func(p *page) { p.checkResult(&CheckResult{Outcome: outcome, Message: "so"}) })
		if coloured := printed(true, func(p *page) { p.printf("%s\n", p.in(want, "so")) }); text != coloured {
			t.Errorf("%s is %q, want %q", outcome, text, coloured)
		}
	}
}
