package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

func TestVerdictText(t *testing.T) {
	c := core.ConditionCriterion{Type: "Ready", Status: "Unknown", For: patience}
	cases := map[string]core.Verdict{
		"no criterion is met": {Health: core.Healthy, Reason: core.NoCriterionMet},
		"the cluster could not be observed completely, so nothing is judged until it can":                                                              {Reason: core.ClusterUnobserved},
		"it can't be judged until this is corrected: status.phase is 5":                                                                                {Reason: core.TargetUnreadable, Detail: "status.phase is 5"},
		"the machine's phase is Failed, from which it does not recover":                                                                                {Reason: core.TargetFailed},
		"no node has joined since 2026-08-03T12:00:00Z; it has 10m0s for that":                                                                         starting(core.Suspect, noon),
		"no node has joined since an unknown time; it has 10m0s for that":                                                                              starting(core.Suspect, time.Time{}),
		"no node has joined since 2026-08-03T12:00:00Z, past the node startup timeout of 10m0s":                                                        starting(core.Unhealthy, noon),
		"no node has joined yet; the node startup timeout is disabled, so it may take any time":                                                        {Health: core.Suspect, Reason: core.NodeStartupTimeout},
		"the node that the machine refers to no longer exists":                                                                                         {Reason: core.NodeNotFound},
		"the node that the machine refers to has not been seen, and its absence is not confirmed yet":                                                  {Reason: core.NodeUnconfirmed},
		"node condition Ready=Unknown since 2026-08-03T12:00:00Z; it is unhealthy after 5m0s":                                                          met(core.Suspect, c, noon),
		"node condition Ready=Unknown since 2026-08-03T12:00:00Z, past the 5m0s limit":                                                                 met(core.Unhealthy, c, noon),
		"node condition Ready=Unknown since an unknown time, past the 5m0s limit":                                                                      met(core.Unhealthy, c, time.Time{}),
		"node condition Ready is Unknown but carries no lastTransitionTime, so it is not known for how long":                                           {Reason: core.ConditionUntimed, Criterion: c},
		"it is marked for an external remediator, which has not finished":                                                                              {Reason: core.ExternalRemediation},
		"node condition AgentReady has been missing since 2026-08-03T12:00:00Z; it is unhealthy after 5m0s":                                            together(core.Suspect, noon, muteText),
		"node condition AgentReady has been missing since 2026-08-03T12:00:00Z, past the 5m0s limit":                                                   together(core.Unhealthy, noon, muteText),
		"node condition AgentReady has been missing; it is unhealthy 5m0s after the controller first found that":                                       together(core.Suspect, time.Time{}, muteText),
		"the node that the machine refers to no longer exists; a live read found that at 2026-08-03T12:00:00Z, and it is unhealthy after 5m0s":         absent(core.Suspect, noon),
		"the node that the machine refers to no longer exists; a live read found that at 2026-08-03T12:00:00Z, and the delay of 5m0s has passed since": absent(core.Unhealthy, noon),
		"the node that the machine refers to no longer exists; it is unhealthy 5m0s after the controller first found that":                             absent(core.Suspect, time.Time{}),
		"not judged": {},
	}
	for want, v := range cases {
		if diff := cmp.Diff(want, v.Text()); diff != "" {
			t.Errorf("%v %v (-want +got):\n%s", v.Health, v.Reason, diff)
		}
	}
}

// absent is the verdict on a machine whose node is gone, with a delay.
func absent(h core.Health, since time.Time) core.Verdict {
	return core.Verdict{Health: h, Reason: core.NodeNotFound, Since: since, Limit: patience}
}

// TestEveryGateSpeaks: each refusal is a sentence that says more than the name of its gate.
func TestEveryGateSpeaks(t *testing.T) {
	seen := map[string]bool{}
	for g := core.PolicyInvalid; g <= core.ClockUnknown; g++ {
		text := core.Refusal{Gate: g, Detail: "detail"}.Text()
		if len(strings.Fields(text)) < 6 || seen[text] || strings.Contains(text, "%!") {
			t.Errorf("%v says %q", g, text)
		}
		if g.String() == "Unnamed" || g.String() == "" {
			t.Errorf("gate %d has no name", g)
		}
		seen[text] = true
	}
}

