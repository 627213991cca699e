package core

import (
	"slices"
	"strings"
	"time"
)

// Tri is a fact that may be unreadable. Its zero value is Unknown on purpose: a fact that nobody
// supplied must never permit anything (I1).
type Tri int8

// The values of a Tri.
const (
	Unknown Tri = iota
	No
	Yes
)

// String gives the fact as a word.
func (f Tri) String() string {
	switch f {
	case Yes:
		return "yes"
	case No:
		return "no"
	case Unknown:
	}
	return "unknown"
}

// ID names one object for ever: a namesake that is created later has another UID.
type ID struct {
	Kind, Namespace, Name, UID string
}

// String gives the ID as a person would write it.
func (id ID) String() string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

// qualifiedName is what an object and its namesakes have in common.
type qualifiedName struct{ kind, namespace, name string }

func (id ID) qualified() qualifiedName { return qualifiedName{id.Kind, id.Namespace, id.Name} }

// backoffID returns the ID by which back-off knows a target. A node that registers anew has another UID and is the same computer, so
// nodes go by their name.
func (id ID) backoffID() ID {
	if id.Kind == nodeKind {
		id.UID = ""
	}
	return id
}

// Compare orders IDs by kind, namespace, name, UID.
func (id ID) Compare(other ID) int {
	if order := strings.Compare(id.Kind, other.Kind); order != 0 {
		return order
	}
	if order := strings.Compare(id.Namespace, other.Namespace); order != 0 {
		return order
	}
	if order := strings.Compare(id.Name, other.Name); order != 0 {
		return order
	}
	return strings.Compare(id.UID, other.UID)
}

// Cluster is all targets of one cluster with their repairs, as one snapshot that nobody changes.
type Cluster struct {
	// Observed is Yes when every target and repair below was read from a source that is in step
	// with the cluster. Anything else makes every verdict unknown.
	Observed Tri
	// Upgrading tells whether the cluster is being upgraded.
	Upgrading Tri
	// UpgradingWhy is the sign of that, or what is missing to know it, as a clause. It may be empty.
	UpgradingWhy string
	// ClockAgrees tells whether the clock that decisions are made by is that of the API server, but for a few seconds. Otherwise
	// nothing is known of how long anything has lasted.
	ClockAgrees Tri
	// ClockGates are the gates of the clock that hold back what single policies lead, whatever ClockAgrees says. It is for
	// readers of statuses.
	ClockGates map[ID]Gate
	Targets    []Target
	Repairs    []Repair
	// Requests are what remediators have been asked for and was not taken back yet.
	Requests []Request
	// UnlistedTemplates are the kinds, by the template that they are made from, whose requests can't be seen now. Only
	// APIVersion and Kind are set.
	UnlistedTemplates []Reference
	// HealthyCreated has, by owner, when the youngest target was created that was well when it was removed.
	HealthyCreated map[ID]time.Time
	// Leases are those of nodes that are there, whether their time is over or not.
	Leases []NodeLease
	// Workers are the targets of running repairs that were seen and do not belong to the control plane. They may be out of
	// view by now.
	Workers map[ID]bool
	// ExpectedUntil is when the first of the expectations that are laid over the snapshot ends by time alone; zero when none does.
	ExpectedUntil time.Time
}

// nodeKind is the kind of the targets that are nodes themselves.
const nodeKind = "Node"

// Target is one thing that can be repaired: a machine with its node, a machine whose node never
// came, or a node alone.
type Target struct {
	ID      ID
	Created time.Time
	// Problem says in a sentence which facts of the target can't be read, and is empty when all can.
	// A target with a problem is not judged.
	Problem string
	// Owner replaces the target when it is deleted. The zero ID means that nobody would.
	Owner ID
	// OwnerTemplate tells the templates of an owner apart, by which it makes replacements; empty when it is not known.
	OwnerTemplate string
	ControlPlane  bool
	// ControlPlaneByLabel is set instead of ControlPlane when nothing but a label of the target says that it is of the control
	// plane, and others are known to be. The target is held to the gates of the control plane. It holds back only targets of
	// its namespace that are such too.
	ControlPlaneByLabel bool
	// Deleting is set when the target's deletion has been requested, by whomever.
	Deleting bool
	// RemediationRequested is set when a person has asked for the target to be repaired, whatever its state.
	RemediationRequested bool
	// RepairRequest is what a person has asked for at an instant. Unlike RemediationRequested it holds for one repair.
	RepairRequest RepairRequest
	// HandedBack is when a remediator gave the target up and asked its owner to replace it, by a condition that owners do not
	// read; zero when none has.
	HandedBack time.Time
	// Premature says in a sentence what has to happen before the target is judged, and is empty when it is time.
	Premature string
	// Conditions are those of the target's own object, apart from its node's.
	Conditions []Condition
	// Failed is set when the target says of itself that it can't recover.
	Failed bool
	// FailedSince is when Failed was last reported; zero when it is not known.
	FailedSince time.Time
	// ExternallyRemediated is set when an outside remediator has been asked to repair the target.
	ExternallyRemediated bool
	// StartupFrom is the instant from which the target has its node startup time to get a node.
	StartupFrom time.Time
	Node        Node
	// NodeGoneSince is when a live read first did not find the node; zero when that is not known, or the node is not gone.
	NodeGoneSince time.Time
	// TestsSeen are the tests that the node's conditions have been seen to hold for, of those whose beginning no time tells.
	TestsSeen []SeenTest
	// NodeReadAt is when Node was last read from the API server itself rather than from a cache.
	NodeReadAt time.Time
	// NodeUnreadable is set when such a read has just failed.
	NodeUnreadable bool
	// NodeReadAgain is when a node that the cache lacks is to be read again; zero is at once.
	NodeReadAgain time.Time
	// QuorumSurvives tells, for a member of the control plane, whether quorum survives while it is out, as
	// read live at QuorumReadAt.
	QuorumSurvives Tri
	QuorumReadAt   time.Time
	// Skipped is set when somebody has taken the target out of health checking. No policy selects it, and what was
	// asked for it stays as it is.
	Skipped bool
	// ConfirmedHealthy is set when a person has confirmed that the target is healthy.
	ConfirmedHealthy bool
	// Parts are the kinds of the objects that the target is made of, nil when they are not known.
	Parts *Parts
	// UnjudgedPolicy is a policy that selects the target, or another of its body, and is not judged; nil when there is none.
	UnjudgedPolicy *ID
	// Lease is the right to take the target's node out of service, and whose it is.
	Lease Lease
	// Revision is the version of the target's own object that these facts were read from. The core
	// doesn't interpret it: it is there so that a destructive call can insist on it.
	Revision string
}

