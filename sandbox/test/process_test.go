package test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 90 * time.Second // generous: the machine may be busy with other tests
	stopTimeout  = 60 * time.Second
)

var readyLine = regexp.MustCompile(`^fettle-sandbox is ready: KUBECONFIG=(\S+) \(https://127\.0\.0\.1:(\d+)\)$`)

// process is one run of the sandbox.
type process struct {
	cmd        *exec.Cmd
	kubeconfig string
	port       string
	lines      *lines
	stderr     *lockedBuffer
	ended      chan struct{}
	err        error // of Wait; set when ended is closed
}

// binary returns the path of the program under test.
func binary() (string, error) {
	path := os.Getenv("FETTLE_SANDBOX_BIN")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "fettle-sandbox")
	}
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// launch starts the sandbox without waiting for anything.
func launch(args ...string) (*process, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	p := &process{lines: newLines(), stderr: &lockedBuffer{}, ended: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.lines.readAll(bufio.NewScanner(stdout))
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// awaitReady returns an error text, or "" when the ready line has come.
func (p *process) awaitReady() string {
	select {
	case <-p.lines.first:
	case <-p.ended:
		return "it ended before it was ready: " + p.stderr.String()
	case <-time.After(startTimeout):
		return "it is not ready after " + startTimeout.String()
	}
	match := readyLine.FindStringSubmatch(p.lines.all()[0])
	if match == nil {
		return "its first line is no ready line: " + p.lines.all()[0]
	}
	p.kubeconfig, p.port = match[1], match[2]
	return ""
}

// start starts a sandbox for one test and waits until it is ready.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := launch(args...)
	if err != nil {
		t.Fatalf("starting the sandbox: %v", err)
	}
	t.Cleanup(func() { p.terminate() })
	if problem := p.awaitReady(); problem != "" {
		t.Fatalf("starting the sandbox: %s", problem)
	}
	return p
}

// terminate sends it SIGTERM and returns its exit code, or -1 if it had to be killed.
func (p *process) terminate() int {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.exitCode()
}

func (p *process) exitCode() int {
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return p.cmd.ProcessState.ExitCode()
}

// run runs a command of the sandbox to its end.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p, err := launch(args...)
	if err != nil {
		t.Fatalf("starting the sandbox: %v", err)
	}
	code = p.exitCode()
	return strings.Join(p.lines.all(), "\n"), p.stderr.String(), code
}

// lines collects output line by line.
type lines struct {
	mu    sync.Mutex
	list  []string
	first chan struct{}
}

func newLines() *lines { return &lines{first: make(chan struct{})} }

func (l *lines) readAll(scanner *bufio.Scanner) {
	for scanner.Scan() {
		l.mu.Lock()
		l.list = append(l.list, scanner.Text())
		if len(l.list) == 1 {
			close(l.first)
		}
		l.mu.Unlock()
	}
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.list...)
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
