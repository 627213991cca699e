package cli

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inNamespaceOf returns the path of a collection in a namespace.
func inNamespaceOf(namespace, version, resource string) string {
	return version + "/namespaces/" + namespace + "/" + resource
}

// TestStatusOfReads: a list that the user may not read, or that the cluster does not serve, is an error with all missing rights, or a
// note where the rest is an answer.
func TestStatusOfReads(t *testing.T) {
	const openshift, clusterAPI, leases = "/apis/machine.openshift.io/v1beta1", "/apis/cluster.x-k8s.io/v1beta2", "/apis/coordination.k8s.io/v1/namespaces/fettle-system/leases"
	wide := []string{machinesPath, setsPath, checksPath, repairsPath}
	goldenRuns(t, "reads.txt", []run{
		{"All can be read, in pages.", "status", func(f *fleet) { f.page = 2; f.node("e", "Unknown", noon.Add(-time.Hour)) }},
		{"No right in all namespaces, and the rights in one.", "status", func(f *fleet) {
			refusing(http.StatusForbidden, wide...)(f)
			f.repair("d", runningRepair())
			f.repair("e", runningRepair())
			f.objects[repairsPath]["fettle-system/"+repairName("e")] = f.objects[repairsPath]["machines/"+repairName("e")]
		}},
		{"The same, without the right to the repairs of the controllers.", "status", func(f *fleet) {
			refusing(http.StatusForbidden, append(wide, inNamespaceOf("fettle-system", fettleAPI, "repairs"))...)(f)
		}},
		{"The same, in the namespace of the controllers.", "status -n fettle-system", refusing(http.StatusForbidden, wide...)},
		{"No right in all namespaces, which the user asks for.", "status -A", refusing(http.StatusForbidden, append(wide, nodesPath)...)},
		{"No right at all.", "status", refusing(http.StatusForbidden, append(wide, nodesPath, inNamespaceOf("machines", openshift, "machines"), inNamespaceOf("machines", fettleAPI, "repairs"), nodeChecks)...)},
		{"No right to machine sets.", "status", refusing(http.StatusForbidden, setsPath, inNamespaceOf("machines", openshift, "machinesets"))},
		{"Machine sets are not served.", "status", unserved(setsPath)},
		{"Machine sets can't be read.", "status", refusing(http.StatusInternalServerError, setsPath)},
		{"No right to the machines of Cluster API.", "status", func(f *fleet) {
			f.clusters(func(*clusterScene) {})
			refusing(http.StatusForbidden, clusterAPI+"/machines", inNamespaceOf("machines", clusterAPI, "machines"))(f)
		}},
		{"No right to NodeHealthChecks.", "status", refusing(http.StatusForbidden, nodeChecks)},
		{"Credentials are refused.", "status", refusing(http.StatusUnauthorized, machinesPath)},
		{"One list fails, and another is forbidden.", "status", func(f *fleet) {
			refusing(http.StatusInternalServerError, machinesPath)(f)
			refusing(http.StatusForbidden, nodeChecks)(f)
		}},
		{"One dialect is not served.", "status", unserved(nodeChecks)},
		{"No dialect is served.", "status", unserved(nodeChecks, checksPath, machinesPath, setsPath)},
		{"Machines are not served, and their health checks are.", "status", unserved(machinesPath)},
		{"Machines are not served, and there is no health check of them.", "status", func(f *fleet) {
			unserved(machinesPath)(f)
			f.drop(checksPath, "machines/workers")
		}},
		{"Fettle is not installed.", "status", unserved(repairsPath)},
		{"Repairs can't be read.", "status", refusing(http.StatusInternalServerError, repairsPath)},
		{"There is no lease.", "status", func(f *fleet) { f.drop(leasesPath, "fettle-system/fettle") }},
		{"The lease may not be read.", "status", refusing(http.StatusForbidden, leases+"/fettle")},
		{"The lease can't be read.", "status", refusing(http.StatusInternalServerError, leases+"/fettle")},
	})
}

