package powercycle

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/power"
)

// inventory has the BMCs of the namespace as the watch has shown them.
type inventory struct {
	mu sync.Mutex
	// all are by their key, and byNode and byAddress have the keys of the BMCs with the key of a node or at a host.
	all               map[types.NamespacedName]*v1alpha1.BMC
	byNode, byAddress map[string]map[types.NamespacedName]bool
}

func newInventory() *inventory {
	return &inventory{
		all:    map[types.NamespacedName]*v1alpha1.BMC{},
		byNode: map[string]map[types.NamespacedName]bool{}, byAddress: map[string]map[types.NamespacedName]bool{},
	}
}

// put stores a BMC, and reports whether it is new or its spec has changed.
func (i *inventory) put(bmc *v1alpha1.BMC) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := types.NamespacedName{Namespace: bmc.Namespace, Name: bmc.Name}
	old := i.all[key]
	i.remove(key)
	i.all[key] = bmc
	add(i.byNode, nodeOf(bmc), key)
	add(i.byAddress, addressKey(bmc), key)
	return old == nil || old.UID != bmc.UID || old.Generation != bmc.Generation
}

// update stores a BMC as it was written, unless it is gone.
func (i *inventory) update(bmc *v1alpha1.BMC) {
	if old := i.get(types.NamespacedName{Namespace: bmc.Namespace, Name: bmc.Name}); old != nil && old.UID == bmc.UID {
		i.put(bmc)
	}
}

// drop removes a BMC and returns the key of its node.
func (i *inventory) drop(key types.NamespacedName) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	node := ""
	if old := i.all[key]; old != nil {
		node = nodeOf(old)
	}
	i.remove(key)
	return node
}

func (i *inventory) remove(key types.NamespacedName) {
	old := i.all[key]
	if old == nil {
		return
	}
	delete(i.all, key)
	remove(i.byNode, nodeOf(old), key)
	remove(i.byAddress, addressKey(old), key)
}

func add(index map[string]map[types.NamespacedName]bool, value string, key types.NamespacedName) {
	if index[value] == nil {
		index[value] = map[types.NamespacedName]bool{}
	}
	index[value][key] = true
}

func remove(index map[string]map[types.NamespacedName]bool, value string, key types.NamespacedName) {
	delete(index[value], key)
	if len(index[value]) == 0 {
		delete(index, value)
	}
}

// get returns a BMC, or nil.
func (i *inventory) get(key types.NamespacedName) *v1alpha1.BMC {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.all[key]
}

// find returns the BMC of a node by its key, or why there is none to use. Two BMCs for one node, or for one address, would power the host
// of another node.
func (i *inventory) find(node string) (*v1alpha1.BMC, problem) {
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := i.byNode[node]
	if len(keys) == 0 {
		return nil, problem{reason: v1alpha1.CannotStartNoBMCReason, message: "no BMC names node " + named(node) + "; create one in the namespace of the BMCs, or choose another remedy"}
	}
	if len(keys) > 1 {
		return nil, problem{reason: v1alpha1.CannotStartAmbiguousBMCReason, message: "the BMCs " + listed(keys) + " name the same node, so it is not known which host is meant; delete one of them"}
	}
	for key := range keys {
		bmc := i.all[key]
		if same := i.sameAddress(key); len(same) > 1 {
			return nil, problem{reason: v1alpha1.CannotStartAmbiguousBMCReason, message: "the BMCs " + listed(same) + sharing(bmc) + ", so it is not known whose host it is; correct one of them"}
		}
		return bmc, problem{}
	}
	return nil, problem{}
}

// sharing says what the BMCs of one host have in common.
func sharing(bmc *v1alpha1.BMC) string {
	if bmc.Spec.BareMetalHost != nil {
		return " name the same BareMetalHost"
	}
	return " have the same address, or Redfish and IPMI at one host"
}

// sameAddress returns the BMCs that may power the host of a BMC, including itself.
func (i *inventory) sameAddress(key types.NamespacedName) map[types.NamespacedName]bool {
	if i.all[key].Spec.BareMetalHost != nil {
		return i.byAddress[addressKey(i.all[key])]
	}
	own, err := addressOf(i.all[key])
	same := map[types.NamespacedName]bool{key: true}
	if err != nil {
		return same
	}
	for other := range i.byAddress[addressKey(i.all[key])] {
		if a, err := addressOf(i.all[other]); err == nil && own.Overlaps(a) {
			same[other] = true
		}
	}
	return same
}

// listed returns the first names of some keys, in their order.
func listed(keys map[types.NamespacedName]bool) string {
	const most = 3
	var list []string
	for key := range keys {
		list = append(list, key.Name)
	}
	slices.Sort(list)
	if len(list) > most {
		list = append(list[:most], "others")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// addressOf parses the address of a BMC.
func addressOf(bmc *v1alpha1.BMC) (power.Address, error) {
	return power.ParseSystem(bmc.Spec.Address, bmc.Spec.System)
}

// trustOf returns which certificate of a BMC is trusted.
func trustOf(bmc *v1alpha1.BMC) (power.Trust, error) {
	if bmc.Spec.TLS == nil {
		return power.Trust{}, nil
	}
	return power.NewTrust([]byte(bmc.Spec.TLS.CABundle), bmc.Spec.TLS.Fingerprint)
}

// addressKey is the same for two BMCs at the same host, and for two that name the same BareMetalHost. A BMC with an invalid address has one of its own.
func addressKey(bmc *v1alpha1.BMC) string {
	if named := bmc.Spec.BareMetalHost; named != nil {
		return "BareMetalHost " + named.Namespace + "/" + named.Name
	}
	address, err := addressOf(bmc)
	if err != nil {
		return "invalid " + string(bmc.UID)
	}
	return address.Host
}
