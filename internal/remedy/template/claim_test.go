package template

import (
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestWhoseARequestIs that exists already under the name that an order gives.
func TestWhoseARequestIs(t *testing.T) {
	mine := strings.Replace(owned, "name: w-12345", "name: w", 1)
	instead := func(text, old, fresh string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not there to be replaced", old)
		}
		return strings.Replace(text, old, fresh, 1)
	}
	leaving := func(text string) string {
		return instead(text, "metadata:\n", "metadata:\n  deletionTimestamp: \"2026-08-03T13:00:00Z\"\n")
	}
	cases := map[string]struct {
		object string
		order  core.Order
		want   core.Beginning
		says   []string
	}{
		"just this one":                   {mine, nodeOrder(), core.Accepted, nil},
		"a health check made again":       {instead(mine, "check-uid", "earlier"), nodeOrder(), core.Accepted, nil},
		"one that was told to stop":       {instead(mine, "annotations: {", "annotations: {remediation.medik8s.io/nhc-timed-out: now, "), nodeOrder(), core.Accepted, nil},
		"one on its way out":              {leaving(mine), nodeOrder(), core.Stale, nil},
		"from before templates had names": {instead(mine, ", remediation.medik8s.io/template-name: t", ""), nodeOrder(), core.Accepted, nil},
		"a deleted health check's, made again": {
			instead(instead(mine, "annotations: {", "annotations: {fettle.io/node-health-check: check, "), "medik8s.io/v1alpha1", "example/v1"),
			nodeOrder(), core.Accepted, nil,
		},
		"another health check's":          {instead(mine, "name: check,", "name: other,"), nodeOrder(), 0, []string{"X remediators/w", "belongs to NodeHealthCheck other", "nothing is done for Node w", "delete it"}},
		"a person's":                      {"{apiVersion: x.example/v1, kind: X, metadata: {name: w, namespace: remediators}}", nodeOrder(), 0, []string{"has no owner"}},
		"another health check's, leaving": {leaving(instead(mine, "name: check,", "name: other,")), nodeOrder(), 0, []string{"NodeHealthCheck other"}},
		"from another template":           {instead(mine, "template-name: t", "template-name: u"), nodeOrder(), 0, []string{"made from template u"}},
		"about another node":              {instead(mine, "node-name: w", "node-name: v"), nodeOrder(), 0, []string{"about node v"}},
		"about an earlier node":           {instead(mine, "w-uid", "earlier"), nodeOrder(), 0, []string{"an earlier node of that name"}},
		"a machine's own":                 {cloned, machineOrder(), core.Accepted, nil},
		"a machine's, on its way out":     {leaving(cloned), machineOrder(), core.Stale, nil},
		"an earlier machine's":            {instead(cloned, "m-uid", "earlier"), machineOrder(), 0, []string{"belongs to Machine m", "nothing is done for Machine machines/m"}},
		"a machine's by another template": {instead(cloned, "name: t}", "name: u}"), machineOrder(), 0, []string{"made from template u"}},
		"a machine's by no template":      {instead(cloned, "cloned-from-name", "another"), machineOrder(), 0, []string{"does not say which template"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, err := compare(parse(t, tc.object), tc.order, "t")
			if got != tc.want || (err != nil) != (tc.says != nil) {
				t.Fatalf("the answer is %s, %v", got, err)
			}
			for _, words := range tc.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("the message does not say %q: %v", words, err)
				}
			}
		})
	}
}
