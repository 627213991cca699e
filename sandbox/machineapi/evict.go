package machineapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	drainTimeout = 20 * time.Second // of one attempt

	// For a silent node: its kubelet will not end its pods, so the drain does not wait for them. Whether they still run
	// is not known. The real controllers take the same risk.
	unreachableGraceSeconds = 1
	unreachableSkipSeconds  = 1
)

// drainNode cordons the node and evicts its pods, subject to disruption budgets. It is one attempt.
func drainNode(ctx context.Context, clients kubernetes.Interface, node *corev1.Node, retry time.Duration) error {
	out := logWriter{log: func(line string) { ctrl.LoggerFrom(ctx).Info("draining", "node", node.Name, "output", line) }}
	helper := &drain.Helper{
		Ctx:                  ctx,
		Client:               clients,
		Force:                true, // also pods without a controller
		IgnoreAllDaemonSets:  true,
		DeleteEmptyDirData:   true,
		GracePeriodSeconds:   -1, // each pod's own
		Timeout:              drainTimeout,
		EvictErrorRetryDelay: retry,
		Out:                  out,
		ErrOut:               out,
	}
	if isUnreachable(node) {
		helper.GracePeriodSeconds = unreachableGraceSeconds
		helper.SkipWaitForDeleteTimeoutSeconds = unreachableSkipSeconds
	}
	if err := drain.RunCordonOrUncordon(helper, node, true); err != nil {
		return fmt.Errorf("cordoning node %s: %w", node.Name, err)
	}
	if err := drain.RunNodeDrain(helper, node.Name); err != nil {
		return fmt.Errorf("draining node %s: %w", node.Name, err)
	}
	return nil
}

func isUnreachable(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return false
}

// logWriter turns the output of the drain into log lines.
type logWriter struct {
	log func(string)
}

func (w logWriter) Write(p []byte) (int, error) {
	if line := strings.TrimSpace(string(p)); line != "" {
		w.log(line)
	}
	return len(p), nil
}
