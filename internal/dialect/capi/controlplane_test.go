package capi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
)

// member returns a machine of a control plane that has a node and a given age, with changes.
func member(name string, age time.Duration, changes ...func(*clusterapi.Machine)) *clusterapi.Machine {
	m := &clusterapi.Machine{Node: "node-" + name}
	m.Name, m.CreationTimestamp = name, metav1.NewTime(ago(age))
	for _, change := range changes {
		change(m)
	}
	return m
}

// flow parses an object in YAML's flow style.
func flow(t *testing.T, yaml string) *unstructured.Unstructured {
	t.Helper()
	return object(t, "# not JSON\n"+yaml)
}

func marked(m *clusterapi.Machine, kind, reason string) {
	m.Marks = append(m.Marks, clusterapi.Mark{In: clusterapi.Current, Type: kind, Since: ago(time.Minute), ConditionContent: &clusterapi.ConditionContent{Status: "False", Reason: reason}})
}

// asking has the conditions by which machines request their replacement.
func asking(m *clusterapi.Machine) {
	marked(m, healthType, "UnhealthyNode")
	marked(m, clusterv1.MachineOwnerRemediatedCondition, "WaitingForRemediation")
}
func sick(m *clusterapi.Machine)     { marked(m, healthType, "UnhealthyNode") }
func nodeless(m *clusterapi.Machine) { m.Node = "" }
func staying(m *clusterapi.Machine)  { m.DeletionTimestamp = nil }
func leaving(m *clusterapi.Machine) {
	m.DeletionTimestamp = &metav1.Time{Time: ago(time.Second)}
}
func condition(kind, status string) func(*clusterapi.Machine) {
	return func(m *clusterapi.Machine) {
		said := &clusterapi.Machine{}
		if err := said.UnmarshalJSON([]byte(`{"status": {"conditions": [{"type": "` + kind + `", "status": "` + status + `"}]}}`)); err != nil {
			panic(err)
		}
		m.Conditions = append(m.Conditions, said.Conditions...)
	}
}

