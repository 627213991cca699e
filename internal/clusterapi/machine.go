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

// MachineKind is the kind of machines, in the version that Fettle reads and writes.
var MachineKind = clusterv1.GroupVersion.WithKind("Machine") //nolint:gochecknoglobals // a constant

// Machine has the fields of a Machine that decisions read, and that a patch of its conditions needs.
type Machine struct {
	slim.Meta

	Generation int64
	// Node is the name of the node that the machine refers to, or empty.
	Node string
	// Failure describes a failure from which the machine does not recover. It is empty without one.
	Failure string
	// Conditions are the conditions of v1beta2, in their order.
	Conditions []Condition
	// Marks are the conditions of both lists that health checking writes.
	Marks []Mark
	// Unreadable says which fields can't be read and what belongs there. It is empty if all can.
	Unreadable string

	// refs are the kinds of the machine's infrastructure and bootstrap objects.
	refs refs

	// present is how many parts of the path to each list exist.
	present [2]int
}

// List is one of the two lists of conditions.
type List int8

// The lists.
const (
	// Current conditions are the conditions of v1beta2.
	Current List = iota
	// Deprecated conditions are the conditions that v1beta1 shows.
	Deprecated
)

// String returns the version of a list.
func (l List) String() string {
	if l == Deprecated {
		return "v1beta1"
	}
	return "v1beta2"
}

// Condition is a current condition of a machine. Every machine has a dozen of them, so they are small.
type Condition struct {
	said *slim.Pair
	// since is the last transition as a Unix time, rounded up to the second. It is 0 without one.
	since int64
}

// Type returns the type of the condition.
func (c *Condition) Type() string { return c.said.Key() }

// Full returns the condition as decisions read it.
func (c *Condition) Full() core.Condition {
	full := core.Condition{Type: c.said.Key(), Status: c.said.Value()}
	if c.since != 0 {
		full.Since = time.Unix(c.since, 0)
	}
	return full
}

// ConditionContent is the content of a condition. A deprecated condition has a severity, and may lack a reason.
type ConditionContent struct{ Status, Severity, Reason, Message string }

// Mark is a condition of a machine that health checking writes.
type Mark struct {
	In   List
	Type string
	*ConditionContent
	// Since is the last transition, or zero without one.
	Since time.Time
	// Generation is the generation of the spec that a current condition is about, or 0 if it has none.
	Generation int64

	// at is the position in the list.
	at int
}

// markTypes are the types of the conditions that health checking writes.
var markTypes = [...]string{
	clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition,
}

// Mark returns the condition of a type in a list, or nil if the machine has none.
func (m *Machine) Mark(in List, kind string) *Mark {
	for i := range m.Marks {
		if mark := &m.Marks[i]; mark.In == in && mark.Type == kind {
			return mark
		}
	}
	return nil
}

// ClusterName returns the name of the machine's Cluster from the label that health checks use.
func (m *Machine) ClusterName() string { return m.Labels.Get(clusterv1.ClusterNameLabel) }

// Skipped reports whether an annotation takes the machine out of all health checking.
func (m *Machine) Skipped() bool {
	return m.Annotations.Has(clusterv1.MachineSkipRemediationAnnotation) || m.Annotations.Has(clusterv1.PausedAnnotation)
}

// RemediationRequested reports whether a user has requested the repair of the machine by an annotation.
func (m *Machine) RemediationRequested() bool {
	return m.Annotations.Has(clusterv1.RemediateMachineAnnotation)
}

// ControlPlane reports whether the machine is a member of its cluster's control plane.
func (m *Machine) ControlPlane() bool { return m.Labels.Has(clusterv1.MachineControlPlaneLabel) }

const (
	machineSetKind    = "MachineSet"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
)

// ReplacingOwner returns the owner that replaces the machine on request, or nil. It is a MachineSet, or the owner
// of the control plane.
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

// metaWithGeneration is the decoded metadata of machines and clusters.
type metaWithGeneration struct {
	slim.Metadata

	Generation int64 `json:"generation"`
}

// UnmarshalJSON decodes the fields that are read. Only metadata that can't be decoded is an error, and the API
// server has decoded that too.
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

// DeepCopyObject returns a copy of the machine. It shares the lists, which never change.
func (m *Machine) DeepCopyObject() runtime.Object {
	c := *m
	c.Meta = m.CloneMeta()
	return &c
}

// DeepCopyObject returns a copy of the list.
func (l *MachineList) DeepCopyObject() runtime.Object {
	c := &MachineList{ListMeta: *l.ListMeta.DeepCopy(), Items: slices.Clone(l.Items)}
	for i := range c.Items {
		c.Items[i].Meta = l.Items[i].CloneMeta()
	}
	return c
}

// GetObjectKind returns an empty kind, since the Go type determines the kind.
func (*MachineList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(clusterv1.GroupVersion, &Machine{}, &MachineList{}, &Cluster{}, &ClusterList{})
	metav1.AddToGroupVersion(s, clusterv1.GroupVersion)
	return nil
}
