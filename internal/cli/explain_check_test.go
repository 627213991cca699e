package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// checkText explains the first health check of a world.
func checkText(w *assessment) string {
	e := w.explainCheck(0)
	e.Header = header()
	name := strings.ToLower(e.HealthCheck.Kind) + "/" + e.HealthCheck.Name
	return "$ fettle explain " + name + "\n" + printed(false, func(p *page) { p.checkExplanation(&e) })
}

// TestScenesOfHealthChecks: the health check of each golden of a machine or node explains the same.
func TestScenesOfHealthChecks(t *testing.T) {
	for _, name := range []string{
		"healthy", "suspect", "unhealthy", "suspect-then-held", "too-many", "paused", "invalid", "in-flight", "backing-off", "given-up", "cooling-down", "dry-run",
		"overlap", "control-plane", "no-owner", "never-joined",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			scenes[name](s)
			golden(t, "check-"+name+".txt", checkText(s.assessment()))
		})
	}
	for _, name := range []string{"first-step", "first-step-recorded", "exhausted", "hidden", "upgrading", "template-missing", "leased", "healthy-delay", "namesake-kept"} {
		t.Run("node-"+name, func(t *testing.T) {
			s := newNodeScene(t)
			nodeScenes[name](s)
			golden(t, "check-node-"+name+".txt", checkText(s.assessment()))
		})
	}
	for name, change := range map[string]func(*nodeScene){"machine-leads": nodeScenes["machine-leads"], "node-leads": nodeScenes["node-leads"]} {
		t.Run("node-"+name, func(t *testing.T) {
			s := newNodeScene(t)
			change(s)
			w := s.assessment()
			text := ""
			for i := range w.policies {
				e := w.explainCheck(i)
				e.Header = header()
				text += "$ fettle explain " + strings.ToLower(e.HealthCheck.Kind) + "/" + e.HealthCheck.Name + "\n" + printed(false, func(p *page) { p.checkExplanation(&e) }) + "\n"
			}
			golden(t, "check-node-"+name+".txt", text)
		})
	}
	for _, name := range []string{"one-each", "unseen", "unseen-stopped", "paused", "no-cluster", "unparsable", "upgrading", "upgrade-unknown"} {
		t.Run("clusters-"+name, func(t *testing.T) {
			s := newClusterScene(t)
			clusterScenes[name](s)
			in, err := (&session{}).findCheck(s.view().decided(), subject{kind: machineCheckSubject, name: "east"})
			if err != nil || in.assessment == nil {
				t.Fatalf("health check east is not found: %v", err)
			}
			golden(t, "check-clusters-"+name+".txt", checkText(in.assessment))
		})
	}
}

// TestHealthCheckOfManyRepairs: repairs that go on, that wait for a replacement and that have ended are told, and each list
// has its bound.
func TestHealthCheckOfManyRepairs(t *testing.T) {
	s := newNodeScene(t)
	s.repair(0, 2*time.Minute, nil)
	s.request("Reboot", "node-a", 2*time.Minute, replaces)
	for i := 1; i < 5; i++ {
		s.repair(i, time.Duration(i)*10*time.Minute, ended(v1alpha1.RepairSucceeded, "the target is healthy again"))
	}
	for i := range 3 {
		s.repair(4, time.Duration(i+2)*time.Hour, func(r *v1alpha1.Repair) {
			r.Name = core.RepairName(s.Targets[4].ID, i+2)
			ended(v1alpha1.RepairWithdrawn, "so")(r)
		})
	}
	s.withoutFirst()
	for i := range 30 {
		t := s.Targets[0]
		t.ID.Name, t.ID.UID = fmt.Sprint("more-", i), fmt.Sprint("more-", i)
		t.Node.Name, t.Node.UID = t.ID.Name, t.ID.UID
		t.Node.Conditions = []core.Condition{{Type: "Ready", Status: "Unknown", Since: noon.Add(-time.Duration(i) * 15 * time.Second)}}
		s.Targets = append(s.Targets, t)
		s.Policies[0].Members = append(s.Policies[0].Members, len(s.Targets)-1)
	}
	golden(t, "check-many.txt", checkText(s.assessment()))
}

// TestKeptRequestsOfHealthCheck: objects that outlast their nodes are told, each with what keeps it, and within a bound.
func TestKeptRequestsOfHealthCheck(t *testing.T) {
	s := newNodeScene(t)
	for i := range mostRunning + 3 {
		node := fmt.Sprint("node-gone-", i)
		s.kept("Reboot", node, node+"-uid", time.Duration(i+1)*time.Minute)
	}
	s.request("Reboot", "node-b", time.Minute, processing)
	e := s.assessment().explainCheck(0)
	if len(e.Kept) != mostRunning || e.KeptOmitted != 3 {
		t.Fatalf("%d objects are told and %d left out, want %d and 3", len(e.Kept), e.KeptOmitted, mostRunning)
	}
	if first := e.Kept[0]; first.Name != fmt.Sprint("node-gone-", mostRunning+2) || first.KeptBy != "fix.example/undo" {
		t.Errorf("the oldest is told as %s, kept by %q", first.Name, first.KeptBy)
	}
}