// TestRetries checks to the second when a control plane replaces a replacement.
func TestRetries(t *testing.T) {
	none, three := int32(0), int32(3)
	cases := map[string]struct {
		reason string
		// retries, pause and anew are the settings.
		retries     *int32
		pause, anew time.Duration
		// before is how long ago the machine replaced another, after so many retries. A negative value means never.
		before time.Duration
		after  int32
		// until is how long the control plane waits from now on. A negative value means that it does not wait.
		until time.Duration
		mend  string
	}{
		"it has replaced none":                {"a first fault is no retry", &none, time.Hour, time.Hour, -1, 0, -1, ""},
		"no settings":                         {"a retry happens at once", nil, 0, time.Hour, 5 * time.Minute, 7, -1, ""},
		"within the pause":                    {"last + retryPeriod", nil, 10 * time.Minute, time.Hour, 4 * time.Minute, 0, 6 * time.Minute, "spec.remediation.retryPeriodSeconds"},
		"at the end of the pause":             {"only what is after now defers", nil, 10 * time.Minute, time.Hour, 10 * time.Minute, 0, -1, ""},
		"a second before that":                {"to the second", nil, 10 * time.Minute, time.Hour, 10*time.Minute - time.Second, 0, time.Second, "spec.remediation.retryPeriodSeconds"},
		"retries are left":                    {"a count below maxRetry is one more retry", &three, 0, time.Hour, 5 * time.Minute, 2, -1, ""},
		"no retries are left":                 {"last + minHealthyPeriod", &three, 0, time.Hour, 5 * time.Minute, 3, 55 * time.Minute, "spec.remediation.maxRetry"},
		"no retries at all":                   {"0 never replaces a replacement within the period", &none, 0, time.Hour, 5 * time.Minute, 0, 55 * time.Minute, "spec.remediation.maxRetry"},
		"no retries, and the pause is longer": {"maxRetry holds until all is forgotten", &none, 20 * time.Minute, time.Hour, 5 * time.Minute, 0, 55 * time.Minute, "spec.remediation.maxRetry"},
		"healthy long enough":                 {"at minHealthyPeriod it counts anew", &none, time.Hour, time.Hour, time.Hour, 9, -1, ""},
		"a second less":                       {"to the second", &none, 0, time.Hour, time.Hour - time.Second, 9, time.Second, "spec.remediation.maxRetry"},
		"a pause beyond the healthy period":   {"what is forgotten is no retry", nil, 3 * time.Hour, time.Hour, 30 * time.Minute, 0, 30 * time.Minute, "spec.remediation.retryPeriodSeconds"},
		"a healthy period of nothing":         {"then nothing is ever a retry", &none, time.Hour, 0, 0, 5, -1, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			k := controlPlane{
				name: "cp", maxRetry: tc.retries, retryPeriod: tc.pause, minHealthyPeriod: tc.anew, initialized: true,
				fields: fieldPaths{"spec.remediation.maxRetry", "spec.remediation.retryPeriodSeconds", "spec.remediation.minHealthyPeriodSeconds"},
			}
			before := replacement{}
			if tc.before >= 0 {
				before = replacement{Machine: "old", At: ago(tc.before), Retries: tc.after}
			}
			wait, waits := k.retry(before, noon)
			switch {
			case waits != (tc.until >= 0):
				t.Errorf("%s: it waits %t: %+v", tc.reason, waits, wait)
			case waits && (!wait.Until.Equal(noon.Add(tc.until)) || !strings.Contains(wait.Hint, tc.mend)):
				t.Errorf("%s: it waits until %s, want %s; %s", tc.reason, wait.Until, noon.Add(tc.until), wait.Hint)
			}
			if waits {
				if _, still := k.retry(before, wait.Until); still {
					t.Errorf("%s: it waits on after %s", tc.reason, wait.Until)
				}
				if _, yet := k.retry(before, wait.Until.Add(-time.Second)); !yet {
					t.Errorf("%s: it does not wait until %s", tc.reason, wait.Until)
				}
			}
		})
	}
}

// TestWhatControlPlanesWaitFor checks all waits but retries, for machine a, which requests its replacement.
func TestWhatControlPlanesWaitFor(t *testing.T) {
	healthy := func() []*clusterapi.Machine {
		return []*clusterapi.Machine{member("a", 3*time.Hour, asking), member("b", 2*time.Hour), member("c", time.Hour)}
	}
	cases := map[string]struct {
		reason  string
		k       controlPlane
		members []*clusterapi.Machine
		want    []string // the words of each wait, in order
	}{
		"nothing":                    {"three members and one broken", controlPlane{}, healthy(), nil},
		"a pause":                    {"an annotation on it", controlPlane{paused: true}, healthy(), []string{"paused"}},
		"the only machine":           {"the cluster would be lost", controlPlane{}, healthy()[:1], []string{"the only machine"}},
		"the only one, before":       {"a first machine that fails is replaced", controlPlane{initialized: false, name: "young"}, healthy()[:1], nil},
		"another goes first":         {"the older of two alike", controlPlane{}, append(healthy(), member("z", 4*time.Hour, asking)), []string{"machine z has the same request and goes first"}},
		"a machine more broken":      {"no node goes before age", controlPlane{}, append(healthy(), member("z", time.Minute, asking, nodeless)), []string{"machine z"}},
		"a machine less broken":      {"the younger of two alike", controlPlane{}, append(healthy(), member("z", time.Minute, asking)), nil},
		"another is being deleted":   {"one at a time", controlPlane{}, append(healthy(), member("z", time.Minute, leaving)), []string{"machine z is being deleted"}},
		"it is being deleted itself": {"that is its request", controlPlane{}, []*clusterapi.Machine{member("a", time.Hour, asking, leaving), member("b", time.Hour)}, nil},
		"one is joining":             {"it is unknown whether it will", controlPlane{}, append(healthy(), member("z", time.Minute, nodeless)), []string{"machine z is yet to join"}},
		"one never joined":           {"it fails its own health check", controlPlane{}, append(healthy(), member("z", time.Minute, nodeless, sick)), nil},
		"another is replaced":        {"its replacement is not there yet", controlPlane{replacing: replacement{Machine: "x", At: ago(time.Minute)}}, healthy(), []string{"it replaces x since 2026-08-03T11:59:00Z"}},
		"it is replaced":             {"the same for itself", controlPlane{replacing: replacement{Machine: "a", At: ago(time.Minute)}}, healthy(), []string{"it has begun to replace this machine"}},
		"the replacement is there":   {"what was made since ends it", controlPlane{replacing: replacement{Machine: "x", At: ago(90 * time.Minute)}}, healthy(), nil},
		"an annotation of nonsense":  {"it fails in each pass", controlPlane{replacing: replacement{unreadable: "{"}}, healthy(), []string{"it can't read"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			tc.k.initialized = tc.k.name != "young"
			got := tc.k.waits(tc.members[0], tc.members, replacement{}, noon)
			if len(got) != len(tc.want) {
				t.Fatalf("%s: it waits for %+v, want %q", tc.reason, got, tc.want)
			}
			for i, w := range got {
				if !strings.Contains(w.Text, tc.want[i]) || !w.Until.IsZero() {
					t.Errorf("%s: it waits for %+v, want %q", tc.reason, w, tc.want[i])
				}
			}
		})
	}
}

