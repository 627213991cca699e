package workload

import (
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// maxSilence is how old the last word of a cluster may be that is believed. Probes fail sooner; this is for a process
// that was halted, and whose probes were too.
const maxSilence = 20 * time.Second

// state is what is known of a connection.
type state struct {
	// synced is set from when a list was taken in until something fails.
	synced bool
	// heard is the last word of the cluster.
	heard time.Time
	// problem says why the cluster is not known, and what to do. It is empty until something has failed.
	problem string
}

// answers tells whether what the cluster has said is to be believed, and if not, why and what to do. There are no words
// while the first attempt runs, since there is nothing to tell yet.
func (s state) answers(now time.Time) (core.Tri, string) {
	switch {
	case !s.synced:
		return core.Unknown, s.problem
	case now.Sub(s.heard) > maxSilence:
		return core.Unknown, "it has not been heard of for more than " + maxSilence.String() + ", and is asked again"
	}
	return core.Yes, ""
}

// listed: all nodes have been taken in.
func (s state) listed(now time.Time) state { return state{synced: true, heard: now} }

// heardFrom: the cluster has said something. That alone makes nobody believe what was taken in before it fell silent.
func (s state) heardFrom(now time.Time) state {
	s.heard = now
	return s
}

// lost: nothing is believed any more.
func (s state) lost(problem string) state { return state{heard: s.heard, problem: problem} }
