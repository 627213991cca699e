package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// karpenterModule is the module of Karpenter's binary. The definitions of its kinds are in the source of the version
// that the module pins.
const karpenterModule = "sandbox/karpenter"

// StartKarpenter installs Karpenter's kinds, and runs Karpenter with its KWOK provider until the test ends. The
// provider makes nodes, and the sandbox plays their kubelets. Static node pools are enabled, since nothing here
// schedules pods.
func (c *Cluster) StartKarpenter(t testing.TB) {
	t.Helper()
	source := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter")
	source.Dir = filepath.Join(Root(), karpenterModule)
	dir, err := source.Output()
	if err != nil {
		t.Fatalf("finding Karpenter's source: %v", err)
	}
	for _, crds := range []string{"pkg/apis/crds", "kwok/apis/crds"} {
		c.applyFiles(t, filepath.Join(strings.TrimSpace(string(dir)), crds))
	}
	c.awaitKinds(t, "karpenter.sh/v1", "NodePool", "NodeClaim")
	c.awaitKinds(t, "karpenter.sh/v1alpha1", "NodeOverlay")
	c.awaitKinds(t, "karpenter.kwok.sh/v1alpha1", "KWOKNodeClass")

	cmd := exec.Command(Binary(t, "karpenter"), "--disable-leader-election=true", "--metrics-port=0", "--health-probe-port=0",
		"--feature-gates=StaticCapacity=true")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	p := run(t, cmd, filepath.Join(t.TempDir(), "karpenter.log"))
	t.Cleanup(func() {
		_ = p.end(syscall.SIGTERM, 10*time.Second)
		if t.Failed() {
			t.Logf("what Karpenter logged last:\n%s", p.tail())
		}
	})
}
