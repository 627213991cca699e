package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

const replaces = `status: {conditions: [{type: Processing, status: "True"}, {type: PermanentNodeDeletionExpected, status: "True"}]}`

// goneScenes are repairs of node-a, which is gone.
var goneScenes = map[string]func(*nodeScene){
	"replacing": func(s *nodeScene) {
		s.repair(0, 2*time.Minute, nil)
		s.request("Reboot", "node-a", 2*time.Minute, replaces)
	},
	"replacing-without-limit": func(s *nodeScene) {
		s.Policies[0].Steps = []core.Step{nodeStep("Reboot", 0)}
		s.repair(0, 2*time.Minute, nil)
		s.request("Reboot", "node-a", 2*time.Minute, replaces)
	},
	"ending": func(s *nodeScene) {
		s.repair(0, 2*time.Minute, nil)
		s.request("Reboot", "node-a", 2*time.Minute, processing)
	},
	"hidden": func(s *nodeScene) {
		s.repair(0, 2*time.Minute, nil)
		s.around.templates.Hide(requestKind("Reboot"), "you may not list reboots.fix.example")
	},
	"ended": func(s *nodeScene) {
		s.repair(0, 10*time.Minute, ended(v1alpha1.RepairSucceeded, "the target is gone, and its remediator has had it replaced"))
	},
	"ended-in-second-step": func(s *nodeScene) {
		s.Policies[0].Steps = append(s.Policies[0].Steps, nodeStep("Reboot", 0))
		s.repair(0, 10*time.Minute, func(r *v1alpha1.Repair) {
			firstStepOver(5*time.Minute, v1alpha1.StepFailed)(r)
			ended(v1alpha1.RepairSucceeded, "the target is gone, and its remediator has had it replaced")(r)
		})
	},
	"withdrawn": func(s *nodeScene) {
		s.repair(0, 10*time.Minute, ended(v1alpha1.RepairWithdrawn, "its target is gone, or no health check selects it any more"))
	},
	"ended-and-kept": func(s *nodeScene) {
		s.repair(0, 10*time.Minute, ended(v1alpha1.RepairSucceeded, "the target is gone, and its remediator has had it replaced"))
		s.kept("Reboot", "node-a", "node-uid-a", 5*time.Minute)
	},
	"recovered": func(s *nodeScene) {
		s.repair(0, 10*time.Minute, ended(v1alpha1.RepairRecovered, "the target is healthy again"))
	},
}

// ended has a repair end a minute ago.
func ended(phase v1alpha1.RepairPhase, message string) func(*v1alpha1.Repair) {
	return func(r *v1alpha1.Repair) {
		r.Status.Phase, r.Status.Message, r.Status.FinishedAt = phase, message, &metav1.Time{Time: noon.Add(-time.Minute)}
	}
}

// withoutFirst removes node-a.
func (s *nodeScene) withoutFirst() {
	s.Targets = s.Targets[1:]
	for i := range s.Policies {
		s.Policies[i].Members = []int{0, 1, 2, 3}
	}
}

// TestScenesOfGoneNodes: a node that is gone is explained by its repair, whose steps are told as they are.
func TestScenesOfGoneNodes(t *testing.T) {
	for name, change := range goneScenes {
		t.Run(name, func(t *testing.T) {
			s := newNodeScene(t)
			change(s)
			s.withoutFirst()
			w := s.assessment()
			of, err := (&session{}).repairOfGone([]*assessment{w}, nodeSubject, "node-a", "default")
			if err != nil || of.assessment == nil {
				t.Fatalf("no repair of node-a is found: %v", err)
			}
			e := w.explainRepair(of.repair, nil)
			e.Header, e.Message = header(), goneText(nodeSubject, "node-a", &w.cluster.Repairs[of.repair])
			golden(t, "gone-"+name+".txt", "$ fettle explain node/node-a\n"+printed(false, func(p *page) { p.repairExplanation(&e) }))
		})
	}
}

