package capi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/writers"
)

// TestKinds are the definitions without which the dialect can't work.
func TestKinds(t *testing.T) {
	want := []string{"machinehealthchecks.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "clusters.cluster.x-k8s.io"}
	if !slices.Equal(Kinds, want) {
		t.Errorf("kinds are %v", Kinds)
	}
}

// TestClustersAreSorted by their names.
func TestClustersAreSorted(t *testing.T) {
	s := begin(t)
	var want []types.NamespacedName
	for i := range 12 {
		name := fmt.Sprintf("c-%02d", i)
		want = append(want, types.NamespacedName{Namespace: "clusters", Name: name})
		s.see(aCheck(t, "h"+name, "spec: {clusterName: "+name+"}"))
	}
	if got := s.client.Clusters(); !slices.Equal(got, want) {
		t.Errorf("the clusters are %v", got)
	}
}

// TestHealthCheckOfNoCluster is not kept: no cluster could report its problem.
func TestHealthCheckOfNoCluster(t *testing.T) {
	s := begin(t)
	s.see(aCheck(t, "check", "spec: {clusterName: null}", "metadata: {labels: {cluster.x-k8s.io/cluster-name: null}}"))
	if len(s.client.stores)+len(s.client.clusterOfCheck)+len(s.woken)+s.sets > 0 {
		t.Errorf("%d clusters have it, and %v are woken", len(s.client.stores), s.woken)
	}
	s.see(aCheck(t, "check"))
	s.see(aCheck(t, "check", `metadata: {resourceVersion: "6", labels: {cluster.x-k8s.io/cluster-name: null}}`, "spec: {clusterName: null}"))
	if len(s.client.stores)+len(s.client.clusterOfCheck) > 0 {
		t.Errorf("it names no cluster any more, and %d clusters have it", len(s.client.stores))
	}
}

// TestWatchFilters: without a filter of its own, Fettle takes the health checks of others too.
func TestWatchFilters(t *testing.T) {
	s := begin(t)
	s.see(aCheck(t, "check", `metadata: {labels: {cluster.x-k8s.io/watch-filter: theirs}}`))
	if len(s.client.Clusters()) != 1 {
		t.Error("it is not taken")
	}
}

// TestEndOfAHealthCheck wakes its cluster and leaves nothing behind.
func TestEndOfAHealthCheck(t *testing.T) {
	s := settle(t)
	clear(s.woken)
	s.in.Of("MachineHealthCheck").Hide("clusters/check")
	if s.woken[blue] != 1 || len(s.client.clusterOfCheck) > 0 {
		t.Errorf("it wakes %v, and %d are remembered", s.woken, len(s.client.clusterOfCheck))
	}
}

// TestMachinesOfOneName in several namespaces are told apart.
func TestMachinesOfOneName(t *testing.T) {
	s := begin(t)
	s.see(aMachine(t, "a"))
	s.see(aMachine(t, "a", "metadata: {namespace: others, uid: other-uid}"))
	for range 20 { // the order of clusters is random
		for namespace, uid := range map[string]string{"clusters": "a-uid", "others": "other-uid"} {
			if m := s.client.Machine(core.ID{Namespace: namespace, Name: "a"}); m == nil || string(m.UID) != uid {
				t.Fatalf("in %s it is %+v", namespace, m)
			}
		}
	}
}

// TestForeignWriter: a controller that writes a field of Fettle's again and again is noticed, until the health check is gone.
func TestForeignWriter(t *testing.T) {
	for field, foreign := range map[string]bool{
		"expectedMachines": true, "currentHealthy": true, "remediationsAllowed": true, "targets": true, "deprecated": false, "observedGeneration": false,
	} {
		s := settle(t)
		s.client.Writers = writers.NewRegistry("machinehealthchecks.cluster.x-k8s.io", nil, func() time.Time { return s.now }, func(time.Duration, func()) {})
		s.see(aCheck(t, "check"))
		for i := range 5 {
			s.now = s.now.Add(time.Second)
			s.see(aCheck(t, "check", fmt.Sprintf(`metadata: {resourceVersion: '%d', managedFields: [{manager: other, operation: Update, subresource: status, time: %q, fieldsType: FieldsV1, fieldsV1: {"f:status": {%q: {}}}}]}`,
				10+i, s.now.Format(time.RFC3339), "f:"+field)))
			s.client.Writers.Find(&core.Policy{ID: s.observe().Policies[0].ID}, func() {})
		}
		p := s.observe().Policies[0]
		if got := s.client.Writers.Find(&p, func() {}).Manager; (got != "") != foreign {
			t.Errorf("%s is written by %q", field, got)
		}
		s.in.Of("MachineHealthCheck").Hide("clusters/check")
		if got := s.client.Writers.Find(&p, func() {}).Manager; got != "" {
			t.Errorf("the health check is gone, and %s is written by %q", field, got)
		}
	}
	names := ownFields().Names
	for _, name := range names {
		if !slices.Contains([]string{"expectedMachines", "currentHealthy", "remediationsAllowed", "targets"}, name) {
			t.Errorf("%s is not Fettle's", name)
		}
	}
}

// TestAdoption: the label or the owner alone may be missing. A status is not written before.
func TestAdoption(t *testing.T) {
	for change, adopts := range map[string]bool{
		"{}": false, "metadata: {labels: null}": true, "metadata: {ownerReferences: null}": true,
		"metadata: {ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: blue, uid: former}]}": true,
	} {
		s := settle(t, change)
		s.pass()
		if got := slices.Contains(s.written(), "MachineHealthCheck check"); got != adopts {
			t.Errorf("%s: it is adopted: %t", change, got)
		}
		if !adopts {
			continue
		}
		for status, want := range map[error]string{errDown: "having it belong to its cluster: ", apierrors.NewNotFound(schema.GroupResource{}, "check"): ""} {
			s := settle(t, change)
			s.refuse["MachineHealthCheck check"] = status
			o := s.observe()
			cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Targets: o.Targets}
			d := core.Decide(o.Policies, cluster, s.now)
			err := s.dialect.WriteStatuses(t.Context(), d.Reports(o.Policies, &cluster))[o.Policies[0].ID]
			if (err != nil) != (want != "") || (err != nil && !strings.Contains(err.Error(), want)) {
				t.Errorf("%v: it tells %v", status, err)
			}
			if got := slices.Contains(s.written(), "MachineHealthCheck/status check"); got != (want == "") {
				t.Errorf("%v: the status is written: %t", status, got)
			}
		}
	}
	s := settle(t, "metadata: {labels: null}")
	check := s.client.storeOf(blue).checksNow()[0]
	s.in.Of("Cluster").Hide("clusters/blue")
	if err := s.dialect.adopt(t.Context(), s.client.storeOf(blue), &check); err != nil || len(s.written()) > 0 {
		t.Errorf("without a Cluster it tells %v", err)
	}
}

