package cli

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestRepairIsRefused shows where a request could do nothing.
func TestRepairIsRefused(t *testing.T) {
	for says, change := range map[string]func(*scene){
		"":                                  func(*scene) {},
		"it is being deleted already":       func(s *scene) { s.Targets[0].Deleting = true },
		"no health check selects it":        func(s *scene) { s.Policies[0].Members = []int{1, 2, 3, 4} },
		"whose selector also requires role": func(s *scene) { s.Policies[0].Members = []int{1, 2, 3, 4} },
		"is under way; fettle explain repair/" + core.RepairName(newScene().Targets[0].ID, 1): func(s *scene) {
			s.ready(0, "Unknown", time.Hour)
			s.repair(0, time.Minute, v1alpha1.RepairStatus{})
		},
		"every step of repair " + core.RepairName(newScene().Targets[0].ID, 1) + " was tried without success": func(s *scene) {
			s.ready(0, "Unknown", time.Hour)
			s.repair(0, time.Minute, v1alpha1.RepairStatus{Steps: []v1alpha1.RepairAttempt{{Outcome: v1alpha1.StepFailed}}})
		},
	} {
		s := newScene()
		change(s)
		err := s.assessment().refuseRequest(0, lacksRole)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

// TestRepairsThatAreNotRequested: a command that can't mean one target, or whose request would have no effect, writes nothing and
// says why.
func TestRepairsThatAreNotRequested(t *testing.T) {
	finished := v1alpha1.RepairStatus{Phase: v1alpha1.RepairSucceeded, FinishedAt: &metav1.Time{Time: noon.Add(-time.Minute)}}
	for _, c := range []struct {
		args   string
		change func(*fleet)
		want   string
	}{
		{"", func(*fleet) {}, "accepts between 1 and 2 arg(s), received 0"},
		{"machine worker-a worker-b", func(*fleet) {}, "accepts between 1 and 2 arg(s), received 3"},
		{"pod/a", func(*fleet) {}, `"pod" is none of the kinds that can be explained; give machine/NAME, node/NAME, repair/NAME, nodehealthcheck/NAME or machinehealthcheck/NAME`},
		{"mhc/workers", func(*fleet) {}, "a machinehealthcheck can't be repaired; give machine/NAME or node/NAME"},
		{"machine/worker-a -o xml", func(*fleet) {}, `--output is "xml"; give json or yaml, or leave it out for a table`},
		{"machine/worker-a", func(f *fleet) { f.refuse("GET "+machinesPath, http.StatusInternalServerError) }, "listing machines.machine.openshift.io in all namespaces: " + machinesPath + ": InternalError"},
		{"machine/worker-b", func(f *fleet) { f.drop(machinesPath, "machines/worker-b") }, "there is no machine worker-b in namespace machines; did you mean worker-a, worker-c, worker-d?"},
		{"machine/worker-z", func(f *fleet) { f.machine("elsewhere", "z", "worker") }, "there is no machine worker-z in namespace machines; there is one in namespace elsewhere (add -n elsewhere)"},
		{"machine/worker-x", func(f *fleet) { f.repair("x", finished) },
			"there is no machine worker-x any more, so no repair was requested; fettle explain repair/" + core.RepairName(core.ID{Kind: "Machine", Namespace: "machines", Name: "worker-x", UID: "machines-x"}, 1) + " shows its last repair"},
		{"node/node-a -n elsewhere", func(*fleet) {}, "No machine in namespace elsewhere refers to node node-a (status.nodeRef), so health checks of machines don't see it. " +
			"No NodeHealthCheck selects node node-a. Nothing is done to it. So fettle has requested nothing; have a health check select it first."},
		{"machine/worker-a -A", func(f *fleet) { f.machine("elsewhere", "a", "worker") },
			"there are several of the name machine worker-a; choose one by machine/worker-a -n elsewhere, or machine/worker-a -n machines"},
		{"node/node-a --workload-cluster east", func(*fleet) {}, "No machine refers to node node-a (status.nodeRef), so health checks of machines don't see it. " +
			"No NodeHealthCheck selects node node-a. Nothing is done to it. So fettle has requested nothing; have a health check select it first."},
		{"machine/worker-a", func(f *fleet) {
			f.clusters(func(*clusterScene) {})
			f.put("{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {namespace: machines, name: worker-a, uid: namesake, labels: {cluster.x-k8s.io/cluster-name: worker}}}")
		}, "there are several of the name machine worker-a; choose one by --workload-cluster='' -n machines, or --workload-cluster worker -n machines"},
		{"machine/east-a -n fleets", func(f *fleet) {
			f.clusters(func(s *clusterScene) {
				s.edit("Machine/east-a", "  labels:", "  annotations: {cluster.x-k8s.io/paused: ''}\n  labels:")
			})
		}, "no repair of Machine fleets/east-a was requested: it is excluded from all health checking, by annotation cluster.x-k8s.io/paused on it; remove that first"},
		{"machine/worker-a", func(f *fleet) { f.machine("machines", "a", "other") },
			"no repair of Machine machines/worker-a was requested: no health check selects it, so none says how it is repaired. " +
				"The nearest is workers, whose selector also requires role=worker. Have one select it first"},
	} {
		f := startFleet(t)
		c.change(f)
		got := f.transcript(strings.Fields("repair " + c.args)...)
		if want := strings.TrimRight("$ fettle repair "+c.args, " ") + "\nerror: " + c.want + "\n"; got != want {
			t.Errorf("it prints\n%s\nwant\n%s", got, want)
		}
	}
}

// TestRequestTime: a request is later than the last repair of its target, whatever the clock of the person says.
func TestRequestTime(t *testing.T) {
	now := noon.Add(1300 * time.Millisecond)
	for name, c := range map[string]struct {
		change func(*core.Repair)
		want   time.Time
	}{
		"long after a repair":               {func(r *core.Repair) { r.Ended = noon.Add(-time.Hour) }, noon.Add(time.Second)},
		"in the second in which it ended":   {func(r *core.Repair) { r.Ended = noon.Add(1900 * time.Millisecond) }, noon.Add(2 * time.Second)},
		"a second after it":                 {func(r *core.Repair) { r.Ended = noon }, noon.Add(time.Second)},
		"by a clock that runs behind it":    {func(r *core.Repair) { r.Ended = noon.Add(21500 * time.Millisecond) }, noon.Add(22 * time.Second)},
		"as late as the request it served":  {func(r *core.Repair) { r.Ended, r.Requested = noon.Add(-time.Hour), noon.Add(30*time.Second) }, noon.Add(31 * time.Second)},
		"of a repair under way":             {func(r *core.Repair) { r.Ended, r.Requested = time.Time{}, noon.Add(time.Hour) }, noon.Add(time.Second)},
		"of another machine":                {func(r *core.Repair) { r.Target.UID, r.Node = "uid-b", "node-b" }, noon.Add(time.Second)},
		"of its node":                       {func(r *core.Repair) { r.Target = core.ID{Kind: "Node", Name: "node-a", UID: "node-uid-a"} }, noon.Add(time.Hour + time.Second)},
		"of it when it had another node":    {func(r *core.Repair) { r.Node = "node-x" }, noon.Add(time.Hour + time.Second)},
		"of another machine without a node": {func(r *core.Repair) { r.Target.UID, r.Node = "uid-b", "" }, noon.Add(time.Second)},
	} {
		s := newScene()
		s.repair(0, 2*time.Hour, v1alpha1.RepairStatus{Phase: v1alpha1.RepairSucceeded, FinishedAt: &metav1.Time{Time: noon}})
		w := s.assessment()
		r := &w.cluster.Repairs[0]
		r.Ended = noon.Add(time.Hour)
		c.change(r)
		if r.Node == "" {
			w.cluster.Targets[0].Node.Name = ""
		}
		if got := w.requestTime(0, now); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestExhaustedRepair: a repair has given up once it has tried each of its steps. One whose steps can't be read has not.
func TestExhaustedRepair(t *testing.T) {
	for _, c := range []struct {
		tried, steps int
		want         bool
	}{{0, 0, false}, {0, 1, false}, {1, 2, false}, {1, 1, true}, {2, 2, true}, {2, 1, true}} {
		w := &assessment{cluster: core.Cluster{Repairs: []core.Repair{{Tried: make([]core.StepRecord, c.tried), Steps: make([]core.Step, c.steps)}}}}
		if got := w.exhausted(0); got != c.want {
			t.Errorf("after %d of %d steps: %t", c.tried, c.steps, got)
		}
	}
}

// TestRepairRequestPage: the page says what was done, what each gate says, and how the request is taken back.
func TestRepairRequestPage(t *testing.T) {
	s := newScene()
	s.Policies[0].Paused = true
	s.Targets[0].RepairRequest.At = noon
	w := s.assessment()
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "a"},
	}
	r := &RepairRequest{
		Header: header(), Written: true, Message: w.requestedText(0, noon, false), Target: w.explainTarget(0, nil, lacksRole),
		HealthChecks: w.selecting(0), Undo: undo(object),
	}
	var out bytes.Buffer
	(&page{Writer: &out, at: noon}).repairRequest(r)
	for _, words := range []string{
		"Requested a repair of machine machines/", "by annotation fettle.io/repair-requested-at=" + noon.Format(time.RFC3339),
		"Held back by\n  Paused (example)", "Gates of MachineHealthCheck machines/", "Paused is closed", "TooManyUnhealthy is open",
		"lapses at", "kubectl annotate -n machines machines.machine.openshift.io a fettle.io/repair-requested-at-",
	} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("it does not say %q:\n%s", words, out.String())
		}
	}
	if text := w.requestedText(0, noon, true); !strings.HasPrefix(text, "Nothing was written.") {
		t.Errorf("a dry run says %q", text)
	}
}