// TestRepairOfGone: a target that is gone is told by its running repair, or else by the last that ended.
func TestRepairOfGone(t *testing.T) {
	repair := func(name string, target core.ID, node string, started, ended time.Duration) core.Repair {
		r := core.Repair{Namespace: "machines", Name: name, Target: target, Node: node, Started: noon.Add(-started)}
		if ended > 0 {
			r.Ended = noon.Add(-ended)
		}
		return r
	}
	machine := core.ID{Kind: "Machine", Namespace: "machines", Name: "worker-a", UID: "1"}
	first, last := repair("first", machine, "node-a", time.Hour, 50*time.Minute), repair("last", machine, "node-a", 40*time.Minute, 30*time.Minute)
	runs := repair("runs", machine, "node-a", time.Hour, 0)
	east, west := &assessment{key: core.ClusterKey{Namespace: "machines", Name: "east"}}, &assessment{key: core.ClusterKey{Namespace: "machines", Name: "west"}}
	cases := map[string]struct {
		kind, name, within string
		east, west         []core.Repair
		want, problem      string
	}{
		"the last that ended":           {machineSubject, "worker-a", "machines", []core.Repair{first, last}, nil, "last", ""},
		"the running repair":            {machineSubject, "worker-a", "", []core.Repair{runs, last}, nil, "runs", ""},
		"by its node":                   {nodeSubject, "node-a", "", []core.Repair{last, first}, nil, "last", ""},
		"of another name":               {machineSubject, "worker-b", "machines", []core.Repair{last}, nil, "", ""},
		"in another namespace":          {machineSubject, "worker-a", "default", []core.Repair{last}, nil, "", ""},
		"a machine's name is no node's": {nodeSubject, "worker-a", "", []core.Repair{last}, nil, "", ""},
		"in two clusters":               {nodeSubject, "node-a", "", []core.Repair{last}, []core.Repair{first}, "", "--workload-cluster west -n machines"},
	}
	for sentence, tc := range cases {
		east.cluster.Repairs, west.cluster.Repairs = tc.east, tc.west
		of, err := (&session{}).repairOfGone([]*assessment{east, west}, tc.kind, tc.name, tc.within)
		got := ""
		if of.assessment != nil {
			got = of.cluster.Repairs[of.repair].Name
		}
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if got != tc.want || (problem != "") != (tc.problem != "") || !strings.Contains(problem, tc.problem) {
			t.Errorf("%s: got %q and error %q, want %q and %q", sentence, got, problem, tc.want, tc.problem)
		}
	}
}

