package openshift

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
)

// Machine is the part of a machine.openshift.io Machine that decisions read. The rest is never
// decoded, and never written: Fettle deletes machines and changes none.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		Phase       *string      `json:"phase,omitempty"`
		LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
		NodeRef     *struct {
			Name string `json:"name,omitempty"`
		} `json:"nodeRef,omitempty"`
	} `json:"status,omitempty"`
}

// MachineList is a list of machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Machine `json:"items"`
}

// DeepCopyObject copies the machine.
func (m *Machine) DeepCopyObject() runtime.Object {
	c := &Machine{TypeMeta: m.TypeMeta, ObjectMeta: *m.ObjectMeta.DeepCopy()}
	if m.Status.Phase != nil {
		phase := *m.Status.Phase
		c.Status.Phase = &phase
	}
	c.Status.LastUpdated = m.Status.LastUpdated.DeepCopy()
	if m.Status.NodeRef != nil {
		ref := *m.Status.NodeRef
		c.Status.NodeRef = &ref
	}
	return c
}

// DeepCopyObject copies the list.
func (l *MachineList) DeepCopyObject() runtime.Object {
	c := &MachineList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Machine, len(l.Items))}
	for i := range l.Items {
		if m, ok := l.Items[i].DeepCopyObject().(*Machine); ok {
			c.Items[i] = *m
		}
	}
	return c
}

// AddToScheme adds the trimmed Machine kind to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(v1beta1.GroupVersion, &Machine{}, &MachineList{})
	metav1.AddToGroupVersion(s, v1beta1.GroupVersion)
	return nil
}

// TrimMachine reduces a Machine to what decisions read, before a cache keeps it. It is an informer
// transform.
func TrimMachine(obj any) (any, error) {
	if m, ok := obj.(*Machine); ok {
		m.ManagedFields, m.Finalizers = nil, nil
		claimed, isClaimed := m.Annotations[claimAnnotation]
		m.Annotations = nil
		if isClaimed {
			m.Annotations = map[string]string{claimAnnotation: claimed}
		}
	}
	return obj, nil
}
