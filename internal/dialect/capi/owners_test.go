package capi

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
)

// requested has the conditions by which a machine requests its replacement, with the answer of its owner.
func requested(reason, message string) string {
	return `status: {conditions: [` + mark("HealthCheckSucceeded", "False", "UnhealthyNode") +
		`, {type: OwnerRemediated, status: "False", reason: ` + reason + `, message: "` + message + `", lastTransitionTime: "2026-08-03T11:30:00Z"}]}`
}

// TestAnswersOfOwners: the answer of an owner, its rules and what it waits for, as far as the owners could be read.
func TestAnswersOfOwners(t *testing.T) {
	const ownedByControlPlane = `metadata: {ownerReferences: [{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, name: workers, uid: workers-uid, controller: true}]}`
	set := flow(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, metadata: {name: workers, annotations: {machinedeployment.clusters.x-k8s.io/revision: "1"}}}`)
	deployment := flow(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: md, annotations: {machinedeployment.clusters.x-k8s.io/revision: "1"}}, spec: {remediation: {maxInFlight: 1}}}`)
	plane := flow(t, `{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlane, metadata: {name: workers}, spec: {remediation: {maxRetry: 3, retryPeriodSeconds: 3600}}, status: {initialization: {controlPlaneInitialized: true}}}`)
	retried := map[string]string{replacesAnnotation: `{"machine": "former", "timestamp": "2026-08-03T11:50:00Z", "retryCount": 1}`}
	id := core.ID{Kind: "Machine", Namespace: "clusters", Name: "a", UID: "a-uid"}
	for sentence, tc := range map[string]struct {
		machine     []string
		of          core.ID
		annotations map[string]string
		owners      []*unstructured.Unstructured
		want        Answer
		waits       []string
		rules       string
		none        bool
	}{
		"no request":                   {of: id, want: Answer{Kind: "MachineSet", Name: "workers"}},
		"no request, and its owners":   {of: id, owners: []*unstructured.Unstructured{deployment, set}, want: Answer{Kind: "MachineSet", Name: "workers"}, rules: "At most 1 of its machines are replaced at a time"},
		"a request":                    {machine: []string{requested("WaitingForRemediation", "wait")}, of: id, want: Answer{Kind: "MachineSet", Name: "workers", Requested: true, Since: ago(30 * time.Minute)}},
		"an answer":                    {machine: []string{requested("RemediationDeferred", "in  a\\n while")}, of: id, want: Answer{Kind: "MachineSet", Name: "workers", Requested: true, Since: ago(30 * time.Minute), Reason: "RemediationDeferred", Message: "in a while"}},
		"a request, and its owners":    {machine: []string{requested("WaitingForRemediation", "")}, of: id, owners: []*unstructured.Unstructured{deployment, set}, want: Answer{Kind: "MachineSet", Name: "workers", Requested: true, Since: ago(30 * time.Minute)}, waits: []string{"1 of its machine set are being replaced and 0 go first"}, rules: "At most 1"},
		"a deletion, and its owners":   {machine: []string{requested("MachineDeleting", ""), `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`}, of: id, owners: []*unstructured.Unstructured{deployment, set}, want: Answer{Kind: "MachineSet", Name: "workers", Requested: true, Since: ago(30 * time.Minute), Reason: "MachineDeleting"}, rules: "At most 1"},
		"a set without a deployment":   {machine: []string{requested("WaitingForRemediation", "")}, of: id, owners: []*unstructured.Unstructured{set}, want: Answer{Kind: "MachineSet", Name: "workers", Requested: true, Since: ago(30 * time.Minute)}},
		"a deployment alone":           {machine: []string{requested("WaitingForRemediation", "")}, of: id, owners: []*unstructured.Unstructured{deployment}, want: Answer{Kind: "MachineSet", Name: "workers", Requested: true, Since: ago(30 * time.Minute)}},
		"a retry of a control plane":   {machine: []string{ownedByControlPlane, requested("WaitingForRemediation", "")}, of: id, annotations: retried, owners: []*unstructured.Unstructured{plane}, want: Answer{Kind: "KubeadmControlPlane", Name: "workers", Requested: true, Since: ago(30 * time.Minute)}, waits: []string{"machine b is being deleted", "it replaces former"}, rules: "at most 3 times"},
		"a control plane, no request":  {machine: []string{ownedByControlPlane}, of: id, annotations: retried, owners: []*unstructured.Unstructured{plane}, want: Answer{Kind: "KubeadmControlPlane", Name: "workers"}, rules: "at most 3 times"},
		"a control plane that deletes": {machine: []string{ownedByControlPlane, requested("MachineDeleting", ""), `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`}, of: id, annotations: retried, owners: []*unstructured.Unstructured{plane}, want: Answer{Kind: "KubeadmControlPlane", Name: "workers", Requested: true, Since: ago(30 * time.Minute), Reason: "MachineDeleting"}, rules: "at most 3 times"},
		"a namesake":                   {of: core.ID{Kind: "Machine", Namespace: "clusters", Name: "a", UID: "another"}, none: true},
		"an unknown machine":           {of: core.ID{Kind: "Machine", Namespace: "clusters", Name: "unknown"}, none: true},
		"a machine without an owner":   {machine: []string{"metadata: {ownerReferences: null}"}, of: id, none: true},
	} {
		r := NewReading()
		r.PutMachine(decoded(t, aMachine(t, "a", tc.machine...), &clusterapi.Machine{}))
		r.PutMachine(decoded(t, aMachine(t, "b", requested("MachineDeleting", ""), `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z"}`), &clusterapi.Machine{}))
		r.PutMachine(decoded(t, aMachine(t, "c", requested("MachineDeleting", ""), `metadata: {deletionTimestamp: "2026-08-03T11:00:00Z", ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, name: others, uid: others-uid, controller: true}]}`), &clusterapi.Machine{}))
		r.PutMachine(decoded(t, aMachine(t, "d", `metadata: {ownerReferences: null}`), &clusterapi.Machine{}))
		got, known := r.Answer(tc.of, tc.annotations, tc.owners, noon)
		if known == tc.none {
			t.Errorf("%s: answered: %t", sentence, known)
		}
		if got.Kind != tc.want.Kind || got.Name != tc.want.Name || got.Requested != tc.want.Requested || !got.Since.Equal(tc.want.Since) || got.Reason != tc.want.Reason || got.Message != tc.want.Message {
			t.Errorf("%s: the answer is %+v, want %+v", sentence, got, tc.want)
		}
		if rules := strings.Join(got.Rules, "; "); !strings.Contains(rules, tc.rules) || (tc.rules == "") != (rules == "") {
			t.Errorf("%s: the rules are %q", sentence, rules)
		}
		for i, w := range got.Waits {
			if i >= len(tc.waits) || !strings.Contains(w.Text, tc.waits[i]) {
				t.Errorf("%s: it waits for %q", sentence, w.Text)
			}
		}
		if len(got.Waits) < len(tc.waits) {
			t.Errorf("%s: it waits for %+v, want %q", sentence, got.Waits, tc.waits)
		}
	}
}

