package workload

import (
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// maxSilence is how long a cluster may have been silent for its nodes to count. Probes fail sooner. This bound is
// for a process that was halted, and so made no probes.
const maxSilence = 20 * time.Second

// state is the state of a connection.
type state struct {
	// synced is set from the first list until something fails.
	synced bool
	// heard is when the cluster last sent something.
	heard time.Time
	// problem says why the cluster is unknown, and what to do. It is empty until something has failed.
	problem string
}

// answers reports whether the nodes of the cluster count. If not, it returns why, and what to do. The text is empty
// while the first attempt runs.
func (s state) answers(now time.Time) (core.Tri, string) {
	switch {
	case !s.synced:
		return core.Unknown, s.problem
	case now.Sub(s.heard) > maxSilence:
		return core.Unknown, "the cluster has sent nothing for more than " + maxSilence.String() + ", and is probed again"
	}
	return core.Yes, ""
}

// listed returns the state after a list was stored.
func (s state) listed(now time.Time) state { return state{synced: true, heard: now} }

// heardFrom returns the state after the cluster has sent something. That alone does not make an earlier list count
// again.
func (s state) heardFrom(now time.Time) state {
	s.heard = now
	return s
}

// lost returns the state after a failure.
func (s state) lost(problem string) state { return state{heard: s.heard, problem: problem} }
