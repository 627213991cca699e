package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// sixAsk breaks six of ten machines, and returns when all six are marked. The owner defers the first two, and has begun
// to replace the third, which stays for a while.
func (h *clusterFixture) sixAsk() (ill []string) {
	h.t.Helper()
	ill = names("ill", 6)
	h.addMachines(append(names("well", 4), ill...))
	h.healthCheck(10, short)
	h.wantHealthy(10, 10)
	h.longBroken(ill)
	h.wantMarked(6)
	h.wantHealthy(4, 10)
	h.answers(ill[:2], "RemediationDeferred", "one at a time")
	h.answers(ill[2:3], leaving, "Machine is deleting")
	return ill
}

// clusterCheckDeleted: without the health check, Fettle withdraws the marks on which the owner has not acted.
func clusterCheckDeleted(h *clusterFixture) {
	h.StartFettle(h.t)
	ill := h.sixAsk()
	h.deleteCheck()
	h.asksNoMore(ill)
}

// clusterCheckDeletedUnseen: no leader saw the deletion, and the next leader never knew the health check.
func clusterCheckDeletedUnseen(h *clusterFixture) {
	f := h.StartFettle(h.t)
	ill := h.sixAsk()
	f.Kill(h.t)
	h.deleteCheck()
	h.StartFettle(h.t)
	h.asksNoMore(ill)
}

// asksNoMore waits until only the machine that is being replaced is marked, and checks what Fettle says of all
// machines.
func (h *clusterFixture) asksNoMore(ill []string) {
	h.t.Helper()
	h.wantMarks(1)
	h.wantRepairs(v1alpha1.RepairRunning, 1)
	h.keepsMarked()
	if got := h.markedMachines(); !slices.Equal(got, ill[2:3]) {
		h.t.Errorf("%v ask to be replaced, want %v", got, ill[2:3])
	}
	for _, name := range []string{ill[0], ill[5], "well-00"} {
		h.explains(name, explanation{next: "no health check selects it"})
	}
	h.explains(ill[2], explanation{requested: true, repaired: true, next: "Its owner has begun to replace it"})
	h.explainsRepairs()
	h.wantReplaced(10)
	h.explainsRepairs()
}

// TestClusterHealthCheckEditedToNonsense: a management cluster with its own definition accepts nonsense for a health
// check. Marks stay, and no new one is made, until the health check is mended. A health check that names another
// cluster has left its own.
func TestClusterHealthCheckEditedToNonsense(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.Apply(t, lenient(clusterv1.GroupVersion.WithKind("MachineHealthCheck"), "Namespaced", clusterv1.GroupVersion.String()+": v1beta2"))
	c.ApplyDir(t, "sandbox/crd/clusterapi")
	c.InstallFettle(t)
	c.AllowClusterAPI(t)
	h := newClusterFixture(t, c, "nonsense")
	h.StartFettle(t)
	ill := h.sixAsk()
	good := map[string]any{"unhealthyNodeConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeoutSeconds": int64(2)}}}
	for _, nonsense := range []any{map[string]any{"unhealthyNodeConditions": int64(7)}, "Ready"} {
		h.edit(map[string]any{"checks": nonsense})
		h.wantAllowed("False/InvalidSpec")
		h.brokenSince([]string{"well-00"}, time.Now().Add(-time.Hour))
		h.recover(ill[5:])
		h.keepsMarked()
		h.explains(ill[3], explanation{health: "unknown", requested: true, repaired: true})
		h.explains("well-00", explanation{health: "unknown"})
	}
	h.edit(map[string]any{"checks": good, "remediation": map[string]any{"triggerIf": map[string]any{"unhealthyInRange": "[3-1]"}}})
	h.wantMarks(5) // recovered machines are unmarked, though no new mark is made
	h.wantAllowed("False/InvalidSpec")
	h.wantHealthy(4, 10)
	h.keepsMarked()
	h.explains(ill[3], explanation{health: "unhealthy", requested: true, repaired: true})
	h.explains("well-00", explanation{health: "unhealthy", held: "InvalidSpec"})
	h.due([]string{"well-00"})
	h.edit(map[string]any{"remediation": nil})
	h.wantMarked(7)

	h.edit(map[string]any{"clusterName": "elsewhere"})
	h.wantAllowed("Unknown/ClusterNotFound")
	h.wantMarks(1)
	h.explains(ill[3], explanation{})
	again := slices.Concat(ill[:2], ill[3:5], []string{"well-00"})
	h.due(again)
	h.edit(map[string]any{"clusterName": prod})
	h.wantMarked(7 + len(again))
	h.explains(ill[3], explanation{health: "unhealthy", requested: true, repaired: true})
	h.wantReplaced(10)
}

// explanation is what fettle explain must say of a machine. An empty health means that no health check selects it.
type explanation struct {
	health              string
	requested, repaired bool
	// held is the gate that holds back the repair. next is a part of what happens next.
	held, next string
}

// explains checks what fettle explain says of a machine.
func (h *clusterFixture) explains(machine string, want explanation) {
	h.t.Helper()
	var said struct {
		Targets []struct {
			Name, Cluster, Health, Repair, Unselected string
			Verdicts                                  []struct{ Health, Message string }
			HeldBy                                    []struct{ Gate, Message string }
			OwnerAnswer                               struct {
				Asked           bool
				Reason, Message string
			}
			Next struct{ Text string }
		}
	}
	h.explain(h.name, "machine/"+machine, &said)
	if len(said.Targets) != 1 {
		h.t.Errorf("fettle explain machine/%s says %+v, want one target", machine, said)
		return
	}
	of := said.Targets[0]
	selected := want.health != ""
	held := ""
	if len(of.HeldBy) > 0 {
		held = of.HeldBy[0].Gate
	}
	wrong := of.Name != machine || of.Cluster != prod || of.OwnerAnswer.Asked != want.requested || (of.Repair != "") != want.repaired ||
		of.Next.Text == "" || !strings.Contains(of.Next.Text, want.next) || (len(of.Verdicts) > 0) != selected || (selected && of.Health != want.health) || held != want.held
	if wrong {
		h.t.Errorf("fettle explain machine/%s says %+v, want %+v", machine, of, want)
	}
}

// explainsRepairs checks what fettle explain says of all repairs.
func (h *clusterFixture) explainsRepairs() {
	h.t.Helper()
	h.mu.Lock()
	repairs := map[string]repairSeen{}
	for name, r := range h.repairs {
		repairs[name] = *r
	}
	h.mu.Unlock()
	for name, seen := range repairs {
		var said struct {
			Repair struct {
				Phase, Progress, Cluster string
				Finished                 time.Time
				Target                   struct{ Name, UID string }
			}
			Next struct{ Text string }
		}
		h.explain(h.name, "repair/"+name, &said)
		r := &said.Repair
		if r.Phase != string(seen.phase) || r.Target.UID != seen.target || r.Cluster != prod || said.Next.Text == "" ||
			r.Finished.IsZero() != (seen.phase == v1alpha1.RepairRunning) || (r.Progress == "") != (seen.phase == v1alpha1.RepairRunning) {
			h.t.Errorf("fettle explain repair/%s says %+v; what was seen is %+v", name, said, seen)
		}
	}
}
