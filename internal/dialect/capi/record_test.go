package capi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/writers"
)

func (s *harness) statusOf(name string) clusterv1.MachineHealthCheckStatus {
	s.t.Helper()
	return readHealthCheck(s.stored("MachineHealthCheck clusters/" + name)).status
}

// TestGate: the table of docs/reference/cluster-api.md#gate. A machine that is not known to be healthy counts as
// unhealthy.
func TestGate(t *testing.T) {
	cases := []struct {
		expected, unhealthy int
		limit               string
		open                bool
		allowed             int32
	}{
		{7, 4, "unhealthyLessThanOrEqualTo: 60%", true, 0},
		{7, 5, "unhealthyLessThanOrEqualTo: 60%", false, 0},
		{5, 2, "unhealthyLessThanOrEqualTo: 40%", true, 0},
		{5, 3, "unhealthyLessThanOrEqualTo: 40%", false, 0},
		{6, 2, "unhealthyLessThanOrEqualTo: 40%", true, 0},
		{6, 3, "unhealthyLessThanOrEqualTo: 40%", false, 0},
		{25, 10, "unhealthyLessThanOrEqualTo: 40%", true, 0},
		{25, 4, "unhealthyLessThanOrEqualTo: 40%", true, 6},
		{25, 11, "unhealthyLessThanOrEqualTo: 40%", false, 0},
		{2, 0, "unhealthyLessThanOrEqualTo: 40%", true, 0},
		{2, 1, "unhealthyLessThanOrEqualTo: 40%", false, 0},
		{3, 0, "unhealthyLessThanOrEqualTo: 0", true, 0},
		{3, 1, "unhealthyLessThanOrEqualTo: 0", false, 0},
		{3, 2, "unhealthyLessThanOrEqualTo: 2", true, 0},
		{3, 0, "unhealthyLessThanOrEqualTo: -1", false, 0},
		{3, 0, "unhealthyLessThanOrEqualTo: -1%", false, 0},
		{4, 1, "unhealthyLessThanOrEqualTo: 150%", true, 5},
		{4, 1, `unhealthyInRange: "[0-4294967295]"`, true, 1 << 30},
		{0, 0, "unhealthyLessThanOrEqualTo: 100%", true, 0},
		{0, 0, `unhealthyInRange: "[1-3]"`, false, 0},
		{10, 2, `unhealthyInRange: "[3-5]"`, false, 0},
		{10, 3, `unhealthyInRange: "[3-5]"`, true, 2},
		{10, 5, `unhealthyInRange: "[3-5]"`, true, 0},
		{10, 6, `unhealthyInRange: "[3-5]"`, false, 0},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%d of %d, %s", tc.unhealthy, tc.expected, tc.limit), func(t *testing.T) {
			s := begin(t).show(theCluster(t), aCheck(t, "check", "spec: {remediation: {triggerIf: {"+tc.limit+"}}}"))
			for i := range tc.expected {
				name := fmt.Sprintf("m%02d", i)
				status := "True"
				if i < tc.unhealthy {
					status = "False"
				}
				s.nodes.has(status, noon, name+"-node") // suspect, and so not healthy
				s.show(aMachine(t, name))
			}
			s.pass()
			got := s.statusOf("check")
			if *got.ExpectedMachines != int32(tc.expected) || *got.CurrentHealthy != int32(tc.expected-tc.unhealthy) || *got.RemediationsAllowed != tc.allowed || len(got.Targets) != tc.expected || got.ObservedGeneration != 4 {
				t.Errorf("expected %d, healthy %d, allowed %d, %d targets, generation %d", *got.ExpectedMachines, *got.CurrentHealthy, *got.RemediationsAllowed, len(got.Targets), got.ObservedGeneration)
			}
			want := "RemediationAllowed=False TooManyUnhealthy"
			if tc.open {
				want = "RemediationAllowed=True RemediationAllowed"
			}
			if said := s.said("MachineHealthCheck clusters/check"); !slices.Contains(said, want) {
				t.Errorf("it says %v, want %s", said, want)
			}
		})
	}
}