// TestOrderOfWaits is that in which the control plane looks.
func TestOrderOfWaits(t *testing.T) {
	k := controlPlane{paused: true, initialized: true, minHealthyPeriod: time.Hour, retryPeriod: 10 * time.Minute, replacing: replacement{Machine: "x", At: noon}, fields: fieldPaths{retryPeriod: "spec.remediation.retryPeriodSeconds"}}
	before := replacement{Machine: "former", At: ago(time.Minute), Retries: 1}
	self := member("a", time.Hour, asking)
	want := []string{"paused is on the control plane", "it replaces x since", "machine b is being deleted", "it replaces former, whose replacement began at 2026-08-03T11:59:00Z", "machine b is yet to join"}
	check := func(members []*clusterapi.Machine, want []string) {
		t.Helper()
		got := k.waits(self, members, before, noon)
		for i, w := range got {
			if i >= len(want) || !strings.Contains(w.Text, want[i]) {
				t.Errorf("wait %d is %+v", i, w)
			}
		}
		if len(got) != len(want) {
			t.Errorf("it waits for %+v, want %q", got, want)
		}
	}
	check([]*clusterapi.Machine{self, member("b", time.Hour, leaving, nodeless)}, want)
	check([]*clusterapi.Machine{member("b", time.Hour, leaving, nodeless)}, slices.Insert(slices.Clone(want), 4, "it is the only machine"))
	if wait, waits := (&controlPlane{}).busy(self, nil); waits {
		t.Errorf("it replaces nothing, and waits for %+v", wait)
	}
	if wait, waits := (&controlPlane{}).others(self, []*clusterapi.Machine{member("b", time.Hour)}); waits {
		t.Errorf("no other machine has a request, and it waits for %+v", wait)
	}
	unreadable := replacement{unreadable: `"x"`}
	if wait, waits := k.retry(unreadable, noon); !waits || !strings.Contains(wait.Text, replacesAnnotation+` on the machine is "x"`) {
		t.Errorf("the annotation can't be read, and it waits (%t) for %+v", waits, wait)
	}
}