// Lease is who may take a node out of service, and until when. The zero Lease is nobody's.
type Lease struct {
	Holder string
	Until  time.Time
}

// NodeLease is a lease as it is found, whoever may want to know of its node.
type NodeLease struct {
	Node, Holder string
	// Renewed is when it was taken, or renewed last; zero when it doesn't say.
	Renewed time.Time
}

// heldByOther tells whether somebody else than the holder has the lease at an instant.
func (l Lease) heldByOther(holder string, now time.Time) bool {
	return l.Holder != "" && l.Holder != holder && now.Before(l.Until)
}

// NodeState tells what is known of a target's node.
type NodeState int8

// The zero NodeState is NodeUnseen, the one which never acts.
const (
	// NodeUnseen is a node that the target names and the cache lacks: deleted, or not yet seen.
	NodeUnseen NodeState = iota
	// NodeAwaited is the state of a target that has not named a node yet.
	NodeAwaited
	// NodePresent is a node that was seen.
	NodePresent
	// KeepNodeGone is a node that the target names and that a live read did not find.
	NodeGone
)

// String names the state.
func (s NodeState) String() string {
	switch s {
	case NodeAwaited:
		return "awaited"
	case NodePresent:
		return "present"
	case NodeGone:
		return "gone"
	case NodeUnseen:
	}
	return "unseen"
}

// Node is what decisions read of a node.
type Node struct {
	State      NodeState
	Name       string
	UID        string
	Conditions []Condition
	// Unread says in a sentence what of the node is not among these facts, and is empty when all is. By its
	// conditions such a node is not judged.
	Unread string
	// NodeFacts are copied with the node, so a new fact has its field there and nowhere else.
	NodeFacts
}

// NodeFacts are what the labels and annotations of a node say. Each fact holds repairs back, and its zero value does not.
// The struct is comparable, so that no comparison forgets a fact.
type NodeFacts struct {
	// ControlPlane is set when the node belongs to the control plane.
	ControlPlane bool
	// Excluded is set when a person has excluded the node from all repairs.
	Excluded bool
	// Upgrading is set while the node is to have another configuration than it has.
	Upgrading bool
}

// or returns the facts that either of two readings of a node holds.
func (f NodeFacts) or(other NodeFacts) NodeFacts {
	return NodeFacts{
		ControlPlane: f.ControlPlane || other.ControlPlane,
		Excluded:     f.Excluded || other.Excluded,
		Upgrading:    f.Upgrading || other.Upgrading,
	}
}

// ApplyLiveRead has a target take over its node as it was read from the API server itself at an instant. What held the target back by
// the word of the cache goes on to do so until the cache shows otherwise.
func (t *Target) ApplyLiveRead(n Node, at time.Time) {
	n.NodeFacts = n.or(t.Node.NodeFacts)
	t.Node, t.NodeReadAt = n, at
	t.ControlPlane = t.ControlPlane || n.ControlPlane
}

// same tells whether nothing about the node differs that decisions read.
func (n *Node) same(other *Node) bool {
	return n.State == other.State && n.Name == other.Name && n.UID == other.UID && n.Unread == other.Unread &&
		n.NodeFacts == other.NodeFacts &&
		slices.EqualFunc(n.Conditions, other.Conditions, func(a, b Condition) bool {
			return a.Same(&b)
		})
}

// Condition is one condition of a node, or of a target's own object. Since is its last transition; zero when it carries none.
// The reason is read of conditions of nodes alone.
type Condition struct {
	Type, Status, Reason string
	Since                time.Time
}

// Same reports whether two conditions say the same.
func (c *Condition) Same(other *Condition) bool {
	return c.Type == other.Type && c.Status == other.Status && c.Reason == other.Reason && c.Since.Equal(other.Since)
}

// maxTestsSeen bounds what is remembered of each target, since anyone who may write policies adds to it. A policy asks for at most
// eight such tests.
const maxTestsSeen = 64

// SeenTest is a test that holds for the conditions of a node, and since when it has been seen to.
type SeenTest struct {
	Test ConditionTest
	// Node is the UID of the node. A node that registers anew is another.
	Node  string
	Since time.Time
	// StartSeen is set when the test was seen not to hold for this node just before. Otherwise it may have begun to hold long before
	// Since: a process that has just started has not seen that.
	StartSeen bool
}
