package clusterapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/slim"
)

// ClusterKind is the kind of clusters, in the version that Fettle reads.
var ClusterKind = clusterv1.GroupVersion.WithKind("Cluster") //nolint:gochecknoglobals // a constant

// Cluster has the fields of a Cluster that decisions read.
type Cluster struct {
	slim.Meta

	// Paused is Yes while nothing of the cluster may be changed, and Unknown if the field can't be read.
	Paused core.Tri
	// InfrastructureReady and ControlPlaneInitialized are conditions.
	InfrastructureReady, ControlPlaneInitialized Milestone
	// Upgrade is unknown for a cluster that can't be read.
	Upgrade Upgrade
	// Unreadable says which fields can't be read. It is empty if all can.
	Unreadable string
}

// Milestone is a condition that a cluster reaches. Since is its last transition.
type Milestone struct {
	Reached bool
	Since   time.Time
}

// ClusterList is a list of clusters.
type ClusterList struct {
	metav1.ListMeta `json:"metadata"`

	Items []Cluster `json:"items"`
}

// UnmarshalJSON decodes the fields that are read. Only metadata that can't be decoded is an error, and the API
// server has decoded that too.
func (c *Cluster) UnmarshalJSON(body []byte) error {
	var wire struct {
		Metadata metaWithGeneration `json:"metadata"`
		Spec     rawField           `json:"spec"`
		Status   rawField           `json:"status"`
	}
	if err := utiljson.Unmarshal(body, &wire); err != nil {
		return fmt.Errorf("decoding a cluster: %w", err)
	}
	*c = Cluster{Meta: wire.Metadata.Keep(), Paused: core.No}
	var problems []string
	spec := readPart[struct {
		Paused   bool     `json:"paused"`
		Topology rawField `json:"topology"`
	}]("spec", wire.Spec, &problems)
	switch {
	case spec == nil:
		c.Paused = core.Unknown
	case spec.Paused:
		c.Paused = core.Yes
	}
	status := readPart[struct {
		Conditions   []condition `json:"conditions"`
		ControlPlane rawField    `json:"controlPlane"`
	}]("status", wire.Status, &problems)
	if status != nil {
		c.InfrastructureReady = milestone(status.Conditions, clusterv1.ClusterInfrastructureReadyCondition)
		c.ControlPlaneInitialized = milestone(status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	}
	if spec != nil && status != nil {
		s := upgradeSigns{c.Name, wire.Metadata.Generation, status.Conditions, spec.Topology.given(), status.ControlPlane}
		c.Upgrade = s.upgrade()
	}
	if c.Unread != "" {
		problems = append(problems, c.Unread)
	}
	c.Unreadable = strings.Join(problems, "; ")
	return nil
}

// readPart reads the spec or the status, and returns nil if it can't be read.
func readPart[T any](name string, l rawField, problems *[]string) *T {
	into := new(T)
	if len(l.body) > 0 && utiljson.Unmarshal(l.body, into) != nil {
		*problems = append(*problems, fmt.Sprintf("%s is %s and can't be read", name, lenient.Excerpt(string(json.RawMessage(l.body)))))
		return nil
	}
	return into
}

func milestone(conditions []condition, kind string) Milestone {
	i := slices.IndexFunc(conditions, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return Milestone{}
	}
	return Milestone{Reached: conditions[i].Status == string(metav1.ConditionTrue), Since: conditions[i].LastTransitionTime.Time}
}

// Same reports whether two versions of a cluster lead to the same decisions.
func (c *Cluster) Same(other *Cluster) bool {
	return c.UID == other.UID && c.Paused == other.Paused && c.Unreadable == other.Unreadable && c.Upgrade == other.Upgrade &&
		c.InfrastructureReady.same(other.InfrastructureReady) && c.ControlPlaneInitialized.same(other.ControlPlaneInitialized)
}

func (m Milestone) same(other Milestone) bool {
	return m.Reached == other.Reached && m.Since.Equal(other.Since)
}

// DeepCopyObject returns a copy of the cluster.
func (c *Cluster) DeepCopyObject() runtime.Object {
	d := *c
	d.Meta = c.CloneMeta()
	return &d
}

// DeepCopyObject returns a copy of the list.
func (l *ClusterList) DeepCopyObject() runtime.Object {
	c := &ClusterList{ListMeta: *l.ListMeta.DeepCopy(), Items: slices.Clone(l.Items)}
	for i := range c.Items {
		c.Items[i].Meta = l.Items[i].CloneMeta()
	}
	return c
}

// GetObjectKind returns an empty kind, since the Go type determines the kind.
func (*ClusterList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