// TestOwnersOfOthersStay: only a reference to an earlier cluster of the name is replaced.
func TestOwnersOfOthersStay(t *testing.T) {
	cluster := &clusterapi.Cluster{}
	cluster.Name, cluster.UID = "blue", "blue-uid"
	now := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "blue", UID: "blue-uid"}
	for other, kept := range map[metav1.OwnerReference]bool{
		{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "blue", UID: "former"}: false,
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "green", UID: "green"}: true,
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "blue", UID: "m"}:      true,
		{APIVersion: "example.org/v1", Kind: "Cluster", Name: "blue", UID: "c"}:                true,
	} {
		want := []metav1.OwnerReference{now}
		if kept {
			want = []metav1.OwnerReference{other, now}
		}
		if diff := cmp.Diff(want, withOwner([]metav1.OwnerReference{other}, cluster)); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
	}
}

// TestUnknownHealthChecksAreNotWritten: the watch may have seen the end of a health check during the pass.
func TestUnknownHealthChecksAreNotWritten(t *testing.T) {
	s := settle(t)
	report := core.PolicyReport{Policy: core.Policy{ID: core.ID{Kind: healthCheckKind, Namespace: "clusters", Name: "unknown"}}}
	if failed := s.dialect.WriteStatuses(t.Context(), []core.PolicyReport{report}); len(failed)+len(s.written()) > 0 {
		t.Errorf("it tells %v", failed)
	}
}

