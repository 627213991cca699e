package powercycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// This file has what is different for a node of a workload cluster of Cluster API. Its machine and its Cluster are in the cluster that
// Fettle runs in, and so is the BMC. The node, its pods and its volumes are in the workload cluster.

// The kinds of Cluster API.
var (
	clusterAPIMachine = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"} //nolint:gochecknoglobals // a constant
	clusterAPICluster = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"} //nolint:gochecknoglobals // a constant
)

const (
	// maxReconcilesElsewhere bounds the concurrent reconciles of all workload clusters, so that clusters that hang leave
	// room for the cluster that Fettle runs in. One of them has at most maxReconcilesPerCluster, and at most as many as are left for
	// all. So each leaves room for others. A remediation that finds no room waits for requeueAtLimit.
	maxReconcilesElsewhere  = maxReconciles * 3 / 4
	maxReconcilesPerCluster = 128
	requeueAtLimit          = time.Second
	// clusterPaused is the reason of a remediation that waits until its Cluster is not paused any more.
	clusterPaused = "ClusterPaused"
)

// nodesOf returns where the node of a reconcile is.
func (c *Client) nodesOf(rec *reconciliation) *fencednode.Nodes {
	if rec.nodes == nil {
		return c.nodes
	}
	return rec.nodes
}

// fencedCluster is the workload cluster of a node. It is zero for the cluster that Fettle runs in.
type fencedCluster struct {
	types.NamespacedName

	uid types.UID
}

func (f fencedCluster) isHome() bool { return f.NamespacedName == types.NamespacedName{} }

// status returns the cluster as it is recorded, or nil.
func (f fencedCluster) status() *v1alpha1.FencedCluster {
	if f.isHome() {
		return nil
	}
	return &v1alpha1.FencedCluster{Namespace: f.Namespace, Name: f.Name, UID: string(f.uid)}
}

// clusterOf returns the recorded cluster of a remediation. It reports false for a cluster that no remediation of this namespace can be for.
func clusterOf(r *v1alpha1.PowerRemediation) (fencedCluster, bool) {
	if r.Status.Node == nil || r.Status.Node.Cluster == nil {
		return fencedCluster{}, true
	}
	recorded := r.Status.Node.Cluster
	return fencedCluster{types.NamespacedName{Namespace: recorded.Namespace, Name: recorded.Name}, types.UID(recorded.UID)}, recorded.Namespace == r.Namespace && recorded.Name != ""
}

// nodeKey returns what identifies a node among those of all clusters: its name, after that of its workload cluster. No name has a slash.
func nodeKey(cluster types.NamespacedName, node string) string {
	if cluster == (types.NamespacedName{}) {
		return node
	}
	return cluster.String() + "/" + node
}

// named returns the name of a node for users by its key.
func named(key string) string {
	if end := strings.LastIndex(key, "/"); end >= 0 {
		return key[end+1:] + " of workload cluster " + key[:end]
	}
	return key
}

// nodeOf returns the key of the node of a BMC.
func nodeOf(bmc *v1alpha1.BMC) string {
	if of := bmc.Spec.Cluster; of != nil {
		return of.Namespace + "/" + of.Name + "/" + bmc.Spec.NodeName
	}
	return bmc.Spec.NodeName
}

// clusterLimits counts the reconciles of remediations of each workload cluster.
type clusterLimits struct {
	mu        sync.Mutex
	byCluster map[types.NamespacedName]*clusterLimit
	// reconciles counts those of all clusters.
	reconciles int
}

// clusterLimit has what the reconciles for one cluster share.
type clusterLimit struct {
	reconciles int
	volumes    *fencednode.Volumes
}

var errNoRoom = errors.New("other remediations of its cluster are reconciled first")

// enter returns where the nodes of a workload cluster are, until the context ends. It reports false if too many reconciles are under way.
func (c *Client) enter(ctx context.Context, cluster types.NamespacedName) (*fencednode.Nodes, bool) {
	limits := c.clusterLimits
	limits.mu.Lock()
	defer limits.mu.Unlock()
	of := limits.byCluster[cluster]
	if of == nil {
		of = &clusterLimit{volumes: fencednode.NewVolumes()}
		limits.byCluster[cluster] = of
	}
	if of.reconciles >= min(maxReconcilesPerCluster, maxReconcilesElsewhere-limits.reconciles) {
		return nil, false
	}
	of.reconciles++
	limits.reconciles++
	context.AfterFunc(ctx, func() {
		limits.mu.Lock()
		defer limits.mu.Unlock()
		of.reconciles--
		limits.reconciles--
		if of.reconciles == 0 {
			delete(limits.byCluster, cluster)
		}
	})
	return fencednode.New(c.Workload(cluster), c.Now, of.volumes), true
}

