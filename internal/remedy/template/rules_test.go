package template

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// TestWhenARemediatorWasStopped: an annotation that holds no time counts from the creation, or from the first instant.
func TestWhenARemediatorWasStopped(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-08-03T14:00:00+02:00": noon, "now": noon.Add(-time.Hour), "": noon.Add(-time.Hour), "0001-01-01T00:00:00Z": noon.Add(-time.Hour),
	} {
		if got := stoppedAt(map[string]string{v1alpha1.TimedOutAnnotation: text}, noon.Add(-time.Hour)); !got.Equal(want) {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	if got := stoppedAt(map[string]string{v1alpha1.TimedOutAnnotation: "now"}, time.Time{}); !got.Equal(time.Unix(0, 0)) {
		t.Errorf("without a creation it is %s", got)
	}
	if got := stoppedAt(nil, noon); !got.IsZero() {
		t.Errorf("without the annotation it is %s", got)
	}
}

// TestOwnersByKind: the group and the kind of an owner count, and no version.
func TestOwnersByKind(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "a/b/c", Kind: "Node", Name: "unreadable"}, {APIVersion: "v1", Kind: "Pod", Name: "pod"}, {APIVersion: "x.example/v1", Kind: "Node", Name: "other"},
		{APIVersion: "v1", Kind: "Node", Name: "w"}, {APIVersion: "v1", Kind: "Node", Name: "second"},
	})
	if got, is := owner(u, "", nodeKind); !is || got.Name != "w" {
		t.Errorf("the owner is %+v, %t", got, is)
	}
	if got := ownersText(u); got != "belongs to Node unreadable, Pod pod, Node other, Node w, Node second" {
		t.Errorf("it %s", got)
	}
}

// TestKindsOfTemplates: both kinds follow from a reference, or none.
func TestKindsOfTemplates(t *testing.T) {
	for text, ok := range map[string]bool{
		"x.example/v1 XTemplate": true, "x.example/v1 X": false, "x.example/v1 Template": false, "x.example/v1 ": false, "a/b/c XTemplate": false, " XTemplate": false,
	} {
		var r core.Reference
		r.APIVersion, r.Kind, _ = strings.Cut(text, " ")
		template, request, got := kindsOf(r)
		if got != ok || (ok && (template != xTemplates || request != xs)) {
			t.Errorf("%q has the kinds %v and %v, %t", text, template, request, got)
		}
	}
}

// TestRepeatedKinds: another step of this remedy repeats a kind of any version, and the same name and namespace repeat the template.
func TestRepeatedKinds(t *testing.T) {
	with := func(change func(*core.Step)) core.Step {
		s := nodeStep("t")
		change(&s)
		return s
	}
	for sentence, tc := range map[string]struct {
		other      core.Step
		kind, same bool
	}{
		"the same":             {nodeStep("t"), true, true},
		"another name":         {nodeStep("u"), true, false},
		"another namespace":    {with(func(s *core.Step) { s.Template.Namespace = "elsewhere" }), true, false},
		"another version":      {with(func(s *core.Step) { s.Template.APIVersion = "x.example/v2" }), true, true},
		"another kind":         {with(func(s *core.Step) { s.Template.Kind = "YTemplate" }), false, false},
		"another group":        {with(func(s *core.Step) { s.Template.APIVersion = "y.example/v1" }), false, false},
		"another remedy":       {with(func(s *core.Step) { s.Remedy = "DeleteMachine" }), false, false},
		"no kind of templates": {with(func(s *core.Step) { s.Template.Kind = "X" }), false, false},
	} {
		if kind, same := repeatedIn([]core.Step{nodeStep("t"), tc.other}, 0); kind != tc.kind || same != tc.same {
			t.Errorf("%s: the kind is repeated: %t, and the template: %t", sentence, kind, same)
		}
	}
	if _, same := repeatedIn([]core.Step{nodeStep("t"), nodeStep("t"), nodeStep("u")}, 0); !same {
		t.Error("a third step hides that two are the same")
	}
	odd := with(func(s *core.Step) { s.Template.Kind = "X" })
	if kind, _ := repeatedIn([]core.Step{odd, odd}, 0); kind {
		t.Error("two references that are no templates have a kind in common")
	}
}

