package capi

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestI1PausedClusterStopsItsHealthChecks: a user pauses a Cluster in an emergency, and the watch may not show that
// yet. No policy of it is confirmed unless the API server shows that the Cluster is not paused.
func TestI1PausedClusterStopsItsHealthChecks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *harness, cluster *unstructured.Unstructured)
		stands bool
		fails  string
	}{
		"as it was":        {func(*harness, *unstructured.Unstructured) {}, true, ""},
		"not paused":       {func(_ *harness, u *unstructured.Unstructured) { setPaused(u, false) }, true, ""},
		"paused":           {func(_ *harness, u *unstructured.Unstructured) { setPaused(u, true) }, false, ""},
		"paused by a word": {func(_ *harness, u *unstructured.Unstructured) { setPaused(u, "yes") }, false, ""},
		"gone":             {func(s *harness, u *unstructured.Unstructured) { delete(s.objects, keyOf(u)) }, false, ""},
		"not readable": {func(s *harness, u *unstructured.Unstructured) {
			s.unread = map[string]error{keyOf(u): errDown}
		}, false, "getting Cluster clusters/blue: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := settle(t)
			p := s.observe().Policies[0]
			c.change(s, s.objects[keyOf(theCluster(t))])
			found, err := s.dialect.ReadPolicy(t.Context(), p.ID)
			if (found == p.Fingerprint) != c.stands || (err != nil) != (c.fails != "") || (err != nil && !strings.HasPrefix(err.Error(), c.fails)) {
				t.Errorf("it reads %q, %v; it was %q", found, err, p.Fingerprint)
			}
		})
	}
}

func setPaused(u *unstructured.Unstructured, paused any) {
	_ = unstructured.SetNestedField(u.Object, paused, "spec", "paused")
}
