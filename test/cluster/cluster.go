package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The longest that a sandbox may take to become ready, and to stop, on a busy machine.
const (
	readyWithin = 2 * time.Minute
	stopWithin  = time.Minute
)

// Options describe the sandbox that a test needs.
type Options struct {
	// Args are flags of fettle-sandbox.
	Args []string
}

// Cluster is a running sandbox with an administrator's client.
type Cluster struct {
	client.Client

	Config *rest.Config
	// Dir is the directory of the sandbox. It contains the kubeconfig.
	Dir     string
	args    []string
	process *process
	audit   audit
}

// Root returns the directory of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Binary returns the path of a binary that make builds.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Root(), "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is missing; run make bin/%s first", path, name)
	}
	return path
}

// Start starts a sandbox, which ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{Dir: filepath.Join(t.TempDir(), "sandbox")}
	c.args = append([]string{"--dir", c.Dir, "--audit-log", c.auditLog()}, o.Args...)
	if path := OtherAPIServer(); path != "" {
		c.args = append(c.args, "--api-server", path)
	}
	t.Cleanup(func() { c.stop(t) })
	c.start(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatalf("reading the sandbox's kubeconfig: %v", err)
	}
	config.QPS = -1
	discardLogs()
	c.Config = config
	if c.Client, err = client.New(config, client.Options{Scheme: scheme()}); err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// discardLogs discards what controller-runtime logs. Its first call races with another one, so only one is made.
var discardLogs = sync.OnceFunc(func() { log.SetLogger(logr.Discard()) })

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

func (c *Cluster) auditLog() string { return c.Dir + ".audit.log" }

// start runs the sandbox and waits until it says that it is ready.
func (c *Cluster) start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(Binary(t, "fettle-sandbox"), c.args...)
	// A control plane that starts allocates much and keeps little. With twice the heap, collecting costs half.
	cmd.Env = append(os.Environ(), "GOGC=200")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("preparing the sandbox: %v", err)
	}
	c.process = run(t, cmd, c.Dir+".log")
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		ready <- line
	}()
	select {
	case line := <-ready:
		if !strings.Contains(line, "is ready") {
			t.Fatalf("the sandbox did not start: %q\n%s", line, c.process.tail())
		}
	case <-time.After(readyWithin):
		t.Fatalf("the sandbox was not ready within %s\n%s", readyWithin, c.process.tail())
	}
}

func (c *Cluster) stop(t testing.TB) {
	t.Helper()
	if c.process == nil {
		return
	}
	_ = c.process.cmd.Process.Signal(syscall.SIGCONT) // a halted process would not receive the next signal
	if err := c.process.end(syscall.SIGTERM, stopWithin); err != nil {
		t.Errorf("the sandbox did not stop cleanly: %v\n%s", err, c.process.tail())
	}
}

// graceOfServers is how long an API server may take to shut down before it is killed. It would wait a minute for the
// watches of its clients.
const graceOfServers = 5 * time.Second

// Restart stops the sandbox by a signal, and starts it again on the same directory and port.
func (c *Cluster) Restart(t testing.TB, signal syscall.Signal) {
	t.Helper()
	_ = c.process.end(signal, graceOfServers)
	c.start(t)
}

// Halt stops the whole control plane in the middle of its work, until Resume. Its port stays open, and no request is
// answered.
func (c *Cluster) Halt(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGSTOP)
}

// Resume continues a halted control plane.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGCONT)
}

func (c *Cluster) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := c.process.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("sending %s to the sandbox: %v", signal, err)
	}
}

// Move stops the sandbox by a signal, and starts it again on the same directory and another port. The sandbox chooses that itself, since its
// last port is taken meanwhile.
func (c *Cluster) Move(t testing.TB, signal syscall.Signal) {
	t.Helper()
	_ = c.process.end(signal, graceOfServers)
	last := strings.TrimPrefix(c.Config.Host, "https://")
	if taken, err := net.Listen("tcp", last); err == nil { // else another process has it
		defer func() { _ = taken.Close() }()
	}
	c.start(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatalf("reading the sandbox's kubeconfig: %v", err)
	}
	config.QPS = -1
	if c.Client, err = client.New(config, client.Options{Scheme: scheme()}); err != nil {
		t.Fatalf("making a client: %v", err)
	}
	c.Config = config
}

// process is a child process whose output goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

// run starts a command. Output that is not piped already goes to a file.
func run(t testing.TB, cmd *exec.Cmd, log string) *process {
	t.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatalf("creating a log: %v", err)
	}
	defer func() { _ = file.Close() }()
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	p := &process{cmd: cmd, log: log, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p
}

// end signals the process and waits for it.
func (p *process) end(signal os.Signal, within time.Duration) error {
	_ = p.cmd.Process.Signal(signal)
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(within):
		_ = p.cmd.Process.Kill()
		p.done <- <-p.done
		return fmt.Errorf("still running %s after %s", within, signal)
	}
}

// tail returns the end of the process's output.
func (p *process) tail() string {
	all, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 8000
	if len(all) > most {
		all = all[len(all)-most:]
	}
	return string(all)
}

// Context returns a context that ends with the test, before the sandbox stops.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