// TestRulesOfControlPlanes: the settings, the last replacement, and what can't be read.
func TestRulesOfControlPlanes(t *testing.T) {
	three := int32(3)
	k := controlPlane{
		retryPeriod: time.Minute, minHealthyPeriod: time.Hour, last: replacement{Machine: "m", At: ago(time.Hour), Retries: 2}, wrong: []string{"status is 7 and can't be read"},
		fields: fieldPaths{"max", "pause", "anew"},
	}
	want := []string{
		"A replacement that fails is replaced again, any number of times (max is not set), 1m0s after the one before (pause); what fails 1h0m0s or later after that counts as a new fault (anew)",
		"The last that it replaced is m, at 2026-08-03T11:00:00Z, after 2 retries", "status is 7 and can't be read",
	}
	if got := k.rules(); !slices.Equal(got, want) {
		t.Errorf("the rules are %q, want %q", got, want)
	}
	k.maxRetry, k.last.At, k.wrong = &three, time.Time{}, nil
	want = []string{strings.Replace(want[0], "any number of times (max is not set)", "at most 3 times (max)", 1), "The last that it replaced is m, at an unknown time, after 2 retries"}
	if got := k.rules(); !slices.Equal(got, want) {
		t.Errorf("the rules are %q, want %q", got, want)
	}
	k.last = replacement{}
	if got := k.rules(); !slices.Equal(got, want[:1]) {
		t.Errorf("the rules are %q, want %q", got, want[:1])
	}
}

// TestMostBroken: each key precedes all that follow it.
func TestMostBroken(t *testing.T) {
	worse := map[string]func(*clusterapi.Machine){"no node": nodeless}
	for _, kind := range severityOrder {
		worse[kind] = condition(kind, "Unknown")
	}
	order := append([]string{"no node"}, severityOrder[:]...)
	well := func(but string) func(*clusterapi.Machine) {
		return func(m *clusterapi.Machine) {
			for _, kind := range severityOrder {
				if kind != but {
					condition(kind, "True")(m)
				}
			}
		}
	}
	for i, graver := range order {
		for _, less := range order[i+1:] {
			a, b := member("a", time.Hour, asking, well(less), worse[less]), member("b", time.Minute, asking, well(graver), worse[graver])
			if got := firstToReplace([]*clusterapi.Machine{a, b}); got != b {
				t.Errorf("%s goes before %s", less, graver)
			}
		}
	}
	bare, well2 := member("a", time.Minute, asking), member("b", time.Hour, asking, well(""))
	if got := firstToReplace([]*clusterapi.Machine{bare, well2}); got != bare {
		t.Error("a machine without any of the conditions does not go before one with all")
	}
	onlyRequested := member("c", time.Hour, func(m *clusterapi.Machine) {
		marked(m, clusterv1.MachineOwnerRemediatedCondition, "WaitingForRemediation")
	})
	recovered := member("d", time.Hour, asking)
	recovered.Marks[0].Status = "True"
	if got := firstToReplace([]*clusterapi.Machine{onlyRequested, recovered}); got != nil {
		t.Errorf("%s has not failed, and is picked", got.Name)
	}
	if got := firstToReplace([]*clusterapi.Machine{member("a", time.Hour), member("b", time.Hour, sick)}); got != nil {
		t.Errorf("%s has no request, and is picked", got.Name)
	}
}

