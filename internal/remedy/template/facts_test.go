package template

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/core"
)

var (
	xTemplates = schema.GroupVersionKind{Group: "x.example", Version: "v1", Kind: "XTemplate"}
	xs         = schema.GroupVersionKind{Group: "x.example", Version: "v1", Kind: "X"}
)

// knows returns a client with these states of the watches of the templates and of the requests. It has these objects
// of kinds that are in sync.
func knows(t *testing.T, templates, requests watchStatus, objects ...string) *ClusterClient {
	t.Helper()
	c := NewClient(Config{}).ForCluster(core.ClusterKey{}, func() {})
	for gvk, s := range map[schema.GroupVersionKind]watchStatus{xTemplates: templates, xs: requests} {
		k := c.need(gvk)
		if k.watchStatus = s; s.state == synced {
			k.store = newStore(func(*unstructured.Unstructured) {})
		}
	}
	for _, text := range objects {
		u := parse(t, text)
		c.kinds[u.GroupVersionKind()].store.put(u)
	}
	return c
}

func namespaced(s state) watchStatus { return watchStatus{state: s, namespaced: core.Yes} }

func clusterWide(s state) watchStatus { return watchStatus{state: s, namespaced: core.No} }

// TestProblemsOfSteps: the problem of a step is named, and the way to solve it; in the last case a ladder is as it should be.
func TestProblemsOfSteps(t *testing.T) {
	ready := namespaced(synced)
	node := func(names ...string) (steps []core.Step) {
		for _, n := range names {
			steps = append(steps, nodeStep(n))
		}
		return steps
	}
	odd := func(change func(*core.Step)) []core.Step {
		s := nodeStep("t")
		change(&s)
		return []core.Step{s}
	}
	const (
		second     = "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: u, namespace: remediators}, spec: {template: {spec: {}}}}"
		empty      = "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: remediators}, spec: {template: none}}"
		atTop      = "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t}, spec: {template: {spec: {}}}}"
		oneForEach = "XTemplate is the kind of two steps, and its remediator serves one template per node: template XTemplate remediators/"
		lacks      = " lacks the annotation remediation.medik8s.io/multiple-templates-support; name templates of different kinds"
		label      = "; create a ClusterRole with the label fettle.io/aggregate-to-fettle=true that grants the kinds of this template; fettle check prints one for the health check, and docs/contract.md shows how"
	)
	type said struct {
		problem string
		missing bool
	}
	cases := map[string]struct {
		client *ClusterClient
		steps  []core.Step
		want   []said
	}{
		"nothing is known yet": {knows(t, watchStatus{}, watchStatus{}), node("t"),
			[]said{{"template XTemplate remediators/t can't be read: XTemplate (x.example/v1) is being read", false}}},
		"the kind is not served": {knows(t, watchStatus{state: unserved}, watchStatus{}), node("t"),
			[]said{{"there is no template XTemplate remediators/t, since the cluster does not serve XTemplate (x.example/v1); install the remediator that defines it, or name another template", true}}},
		"the kind may not be read": {knows(t, namespaced(forbidden), ready), node("t"),
			[]said{{"template XTemplate remediators/t can't be read: Fettle may not list and watch XTemplate (x.example/v1)" + label, false}}},
		"the API server is in trouble": {knows(t, watchStatus{state: failing, why: "it burns"}, ready), node("t"),
			[]said{{"template XTemplate remediators/t can't be read: it burns; it is tried again", false}}},
		"no template": {knows(t, ready, ready), node("t"),
			[]said{{"template XTemplate remediators/t does not exist; create it, or name another template", true}}},
		"no namespace": {knows(t, ready, ready, plainTemplate), odd(func(s *core.Step) { s.Template.Namespace = "" }),
			[]said{{"template XTemplate t has no namespace, and its kind has one; name the namespace of the template", true}}},
		"nothing to make requests from": {knows(t, ready, ready, empty), node("t"),
			[]said{{"template XTemplate remediators/t has no object in spec.template, so nothing can be made from it; mend it, or name another template", false}}},
		"what is made is not served": {knows(t, ready, watchStatus{state: unserved}, plainTemplate), node("t"),
			[]said{{"no request can be created from template XTemplate remediators/t, since the cluster does not serve X (x.example/v1); install the remediator that defines it", false}}},
		"what is made may not be read": {knows(t, ready, namespaced(forbidden), plainTemplate), node("t"),
			[]said{{"what was made from template XTemplate remediators/t can't be read: Fettle may not list and watch X (x.example/v1)" + label, false}}},
		"what is made is being read": {knows(t, ready, namespaced(pending), plainTemplate), node("t"),
			[]said{{"what was made from template XTemplate remediators/t can't be read: X (x.example/v1) is being read", false}}},
		"a kind twice": {knows(t, ready, ready, plainTemplate, second), node("t", "u"),
			[]said{{oneForEach + "t" + lacks, false}, {oneForEach + "u" + lacks, false}}},
		"a kind twice, and one would do": {knows(t, ready, ready, manyTemplate, second), node("t", "u"),
			[]said{{"", false}, {oneForEach + "u" + lacks, false}}},
		"a template twice": {knows(t, ready, ready, manyTemplate), node("t", "t"),
			[]said{{"template XTemplate remediators/t is named by two steps; name each template once", false}, {"template XTemplate remediators/t is named by two steps; name each template once", false}}},
		"requests for machines of a kind twice": {knows(t, ready, ready, manyTemplate, second), []core.Step{
			{Remedy: MachineRemedy, Template: reference("t")}, {Remedy: MachineRemedy, Template: reference("u")},
		}, []said{
			{"XTemplate is the kind of two steps, and a machine can have one of its requests only; name templates of different kinds", false},
			{"XTemplate is the kind of two steps, and a machine can have one of its requests only; name templates of different kinds", false},
		}},
		"requests for machines that have no namespace": {knows(t, ready, clusterWide(synced), plainTemplate), []core.Step{{Remedy: MachineRemedy, Template: reference("t")}},
			[]said{{"template XTemplate remediators/t is of no use for machines, since X (x.example/v1) has no namespace and machines do; name another template", false}}},
		"requests that need a namespace, and a template without": {knows(t, clusterWide(synced), ready, atTop), node("t"),
			[]said{{"template XTemplate t has no namespace, and X (x.example/v1) needs the one of its template; name another template", false}}},
		"a kind that is no template's": {knows(t, ready, ready), odd(func(s *core.Step) { s.Template.Kind = "X" }),
			[]said{{"X remediators/t can't be a template: that has an apiVersion such as example.org/v1, and a kind that ends in Template", false}}},
		"no version": {knows(t, ready, ready), odd(func(s *core.Step) { s.Template.APIVersion = "" }),
			[]said{{"XTemplate remediators/t can't be a template: that has an apiVersion such as example.org/v1, and a kind that ends in Template", false}}},
		"the dialect has said what is wrong": {knows(t, watchStatus{}, watchStatus{}), odd(func(s *core.Step) { s.Problem = "it is odd" }),
			[]said{{"it is odd", false}}},
		"another remedy's step": {knows(t, ready, ready), odd(func(s *core.Step) { s.Remedy = "DeleteMachine" }), []said{{}}},
		"as it should be":       {knows(t, ready, ready, manyTemplate), node("t"), []said{{}}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			policies := []core.Policy{{ID: nodeCall().Policy, Steps: tc.steps}}
			before := append([]core.Step(nil), tc.steps...)
			cluster := core.Cluster{Repairs: []core.Repair{{Steps: tc.steps}, {Steps: tc.steps, Ended: noon}}}
			tc.client.AddFacts(policies, &cluster)
			for name, steps := range map[string][]core.Step{"policy": policies[0].Steps, "repair under way": cluster.Repairs[0].Steps} {
				var got []said
				for _, s := range steps {
					got = append(got, said{s.Problem, s.Missing})
					if reads := strings.HasSuffix(s.Problem, " is being read"); s.Pending != reads {
						t.Errorf("the step of the %s is pending: %t, with the problem %q", name, s.Pending, s.Problem)
					}
				}
				if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(said{})); diff != "" {
					t.Errorf("the steps of the %s (-want +got):\n%s", name, diff)
				}
			}
			if diff := cmp.Diff(before, tc.steps); diff != "" {
				t.Errorf("a ladder that others share has changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTemplatesAreLocated where objects have them, so that requests are known by the same words.
func TestTemplatesAreLocated(t *testing.T) {
	located := func(templates watchStatus, s core.Step) core.Reference {
		policies := []core.Policy{{ID: machineCall().Policy, Steps: []core.Step{s}}}
		knows(t, templates, namespaced(synced)).AddFacts(policies, &core.Cluster{})
		return policies[0].Steps[0].Template
	}
	without := machineStep("t")
	without.Template.Namespace = ""
	for sentence, tc := range map[string]struct {
		templates watchStatus
		step      core.Step
		want      string
	}{
		"beside the machine":                  {namespaced(synced), without, "machines"},
		"where the step says":                 {namespaced(synced), nodeStep("t"), "remediators"},
		"once in the cluster":                 {clusterWide(synced), without, ""},
		"once in the cluster, others said":    {clusterWide(synced), nodeStep("t"), ""},
		"a kind of which nothing is known":    {watchStatus{}, without, ""},
		"a kind that is not served right now": {namespaced(unserved), without, "machines"},
	} {
		if got := located(tc.templates, tc.step).Namespace; got != tc.want {
			t.Errorf("%s: in namespace %q, want %q", sentence, got, tc.want)
		}
	}
}

// TestRequestsThatCantBeSeen are told for every ladder that may have some, and for none that can't.
func TestRequestsThatCantBeSeen(t *testing.T) {
	unseen := []core.Reference{{APIVersion: "x.example/v1", Kind: "XTemplate"}}
	for sentence, tc := range map[string]struct {
		requests watchStatus
		want     []core.Reference
	}{
		"nothing is known":       {watchStatus{}, unseen},
		"they may not be read":   {namespaced(forbidden), unseen},
		"the API server is down": {watchStatus{state: failing}, unseen},
		"none can be":            {watchStatus{state: unserved}, nil},
		"they are seen":          {namespaced(synced), nil},
	} {
		steps := []core.Step{nodeStep("t"), {Remedy: "DeleteMachine"}, nodeStep("u")}
		for whose, world := range map[string]struct {
			policies []core.Policy
			cluster  core.Cluster
			want     []core.Reference
		}{
			"a policy":         {[]core.Policy{{Steps: steps}}, core.Cluster{}, tc.want},
			"another policy":   {[]core.Policy{{Steps: []core.Step{nodeStep("missing")}}}, core.Cluster{}, nil},
			"its running one":  {[]core.Policy{{Steps: []core.Step{nodeStep("missing")}}}, core.Cluster{Repairs: []core.Repair{{Steps: []core.Step{nodeStep("missing")}}}}, tc.want},
			"a running repair": {nil, core.Cluster{Repairs: []core.Repair{{Steps: steps}}}, tc.want},
			"an ended repair":  {nil, core.Cluster{Repairs: []core.Repair{{Steps: steps, Ended: noon}}}, nil},
		} {
			knows(t, namespaced(synced), tc.requests, plainTemplate).AddFacts(world.policies, &world.cluster)
			if diff := cmp.Diff(world.want, world.cluster.UnlistedTemplates); diff != "" {
				t.Errorf("%s, by %s (-want +got):\n%s", sentence, whose, diff)
			}
		}
	}
}

// TestRequestsOfUnseenTemplates can't be seen either, unless it is known that there is no such template. A template in a
// step of another remedy makes no requests.
func TestRequestsOfUnseenTemplates(t *testing.T) {
	other := core.Step{Remedy: "DeleteMachine", Template: core.Reference{APIVersion: "y.example/v1", Kind: "YTemplate", Name: "t"}}
	unseen := []core.Reference{{APIVersion: "x.example/v1", Kind: "XTemplate"}}
	for sentence, tc := range map[string]struct {
		templates watchStatus
		want      []core.Reference
	}{
		"nothing is known":       {watchStatus{}, unseen},
		"they may not be read":   {namespaced(forbidden), unseen},
		"the API server is down": {watchStatus{state: failing}, unseen},
		"none can be":            {watchStatus{state: unserved}, nil},
		"there is none":          {namespaced(synced), nil},
	} {
		var cluster core.Cluster
		knows(t, tc.templates, watchStatus{}).AddFacts([]core.Policy{{Steps: []core.Step{other, nodeStep("t")}}}, &cluster)
		if diff := cmp.Diff(tc.want, cluster.UnlistedTemplates); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestStepsWithoutNewsAreShared: they are copied only for a change.
func TestStepsWithoutNewsAreShared(t *testing.T) {
	policies := []core.Policy{nodePolicy("t")}
	first := &policies[0].Steps[0]
	knows(t, namespaced(synced), namespaced(synced), plainTemplate).AddFacts(policies, &core.Cluster{})
	if &policies[0].Steps[0] != first {
		t.Error("steps to which nothing is to be said are copied")
	}
}

// TestRequestsAreGivenOnce, with the template by which their ladder knows them.
func TestRequestsAreGivenOnce(t *testing.T) {
	c := knows(t, namespaced(synced), namespaced(synced), owned, cloned, "{apiVersion: x.example/v1, kind: X, metadata: {name: a-persons, namespace: machines, uid: p}}")
	names := func(policies []core.Policy, repairs ...core.Repair) (got []string) {
		cluster := core.Cluster{Repairs: repairs, Requests: []core.Request{{ID: core.ID{Name: "another remedy's"}}}}
		c.AddFacts(policies, &cluster)
		for _, r := range cluster.Requests {
			got = append(got, r.ID.Name+" "+r.Template.APIVersion+" "+r.Template.Name)
		}
		return got
	}
	others := []string{"another remedy's  ", "m x.example/v1 t"}
	wants := func(sentence string, got []string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(append(others[:2:2], want...), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
	wants("without policies", names(nil), "w-12345 x.example/v1 t")

	later := parse(t, owned)
	later.SetAPIVersion("x.example/v2")
	k := c.need(later.GroupVersionKind())
	k.state, k.store = synced, newStore(func(*unstructured.Unstructured) {})
	k.store.put(later)
	stepsWith := func(version string) []core.Step {
		s := nodeStep("t")
		s.Template.APIVersion = version
		return []core.Step{s}
	}
	check := nodeCall().Policy
	wants("two versions", names(nil), "w-12345 x.example/v1 t")
	wants("the policy has the later", names([]core.Policy{{ID: check, Steps: stepsWith("x.example/v2")}}), "w-12345 x.example/v2 t")
	wants("another policy has it", names([]core.Policy{{ID: core.ID{Kind: check.Kind, Name: "other"}, Steps: stepsWith("x.example/v2")}}), "w-12345 x.example/v1 t")
	target := nodeCall().Target.ID
	wants("a repair has it", names(nil, core.Repair{Target: target, Steps: stepsWith("x.example/v2")}), "w-12345 x.example/v2 t")
	wants("a repair that is over had it", names(nil, core.Repair{Target: target, Steps: stepsWith("x.example/v2"), Ended: noon}), "w-12345 x.example/v1 t")

	old := parse(t, owned)
	old.SetName("w")
	old.SetUID("old")
	old.SetAnnotations(nil)
	c.kinds[xs].store.put(old)
	wants("an old one, of no policy", names(nil), "w x.example/v1 ", "w-12345 x.example/v1 t")
	wants("an old one, of a policy", names([]core.Policy{{ID: check, Steps: []core.Step{nodeStep("first"), nodeStep("second")}}}),
		"w x.example/v1 first", "w-12345 x.example/v1 t")
}

// TestSurveysAreCheap: a pass over policies to which nothing is to be said costs nothing.
func TestSurveysAreCheap(t *testing.T) {
	c := knows(t, namespaced(synced), namespaced(synced), plainTemplate)
	policies := []core.Policy{{ID: nodeCall().Policy, Steps: []core.Step{nodeStep("t")}}}
	cluster := core.Cluster{}
	if allocs := testing.AllocsPerRun(100, func() { c.AddFacts(policies, &cluster) }); allocs > 1 {
		t.Errorf("a survey allocates %.0f times", allocs)
	}
}

// TestEventsThatMatter wake the engine, and no others.
func TestEventsThatMatter(t *testing.T) {
	changed := func(text string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		u := parse(t, text)
		u.SetResourceVersion("2")
		change(u)
		return u
	}
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatalf("setting a field: %v", err)
			}
		}
	}
	conditions := func(kind, status string) func(*unstructured.Unstructured) {
		return set([]any{map[string]any{"type": kind, "status": status, "reason": "R"}}, "status", "conditions")
	}
	for sentence, tc := range map[string]struct {
		object string
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"nothing":                    {owned, func(*unstructured.Unstructured) {}, false},
		"a label":                    {owned, set("b", "metadata", "labels", "a"), false},
		"a status that is not read":  {owned, set("Fencing", "status", "phase"), false},
		"another condition":          {owned, conditions("Ready", "True"), false},
		"a condition that is not it": {owned, conditions("Succeeded", "Unknown"), false},
		"it has succeeded":           {owned, conditions("Succeeded", "True"), true},
		"it is at work":              {owned, conditions("Processing", "True"), true},
		"the node goes for good":     {owned, conditions("PermanentNodeDeletionExpected", "True"), true},
		"it is told to stop":         {owned, set("2026-08-03T12:00:00Z", "metadata", "annotations", "remediation.medik8s.io/nhc-timed-out"), true},
		"it goes":                    {owned, set("2026-08-03T12:00:00Z", "metadata", "deletionTimestamp"), true},
		"its owners are removed":     {owned, set([]any{}, "metadata", "ownerReferences"), true},
		"a template's label":         {plainTemplate, set("b", "metadata", "labels", "a"), false},
		"a template's annotation":    {plainTemplate, set("", "metadata", "annotations", "remediation.medik8s.io/multiple-templates-support"), true},
		"a template's content":       {plainTemplate, set(int64(4), "spec", "template", "spec", "retries"), true},
		"a template's status":        {plainTemplate, set("well", "status", "condition"), false},
	} {
		woken := false
		objects := newStore(func(*unstructured.Unstructured) { woken = true })
		h := objects.handler()
		wakes := func(what string, want bool, happen func()) {
			t.Helper()
			woken = false
			happen()
			if woken != want {
				t.Errorf("%s, %s: the engine is woken: %t", sentence, what, woken)
			}
		}
		wakes("what comes at first", false, func() { h.OnAdd(parse(t, tc.object), true) })
		wakes("the change", tc.want, func() { h.OnUpdate(nil, changed(tc.object, tc.change)) })
		wakes("it is gone", true, func() { h.OnDelete(parse(t, tc.object)) })
		wakes("it was gone already", false, func() { h.OnDelete(parse(t, tc.object)) })
		wakes("it is back", true, func() { h.OnAdd(parse(t, tc.object), false) })
		wakes("nonsense", false, func() { h.OnAdd("nonsense", false) })
	}
}

func TestHowItStandsAfterAnError(t *testing.T) {
	resource := schema.GroupResource{Group: "x.example", Resource: "xs"}
	for sentence, tc := range map[string]struct {
		err  error
		want watchStatus
	}{
		"no such kind":     {&meta.NoKindMatchError{GroupKind: xs.GroupKind()}, watchStatus{state: unserved}},
		"no such resource": {&meta.NoResourceMatchError{}, watchStatus{state: unserved}},
		"no such path":     {apierrors.NewNotFound(resource, ""), watchStatus{state: unserved}},
		"not allowed":      {apierrors.NewForbidden(resource, "", errors.New("no")), watchStatus{state: forbidden}},
		"no answer":        {context.DeadlineExceeded, watchStatus{state: failing, why: "the API server did not answer within 10s"}},
		"a long text":      {errors.New(strings.Repeat("x", 301)), watchStatus{state: failing, why: strings.Repeat("x", 297) + "…"}},
		"something else":   {http.ErrHandlerTimeout, watchStatus{state: failing, why: http.ErrHandlerTimeout.Error()}},
	} {
		if got := statusAfter(tc.err); got != tc.want {
			t.Errorf("%s: %+v, want %+v", sentence, got, tc.want)
		}
	}
}
