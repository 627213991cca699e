package fencepolicy

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Node is a node that policies may select.
type Node struct {
	Name   string
	Labels labels.Labels
	// Boot is the boot ID that the kubelet has reported last, in lower case. It is empty if it is not known.
	Boot string
}

// Lease is what the Lease of a node says.
type Lease struct {
	promiselease.Record

	// Failed is why the Lease can't be decoded.
	Failed error
}

// Read returns what a Lease says.
func Read(l *coordinationv1.Lease) *Lease {
	record, err := promiselease.Decode(l)
	return &Lease{record, err}
}

// Condemns reports whether a promise is revoked.
func (l *Lease) Condemns() bool { return l.Failed == nil && l.State == selffence.Condemned }

// Reason is why a node promises nothing. The values of promiselease.NoPromise are reasons too.
type Reason string

// Reasons.
const (
	// NoAgent: the node has no Lease. Its agent doesn't run, or has not come to write one.
	NoAgent Reason = "NoAgent"
	// LeaseUnreadable: the Lease can't be decoded.
	LeaseUnreadable Reason = "LeaseUnreadable"
	// OtherBoot: the Lease is of another boot than the kubelet has reported.
	OtherBoot Reason = "OtherBoot"
	// Withdrawn: the agent has withdrawn its promise, without a reason.
	Withdrawn Reason = "Withdrawn"
	// Condemned: the promise is revoked, and the node is to be reset.
	Condemned Reason = "Condemned"
	// LeasesNotRead: the Leases of nodes can't be read.
	LeasesNotRead Reason = "LeasesNotRead"
)

// Reasons returns each reason.
func Reasons() []Reason {
	all := []Reason{NoAgent, LeaseUnreadable, OtherBoot, Withdrawn, Condemned, LeasesNotRead}
	for _, why := range promiselease.AllNoPromises() {
		all = append(all, Reason(why))
	}
	return all
}

// Missing returns why a node with a Lease, or without one, promises nothing. It is empty if the promise of the node stands.
func (n Node) Missing(l *Lease) Reason {
	switch {
	case l == nil:
		return NoAgent
	case l.Failed != nil:
		return LeaseUnreadable
	case l.Condemns():
		return Condemned
	case !strings.EqualFold(l.Promise.Boot, n.Boot):
		return OtherBoot
	case l.State == selffence.Promised:
		return ""
	case l.Why != "":
		return Reason(l.Why)
	}
	return Withdrawn
}

// Text returns what a reason says to people.
func (r Reason) Text() string {
	switch r {
	case NoAgent:
		return "it has no Lease in namespace " + promiselease.Namespace + ", so no agent runs on it, or the agent could not write"
	case LeaseUnreadable:
		return "its Lease can't be read; delete the Lease, and the agent writes it anew"
	case OtherBoot:
		return "its Lease is of another boot than its kubelet has reported, so the agent has promised nothing since"
	case Withdrawn:
		return "its agent has withdrawn the promise, since it was to end or no policy selected the node"
	case Condemned:
		return "its promise is revoked by a remediation, so that it is reset"
	case LeasesNotRead:
		return "the Leases in namespace " + promiselease.Namespace + " can't be read"
	}
	return promiselease.NoPromise(r).Text()
}