// TestStatusesOfOthersStay: other conditions stay, and so do the times of unchanged conditions.
func TestStatusesOfOthersStay(t *testing.T) {
	const theirs = `status:
  expectedMachines: 9
  targets: [gone]
  conditions:
  - {type: Theirs, status: "True", reason: R, message: m, lastTransitionTime: "2026-08-01T00:00:00Z"}
  - {type: RemediationAllowed, status: "True", reason: RemediationAllowed, message: old, lastTransitionTime: "2026-08-01T00:00:00Z"}
  deprecated: {v1beta1: {conditions: [{type: Theirs, status: "True", lastTransitionTime: "2026-08-01T00:00:00Z"}, {type: RemediationAllowed, status: "True", lastTransitionTime: "2026-08-01T00:00:00Z"}]}}`
	s := settle(t, theirs)
	s.pass()
	s.wantSaid("theirs stay", "MachineHealthCheck clusters/check", "Theirs=True R", "RemediationAllowed=True RemediationAllowed", "Paused=False NotPaused", "old Theirs=True", "old RemediationAllowed=True")
	got := s.statusOf("check")
	for _, c := range got.Conditions {
		since := "2026-08-01T00:00:00Z"
		if c.Type == "Paused" {
			since = "2026-08-03T12:00:00Z"
		}
		if c.LastTransitionTime.UTC().Format(time.RFC3339) != since {
			t.Errorf("%s since %s", c.Type, c.LastTransitionTime)
		}
	}
	if !slices.Equal(got.Targets, []string{"a", "b", "c"}) {
		t.Errorf("targets are %v", got.Targets)
	}
	for _, name := range []string{"a", "b", "c"} {
		s.in.Of("Machine").Hide("clusters/" + name)
	}
	s.pass()
	if got := s.statusOf("check"); len(got.Targets) > 0 || *got.ExpectedMachines != 0 {
		t.Errorf("all are gone, and targets are %v", got.Targets)
	}
	s.written()
	s.pass()
	if got := s.written(); len(got) > 0 {
		t.Errorf("nothing has changed, and written are %v", got)
	}
}

func TestWhatStatusesSay(t *testing.T) {
	cases := map[string]struct {
		check []string
		world func(*core.Cluster, []core.Policy)
		want  []string
	}{
		"paused": {
			[]string{`metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`}, nil,
			[]string{"Paused=True Paused", "RemediationAllowed=False Paused", "old RemediationAllowed=False Paused"},
		},
		"it can't be followed": {
			[]string{"spec: {checks: {nodeStartupTimeoutSeconds: -1}}"}, nil,
			[]string{"Paused=False NotPaused", "RemediationAllowed=False InvalidSpec", "old RemediationAllowed=False InvalidSpec"},
		},
		"a template": {
			[]string{theTemplate}, nil,
			[]string{
				"Paused=False NotPaused", "RemediationAllowed=True RemediationAllowed", "old RemediationAllowed=True",
				"old ExternalRemediationTemplateAvailable=True", "old ExternalRemediationRequestAvailable=True",
			},
		},
		"a template that is missing": {
			[]string{theTemplate}, func(_ *core.Cluster, p []core.Policy) {
				p[0].Steps = []core.Step{p[0].Steps[0]}
				p[0].Steps[0].Problem, p[0].Steps[0].Missing = "there is none", true
			},
			[]string{
				"Paused=False NotPaused", "RemediationAllowed=False TemplateUnusable", "old RemediationAllowed=False TemplateUnusable",
				"old ExternalRemediationTemplateAvailable=False ExternalRemediationTemplateNotFound", "old ExternalRemediationRequestAvailable=True",
			},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := settle(t, tc.check...)
			if tc.world == nil {
				s.pass()
			} else {
				s.pass(tc.world)
			}
			s.wantSaid(sentence, "MachineHealthCheck clusters/check", tc.want...)
		})
	}
}

// TestGoneMachinesAreNamed: where deleted machines count, the condition names them, with either limit.
func TestGoneMachinesAreNamed(t *testing.T) {
	for _, limit := range []core.ShortCircuit{{MaxUnhealthy: core.Count(1)}, {Range: &core.Range{From: 3, To: 5}}} {
		r := &core.PolicyReport{Policy: core.Policy{ShortCircuit: limit}, Tally: core.Tally{Total: 3, Healthy: 2, AwaitingReplacement: 1, Waits: "machine m is gone"}}
		if got := remediationAllowed(r).Message; !strings.HasSuffix(got, "); machine m is gone") || !strings.Contains(got, "unhealthy: 2,") {
			t.Errorf("it says %q", got)
		}
	}
}

