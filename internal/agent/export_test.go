package agent

import (
	"context"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
)

// Decode returns the state of a text.
func Decode(text []byte) (State, error) { return decodeState(text) }

// Encode returns the text of a state.
func Encode(s State) ([]byte, error) { return s.encode() }

// Statable returns a reason as a Lease states it.
func Statable(r Reason) promiselease.NoPromise { return statable(r) }

// Refresh renews a certificate once, if that is due.
func (c *Certificates) Refresh(ctx context.Context) (time.Duration, error) { return c.refresh(ctx) }

// RenewWithin is the time in which agents replace their certificates.
const RenewWithin = renewWithin

// Spread is the moment of a node in that time.
func Spread(node string) time.Duration { return spread(node) }

// Refresh chooses neighbours once.
func (n *Neighbours) Refresh(ctx context.Context) error { return n.refresh(ctx) }

// NoteChange notes one line of a watch.
func NoteChange(line []byte, changed func(string, promiselease.Record, uint64)) error {
	return note(line, changed)
}

// Candidate reports whether the agent of a node may become a witness of a fleet of this many nodes.
func Candidate(node string, count, reviews int) bool { return candidate(node, count, reviews) }

// NewReview returns a function by which an agent with some witnesses, which may be one itself, reads Leases for a review. It returns their revision.
func NewReview(c Config, serves bool, current ...string) func(ctx context.Context, demanded int) (uint64, error) {
	n := newNode(c)
	r := n.newReview()
	r.serves = serves
	return func(ctx context.Context, demanded int) (uint64, error) {
		_, since, err := n.readLeases(ctx, r, current, demanded)
		return since, err
	}
}

// PauseAfter returns the pause after a look, and how many looks have found too few neighbours.
func (n *Neighbours) PauseAfter(few int) (time.Duration, int) { return n.pauseAfter(few) }
