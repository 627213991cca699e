package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// TestFindByNode: the name of a node is that of the node and of its machine, unless health checks select only one of them.
func TestFindByNode(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change     func(*nodeScene)
		kind, name string
		want       string
	}{
		"both are selected":     {func(*nodeScene) {}, nodeSubject, "node-a", "Machine/machines/worker-a Node/node-a"},
		"only the node is":      {func(s *nodeScene) { s.machines.Policies[0].Members = []int{1} }, nodeSubject, "node-a", "Node/node-a"},
		"only the machine is":   {func(s *nodeScene) { s.Policies[0].Members = []int{1} }, nodeSubject, "node-a", "Machine/machines/worker-a"},
		"neither is":            {func(s *nodeScene) { s.Policies[0].Members, s.machines.Policies[0].Members = nil, nil }, nodeSubject, "node-a", "Machine/machines/worker-a Node/node-a"},
		"a machine is not":      {func(s *nodeScene) { s.machines.Policies[0].Members = nil }, machineSubject, "worker-a", "Machine/machines/worker-a"},
		"a machine of twins is": {func(s *nodeScene) { s.twin() }, machineSubject, "worker-a", "Machine/machines/worker-a Machine/elsewhere/worker-a"},
	} {
		s := newNodeScene(t)
		s.machines = newScene()
		tc.change(s)
		w := s.assessment()
		var got []string
		for _, i := range w.find(tc.kind, tc.name, "") {
			id := w.cluster.Targets[i].ID
			got = append(got, id.Kind+"/"+strings.TrimPrefix(id.Namespace+"/"+id.Name, "/"))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %s", sentence, got, tc.want)
		}
	}
}

// twin adds a machine of the first one's name in another namespace, which no health check selects.
func (s *nodeScene) twin() {
	twin := s.machines.Targets[0]
	twin.ID.Namespace, twin.ID.UID, twin.Node = "elsewhere", "twin", core.Node{State: core.NodeAwaited}
	s.machines.Targets = append(s.machines.Targets, twin)
}

// TestUnknownNode: of a node that is no target it is said why, for each kind of health check that was read.
func TestUnknownNode(t *testing.T) {
	lacks := func(missing ...string) Reading { return unselecting{missing} }
	for sentence, tc := range map[string]struct {
		of     []Reading
		within string
		want   string
	}{
		"of machines":            {[]Reading{(&OpenShift{}).Read()}, "", "No machine refers to node n (status.nodeRef), so health checks of machines don't see it. Nothing is done to it."},
		"of machines within":     {[]Reading{(&OpenShift{}).Read()}, "machines", "No machine in namespace machines refers to node n (status.nodeRef), so health checks of machines don't see it. Nothing is done to it."},
		"of nodes":               {[]Reading{NHC{}.Read()}, "", "No NodeHealthCheck selects node n. Nothing is done to it."},
		"of nodes, with nearest": {[]Reading{NHC{}.Read(), lacks("role=worker")}, "", "No NodeHealthCheck selects node n. The nearest is example, whose selector also requires role=worker. Nothing is done to it."},
		"of none":                {nil, "", "Nothing is done to it."},
	} {
		v := &view{at: noon}
		for _, r := range tc.of {
			v.parts = append(v.parts, &part{Reading: r})
		}
		if got := newScene().assessment().unknownNode("n", tc.within, v); got != tc.want {
			t.Errorf("%s: %q, want %q", sentence, got, tc.want)
		}
	}
}

// unselecting is a reading of health checks that lack some requirements of each target.
type unselecting struct{ missing []string }

func (unselecting) Sources() []Source                      { return nil }
func (unselecting) Observe(time.Time) []ClusterObservation { return nil }
func (r unselecting) Unmet(_, _ core.ID) ([]string, bool)  { return r.missing, true }

