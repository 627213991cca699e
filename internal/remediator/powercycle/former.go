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

// recordBMC records the BMC of a look. What an earlier BMC may have kept off becomes a former host.
func (l *look) recordBMC(s *v1alpha1.PowerRemediationStatus) {
	used := l.fencingBMC()
	stays := l.config.Off && fencing.Phase(l.r.Status.Phase) == fencing.Succeeded // it was replaced, perhaps, and is off for that
	if before := s.BMC; before != nil && before.HostName != "" && l.r.Status.PoweredOff && !stays {
		s.FormerHosts = append(s.FormerHosts, commanded(before))
	}
	seen := map[v1alpha1.FormerHost]bool{commanded(&used): true}
	s.FormerHosts = slices.DeleteFunc(s.FormerHosts, func(h v1alpha1.FormerHost) bool {
		double := seen[h]
		seen[h] = true
		return double
	})
	s.FormerHosts = s.FormerHosts[max(len(s.FormerHosts)-mostFormer, 0):]
	s.Protocol, s.BMC = protocolOf(l.bmc), &used
}

// warnOfOldAddress emits an event where the host of an earlier address may be off. That address and its credentials are not known any more.
func (c *Client) warnOfOldAddress(l *look, before *v1alpha1.PowerRemediationStatus) {
	used := l.r.Status.BMC
	if before.BMC == nil || before.BMC.HostUID != "" || !before.PoweredOff || *used == *before.BMC {
		return
	}
	about, note := l.r.DeepCopy(), fmt.Sprintf("BMC %s was changed or replaced while the host of node %s may be off; if it was at another address before, see that the host there is on", before.BMC.Name, l.node)
	l.notes = append(l.notes, func() { c.emit(about, corev1.EventTypeWarning, bmcChanged, note) })
}

// takesBack reports whether a look only has to take back what keeps a host off.
func (l *look) takesBack() bool {
	switch l.record.Phase { //nolint:exhaustive // in the others the host is to be off, or has been on again
	case fencing.PoweringOn, fencing.Aborting, fencing.DeletingMachine:
		return l.record.PoweredOff
	}
	return false
}

// useRecordedHost has a look that takes back go on with the recorded BareMetalHost where no BMC can be used any more.
func (l *look) useRecordedHost() {
	recorded := l.r.Status.BMC
	if l.bmc != nil || recorded == nil || recorded.HostName == "" || !l.takesBack() {
		return
	}
	l.unnamed = true
	l.metal = baremetalhost.Identity{UID: types.UID(recorded.HostUID), Consumer: recorded.HostConsumer}
	l.bmc = &v1alpha1.BMC{
		ObjectMeta: metav1.ObjectMeta{Name: recorded.Name, UID: types.UID(recorded.UID), Generation: recorded.Generation},
		Spec:       v1alpha1.BMCSpec{NodeName: l.node, BareMetalHost: &v1alpha1.BareMetalHostReference{Namespace: recorded.HostNamespace, Name: recorded.HostName}},
	}
}

// unnamedHostOf returns the host behind the recorded BareMetalHost. It remembers what was commanded as long as the session.
func (c *Client) unnamedHostOf(l *look) *baremetalhost.Host {
	if l.s.unnamed == nil || l.s.unnamedUID != l.metal.UID {
		l.s.unnamed, l.s.unnamedUID = c.bareMetalHostOf(l.bmc), l.metal.UID
	}
	return l.s.unnamed
}

// leaveFormerHosts removes Fettle's annotation from hosts of earlier BMCs. A host for which that fails is tried again. A change of the node ends
// that once its workload is released, as it ends an operation of the host.
func (c *Client) leaveFormerHosts(ctx context.Context, l *look) error {
	former := l.r.Status.FormerHosts
	if len(former) == 0 {
		return nil
	}
	if now := c.Now(); now.Before(l.s.formerAt) {
		c.remediations.AddAfter(l.key, l.s.formerAt.Sub(now))
		return nil
	}
	l.lane.leave()
	limited, done := c.interruptible(ctx, l, c.sessions.wakesOf(l.s), l.record.MayHaveReleased())
	kept := slices.DeleteFunc(slices.Clone(former), func(h v1alpha1.FormerHost) bool {
		return !c.bareMetalHost(h.Namespace, h.Name).Leave(limited, baremetalhost.Identity{UID: types.UID(h.UID)}).Failed()
	})
	done()
	if !l.lane.enter(ctx, isUrgent(&l.r.Status, l.s)) {
		return fmt.Errorf("waiting for other remediations: %w", ctx.Err())
	}
	if len(kept) > 0 {
		l.s.formerAt = c.Now().Add(lookEvery)
		c.remediations.AddAfter(l.key, lookEvery)
	}
	if len(kept) == len(former) {
		return nil
	}
	status := l.r.Status.DeepCopy()
	status.FormerHosts = kept
	return c.replaceStatus(ctx, l, status)
}

// awaitsFormerHosts reports whether the deletion of a remediation waits for hosts of earlier BMCs. After the limit they are given up.
func (c *Client) awaitsFormerHosts(l *look) bool {
	former := l.r.Status.FormerHosts
	if len(former) == 0 {
		return false
	}
	if c.Now().Before(l.r.DeletionTimestamp.Add(l.config.Limits.PowerOn)) {
		return true // it is looked at when they are tried again
	}
	for _, h := range former {
		c.emit(l.r, corev1.EventTypeWarning, hostLeftOff, fmt.Sprintf("annotation %s could not be removed from BareMetalHost %s/%s, which the BMC of node %s named before, so it may be off: remove it by hand",
			annotation.RebootBareMetalHost, h.Namespace, h.Name, l.node))
	}
	return false
}
