package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The condition that a Detector reports, and its reason while there is a problem.
const (
	DetectedCondition = "KernelDeadlock"
	DetectedReason    = "DockerHung"
)

// detectorStopsWithin is the longest that a killed node-problem-detector may take to end.
const detectorStopsWithin = 10 * time.Second

// Detector is a running node-problem-detector of one node. Its custom plugin reports a permanent problem while a file
// exists. A plugin that is held does not end, like a hanging one.
type Detector struct {
	c         *Cluster
	dir, node string
	process   *process
}

// plugin is the script that node-problem-detector runs, with the directory of its files.
const plugin = `#!/bin/sh
cd '%s' || exit 2
while [ -e held ]; do sleep 0.05; done
[ -e problem ] || exit 0
echo "task docker:20744 blocked for more than 120 seconds."
exit 1
`

// StartDetector starts node-problem-detector for a node, and waits until it has reported that there is no problem.
func (c *Cluster) StartDetector(t testing.TB, node string) *Detector {
	t.Helper()
	d := &Detector{c: c, dir: t.TempDir(), node: node}
	d.write(t, "plugin", fmt.Sprintf(plugin, d.dir), 0o700)
	config, err := json.Marshal(map[string]any{
		"plugin": "custom", "source": "sandbox-kernel", "metricsReporting": false,
		"pluginConfig": map[string]any{"invoke_interval": "200ms", "timeout": "5m", "concurrency": 1},
		"conditions":   []any{map[string]any{"type": DetectedCondition, "reason": "KernelHasNoDeadlock", "message": "kernel has no deadlock"}},
		"rules": []any{map[string]any{
			"type": "permanent", "condition": DetectedCondition, "reason": DetectedReason, "path": filepath.Join(d.dir, "plugin"), "timeout": "5m",
		}},
	})
	if err != nil {
		t.Fatalf("writing the configuration of node-problem-detector: %v", err)
	}
	d.write(t, "config.json", string(config), 0o600)
	t.Cleanup(func() {
		if d.process == nil {
			return // it was not started, and the test has said why
		}
		d.kill()
		_ = os.Remove(filepath.Join(d.dir, "held"))
	})
	d.start(t)
	d.Reports(t, corev1.ConditionFalse)
	return d
}

func (d *Detector) write(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), mode); err != nil {
		t.Fatalf("writing %s: %v", name, err)
	}
}

func (d *Detector) remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
		t.Fatalf("removing %s: %v", name, err)
	}
}

func (d *Detector) start(t testing.TB) {
	t.Helper()
	binary := filepath.Join(Root(), "bin", "node-problem-detector")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%s is missing; run make bin/node-problem-detector first", binary)
	}
	server := d.c.Config.Host + "?" + url.Values{"inClusterConfig": {"false"}, "auth": {d.c.Kubeconfig()}}.Encode()
	cmd := exec.Command(binary, "--apiserver-override="+server, "--hostname-override="+d.node,
		"--config.custom-plugin-monitor="+filepath.Join(d.dir, "config.json"), "--port=0", "--prometheus-port=0", "--k8s-exporter-write-events=false")
	d.process = run(t, cmd, filepath.Join(d.dir, "log"))
}

func (d *Detector) kill() { _ = d.process.end(syscall.SIGKILL, detectorStopsWithin) }

// Fails makes the plugin find a problem, and waits until the node reports it.
func (d *Detector) Fails(t testing.TB) {
	t.Helper()
	d.write(t, "problem", "", 0o600)
	d.Reports(t, corev1.ConditionTrue)
}

// Recovers makes the plugin find no problem any more, and waits until the node reports that.
func (d *Detector) Recovers(t testing.TB) {
	t.Helper()
	d.remove(t, "problem")
	d.Reports(t, corev1.ConditionFalse)
}

// RestartHeld kills node-problem-detector and starts it again while its plugin is held. It waits until the condition is reset.
func (d *Detector) RestartHeld(t testing.TB) {
	t.Helper()
	d.write(t, "held", "", 0o600)
	d.kill()
	d.start(t)
	d.Reports(t, corev1.ConditionFalse)
}

// Release lets a held plugin end.
func (d *Detector) Release(t testing.TB) {
	t.Helper()
	d.remove(t, "held")
}

// Reports waits until the node has the condition with a status.
func (d *Detector) Reports(t testing.TB, status corev1.ConditionStatus) {
	t.Helper()
	d.c.Eventually(t, fmt.Sprintf("node-problem-detector reports %s=%s of %s", DetectedCondition, status, d.node), func(ctx context.Context) error {
		have, err := d.condition(ctx)
		if err == nil && have.Status != status {
			err = fmt.Errorf("it is %q; node-problem-detector logged\n%s", have.Status, d.process.tail())
		}
		return err
	})
}

func (d *Detector) condition(ctx context.Context) (corev1.NodeCondition, error) {
	var n corev1.Node
	err := d.c.Get(ctx, types.NamespacedName{Name: d.node}, &n)
	for _, c := range n.Status.Conditions {
		if c.Type == DetectedCondition {
			return c, err
		}
	}
	return corev1.NodeCondition{}, err
}

// TurnedEarlier moves the transition time of the condition back. node-problem-detector writes it again only at a
// transition, and every five minutes.
func (d *Detector) TurnedEarlier(t testing.TB, while time.Duration) {
	t.Helper()
	ctx := Context(t)
	have, err := d.condition(ctx)
	if err == nil {
		have.LastTransitionTime = metav1.NewTime(have.LastTransitionTime.Add(-while))
		var body []byte
		if body, err = json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{have}}}); err == nil {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: d.node}}
			err = d.c.Status().Patch(ctx, n, client.RawPatch(types.StrategicMergePatchType, body))
		}
	}
	if err != nil {
		t.Fatalf("dating back the condition of %s: %v", d.node, err)
	}
}
