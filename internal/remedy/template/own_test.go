package template

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/remedy/conform"
)

// callsOfAllForms has an order of each form, with a template that a request can be made from.
func callsOfAllForms() map[string]struct {
	order    core.RemedyCall
	template string
} {
	const beside = "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: machines}, spec: {template: {spec: {}}}}"
	return map[string]struct {
		order    core.RemedyCall
		template string
	}{
		"for nodes":                   {nodeCall(), plainTemplate},
		"for machines":                {machineCall(), beside},
		"for machines of Cluster API": {clusterMachineCall(), beside},
	}
}

// TestI10OnlyWhatFettleMadeIsItsOwn: of all objects that look like a request, only objects with Fettle's signature
// count as its own. The fields that are signed must be unchanged. All others are respected, and neither stopped nor
// withdrawn.
func TestI10OnlyWhatFettleMadeIsItsOwn(t *testing.T) {
	controls := true
	for form, c := range callsOfAllForms() {
		made, err := render(parse(t, c.template), c.order, "blue")
		if err != nil {
			t.Fatalf("rendering: %v", err)
		}
		made.SetUID("x-uid")
		ownedByMachine := func(u *unstructured.Unstructured, apiVersion string) {
			owners := u.GetOwnerReferences()
			owners[len(owners)-1].APIVersion, owners[len(owners)-1].Kind, owners[len(owners)-1].Controller = apiVersion, "Machine", &controls
			u.SetOwnerReferences(owners)
		}
		annotated := func(key, value string) func(*unstructured.Unstructured) {
			return func(u *unstructured.Unstructured) { annotate(u, map[string]string{key: value}) }
		}
		for sentence, tc := range map[string]struct {
			change         func(*unstructured.Unstructured)
			isRequest, own bool
		}{
			"as it was made":                 {func(*unstructured.Unstructured) {}, true, true},
			"in another version":             {func(u *unstructured.Unstructured) { u.SetAPIVersion("x.example/v2") }, true, true},
			"without the health check's UID": {annotated(annotation.RequestedByUID, ""), true, false},
			"without a signature":            {annotated(annotation.RequestedAs, ""), true, false},
			"signed for another target":      {annotated(annotation.RequestedAs, signaturePrefix(made)+"another-uid"), true, false},
			"signed for no target, and about none": {func(u *unstructured.Unstructured) {
				u.SetOwnerReferences(slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "Node" }))
				annotate(u, map[string]string{annotation.RequestedAs: signaturePrefix(u)})
			}, true, false},
			"signed for another object, and about none": {func(u *unstructured.Unstructured) {
				u.SetOwnerReferences(slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "Node" }))
				u.SetNamespace("copies")
			}, true, false},
			"signed, and not called by its machine": {func(u *unstructured.Unstructured) {
				u.SetName("copy")
				annotate(u, map[string]string{annotation.RequestedAs: signaturePrefix(u) + c.order.Target.ID.UID})
			}, true, !isMachineRemedy(c.order.Step.Remedy)},
			"copied to another name":           {func(u *unstructured.Unstructured) { u.SetName("copy") }, true, false},
			"copied to another namespace":      {func(u *unstructured.Unstructured) { u.SetNamespace("copies") }, true, false},
			"copied to another kind":           {func(u *unstructured.Unstructured) { u.SetKind("Y") }, true, false},
			"copied to another group":          {func(u *unstructured.Unstructured) { u.SetAPIVersion("y.example/v1") }, true, false},
			"a part of a Cluster API machine":  {func(u *unstructured.Unstructured) { ownedByMachine(u, "cluster.x-k8s.io/v1beta2") }, false, false},
			"a part of an OpenShift machine":   {func(u *unstructured.Unstructured) { ownedByMachine(u, "machine.openshift.io/v1beta1") }, false, false},
			"a part of a machine of any group": {func(u *unstructured.Unstructured) { ownedByMachine(u, "machines.example/v1") }, false, false},
			"owned by a controller of some other kind": {func(u *unstructured.Unstructured) {
				owners := u.GetOwnerReferences()
				u.SetOwnerReferences(append(owners, ownedBy(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachinePool"}, core.ID{Name: "p", UID: "p-uid"})))
				owners = u.GetOwnerReferences()
				owners[len(owners)-1].Controller = &controls
				u.SetOwnerReferences(owners)
			}, true, false},
		} {
			t.Run(form+"/"+sentence, func(t *testing.T) {
				u := made.DeepCopy()
				tc.change(u)
				r, _, isRequest := readRequest(u)
				if isRequest != tc.isRequest || r.Own != tc.own {
					t.Fatalf("it is a request: %t, and Fettle's own: %t", isRequest, r.Own)
				}
				if !tc.own {
					wantUntouched(t, u, r)
				}
			})
		}
	}
}

