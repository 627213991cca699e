package faults

import (
	"context"
	"fmt"
	"net/http"
	"time"

	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// request is one call about remediation objects that the API server may refuse.
type request struct {
	method string
	// below is set for calls to single objects.
	below bool
	// prepare creates the health check. refused checks the pool while the call is refused.
	prepare, refused func(*pool)
}

func requestedInVain(p *pool) { p.keepsRequested("reboot", 0, 0) }

// keepsRequests: an object that can't be deleted stays, and no new repair begins.
func keepsRequests(p *pool) {
	made, _ := p.requested("reboot")
	p.keepsRequested("reboot", made, 0)
}

// requests are all such calls. Remediators must stop before the next step begins.
var requests = map[string]request{
	"ask":      {method: "POST", prepare: rebootedOneAndAll, refused: requestedInVain},
	"withdraw": {method: "DELETE", below: true, prepare: rebootedOneAndAll, refused: keepsRequests},
	"stop":     {method: "PATCH", below: true, prepare: (*pool).inThreeSteps, refused: func(p *pool) { p.keepsRequested("second", 0, 0) }},
}

func rebootedOneAndAll(p *pool) { p.rebooted(unlimited) }

func (r *request) fault(p *pool, f cluster.Fault) cluster.Fault {
	f.Method, f.Path = r.method, p.rebootsHere()
	if r.below {
		f.Path += "/.*"
	}
	return f
}

// remediationsAnswered: each call is answered with an error for a while, for its own pool, and then succeeds. One
// Fettle serves all pools.
func remediationsAnswered(status int) func(*pool) {
	return func(whole *pool) {
		whole.forgetAll() // its name is a prefix of the others
		proxy, kubeconfig := whole.throughProxy()
		pools, faults := map[string]*pool{}, map[string]*cluster.Injected{}
		for name, r := range requests {
			p := newPool(whole.t, whole.Cluster, whole.name+"-"+name)
			p.addNodes(names("m", 5))
			r.prepare(p)
			pools[name] = p
		}
		whole.StartFettleWith(whole.t, kubeconfig)
		for name, r := range requests {
			pools[name].wantStatus(5, 5)
			faults[name] = proxy.Inject(whole.t, r.fault(pools[name], cluster.Fault{Status: status}))
		}
		for _, p := range pools {
			p.longBroken(names("m", 1))
		}
		for name := range requests {
			whole.wantHits(name, faults[name], 3)
		}
		for name, r := range requests {
			r.refused(pools[name])
		}
		for name, fault := range faults {
			fault.End()
			whole.wantFew(name, fault.Hits())
		}
		for _, p := range pools {
			p.wantMended(unlimited)
		}
	}
}

// remediationsThrottled: the API server answers a few times that Fettle should retry later, and Fettle does.
func remediationsThrottled(p *pool) {
	proxy, kubeconfig := p.throughProxy()
	p.addNodes(names("m", 5))
	p.rebooted(unlimited)
	p.StartFettleWith(p.t, kubeconfig)
	p.wantStatus(5, 5)
	const times = 3
	ask := requests["ask"]
	fault := proxy.Inject(p.t, ask.fault(p, cluster.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Times: times}))
	p.longBroken([]string{"m-00"})
	p.wantRequested("reboot", 1)
	p.wantMended(unlimited)
	wantPatience(p.t, fault.Hits(), times)
}

// remediationsRefusedForLong: the pauses between failing calls grow.
func remediationsRefusedForLong(name string, status int) func(*pool) {
	return func(p *pool) {
		proxy, kubeconfig := p.throughProxy()
		p.addNodes(names("m", 5))
		r := requests[name]
		r.prepare(p)
		p.StartFettleWith(p.t, kubeconfig)
		p.wantStatus(5, 5)
		fault := proxy.Inject(p.t, r.fault(p, cluster.Fault{Status: status}))
		p.longBroken(names("m", 3))
		p.wantHits(name, fault, 4)
		p.wantPause(fault)
		p.wantFew(name, fault.Hits())
		r.refused(p)
		fault.End()
		p.wantMended(unlimited)
	}
}

func (s *stage) wantPause(fault *cluster.Injected) {
	s.t.Helper()
	s.Eventually(s.t, "a pause of several seconds", func(context.Context) error {
		hits := fault.Hits()
		if pause := time.Since(hits[len(hits)-1]); pause < 3*time.Second {
			return fmt.Errorf("%d calls, and the last one %s ago", len(hits), pause)
		}
		return nil
	})
}

// leasesRefused: without the lease of its node, no remediation object is created. A lease that can't be released now is
// released later.
func leasesRefused(p *pool) {
	proxy, kubeconfig := p.throughProxy()
	p.holdWork()
	p.addNodes(names("m", 5))
	p.rebooted(unlimited)
	p.StartFettleWith(p.t, kubeconfig)
	p.wantStatus(5, 5)
	taking := proxy.Inject(p.t, cluster.Fault{Method: "POST", Path: nodeLeases, Status: http.StatusInternalServerError})
	p.longBroken(names("m", 3))
	p.wantHits("taking a lease", taking, 6)
	p.wantPause(taking)
	requestedInVain(p)
	p.wantFew("taking a lease", taking.Hits())
	taking.End()
	p.wantRequested("reboot", 3)
	of := nodeLeases + "/" + medik8s.LeasePrefix + p.name + "-.*"
	giving := proxy.Inject(p.t, cluster.Fault{Method: "DELETE", Path: of, Status: http.StatusInternalServerError})
	p.letWork()
	p.wantHits("giving back a lease", giving, 3)
	p.wantLeaving("reboot", 3)
	giving.End()
	p.wantMended(unlimited)
}