// TestReplacedIsNotAmongTheUnhealthy: a node that is gone and replaced keeps its repair running, and counts no longer.
func TestReplacedIsNotAmongTheUnhealthy(t *testing.T) {
	text := restrictionText(&core.Policy{}, core.Tally{Total: 5, Healthy: 5, MaxUnhealthy: 1, Waits: "node a is gone, and its repair goes on"})
	if want := "0 of 5 are not healthy, and repairs go on up to 1; node a is gone, and its repair goes on"; text != want {
		t.Errorf("it says %q, want %q", text, want)
	}
}

// TestClockOfHealthCheck: that the controller's clock holds back everything is told of each health check.
func TestClockOfHealthCheck(t *testing.T) {
	s := newScene()
	s.ready(0, "Unknown", time.Hour)
	s.Policies[0].ClockGate = core.ClockSkewed
	golden(t, "check-clock.txt", checkText(s.assessment()))
	for _, gate := range []core.Gate{core.ClockSkewed, core.ClockUnknown} {
		healthy := newScene()
		healthy.Policies[0].ClockGate = gate
		held := slices.ContainsFunc(healthy.assessment().explainCheck(0).Gates, func(g GateState) bool {
			return g.Gate == gate.String() && g.State == gateClosed
		})
		if !held {
			t.Errorf("the clock holds back nothing while all are healthy, and its gate %s is not told as closed", gate)
		}
	}
}

// TestShapeOfHealthChecks pins what -o json prints.
func TestShapeOfHealthChecks(t *testing.T) {
	s := newScene()
	scenes["in-flight"](s)
	young := s.check("young", time.Hour)
	young.Members = young.Members[:2]
	e := s.assessment().explainCheck(0)
	e.Header = header()
	e.Kind = kindCheckExplanation
	e.Gates[0].Message = "so \x1b[31m"
	var out bytes.Buffer
	if err := (&output{format: formatJSON}).emit(&out, &e, nil); err != nil {
		t.Fatalf("printing: %v", err)
	}
	golden(t, "check-in-flight.json", out.String())
}

// TestWhichHealthCheck: a name that several have is told apart by group and namespace.
func TestWhichHealthCheck(t *testing.T) {
	machines, nodes := newScene(), newNodeScene(t)
	machines.check("twin", time.Hour).ID.Namespace = "elsewhere"
	machines.check("twin", time.Hour)
	nodes.check("example", time.Hour)
	nodes.machines = machines
	clusters := newClusterScene(t)
	clusters.objects["MachineHealthCheck/east"] = strings.Replace(clusters.objects["MachineHealthCheck/east"], "namespace: fleets, name: east", "namespace: fleets, name: example", 1)
	assessments := append([]*assessment{nodes.assessment()}, clusters.view().decided()...)
	cases := map[string]struct {
		of            subject
		within        string
		want, problem string
	}{
		"the one of its namespace":   {subject{kind: machineCheckSubject, name: "example"}, "machines", "machines/example", ""},
		"that of another namespace":  {subject{kind: machineCheckSubject, name: "example"}, "fleets", "fleets/example", ""},
		"nodes' have no namespace":   {subject{kind: nodeCheckSubject, name: "example"}, "fleets", "example", ""},
		"by its group":               {subject{kind: machineCheckSubject, name: "example", group: "cluster.x-k8s.io"}, "", "fleets/example", ""},
		"by another group":           {subject{kind: machineCheckSubject, name: "example", group: "example.org"}, "", "", ""},
		"in several groups":          {subject{kind: machineCheckSubject, name: "example"}, "", "", "machinehealthcheck.machine.openshift.io/example -n machines, or machinehealthcheck.cluster.x-k8s.io/example -n fleets"},
		"in several namespaces":      {subject{kind: machineCheckSubject, name: "twin"}, "", "", "machinehealthcheck.machine.openshift.io/twin -n elsewhere"},
		"of no such name":            {subject{kind: machineCheckSubject, name: "none"}, "", "", ""},
		"a machine's is no node's":   {subject{kind: nodeCheckSubject, name: "twin"}, "", "", ""},
		"of that name in no such ns": {subject{kind: machineCheckSubject, name: "example"}, "default", "", ""},
	}
	for sentence, tc := range cases {
		in, err := (&session{namespace: tc.within}).findCheck(assessments, tc.of)
		got, problem := "", ""
		if in.assessment != nil {
			got = qualified(reference(in.policies[in.policy].ID))
		}
		if err != nil {
			problem = err.Error()
		}
		if got != tc.want || (problem != "") != (tc.problem != "") || !strings.Contains(problem, tc.problem) {
			t.Errorf("%s: got %q and error %q, want %q and %q", sentence, got, problem, tc.want, tc.problem)
		}
	}
}
