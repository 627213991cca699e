package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestNodesAlone: without machines, any node may break, and the default's requirements do not apply.
func TestNodesAlone(t *testing.T) {
	p := parameters{Dialect: "nhc", Nodes: 10, Machines: 5000, Rate: 1, Broken: 10, Rounds: 1, Idle: seconds(time.Second), Heartbeats: seconds(time.Second)}
	if err := p.validate(); err != nil {
		t.Fatal(err)
	}
	if p.Machines != 0 || p.targets() != 10 || !p.broken(9) || p.broken(10) {
		t.Errorf("10 of 10 nodes break, but %+v", p)
	}
	if p.Broken = 11; p.validate() == nil {
		t.Error("11 of 10 nodes can't break")
	}
	if p.Nodes, p.Broken = 0, 1; p.validate() == nil {
		t.Error("a fleet has a node")
	}
}

// TestStagesOfRequests: a remediation object that stays has no last step after its deadline.
func TestStagesOfRequests(t *testing.T) {
	d := nodeHealthCheck()
	requests := []request{
		{verb: "create", resource: "repairs", name: "node-a-0123abcd-1", received: after(time.Millisecond)},
		{verb: "create", resource: "rebootremediations", name: "node-a", received: after(2 * time.Millisecond)},
		{verb: "patch", resource: "repairs/status", name: "node-a-0123abcd-1", received: after(time.Minute)},
	}
	got := d.stagesOf([]victim{{"node-a", "node-a", deadline}}, requests, map[string]time.Time{"node-a": after(3 * time.Millisecond)})
	want := []stageDelay{
		{"node read from the API server", distribution{}},
		{"repair recorded", distribution{1, ms(1), ms(1), ms(1)}},
		{"remediation requested", distribution{1, ms(2), ms(2), ms(2)}},
		{"remediation seen", distribution{1, ms(3), ms(3), ms(3)}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(stageDelay{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestChecksAreManifests: the health check of every dialect is one object with a name.
func TestChecksAreManifests(t *testing.T) {
	for name, d := range dialects() {
		objects, err := d.manifest(benchCluster, timeout)
		if err != nil || len(objects) != 1 || objects[0].GetName() == "" {
			t.Errorf("%s: %v %v", name, objects, err)
		}
	}
}

func TestCallsPerPass(t *testing.T) {
	quiet, loud, silent := round{Passes: passTraffic{Passes: 10}}, aRound(1), round{}
	r := report{Rounds: []round{quiet, loud}}
	if most, known := r.callsPerPass(); !known || most != 0.5 {
		t.Errorf("5 calls in 10 passes are 0.5, not %g (%t)", most, known)
	}
	r.Rounds = append(r.Rounds, silent)
	if _, known := r.callsPerPass(); known {
		t.Error("one round didn't tell how many passes there were")
	}
}
