package integration

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaseRenewedInTheFuture: the clock of a lease's holder is two hours ahead. Fettle leaves the node to that holder, and
// reports that. It waits until the holder releases the lease, or until the lease's duration has passed since Fettle
// first saw it (docs/reference/medik8s.md#lease).
func leaseRenewedInTheFuture(p *pool) {
	const taken = 12 * time.Second
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	began := time.Now()
	p.leaseFrom("a", began.Add(2*time.Hour), time.Hour)
	p.leaseFrom("b", began.Add(2*time.Hour), taken)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.fails("a", "b", "c")
	p.wantObjects("c reboot")
	p.wantCheckEvent("RemediationSkipped")
	p.wantAnswer("explain node/"+p.nodeName("a"), "Lease          node-maintenance has it until", "LeaseHeld ("+p.namespace+"): the lease of its node is held by node-maintenance")
	p.wantAnswer("explain nhc/"+p.namespace, "LeaseHeld is closed")

	p.wantObjects("b reboot", "c reboot")
	p.createdBefore("b reboot", began.Add(taken))
	p.wantLease("b", holderOf(p.namespace))
	p.keepsObjects("b reboot", "c reboot")
	p.wantLease("a", "node-maintenance")
	p.giveLeaseBack("a")
	p.wantObjects("a reboot", "b reboot", "c reboot")
}

// leaseFrom creates the lease of a node for a time from an instant, by its holder's clock.
func (p *pool) leaseFrom(node string, renewed time.Time, during time.Duration) {
	p.t.Helper()
	p.takeLease(node, "node-maintenance")
	seconds, at := int32(during/time.Second), metav1.NewMicroTime(renewed)
	spec, err := json.Marshal(coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at})
	if err != nil {
		p.t.Fatalf("encoding a lease: %v", err)
	}
	key := p.leaseOf(node)
	p.change(object("coordination.k8s.io/v1", "Lease", key.Namespace, key.Name), `{"spec":`+string(spec)+`}`)
}
