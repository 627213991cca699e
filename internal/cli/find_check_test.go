package cli

import (
	"net/http"
	"strings"
	"testing"
)

// TestExplainedChecks: a health check is named by its kind and name, and by its group or cluster where that is not enough.
func TestExplainedChecks(t *testing.T) {
	both := func(f *fleet) {
		f.clusters(func(*clusterScene) {})
		f.put("{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineHealthCheck, metadata: {namespace: machines, name: workers, uid: namesake}, spec: {clusterName: east}}")
	}
	goldenRuns(t, "explain-checks.txt", []run{
		{"It is written by another controller too.", "explain mhc/young", func(f *fleet) { f.put(secondCheck) }},
		{"For programs.", "explain mhc/young -o json", func(f *fleet) { f.put(secondCheck) }},
		{"There is none.", "explain mhc/worker", func(*fleet) {}},
		{"There is none, and not all could be read.", "explain nhc/worker", refusing(http.StatusForbidden, nodeChecks)},
		{"Two groups have one.", "explain mhc/workers", both},
		{"One of two groups.", "explain mhc.machine.openshift.io/workers", both},
		{"One of two clusters.", "explain mhc/workers --workload-cluster=", both},
	})
}

// TestExplainedCheckThatIsDeleted: the last answer of --watch is an explanation for programs.
func TestExplainedCheckThatIsDeleted(t *testing.T) {
	f := newFleet(t, noon)
	s := f.newFollower(&OpenShift{})
	ask := s.explainedCheck(subject{kind: machineCheckSubject, name: "workers"})
	var kinds []string
	for range 2 {
		v, err := s.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a, err := ask(t.Context(), v, Header{})
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, a.header.Kind)
		f.drop(checksPath, "machines/workers")
	}
	if got, want := strings.Join(kinds, " "), kindCheckExplanation+" "+kindExplanation; got != want {
		t.Errorf("the kinds of the answers are %s, want %s", got, want)
	}
}
