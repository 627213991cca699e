package slim

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// Meta has the metadata of an object that decisions and caches read. It implements metav1.Object. Fields that it
// lacks, such as managed fields, read as absent, and their setters do nothing.
type Meta struct { //nolint:recvcheck // encoding must fail for a value too
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Labels          Labels
	// CreationTimestamp is zero, and DeletionTimestamp nil, if the object has none.
	CreationTimestamp metav1.Time
	DeletionTimestamp *metav1.Time
	// Owner is the controller that owns the object, or nil.
	Owner *Owner
	// Annotations are the annotations that are read.
	Annotations Labels
	// Unread says which parts of the object are beyond the bounds and were skipped. It is empty if none were.
	Unread string
}

// Owner has the fields of a reference to a controller that are read.
type Owner struct{ APIVersion, Kind, Name, UID string }

var _ metav1.Object = &Meta{}

// CloneMeta returns a copy. It shares the parts that no setter changes.
func (m *Meta) CloneMeta() Meta {
	c := *m
	c.DeletionTimestamp = m.DeletionTimestamp.DeepCopy()
	if m.Owner != nil {
		owner := *m.Owner
		c.Owner = &owner
	}
	return c
}

// RepairRequest returns the user's request for the repair of the object. The zero RepairRequest is none.
func (m *Meta) RepairRequest() core.RepairRequest {
	at, set := m.Annotations.Lookup(annotation.RepairRequestedAt)
	if !set {
		return core.RepairRequest{}
	}
	return core.ReadRepairRequest(at)
}

// errPartial is the error of encoding a slim object.
var errPartial = errors.New("encoding a slim object: it holds a part of what was read, and writing it would erase the rest; " +
	"patch the fields that are meant to change instead")

// MarshalJSON fails, so that no write erases skipped fields. Kinds that embed Meta inherit it.
func (Meta) MarshalJSON() ([]byte, error) { return nil, errPartial }

// Marshal fails, as MarshalJSON does.
func (Meta) Marshal() ([]byte, error) { return nil, errPartial }

// GetObjectKind returns an empty kind, since the Go type determines the kind.
func (*Meta) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// GetNamespace implements metav1.Object.
func (m *Meta) GetNamespace() string { return m.Namespace }

// SetNamespace implements metav1.Object.
func (m *Meta) SetNamespace(namespace string) { m.Namespace = namespace }

// GetName implements metav1.Object.
func (m *Meta) GetName() string { return m.Name }

// SetName implements metav1.Object.
func (m *Meta) SetName(name string) { m.Name = name }

// GetUID implements metav1.Object.
func (m *Meta) GetUID() types.UID { return m.UID }

// SetUID implements metav1.Object.
func (m *Meta) SetUID(uid types.UID) { m.UID = uid }

// GetResourceVersion implements metav1.Object.
func (m *Meta) GetResourceVersion() string { return m.ResourceVersion }

// SetResourceVersion implements metav1.Object.
func (m *Meta) SetResourceVersion(version string) { m.ResourceVersion = version }

// GetCreationTimestamp implements metav1.Object.
func (m *Meta) GetCreationTimestamp() metav1.Time { return m.CreationTimestamp }

// SetCreationTimestamp implements metav1.Object.
func (m *Meta) SetCreationTimestamp(at metav1.Time) { m.CreationTimestamp = at }

// GetDeletionTimestamp implements metav1.Object.
func (m *Meta) GetDeletionTimestamp() *metav1.Time { return m.DeletionTimestamp }

// SetDeletionTimestamp implements metav1.Object.
func (m *Meta) SetDeletionTimestamp(at *metav1.Time) { m.DeletionTimestamp = at }

// GetLabels implements metav1.Object. The map is the caller's.
func (m *Meta) GetLabels() map[string]string { return m.Labels.Map() }

// SetLabels implements metav1.Object.
func (m *Meta) SetLabels(set map[string]string) { m.Labels = LabelsOf(set) }

// GetAnnotations implements metav1.Object. It returns the annotations that are read, as a map of the caller's.
func (m *Meta) GetAnnotations() map[string]string { return m.Annotations.Map() }

// SetAnnotations implements metav1.Object.
func (m *Meta) SetAnnotations(annotations map[string]string) { m.Annotations = LabelsOf(annotations) }

// GetOwnerReferences implements metav1.Object. It returns only the controller.
func (m *Meta) GetOwnerReferences() []metav1.OwnerReference {
	if m.Owner == nil {
		return nil
	}
	controls := true
	return []metav1.OwnerReference{{APIVersion: m.Owner.APIVersion, Kind: m.Owner.Kind, Name: m.Owner.Name, UID: types.UID(m.Owner.UID), Controller: &controls}}
}

// SetOwnerReferences implements metav1.Object. It keeps only the controller.
func (m *Meta) SetOwnerReferences(references []metav1.OwnerReference) {
	m.Owner = nil
	for i := range references {
		if r := &references[i]; r.Controller != nil && *r.Controller {
			m.Owner = &Owner{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID)}
			return
		}
	}
}

// GetGenerateName implements metav1.Object. The field reads as absent.
func (*Meta) GetGenerateName() string { return "" }

// SetGenerateName implements metav1.Object. It does nothing.
func (*Meta) SetGenerateName(string) {}

// GetGeneration implements metav1.Object. The field reads as absent.
func (*Meta) GetGeneration() int64 { return 0 }

// SetGeneration implements metav1.Object. It does nothing.
func (*Meta) SetGeneration(int64) {}

// GetSelfLink implements metav1.Object. The field reads as absent.
func (*Meta) GetSelfLink() string { return "" }

// SetSelfLink implements metav1.Object. It does nothing.
func (*Meta) SetSelfLink(string) {}

// GetDeletionGracePeriodSeconds implements metav1.Object. The field reads as absent.
func (*Meta) GetDeletionGracePeriodSeconds() *int64 { return nil }

// SetDeletionGracePeriodSeconds implements metav1.Object. It does nothing.
func (*Meta) SetDeletionGracePeriodSeconds(*int64) {}

// GetFinalizers implements metav1.Object. The field reads as absent.
func (*Meta) GetFinalizers() []string { return nil }

// SetFinalizers implements metav1.Object. It does nothing.
func (*Meta) SetFinalizers([]string) {}

// GetManagedFields implements metav1.Object. The field reads as absent.
func (*Meta) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

// SetManagedFields implements metav1.Object. It does nothing.
func (*Meta) SetManagedFields([]metav1.ManagedFieldsEntry) {}

// label adds labels to the labels of the object.
func (m *Meta) label(raw []rawEntry) { m.Labels = m.Labels.with(m.fits(raw), m.labelOf) }

// annotate adds annotations to the annotations of the object.
func (m *Meta) annotate(raw []rawEntry) {
	for i := range raw {
		raw[i] = m.short(raw[i])
	}
	m.Annotations = m.Annotations.with(raw, sharedLabel)
}

// labelOf returns the shared copy of a label. A label whose value is the object's name is not shared, since no
// other object has it.
func (m *Meta) labelOf(raw rawEntry) *label {
	if m.Name != "" && string(raw.value) == m.Name {
		return &label{shared.word(raw.key), m.Name}
	}
	return shared.rawLabel(raw.key, raw.value)
}
