package cli

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	eastSet = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, metadata: {namespace: fleets, name: east-owner, uid: east-owner, " +
		"ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, name: east, uid: east-deployment, controller: true}]}}"
	eastDeployment = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {namespace: fleets, name: east, uid: east-deployment}, " +
		"spec: {remediation: {maxInFlight: 0}}}"
)

// TestAnswersOfOwners: explain reads the machine set of a machine and its deployment, with the rights of the user. It says which of
// them can't be read, and why.
func TestAnswersOfOwners(t *testing.T) {
	const setPath, deploymentPath = "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleets/machinesets/east-owner", "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleets/machinedeployments/east"
	waiting := func(change func(*fleet)) func(*fleet) {
		return func(f *fleet) {
			f.clusters(func(s *clusterScene) {
				s.node("east", "a", "Unknown", time.Hour)
				s.requestsReplacement("east-a", "WaitingForRemediation", "")
			})
			f.put(eastSet)
			f.put(eastDeployment)
			change(f)
		}
	}
	goldenRuns(t, "owners.txt", []run{
		{"Both can be read.", "explain machine/east-a -n fleets", waiting(func(*fleet) {})},
		{"The machine set may not be read.", "explain machine/east-a -n fleets", waiting(refusing(http.StatusForbidden, setPath))},
		{"The deployment may not be read.", "explain machine/east-a -n fleets", waiting(refusing(http.StatusForbidden, deploymentPath))},
		{"The deployment is gone.", "explain machine/east-a -n fleets", waiting(refusing(http.StatusNotFound, deploymentPath))},
		{"The deployment can't be read.", "explain machine/east-a -n fleets", waiting(refusing(http.StatusInternalServerError, deploymentPath))},
		{"The deployment is another of the same name.", "explain machine/east-a -n fleets", waiting(func(f *fleet) { f.put(strings.Replace(eastDeployment, "uid: east-deployment", "uid: other", 1)) })},
		{"The machine can't be read.", "explain machine/east-a -n fleets", waiting(refusing(http.StatusForbidden, "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleets/machines/east-a"))},
	})
}

// TestNextOfRequested: an owner goes on when all that it waits for is over. If time alone does not bring that, no time is named.
func TestNextOfRequested(t *testing.T) {
	early, late := noon.Add(time.Minute), noon.Add(time.Hour)
	usual := Next{Text: "usual"}
	of := Reference{Kind: "MachineSet", Name: "workers"}
	goesOn := func(at time.Time) Next {
		return Next{At: &at, Text: "Its owner, MachineSet workers, may replace it, if it is still unhealthy; it sets no timer, so it can take some minutes more."}
	}
	for sentence, c := range map[string]struct {
		next Next
		a    *OwnerAnswer
		want Next
	}{
		"no owner answers":         {usual, nil, usual},
		"nothing was requested":    {usual, &OwnerAnswer{Owner: of, Waits: []OwnerWait{{Until: &early}}}, usual},
		"the owner waits for none": {usual, &OwnerAnswer{Owner: of, Requested: true}, usual},
		"another thing is due":     {Next{At: &noon}, &OwnerAnswer{Owner: of, Requested: true, Waits: []OwnerWait{{Until: &early}}}, Next{At: &noon}},
		"the later is the first":   {usual, &OwnerAnswer{Owner: of, Requested: true, Waits: []OwnerWait{{Until: &late}, {Until: &early}}}, goesOn(late)},
		"the later is the last":    {usual, &OwnerAnswer{Owner: of, Requested: true, Waits: []OwnerWait{{Until: &early}, {Until: &late}}}, goesOn(late)},
		"one has no time": {usual, &OwnerAnswer{Owner: of, Requested: true, Waits: []OwnerWait{{Until: &early}, {}}},
			Next{Text: "Its owner, MachineSet workers, goes on when what it waits for is over, see above; time alone does not bring that."}},
	} {
		got := nextOfRequested(c.next, c.a)
		if got.Text != c.want.Text || (got.At == nil) != (c.want.At == nil) || (got.At != nil && !got.At.Equal(*c.want.At)) {
			t.Errorf("%s: %+v, want %+v", sentence, got, c.want)
		}
	}
}