// TestTemplateConditionsAreTakenBack: Cluster API's controller never removes them.
func TestTemplateConditionsAreTakenBack(t *testing.T) {
	s := settle(t, theTemplate)
	s.pass(func(_ *core.Cluster, p []core.Policy) {
		p[0].Steps = []core.Step{p[0].Steps[0]}
		p[0].Steps[0].Problem = "it is broken"
	})
	if said := s.said("MachineHealthCheck clusters/check"); !slices.Contains(said, "old ExternalRemediationTemplateAvailable=False ExternalRemediationTemplateUnusable") {
		t.Errorf("it says %v", said)
	}
	s.pass()
	if said := s.said("MachineHealthCheck clusters/check"); !slices.Contains(said, "old ExternalRemediationTemplateAvailable=True") {
		t.Errorf("it says %v", said)
	}
}

// TestHealthChecksBelongToTheirClusters: a pass adds the label and an owner reference, and keeps the references of
// others (docs/reference/cluster-api.md#the-pass).
func TestHealthChecksBelongToTheirClusters(t *testing.T) {
	others := "metadata: {labels: {cluster.x-k8s.io/cluster-name: wrong, theirs: x}, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c, uid: c-uid}, {apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, name: blue, uid: former}]}"
	s := settle(t, others)
	s.pass()
	u := s.stored("MachineHealthCheck clusters/check")
	if got := u.GetLabels(); got["cluster.x-k8s.io/cluster-name"] != "blue" || got["theirs"] != "x" {
		t.Errorf("labels are %v", got)
	}
	owners := u.GetOwnerReferences()
	if len(owners) != 2 || owners[0].Name != "c" || owners[1].UID != "blue-uid" || owners[1].APIVersion != "cluster.x-k8s.io/v1beta2" || owners[1].Controller != nil {
		t.Errorf("owners are %+v", owners)
	}
	if got := s.written(); !slices.Contains(got, "MachineHealthCheck check") || !slices.Contains(got, "MachineHealthCheck/status check") {
		t.Errorf("written are %v", got)
	}
	s.pass()
	if got := s.written(); len(got) > 0 {
		t.Errorf("nothing has changed, and written are %v", got)
	}
	paused := settle(t, others, `metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`)
	paused.pass()
	if got := paused.written(); slices.Contains(got, "MachineHealthCheck check") {
		t.Errorf("it is paused, and written are %v", got)
	}
}

// TestAdoptionNeedsNoNodes: a health check is adopted before the workload cluster is connected, unless the Cluster
// can't be read or a pause applies.
func TestAdoptionNeedsNoNodes(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change  func(*harness)
		check   string
		adopted bool
	}{
		"its nodes can't be seen":     {func(s *harness) { s.nodes.answers = core.No }, "{}", true},
		"the other is paused":         {func(s *harness) { s.nodes.answers = core.No }, `metadata: {annotations: {cluster.x-k8s.io/paused: "", fettle.io/takes-over: "true"}}`, true},
		"it is paused":                {func(s *harness) { s.nodes.answers = core.No }, `metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`, false},
		"there is no cluster":         {func(s *harness) { s.in.Of("Cluster").Hide("clusters/blue") }, "{}", false},
		"the cluster can't be read":   {func(s *harness) { s.see(theCluster(s.t, "spec: {paused: maybe}")) }, "{}", false},
		"the cluster is paused as is": {func(s *harness) { s.see(theCluster(s.t, "spec: {paused: true}")) }, "{}", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := settle(t, "metadata: {labels: null, ownerReferences: null}", tc.check)
			tc.change(s)
			s.pass()
			u := s.stored("MachineHealthCheck clusters/check")
			if adopted := u.GetLabels()[clusterv1.ClusterNameLabel] == "blue" && len(u.GetOwnerReferences()) == 1; adopted != tc.adopted {
				t.Errorf("labels are %v, owners %v", u.GetLabels(), u.GetOwnerReferences())
			}
			if got := s.written(); !slices.Contains(got, "MachineHealthCheck/status check") {
				t.Errorf("written are %v", got)
			}
			s.pass()
			if got := s.written(); len(got) > 0 {
				t.Errorf("nothing has changed, and written are %v", got)
			}
		})
	}
}

