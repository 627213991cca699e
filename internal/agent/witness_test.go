package agent

import (
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

const bootOfA = "0f8fad5b-d9cb-469f-a165-70867728950e"

func promiseOfA(s selffence.State) promiselease.Record {
	return promiselease.Record{Lease: selffence.Lease{State: s, Promise: selffence.Promise{Boot: bootOfA}}}
}

// TestWitnessAnswers: a witness answers about the node that asks, as it has read its Lease last.
func TestWitnessAnswers(t *testing.T) {
	t.Parallel()
	w := NewWitness()
	agrees := func(node, boot string) bool {
		t.Helper()
		text, err := w.Answer(t.Context(), node, []byte(`{"boot":"`+boot+`"}`))
		var a answerTo
		if err != nil || decodeOnly(text, &a) != nil {
			t.Errorf("the answer is %s, %v", text, err)
		}
		return a.Agrees
	}
	w.isAway(true)
	w.changed("a", promiseOfA(selffence.Promised), 8)
	if agrees("a", bootOfA) || w.read() != 0 {
		t.Error("a witness agrees that has not listed the Leases")
	}
	w.listed(map[string]promiselease.Record{"a": promiseOfA(selffence.Promised)}, 9)
	if !agrees("a", bootOfA) || agrees("b", bootOfA) || agrees("a", "another") || w.read() != 9 {
		t.Error("a witness agrees to the boot that it has read of the node that asks, and to no other")
	}
	w.isAway(false)
	if agrees("a", bootOfA) {
		t.Error("a witness agrees that reaches the API server")
	}
	w.isAway(true)
	for _, change := range []promiselease.Record{promiseOfA(selffence.Condemned), promiseOfA(selffence.Withdrawn), {}} {
		w.changed("a", promiseOfA(selffence.Promised), 10)
		w.changed("", promiselease.Record{}, 11)
		if !agrees("a", bootOfA) || w.read() != 11 {
			t.Error("a change of nothing changes an answer")
		}
		w.changed("a", change, 12)
		if agrees("a", bootOfA) {
			t.Errorf("a witness agrees that has read %+v", change)
		}
	}
	w.changed("a", promiseOfA(selffence.Promised), 13)
	w.listed(nil, 5)
	if agrees("a", bootOfA) || w.read() != 5 {
		t.Error("what was read before a list counts")
	}
	w.listed(map[string]promiselease.Record{"a": promiseOfA(selffence.Promised)}, 14)
	w.forgets()
	if agrees("a", bootOfA) || w.read() != 0 {
		t.Error("a witness agrees that has forgotten what it read")
	}
}

func TestNoQuestions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{", "[]", `{"boot":1}`, `{"boot":"a"} {}`, `{"boot":"a","node":"b"}`, `{"boot":"` + strings.Repeat("a", maxQuestion) + `"}`,
	} {
		if got, err := NewWitness().Answer(t.Context(), "a", []byte(text)); err == nil {
			t.Errorf("the answer to %.40q is %s", text, got)
		}
	}
}
