package agent

import "github.com/fettle-io/fettle/internal/promiselease"

// Decode returns the state of a text.
func Decode(text []byte) (State, error) { return decodeState(text) }

// Encode returns the text of a state.
func Encode(s State) ([]byte, error) { return s.encode() }

// Statable returns a reason as a Lease states it.
func Statable(r Reason) promiselease.NoPromise { return statable(r) }
