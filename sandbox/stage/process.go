package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// UpWithin is the longest that a process may take to be up, on a busy machine.
const UpWithin = 2 * time.Minute

// Process is a child process whose output goes to a file.
type Process struct {
	Name string
	// Log is the file of its output.
	Log string
	// Started is when it was started.
	Started time.Time

	cmd *exec.Cmd
	// ended is closed when the process is over. err then has its result.
	ended chan struct{}
	err   error
}

// Launch runs a binary until the stage is struck, and doesn't wait for it to be up.
func (s *Stage) Launch(name, binary string, args ...string) (*Process, error) {
	return s.launch(name, nil, binary, args...)
}

// launch runs a binary with these variables added to the environment, as NAME=VALUE.
func (s *Stage) launch(name string, environment []string, binary string, args ...string) (*Process, error) {
	log, err := os.Create(filepath.Join(s.Dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	defer func() { _ = log.Close() }()
	p := &Process{Name: name, Log: log.Name(), cmd: exec.Command(filepath.Join(s.Bin, binary), args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// An interrupt at the terminal must reach the parent alone, which then ends its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p.Started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s (run make build first): %w", binary, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	s.processes = append(s.processes, p)
	return p, nil
}

// Signal sends a signal to the process, for example to halt it.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s to %s: %w", signal, p.Name, err)
	}
	return nil
}

// PID returns the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Died returns an error once the process has ended on its own.
func (p *Process) Died() error {
	select {
	case <-p.ended:
		return errors.Join(fmt.Errorf("%s has ended by itself; its log is %s", p.Name, p.Log), p.err)
	default:
		return nil
	}
}

// AwaitText waits until the process prints a text that shows that it is up.
func (p *Process) AwaitText(ctx context.Context, up string, within time.Duration) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, within, true, func(context.Context) (bool, error) {
		text, err := os.ReadFile(p.Log)
		return strings.Contains(string(text), up), errors.Join(err, p.Died())
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be up: %w", p.Name, err)
	}
	return nil
}

// Stop ends the process and waits until it is over.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a halted process would not receive the next signal
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
}
