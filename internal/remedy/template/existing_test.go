package template

import (
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

// TestWhoseARequestIs that exists already under the name that an order gives.
func TestWhoseARequestIs(t *testing.T) {
	mine := strings.Replace(owned, "name: w-12345", "name: w", 1)
	instead := func(text, old, fresh string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not there to be replaced", old)
		}
		return strings.Replace(text, old, fresh, 1)
	}
	leaving := func(text string) string {
		return instead(text, "metadata:\n", "metadata:\n  deletionTimestamp: \"2026-08-03T13:00:00Z\"\n")
	}
	cases := map[string]struct {
		object string
		order  core.RemedyCall
		want   core.RemedyResult
		says   []string
	}{
		"just this one":                   {mine, nodeCall(), core.Accepted, nil},
		"a health check made again":       {instead(mine, "check-uid", "earlier"), nodeCall(), core.Accepted, nil},
		"a request that was told to stop": {instead(mine, "annotations: {", "annotations: {remediation.medik8s.io/nhc-timed-out: now, "), nodeCall(), core.Accepted, nil},
		"one on its way out":              {leaving(mine), nodeCall(), core.Stale, nil},
		"from before templates had names": {instead(mine, ", remediation.medik8s.io/template-name: t", ""), nodeCall(), core.Accepted, nil},
		"a deleted health check's, made again": {
			instead(instead(mine, "annotations: {", "annotations: {fettle.io/node-health-check: check, "), "medik8s.io/v1alpha1", "example/v1"),
			nodeCall(), core.Accepted, nil,
		},
		"another health check's":          {instead(mine, "name: check,", "name: other,"), nodeCall(), 0, []string{"X remediators/w", "belongs to NodeHealthCheck other", "nothing is done for Node w", "delete it"}},
		"a person's":                      {"{apiVersion: x.example/v1, kind: X, metadata: {name: w, namespace: remediators}}", nodeCall(), 0, []string{"has no owner"}},
		"another health check's, leaving": {leaving(instead(mine, "name: check,", "name: other,")), nodeCall(), 0, []string{"NodeHealthCheck other"}},
		"from another template":           {instead(mine, "template-name: t", "template-name: u"), nodeCall(), 0, []string{"made from template u"}},
		"about another node":              {instead(mine, "node-name: w", "node-name: v"), nodeCall(), 0, []string{"about node v"}},
		"about an earlier node":           {instead(mine, "w-uid", "earlier"), nodeCall(), 0, []string{"an earlier node of that name"}},
		"about an earlier node, struck off the owners": {
			instead(mine, "  - {apiVersion: v1, kind: Node, name: w, uid: w-uid}\n", ""), laterNodeCall(), 0, []string{"an earlier node of that name"},
		},
		"about an earlier node, and kept": {
			instead(leaving(instead(mine, "w-uid", "earlier")), "metadata:\n", "metadata:\n  finalizers: [x.example/f]\n"), nodeCall(), 0, []string{"an earlier node of that name", "these finalizers keep it: x.example/f"},
		},
		"about an earlier node, leaving, and kept by nothing": {
			leaving(instead(mine, "w-uid", "earlier")), nodeCall(), 0, []string{"an earlier node of that name", "it is being deleted; wait until it is gone"},
		},
		"a part of a machine": {
			instead(mine, "ownerReferences:\n", "ownerReferences:\n  - {apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: m-uid, controller: true}\n"),
			nodeCall(), 0, []string{"belongs to Machine m, NodeHealthCheck check, Node w"},
		},
		"a machine's own":                 {cloned, machineCall(), core.Accepted, nil},
		"a machine's, on its way out":     {leaving(cloned), machineCall(), core.Stale, nil},
		"an earlier machine's":            {instead(cloned, "m-uid", "earlier"), machineCall(), 0, []string{"belongs to Machine m", "nothing is done for Machine machines/m"}},
		"a machine's by another template": {instead(cloned, "name: t}", "name: u}"), machineCall(), 0, []string{"made from template u"}},
		"a machine's by no template":      {instead(cloned, "cloned-from-name", "another"), machineCall(), 0, []string{"does not say which template"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			u := parse(t, tc.object)
			made := tc.order
			if strings.Contains(sentence, "struck off") {
				made = nodeCall()
			}
			sign(u, &made)
			got, err := checkExisting(u, tc.order, "t")
			if got != tc.want || (err != nil) != (tc.says != nil) {
				t.Fatalf("the answer is %s, %v", got, err)
			}
			for _, words := range tc.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("the message does not say %q: %v", words, err)
				}
			}
		})
	}
}

