package ipmi_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/fettle-io/fettle/sandbox/ipmi"
	"github.com/fettle-io/fettle/sandbox/redfish"
	"github.com/fettle-io/fettle/sandbox/test/debian"
)

const (
	user     = "admin"
	password = "open-sesame"
	tool     = "/usr/bin/ipmitool"
)

// host is a machine that obeys at once.
type host struct {
	mu    sync.Mutex
	state redfish.PowerState
	boots int
}

func (h *host) PowerOn() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != redfish.On {
		h.boots++
	}
	h.state = redfish.On
	return nil
}

func (h *host) PowerOff() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = redfish.Off
	return nil
}

func (h *host) State() redfish.PowerState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

func (h *host) want(t *testing.T, state redfish.PowerState, boots int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != state || h.boots != boots {
		t.Errorf("the host is %s after %d boots, want %s after %d", h.state, h.boots, state, boots)
	}
}

// start starts a BMC for a host that is on, and returns its address.
func start(t *testing.T) (h *host, ip, port string) {
	t.Helper()
	h = &host{state: redfish.On}
	bmc, err := ipmi.Start(ipmi.Config{User: user, Password: password, Host: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bmc.Close(); err != nil {
			t.Error(err)
		}
	})
	ip, port, err = net.SplitHostPort(bmc.Address())
	if err != nil {
		t.Fatal(err)
	}
	return h, ip, port
}

func TestIpmitool(t *testing.T) {
	debian.Install(t, "ipmitool", tool)
	for _, suite := range []string{"3", "17"} {
		t.Run("suite "+suite, func(t *testing.T) {
			h, ip, port := start(t)
			power := func(secret, action string) (string, error) {
				return debian.Run(t, tool, "-I", "lanplus", "-H", ip, "-p", port, "-U", user, "-P", secret,
					"-L", "OPERATOR", "-C", suite, "chassis", "power", action)
			}
			for _, step := range []struct {
				action, says string
				state        redfish.PowerState
				boots        int
			}{
				{"status", "Chassis Power is on", redfish.On, 0},
				{"off", "Chassis Power Control: Down/Off", redfish.Off, 0},
				{"status", "Chassis Power is off", redfish.Off, 0},
				{"cycle", "Chassis Power Control: Cycle", redfish.Off, 0},
				{"on", "Chassis Power Control: Up/On", redfish.On, 1},
				{"cycle", "Chassis Power Control: Cycle", redfish.On, 2},
				{"reset", "Chassis Power Control: Reset", redfish.On, 3},
			} {
				out, err := power(password, step.action)
				if err != nil || !strings.Contains(out, step.says) {
					t.Errorf("%s: %v\n%s", step.action, err, out)
				}
				h.want(t, step.state, step.boots)
			}
			if out, err := power("wrong", "off"); err == nil {
				t.Errorf("off with a wrong password: %s", out)
			}
			h.want(t, redfish.On, 3)
		})
	}
}

func TestFenceIPMILAN(t *testing.T) {
	const agent = "/usr/sbin/fence_ipmilan"
	debian.Install(t, "ipmitool", tool)
	debian.Install(t, "fence-agents", agent)
	h, ip, port := start(t)
	fence := func(secret, action string) (string, error) {
		return debian.Run(t, agent, "--lanplus", "--ip="+ip, "--ipport="+port, "--username="+user, "--password="+secret,
			"--privlvl=operator", "--cipher=17", "--action="+action)
	}
	for _, step := range []struct {
		action, says string
		state        redfish.PowerState
		boots        int
	}{
		{"status", "Status: ON", redfish.On, 0},
		{"off", "Success: Powered OFF", redfish.Off, 0},
		{"on", "Success: Powered ON", redfish.On, 1},
		{"reboot", "Success: Rebooted", redfish.On, 2},
	} {
		out, err := fence(password, step.action)
		if err != nil || !strings.Contains(out, step.says) {
			t.Errorf("%s: %v\n%s", step.action, err, out)
		}
		h.want(t, step.state, step.boots)
	}
	if out, err := fence("wrong", "off"); err == nil {
		t.Errorf("off with a wrong password: %s", out)
	}
	h.want(t, redfish.On, 2)
}

func TestIncompleteConfig(t *testing.T) {
	whole := ipmi.Config{User: user, Password: password, Host: &host{}}
	for name, config := range map[string]ipmi.Config{
		"no user":     {Password: whole.Password, Host: whole.Host},
		"no password": {User: whole.User, Host: whole.Host},
		"no host":     {User: whole.User, Password: whole.Password},
	} {
		if bmc, err := ipmi.Start(config); err == nil {
			_ = bmc.Close()
			t.Errorf("%s: it starts", name)
		}
	}
}
