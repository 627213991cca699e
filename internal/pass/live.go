package pass

import (
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// readRounds bounds how often one pass reads live and decides anew.
const readRounds = 3

// liveReading is what the API server says of the targets that the decision depends on.
type liveReading struct {
	rounds int
	// read has the targets that were read in this pass, each once.
	read map[int]bool
	// targets has the targets of this round, and polled the targets among them whose quorum is to be read.
	targets []int
	polled  map[int]bool
	answers []liveAnswer
	// at is when the round began.
	at time.Time
	// undecided is set when the decision still depends on unread facts after the last round.
	undecided bool
}

type liveAnswer struct {
	node     core.Node
	survives core.Tri
	unread   bool
}

// unreadTargets begins a round of live reads.
func (p *Pass) unreadTargets() int {
	l := &p.reading
	var unread []int
	for _, t := range p.decision.Confirm {
		if !l.read[t] {
			unread = append(unread, t)
		}
	}
	if l.rounds == readRounds {
		l.undecided, unread = len(unread) > 0, nil
	}
	if l.targets = unread; len(unread) == 0 {
		return 0
	}
	if l.read == nil {
		l.read = map[int]bool{}
	}
	for _, t := range unread {
		l.read[t] = true
	}
	l.polled = map[int]bool{}
	for _, t := range p.decision.QuorumReads {
		l.polled[t] = true
	}
	l.rounds, l.at, l.answers = l.rounds+1, p.clock.Now, make([]liveAnswer, len(unread))
	return len(unread)
}

// readTarget returns all reads about a target at once.
func (p *Pass) readTarget(_ *task, i int) []Call {
	t := p.reading.targets[i]
	target := p.cluster.Targets[t]
	calls := []Call{{Kind: ReadNode, Dialect: p.targetDialect[t], Target: target}}
	if p.reading.polled[t] && p.config.Quorum {
		calls = append(calls, Call{Kind: ReadQuorum, Target: target})
	}
	return calls
}

// targetRead takes in one answer. An unknown quorum is an answer too: it holds back the target until the next read. No
// pass fails because of it, unless the call panics.
func (p *Pass) targetRead(t *task, c *Call, r *Result) {
	a := &p.reading.answers[c.Task]
	switch {
	case c.Kind == ReadQuorum && r.Err != nil:
		err := fmt.Errorf("reading whether quorum survives the loss of %s: %w", c.Target.ID, r.Err)
		if !r.Skipped {
			p.report(Event{Kind: QuorumNotKnown, Target: c.Target.ID, Err: err})
		}
		if r.Panicked {
			t.errs = append(t.errs, err)
		}
	case c.Kind == ReadQuorum:
		a.survives = r.Survives
	case r.Skipped:
		a.unread = true
		t.errs = append(t.errs, r.Err)
	case r.Err != nil:
		a.unread = true
		t.errs = append(t.errs, fmt.Errorf("reading the node of %s: %w", c.Target.ID, r.Err))
	default:
		a.node = r.Node
	}
}

// applyLive decides anew with what was read.
func (p *Pass) applyLive() bool {
	l := &p.reading
	if len(l.targets) == 0 {
		return false
	}
	for i, t := range l.targets {
		p.applyLiveAnswer(&p.cluster.Targets[t], &l.answers[i], l.polled[t])
	}
	p.now, p.cluster.ClockAgrees, p.cluster.Age = p.later(p.clock.Now), p.clock.Agrees, p.ageAt(p.clock.Now)
	for _, t := range l.targets {
		p.state.Expectations.OverlayLive(&p.cluster.Targets[t], p.now)
	}
	p.decision = p.config.Decide(p.policies, p.cluster, p.now)
	return true
}

func (p *Pass) applyLiveAnswer(t *core.Target, a *liveAnswer, polled bool) {
	at, expectations := p.reading.at, &p.state.Expectations
	if polled {
		t.QuorumSurvives, t.QuorumReadAt = a.survives, at
	}
	if a.unread {
		t.NodeUnreadable = true
		t.NodeReadAgain = expectations.KeepLookup(t.ID, core.Node{}, at)
		return
	}
	t.ApplyLiveRead(a.node, at)
	if a.node.State == core.NodeGone {
		t.NodeGoneSince = expectations.KeepNodeGone(t.ID, a.node.Name, at)
		return
	}
	t.NodeReadAgain = expectations.KeepLookup(t.ID, a.node, at)
}