// TestI10WhatFettleDidNotSignIsNotItsRequest: an unsigned object may have the name, the owners and the template of a
// request. It holds the repair up, and the repair does not count it as its own step.
func TestI10WhatFettleDidNotSignIsNotItsRequest(t *testing.T) {
	controls := true
	for form, c := range callsOfAllForms() {
		made, err := render(parse(t, c.template), c.order, "blue")
		if err != nil {
			t.Fatalf("rendering: %v", err)
		}
		for sentence, change := range map[string]func(*unstructured.Unstructured){
			"it is not signed": func(u *unstructured.Unstructured) { annotate(u, map[string]string{annotation.RequestedAs: ""}) },
			"it is signed for another": func(u *unstructured.Unstructured) {
				annotate(u, map[string]string{annotation.RequestedAs: signaturePrefix(u) + "another-uid"})
			},
			"it is not signed, and its node is struck off the owners": func(u *unstructured.Unstructured) {
				u.SetOwnerReferences(slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "Node" }))
				annotate(u, map[string]string{annotation.RequestedAs: ""})
			},
			"it is signed for a namesake":  func(u *unstructured.Unstructured) { u.SetNamespace("copies") },
			"no health check requested it": func(u *unstructured.Unstructured) { annotate(u, map[string]string{annotation.RequestedByUID: ""}) },
			"a controller owns it": func(u *unstructured.Unstructured) {
				pool := ownedBy(schema.GroupVersionKind{Group: "y.example", Version: "v1", Kind: "Y"}, core.ID{Name: "y", UID: "y-uid"})
				pool.Controller = &controls
				u.SetOwnerReferences(append(u.GetOwnerReferences(), pool))
			},
		} {
			t.Run(form+"/"+sentence, func(t *testing.T) {
				u := made.DeepCopy()
				change(u)
				if answer, err := checkExisting(u, c.order, "t"); err == nil || !strings.Contains(err.Error(), "was not made by Fettle") {
					t.Errorf("the answer is %s, %v", answer, err)
				}
			})
		}
	}
}

// TestNoRepairIsRequestedTwice for the same of one node, whatever the name and the namespace of the first request are.
func TestNoRepairIsRequestedTwice(t *testing.T) {
	const about = "annotations: {remediation.medik8s.io/node-name: w, remediation.medik8s.io/template-name: t}"
	persons := func(metadata string) string {
		return "{apiVersion: x.example/v1, kind: X, metadata: {" + metadata + "}}"
	}
	other := strings.Replace(owned, "name: check,", "name: other,", 1)
	cases := map[string]struct {
		reason, object string
		says           []string
	}{
		"none":                   {"there is none", "", nil},
		"one called by the node": {"its remediator goes by the name", persons("name: w, namespace: remediators"), []string{"X remediators/w", "has no owner", "nothing is done for Node w"}},
		"one in another place":   {"a node has no namespace", persons("name: w, namespace: elsewhere"), []string{"X elsewhere/w"}},
		"an annotated object":    {"its remediator goes by the annotation", persons("name: by-hand, namespace: remediators, " + about), []string{"X remediators/by-hand"}},
		"one called by the node, of this template": {
			"the name says the node", persons("name: w, namespace: elsewhere, annotations: {remediation.medik8s.io/template-name: t}"), []string{"X elsewhere/w"},
		},
		"another health check's":               {"one of them remediates a node", other, []string{"belongs to NodeHealthCheck other"}},
		"this health check's":                  {"it has its own path", owned, nil},
		"this health check's, made by another": {"Fettle did not make it", strings.Replace(owned, "name: w-12345", "name: w-67890", 1), []string{"was not made by Fettle for it"}},
		"one of another template":              {"it is another step", persons("name: w, namespace: elsewhere, annotations: {remediation.medik8s.io/template-name: u}"), nil},
		"one of a template not told":           {"its template is not known", persons("name: by-hand, namespace: remediators, annotations: {remediation.medik8s.io/node-name: w}"), nil},
		"one about another node":               {"it is about that", persons("name: w, namespace: elsewhere, annotations: {remediation.medik8s.io/node-name: v}"), nil},
		"one called by something else":         {"it is about that", persons("name: v, namespace: remediators"), nil},
		"a part of a machine":                  {"a machine is made of it", persons("name: w, namespace: elsewhere, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: m-uid, controller: true}]"), nil},
		"one for a machine":                    {"a machine is no node, whatever it is called", strings.ReplaceAll(cloned, "name: m", "name: w"), nil},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := knows(t, namespaced(synced), namespaced(synced), manyTemplate)
			s := conform.NewServer()
			d.API = s
			if tc.object != "" {
				u := parse(t, tc.object)
				if tc.says == nil {
					signFor(u, &core.ID{UID: "w-uid"})
				}
				d.kinds[xs].store.put(u)
			}
			answer, err := d.Start(t.Context(), nodeCall())
			made := s.Object(xs, "remediators", "w-r2ebs") != nil
			if refused := tc.says != nil; (err != nil) != refused || made == refused || (answer == core.Accepted) == refused {
				t.Fatalf("%s: the answer is %s, %v, and it was made: %t", tc.reason, answer, err, made)
			}
			for _, words := range tc.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("the message does not say %q: %v", words, err)
				}
			}
		})
	}
}

