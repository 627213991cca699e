package peer

// Reason is why a question got no answer.
type Reason string

// Reasons.
const (
	// NoIdentity: this agent has no certificate.
	NoIdentity Reason = "NoIdentity"
	// NoAddress: the address of the other agent is not known.
	NoAddress Reason = "NoAddress"
	// Unreachable: no connection was made, or it broke.
	Unreachable Reason = "Unreachable"
	// NotVerified: one of both sides does not accept the certificate of the other.
	NotVerified Reason = "NotVerified"
	// Busy: the other agent answers too many questions already.
	Busy Reason = "Busy"
	// Refused: the other agent doesn't answer this question.
	Refused Reason = "Refused"
	// TooLong: the question or the answer is too long.
	TooLong Reason = "TooLong"
)

// Error says why a question got no answer. Its text has nothing of the other side.
type Error struct {
	Reason Reason
	// Err is what went wrong, or nil. It is not in the text.
	Err error
}

func (e *Error) Error() string {
	switch e.Reason {
	case NoIdentity:
		return "this agent has no certificate yet, so it can't ask other agents"
	case NoAddress:
		return "the address of the other agent is not known"
	case Unreachable:
		return "the other agent can't be reached, or has not answered in time"
	case NotVerified:
		return "one of both agents does not accept the certificate of the other"
	case Busy:
		return "the other agent answers too many questions already"
	case Refused:
		return "the other agent does not answer this question"
	case TooLong:
		return "the question or its answer is too long"
	}
	return "the other agent has not answered"
}

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }
