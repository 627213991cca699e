package agent

import (
	"context"
	"time"
)

// How often the policies are looked up, and how long that may take.
const (
	lookUpEvery = time.Minute
	lookUpAgain = 10 * time.Second
	lookUpTime  = 10 * time.Second
)

// lookUp looks up which policy selects the node, until the context ends. A failure changes nothing.
func (n *node) lookUp(ctx context.Context) {
	failed := false
	for {
		every := lookUpEvery
		err := n.lookUpOnce(ctx)
		if err != nil {
			every = lookUpAgain
		}
		if err != nil && !failed && ctx.Err() == nil {
			n.Tell(Note{Reason: NoPolicies, Err: err})
		}
		failed = err != nil
		if !wait(ctx, every) {
			return
		}
	}
}

func (n *node) lookUpOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	s, selected, err := n.Policies.Find(ctx)
	if !selected {
		s = Settings{}
	}
	n.mu.Lock()
	n.unfound = err != nil
	if err == nil {
		n.found = &s
	}
	n.mu.Unlock()
	signal(n.woken)
	return err
}

// signal leaves a value in a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
