package core

import (
	"slices"
	"strings"
	"time"
)

// Tri is a fact that may be unreadable. Its zero value is Unknown: a fact that no source supplied
// must never permit anything (I1).
type Tri int8

// The values of a Tri.
const (
	Unknown Tri = iota
	No
	Yes
)

// String returns the fact as a word.
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

// String returns the ID as a user would write it.
func (id ID) String() string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

// qualifiedName is an ID without its UID, in a form that maps can have as key.
type qualifiedName struct{ kind, namespace, name string }

func (id ID) qualified() qualifiedName { return qualifiedName{id.Kind, id.Namespace, id.Name} }

// IsNode reports whether the target is a node.
func (id ID) IsNode() bool { return id.Kind == nodeKind }

// backoffID returns the ID by which back-off knows a target. A node that registers anew has another
// UID and is the same computer, so nodes have none.
func (id ID) backoffID() ID {
	if id.IsNode() {
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

// Cluster is an immutable snapshot of one cluster: its targets, its repairs and its requests.
type Cluster struct {
	// Observed is Yes when every target and repair below was read from a source that is in sync
	// with the cluster. Any other value makes every verdict unknown.
	Observed Tri
	// Upgrading reports whether the cluster is being upgraded.
	Upgrading Tri
	// UpgradingWhy is a clause: the sign of an upgrade, or the missing fact. It may be empty.
	UpgradingWhy string
	// ClockAgrees reports whether the clock of the decision agrees with that of the API server, but
	// for a few seconds. Otherwise no duration is known.
	ClockAgrees Tri
	// ClockGates are the clock gates of single policies. Such a gate holds back the repairs that
	// its policy leads, even where ClockAgrees is Yes. Only readers of statuses set it.
	ClockGates map[ID]Gate
	Targets    []Target
	Repairs    []Repair
	// Requests are the remediation requests that are not withdrawn yet.
	Requests []Request
	// PastRequests are requests that are gone, as they were last. Only their evidence is read.
	PastRequests []Request
	// UnlistedTemplates are the templates whose requests can't be listed now. Only APIVersion and
	// Kind are set.
	UnlistedTemplates []Reference
	// HealthyCreated maps an owner to the creation time of its youngest target that was healthy
	// when it was removed.
	HealthyCreated map[ID]time.Time
	// Leases are the leases of nodes, expired leases included.
	Leases []NodeLease
	// Workers are targets of running repairs that were seen outside of the control plane. The
	// snapshot need not contain them any more.
	Workers map[ID]bool
	// ExpectedUntil is when the first expectation in the snapshot expires; zero when none does.
	ExpectedUntil time.Time
	// Age is how long before the decision the caches were read.
	Age time.Duration
}

// ShownAt returns when a decision may conclude that there is no write that the caches may lack until
// an instant. They must have been read after that instant. The zero instant stays zero.
func (c *Cluster) ShownAt(until time.Time) time.Time {
	if until.IsZero() {
		return until
	}
	return until.Add(c.Age)
}

// ShownUntil returns the latest instant whose writes the caches must show by now.
func (c *Cluster) ShownUntil(now time.Time) time.Time {
	return now.Add(-c.Age - expectationLimit)
}

// nodeKind is the kind of targets that are nodes.
const nodeKind = "Node"

// Target is one object that can be repaired: a machine with its node, a machine whose node never
// came, or a node alone.
type Target struct {
	ID      ID
	Created time.Time
	// Problem is a sentence about the facts of the target that can't be read, and is empty when all
	// can. A target with a problem is not judged.
	Problem string
	// Owner replaces the target when it is deleted. The zero ID means that the target has no such
	// owner.
	Owner ID
	// OwnerTemplate identifies the template from which the owner creates replacements; empty when
	// it is not known.
	OwnerTemplate string
	ControlPlane  bool
	// ControlPlaneByLabel is set instead of ControlPlane when only a label of the target says so,
	// and other members of the control plane are known. The target must pass the gates of the
	// control plane. It holds back only targets of its namespace that have the field set too.
	ControlPlaneByLabel bool
	// Deleting is set when the deletion of the target has been requested by any client.
	Deleting bool
	// RemediationRequested is set when a user has requested the repair of the target, whatever its
	// state.
	RemediationRequested bool
	// RepairRequest is a user's request with a time. Unlike RemediationRequested it holds for one
	// repair.
	RepairRequest RepairRequest
	// HandedBack is when a remediator gave the target up and requested its replacement; zero when
	// none has. It does so by a condition that owners do not read.
	HandedBack time.Time
	// Premature is a sentence about the event before which the target is not judged. It is empty
	// once the target can be judged.
	Premature string
	// Conditions are the conditions of the target's own object. Node has those of the node.
	Conditions []Condition
	// Failed is set when the status of the target says that it can't recover.
	Failed bool
	// FailedSince is when Failed was last reported; zero when it is not known.
	FailedSince time.Time
	// ExternallyRemediated is set while the target is marked for an outside remediator.
	ExternallyRemediated bool
	// Claimed is set while a remediator has claimed the target for itself alone. The target gets no mark for another
	// remediator meanwhile. Claimant is a clause on which remediator that is.
	Claimed  bool
	Claimant string
	// StartupFrom is the instant from which the target has its node startup time to get a node.
	StartupFrom time.Time
	Node        Node
	// NodeGoneSince is when a live read first did not find the node; zero when that is not known,
	// or the node is not gone.
	NodeGoneSince time.Time
	// TestsSeen are tests that hold for the node, with the time of the first pass that saw them
	// hold. It has only tests for which the conditions of the node carry no such time.
	TestsSeen []SeenTest
	// NodeReadAt is when Node was last read from the API server instead of a cache.
	NodeReadAt time.Time
	// NodeUnreadable is set when such a read has just failed.
	NodeUnreadable bool
	// NodeReadAgain is when a node that the cache lacks is read again; zero is at once.
	NodeReadAgain time.Time
	// QuorumSurvives reports, for a member of the control plane, whether etcd keeps its quorum
	// without it. It was read live at QuorumReadAt.
	QuorumSurvives Tri
	QuorumReadAt   time.Time
	// Skipped is set when an annotation takes the target out of health checking. No policy selects
	// the target, and its remediation requests stay as they are.
	Skipped bool
	// ConfirmedHealthy is set when a user has confirmed that the target is healthy.
	ConfirmedHealthy bool
	// Parts are the kinds of the objects that the target is made of, nil when they are not known.
	Parts *Parts
	// UnjudgedPolicy is a policy that is not judged and selects the target, or another target of
	// its group; nil when there is none.
	UnjudgedPolicy *ID
	// Lease is the lease of the target's node.
	Lease Lease
	// Revision is the version of the target's own object that these facts were read from. The core
	// doesn't interpret it. Destructive calls pass it as a precondition.
	Revision string
}

// Lease names the holder that may take a node out of service, and until when. The zero Lease has no
// holder.
type Lease struct {
	Holder string
	Until  time.Time
}

// NodeLease is the lease of a node as the cluster shows it.
type NodeLease struct {
	Node, Holder string
	// Renewed is when it was taken, or renewed last; zero when the lease has no such time.
	Renewed time.Time
}

// heldByOther reports whether another holder has the lease at an instant.
func (l Lease) heldByOther(holder string, now time.Time) bool {
	return l.Holder != "" && l.Holder != holder && now.Before(l.Until)
}

// NodeState says what is known of a target's node.
type NodeState int8

// The zero NodeState is NodeUnseen, for which nothing acts.
const (
	// NodeUnseen is a node that the target names and the cache lacks: deleted, or not yet seen.
	NodeUnseen NodeState = iota
	// NodeAwaited is the state of a target that names no node yet.
	NodeAwaited
	// NodePresent is a node that was seen.
	NodePresent
	// NodeGone is a node that the target names and that a live read did not find.
	NodeGone
)

// String returns the name of the state.
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

// Node holds the facts of a node that decisions read.
type Node struct {
	State      NodeState
	Name       string
	UID        string
	Conditions []Condition
	// Unread is a sentence about the parts of the node that were not read, and is empty when all
	// were. The conditions of such a node are not judged.
	Unread string
	// NodeFacts are copied with the node, so a new fact has its field there and nowhere else.
	NodeFacts
}

// NodeFacts are what the labels and annotations of a node say. Each fact holds repairs back, and
// its zero value does not. The struct is comparable, so that no comparison forgets a fact.
type NodeFacts struct {
	// ControlPlane is set when the node belongs to the control plane.
	ControlPlane bool
	// Excluded is set when a user has excluded the node from all repairs.
	Excluded bool
	// Upgrading is set while the node has yet to get the configuration that it should have.
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

// ApplyLiveRead sets the target's node to what the API server returned at an instant. A fact of the
// cache that held the target back stays until the cache shows otherwise.
func (t *Target) ApplyLiveRead(n Node, at time.Time) {
	n.NodeFacts = n.or(t.Node.NodeFacts)
	t.Node, t.NodeReadAt = n, at
	t.ControlPlane = t.ControlPlane || n.ControlPlane
}

// same reports whether two nodes agree in all facts that decisions read.
func (n *Node) same(other *Node) bool {
	return n.State == other.State && n.Name == other.Name && n.UID == other.UID && n.Unread == other.Unread &&
		n.NodeFacts == other.NodeFacts &&
		slices.EqualFunc(n.Conditions, other.Conditions, func(a, b Condition) bool {
			return a.Same(&b)
		})
}

// Condition is one condition of a node, or of a target's own object. Since is its last transition;
// zero when it carries none. Decisions read the reasons of node conditions only.
type Condition struct {
	Type, Status, Reason string
	Since                time.Time
}

// Same reports whether two conditions are equal.
func (c *Condition) Same(other *Condition) bool {
	return c.Type == other.Type && c.Status == other.Status && c.Reason == other.Reason && c.Since.Equal(other.Since)
}

// maxTestsSeen bounds the tests that are remembered of each target, since each author of policies
// adds to them. A policy has at most eight such tests.
const maxTestsSeen = 64

// SeenTest is a test that holds for the conditions of a node, and since when passes have seen it
// hold.
type SeenTest struct {
	Test ConditionTest
	// Node is the UID of the node. A node that registers anew is another.
	Node  string
	Since time.Time
	// StartSeen is set when the pass before had seen the test not hold for this node. Otherwise the
	// test may have begun to hold long before Since, for instance before a restart.
	StartSeen bool
}
