package core

import "time"

// The pauses between live reads of a node that the cache lacks double each time. They start short
// after a read that failed, since the node may be gone.
const (
	pauseAfterRead, pauseAfterFailure = 10 * time.Second, time.Second
	longestPause                      = time.Minute
)

// lookup is the result of live reads of a node that a target names and the cache lacks.
type lookup struct {
	name string
	// found is the node as last read, at that instant. Its state is NodeUnseen until a read
	// succeeds.
	found Node
	at    time.Time
	// times counts the reads, and the next is due at again.
	times int
	again time.Time
}

// KeepLookup records a live read of the node of a target, and returns when to read it again. The
// result is the zero time for a node that the cache has. A node in the state NodeUnseen could not
// be read.
func (m *Expectations) KeepLookup(target ID, found Node, at time.Time) time.Time {
	if found.State == NodePresent { // if it goes again, it is gone since then
		delete(m.goneNodes, target.UID)
	}
	l := m.lookups[target.UID]
	if l == nil {
		return time.Time{}
	}
	pause := pauseAfterRead
	if found.State == NodeUnseen {
		pause = pauseAfterFailure
	}
	for range l.times {
		pause = min(2*pause, longestPause)
	}
	l.found, l.at, l.again = found, at, at.Add(pause)
	l.times++
	return l.again
}

// overlayLookups judges a node that the cache lacks by the last live read, until the next read is
// due.
func (m *Expectations) overlayLookups(targets []Target, now time.Time) {
	var lacking map[string]*lookup
	for i := range targets {
		t := &targets[i]
		if t.Node.State != NodeUnseen {
			continue
		}
		l := m.lookups[t.ID.UID]
		if l == nil || l.name != t.Node.Name {
			l = &lookup{name: t.Node.Name}
		}
		if lacking == nil {
			lacking = map[string]*lookup{}
		}
		lacking[t.ID.UID] = l
		if !now.Before(l.again) {
			continue
		}
		t.NodeReadAgain, t.NodeUnreadable = l.again, l.found.State == NodeUnseen
		if !t.NodeUnreadable {
			t.ApplyLiveRead(l.found, l.at)
		}
	}
	m.lookups = lacking
}
