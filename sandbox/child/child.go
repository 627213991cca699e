package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

var errEnded = errors.New("it ended by itself")

// Child is a running program.
type Child struct {
	process *os.Process
	ended   chan struct{}
	died    chan error
}

// Start starts the program. It ends with Stop, and with this process at the latest.
func Start(cmd *exec.Cmd) (*Child, error) {
	// In its own process group the program does not receive the interrupt of a terminal, which this process handles.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c := &Child{ended: make(chan struct{}), died: make(chan error, 1)}
	started := make(chan error)
	go c.run(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// Died receives an error when the program ends.
func (c *Child) Died() <-chan error { return c.died }

// Stop sends the program SIGTERM, kills it if it still runs after that time, and waits for its end.
func (c *Child) Stop(within time.Duration) {
	_ = c.process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(within):
		_ = c.process.Kill()
		<-c.ended
	}
}

func (c *Child) run(cmd *exec.Cmd, started chan<- error) {
	// The kernel sends Pdeathsig when the thread that started the program ends, so this thread must last as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.ended)
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.process = cmd.Process
	started <- nil
	err := cmd.Wait()
	if err == nil {
		err = errEnded
	}
	c.died <- err
}
