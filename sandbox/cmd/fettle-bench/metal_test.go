package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// TestRacks: two racks have as many nodes as break, and the hosts of a rack share their power strips with no other rack.
func TestRacks(t *testing.T) {
	p := parameters{Dialect: "metal", Nodes: 25, Broken: 10, Rate: 1, Rounds: 1, Hanging: 3, Idle: seconds(time.Second), Heartbeats: seconds(time.Second)}
	if err := p.validate(); err != nil || p.Machines != 0 || p.Hanging != 3 {
		t.Fatalf("%+v: %v", p, err)
	}
	domains := map[string]int{}
	for rack, want := range []int{10, 10, 5} {
		inside := p.rack(rack, true)
		if len(inside) != want || len(p.rack(rack, false)) != p.Nodes-want {
			t.Errorf("rack %d has the nodes %v, and all others are %v", rack, inside, p.rack(rack, false))
		}
		for _, i := range inside {
			domains[domainOf(i, rack)]++
		}
	}
	for name, hosts := range domains {
		if hosts > hostsOfDomain {
			t.Errorf("domain %s has %d hosts", name, hosts)
		}
	}
	var hang []int
	for n := range p.Broken {
		if p.hangs(n, p.Hanging) {
			hang = append(hang, n)
		}
	}
	if diff := cmp.Diff([]int{3, 6, 9}, hang); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.hangs(3, 0) {
		t.Error("a BMC hangs though none is to")
	}
}

func TestParametersOfMetal(t *testing.T) {
	for sentence, change := range map[string]func(*parameters){
		"a rack and a half":    func(p *parameters) { p.Nodes = 15 },
		"all BMCs hang":        func(p *parameters) { p.Hanging = 10 },
		"fewer than none hang": func(p *parameters) { p.Hanging = -1 },
	} {
		p := parameters{Dialect: "metal", Nodes: 20, Broken: 10, Rate: 1, Rounds: 1, Hanging: 9, Idle: seconds(time.Second), Heartbeats: seconds(time.Second)}
		if err := p.validate(); err != nil {
			t.Fatal(err)
		}
		change(&p)
		if p.validate() == nil {
			t.Errorf("%s: it is accepted", sentence)
		}
	}
	other := parameters{Dialect: "nhc", Nodes: 20, Broken: 20, Rate: 1, Rounds: 1, Hanging: 4, Idle: seconds(time.Second), Heartbeats: seconds(time.Second)}
	if err := other.validate(); err != nil || other.Hanging != 0 {
		t.Errorf("without BMCs, %d hang: %v", other.Hanging, err)
	}
}