// TestReadingControlPlanes reads both versions.
func TestReadingControlPlanes(t *testing.T) {
	three := int32(3)
	current := fieldPaths{"spec.remediation.maxRetry", "spec.remediation.retryPeriodSeconds", "spec.remediation.minHealthyPeriodSeconds"}
	cases := map[string]struct {
		yaml string
		want controlPlane
	}{
		"v1beta2": {
			`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: cp, annotations: {controlplane.cluster.x-k8s.io/remediation-in-progress: '{"machine":"m","timestamp":"2026-08-03T11:00:00Z","retryCount":2}'}},
			  spec: {remediation: {maxRetry: 3, retryPeriodSeconds: 60, minHealthyPeriodSeconds: 7200}},
			  status: {initialization: {controlPlaneInitialized: true}, lastRemediation: {machine: l, time: "2026-08-03T10:00:00Z", retryCount: 1}}}`,
			controlPlane{
				name: "cp", maxRetry: &three, retryPeriod: time.Minute, minHealthyPeriod: 2 * time.Hour, fields: current, initialized: true,
				replacing: replacement{Machine: "m", At: ago(time.Hour), Retries: 2}, last: replacement{Machine: "l", At: ago(2 * time.Hour), Retries: 1},
			},
		},
		"the fields of both, of which v1beta2's count": {
			`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: cp},
			  spec: {remediation: {maxRetry: 3, retryPeriodSeconds: 60, minHealthyPeriodSeconds: 7200}, remediationStrategy: {maxRetry: 9, retryPeriod: 9m, minHealthyPeriod: 9h}},
			  status: {initialized: true, lastRemediation: {machine: l, time: "2026-08-03T10:00:00Z", timestamp: "2026-08-03T11:00:00Z", retryCount: 1}}}`,
			controlPlane{
				name: "cp", maxRetry: &three, retryPeriod: time.Minute, minHealthyPeriod: 2 * time.Hour, fields: current, initialized: true,
				last: replacement{Machine: "l", At: ago(2 * time.Hour), Retries: 1},
			},
		},
		"v1beta1": {
			`{apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, metadata: {name: cp},
			  spec: {remediationStrategy: {maxRetry: 3, retryPeriod: 1m, minHealthyPeriod: 2h}}, status: {initialized: true, lastRemediation: {machine: l, timestamp: "2026-08-03T10:00:00Z", retryCount: 1}}}`,
			controlPlane{
				name: "cp", maxRetry: &three, retryPeriod: time.Minute, minHealthyPeriod: 2 * time.Hour, initialized: true,
				fields: fieldPaths{"spec.remediationStrategy.maxRetry", "spec.remediationStrategy.retryPeriod", "spec.remediationStrategy.minHealthyPeriod"},
				last:   replacement{Machine: "l", At: ago(2 * time.Hour), Retries: 1},
			},
		},
		"the default period": {
			`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: cp}, spec: {remediation: {maxRetry: 3}}}`,
			controlPlane{name: "cp", maxRetry: &three, minHealthyPeriod: time.Hour, fields: current},
		},
		"nothing set": {
			`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: cp, annotations: {cluster.x-k8s.io/paused: ""}}}`,
			controlPlane{name: "cp", minHealthyPeriod: time.Hour, fields: current, paused: true},
		},
		"nonsense": {
			`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: cp, annotations: {controlplane.cluster.x-k8s.io/remediation-in-progress: 'x'}}, spec: {remediation: {maxRetry: many}}, status: 7}`,
			controlPlane{
				name: "cp", minHealthyPeriod: time.Hour, fields: current, replacing: replacement{unreadable: `"x"`},
				wrong: []string{`spec.remediation.maxRetry is {"maxRetry":"many"} and can't be read`, "status is 7 and can't be read"},
			},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := readControlPlane(flow(t, tc.yaml))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(controlPlane{}, fieldPaths{}, replacement{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if rules := got.rules(); len(rules) == 0 || !strings.Contains(rules[0], got.fields.maxRetry) {
				t.Errorf("its rules are %q", rules)
			}
		})
	}
}

// TestMachineSetsWait for the limit of their machine deployment.
func TestMachineSetsWait(t *testing.T) {
	set := func(revision string) string {
		return `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, metadata: {name: set, annotations: {machinedeployment.clusters.x-k8s.io/revision: "` + revision + `"}}}`
	}
	deployment := func(spec string) string {
		return `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: md, annotations: {machinedeployment.clusters.x-k8s.io/revision: "1"}}, spec: ` + spec + `}`
	}
	replaced := func(m *clusterapi.Machine) {
		leaving(m)
		marked(m, clusterv1.MachineOwnerRemediatedCondition, "MachineDeleting")
	}
	self := func() *clusterapi.Machine { return member("a", time.Hour, asking) }
	cases := map[string]struct {
		set, deployment string
		others          []*clusterapi.Machine
		want            string
	}{
		"no limit":                               {set("1"), deployment(`{}`), []*clusterapi.Machine{member("b", time.Hour, replaced)}, ""},
		"room for one":                           {set("1"), deployment(`{remediation: {maxInFlight: 2}}`), []*clusterapi.Machine{member("b", time.Hour, replaced)}, ""},
		"one at a time":                          {set("1"), deployment(`{remediation: {maxInFlight: 1}}`), []*clusterapi.Machine{member("b", time.Hour, replaced)}, "1 of its machine set are being replaced and 0 go first"},
		"a newer one goes first":                 {set("1"), deployment(`{remediation: {maxInFlight: 1}}`), []*clusterapi.Machine{member("b", time.Minute, asking)}, "0 of its machine set are being replaced and 1 go first"},
		"an older one goes later":                {set("1"), deployment(`{remediation: {maxInFlight: 1}}`), []*clusterapi.Machine{member("b", 2*time.Hour, asking)}, ""},
		"a deletion that follows another reason": {set("1"), deployment(`{remediation: {maxInFlight: 1}}`), []*clusterapi.Machine{member("b", time.Minute, asking, leaving)}, ""},
		"a machine that is yet to be deleted":    {set("1"), deployment(`{remediation: {maxInFlight: 1}}`), []*clusterapi.Machine{member("b", 2*time.Hour, replaced, staying)}, ""},
		"a newer owner without settings":         {set("1"), deployment(`{remediation: {maxInFlight: 1}}`), []*clusterapi.Machine{member("b", time.Minute, sick)}, ""},
		"others' deletions don't count":          {set("1"), deployment(`{remediation: {maxInFlight: 1}}`), []*clusterapi.Machine{member("b", time.Hour, leaving)}, ""},
		"a share is rounded up":                  {set("1"), deployment(`{replicas: 3, remediation: {maxInFlight: 34%}}`), []*clusterapi.Machine{member("b", time.Hour, replaced)}, ""},
		"never":                                  {set("1"), deployment(`{remediation: {maxInFlight: 0}}`), nil, "is 0, so none of its machines is ever replaced"},
		"of v1beta1":                             {set("1"), deployment(`{strategy: {remediation: {maxInFlight: 0}}}`), nil, "spec.strategy.remediation.maxInFlight of MachineDeployment md is 0"},
		"a rollout":                              {set("0"), deployment(`{}`), nil, "whose rollout replaces the machine"},
		"no deployment":                          {set("1"), "", []*clusterapi.Machine{member("b", time.Hour, replaced)}, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := readMachineSet(flow(t, tc.set), nil)
			if tc.deployment != "" {
				p = readMachineSet(flow(t, tc.set), flow(t, tc.deployment))
			}
			got := p.waits(self(), append(tc.others, self()))
			if len(got) != min(1, len(tc.want)) || (len(got) == 1 && !strings.Contains(got[0].Text, tc.want)) {
				t.Errorf("it waits for %+v, want %q", got, tc.want)
			}
		})
	}
}

// TestReplacementsAsTheyAreWritten: the payload is that of Cluster API.
func TestReplacementsAsTheyAreWritten(t *testing.T) {
	r := readReplacement(map[string]string{replacesAnnotation: `{"machine":"cp-abc","timestamp":"2026-08-03T12:00:00Z","retryCount":1}`}, replacesAnnotation)
	if r.Machine != "cp-abc" || !r.At.Equal(noon) || r.Retries != 1 || r.unreadable != "" {
		t.Errorf("read as %+v", r)
	}
	if r := readReplacement(map[string]string{replacesAnnotation: ""}, replacesAnnotation); r.unreadable != `""` {
		t.Errorf("an empty annotation is %+v", r)
	}
	if r := readReplacement(nil, replacesAnnotation); r != (replacement{}) {
		t.Errorf("without an annotation it is %+v", r)
	}
}
