package openshift

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/informer"
)

const machineSetKind = "MachineSet"

// MachineSetKinds are the resources that WatchMachineSets needs. Their templates show whether a
// pool makes other machines than before.
var MachineSetKinds = []string{"machinesets.machine.openshift.io"} //nolint:gochecknoglobals // a constant list

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machinesets,verbs=list;watch

// WatchMachineSets starts the informer of machine sets. Without them no template is known. Like
// Watch, it may be called again.
func (c *Client) WatchMachineSets(ctx context.Context) error {
	return c.sets.Watch(ctx, c.Informers,
		informer.Kind{Plural: "machine sets", Object: machineSetObject(), Handler: c.handler(c.store.putSet, c.store.dropSet)})
}

// MachineSetsSynced reports whether the cache of machine sets is in sync.
func (c *Client) MachineSetsSynced() bool { return c.sets.HasSynced() }

func machineSetObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(machineSetKind))
	return u
}

// machineSet holds the UID of a machine set and the hash of its template.
type machineSet struct{ uid, template string }

// putSet stores a machine set and reports whether that can change a decision. Its scale, which
// changes often, can't.
func (s *store) putSet(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	key, fresh := u.GetNamespace()+"/"+u.GetName(), machineSet{string(u.GetUID()), templateOf(u)}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.sets[key]
	s.sets[key] = fresh
	return old != fresh
}

func (s *store) dropSet(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sets, key)
}

// templateOf returns a hash of the template of a machine set, or "" if it has none.
func templateOf(u *unstructured.Unstructured) string {
	template, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
	if !found {
		return ""
	}
	body, err := json.Marshal(template)
	if err != nil {
		return ""
	}
	digest := sha256.Sum256(body)
	return hex.EncodeToString(digest[:8])
}
