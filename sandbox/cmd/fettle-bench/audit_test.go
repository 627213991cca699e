package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const fettleUser = "system:serviceaccount:fettle-system:fettle"

// line is a line of the API server's audit log, as it writes them.
func line(user, stage, verb, resource, name string, code int) string {
	sub := ""
	if resource == "repairs/status" {
		resource, sub = "repairs", `,"subresource":"status"`
	}
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":%q,"requestURI":"/","verb":%q,`+
		`"user":{"username":%q,"groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"userAgent":"fettle",`+
		`"objectRef":{"resource":%q,"name":%q%s},"responseStatus":{"metadata":{},"code":%d},`+
		`"requestReceivedTimestamp":"2026-08-03T12:00:00.250000Z","stageTimestamp":"2026-08-03T12:00:00.260000Z"}`+"\n",
		stage, verb, user, resource, name, sub, code)
}

// TestWrites: a request that changes something stored is a write.
func TestWrites(t *testing.T) {
	for verb, want := range map[string]bool{
		"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true, "get": false, "list": false, "watch": false,
	} {
		if r := (request{verb: verb, resource: "repairs"}); r.isWrite() != want {
			t.Errorf("%s is a write: %t", verb, !want)
		}
	}
	if r := (request{verb: "create", resource: "selfsubjectaccessreviews"}); r.isWrite() {
		t.Error("a review of the caller's own rights is a write")
	}
}

func TestReadRequest(t *testing.T) {
	at := time.Date(2026, time.August, 3, 12, 0, 0, 250e6, time.UTC)
	cases := map[string]struct {
		line string
		want request
		ok   bool
	}{
		"a deletion": {
			line(fettleUser, "ResponseComplete", "delete", "machines", "a", 200),
			request{verb: "delete", resource: "machines", name: "a", code: 200, received: at}, true,
		},
		"a subresource is part of the resource": {
			line(fettleUser, "ResponseComplete", "patch", "repairs/status", "a-1-1", 200),
			request{verb: "patch", resource: "repairs/status", name: "a-1-1", code: 200, received: at}, true,
		},
		"a watch counts when it begins": {
			line(fettleUser, "ResponseStarted", "watch", "nodes", "", 200),
			request{verb: "watch", resource: "nodes", code: 200, received: at}, true,
		},
		"a path that is no resource's": {
			strings.Replace(strings.Replace(line(fettleUser, "ResponseComplete", "get", "", "", 200), `"requestURI":"/"`, `"requestURI":"/readyz?verbose"`, 1), `"objectRef":{"resource":"","name":""},`, "", 1),
			request{verb: "get", resource: "/readyz", code: 200, received: at}, true,
		},
		"and not when it ends":    {line(fettleUser, "ResponseComplete", "watch", "nodes", "", 200), request{}, false},
		"another user":            {line("admin", "ResponseComplete", "delete", "machines", "a", 200), request{}, false},
		"another user about ours": {line("admin", "ResponseComplete", "get", "serviceaccounts", fettleUser, 200), request{}, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, ok, err := readRequest([]byte(tc.line), fettleUser)
			if err != nil || ok != tc.ok {
				t.Fatalf("got %v and error %v, want %v", ok, err, tc.ok)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadRequestRefusesNonsense(t *testing.T) {
	if _, _, err := readRequest([]byte(`{"user":"`+fettleUser+`"`), fettleUser); err == nil {
		t.Error("half a line is no request")
	}
}

// TestCatchUpLeavesHalfALine: the API server may be in the middle of writing the last one.
func TestCatchUpLeavesHalfALine(t *testing.T) {
	first := line(fettleUser, "ResponseComplete", "create", "repairs", "a", 201)
	second := line(fettleUser, "ResponseComplete", "delete", "machines", "b", 200)
	a := &auditLog{path: filepath.Join(t.TempDir(), "audit.log"), user: fettleUser}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(a.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.catchUp(); err != nil {
			t.Fatal(err)
		}
	}
	write(first + second[:40])
	if len(a.requests) != 1 || a.requests[0].name != "a" {
		t.Fatalf("one line is complete, but got %v", a.requests)
	}
	write(first + second)
	if len(a.requests) != 2 || a.requests[1].name != "b" {
		t.Fatalf("both lines are complete now, but got %v", a.requests)
	}
}

func TestTrafficOf(t *testing.T) {
	requests := []request{
		{verb: "create", resource: "repairs"}, {verb: "create", resource: "repairs"}, {verb: "get", resource: "nodes"},
		{verb: "patch", resource: "repairs/status"}, {verb: "watch", resource: "nodes"}, {verb: "update", resource: "leases"},
		{verb: "delete", resource: "machines", code: 200}, {verb: "create", resource: "leases", name: "node-worker-1"},
		{verb: "delete", resource: "machines", code: 409}, {verb: "get", resource: "/readyz"}, {verb: "get", resource: "secrets"},
	}
	want := traffic{
		Calls: calls{
			"create leases": 1, "create repairs": 2, "get nodes": 1, "patch repairs/status": 1, "watch nodes": 1, "delete machines": 1,
			"delete machines (409)": 1,
		},
		Writes: 6, Routine: calls{"update leases": 1, "get /readyz": 1, "get secrets": 1},
	}
	if diff := cmp.Diff(want, trafficOf(requests)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBetween(t *testing.T) {
	noon := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	a := auditLogs{{requests: []request{{name: "before", received: noon.Add(-1)}, {name: "first", received: noon}, {name: "after", received: noon.Add(time.Second)}}}}
	if got := a.between(noon, noon.Add(time.Second)); len(got) != 1 || got[0].name != "first" {
		t.Errorf("the beginning belongs to it and the end does not, but got %v", got)
	}
	a = append(a, &auditLog{requests: []request{{verb: "patch", name: "elsewhere", received: noon.Add(time.Millisecond)}}})
	if got := a.between(noon, noon.Add(time.Second)); len(got) != 2 || got[1].name != "elsewhere" {
		t.Errorf("both logs are one, but got %v", got)
	}
	if !a.wroteSince(noon) || a.wroteSince(noon.Add(time.Millisecond)) {
		t.Error("the last write is that of the other log")
	}
	if a.quietSince(noon) {
		t.Error("something was asked after noon")
	}
	if !a.quietSince(noon.Add(time.Second)) {
		t.Error("nothing was asked after the last request")
	}
}