// TestStepsThatMadeARequest: the steps of the policy that it names, and of running repairs of its target.
func TestStepsThatMadeARequest(t *testing.T) {
	request := core.Request{Target: core.ID{Kind: "Node", Name: "w", UID: "w-uid"}, Policy: nodeCall().Policy, Remedy: NodeRemedy, Template: reference("t")}
	steps := []core.Step{nodeStep("t")}
	repair := func(change func(*core.Repair)) []core.Repair {
		r := core.Repair{Target: core.ID{Kind: "Node", Name: "w", UID: "an earlier one"}, Steps: steps}
		change(&r)
		return []core.Repair{r}
	}
	policy := func(change func(*core.Policy)) []core.Policy {
		p := core.Policy{ID: core.ID{Kind: "NodeHealthCheck", Name: "check", UID: "made again"}, Steps: steps}
		change(&p)
		return []core.Policy{p}
	}
	for sentence, tc := range map[string]struct {
		policies []core.Policy
		repairs  []core.Repair
		want     bool
	}{
		"its policy":                   {policy(func(*core.Policy) {}), nil, true},
		"a policy of another name":     {policy(func(p *core.Policy) { p.ID.Name = "other" }), nil, false},
		"a policy of another kind":     {policy(func(p *core.Policy) { p.ID.Kind = "MachineHealthCheck" }), nil, false},
		"a repair":                     {nil, repair(func(*core.Repair) {}), true},
		"a repair that has ended":      {nil, repair(func(r *core.Repair) { r.Ended = noon }), false},
		"a repair of another kind":     {nil, repair(func(r *core.Repair) { r.Target.Kind = "Machine" }), false},
		"a repair of another name":     {nil, repair(func(r *core.Repair) { r.Target.Name = "v" }), false},
		"a repair in a namespace":      {nil, repair(func(r *core.Repair) { r.Target.Namespace = "machines" }), false},
		"steps of another remedy":      {policy(func(p *core.Policy) { p.Steps = []core.Step{{Remedy: MachineRemedy, Template: reference("t")}} }), nil, false},
		"steps with another template":  {policy(func(p *core.Policy) { p.Steps = []core.Step{nodeStep("u")} }), nil, false},
		"the second step of its steps": {policy(func(p *core.Policy) { p.Steps = []core.Step{nodeStep("u"), nodeStep("t")} }), nil, true},
	} {
		if got := hasStepFor(&request, tc.policies, tc.repairs); got != tc.want {
			t.Errorf("%s: it has made the request: %t", sentence, got)
		}
	}
	nameless := request
	nameless.Policy = core.ID{}
	if !hasStepFor(&nameless, policy(func(p *core.Policy) { p.ID = core.ID{Kind: "MachineHealthCheck", Name: "any"} }), nil) {
		t.Error("a request that names no policy may be of any")
	}
	nameless.Template.Name = ""
	for sentence, tc := range map[string]struct {
		steps []core.Step
		want  string
	}{
		"the first":         {[]core.Step{nodeStep("a"), nodeStep("b")}, "a"},
		"of another remedy": {[]core.Step{{Remedy: MachineRemedy, Template: reference("a")}, nodeStep("b")}, "b"},
		"of another kind":   {[]core.Step{{Remedy: NodeRemedy, Template: core.Reference{APIVersion: "x.example/v1", Kind: "YTemplate", Name: "a"}}, nodeStep("b")}, "b"},
		"none":              {nil, ""},
	} {
		if got := templateNameFor(&nameless, []core.Policy{{Steps: tc.steps}}, nil); got != tc.want {
			t.Errorf("%s: its template is %q, want %q", sentence, got, tc.want)
		}
	}
}

