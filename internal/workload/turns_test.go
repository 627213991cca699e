package workload

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// brief are turns with one place of each kind, and slow turns that end at once.
func brief() *listTurns {
	return &listTurns{
		prompt: make(chan struct{}, 1), slow: make(chan struct{}, 1),
		promptTurn: time.Millisecond, slowTurn: time.Millisecond, most: 4 * time.Millisecond,
	}
}

func noWaits() {}

// tillTheEnd uses its turn up.
func tillTheEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTurns(t *testing.T) {
	failed := errors.New("failed")
	cases := map[string]struct {
		tardy bool
		// got is what the list reports each time. It is done when there is no more.
		got   []bool
		fails error
		want  error
		times int
	}{
		"it is done at once":                         {times: 1},
		"it fails at once":                           {fails: failed, want: failed, times: 1},
		"it is done in the second turn":              {got: []bool{true}, times: 2},
		"a prompt turn may bring nothing":            {got: []bool{false}, times: 2},
		"a slow turn must bring something":           {got: []bool{false, false}, want: errTurns, times: 2},
		"a tardy list has slow turns alone":          {tardy: true, got: []bool{false}, want: errTurns, times: 1},
		"it has a bound in all":                      {got: []bool{true, true, true, true, true, true}, want: errTurns, times: 4},
		"it goes on as long as the bound in all":     {got: []bool{true, true, true}, times: 4},
		"it fails later, and that is not of a turn ": {got: []bool{true}, fails: failed, want: failed, times: 2},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a turn ends by time alone
				times, waits := 0, 0
				err := brief().run(t.Context(), tc.tardy, func(ctx context.Context) (bool, error) {
					times++
					if times > len(tc.got) {
						return true, tc.fails
					}
					return tc.got[times-1], tillTheEnd(ctx)
				}, func() { waits++ })
				if !errors.Is(err, tc.want) || times != tc.times {
					t.Errorf("after %d turns: %v; want %d turns: %v", times, err, tc.times, tc.want)
				}
				if wantWaits := times - 1; tc.want == nil && waits != wantWaits {
					t.Errorf("it waited %d times, want %d", waits, wantWaits)
				}
			})
		})
	}
}

// TestI15SlowListsDelayNoPromptOne: once all slow places are held for good, a prompt list is served all the same.
func TestI15SlowListsDelayNoPromptOne(t *testing.T) {
	turns := brief()
	turns.slowTurn, turns.most = time.Hour, time.Hour
	ctx, end := context.WithCancel(t.Context())
	var tarrying sync.WaitGroup
	holds := make(chan struct{}, 3)
	for range 3 {
		tarrying.Go(func() {
			_ = turns.run(ctx, false, func(ctx context.Context) (bool, error) { return false, tillTheEnd(ctx) }, func() { holds <- struct{}{} })
		})
	}
	for range 3 {
		<-holds
	}
	served := false
	err := turns.run(ctx, false, func(context.Context) (bool, error) {
		served = true
		return true, nil
	}, noWaits)
	if err != nil || !served {
		t.Errorf("it was served: %t, %v", served, err)
	}
	end()
	tarrying.Wait()
}

// TestTurnsEndWithTheirContext, and a list that is done as its turn ends is done.
func TestTurnsEndWithTheirContext(t *testing.T) {
	turns := brief()
	turns.prompt <- struct{}{}
	ctx, end := context.WithCancel(t.Context())
	end()
	waited := false
	err := turns.run(ctx, false, func(context.Context) (bool, error) { return true, nil }, func() { waited = true })
	if !errors.Is(err, context.Canceled) || waited {
		t.Errorf("a list whose context ends before its turn fails with %v, and waited: %t", err, waited)
	}
	times := 0
	err = brief().run(t.Context(), false, func(ctx context.Context) (bool, error) {
		times++
		_ = tillTheEnd(ctx)
		return true, nil
	}, noWaits)
	if err != nil || times != 1 {
		t.Errorf("after %d turns: %v", times, err)
	}
}