// wantUntouched has a request withdrawn and stopped, and fails when that does anything.
func wantUntouched(t *testing.T, u *unstructured.Unstructured, r core.Request) {
	t.Helper()
	s := conform.NewServer()
	s.Put(u)
	c := NewClient(Config{API: s})
	r.ID = idOf(u)
	_, withdrawn := c.Withdraw(t.Context(), r)
	for what, err := range map[string]error{"stopped": c.Stop(t.Context(), r, noon), "withdrawn": withdrawn} {
		if err == nil || !strings.Contains(err.Error(), "not made by Fettle") {
			t.Errorf("it may be %s: %v", what, err)
		}
	}
	if s.Object(u.GroupVersionKind(), u.GetNamespace(), u.GetName()) == nil {
		t.Error("it was deleted")
	}
}

// TestI10PartsOfMachinesAreNoRequests: an object of the kind of a machine's parts is no request, for any signature
// and owner. While the kinds of a machine's parts are not known, no object about it counts as Fettle's own.
func TestI10PartsOfMachinesAreNoRequests(t *testing.T) {
	home := knows(t, namespaced(synced), namespaced(synced))
	for _, o := range []core.RemedyCall{machineCall(), clusterMachineCall()} {
		u, err := render(parse(t, strings.Replace(plainTemplate, "remediators", "machines", 1)), o, "blue")
		if err != nil {
			t.Fatalf("rendering: %v", err)
		}
		u.SetUID("x-uid")
		home.kinds[xs].store.put(u)
		d := home
		if o.Step.Remedy == ClusterMachineRemedy {
			d = home.ForCluster(core.ClusterKey{Namespace: "machines", Name: "blue"}, func() {})
		}
		for sentence, tc := range map[string]struct {
			parts          *core.Parts
			isRequest, own bool
		}{
			"the machine has no parts":        {core.NoParts(), true, true},
			"it has parts of other kinds":     {&core.Parts{Kinds: []core.Kind{{Group: "x.example", Kind: "Y"}, {Group: "y.example", Kind: "X"}}}, true, true},
			"it is the infrastructure's kind": {&core.Parts{Kinds: []core.Kind{{Group: "x.example", Kind: "X"}}}, false, false},
			"it is the bootstrap's kind":      {&core.Parts{Kinds: []core.Kind{{Group: "y.example", Kind: "Y"}, {Group: "x.example", Kind: "X"}}}, false, false},
			"its parts are not known":         {nil, true, false},
		} {
			t.Run(o.Step.Remedy+"/"+sentence, func(t *testing.T) {
				t1 := o.Target
				t1.Parts = tc.parts
				cluster := core.Cluster{Targets: []core.Target{{}, t1}}
				d.AddFacts(nil, &cluster)
				if len(cluster.Requests) > 1 || (len(cluster.Requests) == 1) != tc.isRequest || (tc.isRequest && cluster.Requests[0].Own != tc.own) {
					t.Errorf("requests: %+v", cluster.Requests)
				}
			})
		}
	}
}

// TestTemplatesOfPartsAreUnusable: a health check whose template makes objects of which a member is made says so, and is
// held back as a whole.
func TestTemplatesOfPartsAreUnusable(t *testing.T) {
	infrastructure := &core.Parts{Kinds: []core.Kind{{Group: "x.example", Kind: "X"}}}
	for sentence, tc := range map[string]struct {
		parts   []*core.Parts
		members []int
		want    string
	}{
		"no member":                             {[]*core.Parts{infrastructure}, nil, ""},
		"a member of other parts":               {[]*core.Parts{core.NoParts(), infrastructure}, []int{0}, ""},
		"a member of which that is not known":   {[]*core.Parts{nil}, []int{0}, ""},
		"a member that is made of such objects": {[]*core.Parts{core.NoParts(), core.NoParts(), infrastructure}, []int{0, 1, 2}, "Machine machines/m2 itself is made"},
		"members that are not there":            {[]*core.Parts{infrastructure}, []int{-1, 7}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := knows(t, namespaced(synced), namespaced(synced), strings.Replace(plainTemplate, "remediators", "machines", 1))
			cluster := core.Cluster{}
			for i, parts := range tc.parts {
				cluster.Targets = append(cluster.Targets, core.Target{ID: core.ID{Kind: "Machine", Namespace: "machines", Name: fmt.Sprintf("m%d", i)}, Parts: parts})
			}
			steps := []core.Step{machineStep("t")}
			policies := []core.Policy{{Steps: steps, Members: tc.members}}
			d.AddFacts(policies, &cluster)
			got := policies[0].Steps[0].Problem
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("the problem is %q, want %q", got, tc.want)
			}
			if steps[0].Problem != "" {
				t.Error("the dialect's own ladder has changed")
			}
			if watched := slices.Contains(d.neededKinds(), xs); watched != (tc.want == "") {
				t.Errorf("the kind of the parts is watched: %t", watched)
			}
		})
	}
}