// TestControlledBy: rules are known of three kinds of owners.
func TestControlledBy(t *testing.T) {
	yes, no := true, false
	for reference, want := range map[metav1.OwnerReference]bool{
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Controller: &yes}:                       true,
		{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachineDeployment", Controller: &yes}:                true,
		{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Controller: &yes}: true,
		{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Controller: &yes}:          false,
		{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "OtherControlPlane", Controller: &yes}:   false,
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Controller: &yes}:              false,
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Controller: &yes}:                          false,
		{APIVersion: "apps/v1", Kind: "MachineSet", Controller: &yes}:                                        false,
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Controller: &no}:                        false,
	} {
		owner, known := ControlledBy(&metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{reference}})
		if known != want || (*reference.Controller && owner.Kind != reference.Kind) {
			t.Errorf("%s of %s is known: %t, as %+v", reference.Kind, reference.APIVersion, known, owner)
		}
	}
}

// TestRulesOfMachineSets: the limit, and what of it can't be read.
func TestRulesOfMachineSets(t *testing.T) {
	set := flow(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, metadata: {name: set, annotations: {cluster.x-k8s.io/paused: ""}}}`)
	for spec, want := range map[string][]string{
		`{}`:                                 {"Any number of its machines are replaced at a time (spec.remediation.maxInFlight of MachineDeployment md is not set)"},
		`{remediation: {maxInFlight: 100%}}`: {"At most 1 of its machines are replaced at a time (spec.remediation.maxInFlight of MachineDeployment md)"},
		`{remediation: {maxInFlight: 50%}}`:  {"At most 1 of its machines are replaced at a time (spec.remediation.maxInFlight of MachineDeployment md)"},
		`{replicas: 4, remediation: {maxInFlight: 50%}}`:                             {"At most 2 of its machines are replaced at a time (spec.remediation.maxInFlight of MachineDeployment md)"},
		`{replicas: 4, strategy: {remediation: {maxInFlight: 50%}}}`:                 {"At most 2 of its machines are replaced at a time (spec.strategy.remediation.maxInFlight of MachineDeployment md)"},
		`{remediation: {maxInFlight: 3}, strategy: {remediation: {maxInFlight: 5}}}`: {"At most 3 of its machines are replaced at a time (spec.remediation.maxInFlight of MachineDeployment md)"},
		`{remediation: {maxInFlight: half}}`:                                         {"Any number of", `spec.remediation.maxInFlight is "half" and can't be read`},
		`{replicas: many, remediation: {maxInFlight: 1}}`:                            {"At most 1 of", `spec.replicas is "many" and can't be read`},
	} {
		p := readMachineSet(set, flow(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: md}, spec: `+spec+`}`))
		got := p.rules()
		if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s: the rules are %q, want %q", spec, got, want)
		}
	}
	p := readMachineSet(set, nil)
	if rules, waits := p.rules(), p.waits(member("a", time.Hour, asking), nil); len(rules) > 0 || len(waits) != 1 || !strings.Contains(waits[0].Text, "annotation cluster.x-k8s.io/paused is on the machine set") {
		t.Errorf("without a deployment the rules are %q, and it waits for %+v", rules, waits)
	}
}