// TestObservedGeneration: the API refuses 0, and each generation that was judged is written.
func TestObservedGeneration(t *testing.T) {
	s := settle(t, "metadata: {generation: 1}")
	s.nodes.answers, s.nodes.why = core.No, "why"
	s.pass()
	status := s.stored("MachineHealthCheck clusters/check").Object["status"].(map[string]any)
	if _, set := status["observedGeneration"]; set {
		t.Errorf("nothing is judged, and the status is %v", status)
	}
	s.nodes.answers = core.Yes
	s.pass()
	if got := s.statusOf("check").ObservedGeneration; got != 1 {
		t.Errorf("generation %d is observed", got)
	}
}

// TestBlockedStartsAreReportedOnce: another change of the status is no news.
func TestBlockedStartsAreReportedOnce(t *testing.T) {
	home := &aHome{core.Yes, map[string]string{"a-node": "a-node-uid"}}
	s := begin(t, func(config *Config) { config.Home = home })
	s.nodes.has("True", ago(time.Hour), "a-node", "b-node")
	s.show(theCluster(t), aCheck(t, "check"), aMachine(t, "a"))
	s.pass()
	s.emitted()
	s.show(aMachine(t, "b"))
	s.written()
	s.pass()
	if emitted, written := s.emitted(), s.written(); len(emitted) > 0 || !slices.Contains(written, "MachineHealthCheck/status check") {
		t.Errorf("told is %v, and written are %v", emitted, written)
	}
}

// TestUnknownForLongEnough: at the limit, and anew after it was known.
func TestUnknownForLongEnough(t *testing.T) {
	home := &aHome{core.Unknown, map[string]string{"a-node": "a-node-uid"}}
	s := begin(t, func(config *Config) { config.Home = home })
	var pauses []time.Duration
	s.client.After = func(d time.Duration, do func()) { pauses = append(pauses, d) }
	s.nodes.has("True", ago(time.Hour), "a-node")
	s.show(theCluster(t), aCheck(t, "check"), aMachine(t, "a"))
	s.pass()
	s.now = s.now.Add(core.YieldPendingFor - time.Nanosecond)
	s.pass()
	s.wantAllowed("")
	s.now = s.now.Add(time.Nanosecond)
	s.pass()
	s.wantAllowed("RemediationAllowed=Unknown NodesJudgedElsewhereUnknown")
	home.acts = core.No
	s.pass()
	s.wantAllowed("RemediationAllowed=True RemediationAllowed")
	home.acts = core.Unknown
	if o := s.observe(); o.Observed != core.Unknown {
		t.Errorf("it is unknown anew, and it is observed: %s", o.Observed)
	}
	store := s.client.storeOf(blue)
	store.wakeDue, home.acts = false, core.Yes
	s.observe()
	if want := []time.Duration{10 * time.Second, time.Minute}; !slices.Equal(pauses, want) {
		t.Errorf("it is woken after %v, want %v", pauses, want)
	}
}

// TestBlockedStatusThatIsRefused: the errors of all health checks are reported.
func TestBlockedStatusThatIsRefused(t *testing.T) {
	s := settle(t, "metadata: {ownerReferences: null}")
	s.show(aCheck(t, "second"))
	s.nodes.answers, s.nodes.why = core.No, "why"
	s.refuse["MachineHealthCheck check"] = apierrors.NewForbidden(schema.GroupResource{}, "check", errDown)
	s.refuse["MachineHealthCheck/status check"], s.refuse["second"] = apierrors.NewConflict(schema.GroupResource{}, "check", errDown), errDown
	err := s.dialect.ReportBlocked(t.Context())
	if err == nil || strings.Count(err.Error(), "recording the status of") != 2 || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(err.Error(), "Operation cannot be fulfilled") {
		t.Errorf("it tells %v", err)
	}
	if emitted := s.emitted(); len(emitted) > 0 {
		t.Errorf("nothing was written, and told is %v", emitted)
	}
}

