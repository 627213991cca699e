package peer

import "time"

// DefaultPort is where agents listen, on the network of their nodes.
const DefaultPort = 9643

// Bounds of bytes.
const (
	// MaxBody bounds a question and an answer.
	MaxBody   = 64 << 10
	maxHeader = 4 << 10
)

// Bounds of connections to a server.
const (
	// maxFresh bounds connections that have not asked a question yet.
	maxFresh = 128
	// maxKnown bounds the others.
	maxKnown = 512
	// maxOfNode bounds the connections of one node.
	maxOfNode = 4
)

// Bounds of times.
const (
	// AnswerTime bounds a question with its answer, on both sides.
	AnswerTime = 5 * time.Second
	// helloTime bounds a handshake, and the header of a question.
	helloTime = 3 * time.Second
	// idleTime bounds how long a connection stays open without a question. A client closes it earlier than the server.
	idleTime       = 30 * time.Second
	clientIdleTime = 20 * time.Second
	keepAlive      = 10 * time.Second
)
