package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/messages"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// noon is now in every test.
var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// golden compares a text with a file in testdata, or rewrites the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatalf("writing a golden file: %v", err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading a golden file (go test ./internal/cli -update makes it): %v", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got); go test ./internal/cli -update rewrites it:\n%s", name, diff)
	}
}

// scene is a small cluster that tests make by hand.
type scene struct {
	core.Observation

	repairs map[string]*v1alpha1.Repair
}

var workers = core.ID{Kind: "MachineSet", Namespace: "machines", Name: "workers", UID: "set"}

// newScene has machines a to e, all healthy, and one health check that selects them all.
func newScene() *scene {
	s := &scene{Observation: core.Observation{Kind: "Machine", Observed: core.Yes}, repairs: map[string]*v1alpha1.Repair{}}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.Targets = append(s.Targets, core.Target{
			ID:    core.ID{Kind: "Machine", Namespace: "machines", Name: "worker-" + name, UID: "uid-" + name},
			Owner: workers, Created: noon.Add(-24 * time.Hour), NodeReadAt: noon, Revision: "1", Parts: core.NoParts(),
			Node: core.Node{State: core.NodePresent, Name: "node-" + name, UID: "node-uid-" + name, Conditions: []core.Condition{
				{Type: "Ready", Status: "True", Since: noon.Add(-23 * time.Hour)},
			}},
		})
	}
	s.check("example", 48*time.Hour)
	return s
}

// check adds a health check of an age, which selects all machines.
func (s *scene) check(name string, age time.Duration) *core.Policy {
	p := core.Policy{
		Advice: messages.Advice(),
		ID:     core.ID{Kind: "MachineHealthCheck", Namespace: "machines", Name: name, UID: "uid-" + name}, Created: noon.Add(-age),
		Criteria: core.Criteria{NodeStartup: 10 * time.Minute, Conditions: []core.ConditionCriterion{
			{Type: "Ready", Status: "False", For: 5 * time.Minute}, {Type: "Ready", Status: "Unknown", For: 5 * time.Minute},
		}},
		ShortCircuit: core.ShortCircuit{MaxUnhealthy: core.Percent(40)}, MaxInFlight: core.Count(1), Backoff: core.DefaultBackoff(),
		StormCooldown: core.DefaultStormCooldown, Steps: []core.Step{{Remedy: "DeleteMachine"}},
	}
	for i := range s.Targets {
		p.Members = append(p.Members, i)
	}
	s.Policies = append(s.Policies, p)
	return &s.Policies[len(s.Policies)-1]
}

// ready sets the Ready condition of a machine's node, which has changed some time ago.
func (s *scene) ready(machine int, status string, ago time.Duration) {
	s.Targets[machine].Node.Conditions = []core.Condition{{Type: "Ready", Status: status, Since: noon.Add(-ago)}}
}

// repair records a repair of a machine that began some time ago.
func (s *scene) repair(machine int, ago time.Duration, status v1alpha1.RepairStatus) *v1alpha1.Repair {
	t := &s.Targets[machine]
	r := &v1alpha1.Repair{
		ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: core.RepairName(t.ID, 1)},
		Spec: v1alpha1.RepairSpec{
			Target: v1alpha1.RepairTarget{ObjectReference: objectReference(t.ID), Node: t.Node.Name},
			Policy: objectReference(s.Policies[0].ID), Reason: "UnhealthyCondition", Message: "node condition Ready=Unknown since then",
			Ladder: []v1alpha1.RepairStep{{Remedy: "DeleteMachine"}}, StartedAt: metav1.MicroTime{Time: noon.Add(-ago)},
			UnhealthySince: &metav1.Time{Time: noon.Add(-ago - 5*time.Minute)},
		},
		Status: status,
	}
	owner := objectReference(t.Owner)
	r.Spec.Owner = &owner
	s.repairs[r.Namespace+"/"+r.Name] = r
	return r
}

func objectReference(id core.ID) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, UID: id.UID}
}

func (s *scene) assessment() *assessment {
	around := newExternalFacts()
	return newAssessment(core.ClusterKey{}, []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: &OpenShift{}}}, detailsOf(s.repairs), &around, noon)
}

// detailsOf reads repairs as they come from the API server.
func detailsOf(repairs map[string]*v1alpha1.Repair) map[string]ledger.Details {
	accounts := map[string]ledger.Details{}
	for k, r := range repairs {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
		if err != nil {
			panic(err)
		}
		accounts[k] = ledger.ReadDetails(&unstructured.Unstructured{Object: object}, "fettle-system")
	}
	return accounts
}

// header is that of an answer while a controller leads.
func header() Header {
	holder, seconds, renewed := "fettle-0", int32(15), metav1.NewMicroTime(noon.Add(-2*time.Second))
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed}}
	return Header{APIVersion: APIVersion, At: instant(noon), Controller: controllerOf(lease, "", "fettle-system", noon)}
}

// printed returns what a function prints.
func printed(colours bool, show func(*page)) string {
	var out bytes.Buffer
	show(&page{Writer: &out, colours: colours, at: noon})
	return out.String()
}

