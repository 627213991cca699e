package core_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// TestTwin compares what Decide starts, goes on with and refuses with a naive twin of it, which
// counts everything anew for every question.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		w.cluster.Observed = core.Yes
		d := w.decide()
		want := (&twin{world: w.heeded(), drawn: w, begun: map[int]bool{}, placed: map[int]bool{}, pools: map[string]bool{}}).decide()
		var got []string
		for _, a := range d.StepStarts {
			got = append(got, fmt.Sprintf("act %s", w.cluster.Repairs[a.Repair].Name))
		}
		for _, s := range d.Starts {
			got = append(got, fmt.Sprintf("start %s for %s retry %d", w.cluster.Targets[s.Target].ID.Name, w.policies[s.Policy].ID.Name, s.Retry))
		}
		for _, f := range d.Refusals {
			if !f.DryRun {
				got = append(got, fmt.Sprintf("%s refuses %s: %s", w.policies[f.Policy].ID.Name, w.cluster.Targets[f.Target].ID.Name, f.Gate))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := gocmp.Diff(want, got); diff != "" {
			r.Fatalf("decision (-twin +got):\n%s\nworld: %+v", diff, w)
		}
	})
}

// twin is the naive Decide. The maps hold what it has let through so far.
type twin struct {
	world
	// drawn is the world in which requests have their times.
	drawn world
	// begun are the repairs not begun that have had their turn, by target, and placed the targets
	// for which a repair starts. pools are the owners of the latter.
	begun, placed map[int]bool
	pools         map[string]bool
	out           []string
}

func (w *twin) say(format string, args ...any) { w.out = append(w.out, fmt.Sprintf(format, args...)) }

func (w *twin) decide() []string {
	running := all(len(w.cluster.Repairs))
	slices.SortFunc(running, func(a, b int) int {
		p, q := &w.cluster.Repairs[a], &w.cluster.Repairs[b]
		return cmp.Or(p.Started.Compare(q.Started), cmp.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Name, q.Name))
	})
	for _, i := range running {
		for t := range w.cluster.Targets {
			if w.repairOf(t) == i && !w.cluster.Targets[t].Deleting {
				w.goOn(i, t)
				w.begun[t] = true
			}
		}
	}
	for _, t := range w.unhealthyOldestFirst() {
		w.start(t)
	}
	return w.out
}

// repairOf is the oldest running repair of a target.
func (w *twin) repairOf(target int) int {
	oldest := none
	for _, i := range w.runningOf(target) {
		if oldest == none || w.older(i, oldest) {
			oldest = i
		}
	}
	return oldest
}

func (w *twin) older(i, j int) bool {
	p, q := &w.cluster.Repairs[i], &w.cluster.Repairs[j]
	return cmp.Or(p.Started.Compare(q.Started), cmp.Compare(p.Namespace, q.Namespace), cmp.Compare(p.Name, q.Name)) < 0
}

// leader is the oldest acting policy that finds the target unhealthy.
func (w *twin) leader(target int) int {
	lead := none
	for _, p := range w.acting(target) {
		if naiveHealth(&w.policies[p], &w.cluster.Targets[target], w.now) != "unhealthy" {
			continue
		}
		if lead == none || naivelyOlder(&w.policies[p], &w.policies[lead]) {
			lead = p
		}
	}
	return lead
}

func naivelyOlder(p, q *core.Policy) bool {
	return cmp.Or(p.Created.Compare(q.Created), cmp.Compare(p.ID.Name, q.ID.Name), p.ID.Compare(q.ID)) < 0
}

func (w *twin) goOn(repair, target int) {
	r, t := &w.cluster.Repairs[repair], &w.cluster.Targets[target]
	lead := none
	for _, p := range w.acting(target) {
		if w.policies[p].ID == r.Policy {
			lead = p
		}
	}
	if lead == none || naiveHealth(&w.policies[lead], t, w.now) != "unhealthy" {
		return
	}
	if w.policies[lead].Problem == "" && len(w.policies[lead].Steps) == 0 {
		return // the health check has no such step, so the repair ends
	}
	if r.Attempts > 0 {
		pause := time.Second << min(r.Attempts-1, 20)
		if w.now.Before(r.LastAttempt.Add(min(pause, 5*time.Minute))) {
			w.say("%s refuses %s: AttemptPause", w.policies[lead].ID.Name, t.ID.Name)
			return
		}
	}
	if w.allowed(target, lead, repair, 0) {
		w.say("act %s", r.Name)
	}
}

func (w *twin) unhealthyOldestFirst() []int {
	var found []int
	for t := range w.cluster.Targets {
		if w.leader(t) != none && w.repairOf(t) == none {
			found = append(found, t)
		}
	}
	since := func(t int) time.Time {
		for _, v := range w.drawn.decide().Verdicts {
			if v.Target == t && v.Policy == w.leader(t) {
				return v.Since
			}
		}
		return time.Time{}
	}
	last := func(t int) int {
		if w.cluster.Targets[t].ControlPlaneByLabel {
			return 1
		}
		return 0
	}
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), since(a).Compare(since(b)), w.cluster.Targets[a].ID.Compare(w.cluster.Targets[b].ID))
	})
	return found
}

func (w *twin) start(target int) {
	lead := w.leader(target)
	retry := w.retry(target, lead)
	if w.allowed(target, lead, none, retry) {
		w.say("start %s for %s retry %d", w.cluster.Targets[target].ID.Name, w.policies[lead].ID.Name, retry)
		w.placed[target] = true
		w.pools[w.cluster.Targets[target].Owner.UID] = true
	}
}

// inFlight counts the members that are leaving unsound, marked, or under repair, but not a target that has no repair. For a
// repair that is in the ledger later ones don't count.
func (w *twin) inFlight(policy, target, repair int) int {
	n := 0
	for _, m := range w.policies[policy].Members {
		t := &w.cluster.Targets[m]
		of := w.repairOf(m)
		switch {
		case m == target && repair == none:
		case t.ExternallyRemediated && of == none:
			n++
		case t.Deleting && (of != none || naiveUnsound(&w.policies[policy], t, w.now)), w.placed[m]:
			n++
		case of != none && (repair == none || w.begun[m]):
			n++
		}
	}
	return n
}
