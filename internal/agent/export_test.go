package agent

// Decode returns the state of a text.
func Decode(text []byte) (State, error) { return decodeState(text) }

// Encode returns the text of a state.
func Encode(s State) ([]byte, error) { return s.encode() }