func TestAdoptionThatFailsIsReported(t *testing.T) {
	s := settle(t, "metadata: {ownerReferences: null}")
	resource := schema.GroupResource{Resource: "machinehealthchecks"}
	o := s.observe()
	cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: o.Targets}
	d := core.Decide(o.Policies, cluster, s.now)
	s.refuse["check"] = apierrors.NewForbidden(resource, "check", errDown)
	if failed := s.dialect.WriteStatuses(t.Context(), d.Reports(o.Policies, &cluster)); !apierrors.IsForbidden(errors.Join(failed[o.Policies[0].ID])) {
		t.Errorf("it tells %v", failed)
	}
	s.refuse["check"] = apierrors.NewNotFound(resource, "check")
	if failed := s.dialect.WriteStatuses(t.Context(), d.Reports(o.Policies, &cluster)); len(failed) > 0 {
		t.Errorf("it is gone, and it tells %v", failed)
	}
}

// TestAnotherController: a foreign writer is reported once, and forgotten after a quiet period.
func TestAnotherController(t *testing.T) {
	s := settle(t)
	now := func() time.Time { return s.now }
	s.client.Writers = writers.NewRegistry("machinehealthchecks.cluster.x-k8s.io", nil, now, func(_ time.Duration, do func()) { s.later = append(s.later, do) })
	s.show(s.stored("MachineHealthCheck clusters/check")) // earlier writes don't count
	writes := func(manager string) {
		t.Helper()
		s.now = s.now.Add(time.Second)
		u := s.stored("MachineHealthCheck clusters/check")
		s.sign(u, manager)
		u.SetResourceVersion(u.GetResourceVersion() + "0")
		clear(s.woken)
		s.show(u)
		if s.woken[blue] == 0 {
			t.Error("it wakes no pass")
		}
		s.pass()
	}
	says := func(sentence, want string) {
		t.Helper()
		got := ""
		for _, line := range s.said("MachineHealthCheck clusters/check") {
			if strings.HasPrefix(line, "SoleController") {
				got = line
			}
		}
		if got != want {
			t.Errorf("%s: it says %q", sentence, got)
		}
	}
	writes("kubectl-edit")
	writes("manager")
	writes("manager")
	says("a person has edited it, and it is not known yet what the manager is", "")
	writes("manager")
	says("two write", "SoleController=False AnotherController")
	if emitted := s.emitted(); len(emitted) != 1 || !strings.HasPrefix(emitted[0], "Warning|AnotherController|MachineHealthCheck check|") || !strings.Contains(emitted[0], "manager") || len(s.later) != 1 {
		t.Errorf("told is %v, and later %d times", emitted, len(s.later))
	}
	s.pass()
	if emitted := s.emitted(); len(emitted) > 0 {
		t.Errorf("told again is %v", emitted)
	}
	s.now = s.now.Add(writers.QuietPeriod)
	clear(s.woken)
	s.later[0]()
	if s.woken[blue] != 1 {
		t.Error("no pass follows the quiet period")
	}
	s.pass()
	says("it has been quiet", "")
}

