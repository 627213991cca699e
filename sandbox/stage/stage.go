package stage

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Account is the service account that Fettle runs as.
const Account = "fettle-system/fettle"

// Stage is a sandbox, Fettle, and an administrator's client.
type Stage struct {
	// Bin has the binaries, Config the repository's manifests; logs and state go to Dir.
	Bin, Config, Dir string
	// SandboxEnvironment is added to the environment of the sandbox, as NAME=VALUE.
	SandboxEnvironment []string
	// Admin and Client are the administrator's, once the sandbox is up.
	Admin  *rest.Config
	Client client.Client

	processes []*Process
	beside    []*Stage
	kept      bool
}

// New makes a stage in a new temporary directory. It uses the binaries beside the running one.
func New(prefix string) (*Stage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the other binaries: %w", err)
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, fmt.Errorf("making a directory for the sandbox: %w", err)
	}
	bin := filepath.Dir(self)
	return &Stage{Bin: bin, Config: filepath.Join(bin, "..", "config"), Dir: dir}, nil
}

// Beside makes a stage for one more cluster. Its state and logs are in this stage's directory, and it ends with this
// stage.
func (s *Stage) Beside(name string) (*Stage, error) {
	dir := filepath.Join(s.Dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for the sandbox: %w", err)
	}
	other := &Stage{Bin: s.Bin, Config: s.Config, Dir: dir}
	s.beside = append(s.beside, other)
	return other, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (s *Stage) Kubeconfig() string { return filepath.Join(s.sandbox(), "kubeconfig") }

func (s *Stage) sandbox() string { return filepath.Join(s.Dir, "sandbox") }

// StartSandbox starts a control plane, with these flags of fettle-sandbox, and connects to it.
func (s *Stage) StartSandbox(ctx context.Context, args ...string) (*Process, error) {
	sandbox, err := s.launch("sandbox", s.SandboxEnvironment, "fettle-sandbox", append([]string{"--dir", s.sandbox()}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := sandbox.AwaitText(ctx, "is ready", UpWithin); err != nil {
		return nil, err
	}
	if s.Admin, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("reading the sandbox's kubeconfig: %w", err)
	}
	s.Admin.QPS = -1
	if s.Client, err = client.New(s.Admin, client.Options{}); err != nil {
		return nil, fmt.Errorf("connecting to the sandbox: %w", err)
	}
	return sandbox, nil
}

// LaunchFettle starts Fettle as its own service account and doesn't wait.
func (s *Stage) LaunchFettle(ctx context.Context, args ...string) (*Process, error) {
	kubeconfig := filepath.Join(s.Dir, "fettle.kubeconfig")
	grant := exec.CommandContext(ctx, filepath.Join(s.Bin, "fettle-sandbox"), "kubeconfig", "--dir", s.sandbox(),
		"--service-account", Account, "--out", kubeconfig)
	if out, err := grant.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making a kubeconfig for Fettle: %w: %s", err, out)
	}
	return s.Launch("fettle", "fettle", append([]string{"controller", "--kubeconfig", kubeconfig}, args...)...)
}

// StartFettle starts Fettle and waits until it has found its APIs.
func (s *Stage) StartFettle(ctx context.Context, args ...string) (*Process, error) {
	fettle, err := s.LaunchFettle(ctx, args...)
	if err != nil {
		return nil, err
	}
	if err := fettle.AwaitText(ctx, `"awake"`, UpWithin); err != nil {
		return nil, err
	}
	return fettle, nil
}

// Strike ends all processes, the last first, and removes their files unless they are to be kept.
func (s *Stage) Strike() {
	s.stop()
	if !s.kept {
		_ = os.RemoveAll(s.Dir)
	}
}

// stop ends the clusters beside this stage after the processes of this stage, which use them.
func (s *Stage) stop() {
	for _, p := range slices.Backward(s.processes) {
		p.Stop()
	}
	for _, other := range slices.Backward(s.beside) {
		other.stop()
	}
}

// Keep keeps state and logs when the stage is struck, and returns their directory.
func (s *Stage) Keep() string {
	s.kept = true
	return s.Dir
}
