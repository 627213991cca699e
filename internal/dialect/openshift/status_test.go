package openshift

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
)

// report returns the report of a policy with ten members, of which so many are healthy.
func report(healthy int, tally func(*core.Tally), changes ...func(*core.Policy)) core.PolicyReport {
	r := core.PolicyReport{
		Policy: plain(append([]func(*core.Policy){maxUnhealthy(core.Percent(40))}, changes...)...),
		Tally:  core.Tally{Total: 10, Healthy: healthy, MaxUnhealthy: 4, Permitted: healthy >= 6},
	}
	if tally != nil {
		tally(&r.Tally)
	}
	return r
}

// concerned adds concerns: pairs of a name and a text.
func concerned(r core.PolicyReport, texts ...string) core.PolicyReport {
	for i := 0; i < len(texts); i += 2 {
		r.Concerns = append(r.Concerns, core.Concern{Target: core.ID{Name: texts[i]}, Text: texts[i+1]})
	}
	return r
}

func coolingDown(t *core.Tally) { t.CoolingDown, t.ResumeAt = true, noon.Add(5*time.Second) }

func broken(problem string) func(*core.Policy) {
	return func(p *core.Policy) { p.Problem = problem }
}

func TestRemediationAllowed(t *testing.T) {
	stopped := "Repairs are stopped, since more machines are not healthy than maxUnhealthy allows, which points to a fault that they share; " +
		"they resume when enough are healthy again "
	cases := map[string]struct {
		reason  string
		report  core.PolicyReport
		want    v1beta1.Condition
		allowed int32
	}{
		"all healthy": {
			reason: "allowed without a reason, as in today's controller", report: report(10, nil),
			want: v1beta1.Condition{Status: "True"}, allowed: 4,
		},
		"some unhealthy": {
			reason: "the number shows how many more may fail", report: report(7, nil), want: v1beta1.Condition{Status: "True"}, allowed: 1,
		},
		"who is unhealthy": {
			reason: "a description of the health check says what goes on",
			report: concerned(report(7, nil), "a", "is being repaired", "b", "may become unhealthy (UnhealthyCondition)"),
			want: v1beta1.Condition{
				Status:  "True",
				Message: "3 of 10 machines are not healthy: a is being repaired; b may become unhealthy (UnhealthyCondition); and 1 more",
			},
			allowed: 1,
		},
		"a pool that is given up": {
			reason: "other pools go on, and the message has the command",
			report: func() core.PolicyReport {
				r := concerned(report(7, nil), "a", "is unhealthy (Failed) and held back by PoolGivenUp")
				r.GivenUp = []core.ID{{Kind: "MachineSet", Name: "spot"}, {Kind: "MachineSet", Name: "on-demand"}}
				return r
			}(),
			want: v1beta1.Condition{
				Status: "True", Reason: "PoolGivenUp",
				Message: "Given up, since repairs in a row have not helped: spot, on-demand; find out why and mend that, then resume by " +
					"kubectl annotate --overwrite -n machines machinehealthchecks.machine.openshift.io check fettle.io/resumed-at=$(date -u +%FT%TZ) ; " +
					"3 of 10 machines are not healthy: a is unhealthy (Failed) and held back by PoolGivenUp; and 2 more",
			},
			allowed: 1,
		},
		"as many unhealthy as may be": {
			reason: "repairs go on at the limit, though no more may fail, as in today's controller", report: report(6, nil),
			want: v1beta1.Condition{Status: "True"},
		},
		"too many unhealthy": {
			reason: "the message carries the three numbers", report: report(5, nil),
			want: v1beta1.Condition{Status: "False", Reason: "TooManyUnhealthy", Severity: "Warning", Message: stopped + "(total: 10, unhealthy: 5, maxUnhealthy: 40%)"},
		},
		"too many for a number": {
			reason: "maxUnhealthy as it is written", report: report(5, nil, maxUnhealthy(core.Count(4))),
			want: v1beta1.Condition{Status: "False", Reason: "TooManyUnhealthy", Severity: "Warning", Message: stopped + "(total: 10, unhealthy: 5, maxUnhealthy: 4)"},
		},
		"too many for a number below zero": {
			reason: "as it is written, and as it counts", report: report(5, nil, maxUnhealthy(core.Count(-3))),
			want: v1beta1.Condition{Status: "False", Reason: "TooManyUnhealthy", Severity: "Warning", Message: stopped + "(total: 10, unhealthy: 5, maxUnhealthy: -3, which counts as 0)"},
		},
		"too many for none": {
			reason: "0 is as it is written", report: report(5, nil, maxUnhealthy(core.Count(0))),
			want: v1beta1.Condition{Status: "False", Reason: "TooManyUnhealthy", Severity: "Warning", Message: stopped + "(total: 10, unhealthy: 5, maxUnhealthy: 0)"},
		},
		"too many, with a machine that is gone": {
			reason: "what counts and is no machine any more is named", report: report(5, func(t *core.Tally) { t.AwaitingReplacement, t.Waits = 1, "machine m is gone" }),
			want: v1beta1.Condition{
				Status: "False", Reason: "TooManyUnhealthy", Severity: "Warning",
				Message: stopped + "(total: 10, unhealthy: 6, maxUnhealthy: 40%); machine m is gone",
			},
		},
		"just after a storm": {
			reason: "repairs wait for machines that still recover", report: report(7, coolingDown),
			want: v1beta1.Condition{
				Status: "False", Reason: "StormCooldown", Severity: "Info",
				Message: "Repairs were stopped until just now; they resume when no more machines have recovered for a moment (annotation fettle.io/storm-cooldown)",
			},
		},
		"paused": {
			reason: "no user waits for a repair in vain", report: report(10, nil, paused),
			want: v1beta1.Condition{
				Status: "False", Reason: "Paused", Severity: "Info",
				Message: "Nothing is repaired while the annotation cluster.x-k8s.io/paused is set; remove it to go on",
			},
		},
		"paused in a storm": {
			reason: "the pause comes first, since a user set it", report: report(0, nil, paused),
			want: v1beta1.Condition{
				Status: "False", Reason: "Paused", Severity: "Info",
				Message: "Nothing is repaired while the annotation cluster.x-k8s.io/paused is set; remove it to go on",
			},
		},
		"not to be followed": {
			reason: "the problem comes before anything else", report: report(0, nil, paused, broken("spec.maxUnhealthy is wrong")),
			want: v1beta1.Condition{
				Status: "False", Reason: "InvalidSpec", Severity: "Error",
				Message: "Nothing is repaired, since this health check can't be followed: spec.maxUnhealthy is wrong",
			},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, changed := statusOf(v1beta1.MachineHealthCheckStatus{}, tc.report, noon)
			tc.want.Type, tc.want.LastTransitionTime = "RemediationAllowed", metav1.NewTime(noon.UTC())
			total, healthy := tc.report.Tally.Total, tc.report.Tally.Healthy
			want := v1beta1.MachineHealthCheckStatus{
				ExpectedMachines: &total, CurrentHealthy: &healthy, RemediationsAllowed: tc.allowed, Conditions: []v1beta1.Condition{tc.want},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\nstatus (-want +got):\n%s", tc.reason, diff)
			}
			if !changed {
				t.Error("an empty status was taken for this one")
			}
		})
	}
}

