package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

const (
	// judgedSeed draws the worlds of every run. JUDGE_SEED and JUDGE_WORLDS draw others.
	judgedSeed   = 14
	judgedWorlds = 30

	// judgedQuiet is for how long both sides of a world at rest have said nothing new.
	judgedQuiet = 3 * time.Second
	// judgedPatience is longer than the storm cooldown and the first pauses of back-off together.
	judgedPatience = 45 * time.Second
	// judgedTouch is how long an unexplained difference may last before both sides are made to look again.
	judgedTouch = 12 * time.Second
)

// TestJudgedAsByClusterAPI plays generated worlds to Cluster API's own health check and to Fettle. Each has its own
// management cluster, with the same nodes. Where they differ at rest, a row of the page on Cluster API must say so. No
// machine is selected by two health checks: two of Cluster API's would fight over its conditions, and never be at rest.
func TestJudgedAsByClusterAPI(t *testing.T) {
	t.Parallel()
	seed, count := judgedNumber(t, "JUDGE_SEED", judgedSeed), judgedNumber(t, "JUDGE_WORLDS", judgedWorlds)
	t.Logf("JUDGE_SEED=%d JUDGE_WORLDS=%d", seed, count)
	managements, workload := judgedClusters(t)
	clients := [2]client.Client{typed(t, managements[judge]), typed(t, managements[fettle])}
	var worlds []*judgedWorld
	for i := range int(count) {
		w := drawWorld(seed, i)
		w.build(t, managements, workload)
		worlds = append(worlds, w)
	}
	used := map[string]int{}
	for stage := range judgedStages {
		for _, w := range worlds {
			if stage > 0 {
				w.advance()
			}
		}
		settle(t, clients, worlds)
		for _, w := range worlds {
			w.tell(t, used)
		}
	}
	for _, e := range explanations() {
		t.Logf("%3d differences: %s", used[e.row], e.row)
	}
}

func judgedNumber(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// judgedClusters starts three clusters: a management cluster for Cluster API's own health check, one for Fettle, and a
// workload cluster.
func judgedClusters(t *testing.T) ([2]*cluster.Cluster, *cluster.Cluster) {
	t.Helper()
	alone := clusterAPIOnly()
	alone.Args = append(alone.Args, "--cluster-api-health-checks")
	managements := [2]*cluster.Cluster{cluster.Start(t, alone), cluster.Start(t, clusterAPIOnly())}
	workload := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	for _, c := range managements {
		c.InstallFettleForNodes(t) // with the kinds of remediation requests
		c.AllowClusterAPI(t)
	}
	managements[fettle].StartFettle(t)
	return managements, workload
}

// judgedRest is how far a world has come to rest.
type judgedRest struct {
	touched, since time.Time
	last           [2]facts
	settled        bool
}

// settle waits until all worlds are at rest without an unexplained difference, or until patience ends.
func settle(t *testing.T, clients [2]client.Client, worlds []*judgedWorld) {
	t.Helper()
	latest := slices.MaxFunc(worlds, func(a, b *judgedWorld) int { return a.due.Compare(b.due) }).due
	end := latest.Add(judgedPatience)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for ; time.Now().Before(end); <-tick.C {
		sides, err := factsOfBoth(t, clients)
		if err != nil {
			t.Fatal(err)
		}
		open := false
		for _, w := range worlds {
			w.look([2]facts{sides[judge][w.name], sides[fettle][w.name]})
			open = open || !w.rest.settled
		}
		if !open {
			return
		}
	}
}

// look compares what both sides say now. A world is settled when that has not changed for a while since both were last
// made to look, and every difference is explained.
func (w *judgedWorld) look(now [2]facts) {
	r, at := &w.rest, time.Now()
	changed := !maps.Equal(r.last[judge], now[judge]) || !maps.Equal(r.last[fettle], now[fettle])
	r.last = now
	switch {
	case at.Before(w.due) || r.settled:
	case r.touched.IsZero():
		w.touch()
		r.touched, r.since = time.Now(), time.Now()
	case changed:
		r.since = at
	case at.Sub(r.since) < judgedQuiet:
	case len(w.unexplained()) == 0:
		r.settled = true
	case at.Sub(r.touched) > judgedTouch:
		r.touched = time.Time{}
	}
}

func (w *judgedWorld) unexplained() []difference {
	return slices.DeleteFunc(compareFacts(w.rest.last), func(d difference) bool { return w.explain(d) != "" })
}

// tell fails the test for unexplained differences, and counts the others by row.
func (w *judgedWorld) tell(t *testing.T, used map[string]int) {
	t.Helper()
	for _, d := range compareFacts(w.rest.last) {
		if row := w.explain(d); row != "" {
			used[row]++
			t.Logf("%s, stage %d: %s: %s", w.name, w.stage, d, row)
		}
	}
	var lines []string
	for _, d := range w.unexplained() {
		lines = append(lines, d.String())
	}
	if len(lines) > 0 {
		t.Errorf("no row of the page on Cluster API says why, in world %s at stage %d:\n  %s\n  the world:\n    %s\n  %s",
			w.name, w.stage, strings.Join(lines, "\n  "), w, w.rest.said())
	} else if !w.rest.settled {
		t.Errorf("world %s did not come to rest at stage %d:\n    %s\n  %s", w.name, w.stage, w, w.rest.said())
	}
	w.earlier = w.rest.last
}

// said returns what both sides say.
func (r *judgedRest) said() string {
	var lines []string
	for side, name := range map[int]string{judge: "Cluster API", fettle: "Fettle"} {
		for p, v := range r.last[side] {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", name, p, v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n  ")
}

// TestExplanationsAreDocumented: the page has the words of each explanation.
func TestExplanationsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(cluster.Root(), "docs", "dialects", "cluster-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ") // lines may break anywhere
	for _, e := range explanations() {
		if !strings.Contains(text, e.row) {
			t.Errorf("the page on Cluster API does not say: %s", e.row)
		}
	}
}
