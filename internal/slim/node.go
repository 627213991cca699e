package slim

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// The annotations of a node that decisions read.
const (
	// ConfirmedHealthyAnnotation, with any value, is an administrator's confirmation that the node is healthy.
	ConfirmedHealthyAnnotation = "remediation.medik8s.io/manually-confirmed-healthy"
	// CurrentConfigAnnotation and DesiredConfigAnnotation name the present and the wanted configuration of the
	// node. They differ while the node is being upgraded.
	CurrentConfigAnnotation = "machineconfiguration.openshift.io/currentConfig"
	DesiredConfigAnnotation = "machineconfiguration.openshift.io/desiredConfig"
	// MachineAnnotation names the machine of the node, as namespace/name. Only the namespace is kept.
	MachineAnnotation = "machine.openshift.io/machine"
)

// nodeAnnotations are the annotations of a node that are kept, from protobuf and from JSON.
var nodeAnnotations = [...]string{
	ConfirmedHealthyAnnotation, CurrentConfigAnnotation, DesiredConfigAnnotation, MachineAnnotation, annotation.RepairRequestedAt,
}

// Node has the fields of a core/v1 Node that decisions read.
type Node struct {
	Meta

	// Conditions are in the order of the node. Facts share them, so they must not be changed.
	Conditions []core.Condition
	// BootID is the boot ID as the kubelet has reported it last, or none.
	BootID UUID
}

// NodeList is a list of nodes.
type NodeList struct { //nolint:recvcheck // encoding must fail for a value too
	metav1.ListMeta `json:"metadata"`

	Items []Node `json:"items"`
}

// AddToScheme adds the slim kinds of core/v1 to a scheme that lacks the usual ones.
func AddToScheme(s *runtime.Scheme) error {
	v1 := schema.GroupVersion{Version: "v1"}
	s.AddKnownTypes(v1, &Node{}, &NodeList{})
	metav1.AddToGroupVersion(s, v1)
	return nil
}

// SameReadiness reports whether a node is the same object as before, with the same condition Ready.
func (n *Node) SameReadiness(before *Node) bool {
	was, is := before.ready(), n.ready()
	return n.UID == before.UID && was.Same(&is)
}

// IsReady reports whether the condition Ready is True.
func (n *Node) IsReady() bool { return n.ready().Status == "True" }

// ready returns the condition Ready, or its zero value.
func (n *Node) ready() core.Condition {
	for _, c := range n.Conditions {
		if c.Type == "Ready" {
			return c
		}
	}
	return core.Condition{}
}

// DeepCopyObject returns a copy of the node.
func (n *Node) DeepCopyObject() runtime.Object {
	return &Node{Meta: n.CloneMeta(), Conditions: slices.Clone(n.Conditions), BootID: n.BootID}
}

// DeepCopyObject returns a copy of the list.
func (l *NodeList) DeepCopyObject() runtime.Object {
	c := &NodeList{ListMeta: *l.ListMeta.DeepCopy(), Items: slices.Clone(l.Items)}
	for i := range c.Items {
		n := &c.Items[i]
		n.Meta, n.Conditions = n.CloneMeta(), slices.Clone(n.Conditions)
	}
	return c
}

// GetObjectKind returns an empty kind, since the Go type determines the kind.
func (*NodeList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// Reset empties the node. The protobuf serializer calls it before Unmarshal.
func (n *Node) Reset() { *n = Node{} }

// Reset empties the list. The protobuf serializer calls it before Unmarshal.
func (l *NodeList) Reset() { *l = NodeList{} }

// Unmarshal decodes from protobuf. It keeps none of the bytes. It returns an error for broken fields, but does not
// look into fields that it skips.
func (n *Node) Unmarshal(body []byte) error {
	n.Reset()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	err := each(body, n.decodeField)
	if err == nil {
		err = n.checkIdentity()
	}
	if err != nil {
		return fmt.Errorf("decoding a node: %w", err)
	}
	return nil
}

// Unmarshal decodes from protobuf, as Node.Unmarshal does.
func (l *NodeList) Unmarshal(body []byte) error {
	l.Reset()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if err := l.decode(body); err != nil {
		return fmt.Errorf("decoding a list of nodes: %w", err)
	}
	return nil
}

// UnmarshalJSON decodes from JSON, for servers that don't support protobuf.
func (n *Node) UnmarshalJSON(body []byte) error {
	var wire struct {
		Metadata Metadata `json:"metadata"`
		Status   struct {
			Conditions []struct {
				Type               string      `json:"type"`
				Status             string      `json:"status"`
				Reason             string      `json:"reason"`
				LastTransitionTime metav1.Time `json:"lastTransitionTime"`
			} `json:"conditions"`
			NodeInfo struct {
				BootID string `json:"bootID"`
			} `json:"nodeInfo"`
		} `json:"status"`
	}
	if err := utiljson.Unmarshal(body, &wire); err != nil {
		return fmt.Errorf("decoding a node: %w", err)
	}
	*n = Node{Meta: wire.Metadata.Keep(nodeAnnotations[:]...), BootID: ParseUUID(wire.Status.NodeInfo.BootID)}
	n.Owner = nil // as from protobuf: a node has no controller
	for _, c := range wire.Status.Conditions {
		n.keepCondition(core.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
	if err := n.checkIdentity(); err != nil {
		return fmt.Errorf("decoding a node: %w", err)
	}
	return nil
}

func (n *Node) keepCondition(c core.Condition) {
	switch {
	case len(n.Conditions) >= maxConditions:
		n.skip(tooManyConditions)
	case max(len(c.Type), len(c.Status), len(c.Reason)) > maxWord:
		n.skip(tooLongCondition)
	default:
		c.Type, c.Status, c.Reason = Intern(c.Type), Intern(c.Status), Intern(c.Reason)
		n.Conditions = append(n.Conditions, c)
	}
}

// MarshalJSON fails, so that no write erases skipped fields.
func (NodeList) MarshalJSON() ([]byte, error) { return nil, errPartial }

// Marshal fails, so that no write erases skipped fields.
func (NodeList) Marshal() ([]byte, error) { return nil, errPartial }

// MarshalTo fails too. Otherwise the method of ListMeta would encode a list as its metadata.
func (NodeList) MarshalTo([]byte) (int, error) { return 0, errPartial }

// MarshalToSizedBuffer fails, as MarshalTo does.
func (NodeList) MarshalToSizedBuffer([]byte) (int, error) { return 0, errPartial }