func TestManyMachinesFitTheStatus(t *testing.T) {
	r := report(10, func(t *core.Tally) { t.MaxUnhealthy = 1 << 40 })
	got, _ := statusOf(v1beta1.MachineHealthCheckStatus{}, r, noon)
	if got.RemediationsAllowed != 1<<30 {
		t.Errorf("%d repairs are allowed, want %d: the field has 32 bits and its sign must not turn", got.RemediationsAllowed, 1<<30)
	}
}

// TestTransitionTime: only a change of the condition's status renews it.
func TestTransitionTime(t *testing.T) {
	before := metav1.NewTime(ago(time.Hour))
	cases := map[string]struct {
		reason string
		old    v1beta1.Condition
		kept   bool
	}{
		"the same":           {"nothing has happened", v1beta1.Condition{Status: "True"}, true},
		"another status":     {"it went from False to True", v1beta1.Condition{Status: "False"}, false},
		"another reason":     {"the status is the same", v1beta1.Condition{Status: "True", Reason: "X"}, true},
		"another severity":   {"the status is the same", v1beta1.Condition{Status: "True", Severity: "Info"}, true},
		"another message":    {"the status is the same", v1beta1.Condition{Status: "True", Message: "x"}, true},
		"another writer's":   {"ours is new", v1beta1.Condition{Type: "Other", Status: "True"}, false},
		"a time of our zone": {"an instant is an instant", v1beta1.Condition{Status: "True"}, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if tc.old.Type == "" {
				tc.old.Type = "RemediationAllowed"
			}
			tc.old.LastTransitionTime = before
			now := noon.Add(1999 * time.Millisecond)
			got, _ := statusOf(v1beta1.MachineHealthCheckStatus{Conditions: []v1beta1.Condition{tc.old}}, report(10, nil), now)
			want := noon.Add(time.Second) // whole seconds, as the API server stores them
			if tc.kept {
				want = before.Time
			}
			for _, c := range got.Conditions {
				if c.Type == "RemediationAllowed" && !c.LastTransitionTime.Time.Equal(want) {
					t.Errorf("%s, so the transition time is %s, got %s", tc.reason, want, c.LastTransitionTime)
				}
			}
		})
	}
}

// TestConditionWithoutATime: a condition that another program wrote without a transition time gets one.
func TestConditionWithoutATime(t *testing.T) {
	old := []v1beta1.Condition{{Type: "RemediationAllowed", Status: "True"}}
	got, changed := statusOf(v1beta1.MachineHealthCheckStatus{Conditions: old}, report(10, nil), noon)
	if at := got.Conditions[0].LastTransitionTime; !changed || !at.Time.Equal(noon) {
		t.Errorf("the transition time is %s", at)
	}
}

