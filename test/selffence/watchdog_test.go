package selffence

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runAgent becomes the agent. It has a filter that hands the requests of watchdogs to the stand-in outside of the node.
func runAgent(p part) error {
	runtime.LockOSThread() // the filter is that of a thread
	listener, err := filterRequests()
	if err != nil {
		return err
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.Watchdog, Net: "unix"})
	if err != nil {
		return fmt.Errorf("reaching the stand-in for the watchdog: %w", err)
	}
	if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(listener), nil); err != nil {
		return fmt.Errorf("handing the filter over: %w", err)
	}
	_ = c.Close()
	_ = unix.Close(listener)
	args := []string{p.Agent, "--kubeconfig", p.AgentKubeconfig, "--node-name", p.Node, "--address", p.Address, "--log-format", "text"}
	if err := syscall.Exec(p.Agent, args, os.Environ()); err != nil {
		return fmt.Errorf("running the agent: %w", err)
	}
	return nil
}

// filterRequests has the kernel hold each ioctl of this thread that is one of watchdogs, until the other end of the descriptor answers it.
func filterRequests() (int, error) {
	const request = 24 // where struct seccomp_data has the second argument
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IOCTL, Jf: 5},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: request},
		{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: 8},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xff},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 'W', Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return 0, fmt.Errorf("filtering the requests of watchdogs: %w", errno)
	}
	return int(fd), nil
}

// board is the stand-in for the watchdog of a node.
type board struct {
	// fire is called when the watchdog fires.
	fire func()

	mu      sync.Mutex
	armed   bool
	timeout time.Duration
	petted  time.Time
	// pets and fires are how often it was petted, and has fired. Unpetted is how often it had been petted when it fired last.
	pets, fires, unpetted int
}

// defaultTimeout is that of a watchdog until another one is set.
const defaultTimeout = 60 * time.Second

// serve takes the filters of the agents of a node, one after the other.
func (b *board) serve(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		rights := make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights)
		_ = c.Close()
		if err != nil {
			continue
		}
		messages, err := unix.ParseSocketControlMessage(rights[:n])
		if err != nil || len(messages) != 1 {
			continue
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err == nil && len(fds) == 1 {
			go b.answerAll(fds[0])
		}
	}
}

// notification is struct seccomp_notif, and reply is struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	at         uint64
	args       [6]uint64
}

type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// answerAll answers the requests of an agent until it has ended. The kernel pets once more then.
func (b *board) answerAll(fd int) {
	defer func() { _ = unix.Close(fd) }()
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			b.pet()
			return
		}
		var n notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // its process has ended
		}
		r := reply{id: n.id}
		if err := b.answer(&n); err != nil {
			r.errno = -int32(unix.EFAULT)
			if errno, is := errors.AsType[unix.Errno](err); is {
				r.errno = -int32(errno)
			}
		}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
	}
}

// answer answers one request, as a driver does.
func (b *board) answer(n *notification) error {
	switch uint32(n.args[1]) {
	case unix.WDIOC_GETSUPPORT: // the agent has just opened the device
		b.arm()
		info := unix.WatchdogInfo{Options: unix.WDIOF_SETTIMEOUT | unix.WDIOF_KEEPALIVEPING | unix.WDIOF_MAGICCLOSE}
		copy(info.Identity[:], "stand-in")
		return write(n, unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info)))
	case unix.WDIOC_SETTIMEOUT:
		seconds := make([]byte, 4)
		if err := read(n, seconds); err != nil {
			return err
		}
		b.set(time.Duration(*(*int32)(unsafe.Pointer(&seconds[0]))) * time.Second)
		return nil
	case unix.WDIOC_GETTIMEOUT:
		seconds := int32(b.state().timeout / time.Second)
		return write(n, unsafe.Slice((*byte)(unsafe.Pointer(&seconds)), 4))
	case unix.WDIOC_KEEPALIVE:
		b.pet()
		return nil
	case unix.WDIOC_SETOPTIONS: // the agent disarms it, and requests nothing else
		b.disarm()
		return nil
	}
	return unix.ENOTTY
}

// write writes to where the third argument of a request points, and read reads there.
func write(n *notification, content []byte) error {
	_, err := unix.ProcessVMWritev(int(n.pid), vector(content), remote(n, content), 0)
	return err
}

func read(n *notification, into []byte) error {
	_, err := unix.ProcessVMReadv(int(n.pid), vector(into), remote(n, into), 0)
	return err
}

func vector(content []byte) []unix.Iovec {
	v := unix.Iovec{Base: &content[0]}
	v.SetLen(len(content))
	return []unix.Iovec{v}
}

func remote(n *notification, content []byte) []unix.RemoteIovec {
	return []unix.RemoteIovec{{Base: uintptr(n.args[2]), Len: len(content)}}
}

func (b *board) arm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timeout == 0 {
		b.timeout = defaultTimeout
	}
	b.armed, b.petted = true, time.Now()
}

func (b *board) set(timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timeout, b.petted = timeout, time.Now()
}

func (b *board) pet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.petted = time.Now()
	b.pets++
}

// expire has the watchdog fire unless it is petted at once, as if its timeout were over.
func (b *board) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.petted = time.Now().Add(-2 * b.timeout)
}

// disarm stops the watchdog. So does a reset.
func (b *board) disarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed, b.timeout = false, 0
}

// reading is what a watchdog shows.
type reading struct {
	armed       bool
	timeout     time.Duration
	petted      time.Time
	pets, fires int
	unpetted    int
}

func (b *board) state() reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	return reading{b.armed, b.timeout, b.petted, b.pets, b.fires, b.unpetted}
}

// count fires when the timeout has passed without a pet, until stop is closed.
func (b *board) count(stop <-chan struct{}) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		b.mu.Lock()
		fires := b.armed && time.Since(b.petted) > b.timeout
		if fires {
			b.fires++
			b.unpetted = b.pets
		}
		b.mu.Unlock()
		if fires {
			b.disarm()
			b.fire()
		}
	}
}
