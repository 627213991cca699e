package selffence

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runInit is the first process of a node. Once its network is there, which a byte on its input says, it runs the kubelet and the agent. It takes
// commands on a socket. The node ends with it, and it ends when its input is closed, as by the end of the test.
func runInit(p part) error {
	if err := p.mount(); err != nil {
		return err
	}
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("waiting for the network: %w", err)
	}
	if err := p.setClock(); err != nil {
		fmt.Fprintln(os.Stderr, "the node has the clock of this computer:", err)
	}
	commands, err := net.Listen("unix", p.Control)
	if err != nil {
		return fmt.Errorf("listening for commands: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}()
	s := &supervisor{part: p, starts: make(chan string, 2), running: map[string]*os.Process{}}
	go s.obey(commands)
	s.starts <- roleKubelet
	s.starts <- roleAgent
	for {
		select {
		case role := <-s.starts: // in this thread, whose children have the clock of the node
			if err := s.start(role); err != nil {
				return err
			}
		case <-gone:
			return nil
		}
	}
}

// supervisor starts the processes of a node again when they end.
type supervisor struct {
	part

	starts chan string

	mu      sync.Mutex
	running map[string]*os.Process
}

func (s *supervisor) start(role string) error {
	log, err := os.OpenFile(filepath.Join(s.Logs, s.Node+"."+role+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.Self)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environment(role), log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the %s: %w", role, err)
	}
	s.mu.Lock()
	s.running[role] = cmd.Process
	s.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		<-time.After(time.Second) // as a kubelet does
		s.starts <- role
	}()
	return nil
}

// obey sends signals to processes: each line has a role and a number.
func (s *supervisor) obey(commands net.Listener) {
	for {
		c, err := commands.Accept()
		if err != nil {
			return
		}
		for lines := bufio.NewScanner(c); lines.Scan(); {
			var role string
			var number int
			_, _ = fmt.Sscan(lines.Text(), &role, &number)
			s.mu.Lock()
			err := s.running[role].Signal(syscall.Signal(number))
			s.mu.Unlock()
			_, _ = fmt.Fprintln(c, err)
		}
		_ = c.Close()
	}
}

// device is the number of a device of characters.
func device(major, minor uint32) int { return int(unix.Mkdev(major, minor)) }

// mount mounts what the node has of its own: processes, devices, a boot ID and an empty file system in memory.
func (p part) mount() error {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"),
		unix.Mount("tmpfs", "/dev", "tmpfs", 0, "mode=0755"),
	)
	if err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	for name, number := range map[string]int{
		"null": device(1, 3), "full": device(1, 7), "urandom": device(1, 9), "watchdog": device(1, 3),
	} {
		if err := unix.Mknod("/dev/"+name, unix.S_IFCHR|0o600, number); err != nil {
			return fmt.Errorf("making the device %s: %w", name, err)
		}
	}
	if err := os.WriteFile("/run/boot_id", []byte(p.Boot+"\n"), 0o400); err != nil {
		return fmt.Errorf("writing the boot ID: %w", err)
	}
	if err := unix.Mount("/run/boot_id", "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("changing the boot ID: %w", err)
	}
	// This would reset the computer of the test. So a write fails, and the watchdog alone resets the node.
	err = unix.Mount("/dev/full", "/proc/sysrq-trigger", "", unix.MS_BIND, "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hiding the reset by the kernel: %w", err)
	}
	return nil
}

// setClock makes a clock for the children of this thread.
func (p part) setClock() error {
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("making a namespace of time: %w", err)
	}
	offset := "boottime " + strconv.Itoa(p.Clock) + " 0\nmonotonic " + strconv.Itoa(p.Clock) + " 0\n"
	if err := os.WriteFile("/proc/self/timens_offsets", []byte(offset), 0o600); err != nil {
		return fmt.Errorf("setting the clock: %w", err)
	}
	return nil
}

// runFabric holds the namespace of the network between the nodes.
func runFabric(part) error {
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}
