package redfish_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/fettle-io/fettle/sandbox/redfish"
	"github.com/fettle-io/fettle/sandbox/test/debian"
)

// These tests drive the emulator with published clients.

func TestFenceRedfish(t *testing.T) {
	const agent = "/usr/sbin/fence_redfish"
	debian.Install(t, "fence-agents", agent)
	w := start(t)
	ip, port, err := net.SplitHostPort(w.Address())
	if err != nil {
		t.Fatal(err)
	}
	fence := func(secret, action string) (string, error) {
		return debian.Run(t, agent, "--ip="+ip, "--ipport="+port, "--username="+user, "--password="+secret,
			"--ssl-insecure", "--action="+action)
	}
	w.host.WantFencedBy(t, password, fence)
}

func TestRedfishtool(t *testing.T) {
	const tool = "/usr/bin/redfishtool"
	debian.Install(t, "redfishtool", tool)
	for _, auth := range []string{"Basic", "Session"} {
		t.Run(auth, func(t *testing.T) {
			w := start(t)
			redfishtool := func(args ...string) string {
				t.Helper()
				out, err := debian.Run(t, tool, append([]string{
					"-r", w.Address(), "-u", user, "-p", password, "-S", "Always", "-A", auth,
				}, args...)...)
				if err != nil {
					t.Errorf("%v: %v\n%s", args, err, out)
				}
				return out
			}
			wantState := func(state string) {
				t.Helper()
				if out := redfishtool("-P", "PowerState", "Systems", "-F", "get"); !strings.Contains(out, `"`+state+`"`) {
					t.Errorf("want %s: %s", state, out)
				}
			}
			wantState("On")
			redfishtool("Systems", "-F", "reset", "ForceOff")
			w.host.Want(t, redfish.Off, 0)
			wantState("Off")
			redfishtool("Systems", "-F", "reset", "On")
			w.host.Want(t, redfish.On, 1)
			redfishtool("Systems", "-F", "reset", "ForceRestart")
			w.host.Want(t, redfish.On, 2)
			if n := w.OpenSessions(); n != 0 {
				t.Errorf("%d sessions stay open", n)
			}
		})
	}
}

const sushyScript = `
import sys, time
import sushy
from sushy import auth

url, user, password, authority = sys.argv[1:]
session = auth.SessionAuth(user, password)
root = sushy.Sushy(url, auth=session, verify=authority)
system = root.get_system(root.get_system_collection().members_identities[0])

def wait(state):
    for _ in range(50):
        system.refresh(force=True)
        if system.power_state == state:
            print(state.value)
            return
        time.sleep(0.1)
    sys.exit("still %s" % system.power_state)

wait(sushy.PowerState.ON)
system.reset_system(sushy.ResetType.FORCE_OFF)
wait(sushy.PowerState.OFF)
system.reset_system(sushy.ResetType.ON)
wait(sushy.PowerState.ON)
session.close()
`

func authority(t *testing.T, w *world) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bmc.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSushy(t *testing.T) {
	debian.Install(t, "python3-sushy", "/usr/lib/python3/dist-packages/sushy/__init__.py")
	w := start(t)
	// Debian's own interpreter: another one doesn't know Debian's packages.
	out, err := debian.Run(t, "/usr/bin/python3", "-c", sushyScript, w.URL(), user, password, authority(t, w))
	if err != nil || out != "On\nOff\nOn\n" {
		t.Errorf("%v\n%s", err, out)
	}
	w.host.Want(t, redfish.On, 1)
	if logins := w.Logins(); logins.Accepted != 1 || w.OpenSessions() != 0 {
		t.Errorf("logins: %+v; %d sessions stay open", logins, w.OpenSessions())
	}
}

func TestGofish(t *testing.T) {
	w := start(t)
	connect := func(secret string) (*gofish.APIClient, error) {
		return gofish.ConnectContext(t.Context(), gofish.ClientConfig{
			Endpoint: w.URL(), Username: user, Password: secret, HTTPClient: w.client,
		})
	}
	client, err := connect(password)
	if err != nil {
		t.Fatal(err)
	}
	systems, err := client.Service.Systems()
	if err != nil || len(systems) != 1 || systems[0].PowerState != schemas.OnPowerState {
		t.Fatalf("systems: %v, %v", systems, err)
	}
	w.Order(func(f *redfish.Faults) { f.RequiresIfMatch = true })
	if _, err := systems[0].Reset(schemas.ForceOffResetType); err != nil {
		t.Error(err)
	}
	w.host.Want(t, redfish.Off, 0)
	for _, apart := range []bool{false, true} {
		w.Order(func(f *redfish.Faults) { f.Resets, f.ActionInfo = []redfish.ResetType{redfish.ResetOn}, apart })
		system, err := schemas.GetComputerSystem(client, w.SystemPath())
		if err != nil {
			t.Fatal(err)
		}
		if allowed, err := system.GetSupportedResetTypes(); err != nil || !slices.Equal(allowed, []schemas.ResetType{schemas.OnResetType}) {
			t.Errorf("in a resource of its own: %t: %v, %v", apart, allowed, err)
		}
	}
	client.Logout()
	if w.OpenSessions() != 0 {
		t.Error("a session stays open")
	}
	var refused *schemas.Error
	if _, err := connect("wrong"); !errors.As(err, &refused) || refused.HTTPReturnedStatusCode != 401 {
		t.Errorf("a wrong password: %v", err)
	}
	w.Order(func(f *redfish.Faults) { f.NoSessionLeft = true })
	if _, err := connect(password); !strings.Contains(fmt.Sprint(err), "RAC0218") {
		t.Errorf("no session left: %v", err)
	}
}
