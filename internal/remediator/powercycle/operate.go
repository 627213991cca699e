package powercycle

import (
	"context"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// releases reports whether the node has the taint that releases its workload.
func (l *look) releases() bool {
	return l.record.Released && l.facts.Node != nil && l.facts.Node.OutOfService && !l.record.ForeignOutOfService
}

// operateHost reads or commands the power, without a lane. A change of the node ends that once its workload is released: the node may have to serve
// again at once, and is read anew.
func (c *Client) operateHost(ctx context.Context, l *look, kind fencing.StepKind) {
	ctx, done := c.sessions.interruptible(ctx, l.s, l.wakes, l.releases())
	defer done()
	l.lane.leave()
	found := c.tryHost(ctx, l, kind)
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
	at, found := c.commandPower(ctx, l.bmc, command)
	switch {
	case found.found():
	case command == power.TurnOff:
		l.s.power = l.s.power.CommandedOff(at)
	default:
		l.s.power = l.s.power.CommandedOn(at)
	}
	return found
}
