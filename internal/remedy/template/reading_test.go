package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

const oneRequest = `{apiVersion: x.example/v1, kind: X, metadata: {name: w, namespace: remediators, uid: x-uid,
  annotations: {remediation.medik8s.io/template-name: t, remediation.medik8s.io/node-name: w},
  ownerReferences: [{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: check, uid: check-uid}]}}`

func nodePolicy(names ...string) core.Policy {
	p := core.Policy{ID: core.ID{Kind: "NodeHealthCheck", Name: "check", UID: "check-uid"}}
	for _, n := range names {
		p.Steps = append(p.Steps, nodeStep(n))
	}
	return p
}

// TestReadingAgreesWithWatching: a Reading finds the facts that the controller finds.
func TestReadingAgreesWithWatching(t *testing.T) {
	ready, unserved := namespaced(synced), watchStatus{state: unserved}
	cases := map[string]struct {
		templates, requests watchStatus
		objects             []string
	}{
		"a template and a request":  {ready, ready, []string{plainTemplate, oneRequest}},
		"a template alone":          {ready, ready, []string{plainTemplate}},
		"no template":               {ready, ready, nil},
		"a remediator by half":      {ready, unserved, []string{plainTemplate}},
		"no remediator":             {unserved, unserved, nil},
		"templates without a scope": {clusterWide(synced), clusterWide(synced), nil},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			r := NewReading()
			for gvk, s := range map[schema.GroupVersionKind]watchStatus{xTemplates: tc.templates, xs: tc.requests} {
				if s.state == synced {
					r.Begin(gvk, s.namespaced == core.Yes)
				} else {
					r.Unserved(gvk)
				}
			}
			for _, text := range tc.objects {
				u := parse(t, text)
				if !r.Put(u.GroupVersionKind(), u) || r.Put(u.GroupVersionKind(), u) {
					t.Errorf("%s %s changes something the first time only", u.GetKind(), u.GetName())
				}
			}
			var got, want core.Cluster
			policies, watched := []core.Policy{nodePolicy("t", "t")}, []core.Policy{nodePolicy("t", "t")}
			r.AddFacts(policies, &got)
			knows(t, tc.templates, tc.requests, tc.objects...).AddFacts(watched, &want)
			if diff := cmp.Diff(watched, policies); diff != "" {
				t.Errorf("ladders (-watched +read):\n%s", diff)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cluster (-watched +read):\n%s", diff)
			}
		})
	}
}

// TestReadingKnowsWhatItNeeds: each kind of the ladders once, and none that was looked for already.
func TestReadingKnowsWhatItNeeds(t *testing.T) {
	r := NewReading()
	other := nodePolicy("t")
	other.Steps[0].Template.Kind = "Nonsense"
	repairs := []core.Repair{{Steps: []core.Step{machineStep("t")}}, {Steps: []core.Step{{Remedy: "Other", Template: core.Reference{APIVersion: "y.example/v1", Kind: "YTemplate"}}}}}
	if diff := cmp.Diff([]schema.GroupVersionKind{xs, xTemplates}, r.Needs([]core.Policy{nodePolicy("t", "u"), other}, repairs)); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	r.Begin(xs, true)
	r.Hide(xTemplates, "you may not list xtemplates.x.example")
	if needs := r.Needs([]core.Policy{nodePolicy("t")}, nil); len(needs) > 0 {
		t.Errorf("still needed are %v", needs)
	}
}

// TestHiddenKinds: a step whose kinds may not be read can't be taken, and says why.
func TestHiddenKinds(t *testing.T) {
	const why = "you may not list xs.x.example"
	r := NewReading()
	r.Begin(xTemplates, true)
	r.Put(xTemplates, parse(t, plainTemplate))
	r.Hide(xs, why)
	policies, cluster := []core.Policy{nodePolicy("t")}, core.Cluster{}
	r.AddFacts(policies, &cluster)
	if got := policies[0].Steps[0].Problem; !strings.HasSuffix(got, "can't be read: "+why) {
		t.Errorf("the step's problem is %q", got)
	}
	if len(cluster.UnlistedTemplates) != 1 || cluster.UnlistedTemplates[0].Kind != "XTemplate" {
		t.Errorf("unseen are %v", cluster.UnlistedTemplates)
	}
	if got, hidden := r.Hidden(policies[0].Steps[0]); !hidden || got != why {
		t.Errorf("hidden: %q, %t", got, hidden)
	}
	if _, hidden := r.Hidden(core.Step{Remedy: "DeleteMachine"}); hidden {
		t.Error("a step without a template is hidden")
	}
}

func TestReadingForgets(t *testing.T) {
	r := NewReading()
	r.Begin(xs, true)
	r.Begin(xTemplates, true)
	r.Put(xs, parse(t, oneRequest))
	r.Drop(xs, types.NamespacedName{Namespace: "remediators", Name: "w"})
	var cluster core.Cluster
	r.AddFacts([]core.Policy{nodePolicy("t")}, &cluster)
	if len(cluster.Requests) != 0 {
		t.Errorf("requests are %+v", cluster.Requests)
	}
}