// TestDeduplicated requests: the version that a step names is kept, and of two such the first.
func TestDeduplicated(t *testing.T) {
	request := func(version, name string) core.Request {
		r := core.Request{ID: core.ID{Kind: "X", Name: "w", UID: "x-uid"}, Target: core.ID{Kind: "Node", Name: "w"}, Remedy: NodeRemedy, Template: reference(name)}
		r.Template.APIVersion = version
		return r
	}
	one, two := request("x.example/v1", "t"), request("x.example/v2", "t")
	both := nodePolicy("t", "t")
	both.Steps[1].Template.APIVersion = "x.example/v2"
	if got := deduplicated([]core.Request{one, two}, []core.Policy{both}, nil); len(got) != 1 || got[0] != one {
		t.Errorf("kept are %+v", got)
	}
	called := request("x.example/v1", "")
	called.ID.Name = "w-12345"
	if got := deduplicated([]core.Request{called}, []core.Policy{nodePolicy("t")}, nil); got[0].Template.Name != "" {
		t.Errorf("a request with a name of its own gets the template %q", got[0].Template.Name)
	}
	if got := deduplicated([]core.Request{}, nil, nil); got != nil {
		t.Errorf("of none there are %v", got)
	}
}

// TestStepsOfParts: only steps for machines that have no other problem are refused.
func TestStepsOfParts(t *testing.T) {
	made := core.Target{ID: core.ID{Kind: "Machine", Namespace: "machines", Name: "m"}, Parts: &core.Parts{Kinds: []core.Kind{{Group: "x.example", Kind: "X"}}}}
	whole := core.Target{Parts: core.NoParts()}
	steps := []core.Step{machineStep("t"), nodeStep("t"), machineStep("u")}
	steps[2].Problem = "it is odd"
	got := refuseParts(steps, []int{-1, 2, 0, 1}, []core.Target{whole, made})
	if got[0].Problem == "" || got[1].Problem != "" || got[2].Problem != "it is odd" || steps[0].Problem != "" {
		t.Errorf("the steps are %+v", got)
	}
	if at := memberMadeOf(core.Kind{Group: "x.example", Kind: "X"}, []int{0, 0, 1}, []core.Target{whole, made}); at != 1 {
		t.Errorf("the member is %d", at)
	}
	if got := refuseParts([]core.Step{machineStep("t")}, []int{0}, []core.Target{made}); got[0].Problem == "" {
		t.Error("the first target is no member")
	}
}

// TestAdviceOfErrors: only a missing namespace can be created.
func TestAdviceOfErrors(t *testing.T) {
	bare := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound}}
	other := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Kind: "namespaces"}}}
	for sentence, err := range map[string]error{"without details": bare, "a conflict": other, "no status": errDown} {
		if got := withAdvice(err); got.Error() != err.Error() || !errors.Is(got, err) {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}

// TestMachinesOfNodesOwnRequests, if they are whole and in the same namespace.
func TestMachinesOfNodesOwnRequests(t *testing.T) {
	machine := core.ID{Kind: "Machine", Namespace: "remediators", Name: "m", UID: "m-uid"}
	for sentence, tc := range map[string]struct {
		change func(*core.ID, *unstructured.Unstructured)
		owns   bool
	}{
		"it is one":            {func(*core.ID, *unstructured.Unstructured) {}, true},
		"another kind":         {func(id *core.ID, _ *unstructured.Unstructured) { id.Kind = "Pod" }, false},
		"without a UID":        {func(id *core.ID, _ *unstructured.Unstructured) { id.UID = "" }, false},
		"in another namespace": {func(id *core.ID, _ *unstructured.Unstructured) { id.Namespace = "machines" }, false},
		"in no namespace":      {func(id *core.ID, u *unstructured.Unstructured) { id.Namespace = ""; u.SetNamespace("") }, false},
	} {
		call, template := nodeCall(), parse(t, plainTemplate)
		call.Sibling = machine
		tc.change(&call.Sibling, template)
		u, err := render(template, call, "")
		if err != nil {
			t.Fatalf("%s: %v", sentence, err)
		}
		if owns := slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Name == "m" }); owns != tc.owns {
			t.Errorf("%s: it owns the request: %t", sentence, owns)
		}
	}
}