// TestNothingBlocksWithoutAReason: a cluster that is observed, or about to be, has nothing to report.
func TestNothingBlocksWithoutAReason(t *testing.T) {
	home := &aHome{core.Unknown, map[string]string{"a-node": "a-node-uid"}}
	for _, acts := range []core.Tri{core.Unknown, core.No, core.Yes} {
		home.acts = acts
		s := begin(t, func(config *Config) { config.Home = home })
		s.nodes.has("True", ago(time.Hour), "a-node")
		s.show(theCluster(t), aCheck(t, "check"), aMachine(t, "a"))
		if err := s.dialect.ReportBlocked(t.Context()); err != nil || len(s.written()) > 0 {
			t.Errorf("others act: %s, and it tells %v", acts, err)
		}
	}
	s := settle(t)
	s.in.SetSynced(false)
	s.in.Of("Cluster").Hide("clusters/blue")
	if err := s.dialect.ReportBlocked(t.Context()); err != nil || len(s.written()) > 0 {
		t.Errorf("the caches are not synced, and it tells %v", err)
	}
}

// TestConditionsOfBlockages: the reason is news once. Of a paused cluster only the condition Paused is written.
func TestConditionsOfBlockages(t *testing.T) {
	check := readHealthCheck(aCheck(t, "check", `status: {conditions: [`+mark("RemediationAllowed", "Unknown", "R")+`, `+mark("Other", "True", "S")+`]}`))
	for reason, want := range map[string]bool{"R": false, "S": true} {
		b := &blockage{reason: reason, message: "m"}
		if b.isNews(check) != want {
			t.Errorf("%s is news: %t", reason, !want)
		}
	}
	theirs := readHealthCheck(aCheck(t, "check", `metadata: {annotations: {cluster.x-k8s.io/paused: "", fettle.io/takes-over: "true"}}`, `status: {conditions: [`+mark("RemediationAllowed", "True", "R")+`]}`))
	for takesOver, c := range map[bool]*healthCheck{true: theirs, false: check} {
		fresh, news := (&blockage{paused: true}).statusOf(c, noon)
		paused := slices.ContainsFunc(fresh.Conditions, func(c metav1.Condition) bool {
			return c.Type == clusterv1.PausedCondition && c.Status == metav1.ConditionTrue
		})
		if news || paused == takesOver || len(fresh.Conditions) < len(c.status.Conditions) {
			t.Errorf("Fettle takes over: %t; news: %t; conditions are %+v", takesOver, news, fresh.Conditions)
		}
	}
}

// TestListedTargets: as many names as fit, to the byte.
func TestListedTargets(t *testing.T) {
	name := strings.Repeat("n", (512<<10)/2-3)
	for more, want := range map[string]int{"": 2, "m": 1} {
		if got := len(listed([]string{name, name + more})); got != want {
			t.Errorf("%d names are listed, want %d", got, want)
		}
	}
	if got := len(listed(make([]string, maxTargets+1))); got != maxTargets {
		t.Errorf("%d names are listed", got)
	}
	if got := len(listed(make([]string, maxTargets))); got != maxTargets {
		t.Errorf("%d names are listed", got)
	}
}

