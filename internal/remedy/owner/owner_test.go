package owner

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/remedy/conform"
)

// on runs a test against a server that has one machine, and gives what that says afterwards, as lines.
func on(t *testing.T, machineText string, do func(s *conform.Server, c *Client)) []string {
	t.Helper()
	server := conform.NewServer(parse(t, machineText))
	do(server, newClient(t, server))
	u := server.Object(clusterapi.MachineKind, "clusters", "m")
	if u == nil {
		return nil
	}
	var lines []string
	for generation, path := range map[string][]string{"": {"status", "conditions"}, "old": {"status", "deprecated", "v1beta1", "conditions"}} {
		list, _, err := unstructured.NestedSlice(u.Object, path...)
		if err != nil {
			t.Fatalf("reading conditions: %v", err)
		}
		for _, each := range list {
			c, _ := each.(map[string]any)
			words := []string{generation}
			for _, field := range []string{"type", "status", "reason"} {
				if word, has := c[field].(string); has {
					words = append(words, word)
				}
			}
			lines = append(lines, strings.TrimSpace(strings.Join(words, " ")))
		}
	}
	slices.Sort(lines)
	return lines
}

// with adds conditions to the plain machine, and deprecated ones, each as YAML in one line.
func with(current, deprecated string, meta ...string) string {
	text := strings.Replace(plain, "  conditions:\n", "  conditions:\n"+current, 1)
	if deprecated != "" {
		text += "  deprecated: {v1beta1: {conditions: [" + deprecated + "]}}\n"
	}
	return strings.Replace(text, "  generation: 3\n", "  generation: 3\n"+strings.Join(meta, ""), 1)
}

const (
	requestedNow    = "  - {type: OwnerRemediated, status: \"False\", reason: WaitingForRemediation, message: m, lastTransitionTime: \"2026-08-03T11:00:00Z\"}\n"
	requestedBefore = "{type: OwnerRemediated, status: \"False\", reason: WaitingForRemediation, severity: Warning, lastTransitionTime: \"2026-08-03T11:00:00Z\"}"
	deferredNow     = "  - {type: OwnerRemediated, status: \"False\", reason: RemediationDeferred, message: m, lastTransitionTime: \"2026-08-03T11:00:00Z\"}\n"
	deletingNow     = "  - {type: OwnerRemediated, status: \"False\", reason: MachineDeleting, message: m, lastTransitionTime: \"2026-08-03T11:00:00Z\"}\n"
	remediatedOld   = "{type: OwnerRemediated, status: \"True\", lastTransitionTime: \"2026-08-03T11:00:00Z\"}"

	failedNow, failedOld = "HealthCheckSucceeded False UnhealthyNode", "old HealthCheckSucceeded False UnhealthyNode"
	ready                = "Ready True Ready"
)

// TestMarks: the conditions that an order leaves on a machine (docs/reference/cluster-api.md#open-gate).
func TestMarks(t *testing.T) {
	cases := map[string]struct {
		reason, machine string
		change          func(*core.RemedyCall)
		answer          core.RemedyResult
		want            []string
	}{
		"a machine without a request": {
			"both lists say both", plain, nil, core.Accepted,
			[]string{failedNow, "OwnerRemediated False WaitingForRemediation", ready, failedOld, "old OwnerRemediated False WaitingForRemediation"},
		},
		"an owner that has answered": {
			"its answer stays, and the list without a request gets one", with(deferredNow, ""), nil, core.Accepted,
			[]string{failedNow, "OwnerRemediated False RemediationDeferred", ready, failedOld, "old OwnerRemediated False WaitingForRemediation"},
		},
		"an owner that was done": {
			"it requests once more, in the list that says so", with(requestedNow, remediatedOld), nil, core.Accepted,
			[]string{failedNow, "OwnerRemediated False WaitingForRemediation", ready, failedOld, "old OwnerRemediated False WaitingForRemediation"},
		},
		"a machine that has changed": {
			"it is to be judged again", plain, func(o *core.RemedyCall) { o.Target.Revision = "6" }, core.Stale, []string{ready},
		},
		"a namesake": {"another machine was judged", plain, func(o *core.RemedyCall) { o.Target.ID.UID = "another" }, core.Stale, []string{ready}},
		"a machine that was taken out": {
			"its conditions stay as they are", with("", "", "  annotations: {cluster.x-k8s.io/skip-remediation: \"\"}\n"), nil, core.Stale, []string{ready},
		},
		"a machine that leaves": {"it is being replaced", with("", "", "  deletionTimestamp: \"2026-08-03T11:00:00Z\"\n"), nil, core.Stale, []string{ready}},
		"a machine with a part that can't be read": {
			"what its conditions say is not known", with("  - {type: Bad, status: [1]}\n", ""), nil, core.Stale, []string{"Bad", ready},
		},
		"a machine of no known weakness": {"an owner heeds no call without", plain, func(o *core.RemedyCall) { o.Findings = nil }, core.Stale, []string{ready}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := on(t, tc.machine, func(_ *conform.Server, c *Client) {
				o := order()
				if tc.change != nil {
					tc.change(&o)
				}
				if answer, err := c.Start(t.Context(), o); answer != tc.answer || err != nil {
					t.Errorf("%s: it answers %s, %v", tc.reason, answer, err)
				}
			})
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: it says\n  %s", tc.reason, strings.Join(got, "\n  "))
			}
		})
	}
}

// TestMarksAreTakenBack, and no others.
func TestMarksAreTakenBack(t *testing.T) {
	later := strings.Replace(requestedNow, "11:00:00", "11:30:00", 1)
	cases := map[string]struct {
		reason, machine string
		// now is the machine as the server has it, when the cache lags behind.
		now  string
		want []string
	}{
		"what stands":                 {"in both lists", with(requestedNow, requestedBefore), "", []string{ready}},
		"an answer":                   {"the owner has declined", with(deferredNow, ""), "", []string{ready}},
		"the cache lags behind":       {"the machine is read anew", with(requestedNow, requestedBefore), with(requestedNow, requestedBefore+", {type: Ready, status: \"True\"}"), []string{ready, "old Ready True"}},
		"the owner has begun":         {"it can't be spared any more", with(requestedNow, ""), with(deletingNow, ""), []string{"OwnerRemediated False MachineDeleting", ready}},
		"a later call":                {"a later pass has made it", with(requestedNow, ""), with(later, ""), []string{"OwnerRemediated False WaitingForRemediation", ready}},
		"a user has taken it out":     {"its conditions stay as they are", with(requestedNow, ""), with(requestedNow, "", "  annotations: {cluster.x-k8s.io/paused: \"\"}\n"), []string{"OwnerRemediated False WaitingForRemediation", ready}},
		"the machine leaves":          {"it is being replaced", with(requestedNow, "", "  deletionTimestamp: \"2026-08-03T11:00:00Z\"\n"), "", []string{"OwnerRemediated False WaitingForRemediation", ready}},
		"it is a remnant of one list": {"the other list says something else", with(requestedNow, remediatedOld), "", []string{ready, "old OwnerRemediated True"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := on(t, tc.machine, func(s *conform.Server, c *Client) {
				r := requestOn(c.Machine(core.ID{}))
				if tc.now != "" {
					u := parse(t, tc.now)
					u.SetResourceVersion("8")
					s.Put(u)
				}
				if _, err := c.Withdraw(t.Context(), r); err != nil {
					t.Errorf("%s: it fails: %v", tc.reason, err)
				}
			})
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: it says\n  %s", tc.reason, strings.Join(got, "\n  "))
			}
		})
	}
}
