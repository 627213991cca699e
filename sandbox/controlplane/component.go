package controlplane

import (
	"context"
	"errors"
	"fmt"
)

var errEnded = errors.New("it ended by itself")

// component is one part of the control plane on a goroutine of its own.
type component struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// launch runs until stop, or until run returns on its own, which is then reported to died.
func launch(name string, died chan<- error, run func(context.Context) error) *component {
	// Not a child of the caller's context: stop decides the order in which components end.
	ctx, cancel := context.WithCancel(context.Background())
	c := &component{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errEnded
		}
		died <- fmt.Errorf("running %s: %w", name, err)
	}()
	return c
}

func (c *component) stop() {
	c.cancel()
	<-c.ended
}
