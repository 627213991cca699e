package capi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestI14NodeOfTwoMachinesJudgesNeither: a kubelet that reports the provider ID of another machine makes that machine
// refer to its node. The health of the node must not start a repair of either machine.
func TestI14NodeOfTwoMachinesJudgesNeither(t *testing.T) {
	const stolen, leaving = `status: {nodeRef: {name: a-node}}`, `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`
	s := settle(t)
	wants := func(sentence string, want map[string]bool) {
		t.Helper()
		got := map[string]bool{}
		for _, target := range s.observe().Targets {
			got[target.ID.Name] = target.Problem != ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: what is not judged is (-want +got):\n%s", sentence, diff)
		}
	}
	wants("each has a node of its own", map[string]bool{"a": false, "b": false, "c": false})
	s.show(aMachine(t, "b", stolen, `metadata: {resourceVersion: "8"}`))
	wants("one refers to the node of another", map[string]bool{"a": true, "b": true, "c": false})
	s.show(aMachine(t, "b", stolen, leaving, `metadata: {resourceVersion: "9"}`))
	wants("one is being deleted, as a host makes way for its next machine", map[string]bool{"a": false, "b": false, "c": false})
	s.show(aMachine(t, "b", stolen, `metadata: {resourceVersion: "10", uid: next}`))
	wants("another of its name refers to it", map[string]bool{"a": true, "b": true, "c": false})
	s.show(aMachine(t, "c", stolen, leaving, `metadata: {resourceVersion: "9"}`))
	wants("a third one does and is being deleted, which is judged by that", map[string]bool{"a": true, "b": true, "c": false})
	s.in.Of("Machine").Hide("clusters/b")
	wants("one is gone", map[string]bool{"a": false, "c": false})
}
