package sim

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// MarkStep returns the step that marks a machine for its owner.
func MarkStep() core.Step { return core.Step{Remedy: "Mark", Nature: core.AskOwner} }

// mark asks the owner of a machine to replace it. It is a part of the machine, so it changes its revision, and each
// view of the machine shows it. The zero mark asks nothing.
type mark struct {
	requested bool
	since     int
	// ours is set when an engine has made it, and not a user.
	ours bool
	// deferred is set while the owner says that it won't yet, and followed once it does so.
	deferred, followed bool
}

// markRemoval says when the mark of a healthy machine was removed, and which repair had made it. The zero value is
// none.
type markRemoval struct {
	at     int
	repair string
}

// delegates reports whether any policy leaves machines to their owners.
func (s *Setup) delegates() bool {
	return slices.ContainsFunc(slices.Concat(s.Policies, s.Workload), func(p core.Policy) bool {
		return slices.ContainsFunc(p.Steps, func(step core.Step) bool { return step.Nature.Effect().OwnerDecides })
	})
}

// markUID returns a UID for a mark, which later marks of the same machine don't have as far as clocks differ.
func (m machine) markUID() string { return fmt.Sprintf("%s@%d", m.id().UID, m.mark.since) }

// stands reports whether a mark stands that can still be removed.
func (m machine) stands() bool { return m.mark.requested && !m.mark.followed && !m.deleting }

// request returns the mark as a request, and false when there is none. A mark that the owner follows can't be removed.
func (m machine) request() (core.Request, bool) {
	if !m.mark.requested {
		return core.Request{}, false
	}
	id := m.id()
	r := core.Request{ID: id, Remedy: MarkStep().Remedy, Target: id, Created: at(m.mark.since), Own: true, Answers: true, Leaving: m.mark.followed}
	r.ID.UID = m.markUID()
	if m.mark.deferred {
		r.Answer = "not yet"
	}
	return r, true
}

// ask marks a machine as the API server would: UID and revision that are given must match. A mark that is there
// stays as it is, and then none is made.
func (c *apiServer) ask(slot int, uid, revision string) (answer core.RemedyResult, made bool) {
	m := &c.machines[slot]
	if uid != "" && m.id().UID != uid || revision != "" && fmt.Sprint(m.revision) != revision || uid != "" && m.deleting {
		return core.Stale, false
	}
	if m.mark.requested {
		return core.Accepted, false
	}
	m.mark = mark{requested: true, since: c.now, ours: true}
	m.revision++
	return core.Accepted, true
}

// unmark removes the mark of a UID, or of any machine with the name. It returns the UID of the removed mark. An owner
// that follows the mark already goes on.
func (c *apiServer) unmark(slot int, uid string, blind bool) string {
	m := &c.machines[slot]
	if !m.stands() || (!blind && m.markUID() != uid) {
		return ""
	}
	hit := m.markUID()
	m.mark = mark{since: m.mark.since}
	m.revision++
	return hit
}

// forgetMarkRemovals forgets the removals of marks. Only the process that removed a mark knows of it until the end of
// the repair is recorded. A restart before that forgets it.
func (u *Universe) forgetMarkRemovals() {
	for i := range u.truth.machines {
		m := &u.truth.machines[i]
		if m.markRemoved.repair != "" && u.truth.repairOf(m.id().UID) == m.markRemoved.repair {
			m.markRemoved = markRemoval{}
		}
	}
}

// markSteps returns what owners and users may do about a mark.
func (u *Universe) markSteps(steps []Step, i int) []Step {
	m := u.truth.machines[i]
	switch {
	case m.deleting, !u.delegates:
		return steps
	case m.mark.followed:
		return append(steps, Step{Kind: OwnerDelete, Which: i})
	case m.mark.requested:
	case m.mark == (mark{}) || m.mark.since < u.truth.now: // marks of one instant can't be told apart
		return u.maybe(steps, Step{Kind: AddMark, Which: i})
	default:
		return steps
	}
	if u.mayFollow(i) {
		steps = u.maybe(steps, Step{Kind: OwnerBegin, Which: i})
	}
	if !m.mark.deferred {
		steps = u.maybe(steps, Step{Kind: OwnerRefuse, Which: i})
	}
	return u.maybe(steps, Step{Kind: RemoveMark, Which: i})
}

// mayFollow reports whether the owner can take a machine out. Some owners take out one at a time.
func (u *Universe) mayFollow(i int) bool {
	if !u.setup.OneByOne {
		return true
	}
	for other, m := range u.truth.machines {
		if other != i && (m.deleting || m.mark.followed) {
			return false
		}
	}
	return true
}

// touch changes a machine's mark as its owner or a user does.
func (c *apiServer) touch(slot int, k Kind) {
	m := &c.machines[slot]
	switch k { //nolint:exhaustive // the others are about something else
	case OwnerBegin:
		m.mark.followed, m.mark.deferred = true, false
	case OwnerDelete:
		m.deleting, m.byFettle = true, m.mark.ours
	case OwnerRefuse:
		m.mark.deferred = true
	case RemoveMark:
		m.mark = mark{since: m.mark.since}
	case AddMark:
		m.mark = mark{requested: true, since: c.now}
	}
	m.revision++
}

// ownersEnd lets owners do what they were asked, as far as they are willing.
func (u *Universe) ownersEnd() bool {
	ended := false
	for i := range u.truth.machines {
		m := &u.truth.machines[i]
		if m.stands() && u.left[OwnerBegin] > 0 && u.mayFollow(i) {
			u.left[OwnerBegin]--
			u.truth.touch(i, OwnerBegin)
			ended = true
		}
		if m.mark.followed && !m.deleting {
			u.truth.touch(i, OwnerDelete)
			ended = true
		}
	}
	return ended
}
