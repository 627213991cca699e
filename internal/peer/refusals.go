package peer

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Cause is why a server has refused a question or a connection.
type Cause string

// Causes.
const (
	// NoQuestion: a connection has ended before its other side had shown that it is an agent, or had asked anything.
	NoQuestion Cause = "NoQuestion"
	// BadCertificate: the certificate is not one of an agent, or not of an authority that this agent trusts.
	BadCertificate Cause = "BadCertificate"
	// TooManyConnections: there was no room for a connection.
	TooManyConnections Cause = "TooManyConnections"
	// TooManyQuestions: the node, or all nodes, ask too many questions at a time.
	TooManyQuestions Cause = "TooManyQuestions"
	// UnknownQuestion: the server answers no such question.
	UnknownQuestion Cause = "UnknownQuestion"
	// LongQuestion: the question is too long.
	LongQuestion Cause = "LongQuestion"
	// NotAnswered: the handler of the question has failed, mostly since it can't be read.
	NotAnswered Cause = "NotAnswered"
)

// Refusal says how often a server has refused something of the same other side for the same cause.
type Refusal struct {
	Cause Cause
	// Node is that of the other side. It is empty if that has not proven to be an agent, or if nodes have become too many to tell them apart.
	Node string
	// From is the address of another side that has not proven to be an agent. It is zero if these have become too many.
	From netip.Addr
	// Times is how often that has happened since it was told last.
	Times int
	// Err is why the last question was not answered. It is nil for other causes than NotAnswered.
	Err error
}

// Bounds of what is told.
const (
	// tellEvery is how often the same thing is told.
	tellEvery = 10 * time.Minute
	// maxTold is how many others are told apart.
	maxTold = 64
)

// other is another side, with a cause.
type other struct {
	cause Cause
	node  string
	from  netip.Addr
}

// refusals tell of each other side and cause at once, and of more of the same later, as a number. So others can't flood a log.
type refusals struct {
	tell func(Refusal)

	mu sync.Mutex
	// since has what has happened since it was told last.
	since map[other]Refusal
}

// note notes a refusal.
func (r *refusals) note(of other, err error) {
	if first, is := r.count(of, err); is {
		r.tell(first)
	}
}

// count counts a refusal. It returns the first one of its kind, which is to be told at once.
func (r *refusals) count(of other, err error) (Refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, known := r.since[of]
	if !known && len(r.since) >= maxTold {
		of.node, of.from = "", netip.Addr{}
		seen, known = r.since[of]
	}
	if r.since == nil {
		r.since = map[other]Refusal{}
	}
	if !known {
		r.since[of] = Refusal{Cause: of.cause, Node: of.node, From: of.from}
		return Refusal{of.cause, of.node, of.from, 1, err}, true
	}
	seen.Times, seen.Err = seen.Times+1, err
	r.since[of] = seen
	return Refusal{}, false
}

// run looks now and then for what has happened again, until the context ends.
func (r *refusals) run(ctx context.Context) {
	every := time.NewTicker(tellEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		for _, again := range r.turn() {
			r.tell(again)
		}
	}
}

// turn returns what has happened since it was told last, and forgets what has not.
func (r *refusals) turn() []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Refusal
	for of, seen := range r.since {
		if seen.Times == 0 {
			delete(r.since, of)
			continue
		}
		all = append(all, seen)
		r.since[of] = Refusal{Cause: of.cause, Node: of.node, From: of.from}
	}
	return all
}

// stranger returns the other side of a connection that has not proven to be an agent.
func stranger(c interface{ RemoteAddr() net.Addr }, cause Cause) other {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return other{cause: cause}
	}
	return other{cause: cause, from: at.Addr().Unmap().WithZone("")}
}
