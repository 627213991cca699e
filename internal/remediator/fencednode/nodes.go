package fencednode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	// scaleDownDisabled keeps the cluster autoscaler from removing a node.
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	// disabled is the value of it that does so. Others are put back up to the length of mostScaleDown.
	disabled      = "true"
	mostScaleDown = 64
	// kubernetesTaints begins the keys of the taints that Kubernetes sets and removes by itself.
	kubernetesTaints = "node.kubernetes.io/"
)

// fencingTaint is Fettle's own taint, and releasingTaint releases a node.
var (
	fencingTaint   = corev1.Taint{Key: annotation.FencingTaint, Effect: corev1.TaintEffectNoExecute}                             //nolint:gochecknoglobals // a constant
	releasingTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute} //nolint:gochecknoglobals // a constant
)

// passingTaints are the keys of taints that their owners remove, and would not remove from a node that has registered again.
var passingTaints = []string{ //nolint:gochecknoglobals // a constant list
	"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted", "medik8s.io/remediation",
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// Get reads a node, and returns nil if there is none.
func (a *Nodes) Get(ctx context.Context, name string) (*corev1.Node, error) {
	var n corev1.Node
	err := a.api.Get(ctx, types.NamespacedName{Name: name}, &n)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return &n, nil
}

// errNotKept is the error of a change that the API server has accepted, and that the node does not have. A webhook may take it back.
var errNotKept = errors.New("the API server has accepted the change and not kept it")

// Change takes a step that changes a node, as the fencing with a UID that has saved something of the node. It fails for other steps, and where the
// node does not have the change after it.
func (a *Nodes) Change(ctx context.Context, step fencing.StepKind, by types.UID, saved *v1alpha1.SavedNode, n *corev1.Node) error {
	if err := a.change(ctx, step, by, saved, n); err != nil {
		return err
	}
	if !hasChange(step, n) {
		return fmt.Errorf("changing the taints of node %s: %w", n.Name, errNotKept)
	}
	return nil
}

// hasChange reports whether a node has the taint that a step has set, and lacks the taint that it has removed.
func hasChange(step fencing.StepKind, n *corev1.Node) bool {
	switch step { //nolint:exhaustive // the others change no taint of Fettle
	case fencing.TaintNode:
		return hasTaint(n, isOwn)
	case fencing.UntaintNode:
		return !hasTaint(n, isOwn)
	case fencing.SetOutOfService:
		return hasTaint(n, isOutOfService)
	case fencing.RemoveOutOfService:
		return !hasTaint(n, isOutOfService)
	}
	return true
}

func (a *Nodes) change(ctx context.Context, step fencing.StepKind, by types.UID, saved *v1alpha1.SavedNode, n *corev1.Node) error {
	switch step { //nolint:exhaustive // the others change no node
	case fencing.TaintNode:
		return a.Taint(ctx, by, n)
	case fencing.SetOutOfService:
		return a.SetOutOfService(ctx, n)
	case fencing.RemoveNode:
		return a.Delete(ctx, n)
	case fencing.RemoveOutOfService:
		return a.RemoveOutOfService(ctx, n)
	case fencing.RestoreNode:
		return a.Restore(ctx, by, saved, n)
	case fencing.UntaintNode:
		return a.Untaint(ctx, n)
	}
	return fmt.Errorf("a step of kind %d changes nothing", step)
}

// Facts returns what a fencing has to know of a node, which may be nil. By is the UID of its remediation, and saved what it has saved of a node
// that it has deleted, or nil.
func Facts(by types.UID, saved *v1alpha1.SavedNode, n *corev1.Node) *fencing.Node {
	if n == nil {
		return &fencing.Node{}
	}
	return &fencing.Node{
		Exists: true, UID: string(n.UID), BootID: bounded(n.Status.NodeInfo.BootID), Ready: IsReady(n),
		Tainted: hasTaint(n, isOwn), OutOfService: hasTaint(n, isOutOfService),
		Changed:  n.Annotations[annotation.FencedBy] == string(by) || !restores(saved, n).empty(),
		Deleting: n.DeletionTimestamp != nil,
	}
}

// mostBootID is above the length of any boot ID that Linux has.
const mostBootID = 256

// bounded returns a boot ID as it is recorded. A kubelet reports any text. A long one is replaced by a digest. So a node that boots
// still has another boot ID, and a record of several stays small.
func bounded(bootID string) string {
	if len(bootID) <= mostBootID {
		return bootID
	}
	sum := sha256.Sum256([]byte(bootID))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// IsReady reports whether a node is Ready. A condition that is missing or unknown is not.
func IsReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func hasTaint(n *corev1.Node, is func(corev1.Taint) bool) bool {
	return slices.ContainsFunc(n.Spec.Taints, is)
}

func isOwn(t corev1.Taint) bool {
	return t.Key == annotation.FencingTaint && t.Effect == corev1.TaintEffectNoExecute
}

// isOutOfService reports whether a taint releases volumes. Kubernetes reads the key alone.
func isOutOfService(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }

// restored is what is missing on a node that was deleted and has registered again.
type restored struct {
	labels, annotations map[string]string
	taints              []corev1.Taint
	unschedulable       bool
}

func (m restored) empty() bool {
	return len(m.labels)+len(m.annotations)+len(m.taints) == 0 && !m.unschedulable
}

// restores returns what was saved of a node and is missing on the node that has registered in its place. A key that the node has
// keeps its value.
func restores(saved *v1alpha1.SavedNode, n *corev1.Node) restored {
	if saved == nil || saved.UID == string(n.UID) {
		return restored{}
	}
	m := restored{labels: missing(saved.Labels, n.Labels), annotations: missing(saved.Annotations, n.Annotations), unschedulable: saved.Unschedulable && !n.Spec.Unschedulable}
	for _, t := range saved.Taints {
		taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		if !hasTaint(n, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }) {
			m.taints = append(m.taints, taint)
		}
	}
	return m
}

func missing(saved, present map[string]string) map[string]string {
	lacks := map[string]string{}
	for key, value := range saved {
		if _, has := present[key]; !has {
			lacks[key] = value
		}
	}
	return lacks
}

// Saved returns what is restored after a node was deleted by the remediation with a UID. It leaves out the fields that Fettle itself has set for the time of the
// fencing.
func Saved(by types.UID, n *corev1.Node) *v1alpha1.SavedNode {
	s := &v1alpha1.SavedNode{UID: string(n.UID), Labels: maps.Clone(n.Labels), Annotations: maps.Clone(n.Annotations), Unschedulable: n.Spec.Unschedulable}
	for key, value := range takenBack(by, n.Annotations) {
		delete(s.Annotations, key)
		if value != nil {
			s.Annotations[key] = *value
		}
	}
	for _, t := range n.Spec.Taints {
		if !isOwn(t) && !strings.HasPrefix(t.Key, kubernetesTaints) && !slices.Contains(passingTaints, t.Key) {
			s.Taints = append(s.Taints, v1alpha1.SavedTaint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return s
}

// nodePatch is a merge patch of a node. It holds only for the node as it was read.
type nodePatch struct {
	Metadata nodeMetadata `json:"metadata"`
	Spec     *nodeSpec    `json:"spec,omitempty"`
}

type nodeMetadata struct {
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels,omitempty"`
	// Annotations with the value nil are removed.
	Annotations map[string]*string `json:"annotations,omitempty"`
}

type nodeSpec struct {
	Taints        *[]corev1.Taint `json:"taints,omitempty"`
	Unschedulable bool            `json:"unschedulable,omitempty"`
}

func patchOf(n *corev1.Node) nodePatch {
	return nodePatch{Metadata: nodeMetadata{UID: n.UID, ResourceVersion: n.ResourceVersion, Annotations: map[string]*string{}}}
}

// withTaints sets the taints of a node. None removes all.
func (p *nodePatch) withTaints(taints []corev1.Taint) {
	if p.Spec == nil {
		p.Spec = &nodeSpec{}
	}
	p.Spec.Taints = &taints
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=patch

// patch patches a node, which then has the content of the answer.
func (a *Nodes) patch(ctx context.Context, n *corev1.Node, p nodePatch) error {
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	if err := a.api.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("changing node %s: %w", n.Name, err)
	}
	*n = *target
	return nil
}

// Taint sets Fettle's own taint, which keeps the pods of the node from starting again before they have moved. For the time of the
// fencing it keeps the cluster autoscaler from removing the node, unless others do so already.
func (a *Nodes) Taint(ctx context.Context, by types.UID, n *corev1.Node) error {
	p := patchOf(n)
	if !hasTaint(n, isOwn) {
		p.withTaints(append(slices.Clone(n.Spec.Taints), fencingTaint))
	}
	p.disableScaleDown(by, n)
	return a.patch(ctx, n, p)
}

// disableScaleDown keeps the cluster autoscaler from removing a node. Another value is kept beside it, unless it is longer than any that means
// something.
func (p *nodePatch) disableScaleDown(by types.UID, n *corev1.Node) {
	before, set := n.Annotations[scaleDownDisabled]
	if before == disabled {
		return
	}
	value, uid := disabled, string(by)
	p.Metadata.Annotations[scaleDownDisabled], p.Metadata.Annotations[annotation.FencedBy] = &value, &uid
	p.Metadata.Annotations[annotation.ScaleDownDisabledBefore] = nil
	if set && len(before) <= mostScaleDown {
		p.Metadata.Annotations[annotation.ScaleDownDisabledBefore] = &before
	}
}

// takenBack returns the annotations that take back what the fencing by the remediation with a UID has set. Those with the value nil are removed.
// A value that others have set since is theirs, and stays.
func takenBack(by types.UID, annotations map[string]string) map[string]*string {
	if annotations[annotation.FencedBy] != string(by) {
		return nil
	}
	changes := map[string]*string{annotation.FencedBy: nil, annotation.ScaleDownDisabledBefore: nil}
	if annotations[scaleDownDisabled] == disabled {
		changes[scaleDownDisabled] = nil
		if before, had := annotations[annotation.ScaleDownDisabledBefore]; had {
			changes[scaleDownDisabled] = &before
		}
	}
	return changes
}

// SetOutOfService releases the workload of a node.
func (a *Nodes) SetOutOfService(ctx context.Context, n *corev1.Node) error {
	p := patchOf(n)
	p.withTaints(append(slices.Clone(n.Spec.Taints), releasingTaint))
	return a.patch(ctx, n, p)
}

// RemoveOutOfService removes the taint that releases the workload of a node.
func (a *Nodes) RemoveOutOfService(ctx context.Context, n *corev1.Node) error {
	return a.removeTaint(ctx, n, isOutOfService)
}

// Untaint removes Fettle's own taint.
func (a *Nodes) Untaint(ctx context.Context, n *corev1.Node) error {
	return a.removeTaint(ctx, n, isOwn)
}

// removeTaint removes the taints that a function selects.
func (a *Nodes) removeTaint(ctx context.Context, n *corev1.Node, is func(corev1.Taint) bool) error {
	p := patchOf(n)
	p.withTaints(slices.DeleteFunc(slices.Clone(n.Spec.Taints), is))
	return a.patch(ctx, n, p)
}

// Restore takes back what the fencing has changed, but for Fettle's own taint, and restores what was saved.
func (a *Nodes) Restore(ctx context.Context, by types.UID, saved *v1alpha1.SavedNode, n *corev1.Node) error {
	p := patchOf(n)
	m := restores(saved, n)
	p.Metadata.Labels = m.labels
	for key, value := range m.annotations {
		p.Metadata.Annotations[key] = &value
	}
	maps.Copy(p.Metadata.Annotations, takenBack(by, n.Annotations))
	if len(m.taints) > 0 {
		p.withTaints(append(slices.Clone(n.Spec.Taints), m.taints...))
	}
	if m.unschedulable {
		if p.Spec == nil {
			p.Spec = &nodeSpec{}
		}
		p.Spec.Unschedulable = true
	}
	return a.patch(ctx, n, p)
}

// Delete deletes a node as it was read.
func (a *Nodes) Delete(ctx context.Context, n *corev1.Node) error {
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	uid, revision := n.UID, n.ResourceVersion
	if err := a.api.Delete(ctx, target, client.Preconditions{UID: &uid, ResourceVersion: &revision}); err != nil {
		return fmt.Errorf("deleting node %s: %w", n.Name, err)
	}
	return nil
}
