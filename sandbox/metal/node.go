package metal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/kubelets"
	"github.com/fettle-io/fettle/sandbox/redfish"
)

// stoppedIn returns the boot in which the kubelet was stopped, or "" if it runs. It is pure. A kubelet that was stopped by
// hand stays stopped in that boot. The Node of a boot that it doesn't show yet has the label of an earlier one.
func stoppedIn(node *corev1.Node, f facts) string {
	in := node.Annotations[AnnotationStoppedIn]
	byHand := f.shown && node.Labels[kubelets.Label] == kubelets.LabelStopped && (in == "" || in == f.boot)
	if !f.up || byHand || cutOff(node, f) {
		return f.boot
	}
	return ""
}

// cutOff reports whether a host has booted whose link is cut. Its Node does not show the boot.
func cutOff(node *corev1.Node, f facts) bool {
	return f.up && !f.shown && node.Labels[LabelLink] == LabelLinkCut
}

// metadata returns the labels and annotations that the Node has to have. An empty value is none.
func metadata(node *corev1.Node, f facts) (labels, annotations map[string]string) {
	in := stoppedIn(node, f)
	labels = map[string]string{kubelets.Label: ""}
	if in != "" {
		labels[kubelets.Label] = kubelets.LabelStopped
	}
	return labels, map[string]string{
		AnnotationAddress:       f.address,
		AnnotationIPMIAddress:   f.lan,
		AnnotationFingerprint:   f.thumbprint,
		AnnotationHostPower:     hostPower(f),
		AnnotationRecord:        f.record,
		AnnotationStoppedIn:     in,
		AnnotationFaultsInForce: f.inForce,
		AnnotationFaultsError:   f.refused,
		AnnotationPower:         "", // the host has obeyed
	}
}

func hostPower(f facts) string {
	if f.power == redfish.Off {
		return PowerOff
	}
	return PowerOn
}

// newNode returns the Node that a kubelet registers.
func newNode(name string, f facts) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
				Label:                  f.label,
			},
			Annotations: map[string]string{kubelets.Annotation: kubelets.AnnotationValue},
		},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: f.boot, SystemUUID: systemUUID(name)}},
	}
	if f.bootTime != defaultBootTime {
		node.Annotations[AnnotationBootTime] = f.bootTime.String()
	}
	if f.order != "" {
		node.Annotations[AnnotationFaults] = f.order
	}
	_, annotations := metadata(node, f)
	for key, value := range annotations {
		if value != "" {
			node.Annotations[key] = value
		}
	}
	return node
}

// show writes what differs on the Node. The boot ID comes first: the kubelet runs only after that.
func (c *keeper) show(ctx context.Context, node *corev1.Node, f facts) error {
	if f.up && !cutOff(node, f) && node.Status.NodeInfo.BootID != f.boot {
		patch := fmt.Appendf(nil, `{"status":{"nodeInfo":{"bootID":%q,"systemUUID":%q}}}`, f.boot, systemUUID(node.Name))
		if err := c.client.Status().Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("writing the boot ID of node %s: %w", node.Name, err)
		}
	}
	labels, annotations := metadata(node, f)
	changes := map[string]map[string]any{
		"labels":      differences(node.Labels, labels),
		"annotations": differences(node.Annotations, annotations),
	}
	if len(changes["labels"])+len(changes["annotations"]) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": changes})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if err := c.client.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("writing the host on node %s: %w", node.Name, err)
	}
	return nil
}

// differences returns a merge patch from one map to the values of the other. An empty value removes its key.
func differences(from, to map[string]string) map[string]any {
	patch := map[string]any{}
	for key, want := range to {
		have, there := from[key]
		switch {
		case want == "" && there:
			patch[key] = nil
		case want != "" && want != have:
			patch[key] = want
		}
	}
	return patch
}

// bootTime returns how long the host of a Node boots. Nonsense is the default.
func bootTime(node *corev1.Node) time.Duration {
	d, err := time.ParseDuration(node.Annotations[AnnotationBootTime])
	if err != nil || d < 0 {
		return defaultBootTime
	}
	return d
}
