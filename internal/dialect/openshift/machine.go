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

// Machine is the part of a machine.openshift.io Machine that decisions read. The other fields are
// never decoded, and never written: Fettle deletes machines and annotates them, and changes nothing
// else.
type Machine struct {
	slim.Meta

	// Phase is empty until the machine's controller has seen the machine.
	Phase string
	// LastUpdated is zero for a machine that was never updated.
	LastUpdated time.Time
	// Node is the name of the node that the machine refers to, or empty.
	Node string
	// Unreadable names the fields that can't be read, and valid values for them. It is empty if all
	// fields can be read.
	Unreadable string
}

// MachineList is a list of machines.
type MachineList struct {
	metav1.ListMeta `json:"metadata"`

	Items []Machine `json:"items"`
}

// maxPhaseLength is how many bytes of a phase are kept. It exceeds the longest valid phase, so that
// no longer value is cut down to a valid one.
const maxPhaseLength = 64

// UnmarshalJSON decodes the fields of a Machine. It fails only on metadata, which the API server
// has read too.
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
	meta := wire.Metadata.Keep(externalAnnotation, annotation.RepairRequestedAt, annotation.ClaimedBy)
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

// DeepCopyObject returns a copy of the machine.
func (m *Machine) DeepCopyObject() runtime.Object {
	c := *m
	c.Meta = m.CloneMeta()
	return &c
}

// DeepCopyObject returns a copy of the list.
func (l *MachineList) DeepCopyObject() runtime.Object {
	c := &MachineList{ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Machine, len(l.Items))}
	for i := range l.Items {
		c.Items[i] = l.Items[i]
		c.Items[i].Meta = l.Items[i].CloneMeta()
	}
	return c
}

// GetObjectKind returns an empty kind. The Go type says which kind it is.
func (*MachineList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// AddToScheme adds Machine and MachineList to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(v1beta1.GroupVersion, &Machine{}, &MachineList{})
	metav1.AddToGroupVersion(s, v1beta1.GroupVersion)
	return nil
}
