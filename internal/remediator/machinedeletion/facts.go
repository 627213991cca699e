package machinedeletion

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// facts are what is known in one look at a remediation. What is nil has not been looked at.
type facts struct {
	remediation *v1alpha1.MachineDeletionRemediation
	// fresh is set when the remediation was read, or written, in this look and not taken from a cache.
	fresh bool
	// node and machine are read from the API server itself.
	node    *nodeFacts
	machine *machineFacts
	// cached is the recorded machine as a cache has it, and pool are its siblings.
	cached *cachedMachine
	pool   *pool
	owner  *ownerFacts
	now    time.Time
}

// nodeFacts are of a node that may not exist.
type nodeFacts struct {
	found bool
	uid   types.UID
	// machine is the node's own word on its machine, as namespace/name; empty when it has none.
	machine string
}

// machineFacts are of a machine that may not exist.
type machineFacts struct {
	found    bool
	key      types.NamespacedName
	uid      types.UID
	created  time.Time
	deleting bool
	// owner is the controller that owns it, or nil.
	owner *metav1.OwnerReference
	// node is the name of the node that the machine refers to, if it does, and nodeUID its UID, if the machine
	// has that too.
	node       string
	nodeUID    types.UID
	providerID string
}

// cachedMachine is the recorded machine in a cache. A namesake with another UID is not it.
type cachedMachine struct{ exists, deleting bool }

// pool counts the machines of an owner that are not being deleted, without the one in question.
type pool struct {
	// joined have a node; coming have none yet.
	joined, coming int
	// sameNode is another machine of the namespace that refers to the same node, whatever its owner.
	sameNode string
}

// ownerFacts are of an owner that may not exist.
type ownerFacts struct {
	found bool
	// replicas is how many machines it is to have; nil when it does not say, or nobody may read it.
	replicas *int
}
