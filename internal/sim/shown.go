package sim

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// shownRequest is the request of a repair from a template, which a cache has shown.
type shownRequest struct {
	repair   string
	template int
}

// noteShown notes the requests that the cache of a pass shows. The checker does not rely on what the engine has recorded.
func (u *Universe) noteShown(p *passRun) {
	if u.setup.Leaders < 2 {
		return
	}
	for i := range p.cluster.Repairs {
		r := &p.cluster.Repairs[i]
		for template, requests := range p.engine.requests {
			about := func(q request) bool { return q.Target == r.Target }
			if s := (shownRequest{r.Name, template}); r.Running() && slices.ContainsFunc(requests, about) && !slices.Contains(u.shown, s) {
				u.shown = append(slices.Clone(u.shown), s)
			}
		}
	}
}

// wasShown reports whether a cache has shown a request of the same step of the same repair.
func (u *Universe) wasShown(p *passRun, q *request) bool {
	return slices.ContainsFunc(p.cluster.Repairs, func(r core.Repair) bool {
		return r.Target == q.Target && slices.Contains(u.shown, shownRequest{r.Name, q.template})
	})
}