// TestReadsOnce: no list is read that can't change the answer, and none is read again with the same scope.
func TestReadsOnce(t *testing.T) {
	own := inNamespaceOf("fettle-system", fettleAPI, "repairs")
	for name, c := range map[string]struct {
		args, path string
		change     func(*fleet)
		want       int
	}{
		"nodes of two dialects":                      {"status", nodesPath, func(*fleet) {}, 1},
		"nodes of dialects that are not served":      {"status", nodesPath, unserved(checksPath, nodeChecks), 0},
		"machines after their checks have failed":    {"status", machinesPath, refusing(http.StatusInternalServerError, checksPath), 0},
		"machines that are forbidden everywhere":     {"status -A", machinesPath, refusing(http.StatusForbidden, machinesPath), 1},
		"repairs of nodes, where all are read":       {"status", own, func(*fleet) {}, 0},
		"repairs of nodes, where other lists narrow": {"status", own, refusing(http.StatusForbidden, machinesPath), 0},
		"repairs of nodes, beside those of a tenant": {"status", own, refusing(http.StatusForbidden, repairsPath), 1},
		"repairs of nodes, which the user names":     {"status -n fettle-system", own, refusing(http.StatusForbidden, repairsPath), 1},
		"repairs of nodes after a failure":           {"status", own, refusing(http.StatusInternalServerError, repairsPath), 0},
	} {
		f := startFleet(t)
		c.change(f)
		f.run(strings.Fields(c.args)...)
		if got := f.reads(c.path); got != c.want {
			t.Errorf("%s: %d reads, want %d", name, got, c.want)
		}
	}
}

// TestSharedLists: two dialects read a list once, after all lists that either needs first, and both see its changes.
func TestSharedLists(t *testing.T) {
	var calls []string
	source := func(reader, resource string, changes bool) Source {
		return Source{
			Resource: schema.GroupResource{Resource: resource},
			Put:      func(client.Object) bool { calls = append(calls, reader); return changes },
			Drop:     func(key string) { calls = append(calls, reader+" drops "+key) },
		}
	}
	for _, changes := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		calls = nil
		a := &part{sources: []Source{source("a", "machines", false), source("a", "nodes", changes[0])}}
		b := &part{sources: []Source{source("b", "checks", false), source("b", "nodes", changes[1])}}
		lists := sharedLists([]*part{a, b})
		var order []string
		for _, l := range lists {
			order = append(order, l.Resource.Resource)
		}
		if got, want := strings.Join(order, " "), "machines checks nodes"; got != want {
			t.Fatalf("the lists are %s, want %s", got, want)
		}
		if got := lists[2].Put(nil); got != (changes[0] || changes[1]) || len(lists[2].of) != 2 {
			t.Errorf("an object changes a and b %v, and the answer: %t", changes, got)
		}
		lists[2].Drop("x")
		slices.Sort(calls)
		if got, want := strings.Join(calls, ", "), "a, a drops x, b, b drops x"; got != want {
			t.Errorf("it calls %s, want %s", got, want)
		}
	}
}

// TestMissingRights: errors are missing rights if each of them is.
func TestMissingRights(t *testing.T) {
	forbidden, other := apierrors.NewForbidden(schema.GroupResource{}, "", nil), errors.New("no answer")
	for want, errs := range map[bool][]error{
		true:  {forbidden, errors.Join(forbidden, forbidden), errors.Join(errors.Join(forbidden), forbidden)},
		false: {other, errors.Join(forbidden, other), errors.Join(errors.Join(other), forbidden)},
	} {
		for _, err := range errs {
			if isForbidden(err) != want || failed(err) == want {
				t.Errorf("%v is a missing right: %t, and anything else: %t", err, isForbidden(err), failed(err))
			}
		}
	}
}
