package powercycle

import (
	"context"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// releases reports whether the node has the taint that releases its workload, or may get it late.
func (l *look) releases() bool {
	n := l.facts.Node
	return n != nil && !l.record.ForeignOutOfService && (l.record.Released && n.OutOfService || l.record.ReleasedBefore)
}

// operateHost reads or commands the power, without a lane. A change of the node ends that once its workload is released: the node may have to serve
// again at once, and is read anew.
func (c *Client) operateHost(ctx context.Context, l *look, kind fencing.StepKind) {
	ctx, done := c.interruptible(ctx, l, l.wakes, l.releases())
	defer done()
	if kind == fencing.CommandOn && l.powersOn() {
		c.powerOnInTurn(ctx, l)
		return
	}
	c.note(l, c.tryHost(ctx, l, kind))
}

// interruptible returns a context that ends when the node of a look changes, if its workload is released. No watch shows the nodes of a workload
// cluster: such a node is read meanwhile, and the context ends once it has to serve again.
func (c *Client) interruptible(ctx context.Context, l *look, wakes int, released bool) (context.Context, context.CancelFunc) {
	ctx, done := c.sessions.interruptible(ctx, l.s, wakes, released)
	if l.cluster.isHome() || !released || l.record.ForeignOutOfService {
		return ctx, done
	}
	ctx, cancel := context.WithCancel(ctx)
	nodes, name, uid := l.nodes, l.node, l.record.NodeUID
	go func() {
		switch err := contain.Run(func() error { return awaitReady(ctx, nodes, name, uid) }); {
		case err == nil:
			cancel()
		case ctx.Err() == nil:
			c.Log.Error(err, "a node was not read while its BMC was asked", "node", name)
		}
	}()
	return ctx, func() { cancel(); done() }
}

// awaitReady reads a node until it is Ready and out of service, or the context ends. A read that fails is repeated.
func awaitReady(ctx context.Context, nodes *fencednode.Nodes, name, uid string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("reading node %s: %w", name, ctx.Err())
		case <-time.After(retryRead):
		}
		if n, err := nodes.Get(ctx, name); err == nil {
			if is := fencednode.Facts("", nil, n); is.Ready && is.OutOfService && is.UID == uid {
				return nil
			}
		}
	}
}

// powerOnInTurn powers a host of a domain on if it is its turn. The power is read first, so that a BMC which doesn't answer keeps no
// other host of the domain waiting.
func (c *Client) powerOnInTurn(ctx context.Context, l *look) {
	name, now := l.bmc.Spec.Domain, c.Now()
	if l.facts.PowerOnAt = c.turns.next(name, l.key, now); l.facts.PowerOnAt.After(now) {
		return
	}
	if l.s.turn.IsZero() {
		l.s.turn = now
	}
	if found := c.answers(ctx, l); found.found() {
		c.note(l, found)
		return
	}
	if !c.turns.begin(name, l.key, c.Now()) {
		return // another host has the turn meanwhile
	}
	defer func() { c.turns.done(name, c.Now()) }()
	c.note(l, c.tryHost(ctx, l, fencing.CommandOn))
}

// answers returns why the BMC of a look can't be asked now. A BareMetalHost is read with each command.
func (c *Client) answers(ctx context.Context, l *look) problem {
	if l.bmc.Spec.BareMetalHost != nil {
		return problem{}
	}
	_, found := c.readPower(ctx, l.bmc)
	return found
}

// note notes the outcome of an operation of a host.
func (c *Client) note(l *look, found problem) {
	switch {
	case found.interrupted:
		l.facts.Node, l.facts.Workload = nil, nil
	case found.found():
		l.s.failure, l.s.failures = found, l.s.failures+1
		l.s.power.RetryAt = c.Now().Add(min(firstRetry<<min(l.s.failures-1, 10), l.mostRetry()))
	default:
		l.s.failure, l.s.failures = problem{}, 0
	}
}

func (c *Client) tryHost(ctx context.Context, l *look, kind fencing.StepKind) problem {
	if kind == fencing.CommandOn {
		l.s.power = l.s.power.MayBeOn() // a command that fails may be carried out all the same
	}
	if l.bmc.Spec.BareMetalHost != nil {
		return c.tryBareMetalHost(ctx, l, kind)
	}
	if kind == fencing.ReadPower {
		reading, found := c.readPower(ctx, l.bmc)
		if !found.found() {
			l.s.power = l.s.power.Observe(reading)
		}
		return found
	}
	command := power.TurnOff
	if kind == fencing.CommandOn {
		command = power.TurnOn
	}
	at, found := c.commandPower(ctx, l.bmc, command, expectedUUID(l.bmc, l.raw))
	switch {
	case found.found():
	case command == power.TurnOff:
		l.s.power = l.s.power.CommandedOff(at)
	default:
		l.s.power = l.s.power.CommandedOn(at)
	}
	return found
}
