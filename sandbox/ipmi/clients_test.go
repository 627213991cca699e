package ipmi_test

import (
	"net"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/sandbox/ipmi"
	"github.com/fettle-io/fettle/sandbox/redfish"
	"github.com/fettle-io/fettle/sandbox/test/debian"
	"github.com/fettle-io/fettle/sandbox/test/powerhost"
)

const (
	user     = "admin"
	password = "open-sesame"
	tool     = "/usr/bin/ipmitool"
)

// start starts a BMC for a host that is on, and returns its address.
func start(t *testing.T) (h *powerhost.Host, ip, port string) {
	t.Helper()
	h = powerhost.New(redfish.On)
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
				h.Want(t, step.state, step.boots)
			}
			if out, err := power("wrong", "off"); err == nil {
				t.Errorf("off with a wrong password: %s", out)
			}
			h.Want(t, redfish.On, 3)
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
	h.WantFencedBy(t, password, fence)
}

func TestIncompleteConfig(t *testing.T) {
	whole := ipmi.Config{User: user, Password: password, Host: powerhost.New(redfish.On)}
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

// TestTheSameState: a command for the state that the host is in is refused, and others are carried out.
func TestTheSameState(t *testing.T) {
	debian.Install(t, "ipmitool", tool)
	h := powerhost.New(redfish.On)
	bmc, err := ipmi.Start(ipmi.Config{User: user, Password: password, Host: h})
	if err != nil {
		t.Fatal(err)
	}
	defer bmc.Close()
	ip, port, err := net.SplitHostPort(bmc.Address())
	if err != nil {
		t.Fatal(err)
	}
	bmc.Order(ipmi.Faults{RefusesSameState: true})
	for _, step := range []struct {
		action, says string
		state        redfish.PowerState
		boots        int
	}{
		{"on", "not supported in present state", redfish.On, 0},
		{"off", "Chassis Power Control: Down/Off", redfish.Off, 0},
		{"off", "not supported in present state", redfish.Off, 0},
		{"on", "Chassis Power Control: Up/On", redfish.On, 1},
	} {
		out, err := debian.Run(t, tool, "-I", "lanplus", "-H", ip, "-p", port, "-U", user, "-P", password, "-L", "OPERATOR", "-C", "17", "chassis", "power", step.action)
		if refused := strings.Contains(step.says, "not supported"); !strings.Contains(out, step.says) || refused != (err != nil) {
			t.Errorf("%s: %v\n%s", step.action, err, out)
		}
		h.Want(t, step.state, step.boots)
	}
}
