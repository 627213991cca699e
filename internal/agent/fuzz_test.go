package agent_test

import (
	"bytes"
	"testing"

	"github.com/fettle-io/fettle/internal/agent"
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