// isForClusterAPI reports whether a remediation is for a machine of Cluster API.
func (c *Client) isForClusterAPI(r *v1alpha1.PowerRemediation) bool {
	return c.Workload != nil && contract.IsForMachine(r, clusterAPIMachine.GroupKind())
}

// identifyMachine finds the name of the node of a machine of Cluster API, and the BMC that names both. The machine and its status may belong to
// a tenant: they choose among the hosts of their own cluster only, which the BMC names. The workload cluster is not read.
func (c *Client) identifyMachine(ctx context.Context, r *v1alpha1.PowerRemediation) (subject, problem, error) {
	owner, _ := contract.OwnerMachine(r, clusterAPIMachine.GroupKind())
	m, err := c.get(ctx, clusterAPIMachine, owner.Key)
	if err != nil {
		return subject{}, problem{}, err
	}
	s, found := subjectOf(m, owner)
	if found.found() {
		return s, found, nil
	}
	cluster, err := c.get(ctx, clusterAPICluster, s.cluster.NamespacedName)
	if err != nil {
		return s, problem{}, err
	}
	if cluster == nil || cluster.GetDeletionTimestamp() != nil {
		return s, problem{reason: v1alpha1.CannotStartClusterNotFoundReason, message: "Cluster " + s.cluster.String() + " of machine " + owner.Key.String() + " does not exist, or is being deleted"}, nil
	}
	if paused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused"); paused {
		s.waits = problem{reason: clusterPaused, message: "Cluster " + s.cluster.String() + " is paused, and nothing is begun before it goes on"}
		return s, problem{}, nil
	}
	s.cluster.uid = cluster.GetUID()
	s.bmc, found = c.bmcs.find(nodeKey(s.cluster.NamespacedName, s.name))
	return s, found, nil
}

// readMember reads the node of a subject in its workload cluster, which may not answer for long. So it keeps no slot meanwhile. Only the
// remediation that has claimed the node reads it, since any number of machines may refer to one node.
func (c *Client) readMember(ctx context.Context, rec *reconciliation, s *subject) (problem, error) {
	if s.cluster.isHome() {
		return problem{}, nil
	}
	nodes, entered := c.enter(ctx, s.cluster.NamespacedName)
	if !entered {
		return problem{}, errNoRoom
	}
	s.nodes = nodes
	rec.slot.release()
	n, err := nodes.Get(ctx, s.name)
	if !rec.slot.acquire(ctx, true) && err == nil {
		err = ctx.Err()
	}
	if s.node = n; err != nil || n == nil {
		return problem{}, err
	}
	found := memberMismatch(*s)
	if fencednode.IsReady(n) && fencednode.HasWaited(&rec.r.Status.FencingStatus, clusterPaused) { // no health check has withdrawn the remediation meanwhile
		s.waits = problem{reason: clusterPaused, message: "node " + s.name + " has become Ready while Cluster " + s.cluster.String() + " was paused, and nothing is begun while it is"}
	}
	return found, nil
}

// memberMismatch returns why the node of a workload cluster is not that of a machine, or not that of its BMC.
func memberMismatch(s subject) problem {
	if by := s.node.Annotations[fencednode.ClusterAPIMachineAnnotation]; by != "" && by != s.machine.Name {
		return problem{reason: v1alpha1.CannotStartMachineNotFoundReason, message: "node " + named(nodeKey(s.cluster.NamespacedName, s.name)) + " names another machine than " + s.machine.Namespace + "/" + s.machine.Name + " by its annotations"}
	}
	return systemMismatch(s.bmc, s.node)
}

