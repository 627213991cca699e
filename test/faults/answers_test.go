package faults

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fettle-io/fettle/test/cluster"
)

func faultSlow(method string) cluster.Fault {
	return cluster.Fault{Method: method, Path: "/apis?/.*", Delay: 200 * time.Millisecond}
}

// refusal is a call that the API server refuses in one namespace, and the consequence for Fettle.
type refusal struct {
	method string
	path   func(*machineFixture) string
	// tries is how often Fettle tries at least. It does not repeat events.
	tries int
	// acts is set if Fettle deletes the machines all the same.
	acts bool
	// ends is set if the repairs end all the same.
	ends bool
}

var refusals = map[string]refusal{
	"status":  {method: "PATCH", tries: 3, path: func(s *machineFixture) string { return s.checksHere() + "/example/status" }},
	"record":  {method: "POST", tries: 3, path: (*machineFixture).repairsHere},
	"outcome": {method: "PATCH", tries: 3, path: func(s *machineFixture) string { return s.repairsHere() + "/.*/status" }, acts: true},
	"delete":  {method: "DELETE", tries: 3, path: func(s *machineFixture) string { return s.machinesHere() + "/.*" }},
	"node":    {method: "GET", tries: 3, path: func(s *machineFixture) string { return nodesPath + "/" + s.namespace + "-.*" }},
	"events":  {method: "POST", tries: 1, path: func(s *machineFixture) string { return "/apis/events.k8s.io/v1/namespaces/" + s.namespace + "/events" }, acts: true, ends: true},
}

// refusedIn makes a fixture for each call that may be refused, and refuses the call there. One Fettle serves all of
// them.
func (s *machineFixture) refusedIn(f cluster.Fault) (map[string]*machineFixture, map[string]*cluster.Injected) {
	s.t.Helper()
	proxy, kubeconfig := s.throughProxy()
	fixtures, faults := map[string]*machineFixture{}, map[string]*cluster.Injected{}
	for name := range refusals {
		one := newMachineFixture(s.t, s.Cluster, s.namespace+"-"+name)
		one.addMachines(names("m", 3))
		one.healthCheck("example", 1)
		fixtures[name] = one
	}
	s.StartFettleWith(s.t, kubeconfig)
	for name, r := range refusals {
		fixtures[name].wantStatus("example", 3, 3, "")
		f.Method, f.Path = r.method, r.path(fixtures[name])
		faults[name] = proxy.Inject(s.t, f)
	}
	for _, one := range fixtures {
		one.longBroken([]string{"m-00", "m-01"})
	}
	return fixtures, faults
}

// answers: each of Fettle's calls is answered with an error for a while, in its own namespace, and then succeeds.
// Meanwhile Fettle retries with pauses, and keeps the order of its writes.
func answers(status int) func(*machineFixture) {
	return func(whole *machineFixture) {
		fixtures, faults := whole.refusedIn(cluster.Fault{Status: status})
		for name, s := range fixtures {
			s.wantHits(name, faults[name], refusals[name].tries)
		}
		for name, s := range fixtures {
			s.whileRefused(refusals[name])
		}
		for name, fault := range faults {
			fault.End()
			whole.wantFew(name, fault.Hits())
		}
		for name, s := range fixtures {
			s.wantRepaired()
			s.wantStatus("example", 1, 1, "")
			s.verify(1)
			s.tellsTheTruth()
			if name == "delete" {
				// A conflict says that the machine has changed. It is no refusal.
				s.wantAttempts(status, len(faults[name].Hits()))
			}
		}
	}
}

// throttled: the API server answers a few times that Fettle should retry later, and Fettle does.
func throttled(whole *machineFixture) {
	const times = 3
	fixtures, faults := whole.refusedIn(cluster.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Times: times})
	for name, s := range fixtures {
		s.wantRepaired()
		s.wantStatus("example", 1, 1, "")
		s.verify(1)
		s.tellsTheTruth()
		s.wantAttempts(http.StatusTooManyRequests, 0)
		hits := faults[name].Hits()
		if len(hits) != times {
			s.t.Errorf("%s was requested %d times, and could be %d times", name, len(hits), times)
		}
	}
	// Only for a single call can the proxy know which request is a retry of which.
	wantPatience(whole.t, faults["record"].Hits(), times)
}

// wantPatience: after so many answers that say to retry in a second, no retry came sooner.
func wantPatience(t *testing.T, hits []time.Time, times int) {
	t.Helper()
	if len(hits) != times {
		t.Errorf("it was requested %d times, and could be %d times", len(hits), times)
	}
	for i := range len(hits) - 1 {
		if pause := hits[i+1].Sub(hits[i]); pause < 900*time.Millisecond {
			t.Errorf("a request was repeated after %s, and the API server had required a second", pause)
		}
	}
}

// refusedForLong: the pauses between failing calls grow, whichever call fails.
func refusedForLong(name string) func(*machineFixture) {
	return func(s *machineFixture) {
		r := refusals[name]
		proxy, kubeconfig := s.throughProxy()
		s.addMachines(names("m", 6))
		s.healthCheck("example", unlimited)
		s.StartFettleWith(s.t, kubeconfig)
		s.wantStatus("example", 6, 6, "")
		fault := proxy.Inject(s.t, cluster.Fault{Method: r.method, Path: r.path(s), Status: http.StatusInternalServerError})
		s.longBroken([]string{"m-00", "m-01", "m-02", "m-03"})
		s.wantHits(name, fault, 4)
		s.Eventually(s.t, "a pause of several seconds", func(context.Context) error {
			hits := fault.Hits()
			if pause := time.Since(hits[len(hits)-1]); pause < 3*time.Second {
				return fmt.Errorf("%d calls, and the last one %s ago", len(hits), pause)
			}
			return nil
		})
		s.wantFew(name, fault.Hits())
		fault.End()
		s.wantRepaired()
		s.wantStatus("example", 2, 2, "")
		s.verify(unlimited)
		s.tellsTheTruth()
	}
}

// whileRefused checks what Fettle does while one of its calls is refused.
func (s *machineFixture) whileRefused(r refusal) {
	s.t.Helper()
	if !r.acts {
		s.Never(s.t, "nothing is deleted", quiet/4, s.onlyGone(0))
		return
	}
	s.wantGone(1)
	if r.ends {
		s.wantRepaired()
	}
}

// wantAttempts: each refused deletion is counted once.
func (s *machineFixture) wantAttempts(status, refused int) {
	s.t.Helper()
	repairs, err := s.listRepairs(cluster.Context(s.t))
	s.must("listing repairs", err)
	have, want := 0, refused
	if status == http.StatusConflict {
		want = 0
	}
	for i := range repairs {
		have += int(repairs[i].Status.Attempts)
	}
	if have != want {
		s.t.Errorf("repairs count %d refused attempts, want %d", have, want)
	}
}
