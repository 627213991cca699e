package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fettle-io/fettle/internal/selffence"
)

// State is what outlives the process of an agent, but not the boot.
type State struct {
	// Boot is the boot ID. The state of another boot is void.
	Boot string `json:"boot"`
	// Condemned is set once the agent has learnt that this boot is condemned.
	Condemned bool `json:"condemned"`
	// Creates is set while a request to create the Lease got no answer. It may still be carried out.
	Creates bool `json:"creates"`
	// Settings were used last. They let an agent go on without the API server.
	Settings Settings `json:"settings"`
	// Agent is the state of the agent in the protocol.
	Agent selffence.AgentState `json:"memory"`
}

// Bounds of a stored state.
const (
	maxState = 8 << 10
	maxName  = 253
)

var errState = errors.New("the stored state is not one of this program")

// binds reports whether a later process has to keep to a state.
func (s State) binds() bool { return s.Condemned || s.Creates || s.Agent.Bound }

// encode returns the text of a state.
func (s State) encode() ([]byte, error) {
	if !s.valid() {
		return nil, errState
	}
	text, err := json.Marshal(s) //nolint:musttag // only this program reads it, and of another version it is lost
	if err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	return append(text, '\n'), nil
}

// decodeState returns the state of a text. Each state has one text, and any other one is an error.
func decodeState(text []byte) (State, error) {
	if len(text) > maxState {
		return State{}, errState
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil { //nolint:musttag // see encode
		return State{}, fmt.Errorf("decoding the state: %w", err)
	}
	if again, err := s.encode(); err != nil || !bytes.Equal(again, text) {
		return State{}, errState
	}
	return s, nil
}

// valid reports whether an agent stores such a state.
func (s State) valid() bool {
	if s.Boot == "" || len(s.Boot) > maxName || s.Settings != (Settings{}) && !s.Settings.Valid() {
		return false
	}
	m := s.Agent
	if !m.Bound {
		return m == selffence.AgentState{}
	}
	return validPromise(m.Stated, s.Boot) && validPromise(m.Sent, s.Boot) && m.Sent.Boot != ""
}

// validPromise reports whether a promise of this boot may have been stated. There may be none yet.
func validPromise(p selffence.Promise, boot string) bool {
	if p == (selffence.Promise{}) {
		return true
	}
	for _, name := range p.Witnesses {
		if len(name) > maxName {
			return false
		}
	}
	return p.Boot == boot && (!p.Timed || p.Times.Valid()) && p.Times.Validity >= 0 && p.Times.Watchdog >= 0
}