// TestWhyUpgradesAreWaitedFor: a refusal repeats by what an upgrade is known, or why it is not.
func TestWhyUpgradesAreWaitedFor(t *testing.T) {
	for want, r := range map[string]core.Refusal{
		"the cluster is being upgraded; repairs go on when that is done":                                                                     {Fact: core.Yes},
		"the cluster is being upgraded: it says so; repairs go on when that is done":                                                         {Fact: core.Yes, Why: "it says so"},
		"it is not known yet whether the cluster is being upgraded":                                                                          {Fact: core.Unknown},
		"it is not known whether the cluster is being upgraded: it says nothing; repairs go on when it is known that it is not; do not wait": {Advice: "do not wait", Fact: core.Unknown, Why: "it says nothing"},
	} {
		r.Gate = core.ClusterUpgrading
		if got := r.Text(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestRefusalsCount: sentences about one failure and about several, of a pool and of a target itself.
func TestRefusalsCount(t *testing.T) {
	const look, mend = "so the next repair in this pool waits; look at why ", "; find out why and mend that"
	for want, r := range map[string]core.Refusal{
		"the replacement of a repaired one has failed too, " + look + "it fails":                                {Gate: core.BackingOff, Have: 1},
		"2 replacements in a row have failed, " + look + "they fail":                                            {Gate: core.BackingOff, Have: 2},
		"it has failed again within an hour of its last repair, so its next repair waits; look at why it fails": {Gate: core.BackingOff, Have: 1, Relapsed: true},
		"its last 2 repairs have not lasted an hour, so its next repair waits; look at why it fails":            {Gate: core.BackingOff, Have: 2, Relapsed: true},
		"the replacement of a repaired one has failed too, so this pool is given up" + mend:                     {Gate: core.PoolGivenUp, Have: 1},
		"2 replacements in a row have failed, so this pool is given up" + mend:                                  {Gate: core.PoolGivenUp, Have: 2},
		"its last repair has not lasted an hour, so it is given up" + mend:                                      {Gate: core.PoolGivenUp, Have: 1, Relapsed: true},
		"its last 2 repairs have not lasted an hour, so it is given up" + mend:                                  {Gate: core.PoolGivenUp, Have: 2, Relapsed: true},
		"the call of the remedy was refused; it is tried again after a pause":                                   {Gate: core.AttemptPause, Have: 1},
		"the last 2 calls of the remedy were refused; it is tried again after a pause":                          {Gate: core.AttemptPause, Have: 2},
		"its node is being upgraded; repairs go on when that is done":                                           {Gate: core.TargetUpgrading, Why: "it says so"},
		"1 of 9 are not healthy and repairs go on only from 2 to 4, as the health check's range says":           {Gate: core.TooManyUnhealthy, Have: 1, Min: 2, Max: 4, Total: 9},
		"2 of 9 are not healthy and repairs go on only up to 1: a fault this wide is likelier in what they share than" +
			" in each of them; repairs resume when enough are healthy again": {Gate: core.TooManyUnhealthy, Have: 2, Min: 2, Max: 1, Total: 9},
	} {
		if got := r.Text(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestNames(t *testing.T) {
	names := map[string][]string{
		"Health":       {core.Healthy.String(), core.Suspect.String(), core.Unhealthy.String(), core.Undetermined.String(), core.Gone.String(), core.Health(0).String()},
		"Outcome":      {core.Succeeded.String(), core.Recovered.String(), core.Withdrawn.String(), core.Outcome(0).String()},
		"Tri":          {core.Unknown.String(), core.No.String(), core.Yes.String()},
		"NodeState":    {core.NodeUnseen.String(), core.NodeAwaited.String(), core.NodePresent.String(), core.NodeGone.String()},
		"RemedyResult": {core.Accepted.String(), core.Vanished.String(), core.Stale.String(), core.Busy.String(), core.RemedyResult(0).String()},
		"Gate":         {core.Gate(0).String(), core.Gate(-1).String(), core.Gate(99).String(), (core.ClockUnknown + 1).String(), core.NoOwner.String()},
		"Reason":       {core.Reason(0).String(), core.Reason(-1).String(), core.Reason(99).String(), core.TargetFailed.String()},
		"EventKind":    {core.EventKind(0).String(), core.EventSuspected.String(), core.EventShortCircuited.String(), core.EventMisconfigured.String(), core.EventHeldBack.String(), core.EventStarted.String(), core.EventRefused.String(), core.EventDryRun.String()},
		"Amount":       {core.Count(3).String(), core.Percent(40).String(), core.Unlimited().String()},
		"ID":           {core.ID{Kind: "Machine", Namespace: "n", Name: "m", UID: "u"}.String(), core.ID{Kind: "Node", Name: "m"}.String()},
		"texts":        {core.Refusal{}.Text(), core.Refusal{Gate: 99}.Text()},
	}
	want := map[string][]string{
		"Health":       {"healthy", "suspect", "unhealthy", "unknown", "gone", "unjudged"},
		"Outcome":      {"Succeeded", "Recovered", "Withdrawn", "Running"},
		"Tri":          {"unknown", "no", "yes"},
		"NodeState":    {"unseen", "awaited", "present", "gone"},
		"RemedyResult": {"accepted", "vanished", "stale", "busy", "failed"},
		"Gate":         {"Unnamed", "Unnamed", "Unnamed", "Unnamed", "NoOwner"},
		"Reason":       {"Unjudged", "Unjudged", "Unjudged", "Failed"},
		"EventKind":    {"unnamed", "suspected", "restricted", "misconfigured", "held", "begun", "refused", "dry run"},
		"Amount":       {"3", "40%", "unlimited"},
		"ID":           {"Machine n/m", "Node m"},
		"texts":        {"refused", "refused"},
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestAdvice: a refusal says what a user does about it in the words of the policy, and nothing where the policy has none.
func TestAdvice(t *testing.T) {
	for want, r := range map[string]core.Refusal{
		"the health check is paused; do this": {Gate: core.PolicyPaused},
		"under repair already and at most 0 may be at a time; it follows when one of them has ended (do this)": {Gate: core.InFlightLimit},
		"its node is excluded from repairs; do this":                                                           {Gate: core.Excluded},
		"or let Fettle read what it needs; do this":                                                            {Gate: core.QuorumUnknown},
		"repairs go on when it is known that it is not; do this":                                               {Gate: core.ClusterUpgrading, Why: "it says nothing"},
		"find out why and mend that, then do this":                                                             {Gate: core.PoolGivenUp},
	} {
		without := r.Text()
		r.Advice = "do this"
		with := r.Text()
		if !strings.HasSuffix(with, want) || len(without) >= len(with) || !strings.HasPrefix(with, without) {
			t.Errorf("%s says %q, and %q without advice", r.Gate, with, without)
		}
	}
}
