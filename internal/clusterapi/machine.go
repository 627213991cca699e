package clusterapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// MachineKind is the kind of machines, in the version in which they are read and written.
var MachineKind = clusterv1.GroupVersion.WithKind("Machine") //nolint:gochecknoglobals // a constant

// Machine is the part of a Machine that decisions read, and that is needed to write on it how it was judged.
type Machine struct {
	slim.Meta

	Generation int64
	// Node is the name of the node that the machine refers to, if it does.
	Node string
	// Failure is what the machine says of a failure from which it does not recover, and empty without one.
	Failure string
	// Conditions are those of v1beta2, in their order.
	Conditions []Condition
	// Marks are the conditions that health checking is about, of both lists, as they are now.
	Marks []Mark
	// Unreadable says in a sentence which fields can't be read and what belongs there. It is empty when all can.
	Unreadable string

	// refs are the kinds of the objects that the machine is made of.
	refs refs

	// present is how much there is of the path to each list.
	present [2]int
}

// List tells the two lists of conditions apart.
type List int8

// The lists.
const (
	// Current conditions are those of v1beta2.
	Current List = iota
	// Deprecated conditions are those that v1beta1 shows.
	Deprecated
)

// String names the version that a list is of.
func (l List) String() string {
	if l == Deprecated {
		return "v1beta1"
	}
	return "v1beta2"
}

// Condition is one of a machine's current conditions. Every machine has a dozen of them, so they are small.
type Condition struct {
	said *slim.Pair
	// since is its last transition as a Unix time, rounded up to the second; 0 when it carries none.
	since int64
}

// Type is the type of the condition.
func (c *Condition) Type() string { return c.said.Key() }

// Full gives the condition as decisions read it.
func (c *Condition) Full() core.Condition {
	full := core.Condition{Type: c.said.Key(), Status: c.said.Value()}
	if c.since != 0 {
		full.Since = time.Unix(c.since, 0)
	}
	return full
}

// ConditionContent are what a condition says. Deprecated ones have a severity, and may lack a reason.
type ConditionContent struct{ Status, Severity, Reason, Message string }

// Mark is one condition of a machine as it is now.
type Mark struct {
	In   List
	Type string
	*ConditionContent
	// Since is its last transition; zero when it carries none.
	Since time.Time
	// Generation is that of the spec that a current condition is about; 0 when it does not say.
	Generation int64

	// at is its place in the list.
	at int
}

// markTypes are the types of conditions that health checking is about.
var markTypes = [...]string{
	clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition,
}

// Mark gives one of the conditions that health checking is about, nil when the machine has none of that type.
func (m *Machine) Mark(in List, kind string) *Mark {
	for i := range m.Marks {
		if mark := &m.Marks[i]; mark.In == in && mark.Type == kind {
			return mark
		}
	}
	return nil
}

// ClusterName is the name of the machine's Cluster, by the label that health checks go by.
func (m *Machine) ClusterName() string { return m.Labels.Get(clusterv1.ClusterNameLabel) }

// Skipped tells whether somebody has taken the machine out of all health checking.
func (m *Machine) Skipped() bool {
	return m.Annotations.Has(clusterv1.MachineSkipRemediationAnnotation) || m.Annotations.Has(clusterv1.PausedAnnotation)
}

// RemediationRequested tells whether a person has asked for the machine to be repaired.
func (m *Machine) RemediationRequested() bool {
	return m.Annotations.Has(clusterv1.RemediateMachineAnnotation)
}

// ControlPlane tells whether the machine is of the control plane of its cluster.
func (m *Machine) ControlPlane() bool { return m.Labels.Has(clusterv1.MachineControlPlaneLabel) }

const (
	machineSetKind    = "MachineSet"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
)

// ReplacingOwner gives the owner that replaces the machine when asked, nil when it has none that does: a MachineSet, or
// whatever keeps the control plane.
func (m *Machine) ReplacingOwner() *slim.Owner {
	if m.Owner == nil {
		return nil
	}
	group, _, _ := strings.Cut(m.Owner.APIVersion, "/")
	ofMachines := group == clusterv1.GroupVersion.Group && m.Owner.Kind == machineSetKind
	if ofMachines || group == controlPlaneGroup || m.ControlPlane() {
		return m.Owner
	}
	return nil
}

// MachineList is a list of machines.
type MachineList struct {
	metav1.ListMeta `json:"metadata"`

	Items []Machine `json:"items"`
}

// metaWithGeneration is what is decoded of the metadata of machines and clusters.
type metaWithGeneration struct {
	slim.Metadata

	Generation int64 `json:"generation"`
}

// UnmarshalJSON decodes what is read. It fails on metadata alone, which the API server has read too.
func (m *Machine) UnmarshalJSON(body []byte) error {
	var wire struct {
		Metadata metaWithGeneration `json:"metadata"`
		Spec     machineSpec        `json:"spec"`
		Status   *machineStatus     `json:"status"`
	}
	var problem string
	if utiljson.Unmarshal(body, &wire) != nil {
		var apart struct {
			Metadata metaWithGeneration `json:"metadata"`
			Spec     rawField           `json:"spec"`
			Status   rawField           `json:"status"`
		}
		if err := utiljson.Unmarshal(body, &apart); err != nil {
			return fmt.Errorf("decoding a machine: %w", err)
		}
		wire.Metadata, wire.Spec = apart.Metadata, readSpec(apart.Spec)
		wire.Status, problem = readFieldByField(apart.Status)
	}
	*m = Machine{
		Meta: wire.Metadata.Keep(
			clusterv1.MachineSkipRemediationAnnotation, clusterv1.PausedAnnotation, clusterv1.RemediateMachineAnnotation,
			annotation.RepairRequestedAt,
		),
		Generation: wire.Metadata.Generation,
		Unreadable: problem,
		refs:       wire.Spec.refs(),
	}
	if m.Unread != "" {
		m.addProblem(m.Unread)
	}
	m.setStatus(wire.Status)
	return nil
}

// DeepCopyObject copies the machine. Lists are shared, since nobody changes them.
func (m *Machine) DeepCopyObject() runtime.Object {
	c := *m
	c.Meta = m.CloneMeta()
	return &c
}

// DeepCopyObject copies the list.
func (l *MachineList) DeepCopyObject() runtime.Object {
	c := &MachineList{ListMeta: *l.ListMeta.DeepCopy(), Items: slices.Clone(l.Items)}
	for i := range c.Items {
		c.Items[i].Meta = l.Items[i].CloneMeta()
	}
	return c
}

// GetObjectKind gives nothing: decoding has found the kind already, and the Go type says it.
func (*MachineList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// AddToScheme adds the lean kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(clusterv1.GroupVersion, &Machine{}, &MachineList{}, &Cluster{}, &ClusterList{})
	metav1.AddToGroupVersion(s, clusterv1.GroupVersion)
	return nil
}