// TestBlocked: the status of a blocked health check has the reason, and keeps its numbers.
func TestBlocked(t *testing.T) {
	cases := map[string]struct {
		change func(*harness)
		want   []string
		event  string
		says   string
	}{
		"the workload cluster does not answer": {
			func(s *harness) { s.nodes.answers, s.nodes.why = core.No, "connection refused; start it" },
			[]string{"Paused=False NotPaused", "RemediationAllowed=Unknown ConnectionDown", "old RemediationAllowed=Unknown ConnectionDown"},
			"ConnectionDown", "connection refused; start it",
		},
		"it is unknown whether it answers": {
			func(s *harness) { s.nodes.answers, s.nodes.why = core.Unknown, "it is being connected" },
			[]string{"Paused=False NotPaused", "RemediationAllowed=Unknown ConnectionDown", "old RemediationAllowed=Unknown ConnectionDown"},
			"ConnectionDown", "it is being connected",
		},
		"there is no cluster": {
			func(s *harness) { s.in.Of("Cluster").Hide("clusters/blue") },
			[]string{"Paused=False NotPaused", "RemediationAllowed=Unknown ClusterNotFound", "old RemediationAllowed=Unknown ClusterNotFound"},
			"ClusterNotFound", "there is no Cluster blue in namespace clusters",
		},
		"the cluster can't be read": {
			func(s *harness) { s.see(theCluster(s.t, "spec: {paused: maybe}")) },
			[]string{"Paused=False NotPaused", "RemediationAllowed=Unknown ClusterUnreadable", "old RemediationAllowed=Unknown ClusterUnreadable"},
			"ClusterUnreadable", "maybe",
		},
		"the cluster is paused, and left alone": {
			func(s *harness) { s.see(theCluster(s.t, "spec: {paused: true}")) },
			[]string{"Paused=True Paused", "RemediationAllowed=True RemediationAllowed", "old RemediationAllowed=True"}, "", "spec.paused",
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := settle(t)
			s.pass()
			s.written()
			s.nodes.has("False", ago(time.Hour), "a-node")
			tc.change(s)
			if o, _ := s.pass(); o.Observed != core.Unknown || len(o.Targets)+len(o.Policies) > 0 {
				t.Errorf("it observes %+v", o)
			}
			s.wantSaid(sentence, "MachineHealthCheck clusters/check", tc.want...)
			if got := s.written(); !slices.Equal(got, []string{"MachineHealthCheck/status check"}) {
				t.Errorf("written are %v", got)
			}
			if status := s.statusOf("check"); *status.ExpectedMachines != 3 || *status.CurrentHealthy != 3 {
				t.Errorf("the numbers are %d, %d", *status.ExpectedMachines, *status.CurrentHealthy)
			}
			if text, _ := s.stored("MachineHealthCheck clusters/check").MarshalJSON(); !strings.Contains(string(text), tc.says) {
				t.Errorf("it does not say %q: %s", tc.says, text)
			}
			emitted := s.emitted()
			if (len(emitted) != 0) != (tc.event != "") || (len(emitted) > 0 && !strings.HasPrefix(emitted[0], "Warning|"+tc.event+"|MachineHealthCheck check|")) {
				t.Errorf("told is %v", emitted)
			}
			s.pass()
			if written, emitted := s.written(), s.emitted(); len(written)+len(emitted) > 0 {
				t.Errorf("nothing has changed, and written are %v, told %v", written, emitted)
			}
		})
	}
}

// TestBlockedReportsPauses: the condition Paused follows the pause, whether or not the nodes are known
// (docs/reference/cluster-api.md#the-pass). Where Fettle takes over, Cluster API's controller writes it.
func TestBlockedReportsPauses(t *testing.T) {
	const down = "RemediationAllowed=Unknown ConnectionDown"
	for sentence, tc := range map[string]struct{ annotations, want string }{
		"it is paused":           {`{cluster.x-k8s.io/paused: ""}`, "Paused=True Paused"},
		"Fettle alone is paused": {`{fettle.io/paused: ""}`, "Paused=True Paused"},
		"it is not paused":       {"{}", "Paused=False NotPaused"},
		"the other is paused":    {`{cluster.x-k8s.io/paused: "", fettle.io/takes-over: "true"}`, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := settle(t, "metadata: {annotations: "+tc.annotations+"}")
			s.nodes.answers = core.No
			s.pass()
			want := []string{down, "old " + down}
			if tc.want != "" {
				want = append(want, tc.want)
			}
			s.wantSaid(sentence, "MachineHealthCheck clusters/check", want...)
			s.written()
			s.pass()
			if got := s.written(); len(got) > 0 {
				t.Errorf("nothing has changed, and written are %v", got)
			}
		})
	}
	s := settle(t, `metadata: {annotations: {cluster.x-k8s.io/paused: ""}}`)
	s.nodes.answers = core.No
	s.pass()
	u := s.stored("MachineHealthCheck clusters/check")
	u.SetAnnotations(nil)
	u.SetResourceVersion("20")
	s.show(u).pass()
	s.wantSaid("it goes on", "MachineHealthCheck clusters/check", "Paused=False NotPaused", down, "old "+down)
}

// TestBlockedEnds when the cluster answers again.
func TestBlockedEnds(t *testing.T) {
	s := settle(t)
	s.nodes.answers = core.No
	s.pass()
	s.nodes.answers = core.Yes
	s.pass()
	s.wantSaid("it answers", "MachineHealthCheck clusters/check", "Paused=False NotPaused", "RemediationAllowed=True RemediationAllowed", "old RemediationAllowed=True")
}

