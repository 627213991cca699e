package template

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
)

// FuzzReadRequest: whatever an object of a remediator's kind holds, reading it ends. A request is for a
// node or a machine that has a name, and never for a machine of another namespace.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{
		owned, cloned, fenced, owned + "status: {conditions: [{type: Succeeded, status: \"False\"}]}", owned + "status: [5]",
		"kind: X\nmetadata: {name: m, namespace: n, ownerReferences: 7, annotations: 5}", "kind: X\nmetadata: {name: 7, ownerReferences: [null, 5, {kind: Machine}]}",
		"apiVersion: x/v1\nkind: X\nmetadata: {name: m, ownerReferences: [{apiVersion: a/b/c, kind: Machine, name: m}]}",
		"apiVersion: x/v1\nkind: X\nmetadata: {name: m, annotations: {remediation.medik8s.io/nhc-timed-out: x}, creationTimestamp: 5}",
		"apiVersion: x.example/v1\nkind: X\nmetadata: {name: m, namespace: machines, annotations: {cluster.x-k8s.io/cloned-from-name: t}, " +
			"ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: m, uid: u, controller: true}]}",
	} {
		body, err := yaml.YAMLToJSON([]byte(seed))
		if err != nil {
			f.Fatalf("converting a seed: %v", err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		u := &unstructured.Unstructured{}
		if u.UnmarshalJSON(body) != nil || u.Object == nil {
			return
		}
		before := u.DeepCopy()
		request, key, is := readRequest(u)
		again, keyAgain, isAgain := readRequest(u)
		if diff := cmp.Diff(request, again); diff != "" || key != keyAgain || is != isAgain {
			t.Errorf("reading it twice gives %v %t and %v %t:\n%s", key, is, keyAgain, isAgain, diff)
		}
		if diff := cmp.Diff(before.Object, u.Object); diff != "" {
			t.Errorf("reading it changes it:\n%s", diff)
		}
		if is {
			checkRequest(t, u, &request)
		}
	})
}

func checkRequest(t *testing.T, u *unstructured.Unstructured, r *core.Request) {
	t.Helper()
	if r.ID.Name != u.GetName() || r.ID.Namespace != u.GetNamespace() || r.ID.UID != string(u.GetUID()) || r.Created.Location() != time.UTC {
		t.Errorf("the request is %+v of %v", r, u.Object)
	}
	if fettles := u.GroupVersionKind().Group == "fettle.io"; r.Evidence != (core.Evidence{}) && (!fettles || r.Evidence.Request.UID == "" || len(r.Evidence.Means) > mostOfName) {
		t.Errorf("the evidence is %+v of %v", r.Evidence, u.Object)
	}
	switch r.Target.Kind {
	case nodeKind:
		if r.Target.Namespace != "" || r.Remedy != NodeRemedy {
			t.Errorf("the target of %s is the node %+v", r.Remedy, r.Target)
		}
	case machineKind:
		if r.Target.Namespace == "" || r.Target.Namespace != u.GetNamespace() || (r.Remedy != MachineRemedy && r.Remedy != ClusterMachineRemedy) {
			t.Errorf("the target of %s is the machine %+v of a request in %q", r.Remedy, r.Target, u.GetNamespace())
		}
	default:
		t.Errorf("the target is %+v", r.Target)
	}
	if _, stopped := u.GetAnnotations()["remediation.medik8s.io/nhc-timed-out"]; stopped != !r.Stopped.IsZero() {
		t.Errorf("it was told to stop: %t, and is stopped at %v", stopped, r.Stopped)
	}
}
