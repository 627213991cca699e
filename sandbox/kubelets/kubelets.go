package kubelets

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fettle-io/fettle/sandbox/child"
)

// The annotation and the label that start and stop the kubelet of a node.
const (
	Annotation      = "kwok.x-k8s.io/node"
	AnnotationValue = "fake"
	Label           = "sandbox.fettle.io/kubelet"
	LabelStopped    = "stopped"
	// AnnotationReady is the status of Ready that a kubelet reports, if not True.
	AnnotationReady = "sandbox.fettle.io/ready"
)

const (
	stopTimeout      = 5 * time.Second
	minLeaseDuration = 2 * time.Second
	maxLeaseDuration = 40 * time.Second // a real kubelet's
)

//go:embed stages.yaml
var stages []byte

// Config configures the child process. Every field is required.
type Config struct {
	Binary     string // of KWOK
	Kubeconfig string
	Dir        string // for its configuration; made if missing
	Log        *os.File

	// NodeMonitorGracePeriod is the controller manager's. Leases are renewed often enough for it.
	NodeMonitorGracePeriod time.Duration
}

// Kubelets is the running child.
type Kubelets struct {
	child *child.Child
	died  chan error
}

// Find returns the path of KWOK's binary: the given one, else the one beside this program.
func Find(given string) (string, error) {
	path := given
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding this program's directory: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "kwok")
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("kubelets are played by KWOK, which is not at %s: build it with make build, or name it with --kwok PATH", path)
	}
	return filepath.Abs(path)
}

// Start starts the child process. It ends with Stop, and with this process at the latest.
func Start(cfg Config) (*Kubelets, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating KWOK's directory: %w", err)
	}
	config := filepath.Join(cfg.Dir, "stages.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return nil, fmt.Errorf("writing KWOK's configuration: %w", err)
	}
	cmd := exec.Command(cfg.Binary, args(cfg, config)...)
	cmd.Env = append(os.Environ(), "HOME="+cfg.Dir, "KWOK_WORKDIR="+cfg.Dir) // it would read ~/.kwok too
	cmd.Stdout, cmd.Stderr = cfg.Log, cfg.Log
	running, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting KWOK: %w", err)
	}
	k := &Kubelets{child: running, died: make(chan error, 1)}
	go func() { k.died <- fmt.Errorf("running KWOK, which plays the kubelets: %w", <-running.Died()) }()
	return k, nil
}

// Died returns a channel with the error of a child process that ended on its own.
func (k *Kubelets) Died() <-chan error { return k.died }

// Stop ends the child process and waits for it.
func (k *Kubelets) Stop() { k.child.Stop(stopTimeout) }

func args(cfg Config, config string) []string {
	return []string{
		"--config=" + config,
		"--v=WARN", // one line for each renewed lease otherwise
		"--kubeconfig=" + cfg.Kubeconfig,
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector=" + Annotation + "=" + AnnotationValue,
		"--manage-nodes-with-label-selector=" + Label + "!=" + LabelStopped,
		"--node-lease-duration-seconds=" + strconv.Itoa(int(leaseDuration(cfg.NodeMonitorGracePeriod).Seconds())),
		// No server: no client reads logs of pods that don't exist, or runs commands in them.
		"--server-address=",
		"--node-port=0",
	}
}

// leaseDuration returns a kubelet's own, unless the grace period is shorter. KWOK renews a lease four times in its
// duration.
func leaseDuration(gracePeriod time.Duration) time.Duration {
	return min(max(gracePeriod*4/5, minLeaseDuration), maxLeaseDuration)
}
