package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// session connects to the management cluster as a command does. It is about every cluster.
func (f *managementCluster) session() *session {
	f.t.Helper()
	s, cmd := newSession(testOptions(f.now)), &cobra.Command{}
	s.addFlags(cmd)
	s.concerns = func(*view, *ClusterObservation) bool { return true }
	if err := s.open(cmd); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// TestWatch: each answer stands below its time, and the last one says that the object is gone, or is the end of a repair.
func TestWatch(t *testing.T) {
	f := startManagementCluster(t)
	f.ended()
	running := f.scene.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	f.serve()
	text := f.run("explain repair/" + repairOf("worker-b", "uid-b") + " --watch")
	f.watched = func() { // it is deleted after the first answer
		delete(f.items[repairsList], running.Namespace+"/"+running.Name)
		delete(f.scene.repairs, running.Namespace+"/"+running.Name)
		f.serve()
	}
	text += f.run("explain repair/" + running.Name + " -w")
	f.watched = func() {
		delete(f.items[machinesList], "machines/worker-c")
		f.serve()
	}
	text += f.run("explain machine/worker-c -w") + f.run("explain machine/worker-c -w") + f.run("status -w -o xml")
	golden(t, "commands-watch.txt", text)
}

// TestAnotherAnswer: an answer differs from the one before in more than the time, and in more than the renewal of the lease.
func TestAnotherAnswer(t *testing.T) {
	f := startManagementCluster(t)
	f.serve()
	s := f.session()
	v, err := s.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (string, string) {
		key, a, err := s.ask(t.Context(), v, s.status(0))
		if err != nil {
			t.Fatal(err)
		}
		return key, a.header.Controller.Lease
	}
	first, lease := ask()
	if lease != "fettle-system/fettle" {
		t.Errorf("the answer has lease %q", lease)
	}
	f.now = noon.Add(10 * time.Second)
	f.lead("fettle-0", time.Second)
	if again, _ := ask(); again != first {
		t.Errorf("it is another answer 10s later:\n%s\n%s", first, again)
	}
	f.lead("fettle-1", time.Second)
	if other, _ := ask(); other == first {
		t.Error("it is the same answer when another leads")
	}
}

// TestEarliest: an answer changes with the first of the waits of owners, if that is before all else.
func TestEarliest(t *testing.T) {
	waits := func(after ...time.Duration) ExplainedTarget {
		a := &OwnerAnswer{Waits: []OwnerWait{{}}}
		for _, d := range after {
			a.Waits = append(a.Waits, OwnerWait{Until: instant(noon.Add(d))})
		}
		return ExplainedTarget{OwnerAnswer: a}
	}
	for name, c := range map[string]struct {
		next    time.Time
		targets []ExplainedTarget
		want    time.Time
	}{
		"no owner answers":        {noon, []ExplainedTarget{{}}, noon},
		"the owner waits longer":  {noon, []ExplainedTarget{{}, waits(time.Minute)}, noon},
		"the owner is first":      {noon.Add(time.Hour), []ExplainedTarget{{}, waits(2*time.Minute, time.Minute), waits(3 * time.Minute)}, noon.Add(time.Minute)},
		"nothing else is awaited": {time.Time{}, []ExplainedTarget{waits(time.Minute)}, noon.Add(time.Minute)},
	} {
		if got := earliest(c.next, c.targets); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	at := func(next time.Time) *assessment { return &assessment{decision: core.Decision{NextAt: next}} }
	if got := nextOf([]*assessment{at(time.Time{}), at(noon.Add(time.Hour)), at(noon), at(noon.Add(time.Minute))}); !got.Equal(noon) {
		t.Errorf("the decisions change at %s, want %s", got, noon)
	}
}

// TestKindsOf: the kinds of a name are found in any case and once each, and another kind is not among them.
func TestKindsOf(t *testing.T) {
	f := startManagementCluster(t)
	f.workloads()
	f.serve()
	s := f.session()
	v, err := s.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string][]schema.GroupVersionKind{
		"machine": {{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"}, {Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}},
		"Node":    {{Version: "v1", Kind: "Node"}}, "pod": nil,
	} {
		got := kindsOf(s.cluster, append(v.sources(), v.sources()...), kind)
		byName := cmpopts.SortSlices(func(a, b schema.GroupVersionKind) bool { return a.String() < b.String() })
		if diff := cmp.Diff(want, got, byName); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// TestObservationsOfRepairs: a workload cluster that has nothing but repairs is observed once, unless all of them are ignored or the
// question is about another cluster.
func TestObservationsOfRepairs(t *testing.T) {
	s := newClusterScene(t)
	for _, machine := range []string{"east-a", "west-a", "gone-a", "gone-b", "other-a", "forged-a"} {
		cluster, _, _ := strings.Cut(machine, "-")
		s.repair(cluster, machine, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	}
	s.repair("", "own-a", v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	v := s.view()
	for key, a := range v.repairDetails {
		a.Ignored = a.Cluster.Name == "forged"
		v.repairDetails[key] = a
	}
	v.concerns = func(_ *view, f *ClusterObservation) bool {
		return f.Cluster.Name != "other" && (f.Cluster.Name != "west" || len(f.Policies) == 0)
	}
	var got []string
	for _, f := range v.observations() {
		got = append(got, f.Cluster.Name)
	}
	if want := []string{"east", "gone"}; !slices.Equal(got, want) {
		t.Errorf("it observes clusters %q, want %q", got, want)
	}
}
