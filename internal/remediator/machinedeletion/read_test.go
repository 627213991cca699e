package machinedeletion

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("reading YAML: %v", err)
	}
	return u
}

func TestMachineOf(t *testing.T) {
	got := machineOf(object(t, `
metadata:
  namespace: machines
  name: worker-a
  uid: a-uid
  creationTimestamp: "2026-08-03T11:00:00Z"
  ownerReferences:
  - {apiVersion: v1, kind: Other, name: other, uid: other-uid}
  - {apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: workers, uid: set-uid, controller: true}
spec: {providerID: aws:///zone/i-a}
status: {nodeRef: {name: node-a, uid: node-uid}}`))
	want := machineA(func(m *machineFacts) {
		controls := true
		m.owner.Controller = &controls
		m.created = noon.Add(-time.Hour).Local()
		m.nodeUID = "node-uid"
	})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(machineFacts{})); diff != "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
	odd := machineOf(object(t, `
metadata: {name: worker-a, deletionTimestamp: "2026-08-03T11:00:00Z", ownerReferences: [{apiVersion: v1, kind: Other, name: other, uid: u}]}
spec: {providerID: 7}
status: {nodeRef: none}`))
	if !odd.found || !odd.deleting || odd.owner != nil || odd.node != "" || odd.providerID != "" {
		t.Errorf("an odd machine is read as %+v", odd)
	}
}

func TestOwnerOf(t *testing.T) {
	cases := map[string]struct {
		text     string
		found    bool
		replicas int // -1 for not said
	}{
		"a set":             {`{metadata: {uid: u}, spec: {replicas: 3}}`, true, 3},
		"a set of none":     {`{metadata: {uid: u}, spec: {replicas: 0}}`, true, 0},
		"a namesake":        {`{metadata: {uid: v}, spec: {replicas: 3}}`, false, -1},
		"no number":         {`{metadata: {uid: u}, spec: {}}`, true, -1},
		"a word":            {`{metadata: {uid: u}, spec: {replicas: many}}`, true, -1},
		"fewer than none":   {`{metadata: {uid: u}, spec: {replicas: -1}}`, true, -1},
		"more than can be":  {`{metadata: {uid: u}, spec: {replicas: 9999999999}}`, true, -1},
		"nothing but a UID": {`{metadata: {uid: u}}`, true, -1},
	}
	for sentence, tc := range cases {
		got := ownerOf(object(t, tc.text), "u")
		replicas := -1
		if got.replicas != nil {
			replicas = *got.replicas
		}
		if got.found != tc.found || replicas != tc.replicas {
			t.Errorf("%s: found %t, replicas %d; want %t, %d", sentence, got.found, replicas, tc.found, tc.replicas)
		}
	}
}