// TestBriefIsACopy: the longer status is not cut with the brief one, and conditions of others stay.
func TestBriefIsACopy(t *testing.T) {
	long := strings.Repeat("it is long ", 1000)
	status := v1beta1.MachineHealthCheckStatus{Conditions: []v1beta1.Condition{{Type: "RemediationAllowed", Message: long}, {Type: "Other", Message: long}}}
	cut := brief(status)
	if status.Conditions[0].Message != long || len(cut.Conditions[0].Message) >= len(long) || cut.Conditions[1].Message != long {
		t.Errorf("of %d bytes remain %d, of the copy %d and %d", len(long), len(status.Conditions[0].Message), len(cut.Conditions[0].Message), len(cut.Conditions[1].Message))
	}
}

// TestConditionsOfOthersStay: conditions of other writers stay as they are, and all are sorted by
// type.
func TestConditionsOfOthersStay(t *testing.T) {
	at := metav1.NewTime(ago(time.Hour))
	z := v1beta1.Condition{Type: "Zoned", Status: "False", Reason: "Z", Severity: "Info", Message: "z", LastTransitionTime: at}
	a := v1beta1.Condition{Type: "Audited", Status: "True", LastTransitionTime: at}
	old := []v1beta1.Condition{z, {Type: "RemediationAllowed", Status: "False"}, a}
	got, _ := statusOf(v1beta1.MachineHealthCheckStatus{Conditions: old}, report(10, nil), noon)
	want := []v1beta1.Condition{a, {Type: "RemediationAllowed", Status: "True", LastTransitionTime: metav1.NewTime(noon.UTC())}, z}
	if diff := cmp.Diff(want, got.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if old[0].Type != "Zoned" || old[1].Status != "False" {
		t.Errorf("the old conditions were changed under their owner: %+v", old)
	}
}

// TestNoChangeNoWrite: an unchanged status is not written again, also after it was stored and read
// back.
func TestNoChangeNoWrite(t *testing.T) {
	for sentence, r := range map[string]core.PolicyReport{
		"allowed": report(9, nil), "stopped": report(2, nil), "cooling": report(9, coolingDown), "paused": report(9, nil, paused),
		"broken": report(9, nil, broken("x")), "empty": {Policy: plain()},
	} {
		t.Run(sentence, func(t *testing.T) {
			written, _ := statusOf(v1beta1.MachineHealthCheckStatus{}, r, noon.Add(300*time.Millisecond))
			u := check(t, "check", "2", `{}`, nil)
			u.Object["status"] = stored(t, written)
			again, changed := statusOf(readHealthCheck(u).status, r, noon.Add(time.Hour))
			if changed {
				t.Errorf("it is written again (-written +again):\n%s", cmp.Diff(written, again))
			}
		})
	}
}

// TestChangedNumbersAreWritten: a change of any number alone is written.
func TestChangedNumbersAreWritten(t *testing.T) {
	written, _ := statusOf(v1beta1.MachineHealthCheckStatus{}, report(9, nil), noon)
	for sentence, change := range map[string]func(*core.Tally){
		"one more machine":         func(t *core.Tally) { t.Total, t.Healthy = 11, 10; t.MaxUnhealthy = 4 },
		"one fewer healthy":        func(t *core.Tally) { t.Healthy = 8 },
		"a larger limit":           func(t *core.Tally) { t.MaxUnhealthy = 5 },
		"too many are not healthy": func(t *core.Tally) { t.Permitted = false },
	} {
		if _, changed := statusOf(written, report(9, change), noon); !changed {
			t.Errorf("%s: the status is not written", sentence)
		}
	}
	for sentence, change := range map[string]func(*core.Tally){
		"what is in flight":          func(t *core.Tally) { t.InFlight, t.MaxInFlight = 1, 1 },
		"an opening long since over": func(t *core.Tally) { t.Cooldown, t.ResumeAt = core.CooldownState{First: noon}, noon },
	} {
		if _, changed := statusOf(written, report(9, change), noon); changed {
			t.Errorf("%s is in no field, yet the status is written", sentence)
		}
	}
}

// stored returns a status as the API server returns it.
func stored(t *testing.T, s v1beta1.MachineHealthCheckStatus) map[string]any {
	t.Helper()
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("encoding the status: %v", err)
	}
	u := manifest(t, `{"apiVersion": "v1", "kind": "x", "status": `+string(body)+`}`)
	status, ok := u.Object["status"].(map[string]any)
	if !ok {
		t.Fatalf("the status is %T", u.Object["status"])
	}
	return status
}

// TestMessagesAreStable: a message names no instant, or the condition would flap.
func TestMessagesAreStable(t *testing.T) {
	for _, r := range []core.PolicyReport{report(2, nil), report(9, coolingDown), report(9, nil, paused), report(9, nil, broken("x"))} {
		if c := remediationAllowed(r); strings.Contains(c.Message, "2026") || c.Message == "" {
			t.Errorf("the message %q must say why, and no time", c.Message)
		}
	}
}
