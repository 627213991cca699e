package integration

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestLedgerKeepsWholeRepairs: a repair reads back from a real API server as it was written, and ended states are gone
// again. Targets without a namespace have their repairs in the namespace of --repair-namespace.
func TestLedgerKeepsWholeRepairs(t *testing.T) {
	t.Parallel()
	_, l, opened := recordedOne(t)
	started := opened.Started
	if opened.Namespace != "repairs-of-nodes" {
		t.Errorf("the repair of a node is in namespace %s", opened.Namespace)
	}
	wantKept(t, l, opened)
	r := opened
	r.Sequence = 0 // the sequence is that of the creation
	for sentence, change := range stepsOfARepair(started) {
		change(&r)
		r = amends(t, l, r, sentence)
		wantKept(t, l, r)
	}
}

// recordedOne returns a ledger on a real API server, with one repair.
func recordedOne(t *testing.T) (*cluster.Cluster, *ledger.Store, core.Repair) {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: repairs-of-nodes}}")
	l := ledger.NewClient(ledger.Config{Namespace: "repairs-of-nodes", Live: c.Client, Writer: c.Client, Log: logr.Discard(), Wake: func(core.ClusterKey) {}}).Store(core.ClusterKey{})
	r, created, err := l.Create(t.Context(), repairOfANode(time.Now().Truncate(time.Microsecond)))
	if err != nil || !created {
		t.Fatalf("recording gives %t, %v", created, err)
	}
	return c, l, r
}

func amends(t *testing.T, l *ledger.Store, r core.Repair, text string) core.Repair {
	t.Helper()
	amended, written, err := l.Update(t.Context(), r, text, nil)
	if err != nil || !written {
		t.Fatalf("%s: it is written: %t, with the error %v", text, written, err)
	}
	return amended
}

// TestLedgerTakesEachStepFromOne: of two clients that have read the same version of a repair, one can write its
// progress. The other is refused, whatever it writes. A user's label on a repair causes no long delay.
func TestLedgerTakesEachStepFromOne(t *testing.T) {
	t.Parallel()
	c, l, r := recordedOne(t)
	started := r.Started
	advanced, ended := r, r
	advanced.Tried = []core.StepRecord{{Ended: started.Add(time.Minute), Outcome: core.Failed, Text: "it failed"}}
	ended.Ended, ended.Outcome = started.Add(time.Minute), core.Withdrawn
	advanced = amends(t, l, advanced, "it failed")
	for sentence, late := range map[string]core.Repair{"the repair as it was": r, "its end": ended} {
		if _, written, err := l.Update(t.Context(), late, sentence, nil); written || err != nil {
			t.Errorf("%s, after another client's write, is written: %t, with the error %v", sentence, written, err)
		}
	}
	advanced.Sequence = 0 // the sequence is that of the creation
	wantKept(t, l, advanced)

	label(t, c, &v1alpha1.Repair{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}})
	if _, written, err := l.Update(t.Context(), advanced, "handed over", nil); written || err != nil {
		t.Errorf("what was read before the label is written: %t, with the error %v", written, err)
	}
	running, err := l.Running(t.Context())
	if err != nil || len(running) != 1 {
		t.Fatalf("reading what runs gives %d repairs, %v", len(running), err)
	}
	amends(t, l, running[0], "handed over")
}

// TestLedgerDropsWhatWasRead: a Repair that has changed since it was read stays, and so does another with its name. A
// missing one is no error.
func TestLedgerDropsWhatWasRead(t *testing.T) {
	t.Parallel()
	c, l, r := recordedOne(t)
	object := &v1alpha1.Repair{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	drops := func(sentence string, r core.Repair, want bool) {
		t.Helper()
		if dropped, err := l.Delete(t.Context(), r); dropped != want || err != nil {
			t.Errorf("%s: it is deleted: %t, with the error %v", sentence, dropped, err)
		}
	}
	label(t, c, object)
	drops("labelled since", r, false)
	if err := c.Delete(t.Context(), object); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	another, created, err := l.Create(t.Context(), repairOfANode(r.Started))
	if err != nil || !created {
		t.Fatalf("recording another gives %t, %v", created, err)
	}
	namesake := another
	namesake.UID, namesake.Revision = r.UID, 0
	drops("deleted and recorded anew", namesake, false)
	wantKept(t, l, another)
	drops("as it was read", another, true)
	drops("gone", another, true)
}

func label(t *testing.T, c *cluster.Cluster, o client.Object) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"of": "a-user"}}}`))
	if err := c.Patch(t.Context(), o, patch); err != nil {
		t.Fatalf("labelling: %v", err)
	}
}

func repairOfANode(started time.Time) core.NewRepair {
	node := core.ID{Kind: "Node", Name: "n", UID: "n-uid"}
	return core.NewRepair{
		Name: core.RepairName(node, 1), Started: started,
		Target: core.Target{ID: node, Node: core.Node{State: core.NodePresent, Name: "n"}},
		Policy: core.Policy{ID: core.ID{Kind: "NodeHealthCheck", Name: "workers", UID: "check-uid"}, Holder: holderOf("workers")},
		Steps:  manySteps(),
		Verdict: core.Verdict{
			Health: core.Unhealthy, Reason: core.ConditionMet, Criterion: core.ConditionCriterion{Type: "Ready", Status: "False", For: time.Minute},
		},
	}
}

func manySteps() []core.Step {
	template := core.Reference{APIVersion: "fix.example/v1", Kind: "FixTemplate", Namespace: "fixers", Name: "quick"}
	return []core.Step{
		{Remedy: "RequestNodeRemediation", Nature: core.CreateRequest, Template: template, Limit: 5*time.Minute + 250*time.Millisecond},
		{Remedy: "AnnotateMachine", Nature: core.Annotate, Limit: 48 * time.Hour},
		{Remedy: "DeleteMachine", Nature: core.Delete},
	}
}

// stepsOfARepair returns the states of a repair one after another, until its end.
func stepsOfARepair(started time.Time) func(yield func(string, func(*core.Repair)) bool) {
	at := func(minutes int) time.Time { return started.Add(time.Duration(minutes) * time.Minute) }
	return func(yield func(string, func(*core.Repair)) bool) {
		_ = yield("it is well", func(r *core.Repair) { r.Recovered = at(2) }) &&
			yield("it is not", func(r *core.Repair) { r.Recovered = time.Time{} }) &&
			yield("too slow", func(r *core.Repair) {
				r.Tried = []core.StepRecord{{Ended: at(5), Outcome: core.TimedOut, Text: "too slow"}}
			}) &&
			yield("handed over", func(r *core.Repair) { r.Begun = at(6) }) &&
			yield("can't be mended", func(r *core.Repair) {
				r.Tried, r.Begun = append(r.Tried, core.StepRecord{Ended: at(7), Outcome: core.Failed, Text: "can't be mended"}), time.Time{}
			}) &&
			yield("refused", func(r *core.Repair) { r.Attempts, r.LastAttempt = 1, at(8) })
	}
}

func wantKept(t *testing.T, l *ledger.Store, want core.Repair) {
	t.Helper()
	running, err := l.Running(t.Context())
	if err != nil {
		t.Fatalf("reading what runs: %v", err)
	}
	if diff := cmp.Diff([]core.Repair{want}, running); diff != "" {
		t.Errorf("repairs (-want +got):\n%s", diff)
	}
}
