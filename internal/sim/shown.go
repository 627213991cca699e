package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// shownRequest is the request of a repair from a template, which a cache has shown or a pass has made.
type shownRequest struct {
	repair   string
	template int
}

func (s shownRequest) compare(other shownRequest) int {
	return cmp.Or(strings.Compare(s.repair, other.repair), cmp.Compare(s.template, other.template))
}

// noteShown notes the requests that the cache of a pass shows. The checker does not rely on the records of the engine alone.
func (u *Universe) noteShown(p *passRun) {
	if u.setup.Leaders < 2 {
		return
	}
	for i := range p.cluster.Repairs {
		r := &p.cluster.Repairs[i]
		for template, requests := range p.engine.requests {
			about := func(q request) bool { return q.Target == r.Target }
			if r.Running() && slices.ContainsFunc(requests, about) {
				u.show(shownRequest{r.Name, template})
			}
		}
	}
}

// noteMade notes a request that a pass has made.
func (u *Universe) noteMade(repair string, template int) {
	if u.setup.Leaders > 1 {
		u.show(shownRequest{repair, template})
	}
}

func (u *Universe) show(s shownRequest) {
	if !slices.Contains(u.shown, s) {
		u.shown = append(slices.Clone(u.shown), s)
		slices.SortFunc(u.shown, shownRequest.compare)
	}
}

// wasShown reports whether a cache has shown a request of the same step of the same repair, or a pass has made it.
func (u *Universe) wasShown(p *passRun, q *request) bool {
	return slices.ContainsFunc(p.cluster.Repairs, func(r core.Repair) bool {
		return r.Target == q.Target && slices.Contains(u.shown, shownRequest{r.Name, q.template})
	})
}

// hasSeenRequestOf reports whether a repair says that a request of the same step was seen.
func (p *passRun) hasSeenRequestOf(q *request) bool {
	return slices.ContainsFunc(p.cluster.Repairs, func(r core.Repair) bool {
		return r.Target == q.Target && r.StepSeen > 0 && r.Steps[r.StepSeen-1].Template == q.Template
	})
}
