package cli

import (
	"net/http"
	"testing"
	"time"
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