// TestNodesWithoutHealthCheck: a cluster needs no connection before its control plane is initialized, nor without a health
// check, also where there is no Cluster.
func TestNodesWithoutHealthCheck(t *testing.T) {
	s := settle(t)
	s.nodes.answers = core.No
	s.see(theCluster(t, `status: {conditions: [{type: InfrastructureReady, status: "True", lastTransitionTime: "2026-08-01T00:00:00Z"}]}`))
	if o := s.observe(); o.Observed != core.Yes || o.Targets[0].Node.State != core.NodeAwaited {
		t.Errorf("it observes %s, and the node is %s", o.Observed, o.Targets[0].Node.State)
	}
	s.see(theCluster(t))
	s.in.Of("MachineHealthCheck").Hide("clusters/check")
	if o := s.observe(); o.Observed != core.Yes || len(o.Policies) > 0 || len(o.Targets) != 3 {
		t.Errorf("it observes %s, %d policies, %d targets", o.Observed, len(o.Policies), len(o.Targets))
	}
	s.in.Of("Cluster").Hide("clusters/blue")
	if o := s.observe(); o.Observed != core.Yes || len(o.Targets) != 3 {
		t.Errorf("without a Cluster it observes %s, %d targets", o.Observed, len(o.Targets))
	}
}

// TestI15TargetsFitAnObject: 10,000 names of any length.
func TestI15TargetsFitAnObject(t *testing.T) {
	var names []string
	for i := range 12_000 {
		names = append(names, fmt.Sprintf("%05d", i)+strings.Repeat("n", 248))
	}
	if n := len(listed(names)); n < 1000 || n*256 > 1<<20 {
		t.Errorf("%d long names are listed", n)
	}
	for i := range names {
		names[i] = names[i][:20]
	}
	if n := len(listed(names)); n != maxTargets {
		t.Errorf("%d short names are listed", n)
	}
	if got := listed(names[:3]); len(got) != 3 {
		t.Errorf("%d of three names are listed", len(got))
	}
}

// TestBrief: a brief status has no targets and short messages, and leaves its original unchanged.
func TestBrief(t *testing.T) {
	const mostBrief = 128 // bytes of a message
	message := strings.Repeat("wrong ", 200)
	allowed, old := clusterv1.MachineHealthCheckRemediationAllowedCondition, clusterv1.RemediationAllowedV1Beta1Condition
	long := clusterv1.MachineHealthCheckStatus{
		Targets: []string{"a"}, Conditions: []metav1.Condition{{Type: allowed, Message: message}, {Type: "others", Message: message}},
		Deprecated: &clusterv1.MachineHealthCheckDeprecatedStatus{V1Beta1: &clusterv1.MachineHealthCheckV1Beta1DeprecatedStatus{
			Conditions: clusterv1.Conditions{{Type: old, Message: message}, {Type: "others", Message: message}},
		}},
	}
	short := brief(long)
	if len(short.Targets) > 0 || len(short.Conditions[0].Message) > mostBrief || len(deprecatedOf(&short)[0].Message) > mostBrief {
		t.Errorf("it is %+v", short)
	}
	if short.Conditions[1].Message != message || deprecatedOf(&short)[1].Message != message {
		t.Error("what others say is cut")
	}
	if len(long.Targets) != 1 || long.Conditions[0].Message != message || deprecatedOf(&long)[0].Message != message {
		t.Errorf("the long one has become %+v", long)
	}
}

// TestPanicInOneRecordFailsThatAlone: nothing starts for the members of that health check, and the others are written.
func TestPanicInOneRecordFailsThatAlone(t *testing.T) {
	s := settle(t, "metadata: {ownerReferences: null}")
	o := s.observe()
	cluster := core.Cluster{Observed: core.Yes, Targets: o.Targets}
	d := core.Decide(o.Policies, cluster, s.now)
	s.panics = "check"
	failed := s.dialect.WriteStatuses(t.Context(), d.Reports(o.Policies, &cluster))
	if err := failed[o.Policies[0].ID]; err == nil || !strings.Contains(err.Error(), "the sky falls") {
		t.Errorf("it tells %v", failed)
	}
}
