package selffence

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

// writesOfManager are the kinds of writes at which the manager is killed: each once when the write is lost, and once when its answer is.
var writesOfManager = []string{
	"patch selffenceremediations", "patch selffenceremediations/status: Preparing", "patch selffenceremediations/status: Condemning",
	"patch selffenceremediations/status: Releasing", "patch selffenceremediations/status: Booting",
	"patch selffenceremediations/status: Restoring", "patch selffenceremediations/status: Succeeded",
	"patch nodes", "update leases: Condemned", "update leases: Withdrawn",
}

// writesAfterRelease are judged for all nodes. A health check may withdraw a remediation before them, once its node is back.
var writesAfterRelease = []string{
	"patch selffenceremediations/status: Booting", "patch selffenceremediations/status: Restoring",
	"patch selffenceremediations/status: Succeeded", "update leases: Withdrawn",
}

// killed is the manager, and the writes at which it was killed.
type killed struct {
	*cluster.Cluster

	kubeconfig string
	// nodes are those at whose writes the manager is killed until their workload is released.
	nodes  []string
	judge  *cluster.Judge
	fettle *cluster.Fettle

	mu       sync.Mutex
	outcomes map[string][]cluster.Outcome
}

// newKilled prepares a manager whose writes about some nodes are judged.
func (w *world) newKilled(t *testing.T, nodes ...*machine) *killed {
	t.Helper()
	k := &killed{Cluster: w.Cluster, kubeconfig: w.FettleKubeconfig(t), outcomes: map[string][]cluster.Outcome{}}
	for _, m := range nodes {
		k.nodes = append(k.nodes, m.part.Node)
	}
	proxy, address := w.StartProxy(t)
	cluster.Redirect(t, k.kubeconfig, address)
	k.judge = proxy.Judge(t, k.outcome)
	k.fettle = k.StartFettleWith(t, k.kubeconfig)
	return k
}

// outcome has the first write of a kind lost, and the next one unanswered.
func (k *killed) outcome(w cluster.Write) cluster.Outcome {
	kind := kindOf(w)
	about := func(node string) bool { return strings.HasPrefix(w.Name, node) } // the name of a remediation may have more
	if !slices.Contains(writesOfManager, kind) || !slices.Contains(writesAfterRelease, kind) && !slices.ContainsFunc(k.nodes, about) {
		return cluster.Passes
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch len(k.outcomes[kind]) {
	case 0:
		return cluster.Lost
	case 1:
		return cluster.Unanswered
	}
	return cluster.Passes
}

var phaseIn = regexp.MustCompile(`"phase":"(\w+)"`)

// kindOf says what a write changes. Leases are written in the form of protobuf.
func kindOf(w cluster.Write) string {
	kind := w.Verb + " " + w.Resource
	switch w.Resource {
	case "selffenceremediations/status":
		if found := phaseIn.FindSubmatch(w.Body); found != nil {
			return kind + ": " + string(found[1])
		}
	case "leases":
		for _, state := range []selffence.State{selffence.Condemned, selffence.Withdrawn} {
			if w.Namespace == promiselease.Namespace && bytes.Contains(w.Body, []byte(string(state))) {
				return kind + ": " + string(state)
			}
		}
	}
	return kind
}

// until kills the manager at each write that is held, and starts it again, until the stories have ended.
func (k *killed) until(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	for {
		select {
		case held := <-k.judge.Held():
			k.fettle.Kill(t)
			kind := kindOf(held.Write)
			k.mu.Lock()
			k.outcomes[kind] = append(k.outcomes[kind], held.Outcome)
			k.mu.Unlock()
			t.Logf("the manager is killed at outcome %d of: %s %s", held.Outcome, kind, held.Name)
			k.judge.Resume()
			k.fettle = k.StartFettleWith(t, k.kubeconfig)
		case <-ended:
			return
		}
	}
}

// wasKilled requires that the manager was killed at each kind of write.
func (k *killed) wasKilled(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kind := range writesOfManager {
		if outcomes := k.outcomes[kind]; !slices.Equal(outcomes, []cluster.Outcome{cluster.Lost, cluster.Unanswered}) {
			t.Errorf("the manager was killed at these outcomes of %q: %v", kind, outcomes)
		}
	}
}
