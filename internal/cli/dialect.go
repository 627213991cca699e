package cli

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/setting"
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
	// Observe gives the fleet as of an instant at which all sources had been read.
	Observe(at time.Time) core.Observation
	// Unmet gives what a policy's selector asks for and a target lacks. It is false when the policy
	// could not select the target whatever its labels.
	Unmet(policy, target core.ID) ([]string, bool)
}

// Source is one list that a reading is made from.
type Source struct {
	Resource schema.GroupResource
	// List is empty, and of the type to read into.
	List       client.ObjectList
	Namespaced bool
	// Put takes in an object and tells whether that can change an answer; Drop forgets one.
	Put  func(client.Object) bool
	Drop func(key string)
}

// Remark is something to say about a health check in a file.
type Remark = setting.Remark
