package selffence

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// namespaces are those of a node. It makes that of time itself.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// bootTime is how long a node takes to boot.
const bootTime = time.Second

// link is the state of the link of a node.
type link int

const (
	works link = iota
	// cut is a link that passes nothing on.
	cut
	// deaf is a link whose packets to the node are lost.
	deaf
	// detour is a link on which packets from the API server are lost. Other nodes are reached.
	detour
)

// machine is a node as a computer.
type machine struct {
	t      *testing.T
	fabric *fabric
	part   part
	number int
	watch  *board

	mu    sync.Mutex
	init  *exec.Cmd
	input io.Closer
	port  string
	boots int
	link  link
	off   bool
}

// newMachine boots a node. Its processes end with the test.
func newMachine(t *testing.T, f *fabric, p part, number int) *machine {
	t.Helper()
	p.Control, p.Watchdog = filepath.Join(p.Logs, p.Node+".control"), filepath.Join(p.Logs, p.Node+".watchdog")
	m := &machine{t: t, fabric: f, part: p, number: number}
	m.watch = &board{fire: m.reset}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.Watchdog, Net: "unix"})
	if err != nil {
		t.Fatalf("listening for the watchdog of %s: %v", p.Node, err)
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { m.watch.serve(l) })
	running.Go(func() { m.watch.count(stop) })
	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
		running.Wait()
		m.powerOff()
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.boot(); err != nil {
		t.Fatal(err)
	}
	return m
}

// boot starts the first process of the node under another boot ID. The caller holds the mutex.
func (m *machine) boot() error {
	m.boots++
	p := m.part
	p.Boot = string(uuid.NewUUID())
	p.Clock = 1000*m.number + m.boots
	_ = os.Remove(p.Control)
	log, err := os.OpenFile(filepath.Join(p.Logs, p.Node+".init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.Self)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.environment(roleInit), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	input, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("preparing %s: %w", p.Node, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("booting %s: %w", p.Node, err)
	}
	m.init, m.input, m.part.Boot = cmd, input, p.Boot
	m.port = fmt.Sprintf("n%d-%d", m.number, m.boots)
	if err := errors.Join(m.fabric.attach(cmd.Process.Pid, m.number, m.port), m.applyLink()); err != nil {
		return err
	}
	_, err = input.Write([]byte{'\n'})
	return err
}

// end kills all processes of the node. The caller holds the mutex.
func (m *machine) end() {
	_ = m.init.Process.Kill()
	_ = m.init.Wait() // it returns once the last process of its namespace has ended
	_ = m.input.Close()
	m.fabric.detach(m.port)
}

func (m *machine) powerOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
	m.end()
}

// reset ends all processes of the node, and boots it.
func (m *machine) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return
	}
	m.end()
	<-time.After(bootTime)
	if err := m.boot(); err != nil {
		m.t.Error(err)
	}
}

// count returns the boot ID, and how often the node was booted.
func (m *machine) count() (boot string, boots int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.part.Boot, m.boots
}

// sets changes the link of the node, which stays so over a boot.
func (m *machine) sets(l link) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.link = l
	if err := m.applyLink(); err != nil {
		m.t.Fatal(err)
	}
}

// The caller holds the mutex.
func (m *machine) applyLink() error {
	state := "up"
	if m.link == cut {
		state = "down"
	}
	return errors.Join(
		m.fabric.ip("link", "set", m.port, state), m.fabric.deafen(m.port, m.link == deaf), m.fabric.misroute(m.number, m.link == detour))
}

// signal sends a signal to the kubelet or the agent of the node.
func (m *machine) signal(role string, signal syscall.Signal) {
	m.t.Helper()
	c, err := net.Dial("unix", m.part.Control)
	if err != nil {
		m.t.Fatalf("commanding %s: %v", m.part.Node, err)
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintln(c, role, int(signal))
	if answer, err := bufio.NewReader(c).ReadString('\n'); err != nil || answer != "<nil>\n" {
		m.t.Fatalf("sending %s to the %s of %s: %s %v", signal, role, m.part.Node, answer, err)
	}
}

// fabric is the network between the nodes and the API server.
type fabric struct {
	pid int
}

// address returns the address of a node. The first is that of the API server.
func address(number int) string { return "10.77.0." + strconv.Itoa(number+1) }

// newFabric makes the network. It is in a namespace, and ends with the test.
func newFabric(t *testing.T, self string) *fabric {
	t.Helper()
	cmd := exec.Command(self)
	cmd.Env = part{}.environment(roleFabric)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("preparing the network: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("making the network: %v", err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
	})
	f := &fabric{cmd.Process.Pid}
	// The bridge has an address of its own, since a change of it would forget what misroute says.
	for _, args := range []string{"link add br0 address 02:00:00:00:01:00 type bridge", "addr add " + address(0) + "/24 dev br0", "link set br0 up", "link set lo up"} {
		if err := f.ip(strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// ip runs ip in the network.
func (f *fabric) ip(args ...string) error { return ipIn(f.pid, args...) }

// ipIn runs ip in the namespace of the network of a process.
func ipIn(pid int, args ...string) error {
	args = append([]string{"--net=/proc/" + strconv.Itoa(pid) + "/ns/net", "ip"}, args...)
	if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// attach links a node with the network.
func (f *fabric) attach(pid, number int, port string) error {
	err := f.ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "address", hardware(number), "netns", strconv.Itoa(pid))
	if err != nil {
		return err
	}
	return errors.Join(f.ip("link", "set", port, "master", "br0"), ipIn(pid, "link", "set", "lo", "up"),
		ipIn(pid, "addr", "add", address(number)+"/24", "dev", "eth0"), ipIn(pid, "link", "set", "eth0", "up"))
}

// detach removes the link of a node that has ended.
func (f *fabric) detach(port string) { _ = f.ip("link", "del", port) } // it goes with the namespace of the node too

// hardware returns the address of the network card of a node.
func hardware(number int) string { return fmt.Sprintf("02:00:00:00:00:%02x", number) }

// deafen has packets to a node lost: the bridge forgets where its card is, and floods nothing there.
func (f *fabric) deafen(port string, lost bool) error {
	state := "on"
	if lost {
		state = "off"
	}
	bridge := []string{"link", "set", port, "type", "bridge_slave"}
	return errors.Join(
		f.ip(append(bridge, "learning", state, "flood", state, "mcast_flood", state, "bcast_flood", state)...), f.ip(append(bridge, "fdb_flush")...))
}

// misroute has packets from the API server to a node lost, by sending them to a card that isn't there.
func (f *fabric) misroute(number int, lost bool) error {
	to := hardware(number)
	if lost {
		to = hardware(0xff)
	}
	return f.ip("neigh", "replace", address(number), "lladdr", to, "dev", "br0", "nud", "permanent")
}