// TestAdviceAfter: the advice about a repair that has ended is true of its steps.
func TestAdviceAfter(t *testing.T) {
	record := core.StepRecord{Outcome: core.Failed}
	for name, c := range map[string]struct {
		outcome core.Outcome
		records []core.StepRecord
		exists  bool
		want    string
	}{
		"nothing was done":           {core.Recovered, nil, true, "Nothing was done to the node; explain node/n says how it is judged now."},
		"no step has helped":         {core.Withdrawn, []core.StepRecord{record, record}, true, "No step has helped; explain node/n says how it is judged now."},
		"one step has not helped":    {core.Withdrawn, []core.StepRecord{record}, true, "No step has helped; explain node/n says how it is judged now."},
		"it was tried, and replaced": {core.Withdrawn, []core.StepRecord{record}, false, "Fettle knows of no replacement. See what its remediators report, and replace the node by hand if nothing else does."},
		"its health check was gone":  {core.Withdrawn, nil, true, "Its progress says why it ended; explain node/n says how it is judged now."},
		"it was not replaced":        {core.Withdrawn, nil, false, "Fettle knows of no replacement. See what its remediators report, and replace the node by hand if nothing else does."},
		"it was replaced":            {core.Succeeded, nil, false, "Nothing is to be done. If its replacement fails too, explain that one."},
		"it is well, and then gone":  {core.Recovered, nil, false, ""},
	} {
		r := &core.Repair{
			Target: core.ID{Kind: "Node", Name: "n"}, Outcome: c.outcome, Tried: c.records, Steps: []core.Step{nodeStep("Reboot", 0), nodeStep("Fence", 0)},
		}
		if got := adviceAfter(r, c.exists); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	deleted, asked, none := core.Step{Nature: core.Delete}, nodeStep("Reboot", 0), []core.Step(nil)
	for name, c := range map[string]struct {
		steps []core.Step
		want  string
	}{
		"it was asked for":                      {[]core.Step{asked, deleted}, "Nothing is to be done. If the node fails again, explain that."},
		"it was deleted, and it is still there": {[]core.Step{deleted, asked}, "Nothing is to be done. If its replacement fails too, explain that one."},
		"its only step has deleted it":          {[]core.Step{deleted}, "Nothing is to be done. If its replacement fails too, explain that one."},
		"its steps can't be read":               {none, "Nothing is to be done. If the node fails again, explain that."},
	} {
		r := &core.Repair{Target: core.ID{Kind: "Node", Name: "n"}, Outcome: core.Succeeded, Steps: c.steps}
		if got := adviceAfter(r, true); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestHealthCheckWaitsForAReplacement: while all nodes that are left are healthy, what is awaited is said.
func TestHealthCheckWaitsForAReplacement(t *testing.T) {
	s := newNodeScene(t)
	goneScenes["replacing-without-limit"](s)
	s.withoutFirst()
	e := s.assessment().explainCheck(0)
	if want := "It selects nothing that is unhealthy, and it waits: node node-a is gone, and its repair goes on: Reboot remediators/node-a has not said yet that it is replaced."; e.Idle != want {
		t.Errorf("it says %q, want %q", e.Idle, want)
	}
}

// TestExplainedGone: a name without a target is explained by its node, or by its last repair.
func TestExplainedGone(t *testing.T) {
	ran := v1alpha1.RepairStatus{Phase: v1alpha1.RepairSucceeded, Message: "the target is gone", FinishedAt: &metav1.Time{Time: noon.Add(-time.Minute)}}
	east := func(clusters ...string) func(*fleet) {
		return func(f *fleet) {
			f.clusters(func(*clusterScene) {})
			for _, cluster := range clusters {
				f.repairIn(cluster, "east-z", ran)
			}
		}
	}
	goldenRuns(t, "explain-gone.txt", []run{
		{"The node is none of a machine.", "explain node/node-z", func(f *fleet) { f.node("z", "True", noon) }},
		{"The node may not be read.", "explain node/node-z", refusing(http.StatusForbidden, "/api/v1/nodes/node-z")},
		{"There never was a machine.", "explain machine/worker-z", func(*fleet) {}},
		{"Its repair has ended.", "explain machine/worker-z", func(f *fleet) { f.repair("z", finishedRepair()) }},
		{"For programs.", "explain machine/worker-z -o json", func(f *fleet) { f.repair("z", finishedRepair()) }},
		{"Its repair is under way.", "explain node/node-z", func(f *fleet) { f.repair("z", runningRepair()) }},
		{"Repairs in two clusters.", "explain machine/east-z -n fleets", east("east", "west")},
		{"In one of two clusters.", "explain machine/east-z -n fleets --workload-cluster west", east("east", "west")},
		{"The repair of a machine whose owner is to replace it.", "explain repair/" + repairNameIn("east-a") + " -n fleets", func(f *fleet) {
			f.clusters(func(s *clusterScene) {
				s.node("east", "a", "Unknown", time.Hour)
				s.requestsReplacement("east-a", "WaitingForRemediation", "")
			})
			f.put(eastSet)
			f.put(eastDeployment)
			f.repairIn("east", "east-a", runningRepair())
		}},
		{"The ended repair of such a machine.", "explain repair/" + repairNameIn("east-a") + " -n fleets", func(f *fleet) {
			f.clusters(func(*clusterScene) {})
			f.repairIn("east", "east-a", ran)
		}},
	})
}
