package capi

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

func checkOf(name, value string) *healthCheck {
	selector := labels.Everything()
	if value != "" {
		selector = labels.SelectorFromSet(labels.Set{"absent": value})
	}
	return &healthCheck{policy: core.Policy{ID: core.ID{Kind: healthCheckKind, Namespace: "machines", Name: name, UID: "uid-of-" + name}}, selector: selector}
}

// TestI15HealthChecksThatSelectTheSame: the cost of a health check does not depend on how many others select the same
// machines. A list of selections per machine would take gigabytes.
func TestI15HealthChecksThatSelectTheSame(t *testing.T) {
	const machines, checks = 100, 2000
	s := newStore()
	for i := range machines {
		m := &clusterapi.Machine{}
		m.Namespace, m.Name = "machines", fmt.Sprintf("m-%d", i)
		s.putMachine(m)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range checks {
		s.putCheck(checkOf(fmt.Sprintf("check-%d", i), ""))
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
		t.Errorf("taking in %d health checks of %d machines took %d MiB of memory", checks, machines, took)
	}
	for name, check := range s.checks {
		if got := len(s.index.Members(check.selection)); got != machines {
			t.Fatalf("%s selects %d machines, want %d", name, got, machines)
		}
	}
}

// TestChangesOfMachinesThatMatter: each change of a fact alone can alter a decision, and each other change can't.
func TestChangesOfMachinesThatMatter(t *testing.T) {
	const has = `status: {failureReason: "", conditions: [`
	infra, healthy := `{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-02T00:01:00Z"}`, mark("HealthCheckSucceeded", "True", "HealthCheckSucceeded")
	base := func(changes ...string) *clusterapi.Machine {
		return decoded(t, aMachine(t, "a", append([]string{has + infra + ", " + healthy + "]}"}, changes...)...), &clusterapi.Machine{})
	}
	with := func(conditions string) string { return has + conditions + "]}" }
	for sentence, tc := range map[string]struct {
		change string
		want   bool
	}{
		"nothing":                          {"{}", false},
		"a revision":                       {`metadata: {resourceVersion: "9"}`, false},
		"an annotation that nothing reads": {"metadata: {annotations: {a: b}}", false},
		"a namesake":                       {"metadata: {uid: another}", true},
		"a generation":                     {"metadata: {generation: 3}", true},
		"a deletion":                       {`metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`, true},
		"a failure":                        {`status: {deprecated: {v1beta1: {failureReason: CreateError}}}`, true},
		"a node that can't be read":        {"status: {nodeRef: 7}", true},
		"another owner":                    {"metadata: {ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, name: others, uid: others-uid, controller: true}]}", true},
		"no owner":                         {"metadata: {ownerReferences: null}", true},
		"a label":                          {"metadata: {labels: {role: other}}", true},
		"an exclusion":                     {`metadata: {annotations: {cluster.x-k8s.io/skip-remediation: ""}}`, true},
		"a mark removed":                   {with(infra), true},
		"a mark of another status":         {with(infra + ", " + mark("HealthCheckSucceeded", "False", "HealthCheckSucceeded")), true},
		"a mark of another reason":         {with(infra + ", " + mark("HealthCheckSucceeded", "True", "Other")), true},
		"a mark of another time":           {with(infra + ", " + strings.Replace(healthy, "11:00:00", "11:00:01", 1)), true},
		"a mark of another type":           {with(infra + ", " + mark("ExternallyRemediated", "True", "HealthCheckSucceeded")), true},
		"a mark of the other list":         {with(infra) + "\n  # again", true},
		"the infrastructure":               {with(strings.Replace(infra, "True", "False", 1) + ", " + healthy), true},
		"the infrastructure removed":       {with(healthy), true},
		"the infrastructure later":         {with(strings.Replace(infra, "00:01:00", "00:02:00", 1) + ", " + healthy), true},
		"a condition that nothing reads":   {with(infra + `, {type: Other, status: "True"}, ` + healthy), false},
		"such a condition, first":          {with(`{type: Other, status: "True"}, ` + infra + ", " + healthy), false},
		"a condition that is read":         {with(infra + `, {type: Read, status: "True"}, ` + healthy), true},
	} {
		change := tc.change
		if sentence == "a mark of the other list" {
			change = `status: {conditions: [` + infra + `], deprecated: {v1beta1: {conditions: [` + mark("HealthCheckSucceeded", "True", "HealthCheckSucceeded") + `]}}}`
		}
		s := newStore()
		s.putCheck(readHealthCheck(aCheck(t, "check", `spec: {checks: {unhealthyMachineConditions: [{type: Read, status: "True", timeoutSeconds: 5}]}}`)))
		s.putMachine(base())
		if got := s.putMachine(base(change)); got != tc.want {
			t.Errorf("%s can alter a decision: %t", sentence, got)
		}
	}
}

// TestFieldsThatBecomeUnreadable: the value of a field that can't be read is part of what a target says.
func TestFieldsThatBecomeUnreadable(t *testing.T) {
	s := newStore()
	for value, want := range []bool{true, true} {
		m := decoded(t, aMachine(t, "a", fmt.Sprintf("status: {nodeRef: %d}", value)), &clusterapi.Machine{})
		if got := s.putMachine(m); got != want || m.Unreadable == "" || m.Node != "" {
			t.Errorf("the value %d, which is unreadable (%s), can alter a decision: %t", value, m.Unreadable, got)
		}
	}
}

// TestNewTypesOfConditions: a condition that a health check reads counts only for as long as the health check is there.
func TestNewTypesOfConditions(t *testing.T) {
	const change = `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-02T00:01:00Z"}, {type: Read, status: "True"}]}`
	s := newStore()
	s.putCheck(readHealthCheck(aCheck(t, "check", `spec: {checks: {unhealthyMachineConditions: [{type: Read, status: "True", timeoutSeconds: 5}]}}`)))
	s.putMachine(decoded(t, aMachine(t, "a"), &clusterapi.Machine{}))
	s.dropCheck("check")
	if s.putMachine(decoded(t, aMachine(t, "a", change), &clusterapi.Machine{})) {
		t.Error("the health check is gone, and its condition can alter a decision")
	}
}

// TestOlderVersions: a watch may be behind a write, and is not behind another object of the name.
func TestOlderVersions(t *testing.T) {
	s := newStore()
	s.putCheck(readHealthCheck(aCheck(t, "check")))
	s.putMachine(decoded(t, aMachine(t, "a"), &clusterapi.Machine{}))
	older, other := `metadata: {resourceVersion: "1"}`, `metadata: {resourceVersion: "1", uid: another}`
	const paused = `metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`
	if s.putCheck(readHealthCheck(aCheck(t, "check", paused, older))) || s.checks["check"].policy.Paused {
		t.Error("an older health check is taken")
	}
	if s.putMachine(decoded(t, aMachine(t, "a", `status: {nodeRef: {name: other}}`, older), &clusterapi.Machine{})) || s.machineOf("a").Node != "a-node" {
		t.Error("an older machine is taken")
	}
	if !s.putCheck(readHealthCheck(aCheck(t, "check", paused, other))) || !s.checks["check"].policy.Paused {
		t.Error("another health check of the name is taken for an older version")
	}
	if !s.putMachine(decoded(t, aMachine(t, "a", `status: {nodeRef: {name: other}}`, other), &clusterapi.Machine{})) || s.machineOf("a").Node != "other" {
		t.Error("another machine of the name is taken for an older version")
	}
}

// TestAnswersToWrites: the response to a write is newer than the watch, and restores nothing that the watch has seen go.
func TestAnswersToWrites(t *testing.T) {
	s := newStore()
	written := func(changes ...string) {
		s.storeWritten(aCheck(t, "check", append(changes, `metadata: {resourceVersion: "6"}`)...))
	}
	written()
	if len(s.checks) > 0 {
		t.Error("a health check that the watch has not seen is kept")
	}
	s.putCheck(readHealthCheck(aCheck(t, "check")))
	written("metadata: {uid: former}")
	if got := s.checks["check"]; got.revision != "5" {
		t.Errorf("the response about a former health check is kept: %s", got.revision)
	}
	written(`status: {conditions: [{type: T, status: "True", message: ` + strings.Repeat("x", 1<<20) + `}]}`)
	if got := s.checks["check"]; got.revision != "6" || len(got.status.Conditions) > 0 && len(got.status.Conditions[0].Message) == 1<<20 {
		t.Errorf("the response is kept at revision %s, whatever its size", got.revision)
	}
	m := decoded(t, aMachine(t, "a"), &clusterapi.Machine{})
	s.putMachine(m)
	former := decoded(t, aMachine(t, "a", `metadata: {uid: former, resourceVersion: "9"}`), &clusterapi.Machine{})
	s.storeWrittenMachine(former)
	if got := s.machineOf("a"); got.UID != "a-uid" {
		t.Errorf("the response about a former machine is kept: %s", got.UID)
	}
}

// TestTargetsOfFormerMachines have no machine to write on.
func TestTargetsOfFormerMachines(t *testing.T) {
	s := newStore()
	s.putMachine(decoded(t, aMachine(t, "a"), &clusterapi.Machine{}))
	s.putCheck(readHealthCheck(aCheck(t, "check")))
	targets := make([]core.Target, 3)
	for i, id := range []core.ID{{Name: "a", UID: "a-uid"}, {Name: "a", UID: "former"}, {Name: "unknown"}} {
		targets[i].ID = id
	}
	if got := s.machinesOf(targets); got[0] == nil || got[1] != nil || got[2] != nil {
		t.Errorf("the machines are %v", got)
	}
	for id, want := range map[core.ID]bool{{Name: "check", UID: "check-uid"}: true, {Name: "check", UID: "former"}: false, {Name: "unknown", UID: "check-uid"}: false} {
		if _, known := s.checkOf(id); known != want {
			t.Errorf("%+v is known: %t", id, known)
		}
	}
	if names := s.namesOf(core.ID{Name: "unknown"}); names != nil {
		t.Errorf("an unknown health check selects %v", names)
	}
}

// TestChangesOfHealthChecksThatMatter: a change that follows from Fettle's own writes wakes nothing.
func TestChangesOfHealthChecksThatMatter(t *testing.T) {
	for change, want := range map[string]bool{
		`{}`: false,
		`status: {conditions: [{type: RemediationAllowed, status: "False", reason: TooManyUnhealthy}]}`: false,
		`status: {conditions: [{type: RemediationAllowed, status: "False", reason: ClockSkewed}]}`:      false,
		`metadata: {labels: {cluster.x-k8s.io/cluster-name: null}}`:                                     true,
		`metadata: {ownerReferences: null}`:                                                             true,
		`metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`:                                        true,
		`spec: {selector: {matchLabels: {role: other}}}`:                                                true,
	} {
		s := newStore()
		s.putMachine(decoded(t, aMachine(t, "a"), &clusterapi.Machine{}))
		s.putCheck(readHealthCheck(aCheck(t, "check")))
		var o core.Observation
		s.snapshot(&o, func(string) (node.Facts, bool) { return node.Facts{}, false })
		s.checks["check"].policy.Members = o.Policies[0].Members
		if got := s.putCheck(readHealthCheck(aCheck(t, "check", change, `metadata: {resourceVersion: "6"}`))); got != want {
			t.Errorf("%s can alter a decision: %t", change, got)
		}
	}
}

// TestProblemsOfMachinesStay: a conflict about a node hides no other problem.
func TestProblemsOfMachinesStay(t *testing.T) {
	s := newStore()
	s.putMachine(decoded(t, aMachine(t, "a", "status: {nodeRef: {name: shared}, conditions: 7}"), &clusterapi.Machine{}))
	s.putMachine(decoded(t, aMachine(t, "b", "status: {nodeRef: {name: shared}}"), &clusterapi.Machine{}))
	var o core.Observation
	s.snapshot(&o, func(string) (node.Facts, bool) { return node.Facts{}, false })
	if a, b := s.machineOf("a").Unreadable, o.Targets[1].Problem; a == "" || o.Targets[0].Problem != a || b == "" {
		t.Errorf("the problems are %q and %q", o.Targets[0].Problem, b)
	}
}

// TestI15SelectionsThatAreOverAreEnded: a selector that changes again and again leaves no selections behind.
func TestI15SelectionsThatAreOverAreEnded(t *testing.T) {
	s := newStore()
	m := &clusterapi.Machine{}
	m.Namespace, m.Name = "machines", "m"
	s.putMachine(m)
	for i := range 1000 {
		s.putCheck(checkOf("check", []string{"", "x"}[i%2]))
		s.putCheck(checkOf("other", ""))
		s.dropCheck("other")
	}
	if kept := s.index.Selections(); kept != 1 {
		t.Errorf("%d selections of one health check are kept", kept)
	}
}