// subjectOf returns the cluster and the name of the node that a machine refers to. The cluster is in the namespace of the machine.
func subjectOf(m *unstructured.Unstructured, owner contract.Machine) (subject, problem) {
	if m == nil || m.GetUID() != owner.UID {
		return subject{}, problem{reason: v1alpha1.CannotStartMachineNotFoundReason, message: "machine " + owner.Key.String() + ", which owns this remediation, does not exist"}
	}
	s := subject{name: fencednode.NodeRefOf(m), machine: &v1alpha1.ObjectReference{Kind: clusterAPIMachine.Kind, Namespace: owner.Key.Namespace, Name: owner.Key.Name, UID: string(owner.UID)}}
	of, _, _ := unstructured.NestedString(m.Object, "spec", "clusterName")
	s.cluster.NamespacedName = types.NamespacedName{Namespace: owner.Key.Namespace, Name: of}
	switch {
	case len(validation.IsDNS1123Subdomain(of)) > 0:
		return s, problem{reason: v1alpha1.CannotStartClusterNotFoundReason, message: "machine " + owner.Key.String() + " names no Cluster (spec.clusterName)"}
	case len(validation.IsDNS1123Subdomain(s.name)) > 0:
		return s, problem{reason: v1alpha1.CannotStartNodeNotFoundReason, message: "machine " + owner.Key.String() + " has no node (status.nodeRef), so its BMC is not known"}
	}
	return s, problem{}
}

// reenter has a reconcile go on in the recorded workload cluster. It reports false if the reconcile has to wait for others.
func (c *Client) reenter(ctx context.Context, rec *reconciliation) (bool, error) {
	if c.Workload == nil {
		return false, c.publish(ctx, rec, notRead, "this remediation is for a node of a workload cluster, and Fettle reaches none")
	}
	nodes, entered := c.enter(ctx, rec.cluster.NamespacedName)
	if !entered {
		c.remediations.AddAfter(rec.key, requeueAtLimit)
	}
	rec.nodes = nodes
	return entered, nil
}

// isGone reports whether the recorded Cluster of a reconcile does not exist any more, so that its node needs nothing.
func (c *Client) isGone(ctx context.Context, rec *reconciliation) bool {
	if rec.cluster.isHome() || !rec.slot.acquire(ctx, false) {
		return false
	}
	cluster, err := c.getServed(ctx, clusterAPICluster, rec.cluster.NamespacedName)
	return apierrors.IsNotFound(err) || err == nil && cluster.GetUID() != rec.cluster.uid
}

// readMemberMachine reads the recorded machine of Cluster API.
func (c *Client) readMemberMachine(ctx context.Context, rec *reconciliation) *fencing.Machine {
	recorded := rec.r.Status.Machine
	m, err := c.get(ctx, clusterAPIMachine, types.NamespacedName{Namespace: recorded.Namespace, Name: recorded.Name})
	switch {
	case err != nil:
		return &fencing.Machine{Failed: true, RetryAt: c.Now().Add(retryRead)}
	case m == nil, string(m.GetUID()) != recorded.UID:
		return &fencing.Machine{}
	case m.GetDeletionTimestamp() != nil, wasHandedBack(m):
		return &fencing.Machine{Exists: true, Deleting: true}
	}
	return c.keptOr(ctx, rec, m, mustKeepMember(m, rec))
}

// mustKeepMember returns why the owner of a machine of Cluster API must not get the request to replace it, or nothing.
func mustKeepMember(m *unstructured.Unstructured, rec *reconciliation) fencing.Reason {
	_, controlPlane := m.GetLabels()["cluster.x-k8s.io/control-plane"]
	ofSet := false
	for _, o := range m.GetOwnerReferences() {
		group := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group
		ofSet = ofSet || o.Controller != nil && *o.Controller && group == clusterAPIMachine.Group && o.Kind == "MachineSet"
	}
	switch {
	case controlPlane || ofControlPlane(m, rec.raw):
		return fencing.KeptControlPlane
	case !ofSet:
		return fencing.KeptNoController
	case fencednode.NodeRefOf(m) != rec.node:
		return fencing.KeptOtherNode
	}
	return ""
}

// wasHandedBack reports whether the owner of a machine got the request to replace it, in the conditions of either generation.
func wasHandedBack(m *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"status", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"}} {
		list, _, _ := unstructured.NestedSlice(m.Object, path...)
		for _, item := range list {
			if said, is := item.(map[string]any); is && said["type"] == "OwnerRemediated" && said["status"] == "False" {
				return true
			}
		}
	}
	return false
}

// handBack has the owner of the recorded machine replace it.
func (c *Client) handBack(ctx context.Context, rec *reconciliation) error {
	recorded := rec.r.Status.Machine
	_, gated := rec.r.Annotations[annotation.RequestedByUID]
	err := c.HandBack(ctx, types.NamespacedName{Namespace: recorded.Namespace, Name: recorded.Name}, types.UID(recorded.UID), gated)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking the owner of machine %s/%s to replace it: %w", recorded.Namespace, recorded.Name, err)
	}
	return nil
}