// TestI11MachineIsAsItWasJudged: a cache may lag behind a machine that has changed since, or was replaced by another of
// its name.
func TestI11MachineIsAsItWasJudged(t *testing.T) {
	const template = "{apiVersion: x.example/v1, kind: XTemplate, metadata: {name: t, namespace: machines}, spec: {template: {spec: {}}}}"
	machine := func(uid, revision string) string {
		return "{apiVersion: machine.openshift.io/v1beta1, kind: Machine, metadata: {name: m, namespace: machines, uid: " + uid + ", resourceVersion: \"" + revision + "\"}}"
	}
	for sentence, c := range map[string]struct {
		object string
		want   core.RemedyResult
	}{
		"as it was":             {machine("m-uid", "7"), core.Accepted},
		"it has changed":        {machine("m-uid", "8"), core.Stale},
		"it was replaced":       {machine("another", "7"), core.Stale},
		"it is gone":            {"", core.Stale},
		"another API's machine": {strings.Replace(machine("m-uid", "7"), "machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta2", 1), core.Stale},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := knows(t, namespaced(synced), namespaced(synced), template)
			s := conform.NewServer()
			d.API = s
			if c.object != "" {
				s.Put(parse(t, c.object))
			}
			answer, err := d.Start(t.Context(), machineCall())
			if made := s.Object(xs, "machines", "m") != nil; answer != c.want || err != nil || made != (c.want == core.Accepted) {
				t.Errorf("the answer is %s, %v, and it was made: %t", answer, err, made)
			}
		})
	}
}

// TestNoRepairIsRequestedBeforeAReading: where requests can't be seen, there may be one already.
func TestNoRepairIsRequestedBeforeAReading(t *testing.T) {
	d := knows(t, namespaced(synced), namespaced(failing), manyTemplate)
	s := conform.NewServer()
	d.API = s
	if answer, err := d.Start(t.Context(), nodeCall()); answer != core.Stale || err != nil || s.Object(xs, "remediators", "w-r2ebs") != nil {
		t.Errorf("the answer is %s, %v", answer, err)
	}
}

// TestTheFirstInTheWayIsNamed, by name, so that the same is said each time.
func TestTheFirstInTheWayIsNamed(t *testing.T) {
	const text = "{apiVersion: x.example/v1, kind: X, metadata: {name: w, namespace: NAMESPACE}}"
	d := knows(t, namespaced(synced), namespaced(synced), manyTemplate)
	for _, namespace := range []string{"c", "a", "b"} {
		d.kinds[xs].store.put(parse(t, strings.Replace(text, "NAMESPACE", namespace, 1)))
	}
	for range 10 {
		if _, err := d.Start(t.Context(), nodeCall()); err == nil || !strings.Contains(err.Error(), "X a/w ") {
			t.Fatalf("got %v", err)
		}
	}
}
