package powercycle

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
)

// mostFormer bounds the recorded hosts of earlier BMCs, as the definition of the kind does.
const mostFormer = 8

// Reasons of events about a BMC that was changed while its host may be off.
const (
	// bmcChanged: the host of an earlier address is not known any more.
	bmcChanged = "BMCChanged"
	// hostLeftOff: Fettle's annotation could not be removed from the BareMetalHost that the BMC named before.
	hostLeftOff = "HostLeftOff"
)

// commanded returns the BareMetalHost that a recorded BMC named.
func commanded(b *v1alpha1.FencingBMC) v1alpha1.FormerHost {
	return v1alpha1.FormerHost{Namespace: b.HostNamespace, Name: b.HostName, UID: b.HostUID}
}

// recordBMC records the BMC of a reconcile. The host that an earlier BMC may have kept off becomes a former host.
func (rec *reconciliation) recordBMC(s *v1alpha1.PowerRemediationStatus) {
	used := rec.fencingBMC()
	stays := rec.config.Off && fencing.Phase(rec.r.Status.Phase) == fencing.Succeeded // it was replaced, perhaps, and is off for that
	if before := s.BMC; before != nil && before.HostName != "" && rec.r.Status.PoweredOff && !stays {
		s.FormerHosts = append(s.FormerHosts, commanded(before))
	}
	seen := map[v1alpha1.FormerHost]bool{commanded(&used): true}
	s.FormerHosts = slices.DeleteFunc(s.FormerHosts, func(h v1alpha1.FormerHost) bool {
		double := seen[h]
		seen[h] = true
		return double
	})
	s.FormerHosts = s.FormerHosts[max(len(s.FormerHosts)-mostFormer, 0):]
	s.Protocol, s.BMC = protocolOf(rec.bmc), &used
}

// warnOfOldAddress emits an event where the host of an earlier address may be off. That address and its credentials are not known any more.
func (c *Client) warnOfOldAddress(rec *reconciliation, before *v1alpha1.PowerRemediationStatus) {
	used := rec.r.Status.BMC
	if before.BMC == nil || before.BMC.HostUID != "" || !before.PoweredOff || *used == *before.BMC {
		return
	}
	about, note := rec.r.DeepCopy(), fmt.Sprintf("BMC %s was changed or replaced while the host of node %s may be off; if it was at another address before, see that the host there is on", before.BMC.Name, rec.node)
	rec.notes = append(rec.notes, func() { c.emit(about, corev1.EventTypeWarning, bmcChanged, note) })
}

// takesBack reports whether a reconcile only has to take back what keeps a host off.
func (rec *reconciliation) takesBack() bool {
	switch rec.record.Phase { //nolint:exhaustive // in the others the host is to be off, or has been on again
	case fencing.PoweringOn, fencing.Aborting, fencing.DeletingMachine:
		return rec.record.PoweredOff
	}
	return false
}

// useRecordedHost has a reconcile that takes back go on with the recorded BareMetalHost where no BMC can be used any more.
func (rec *reconciliation) useRecordedHost() {
	recorded := rec.r.Status.BMC
	if rec.bmc != nil || recorded == nil || recorded.HostName == "" || !rec.takesBack() {
		return
	}
	rec.unnamed = true
	rec.metal = baremetalhost.Identity{UID: types.UID(recorded.HostUID), Consumer: recorded.HostConsumer}
	rec.bmc = &v1alpha1.BMC{
		ObjectMeta: metav1.ObjectMeta{Name: recorded.Name, UID: types.UID(recorded.UID), Generation: recorded.Generation},
		Spec:       v1alpha1.BMCSpec{NodeName: rec.node, BareMetalHost: &v1alpha1.BareMetalHostReference{Namespace: recorded.HostNamespace, Name: recorded.HostName}},
	}
}

// unnamedHostOf returns the host behind the recorded BareMetalHost. It remembers what was commanded as long as the session.
func (c *Client) unnamedHostOf(rec *reconciliation) *baremetalhost.Host {
	if rec.s.unnamed == nil || rec.s.unnamedUID != rec.metal.UID {
		rec.s.unnamed, rec.s.unnamedUID = c.bareMetalHostOf(rec.bmc), rec.metal.UID
	}
	return rec.s.unnamed
}

// leaveFormerHosts removes Fettle's annotation from hosts of earlier BMCs. A host for which that fails is tried again. A change of the node ends
// that once its workload is released, as it ends an operation of the host.
func (c *Client) leaveFormerHosts(ctx context.Context, rec *reconciliation) error {
	former := rec.r.Status.FormerHosts
	if len(former) == 0 {
		return nil
	}
	if now := c.Now(); now.Before(rec.s.formerAt) {
		c.remediations.AddAfter(rec.key, rec.s.formerAt.Sub(now))
		return nil
	}
	rec.slot.release()
	limited, done := c.interruptible(ctx, rec, c.sessions.wakesOf(rec.s), rec.record.MayHaveReleased())
	kept := slices.DeleteFunc(slices.Clone(former), func(h v1alpha1.FormerHost) bool {
		return !c.bareMetalHost(h.Namespace, h.Name).Leave(limited, baremetalhost.Identity{UID: types.UID(h.UID)}).Failed()
	})
	done()
	if !rec.slot.acquire(ctx, isUrgent(&rec.r.Status, rec.s)) {
		return fmt.Errorf("waiting for other remediations: %w", ctx.Err())
	}
	if len(kept) > 0 {
		rec.s.formerAt = c.Now().Add(requeueAfter)
		c.remediations.AddAfter(rec.key, requeueAfter)
	}
	if len(kept) == len(former) {
		return nil
	}
	status := rec.r.Status.DeepCopy()
	status.FormerHosts = kept
	return c.replaceStatus(ctx, rec, status)
}

// awaitsFormerHosts reports whether the deletion of a remediation waits for hosts of earlier BMCs. After the limit they are given up.
func (c *Client) awaitsFormerHosts(rec *reconciliation) bool {
	former := rec.r.Status.FormerHosts
	if len(former) == 0 {
		return false
	}
	if c.Now().Before(rec.r.DeletionTimestamp.Add(rec.config.Limits.PowerOn)) {
		return true // it is reconciled when they are tried again
	}
	for _, h := range former {
		c.emit(rec.r, corev1.EventTypeWarning, hostLeftOff, fmt.Sprintf("annotation %s could not be removed from BareMetalHost %s/%s, which the BMC of node %s named before, so it may be off: remove it by hand",
			annotation.RebootBareMetalHost, h.Namespace, h.Name, rec.node))
	}
	return false
}
