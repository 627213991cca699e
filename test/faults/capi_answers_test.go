package faults

import (
	"net/http"

	"github.com/fettle-io/fettle/test/cluster"
)

// marksRefused: writing and withdrawing marks is answered with an error for a while, and happens once after that. A
// conflict says that the machine has changed, so Fettle retries each second. After other errors the pauses grow.
func marksRefused(status int) func(*clusterFixture) {
	return func(h *clusterFixture) {
		proxy, kubeconfig := h.throughProxy()
		all := names("m", 8)
		h.addMachines(all)
		h.healthCheck(len(all), short)
		h.StartFettleWith(h.t, kubeconfig)
		h.wantHealthy(8, 8)
		h.longBroken(all[:2])
		h.wantMarked(2)
		h.wantHealthy(6, 8)
		fault := proxy.Inject(h.t, cluster.Fault{Method: http.MethodPatch, Path: h.marksHere(), Status: status})
		h.longBroken(all[2:5])
		h.recover(all[:1])
		h.wantHits("a mark", fault, 16)
		if status != http.StatusConflict {
			h.wantPause(fault)
		}
		h.wantFew("marks", fault.Hits())
		if made, kept := h.marked(); made != 2 || kept != 2 {
			h.t.Errorf("%d marks are made and %d are left while all calls are refused", made, kept)
		}
		fault.End()
		h.wantMarked(5)
		h.wantMarks(4)
		h.wantHealthy(4, 8)
		h.keepsMarked()
		h.wantReplaced(len(all))
	}
}

// marksThrottled: the API server answers a few times that Fettle should retry later, and Fettle does.
func marksThrottled(h *clusterFixture) {
	proxy, kubeconfig := h.throughProxy()
	h.addMachines(names("m", 4))
	h.healthCheck(4, short)
	h.StartFettleWith(h.t, kubeconfig)
	h.wantHealthy(4, 4)
	const times = 3
	fault := proxy.Inject(h.t, cluster.Fault{
		Method: http.MethodPatch, Path: h.marksHere(), Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Times: times,
	})
	h.longBroken([]string{"m-00"})
	h.wantMarked(1)
	wantPatience(h.t, fault.Hits(), times)
	h.keepsMarked()
	h.wantReplaced(4)
}