// TestBriefConditions: Fettle's long messages are cut in both lists, and those of others stay.
func TestBriefConditions(t *testing.T) {
	long := strings.Repeat("x", 500)
	var status clusterv1.MachineHealthCheckStatus
	for _, kind := range []string{"RemediationAllowed", writers.Condition, "Theirs"} {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: kind, Message: long})
	}
	var old clusterv1.Conditions
	for _, kind := range []clusterv1.ConditionType{"RemediationAllowed", "ExternalRemediationTemplateAvailable", "ExternalRemediationRequestAvailable", "Theirs"} {
		old = append(old, clusterv1.Condition{Type: kind, Message: long})
	}
	status.Deprecated = &clusterv1.MachineHealthCheckDeprecatedStatus{V1Beta1: &clusterv1.MachineHealthCheckV1Beta1DeprecatedStatus{Conditions: old}}
	short := brief(status)
	for _, c := range short.Conditions {
		if (len(c.Message) < 500) != (c.Type != "Theirs") {
			t.Errorf("%s has %d bytes", c.Type, len(c.Message))
		}
	}
	for _, c := range short.Deprecated.V1Beta1.Conditions {
		if (len(c.Message) < 500) != (c.Type != "Theirs") {
			t.Errorf("the deprecated %s has %d bytes", c.Type, len(c.Message))
		}
	}
	if len(deprecatedOf(&clusterv1.MachineHealthCheckStatus{Deprecated: &clusterv1.MachineHealthCheckDeprecatedStatus{}})) > 0 {
		t.Error("an empty status has deprecated conditions")
	}
}

// TestTransitionTimes: a condition has the time of its last change of status. A deprecated one has that of any change.
func TestTransitionTimes(t *testing.T) {
	then := metav1.NewTime(ago(time.Hour).UTC())
	now := noon.Add(time.Second)
	s := &conditionBuilder{check: &healthCheck{}, now: now.Add(300 * time.Millisecond)}
	was := metav1.Condition{Type: "T", Status: "False", Reason: "R", Message: "m", LastTransitionTime: then}
	old := clusterv1.Condition{Type: "T", Status: "False", Reason: "R", Severity: "Warning", Message: "m", LastTransitionTime: then}
	same := conditionValue{Type: "T", Status: "False", Reason: "R", Severity: "Warning", Message: "m"}
	for sentence, tc := range map[string]struct {
		change        func(*conditionValue)
		current, dead bool
	}{
		"nothing":      {func(*conditionValue) {}, false, false},
		"the status":   {func(c *conditionValue) { c.Status = "Unknown" }, true, true},
		"the reason":   {func(c *conditionValue) { c.Reason = "S" }, false, true},
		"the severity": {func(c *conditionValue) { c.Severity = "Info" }, false, true},
		"the message":  {func(c *conditionValue) { c.Message = "n" }, false, true},
	} {
		c := same
		tc.change(&c)
		got, dead := s.condition(&c, &was).LastTransitionTime, s.deprecatedCondition(&c, &old).LastTransitionTime
		if !got.Time.Equal(map[bool]time.Time{true: now, false: then.Time}[tc.current]) || !dead.Time.Equal(map[bool]time.Time{true: now, false: then.Time}[tc.dead]) {
			t.Errorf("%s: the times are %s and %s", sentence, got, dead)
		}
	}
	was.LastTransitionTime = metav1.Time{}
	if got := s.condition(&same, &was).LastTransitionTime; !got.Time.Equal(now) {
		t.Errorf("without a time it is %s", got)
	}
}

// TestFormerConditionsGo: a condition that Fettle writes no more is removed from both lists.
func TestFormerConditionsGo(t *testing.T) {
	const over = `metadata: {annotations: {fettle.io/takes-over: "true"}}`
	status := `status: {conditions: [` + mark("Paused", "False", "NotPaused") + `, ` + mark(writers.Condition, "False", "R") + `], deprecated: {v1beta1: {conditions: [` + mark("ExternalRemediationTemplateAvailable", "False", "R") + `, ` + mark("Theirs", "True", "R") + `]}}}`
	for _, tc := range []struct {
		check []string
		want  []string
	}{
		{[]string{status}, []string{"Paused=False NotPaused", "RemediationAllowed=True RemediationAllowed", "old RemediationAllowed=True", "old Theirs=True R"}},
		{[]string{status, over}, []string{"Paused=False NotPaused", "RemediationAllowed=True RemediationAllowed", "old RemediationAllowed=True", "old Theirs=True R"}},
	} {
		s := settle(t, tc.check...)
		s.pass()
		s.wantSaid("after a pass", "MachineHealthCheck clusters/check", tc.want...)
	}
}