// TestNamesOfClusters are labels of requests for machines of Cluster API, where there is one.
func TestNamesOfClusters(t *testing.T) {
	for cluster, want := range map[string]map[string]string{"": nil, "blue": {"cluster.x-k8s.io/cluster-name": "blue"}} {
		u, err := render(parse(t, strings.Replace(plainTemplate, "remediators", "machines", 1)), clusterMachineCall(), cluster)
		if err != nil || cmp.Diff(want, u.GetLabels()) != "" {
			t.Errorf("of cluster %q it has the labels %v, %v", cluster, u.GetLabels(), err)
		}
	}
}

// TestWhereTemplatesAre: only machines lend their namespace.
func TestWhereTemplatesAre(t *testing.T) {
	for remedy, want := range map[string]string{NodeRemedy: "", MachineRemedy: "machines", ClusterMachineRemedy: "machines"} {
		s := core.Step{Remedy: remedy, Template: core.Reference{Name: "t"}}
		if got := resolveTemplate(&s, "machines", core.Yes); got.Namespace != want {
			t.Errorf("%s: it is in %q", remedy, got.Namespace)
		}
	}
}

// TestScopesOfRequests: machines need a namespace, and nodes that of the template if the kind has one.
func TestScopesOfRequests(t *testing.T) {
	for sentence, tc := range map[string]struct {
		remedy, namespace string
		scope             core.Tri
		problem           bool
	}{
		"a machine":                    {MachineRemedy, "machines", core.Yes, false},
		"a machine, in no namespace":   {MachineRemedy, "", core.Yes, false},
		"a machine, cluster-scoped":    {MachineRemedy, "machines", core.No, true},
		"a node, cluster-scoped":       {NodeRemedy, "", core.No, false},
		"a node":                       {NodeRemedy, "remediators", core.Yes, false},
		"a node, without a namespace":  {NodeRemedy, "", core.Yes, true},
		"a node, in a known namespace": {NodeRemedy, "remediators", core.No, false},
	} {
		s := stepFacts{requests: watchStatus{state: synced, namespaced: tc.scope}}
		step := core.Step{Remedy: tc.remedy, Template: core.Reference{APIVersion: "x.example/v1", Kind: "XTemplate", Namespace: tc.namespace, Name: "t"}}
		if got := s.requestProblem(&step); (got != "") != tc.problem {
			t.Errorf("%s: %q", sentence, got)
		}
	}
}

// TestUnknownKindsOfReadings change nothing.
func TestUnknownKindsOfReadings(t *testing.T) {
	r, u := NewReading(), parse(t, oneRequest)
	r.Unserved(xTemplates)
	for _, kind := range []schema.GroupVersionKind{xs, xTemplates} {
		if r.Put(kind, u) {
			t.Errorf("an object of %s counts", kind.Kind)
		}
		r.Drop(kind, types.NamespacedName{Namespace: "remediators", Name: "w"})
	}
	if why, is := r.Hidden(nodeStep("t")); is || why != "" {
		t.Errorf("a step of unknown kinds is hidden: %q", why)
	}
	r.Hide(xs, "you may not list them")
	for sentence, step := range map[string]core.Step{"another remedy": {Remedy: "DeleteMachine", Template: reference("t")}, "no template": {Remedy: NodeRemedy}} {
		if why, is := r.Hidden(step); is || why != "" {
			t.Errorf("%s is hidden: %q", sentence, why)
		}
	}
	if why, is := r.Hidden(nodeStep("t")); !is || why != "you may not list them" {
		t.Errorf("hidden: %q, %t", why, is)
	}
}

