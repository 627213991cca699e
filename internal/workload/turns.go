package workload

import (
	"context"
	"errors"
	"time"
)

// listTurns let a bounded number of clusters list at a time, since a list is held in memory as it travels. Clusters that need
// more than a short turn take turns in places of their own, so that others never wait for them.
type listTurns struct {
	prompt, slow chan struct{}
	// promptTurn and slowTurn are how long a turn in each lasts, and most is for all turns of a list.
	promptTurn, slowTurn, most time.Duration
}

func newListTurns() *listTurns {
	return &listTurns{
		prompt: make(chan struct{}, promptLists), slow: make(chan struct{}, slowLists),
		promptTurn: promptTurn, slowTurn: slowTurn, most: turnsTime,
	}
}

// errTurnOver is the cause of the context of a turn that is over.
var errTurnOver = errors.New("the turn is over")

// listFunc is a list that is under way. It goes on where it was when it is called again, and reports whether it got on.
type listFunc = func(ctx context.Context) (bool, error)

// run waits for a turn and calls do with a context that ends with it. A list that is not done by then goes behind all that
// wait for a slow turn, calls waits, and do is called again. A list that does not get on in a whole slow turn has failed.
func (t *listTurns) run(ctx context.Context, tardy bool, do listFunc, waits func()) error {
	for used := time.Duration(0); used < t.most; {
		places, lasts := t.prompt, t.promptTurn
		if tardy {
			places, lasts = t.slow, t.slowTurn
		}
		got, over, err := runTurn(ctx, places, lasts, do)
		switch {
		case !over:
			return err
		case tardy && !got:
			return errTurns
		}
		used, tardy = used+lasts, true
		waits()
	}
	return errTurns
}

// runTurn waits for a place, in the order in which clusters came. It reports whether do got on, and whether the turn was over
// before do was.
func runTurn(ctx context.Context, places chan struct{}, lasts time.Duration, do listFunc) (got, over bool, err error) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lasts, errTurnOver)
	defer cancel()
	got, err = do(ctx)
	return got, err != nil && errors.Is(context.Cause(ctx), errTurnOver), err
}
