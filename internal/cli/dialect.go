package cli

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/specparse"
)

// Dialect is one API of health checks, as a person's questions need it.
type Dialect interface {
	// Read begins a reading of a cluster.
	Read() Reading
	// Review says what is wrong with, and what is doubtful about, a health check that is yet to be
	// applied. It is false for objects of other kinds.
	Review(u *unstructured.Unstructured) ([]Remark, bool)
	// Phase says in a word how a health check stands, and nothing where the API has no such word.
	Phase(r core.PolicyReport) string
}

// Reading is what a dialect has read of one cluster. It is not safe for concurrent use.
type Reading interface {
	// Sources are the lists that it is made from, in the order in which they must be read; the first is
	// that of the health checks.
	Sources() []Source
	// Observe gives what is seen of each cluster as of an instant at which all sources had been read.
	Observe(at time.Time) []ClusterObservation
	// Unmet gives what a policy's selector asks for and a target lacks. It is false when the policy
	// could not select the target whatever its labels.
	Unmet(policy, target core.ID) ([]string, bool)
}

// ClusterObservation is what a dialect sees of one cluster.
type ClusterObservation struct {
	core.Observation

	// Cluster is a workload cluster, and the zero one is the cluster that was read itself.
	Cluster ledger.ClusterKey
	// Blocked says why nothing of it can be judged, nil when it can.
	Blocked *Blocked
}

// Blocked is why nothing of a fleet can be judged.
type Blocked struct {
	// Halted is set when the controller does not judge it either. Otherwise it may, and what it has written last is told.
	Halted bool
	// Reason says it in a word, and Message in a sentence without its full stop.
	Reason, Message string
}

// Workloads is a Reading of clusters that have nodes of their own.
type Workloads interface {
	// HasNodes tells whether what is said of a cluster hangs on its nodes.
	HasNodes(cluster ledger.ClusterKey) bool
	// Nodes gives the source of a cluster's nodes. From then on those that are not put into it are gone.
	Nodes(cluster ledger.ClusterKey) Source
	// Unseen notes why the nodes of a cluster can't be read.
	Unseen(cluster ledger.ClusterKey, why string)
}

// StatusReader tells what a controller has written last, for fleets that can't be judged from here.
type StatusReader interface {
	// StatusOf gives how a health check stood.
	StatusOf(check core.ID) WrittenStatus
	// HealthOf gives what a target says of its health, false when it says nothing.
	HealthOf(target core.ID) (WrittenHealth, bool)
	// SkippedBy says by what somebody has taken a target out of all health checking.
	SkippedBy(target core.ID) (string, bool)
}

// WrittenStatus is how a health check stood when its status was last written.
type WrittenStatus struct {
	// Total and Healthy are missing when they were never written.
	Total, Healthy *int32
	// Allowed is whether repairs were, with why.
	Allowed         core.Tri
	Reason, Message string
}

// WrittenHealth is what a target says of its health.
type WrittenHealth struct {
	Healthy         bool
	Reason, Message string
	Since           time.Time
}

// Owners is a Reading that knows how owners of targets go about replacing them.
type Owners interface {
	// OwnerOf gives the controller owner of an object, if it tells more of that.
	OwnerOf(o metav1.Object) (metav1.OwnerReference, bool)
	// Answer says how the owner of a target answers to being asked to replace it, by those of its owners that could be
	// read. It is false for targets that nobody replaces.
	Answer(target core.ID, annotations map[string]string, owners []*unstructured.Unstructured, at time.Time) (OwnerAnswer, bool)
}

// Source is one list that a reading is made from.
type Source struct {
	Resource schema.GroupResource
	// Without marks a list that a reading can do without, and says what can't be told then. It is empty for all others.
	Without string
	// List is empty, and of the type to read into.
	List       client.ObjectList
	Namespaced bool
	// Put takes in an object and tells whether that can change an answer; Drop forgets one.
	Put  func(client.Object) bool
	Drop func(key string)
}

// Remark is something to say about a health check in a file.
type Remark = specparse.Remark
