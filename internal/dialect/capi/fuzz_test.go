package capi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// FuzzReadHealthCheck: a health check that the definition accepts is either followed, with settings within bounds, or
// has a problem and starts no repair. Reviewing it never panics, nor does making a status from its own.
func FuzzReadHealthCheck(f *testing.F) {
	for _, seed := range [][3]string{
		{`{}`, `{}`, "25%"}, {`null`, `null`, "unlimited"}, {`[]`, `"x"`, "1h"}, {`{"clusterName":7}`, `{"conditions":7}`, "true"},
		{`{"clusterName":"blue","selector":{"matchLabels":{"role":"worker"}},"remediation":{"triggerIf":{"unhealthyInRange":"[1-99999]"}}}`, `{"deprecated":{"v1beta1":{"conditions":[{"type":"RemediationAllowed"}]}}}`, "0"},
		{`{"clusterName":"blue","selector":{"matchLabels":{"role":"worker"}},"checks":{"unhealthyMachineConditions":[{"type":"A","status":"True","timeoutSeconds":2147483647}]}}`, `{"conditions":[{"type":"RemediationAllowed","status":"False"}]}`, "2562047h"},
		{`{"remediation":{"templateRef":{"kind":"Template","name":"/","apiVersion":"///"}}}`, `{"targets":[""],"expectedMachines":-1}`, "-1s"},
		{`{"unhealthyConditions":[{"type":"Ready","timeout":"5m"}],"maxUnhealthy":"x"}`, `{}`, ""},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), seed[2])
	}
	f.Fuzz(func(t *testing.T, spec, status []byte, word string) {
		for _, annotation := range []string{"", annotation.MaxInFlight, annotation.DryRun, annotation.StormCooldown, annotation.BackoffBase, annotation.BackoffLimit, annotation.WaitForUpgrades, annotation.UnhealthyConditions, annotation.NodeGoneDelay, clusterv1.PausedAnnotation} {
			u := &unstructured.Unstructured{Object: map[string]any{"kind": "MachineHealthCheck", "apiVersion": "cluster.x-k8s.io/v1beta2"}}
			for field, text := range map[string][]byte{"spec": spec, "status": status} {
				var value any
				if json.Unmarshal(text, &value) != nil {
					return
				}
				u.Object[field] = value
			}
			u.SetName("check")
			u.SetNamespace("clusters")
			u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "blue"})
			if annotation != "" {
				u.SetAnnotations(map[string]string{annotation: word})
			}
			h := readHealthCheck(u)
			wantReportedOrSane(t, h)
			wantNothingRepairedWithAProblem(t, h)
			fresh, _ := statusOf(h, statusInput{report: core.PolicyReport{Policy: h.policy}, now: noon})
			(&blockage{reason: "R", message: "m"}).statusOf(h, noon)
			if _, err := json.Marshal(fresh); err != nil {
				t.Errorf("its status can't be written: %v", err)
			}
			Review(u)
			u.SetAPIVersion("cluster.x-k8s.io/v1beta1")
			Review(u)
		}
	})
}

func wantReportedOrSane(t *testing.T, h *healthCheck) {
	t.Helper()
	p := h.policy
	if len(p.Problem) > specparse.MaxProblems+len("…") || strings.Contains(p.Problem, "\n") || !utf8.ValidString(p.Problem) {
		t.Errorf("the problem can't be told: %q", p.Problem)
	}
	if p.Problem != "" {
		return
	}
	limits := &p.ShortCircuit
	sane := p.Criteria.NodeStartup >= 0 && p.StormCooldown >= 0 && p.Backoff.Base > 0 && p.Backoff.Base <= p.Backoff.Limit && p.MaxInFlight.Number >= 0 &&
		(!limits.MaxUnhealthy.Percent || limits.MaxUnhealthy.Number <= 100) && (limits.Range == nil || limits.Range.From <= limits.Range.To) && h.cluster != ""
	for _, c := range append(p.Criteria.Conditions, p.Criteria.TargetConditions...) {
		sane = sane && c.Type != "" && c.Status != "" && c.For >= 0
	}
	if !sane {
		t.Errorf("followed although it makes no sense: %+v", p)
	}
}

func wantNothingRepairedWithAProblem(t *testing.T, h *healthCheck) {
	t.Helper()
	p := h.policy
	p.Members = []int{0}
	failed := core.Target{ID: core.ID{Kind: "Machine", Name: "m", UID: "u"}, Owner: core.ID{UID: "o"}, Failed: true, Node: core.Node{State: core.NodeAwaited}}
	now := noon.Add(time.Hour)
	d := core.Decide([]core.Policy{p}, core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: []core.Target{failed}}, now)
	if p.Problem != "" && len(d.Starts) > 0 {
		t.Errorf("%q, and yet something is repaired", p.Problem)
	}
	if !d.NextAt.IsZero() && !d.NextAt.After(now) {
		t.Errorf("it wakes at %s, which is no later than now", d.NextAt)
	}
}