// TestStepsOfMachinesThatMayNotBeSeen: whether repairs are allowed hangs on templates, so that of templates that the person may
// not list nothing is said.
func TestStepsOfMachinesThatMayNotBeSeen(t *testing.T) {
	for hidden, unknown := range map[string]bool{"Fence": true, "Other": false} {
		for sentence, place := range map[string]func(*core.Policy){
			"its steps":              func(p *core.Policy) { p.Steps = []core.Step{nodeStep("Fence", time.Minute)} },
			"its steps for failures": func(p *core.Policy) { p.FailedSteps = []core.Step{nodeStep("Fence", time.Minute)} },
		} {
			s := newScene()
			place(&s.Policies[0])
			around := newExternalFacts()
			around.templates.Hide(templateKind(hidden), "you may not list fencetemplates.fix.example")
			w := newAssessment(core.ClusterKey{}, []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: &OpenShift{}}}, nil, &around, noon)
			h := w.healthCheck(0)
			if (h.Repairs == repairsUnknown) != unknown || strings.Contains(h.Message, "you may not list") != unknown {
				t.Errorf("%s, when templates of %s may not be listed: %s, %q, %q", sentence, hidden, h.Repairs, h.Reason, h.Message)
			}
		}
	}
}

// TestMostSevereFirst: of what is not healthy the most severe comes first, and what is under repair and healthy again comes last.
func TestMostSevereFirst(t *testing.T) {
	s := newScene()
	s.Policies[0].ShortCircuit.MaxUnhealthy = core.Percent(100)
	s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	s.ready(1, "Unknown", time.Minute)
	s.Targets[2].Node.Conditions = []core.Condition{{Type: "Ready", Status: "Unknown"}}
	s.Targets[3].Deleting = true
	s.ready(4, "Unknown", time.Hour)
	var got []string
	for _, target := range buildStatus([]*assessment{s.assessment()}, "", header()).NotHealthy {
		got = append(got, target.Name+" is "+target.Health)
	}
	want := []string{"worker-e is unhealthy", "worker-d is gone", "worker-c is unknown", "worker-b is suspect", "worker-a is healthy"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLeadOfARepair: the health check that began a repair leads, even if an older one finds the machine unhealthy and it does not.
func TestLeadOfARepair(t *testing.T) {
	s := newScene()
	s.ready(0, "Unknown", time.Hour)
	s.check("young", time.Hour).Criteria.Conditions = nil
	if got := s.assessment().target(0); got.Lead == nil || got.Lead.HealthCheck.Name != "example" || got.Health != "unhealthy" {
		t.Errorf("without a repair it is %s, led by %+v", got.Health, got.Lead)
	}
	r := s.repair(0, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	r.Spec.Policy = objectReference(s.Policies[1].ID)
	if got := s.assessment().target(0); got.Lead == nil || got.Lead.HealthCheck.Name != "young" || got.Health != "healthy" {
		t.Errorf("under repair it is %s, led by %+v", got.Health, got.Lead)
	}
}

// TestLeadNamesItsTarget: of two machines with one node, the lead is about the machine under repair, and the other has its own verdict.
func TestLeadNamesItsTarget(t *testing.T) {
	s := newNodeScene(t)
	s.machines = newScene()
	s.machines.Targets[1].Node = s.machines.Targets[0].Node
	s.machines.Targets[0].Failed, s.machines.Targets[0].FailedSince = true, noon.Add(-time.Hour)
	s.repairs = s.machines.repairs
	s.machines.repair(1, time.Minute, v1alpha1.RepairStatus{Phase: v1alpha1.RepairRunning})
	w := s.assessment()
	for target, health := range []string{"unhealthy", "healthy"} {
		lead, leads := w.lead(target)
		if worst, _ := w.worst(target); !leads || lead.Target != 1 || worst.Target != target || worst.Health.String() != health {
			t.Errorf("machine %d: the lead is %+v, and the verdict is %+v", target, lead, worst)
		}
	}
}

// TestWorstOfDryRuns: a dry run's verdict counts only if no other health check has one.
func TestWorstOfDryRuns(t *testing.T) {
	s := newScene()
	s.ready(0, "Unknown", time.Minute)
	s.Policies[0].DryRun, s.Policies[0].Criteria.Conditions[1].For = true, time.Second
	s.check("young", time.Hour)
	w := s.assessment()
	if v, judged := w.worst(0); !judged || v.Policy != 1 || v.Health != core.Suspect {
		t.Errorf("its verdict is %+v", v)
	}
}

// TestOldestRepairOfATarget: of two running repairs of a target, the status shows the first.
func TestOldestRepairOfATarget(t *testing.T) {
	s := newScene()
	w := s.assessment()
	repair := func(name string, sequence uint64, ago time.Duration) core.Repair {
		return core.Repair{Name: name, Sequence: sequence, Started: noon.Add(-ago), Target: s.Targets[0].ID}
	}
	for sentence, tc := range map[string]struct {
		repairs []core.Repair
		want    int
	}{
		"of the lower number":        {[]core.Repair{repair("a", 2, time.Hour), repair("b", 1, time.Minute)}, 1},
		"that began earlier":         {[]core.Repair{repair("a", 1, time.Minute), repair("b", 1, time.Hour)}, 1},
		"by name":                    {[]core.Repair{repair("b", 1, time.Minute), repair("a", 1, time.Minute)}, 1},
		"in order":                   {[]core.Repair{repair("a", 1, time.Minute), repair("b", 1, time.Minute)}, 0},
		"the first, if all is equal": {[]core.Repair{repair("a", 1, time.Minute), repair("a", 1, time.Minute)}, 0},
	} {
		w.cluster.Repairs = tc.repairs
		w.indexRepairs()
		if got, under := w.repairOf(0); !under || got != tc.want {
			t.Errorf("%s: repair %d, want %d", sentence, got, tc.want)
		}
	}
}
