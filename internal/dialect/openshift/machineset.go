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

// MachineSetKinds are the resources whose templates tell that a pool may make other machines by now.
var MachineSetKinds = []string{"machinesets.machine.openshift.io"} //nolint:gochecknoglobals // a constant list

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machinesets,verbs=list;watch

// WatchMachineSets begins to watch machine sets. Without them no template is known. Like Watch, it may be called again.
func (c *Client) WatchMachineSets(ctx context.Context) error {
	return c.sets.Watch(ctx, c.Informers,
		informer.Kind{Plural: "machine sets", Object: machineSetObject(), Handler: c.handler(c.store.putSet, c.store.dropSet)})
}

// MachineSetsSynced tells whether the machine sets have been taken in.
func (c *Client) MachineSetsSynced() bool { return c.sets.HasSynced() }

func machineSetObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(machineSetKind))
	return u
}

// machineSet is what is kept of a machine set.
type machineSet struct{ uid, template string }

// putSet takes in a machine set and tells whether that can change a decision. Its scale, which others change often, can't.
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

// templateOf tells templates apart; it is empty for a machine set without any.
func templateOf(u *unstructured.Unstructured) string {
	template, found, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "template")
	if !found || err != nil {
		return ""
	}
	body, err := json.Marshal(template)
	if err != nil {
		return ""
	}
	digest := sha256.Sum256(body)
	return hex.EncodeToString(digest[:8])
}