// TestTextsOfRemedies: a machine is left to its owner, or to an external remediator.
func TestTextsOfRemedies(t *testing.T) {
	for remedy, want := range map[string][]string{
		MarkOwner:                 {"replacement by the machine's owner", "MachineMarkFailed"},
		RequestMachineRemediation: {"repair by an outside remediator", "ExternalRemediationRequestCreationFailed"},
	} {
		if got := remedyTexts(remedy); got.Noun != want[0] || got.Refused != want[1] || got.Begun != "MachineMarkedUnhealthy" {
			t.Errorf("%s has the texts %+v", remedy, got)
		}
	}
}

// TestRestrictions: the message names the limit that holds.
func TestRestrictions(t *testing.T) {
	tally := core.Tally{Total: 10, Healthy: 4}
	for want, limit := range map[string]core.ShortCircuit{
		"(total: 10, unhealthy: 6, unhealthyInRange: [3-5])":         {Range: &core.Range{From: 3, To: 5}},
		"(total: 10, unhealthy: 6, unhealthyLessThanOrEqualTo: 40%)": {MaxUnhealthy: core.Percent(40)},
	} {
		if got := restriction(&core.PolicyReport{Policy: core.Policy{ShortCircuit: limit}, Tally: tally}); !strings.HasSuffix(got, want) || strings.Count(got, "(total") != 1 {
			t.Errorf("it says %q", got)
		}
	}
}

// TestUpdatesAreBounded to the last one.
func TestUpdatesAreBounded(t *testing.T) {
	for n, want := range map[int]bool{maxUpdates: false, maxUpdates + 1: true} {
		s := begin(t).show(theCluster(t), aCheck(t, "check"))
		for i := range n {
			name := fmt.Sprintf("m%03d", i)
			s.nodes.has("True", ago(time.Hour), name+"-node")
			s.show(aMachine(t, name))
		}
		o := s.observe()
		cluster := core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Upgrading: core.No, Targets: o.Targets}
		d := core.Decide(o.Policies, cluster, s.now)
		if more, err := s.dialect.WriteConditions(t.Context(), o.Policies, &cluster, d.CombinedVerdicts(o.Policies, &cluster)); more != want || err != nil {
			t.Errorf("%d machines differ; more: %t, %v", n, more, err)
		}
	}
}

// TestWriteThatIsStoredAsWritersAreLookedAt is read by that pass. Such a write causes no pass while one is due because of an earlier write.
func TestWriteThatIsStoredAsWritersAreLookedAt(t *testing.T) {
	s := settle(t)
	between := func() {}
	s.client.Writers = writers.NewRegistry("machinehealthchecks.cluster.x-k8s.io", nil, func() time.Time { between(); return s.now }, func(time.Duration, func()) {})
	s.show(s.stored("MachineHealthCheck clusters/check"))
	o := s.observe()
	before, _ := s.client.storeOf(s.dialect.cluster).checkOf(o.Policies[0].ID)
	edited := s.stored("MachineHealthCheck clusters/check")
	edited.SetResourceVersion(before.revision + "0")
	looked := ""
	between = func() {
		between = func() {}
		fresh := readHealthCheck(edited)
		st := s.client.storeOf(s.dialect.cluster)
		st.mu.Lock()
		st.storeCheck(fresh)
		st.mu.Unlock()
		looked = fresh.revision
	}
	r := core.PolicyReport{Policy: o.Policies[0], Tally: core.Tally{Total: 9}}
	failed := s.dialect.WriteStatuses(t.Context(), []core.PolicyReport{r})
	// the API server of the test has the earlier version, so only a write at the later one conflicts
	if looked == "" || len(failed) != 1 {
		t.Errorf("looked at %q; failed: %v", looked, failed)
	}
}
