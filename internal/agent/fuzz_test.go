package agent_test

import (
	"bytes"
	"testing"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/promiselease"
)

// FuzzState: a text that can be read is the only one of its state, and each state can be stored again.
func FuzzState(f *testing.F) {
	for _, s := range []agent.State{{}, {Boot: boot}, state()} {
		text, _ := agent.Encode(s)
		f.Add(text)
	}
	f.Add([]byte(`{"boot":"a","boot":"b"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := agent.Decode(text)
		if err != nil {
			if s != (agent.State{}) {
				t.Errorf("a part is read of %q: %+v", text, s)
			}
			return
		}
		if again, err := agent.Encode(s); err != nil || !bytes.Equal(again, text) {
			t.Errorf("%q is read and stored as %q (%v)", text, again, err)
		}
	})
}

// FuzzAnswer: any question is answered without a panic, and without agreement by a witness that has read nothing.
func FuzzAnswer(f *testing.F) {
	f.Add("a", []byte(`{"boot":"0f8fad5b-d9cb-469f-a165-70867728950e"}`))
	f.Add("", []byte(`{"boot":""}`))
	f.Fuzz(func(t *testing.T, node string, body []byte) {
		text, err := agent.NewWitness().Answer(t.Context(), node, body)
		if err == nil && !bytes.Equal(text, []byte(`{"agrees":false}`)) {
			t.Errorf("the answer to %q is %s", body, text)
		}
	})
}

// FuzzChange: any line of a watch is read without a panic. A change has a revision.
func FuzzChange(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}`))
	f.Add([]byte(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		told := 0
		err := agent.NoteChange(line, func(_ string, _ promiselease.Record, revision uint64) {
			told++
			if revision == 0 {
				t.Errorf("%q has no revision", line)
			}
		})
		if (err == nil) != (told == 1) {
			t.Errorf("%q is told %d times, and %v", line, told, err)
		}
	})
}