// TestNeedsOfRepairs that run, and of policies each by itself.
func TestNeedsOfRepairs(t *testing.T) {
	both := []schema.GroupVersionKind{xs, xTemplates}
	running := core.Repair{Steps: []core.Step{nodeStep("t")}}
	ended := running
	ended.Ended = noon
	for sentence, tc := range map[string]struct {
		policies []core.Policy
		repairs  []core.Repair
		want     []schema.GroupVersionKind
	}{
		"a policy": {[]core.Policy{nodePolicy("t")}, nil, both}, "a running repair": {nil, []core.Repair{running}, both}, "an ended repair": {nil, []core.Repair{ended}, nil},
	} {
		if diff := cmp.Diff(tc.want, NewReading().Needs(tc.policies, tc.repairs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestRequestsOfMachinesAreInNamespaces, and name their template.
func TestRequestsOfMachinesAreInNamespaces(t *testing.T) {
	for sentence, text := range map[string]string{
		"no namespace": strings.Replace(cloned, "  namespace: machines\n", "", 1), "no machine": strings.Replace(cloned, "kind: Machine,", "kind: Pod,", 1),
		"no machine, and an annotation without a name": strings.NewReplacer("kind: Machine,", "kind: Pod,", "machine.openshift.io/cloned-from-name", `""`).Replace(cloned),
	} {
		if _, _, isRequest := readRequest(parse(t, text)); isRequest {
			t.Errorf("%s: it is a request", sentence)
		}
	}
	u := parse(t, strings.Replace(owned, "kind: Node, name: w,", "kind: Node, name: v,", 1))
	if r, _, _ := readRequest(u); r.Target.UID != "" {
		t.Errorf("the UID of another node is taken for that of the target: %+v", r.Target)
	}
}

// TestFirstForeignRequest by its full name, whichever comes first.
func TestFirstForeignRequest(t *testing.T) {
	s := newStore(func(*unstructured.Unstructured) {})
	if got := s.findForeign(machineCall(), "t"); got != nil {
		t.Errorf("for a machine there is %v", got)
	}
	machines := parse(t, strings.ReplaceAll(cloned, "name: m", "name: w"))
	s.put(machines)
	others := parse(t, strings.Replace(owned, "name: check,", "name: other,", 1))
	signFor(others, &core.ID{UID: "w-uid"})
	s.put(others)
	if got := s.findForeign(nodeCall(), "t"); got == nil || got.GetName() != others.GetName() {
		t.Errorf("a signed request of another health check is %v", got)
	}
	call := machineCall()
	call.Target.ID.Name = "w"
	if got := s.findForeign(call, "t"); got != nil {
		t.Errorf("for a machine there is %v", got)
	}
}

// TestCountsOfStores hold no cluster without requests.
func TestCountsOfStores(t *testing.T) {
	s, u := newStore(func(*unstructured.Unstructured) {}), parse(t, owned)
	signFor(u, &core.ID{UID: "w-uid"})
	s.put(u)
	if s.requestCounts[core.ClusterKey{}] != 1 || s.ownCounts[core.ClusterKey{}] != 1 {
		t.Errorf("counted are %v and %v", s.requestCounts, s.ownCounts)
	}
	s.drop(types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()})
	if len(s.requestCounts)+len(s.ownCounts) != 0 {
		t.Errorf("left are %v and %v", s.requestCounts, s.ownCounts)
	}
	if s.put("nonsense") {
		t.Error("nonsense counts")
	}
}

// TestPartsOfUnknownMachines: requests that are not Fettle's stay so.
func TestPartsOfUnknownMachines(t *testing.T) {
	r := core.Request{Remedy: MachineRemedy, Template: reference("t"), Target: core.ID{UID: "m-uid"}}
	whole := core.Target{ID: core.ID{UID: "m-uid"}, Parts: core.NoParts()}
	if got := excludeParts([]core.Request{r}, []core.Target{whole}); len(got) != 1 || got[0].Own {
		t.Errorf("another's request becomes %+v", got)
	}
}

// TestI10NothingIsOwnedWithoutUID: an empty UID in an owner, or in a target, equals no signature that is missing.
func TestI10NothingIsOwnedWithoutUID(t *testing.T) {
	u := parse(t, strings.Replace(cloned, "uid: m-uid", `uid: ""`, 1))
	if r, _, isRequest := readRequest(u); !isRequest || r.Own {
		t.Errorf("it is a request: %t, and Fettle's own: %t", isRequest, r.Own)
	}
	call := machineCall()
	call.Target.ID.UID = ""
	if result, err := checkExisting(u, call, "t"); err == nil || !strings.Contains(err.Error(), "was not made by Fettle") {
		t.Errorf("the result is %s, %v", result, err)
	}
}

// TestI10NamelessHealthCheckOwnsNothing: a request of no health check is not that of one without a name.
func TestI10NamelessHealthCheckOwnsNothing(t *testing.T) {
	call := nodeCall()
	call.Policy.Name = ""
	u := parse(t, strings.Replace(owned, "kind: NodeHealthCheck, name: check", "kind: Pool, name: blue", 1))
	sign(u, &call)
	if result, err := checkExisting(u, call, "t"); err == nil || !strings.Contains(err.Error(), "belongs to Pool blue, Node w") {
		t.Errorf("the result is %s, %v", result, err)
	}
	if got := foreignReason(u, call); got != "belongs to Pool blue, Node w" {
		t.Errorf("it %s", got)
	}
}

// TestI11MissingMachineIsNotAsJudged, whatever a call says about the machine.
func TestI11MissingMachineIsNotAsJudged(t *testing.T) {
	c, call := NewClient(Config{API: &answers{get: apierrors.NewNotFound(xResource, "m")}}), machineCall()
	call.Target.ID.UID, call.Target.Revision = "", ""
	if same, err := c.isAsJudged(t.Context(), call); same || err != nil {
		t.Errorf("it is as it was judged: %t, %v", same, err)
	}
}

// forgetfulRegistry lists a kind that it does not know.
type forgetfulRegistry struct{}

func (forgetfulRegistry) need(schema.GroupVersionKind) *kind { return nil }

func (forgetfulRegistry) inOrder() []schema.GroupVersionKind { return []schema.GroupVersionKind{xs} }

func (forgetfulRegistry) known(schema.GroupVersionKind) *kind { return nil }

func (forgetfulRegistry) builtIn(string, core.Reference) BuiltInTemplate { return BuiltInTemplate{} }

// TestListedKindThatIsNotKnown has no requests.
func TestListedKindThatIsNotKnown(t *testing.T) {
	var cluster core.Cluster
	factReader{forgetfulRegistry{}, forgetfulRegistry{}, core.ClusterKey{}}.addFacts(nil, &cluster)
	if len(cluster.Requests) != 0 {
		t.Errorf("there are requests: %v", cluster.Requests)
	}
}

// TestKindsThatAreRead: the kind of the requests is read once the kind of the templates is, and the template was found.
func TestKindsThatAreRead(t *testing.T) {
	found := parse(t, plainTemplate)
	for sentence, tc := range map[string]struct {
		templates, requests state
		template            *unstructured.Unstructured
		want                bool
	}{
		"the templates are read":          {pending, synced, nil, true},
		"the requests are read":           {synced, pending, found, true},
		"neither is read":                 {synced, synced, found, false},
		"the template does not exist":     {synced, pending, nil, false},
		"the templates can't be read now": {failing, pending, found, false},
		"the requests can't be read":      {synced, failing, found, false},
	} {
		s := stepFacts{templates: watchStatus{state: tc.templates}, requests: watchStatus{state: tc.requests}, template: tc.template}
		if got := s.isRead(); got != tc.want {
			t.Errorf("%s: the client is reading: %t", sentence, got)
		}
	}
}

// TestNamesOfFinalizers: the first three are named, and the others counted.
func TestNamesOfFinalizers(t *testing.T) {
	all := []string{"a/f", "b/f", "c/f", "d/f", "e/f"}
	for n, want := range []string{"", "a/f", "a/f, b/f", "a/f, b/f, c/f", "a/f, b/f, c/f and 1 more", "a/f, b/f, c/f and 2 more"} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetFinalizers(all[:n])
		if got := finalizersOf(u); got != want {
			t.Errorf("%d finalizers are %q, want %q", n, got, want)
		}
	}
}
