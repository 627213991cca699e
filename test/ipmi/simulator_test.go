package ipmi

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/test/debian"
)

const (
	// operator is the account that may power the host.
	operator, password = "fettle", "hunter2-never-seen"
	// patience is how long anything may take on a slow machine.
	patience = 2 * time.Minute
)

// simulator is Debian's ipmi_sim, a BMC. It knows the cipher suites 0 to 3, and not 17.
type simulator struct {
	// address is where it listens, and folder has its files.
	address, folder string
}

// startSimulator starts a BMC and waits until it answers. The lines are of its configuration, and say what its host is.
func startSimulator(t *testing.T, folder string, lines ...string) *simulator {
	t.Helper()
	const program = "/usr/bin/ipmi_sim"
	debian.Install(t, "openipmi", program)
	ip, port := freeAddress(t, "udp")
	s := &simulator{address: net.JoinHostPort(ip, strconv.Itoa(port)), folder: folder}
	config := fmt.Sprintf(`name "fettle"
set_working_mc 0x20
startlan 1
  addr %s %d
  priv_limit admin
  allowed_auths_operator md5
  guid a123456789abcdefa123456789abcdef
endlan
user 2 true %q %q operator 10 md5
%s
`, ip, port, operator, password, strings.Join(lines, "\n"))
	s.write(t, "lan.conf", config)
	s.write(t, "sim.emu", "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n")
	state := filepath.Join(folder, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	// By default ipmi_sim keeps its state in a folder of the system.
	command := exec.Command(program, "-n", "-c", filepath.Join(folder, "lan.conf"), "-f", filepath.Join(folder, "sim.emu"), "-s", state)
	debian.Start(t, command)
	h := s.host(t, s.address, operator, password)
	eventually(t, "ipmi_sim answers", func() error {
		if _, f := h.Read(t.Context()); f.Failed() {
			return fmt.Errorf("%s", f)
		}
		return nil
	})
	return s
}

func (s *simulator) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// host returns Fettle's way to the power of the host.
func (*simulator) host(t *testing.T, address, username, password string) *power.Host {
	t.Helper()
	parsed, err := power.ParseAddress("ipmi://" + address)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := power.NewCredentials(username, password)
	if err != nil {
		t.Fatal(err)
	}
	return power.NewHost(power.Config{Address: parsed, Now: time.Now}, credentials)
}

// freeAddress returns an address on loopback for a server that is started soon. Its IP address is a random one, since other processes connect
// from 127.0.0.1 and listen there: they would take a port that was free a moment ago.
func freeAddress(t *testing.T, network string) (ip string, port int) {
	t.Helper()
	ip = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	if network == "tcp" {
		listener, err := net.Listen("tcp", ip+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return ip, listener.Addr().(*net.TCPAddr).Port
	}
	conn, err := net.ListenPacket("udp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return ip, conn.LocalAddr().(*net.UDPAddr).Port
}

// eventually waits until a check returns no error.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}
