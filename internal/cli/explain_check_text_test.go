package cli

import (
	"strings"
	"testing"
	"time"
)

// TestPageOfAHealthCheck: an answer with every part has each in its place and its colour.
func TestPageOfAHealthCheck(t *testing.T) {
	at := func(minutes int) *time.Time { return instant(noon.Add(time.Duration(minutes) * time.Minute)) }
	other := Reference{Kind: "NodeHealthCheck", Name: "other"}
	repair := func(name, namespace string) Repair {
		return Repair{Namespace: namespace, Name: name, Target: Reference{Kind: "Node", Name: "node-" + name}, Reason: "UnhealthyCondition", Phase: "Succeeded", Started: at(-9), Finished: at(-1)}
	}
	running := repair("r", "fleets")
	running.Phase, running.Answer, running.Attempts, running.LastError, running.Problem = "Running", "no answer", 2, "denied", "spec.steps is 7"
	running.Steps = []Step{{Remedy: "A", State: "Failed"}, {Remedy: "B", State: stepDue}}
	e := &HealthCheckExplanation{
		Header: header(), Group: "example.org",
		HealthCheck: HealthCheck{
			Reference: Reference{Kind: "NodeHealthCheck", Namespace: "fleets", Name: "all"}, Cluster: "east", TargetKind: "Node", Phase: "Enabled", Total: 21,
			AsWritten: true, Repairs: repairsAllowed,
		},
		Counts:     Counts{Healthy: 1, Unhealthy: 2, Suspect: 3, Unknown: 4, Gone: 5, Behind: 6},
		NotHealthy: []Target{{Reference: Reference{Kind: "Node", Name: "node-a"}, Health: "unhealthy", Reason: "UnhealthyCondition", Since: at(-8)}}, Omitted: 1,
		Gates: []GateState{
			{Gate: "Open", State: gateOpen}, {Gate: "Shut", State: gateClosed, Message: "so it is", Holds: 2, Names: []string{"a"}, Until: at(3)},
			{Gate: "Hidden", State: gateUnknown, HealthCheck: &other, Holds: 1, Names: []string{"b"}},
		},
		Running: []Repair{running}, RunningOmitted: 2, Ended: []Repair{repair("e", "fleets"), repair("f", "other")}, Retained: 3,
		Kept: []Request{{Reference: Reference{Kind: "Reboot", Name: "node-z"}}}, KeptOmitted: 3,
		Shared: []Sharing{
			{HealthCheck: other, DryRun: true, Older: true, Count: 2, Names: []string{"a"}, LedByIt: 1, LedHere: 1}, {HealthCheck: other, Older: true, Count: 1, Names: []string{"a"}},
			{HealthCheck: other, Count: 1, Names: []string{"a"}},
		},
		Idle: "So it is.", Next: Next{At: at(2), Text: "it goes on."},
	}
	e.Notes = []string{"Not all could be read."}
	show := func(p *page) { p.checkExplanation(e) }
	text := printed(true, show)
	e.Controller = &Controller{Leads: "no", Message: "NO LEADER: so.", Lease: "a/b"}
	golden(t, "check-page.txt", text+"\n"+printed(false, show))
}

// TestSelectsNothing: without targets only their number is told.
func TestSelectsNothing(t *testing.T) {
	s := newScene()
	s.Policies[0].Members = nil
	if text := checkText(s.assessment()); !strings.Contains(text, "Selects        0 machines\n") {
		t.Errorf("it says:\n%s", text)
	}
}

// TestWrittenCounts: machines that can't be judged from here and that the controller has not found healthy are unknown.
func TestWrittenCounts(t *testing.T) {
	for healthy, want := range map[string]Counts{"2": {Healthy: 2, Unknown: 1}, "3": {Healthy: 3}, "4": {Healthy: 4}} {
		s := newClusterScene(t)
		s.unseen["east"] = "you may not get Secret fleets/east-kubeconfig"
		s.edit("MachineHealthCheck/east", "currentHealthy: 2", "currentHealthy: "+healthy)
		in, err := (&session{}).findCheck(s.view().decided(), subject{kind: machineCheckSubject, name: "east"})
		if err != nil || in.assessment == nil {
			t.Fatalf("health check east is not found: %v", err)
		}
		if got := in.explainCheck(in.policy).Counts; got != want {
			t.Errorf("with %s: %+v, want %+v", healthy, got, want)
		}
	}
}
