package agent

import (
	"context"
	"time"
)

// watchTime resets the node at once when it runs for longer than it has promised, until the context ends. It waits for no request: the node may have
// been suspended, and its pods run on meanwhile.
func (n *node) watchTime(ctx context.Context) {
	if n.EachSecond != nil {
		err := n.EachSecond(ctx, n.resetIfOverdue)
		if err == nil {
			return
		}
		n.Tell(Note{Reason: NoBootTimer, Err: err})
	}
	for wait(ctx, time.Second) {
		n.resetIfOverdue()
	}
}

// resetIfOverdue resets the node if a promise was to have it reset by now.
func (n *node) resetIfOverdue() {
	if !n.isOverdue() {
		n.overdue = false
		return
	}
	first := !n.overdue
	n.overdue = true
	if first {
		n.Tell(Note{Reason: Overdue})
	}
	if err := n.Hardware.Reset(); err != nil && first {
		n.Tell(Note{Reason: NotReset, Err: err})
	}
}

// isOverdue reports whether a promise was to have the node reset by now.
func (n *node) isOverdue() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agent.Overdue(n.Boottime())
}