// TestResets: only what was carried out counts, and only from then on.
func TestResets(t *testing.T) {
	requests := []redfish.Request{
		{At: after(-1), Reset: redfish.ResetForceOff, Status: http.StatusNoContent},
		{At: deadline, Reset: redfish.ResetForceOff, Status: http.StatusNoContent},
		{At: after(1), Reset: redfish.ResetForceOff, Status: http.StatusConflict},
		{At: after(2), Reset: redfish.ResetOn, Status: http.StatusNoContent},
		{At: after(3), Status: http.StatusNoContent},
		{At: after(4), Reset: redfish.ResetForceOff},
	}
	if diff := cmp.Diff([]time.Time{deadline}, resets(requests, redfish.ResetForceOff, deadline)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Time{after(2)}, resets(requests, redfish.ResetOn, deadline)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyTheseHosts(t *testing.T) {
	victims := []victim{{target: "a", node: "a", deadline: deadline}, {target: "b", node: "b", deadline: deadline}}
	at := func(off, on []time.Time) commands { return commands{off: off, on: on} }
	right := at([]time.Time{deadline}, []time.Time{after(time.Second)})
	for sentence, tc := range map[string]struct {
		received map[string]commands
		want     string
	}{
		"each once":                {map[string]commands{"a": right, "b": right, "c": {}}, ""},
		"one is not powered off":   {map[string]commands{"a": right, "b": at(nil, []time.Time{deadline})}, "node b was powered off 0 times and on 1 times"},
		"one is not powered on":    {map[string]commands{"a": right, "b": at([]time.Time{deadline}, nil)}, "node b was powered off 1 times and on 0 times"},
		"one is powered off twice": {map[string]commands{"a": at([]time.Time{deadline, deadline}, right.on), "b": right}, "node a was powered off 2 times"},
		"one is powered on twice":  {map[string]commands{"a": at(right.off, []time.Time{deadline, deadline}), "b": right}, "node a was powered off 1 times and on 2 times"},
		"one is early":             {map[string]commands{"a": at([]time.Time{after(-time.Second)}, right.on), "b": right}, "node a was powered off 1s before its deadline"},
		"one is on before":         {map[string]commands{"a": at(right.on, right.off), "b": right}, "node a was powered on before it was powered off"},
		"another is powered off":   {map[string]commands{"a": right, "b": right, "c": at([]time.Time{deadline}, nil)}, "node c was powered off 1 times and on 0 times, and the node is not broken"},
		"another is powered on":    {map[string]commands{"a": right, "b": right, "c": at(nil, []time.Time{deadline})}, "node c was powered off 0 times and on 1 times, and the node is not broken"},
	} {
		err := onlyThese(victims, tc.received)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

// TestStagesOfMetal: hosts whose BMCs hang are left out, and so are refused requests.
func TestStagesOfMetal(t *testing.T) {
	victims := []victim{{node: "a", deadline: deadline}, {node: "hangs", deadline: deadline}}
	requests := []request{
		{verb: "create", resource: "powerremediations", name: "a", code: 201, received: after(1 * time.Millisecond)},
		{verb: "create", resource: "powerremediations", name: "hangs", code: 201, received: after(time.Hour)},
		{verb: "patch", resource: "nodes", name: "a", code: 409, received: after(2 * time.Millisecond)},
		{verb: "patch", resource: "nodes/status", name: "a", code: 200, received: after(2 * time.Millisecond)},
		{verb: "patch", resource: "nodes", name: "a", code: 200, received: after(3 * time.Millisecond)},
		{verb: "patch", resource: "nodes", name: "a", code: 200, received: after(6 * time.Millisecond)},
	}
	proven := map[string]time.Time{"a": after(5 * time.Millisecond), "hangs": after(time.Hour)}
	received := map[string]commands{"a": {off: []time.Time{after(4 * time.Millisecond)}, on: []time.Time{after(7 * time.Millisecond)}}}
	var want []stageDelay
	for i, name := range []string{remediationRequested, nodeTainted, offReceived, proofRecorded, workloadReleased, onReceived} {
		d := ms(float64([]int{1, 3, 4, 5, 6, 7}[i]))
		want = append(want, stageDelay{name, distribution{1, d, d, d}})
	}
	if diff := cmp.Diff(want, metalStages(victims, requests, proven, received), cmp.AllowUnexported(stageDelay{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o := metalOutage{Stages: want}
	if o.stage(proofRecorded).Last != ms(5) || o.stage("none").Count != 0 {
		t.Errorf("a stage is not found: %+v", o)
	}
}

func TestDues(t *testing.T) {
	want := []time.Time{deadline, deadline, after(2 * time.Second)}
	if diff := cmp.Diff(want, duesOf(deadline, []int{2, 0, 1}, time.Second)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAnotherBoot: the node is Ready, and has a boot ID that it never had.
func TestAnotherBoot(t *testing.T) {
	patch, err := anotherBoot(3, noon)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Status struct {
			NodeInfo   struct{ BootID string }
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	boot := got.Status.NodeInfo.BootID
	if boot == "" || boot == node(3, noon).Status.NodeInfo.BootID {
		t.Errorf("the boot ID is %q", boot)
	}
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != "Ready" || got.Status.Conditions[0].Status != "True" {
		t.Errorf("the conditions are %+v", got.Status.Conditions)
	}
}

// TestProofIsSeen: a remediation shows its proof once it is recorded.
func TestProofIsSeen(t *testing.T) {
	d := metal()
	proven := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"proof": map[string]any{"kind": "PowerOff"}}}}
	if !d.remedyCall.shows(watch.Modified, proven) || d.remedyCall.shows(watch.Modified, &unstructured.Unstructured{}) || d.remedyCall.shows(watch.Deleted, proven) {
		t.Error("a proof is not seen, or seen where there is none")
	}
}

// TestRecordsPrecedeTheCommand in the order in which Fettle writes them: the boot ID, then the taint.
func TestRecordsPrecedeTheCommand(t *testing.T) {
	calls, err := recordsOf("a", &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"kept": "yes"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range calls {
		got = append(got, c.method()+" "+c.path)
	}
	want := []string{
		"POST " + pathOfRepairs, "GET /api/v1/nodes/a", "POST " + pathOfLeases, "POST " + pathOfRemediations, "GET /api/v1/nodes/a",
		"PATCH " + pathOfRemediations + "/again-a/status", "PATCH /api/v1/nodes/a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if body := string(calls[0].body); !strings.Contains(body, `"kept":"yes"`) || !strings.Contains(body, `"again-a"`) {
		t.Errorf("the repair is %s", body)
	}
	if body := string(calls[3].body); !strings.Contains(body, `"finalizers":["fettle.io/power-remediation"]`) {
		t.Errorf("the remediation is %s", body)
	}
	if body := string(calls[5].body); !strings.Contains(body, `"bootID":`) || !strings.Contains(body, `"poweredOff":true`) {
		t.Errorf("the record is %s", body)
	}
	if calls[1].body != nil || calls[5].contentType != "application/merge-patch+json" || calls[0].contentType != "application/json" {
		t.Errorf("the calls are %+v", calls)
	}
}

// TestCommander powers a host off over a session of its own, and trusts no other certificate.
func TestCommander(t *testing.T) {
	h, err := startHost()
	if err != nil {
		t.Fatal(err)
	}
	other, err := startHost()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeHosts([]*bmcHost{h, other, nil}) })
	c := newCommander(h)
	if err := c.login(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(h.bmc.Requests())
	if err := c.powerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.State() != redfish.Off || len(h.offSince(time.Time{})) != 1 || len(h.onSince(time.Time{})) != 0 || len(h.bmc.Requests())-before != 2 {
		t.Errorf("the host is %s after %+v", h.State(), h.bmc.Requests())
	}
	if logins := h.bmc.Logins(); logins.Accepted != 1 || logins.Refused != 0 {
		t.Errorf("it logged in %+v", logins)
	}
	c.host = other
	if err := c.powerOff(t.Context()); err == nil || other.State() != redfish.On {
		t.Error("it trusts the certificate of another BMC")
	}
}

// aMetalRound returns a round in which Fettle's power-offs take a multiple of the floor.
func aMetalRound(multiple float64) metalRound {
	stages := func(factor float64) []stageDelay {
		var all []stageDelay
		for i, name := range []string{remediationRequested, nodeTainted, offReceived, proofRecorded, workloadReleased, onReceived} {
			d := float64(i+1) * factor
			all = append(all, stageDelay{name, distribution{200, ms(100 * d), ms(200 * d), ms(250 * d)}})
		}
		return all
	}
	early := traffic{Calls: calls{"create repairs": 200, "patch nodes": 200}, Writes: 400}
	all := traffic{Calls: calls{"create repairs": 200, "patch nodes": 800, "get nodes": 900}, Writes: 1000}
	return metalRound{
		NodeBytes: 13900,
		Outages: []metalOutage{
			{Deadlines: []int{80, 120}, Stages: stages(multiple), UntilOff: early, All: all, CPU: metalCPU{ms(2000), ms(8000), ms(1000)}, Stolen: 0.01},
			{Hanging: 4, Deadlines: []int{200}, Stages: stages(1.1 * multiple), UntilOff: early, All: all, CPU: metalCPU{ms(2100), ms(8100), ms(1100)}, Stolen: 0.02},
		},
		Floor:    bareRequests{distribution{200, ms(150), ms(290), ms(300)}, 0.03},
		Recorder: bareRequests{distribution{200, ms(250), ms(690), ms(700)}, 0.04},
	}
}

// TestTableOfMetal compares the table of three rounds with the recorded one. -update rewrites it.
func TestTableOfMetal(t *testing.T) {
	r := report{
		Host:       host{At: deadline, Cores: 2, CPU: "Example CPU", Memory: 23552, Go: "go1.26.8", Load: 0.25},
		Parameters: parameters{Dialect: "metal", Nodes: 400, Rate: 8, Broken: 200, Hanging: 4, Rounds: 3},
		Metal:      []metalRound{aMetalRound(1), aMetalRound(3), aMetalRound(2)},
	}
	golden := filepath.Join("testdata", "metal.txt")
	got := r.table()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.Parameters.Hanging = 0
	if strings.Contains(r.table(), "hang  ") || strings.Contains(r.table(), "BMCs hang, of the others") {
		t.Errorf("no BMC hangs, but this is compared:\n%s", r.table())
	}
}
