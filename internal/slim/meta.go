package slim

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// Meta is the part of an object's metadata that decisions and caches read. It is the object's
// metav1.Object: what it lacks (managed fields, finalizers, generation and the like) reads as absent,
// and setting that does nothing.
type Meta struct { //nolint:recvcheck // encoding must fail for a value too
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Labels          Labels
	// CreationTimestamp is zero, and DeletionTimestamp nil, when the object says none.
	CreationTimestamp metav1.Time
	DeletionTimestamp *metav1.Time
	// Owner is the controller that owns the object, or nil.
	Owner *Owner
	// Annotations are those that are read, or nil.
	Annotations Labels
	// Unread says in a sentence what of the object is beyond the bounds and was skipped. It is empty when all was read.
	Unread string
}

// Owner is what is read of the reference to a controller.
type Owner struct{ APIVersion, Kind, Name, UID string }

var _ metav1.Object = &Meta{}

// CloneMeta copies what a setter or a holder of the copy could change; the rest is shared.
func (m *Meta) CloneMeta() Meta {
	c := *m
	c.DeletionTimestamp = m.DeletionTimestamp.DeepCopy()
	if m.Owner != nil {
		owner := *m.Owner
		c.Owner = &owner
	}
	return c
}

// RepairRequest is a person's request for the repair of the object. The zero RepairRequest is none.
func (m *Meta) RepairRequest() core.RepairRequest {
	at, set := m.Annotations.Lookup(annotation.RepairRequestedAt)
	if !set {
		return core.RepairRequest{}
	}
	return core.ReadRepairRequest(at)
}

// errPartial is why no lean object can be encoded.
var errPartial = errors.New("encoding a lean object: it holds a part of what was read, and writing it would erase the rest; " +
	"patch the fields that are meant to change instead")

// MarshalJSON fails, so that no object is ever written without what was skipped. Kinds that embed Meta have it too.
func (Meta) MarshalJSON() ([]byte, error) { return nil, errPartial }

// Marshal fails, as MarshalJSON does.
func (Meta) Marshal() ([]byte, error) { return nil, errPartial }

// GetObjectKind gives nothing: decoding has found the kind already, and the Go type says it.
func (*Meta) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// GetNamespace is a getter of metav1.Object.
func (m *Meta) GetNamespace() string { return m.Namespace }

// SetNamespace is a setter of metav1.Object.
func (m *Meta) SetNamespace(namespace string) { m.Namespace = namespace }

// GetName is a getter of metav1.Object.
func (m *Meta) GetName() string { return m.Name }

// SetName is a setter of metav1.Object.
func (m *Meta) SetName(name string) { m.Name = name }

// GetUID is a getter of metav1.Object.
func (m *Meta) GetUID() types.UID { return m.UID }

// SetUID is a setter of metav1.Object.
func (m *Meta) SetUID(uid types.UID) { m.UID = uid }

// GetResourceVersion is a getter of metav1.Object.
func (m *Meta) GetResourceVersion() string { return m.ResourceVersion }

// SetResourceVersion is a setter of metav1.Object.
func (m *Meta) SetResourceVersion(version string) { m.ResourceVersion = version }

// GetCreationTimestamp is a getter of metav1.Object.
func (m *Meta) GetCreationTimestamp() metav1.Time { return m.CreationTimestamp }

// SetCreationTimestamp is a setter of metav1.Object.
func (m *Meta) SetCreationTimestamp(at metav1.Time) { m.CreationTimestamp = at }

// GetDeletionTimestamp is a getter of metav1.Object.
func (m *Meta) GetDeletionTimestamp() *metav1.Time { return m.DeletionTimestamp }

// SetDeletionTimestamp is a setter of metav1.Object.
func (m *Meta) SetDeletionTimestamp(at *metav1.Time) { m.DeletionTimestamp = at }

// GetLabels gives a map of the caller's own.
func (m *Meta) GetLabels() map[string]string { return m.Labels.Map() }

// SetLabels is a setter of metav1.Object.
func (m *Meta) SetLabels(set map[string]string) { m.Labels = LabelsOf(set) }

// GetAnnotations gives those that are read, as a map of the caller's own.
func (m *Meta) GetAnnotations() map[string]string { return m.Annotations.Map() }

// SetAnnotations is a setter of metav1.Object.
func (m *Meta) SetAnnotations(annotations map[string]string) { m.Annotations = LabelsOf(annotations) }

// GetOwnerReferences gives the controller alone.
func (m *Meta) GetOwnerReferences() []metav1.OwnerReference {
	if m.Owner == nil {
		return nil
	}
	controls := true
	return []metav1.OwnerReference{{APIVersion: m.Owner.APIVersion, Kind: m.Owner.Kind, Name: m.Owner.Name, UID: types.UID(m.Owner.UID), Controller: &controls}}
}

// SetOwnerReferences keeps the controller alone.
func (m *Meta) SetOwnerReferences(references []metav1.OwnerReference) {
	m.Owner = nil
	for i := range references {
		if r := &references[i]; r.Controller != nil && *r.Controller {
			m.Owner = &Owner{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID)}
			return
		}
	}
}

// GetGenerateName gives nothing.
func (*Meta) GetGenerateName() string { return "" }

// SetGenerateName does nothing.
func (*Meta) SetGenerateName(string) {}

// GetGeneration gives nothing.
func (*Meta) GetGeneration() int64 { return 0 }

// SetGeneration does nothing.
func (*Meta) SetGeneration(int64) {}

// GetSelfLink gives nothing.
func (*Meta) GetSelfLink() string { return "" }

// SetSelfLink does nothing.
func (*Meta) SetSelfLink(string) {}

// GetDeletionGracePeriodSeconds gives nothing.
func (*Meta) GetDeletionGracePeriodSeconds() *int64 { return nil }

// SetDeletionGracePeriodSeconds does nothing.
func (*Meta) SetDeletionGracePeriodSeconds(*int64) {}

// GetFinalizers gives nothing.
func (*Meta) GetFinalizers() []string { return nil }

// SetFinalizers does nothing.
func (*Meta) SetFinalizers([]string) {}

// GetManagedFields gives nothing.
func (*Meta) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

// SetManagedFields does nothing.
func (*Meta) SetManagedFields([]metav1.ManagedFieldsEntry) {}
