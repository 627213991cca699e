package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// nodeCheck is the kind of the policies over nodes.
const nodeCheck = "NodeCheck"

// templates is the number of templates. Each has its own kind, so that a node has at most one request of each.
const templates = 2

// RequestStep returns the step that asks the remediator of a template, which is 0 or 1, for so many ticks; 0 is no
// limit.
func RequestStep(template, ticks int) core.Step {
	return core.Step{
		Remedy: "Ask", Nature: core.CreateRequest, Limit: Ticks(ticks),
		Template: core.Reference{APIVersion: "sim/v1", Kind: fmt.Sprintf("Kind%dTemplate", template), Name: "template"},
	}
}

// request is a remediation request as the API server has it. Its remediator's finalizer keeps it until the remediator
// lets go.
type request struct {
	core.Request
	template, slot int
	// perLife is set where the name of a request tells nodes apart that had one name after the other.
	perLife bool
}

func templateOf(r core.Reference) int {
	for i := range templates {
		if RequestStep(i, 0).Template == r {
			return i
		}
	}
	return -1
}

// requestsFrom returns the requests that were made from a template.
func (c *apiServer) requestsFrom(template int) []request {
	var found []request
	for _, r := range c.requests {
		if r.template == template {
			found = append(found, r)
		}
	}
	return found
}

// named returns the index of the request with the name of another, -1 when there is none.
func (c *apiServer) named(like *request) int {
	return slices.IndexFunc(c.requests, func(r request) bool {
		return r.template == like.template && r.slot == like.slot && (!like.perLife || r.Target.UID == like.Target.UID)
	})
}

// living returns the index of the request of a UID, -1 when it is gone.
func (c *apiServer) living(uid string) int {
	return slices.IndexFunc(c.requests, func(r request) bool { return r.ID.UID == uid })
}

// createRequest creates a request unless its name is taken. A request about another node, or by another policy, is in
// the way: then the result is 0.
func (c *apiServer) createRequest(r request) (answer core.RemedyResult, made bool) {
	if i := c.named(&r); i >= 0 {
		other := &c.requests[i]
		switch {
		case other.Target.UID != r.Target.UID || other.Policy != r.Policy:
			return 0, false
		case other.Leaving:
			return core.Stale, false
		}
		return core.Accepted, false
	}
	c.make(r)
	return core.Accepted, true
}

func (c *apiServer) make(r request) {
	c.made++
	r.ID = core.ID{Kind: fmt.Sprintf("Kind%d", r.template), Name: r.Target.Name, UID: fmt.Sprintf("request-%d", c.made)}
	c.requests = append(c.requests, r)
}

// stop marks a request so that its remediator stops. It does nothing for a request that is gone.
func (c *apiServer) stop(r core.Request) {
	if i := c.living(r.ID.UID); i >= 0 && c.requests[i].Stopped.IsZero() {
		c.requests[i].Stopped = at(c.now)
	}
}

// withdraw deletes a request. Without UID it deletes any request of the name. It returns the UID of the deleted
// request.
func (c *apiServer) withdraw(r core.Request, blind bool) string {
	i := c.living(r.ID.UID)
	if blind {
		i = slices.IndexFunc(c.requests, func(other request) bool { return other.ID.Kind == r.ID.Kind && other.ID.Name == r.ID.Name })
	}
	if i < 0 {
		return ""
	}
	c.requests[i].Leaving = true
	return c.requests[i].ID.UID
}

// letGo removes a request.
func (c *apiServer) letGo(i int) { c.requests = slices.Delete(c.requests, i, i+1) }

// changeRequest changes a request as remediators and users do.
func (u *Universe) changeRequest(s Step) {
	r := &u.truth.requests[s.Which]
	n := &u.truth.machines[r.slot].node
	switch s.Kind { //nolint:exhaustive // the others are about something else
	case SucceedRequest:
		r.Succeeded, r.SucceededSince = core.Yes, at(u.truth.now)
		if n.exists && !n.ready {
			n.ready = true
			n.date(u.truth)
		}
	case FailRequest:
		r.Succeeded, r.SucceededSince = core.No, at(u.truth.now)
	case DeleteRequest:
		r.Leaving = true
	case ReplaceRequest:
		again := *r
		u.truth.letGo(s.Which)
		again.Stopped, again.Succeeded, again.SucceededSince, again.Leaving = time.Time{}, core.Unknown, time.Time{}, false
		u.truth.make(again)
	case RemoveFinalizer:
		u.truth.letGo(s.Which)
	}
}

func (u *Universe) requestSteps(steps []Step, i int) []Step {
	r := &u.truth.requests[i]
	if r.Leaving {
		return append(steps, Step{Kind: RemoveFinalizer, Which: i})
	}
	if r.Succeeded == core.Unknown && r.Stopped.IsZero() {
		steps = u.maybe(steps, Step{Kind: SucceedRequest, Which: i})
		steps = u.maybe(steps, Step{Kind: FailRequest, Which: i})
	}
	steps = u.maybe(steps, Step{Kind: DeleteRequest, Which: i})
	return u.maybe(steps, Step{Kind: ReplaceRequest, Which: i})
}

// maybe adds a step while it may still happen.
func (u *Universe) maybe(steps []Step, s Step) []Step {
	if u.left[s.Kind] > 0 {
		return append(steps, s)
	}
	return steps
}
