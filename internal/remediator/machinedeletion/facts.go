package machinedeletion

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// facts are what one reconciliation knows. A nil field was not read.
type facts struct {
	remediation *v1alpha1.MachineDeletionRemediation
	// fresh is set when this reconciliation has read or written the remediation, and it is not from the cache.
	fresh bool
	// node and machine are read live.
	node    *nodeFacts
	machine *machineFacts
	// cached is the recorded machine in the cache, and pool counts its siblings.
	cached *cachedMachine
	pool   *pool
	owner  *ownerFacts
	now    time.Time
}

// nodeFacts are the facts about a node, which may not exist.
type nodeFacts struct {
	found bool
	uid   types.UID
	// machine is the machine that the node names in an annotation, as namespace/name, or empty.
	machine string
}

// machineFacts are the facts about a machine, which may not exist.
type machineFacts struct {
	found    bool
	key      types.NamespacedName
	uid      types.UID
	created  time.Time
	deleting bool
	// owner is the controller that owns it, or nil.
	owner *metav1.OwnerReference
	// node and nodeUID are the name and the UID of the node in the machine's status. Each may be empty.
	node       string
	nodeUID    types.UID
	providerID string
}

// cachedMachine is the recorded machine in a cache. A namesake with another UID counts as absent.
type cachedMachine struct{ exists, deleting bool }

// pool counts the other machines of an owner that are not being deleted.
type pool struct {
	// joined counts the machines with a node, and coming those without.
	joined, coming int
	// sameNode is the name of another machine of the namespace that refers to the same node, whatever its owner.
	sameNode string
}

// ownerFacts are the facts about an owner, which may not exist.
type ownerFacts struct {
	found bool
	// replicas is the number of machines that the owner shall have. It is nil when it is not set, or may not be read.
	replicas *int
}
