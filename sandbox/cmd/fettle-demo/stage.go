package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stage is what the demo plays on: a sandbox, Fettle, and an administrator's client.
type stage struct {
	bin, config, dir string
	client           client.Client
	processes        []*exec.Cmd
	kept             bool
}

func (s *stage) kubeconfig() string { return filepath.Join(s.dir, "sandbox", "kubeconfig") }

// raise starts the sandbox, installs Fettle's manifests and runs it as its own service account.
func (s *stage) raise(ctx context.Context) error {
	say("starting a control plane: API server, etcd, controller manager, and a simulated cloud with kubelets")
	err := s.start(ctx, "sandbox", "is ready", "fettle-sandbox", "--dir", filepath.Join(s.dir, "sandbox"),
		"--kubelets", "--machine-api", "--node-monitor-grace-period", "4s", "--node-monitor-period", "1s")
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the sandbox's kubeconfig: %w", err)
	}
	if s.client, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("connecting to the sandbox: %w", err)
	}
	say("installing Fettle: definitions, a service account and the few rights that it needs")
	if err := s.applyDirs(ctx, "rbac", "crd"); err != nil {
		return err
	}
	kubeconfig := filepath.Join(s.dir, "fettle.kubeconfig")
	grant := exec.CommandContext(ctx, filepath.Join(s.bin, "fettle-sandbox"), "kubeconfig", "--dir", filepath.Join(s.dir, "sandbox"),
		"--service-account", "fettle-system/fettle", "--out", kubeconfig)
	if out, err := grant.CombinedOutput(); err != nil {
		return fmt.Errorf("making a kubeconfig for Fettle: %w: %s", err, out)
	}
	return s.start(ctx, "fettle", `"awake"`, "fettle", "controller", "--kubeconfig", kubeconfig, "--leader-elect=false")
}

// start runs a binary until the stage is struck, and waits until it prints what shows that it is up.
func (s *stage) start(ctx context.Context, name, up string, command ...string) error {
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return fmt.Errorf("making a log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(filepath.Join(s.bin, command[0]), command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	// An interrupt at the terminal must reach the demo alone, which then ends its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s (run make build first): %w", command[0], err)
	}
	s.processes = append(s.processes, cmd)
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		text, err := os.ReadFile(log.Name())
		return strings.Contains(string(text), up), err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be up: %w", name, err)
	}
	return nil
}

func (s *stage) applyDirs(ctx context.Context, dirs ...string) error {
	var objects []*unstructured.Unstructured
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(s.config, dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no manifests in %s", filepath.Join(s.config, dir))
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("reading a manifest: %w", err)
			}
			decoded, err := decode(text)
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			objects = append(objects, decoded...)
		}
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return s.apply(ctx, objects...)
}

func rank(u *unstructured.Unstructured) int {
	if u.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

// apply creates objects that don't exist, and waits for the kinds of those that are just being defined.
func (s *stage) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, u := range objects {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			last = s.client.Create(ctx, u)
			return !meta.IsNoMatchError(last) && !apierrors.IsNotFound(last), nil
		})
		if err = errors.Join(err, client.IgnoreAlreadyExists(last)); err != nil {
			return fmt.Errorf("creating %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decoding YAML: %w", err)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}

// strike ends what was started, the last first, and removes what it left unless it is to be kept.
func (s *stage) strike(announce bool) {
	if announce {
		fmt.Println("\nstopping Fettle and the sandbox")
	}
	for _, cmd := range slices.Backward(s.processes) {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	if !s.kept {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *stage) keepLogs() string {
	s.kept = true
	return s.dir
}

func (s *stage) sayHowToLookAround() {
	fmt.Printf(`
Everything is still running. In another terminal:

  export KUBECONFIG=%s
  kubectl get machines,machinehealthchecks,repairs -n %s
  kubectl get nodes,instances
  kubectl describe machinehealthcheck example -n %s
  kubectl events -n %s

Break something, and watch what happens:

  kubectl patch instance NAME --type=merge -p '{"spec":{"fault":"Unresponsive"}}'   # its node falls silent
  kubectl patch instance NAME --type=merge -p '{"spec":{"fault":"Terminated"}}'     # its machine becomes Failed

Fettle's log is %s. Press Ctrl-C to stop.
`, s.kubeconfig(), namespace, namespace, namespace, filepath.Join(s.dir, "fettle.log"))
}