// TestNearest: of the health checks that could select a target, that whose selector misses it by the least is named.
func TestNearest(t *testing.T) {
	type answer struct {
		missing  []string
		possible bool
	}
	for sentence, tc := range map[string]struct {
		answers []answer
		want    string
	}{
		"none could":                   {[]answer{{[]string{"a=b"}, false}, {nil, false}}, "There is no health check that could select it."},
		"one could":                    {[]answer{{nil, false}, {[]string{"a=b"}, true}}, "The nearest is check-1, whose selector also requires a=b."},
		"the second misses it by less": {[]answer{{[]string{"a=b", "c=d"}, true}, {[]string{"e=f"}, true}}, "The nearest is check-1, whose selector also requires e=f."},
		"the first does":               {[]answer{{[]string{"e=f"}, true}, {[]string{"a=b", "c=d"}, true}}, "The nearest is check-0, whose selector also requires e=f."},
		"the older of equals":          {[]answer{{[]string{"a=b"}, true}, {[]string{"c=d"}, true}}, "The nearest is check-0, whose selector also requires a=b."},
		"nothing is missed":            {[]answer{{[]string{}, true}, {[]string{"a=b", "c=d"}, true}}, "The nearest is check-1, whose selector also requires a=b and c=d."},
	} {
		w := &assessment{}
		byName := map[string]answer{}
		for i, a := range tc.answers {
			name := fmt.Sprint("check-", i)
			byName[name] = a
			w.policies = append(w.policies, core.Policy{ID: core.ID{Name: name}})
		}
		got := w.nearest(core.ID{}, func(policy, _ core.ID) ([]string, bool) {
			return byName[policy.Name].missing, byName[policy.Name].possible
		})
		if got != tc.want {
			t.Errorf("%s: %q, want %q", sentence, got, tc.want)
		}
	}
}

// TestEarlierRepairs: the last repairs of a target and of its owner's other targets that have ended are told, the youngest first.
func TestEarlierRepairs(t *testing.T) {
	s := newScene()
	w := s.assessment()
	a := s.Targets[0].ID
	repair := func(name string, target, owner core.ID, ago time.Duration) core.Repair {
		return core.Repair{Name: name, Target: target, Owner: owner, Started: noon.Add(-ago), Ended: noon, Outcome: core.Succeeded}
	}
	other := core.ID{Kind: "MachineSet", Namespace: "machines", Name: "others", UID: "other"}
	w.cluster.Repairs = []core.Repair{
		repair("of-a", a, other, 4*time.Hour), repair("of-pool", core.ID{UID: "gone"}, workers, time.Hour), repair("of-another-pool", core.ID{UID: "gone"}, other, time.Minute),
		repair("third", a, workers, 3*time.Hour), repair("second", a, workers, 2*time.Hour), repair("fifth", a, workers, 5*time.Hour), repair("sixth", a, workers, 6*time.Hour),
		{Name: "running", Target: a, Owner: workers, Started: noon},
	}
	for _, r := range w.cluster.Repairs {
		w.repairDetails = append(w.repairDetails, ledger.Details{Repair: r})
	}
	names := func(target *core.Target) string {
		var found []string
		for _, r := range w.earlier(target) {
			found = append(found, r.Name)
		}
		return strings.Join(found, " ")
	}
	if got, want := names(&s.Targets[0]), "of-pool second third of-a fifth"; got != want {
		t.Errorf("they are %q, want %q", got, want)
	}
	alone := s.Targets[0]
	alone.Owner = core.ID{}
	if got, want := names(&alone), "second third of-a fifth sixth"; got != want {
		t.Errorf("without an owner they are %q, want %q", got, want)
	}
}

// TestAdviceOnRefusedCalls: while calls are refused, their error is the advice. Once the machine is being deleted, its finalizers are.
func TestAdviceOnRefusedCalls(t *testing.T) {
	refused := "The last error says why the call was refused. Once the cause is corrected, the next call succeeds. Waiting is safe."
	finalizers := "If it takes long, look at what the owner of the finalizer reports: kubectl describe machine worker-a. A drain that a PodDisruptionBudget blocks is the usual cause."
	for sentence, tc := range map[string]struct {
		attempts int32
		deleting bool
		want     string
	}{
		"none is refused":           {0, false, ""},
		"one is":                    {1, false, refused},
		"and the machine goes":      {1, true, finalizers},
		"without a refusal it goes": {0, true, finalizers},
	} {
		s := newScene()
		s.ready(0, "Unknown", time.Hour)
		s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning, Attempts: tc.attempts})
		meta := &metav1.PartialObjectMetadata{}
		if s.Targets[0].Deleting = tc.deleting; tc.deleting {
			meta.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		if got := s.assessment().explainRepair(0, meta).Advice; got != tc.want {
			t.Errorf("%s: %q, want %q", sentence, got, tc.want)
		}
	}
}
