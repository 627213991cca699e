package workload

import (
	"context"
	"errors"
	"time"
)

// listTurns lets a bounded number of clusters list at a time, since a list takes memory while it is read. Clusters
// that need more than a short turn take turns among themselves. The others never wait for them.
type listTurns struct {
	prompt, slow chan struct{}
	// promptTurn and slowTurn are the lengths of the turns, and most bounds all turns of a list.
	promptTurn, slowTurn, most time.Duration
}

func newListTurns() *listTurns {
	return &listTurns{
		prompt: make(chan struct{}, promptLists), slow: make(chan struct{}, slowLists),
		promptTurn: promptTurn, slowTurn: slowTurn, most: turnsTime,
	}
}

// errTurnOver ends the context of a turn.
var errTurnOver = errors.New("the turn is over")

// listFunc goes on with a list, and reports whether it has read a page.
type listFunc = func(ctx context.Context) (bool, error)

// run waits for a turn and calls do with a context that ends with the turn. A list that is not done then goes to
// the end of the queue for slow turns: run calls waits, and later do again. A list that reads no page in a slow
// turn has failed.
func (t *listTurns) run(ctx context.Context, tardy bool, do listFunc, waits func()) error {
	for used := time.Duration(0); used < t.most; {
		places, lasts := t.prompt, t.promptTurn
		if tardy {
			places, lasts = t.slow, t.slowTurn
		}
		turn, err := runTurn(ctx, places, lasts, do)
		switch {
		case !turn.over:
			return err
		case tardy && !turn.got:
			return errTurns
		}
		used, tardy = used+lasts, true
		waits()
	}
	return errTurns
}

// turn says whether do has read a page, and whether the turn ended before do did.
type turn struct{ got, over bool }

// runTurn waits for a place in the queue, and calls do with a context that ends with the turn.
func runTurn(ctx context.Context, places chan struct{}, lasts time.Duration, do listFunc) (turn, error) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return turn{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lasts, errTurnOver)
	defer cancel()
	got, err := do(ctx)
	return turn{got, err != nil && errors.Is(context.Cause(ctx), errTurnOver)}, err
}
