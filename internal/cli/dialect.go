package cli

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/specparse"
)

// Dialect is one API of health checks, for the commands.
type Dialect interface {
	// Read returns an empty reading of a cluster.
	Read() Reading
	// Review returns remarks about a health check that is not applied yet. It reports false for objects of other kinds.
	Review(u *unstructured.Unstructured) ([]Remark, bool)
	// Phase returns the phase of a health check in one word, or nothing where the API has no phases.
	Phase(r core.PolicyReport) string
}

// flagged is a Dialect with flags of its own.
type flagged interface {
	addFlags(f *pflag.FlagSet)
}

// Reading is what a dialect has read of one cluster. It is not safe for concurrent use.
type Reading interface {
	// Sources are the lists of the reading, in the order in which they must be read. The first has the health checks.
	Sources() []Source
	// Observe returns an observation of each cluster, at an instant after all sources were read.
	Observe(at time.Time) []ClusterObservation
	// Unmet returns the requirements of a policy's selector that a target lacks. It reports false when the policy can't
	// select the target, whatever its labels.
	Unmet(policy, target core.ID) ([]string, bool)
}

// ClusterObservation is what a dialect has read of one cluster.
type ClusterObservation struct {
	core.Observation

	// Cluster is a workload cluster, or zero for the user's own cluster.
	Cluster core.ClusterKey
	// Blocked says why no target can be judged, or is nil.
	Blocked *Blocked
}

// Blocked says why no target of a cluster can be judged.
type Blocked struct {
	// Halted is set when the controller does not judge it either. Otherwise it may, and the commands show what it wrote
	// last.
	Halted bool
	// Reason is one word, and Message a sentence without its full stop.
	Reason, Message string
}

// Workloads is a Reading of clusters that have nodes of their own.
type Workloads interface {
	// HasNodes reports whether verdicts about a cluster need its nodes.
	HasNodes(cluster core.ClusterKey) bool
	// Nodes returns the source of a cluster's nodes. It drops the nodes of an earlier source.
	Nodes(cluster core.ClusterKey) Source
	// Unseen notes why the nodes of a cluster can't be read.
	Unseen(cluster core.ClusterKey, why string)
}

// StatusReader reads what a controller wrote last, for clusters that can't be judged from here.
type StatusReader interface {
	// StatusOf returns the last status of a health check.
	StatusOf(check core.ID) WrittenStatus
	// HealthOf returns the health in a target's conditions, and false without one.
	HealthOf(target core.ID) (WrittenHealth, bool)
	// SkippedBy returns the annotation that takes a target out of all health checking.
	SkippedBy(target core.ID) (string, bool)
}

// WrittenStatus is the status of a health check as a controller last wrote it.
type WrittenStatus struct {
	// Total and Healthy are nil when they were never written.
	Total, Healthy *int32
	// Allowed says whether repairs were allowed; Reason and Message say why.
	Allowed         core.Tri
	Reason, Message string
}

// WrittenHealth is the health in the conditions of a target.
type WrittenHealth struct {
	Healthy         bool
	Reason, Message string
	Since           time.Time
}

// Owners is a Reading that knows how the owners of targets replace them.
type Owners interface {
	// OwnerOf returns the controller owner of an object, if the reading knows its rules.
	OwnerOf(o metav1.Object) (metav1.OwnerReference, bool)
	// Answer returns the answer of a target's owner to the request to replace it, from the owners that could be read.
	// It reports false for targets without such an owner.
	Answer(target core.ID, annotations map[string]string, owners []*unstructured.Unstructured, at time.Time) (OwnerAnswer, bool)
}

// Source is one list of a reading.
type Source struct {
	Resource schema.GroupResource
	// Without marks an optional list. It says what is unknown without the list.
	Without string
	// List is empty, and of the type to decode into.
	List       client.ObjectList
	Namespaced bool
	// Put stores an object, and reports whether it can change an answer. Drop forgets an object.
	Put  func(client.Object) bool
	Drop func(key string)
}

// Remark is a remark about a health check in a file.
type Remark = specparse.Remark
