package openshift

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/slim"
)

// Machine is the part of a machine.openshift.io Machine that decisions read. The rest is never
// decoded, and never written: Fettle deletes machines and changes none.
type Machine struct {
	slim.Meta

	// Phase is empty for a machine that its controller has not seen yet.
	Phase string
	// LastUpdated is zero for a machine that was never updated.
	LastUpdated time.Time
	// Node is the name of the node that the machine refers to, if it does.
	Node string
	// Unreadable says in a sentence which fields can't be read and what belongs there. It is empty
	// when all can.
	Unreadable string
}

// MachineList is a list of machines.
type MachineList struct {
	metav1.ListMeta `json:"metadata"`

	Items []Machine `json:"items"`
}

// maxPhaseLength is how much is kept of a phase: more than the longest that there is, so that no other becomes one.
const maxPhaseLength = 64

// UnmarshalJSON decodes what is read. It fails on metadata alone, which the API server has read too.
func (m *Machine) UnmarshalJSON(body []byte) error {
	var wire struct {
		Metadata slim.Metadata `json:"metadata"`
		Status   plainStatus   `json:"status"`
	}
	status := &wire.Status
	if utiljson.Unmarshal(body, &wire) != nil {
		var apart struct {
			Metadata slim.Metadata `json:"metadata"`
			Status   machineStatus `json:"status"`
		}
		if err := utiljson.Unmarshal(body, &apart); err != nil {
			return fmt.Errorf("decoding a machine: %w", err)
		}
		wire.Metadata, status = apart.Metadata, &apart.Status.plainStatus
	}
	status.checkNode()
	meta := wire.Metadata.Keep(externalAnnotation, annotation.RepairRequestedAt)
	status.addProblem(meta.Unread)
	*m = Machine{
		Meta:        meta,
		Phase:       slim.Intern(lenient.Prefix(status.Phase, maxPhaseLength)),
		LastUpdated: status.LastUpdated.Time,
		Node:        status.NodeRef.Name,
		Unreadable:  status.unreadable,
	}
	return nil
}

// DeepCopyObject copies the machine.
func (m *Machine) DeepCopyObject() runtime.Object {
	c := *m
	c.Meta = m.CloneMeta()
	return &c
}

// DeepCopyObject copies the list.
func (l *MachineList) DeepCopyObject() runtime.Object {
	c := &MachineList{ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Machine, len(l.Items))}
	for i := range l.Items {
		c.Items[i] = l.Items[i]
		c.Items[i].Meta = l.Items[i].CloneMeta()
	}
	return c
}

// GetObjectKind gives nothing: decoding has found the kind already, and the Go type says it.
func (*MachineList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// AddToScheme adds the lean Machine kind to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(v1beta1.GroupVersion, &Machine{}, &MachineList{})
	metav1.AddToGroupVersion(s, v1beta1.GroupVersion)
	return nil
}
