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

// refusal is one thing that the API server refuses in one namespace, and what that keeps Fettle from.
type refusal struct {
	method string
	path   func(*machineFixture) string
	// tries is how often Fettle tries at least; events are not repeated.
	tries int
	// acts is set where the machines are deleted all the same.
	acts bool
	// ends is set where the repairs come to their end all the same.
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

// refusedIn makes a scene for each call that may be refused, all kept by one Fettle, and lets each
// call be refused in its scene.
func (s *machineFixture) refusedIn(f cluster.Fault) (map[string]*machineFixture, map[string]*cluster.Injected) {
	s.t.Helper()
	proxy, kubeconfig := s.throughProxy()
	scenes, faults := map[string]*machineFixture{}, map[string]*cluster.Injected{}
	for name := range refusals {
		one := newMachineFixture(s.t, s.Cluster, s.namespace+"-"+name)
		one.addMachines(names("m", 3))
		one.healthCheck("example", 1)
		scenes[name] = one
	}
	s.StartFettleWith(s.t, kubeconfig)
	for name, r := range refusals {
		scenes[name].wantStatus("example", 3, 3, "")
		f.Method, f.Path = r.method, r.path(scenes[name])
		faults[name] = proxy.Inject(s.t, f)
	}
	for _, one := range scenes {
		one.longBroken([]string{"m-00", "m-01"})
	}
	return scenes, faults
}

// answers: each call of Fettle's is answered with an error for a while, in a namespace of its own, and
// later as it should be. Meanwhile Fettle asks again, but not without pauses, and nothing that must
// come before something else is left out.
func answers(status int) func(*machineFixture) {
	return func(whole *machineFixture) {
		scenes, faults := whole.refusedIn(cluster.Fault{Status: status})
		for name, s := range scenes {
			s.wantHits(name, faults[name], refusals[name].tries)
		}
		for name, s := range scenes {
			s.whileRefused(refusals[name])
		}
		for name, fault := range faults {
			fault.End()
			whole.wantFew(name, fault.Hits())
		}
		for name, s := range scenes {
			s.wantRepaired()
			s.wantStatus("example", 1, 1, "")
			s.verify(1)
			s.tellsTheTruth()
			if name == "delete" {
				// A conflict says that the machine has changed, and is no refusal.
				s.wantAttempts(status, len(faults[name].Hits()))
			}
		}
	}
}

// throttled: the API server asks for patience a few times, and gets it.
func throttled(whole *machineFixture) {
	const times = 3
	scenes, faults := whole.refusedIn(cluster.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Times: times})
	for name, s := range scenes {
		s.wantRepaired()
		s.wantStatus("example", 1, 1, "")
		s.verify(1)
		s.tellsTheTruth()
		s.wantAttempts(http.StatusTooManyRequests, 0)
		hits := faults[name].Hits()
		if len(hits) != times {
			s.t.Errorf("%s was asked for %d times, and could be %d times", name, len(hits), times)
		}
	}
	// Of one call alone the proxy can tell which request is the repetition of which.
	wantPatience(whole.t, faults["record"].Hits(), times)
}

// wantPatience: a request that was answered so many times with the word to come again in a second came no sooner.
func wantPatience(t *testing.T, hits []time.Time, times int) {
	t.Helper()
	if len(hits) != times {
		t.Errorf("it was asked for %d times, and could be %d times", len(hits), times)
	}
	for i := range len(hits) - 1 {
		if pause := hits[i+1].Sub(hits[i]); pause < 900*time.Millisecond {
			t.Errorf("a request was repeated after %s, and the API server had asked for a second", pause)
		}
	}
}

// refusedForLong: the pauses between calls that fail grow, whichever call it is.
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

// whileRefused checks what Fettle may and may not do while a call of its is refused.
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

// wantAttempts: each deletion that was refused is counted, once.
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
