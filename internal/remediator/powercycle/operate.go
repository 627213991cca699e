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
func (rec *reconciliation) releases() bool {
	n := rec.facts.Node
	return n != nil && !rec.record.ForeignOutOfService && (rec.record.Released && n.OutOfService || rec.record.ReleasedBefore)
}

// operateHost reads or commands the power, without a slot. A change of the node ends that once its workload is released: the node may have to serve
// again at once, and is read anew.
func (c *Client) operateHost(ctx context.Context, rec *reconciliation, kind fencing.StepKind) {
	ctx, done := c.interruptible(ctx, rec, rec.wakes, rec.releases())
	defer done()
	if kind == fencing.CommandOn && rec.powersOn() {
		c.powerOnInTurn(ctx, rec)
		return
	}
	c.note(rec, c.tryHost(ctx, rec, kind))
}

// interruptible returns a context that ends when the node of a reconcile changes, if its workload is released. No watch shows the nodes of a workload
// cluster: such a node is read meanwhile, and the context ends once it has to serve again.
func (c *Client) interruptible(ctx context.Context, rec *reconciliation, wakes int, released bool) (context.Context, context.CancelFunc) {
	ctx, done := c.sessions.interruptible(ctx, rec.s, wakes, released)
	if rec.cluster.isHome() || !released || rec.record.ForeignOutOfService {
		return ctx, done
	}
	ctx, cancel := context.WithCancel(ctx)
	nodes, name, uid := rec.nodes, rec.node, rec.record.NodeUID
	go func() {
		switch err := contain.Run(func() error { return awaitReady(ctx, nodes, name, uid) }); {
		case err == nil:
			cancel()
		case ctx.Err() == nil:
			c.Log.Error(err, "a node was not read during an operation of its BMC", "node", name)
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
func (c *Client) powerOnInTurn(ctx context.Context, rec *reconciliation) {
	name, now := rec.bmc.Spec.Domain, c.Now()
	if rec.facts.PowerOnAt = c.turns.next(name, rec.key, now); rec.facts.PowerOnAt.After(now) {
		return
	}
	if rec.s.turn.IsZero() {
		rec.s.turn = now
	}
	if found := c.answers(ctx, rec); found.found() {
		c.note(rec, found)
		return
	}
	if !c.turns.begin(name, rec.key, c.Now()) {
		return // another host has the turn meanwhile
	}
	defer func() { c.turns.done(name, c.Now()) }()
	c.note(rec, c.tryHost(ctx, rec, fencing.CommandOn))
}

// answers returns why the BMC of a reconcile can't be read or commanded now. A BareMetalHost is read with each command.
func (c *Client) answers(ctx context.Context, rec *reconciliation) problem {
	if rec.bmc.Spec.BareMetalHost != nil {
		return problem{}
	}
	_, found := c.readPower(ctx, rec.bmc)
	return found
}

// note notes the outcome of an operation of a host.
func (c *Client) note(rec *reconciliation, found problem) {
	switch {
	case found.interrupted:
		rec.facts.Node, rec.facts.Workload = nil, nil
	case found.found():
		rec.s.failure, rec.s.failures = found, rec.s.failures+1
		rec.s.power.RetryAt = c.Now().Add(min(firstRetry<<min(rec.s.failures-1, 10), rec.mostRetry()))
	default:
		rec.s.failure, rec.s.failures = problem{}, 0
	}
}

func (c *Client) tryHost(ctx context.Context, rec *reconciliation, kind fencing.StepKind) problem {
	if kind == fencing.CommandOn {
		rec.s.power = rec.s.power.MayBeOn() // a command that fails may be carried out all the same
	}
	if rec.bmc.Spec.BareMetalHost != nil {
		return c.tryBareMetalHost(ctx, rec, kind)
	}
	if kind == fencing.ReadPower {
		reading, found := c.readPower(ctx, rec.bmc)
		if !found.found() {
			rec.s.power = rec.s.power.Observe(reading)
		}
		return found
	}
	command := power.TurnOff
	if kind == fencing.CommandOn {
		command = power.TurnOn
	}
	at, found := c.commandPower(ctx, rec.bmc, command, expectedUUID(rec.bmc, rec.raw))
	switch {
	case found.found():
	case command == power.TurnOff:
		rec.s.power = rec.s.power.CommandedOff(at)
	default:
		rec.s.power = rec.s.power.CommandedOn(at)
	}
	return found
}
