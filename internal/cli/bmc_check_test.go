package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// bmcScene is an API server and a BMC, which both work.
type bmcScene struct {
	t    *testing.T
	api  *fakeAPI
	bmc  *fakeBMC
	spec string
	// status is that of the BMC, as YAML.
	status string
	// others are further BMCs, and flags those of the command.
	others, flags []string
	node          string
	credentials   map[string]any
}

func newBMCScene(t *testing.T) *bmcScene {
	t.Helper()
	s := &bmcScene{t: t, api: startAPI(t), bmc: startBMC(t), node: "node-a", status: "{}"}
	s.spec = s.specOf("redfish://"+s.bmc.hostPort(), "system: '1', tls: {fingerprint: "+s.bmc.fingerprint()+"}")
	s.credentials = map[string]any{"username": encoded(bmcUser), "password": encoded(bmcPassword)}
	return s
}

func encoded(value string) string { return base64.StdEncoding.EncodeToString([]byte(value)) }

// specOf returns the spec of the BMC of node-a.
func (s *bmcScene) specOf(address, rest string) string {
	spec := "nodeName: node-a, credentialsName: bmc-a, address: '" + address + "'"
	if rest != "" {
		spec += ", " + rest
	}
	return "{" + spec + "}"
}

func bmcText(name, spec, status string) string {
	return "{apiVersion: fettle.io/v1alpha1, kind: BMC, metadata: {namespace: fettle-system, name: " + name + "}, spec: " + spec + ", status: " + status + "}"
}

// ask runs fettle bmc check.
func (s *bmcScene) ask(flags ...string) (string, int) {
	s.t.Helper()
	if !s.api.has(bmcsPath) {
		s.api.bmcs(append([]string{bmcText("bmc-a", s.spec, s.status)}, s.others...)...)
	}
	if !s.api.has(secretPath) && s.credentials != nil {
		s.api.secret(s.credentials)
	}
	var printed bytes.Buffer
	cmd := bmcCommand(Options{Name: "fettle", UserAgent: "test", Now: func() time.Time { return noon }})
	cmd.SetArgs(append(append([]string{"check", s.node}, s.flags...), flags...))
	cmd.SetOut(&printed)
	cmd.SetErr(&printed)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(s.t.Context())
	if err != nil {
		printed.WriteString(err.Error())
	}
	return printed.String(), ExitStatus(err)
}

// heldStatus is the status of a BMC that is left alone until a time after noon.
func heldStatus(after time.Duration) string {
	return "{refusedLogins: 2, credentialsVersion: '7', authenticationHeldUntil: '" + noon.Add(after).Format(time.RFC3339) + "', " +
		"conditions: [{type: Reachable, status: 'False', reason: AuthenticationRefused, message: the BMC refused the credentials, lastTransitionTime: '" + noon.Add(-time.Minute).Format(time.RFC3339) + "'}]}"
}

// bmcCase is one state of a BMC and of what the user may read.
type bmcCase struct {
	change func(*bmcScene)
	exit   int
	// logins is how many logins there are.
	logins int
}

var bmcCases = map[string]bmcCase{
	"works": {func(*bmcScene) {}, 0, 1},
	"works-beside-others": {func(s *bmcScene) {
		s.others = []string{bmcText("bmc-b", "{nodeName: node-b, credentialsName: x, address: 'ipmi://b'}", "{}"), bmcText("bmc-c", "{nodeName: node-c, credentialsName: x, address: nonsense}", "{}")}
	}, 0, 1},
	"off-as-fettle-saw-it": {func(s *bmcScene) {
		s.bmc.set("Off", nil)
		s.status = "{power: 'Off', conditions: [{type: Reachable, status: 'True', reason: Succeeded, message: '', lastTransitionTime: '2026-08-01T11:00:00Z'}]}"
	}, 0, 1},
	"changing":  {func(s *bmcScene) { s.bmc.set("PoweringOff", nil) }, 2, 1},
	"node-word": {func(s *bmcScene) { s.node = "node/node-a" }, 0, 1},

	"node-of-a-workload-cluster": {func(s *bmcScene) {
		s.others = []string{bmcText("bmc-b", "{nodeName: node-a, credentialsName: x, address: 'ipmi://b'}", "{}")}
		s.node, s.spec = "fleet/east/node-a", strings.Replace(s.spec, "node-a", "node-a, cluster: {namespace: fleet, name: east}", 1)
	}, 0, 1},
	"no-bmc-of-a-workload-cluster": {func(s *bmcScene) { s.node = "fleet/east/node-a" }, 1, 0},

	"no-bmc":           {func(s *bmcScene) { s.node = "elsewhere" }, 1, 0},
	"no-bmc-but-near":  {func(s *bmcScene) { s.node = "node-b" }, 1, 0},
	"no-bmc-but-named": {func(s *bmcScene) { s.node = "bmc-a" }, 1, 0},
	"two-of-a-node":    {func(s *bmcScene) { s.others = []string{bmcText("bmc-b", s.spec, "{}")} }, 1, 0},
	"two-of-an-address": {func(s *bmcScene) {
		s.others = []string{bmcText("bmc-b", "{nodeName: node-b, credentialsName: x, address: 'redfish+https://"+s.bmc.hostPort()+"/redfish/v1/Systems/1'}", "{}")}
	}, 1, 1},
	"bmcs-forbidden": {func(s *bmcScene) { s.api.set(bmcsPath, http.StatusForbidden) }, 2, 0},
	"bmcs-unserved":  {func(s *bmcScene) { s.api.set(fettleAPI, http.StatusNotFound) }, 2, 0},
	"other-namespace": {func(s *bmcScene) {
		s.flags = []string{"--bmc-namespace", "hardware"}
		s.api.list(fettleAPI+"/namespaces/hardware/bmcs", "fettle.io/v1alpha1", "BMCList")
	}, 1, 0},

	"address-refused":     {func(s *bmcScene) { s.spec = s.specOf("redfish://"+bmcUser+":"+bmcPassword+"@bmc.example", "") }, 1, 0},
	"system-twice":        {func(s *bmcScene) { s.spec = s.specOf("redfish://bmc.example/redfish/v1/Systems/1", "system: '1'") }, 1, 0},
	"system-of-ipmi":      {func(s *bmcScene) { s.spec = s.specOf("ipmi://bmc.example", "system: '1'") }, 1, 0},
	"fingerprint-refused": {func(s *bmcScene) { s.spec = s.specOf("redfish://bmc.example", "tls: {fingerprint: abc}") }, 1, 0},
	"authorities-refused": {func(s *bmcScene) { s.spec = s.specOf("redfish://bmc.example", "tls: {caBundle: abc}") }, 1, 0},
	"trust-empty":         {func(s *bmcScene) { s.spec = s.specOf("redfish://bmc.example", "tls: {}") }, 1, 0},
	"certificate-signed": {func(s *bmcScene) {
		signed := strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.bmc.server.Certificate().Raw})), "\n", `\n`)
		s.spec = s.specOf("redfish://"+s.bmc.hostPort(), `system: '1', tls: {caBundle: "`+signed+`"}`)
	}, 0, 1},
	"certificate-untrusted": {func(s *bmcScene) { s.spec = s.specOf("redfish://"+s.bmc.hostPort(), "system: '1'") }, 1, 0},
	"certificate-other": {func(s *bmcScene) {
		s.spec = s.specOf("redfish://"+s.bmc.hostPort(), "system: '1', tls: {fingerprint: '"+strings.Repeat("00", 32)+"'}")
	}, 1, 0},

	"secret-missing": {func(s *bmcScene) { s.credentials = nil }, 1, 0},
	"secret-forbidden": {func(s *bmcScene) {
		s.api.set(secretPath, http.StatusForbidden)
	}, 2, 0},
	"secret-unread": {func(s *bmcScene) {
		s.api.set(secretPath, http.StatusInternalServerError)
	}, 2, 0},
	"secret-lacks-a-key":         {func(s *bmcScene) { delete(s.credentials, "username") }, 1, 0},
	"secret-lacks-both":          {func(s *bmcScene) { s.credentials = map[string]any{"user": encoded(bmcPassword), "password": ""} }, 1, 0},
	"secret-no-base64":           {func(s *bmcScene) { s.credentials["password"] = bmcPassword + "%" }, 1, 0},
	"secret-too-long":            {func(s *bmcScene) { s.credentials["password"] = encoded(strings.Repeat(bmcPassword, 20)) }, 1, 0},
	"password-too-long-for-ipmi": {func(s *bmcScene) { s.spec = s.specOf("ipmi://127.0.0.1", "") }, 1, 0},

	"held":            {func(s *bmcScene) { s.status = heldStatus(10 * time.Minute) }, 2, 0},
	"held-no-longer":  {func(s *bmcScene) { s.status = heldStatus(0) }, 0, 1},
	"held-and-forced": {func(s *bmcScene) { s.status, s.flags = heldStatus(10*time.Minute), []string{"--force"} }, 0, 1},
	"held-for-others": {func(s *bmcScene) {
		s.status = strings.Replace(heldStatus(10*time.Minute), "credentialsVersion: '7'", "credentialsVersion: '6'", 1)
	}, 0, 1},

	"login-refused": {func(s *bmcScene) { s.credentials["password"] = encoded("wrong-" + bmcPassword) }, 1, 1},
	"no-session-left": {func(s *bmcScene) {
		s.bmc.set("On", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/redfish/v1/" {
				return false
			}
			s.bmc.refuse(w, http.StatusServiceUnavailable)
			return true
		})
	}, 1, 1},
	"read-forbidden":   {func(s *bmcScene) { s.bmc.refusing("/redfish/v1/Systems/1", http.StatusForbidden) }, 1, 1},
	"no-such-system":   {func(s *bmcScene) { s.bmc.refusing("/redfish/v1/Systems/1", http.StatusNotFound) }, 1, 1},
	"bmc-out-of-order": {func(s *bmcScene) { s.bmc.refusing("/redfish/v1/Systems/1", http.StatusInternalServerError) }, 1, 1},
	"no-system-at-all": {func(s *bmcScene) {
		s.spec = s.specOf("redfish://"+s.bmc.hostPort(), "tls: {fingerprint: "+s.bmc.fingerprint()+"}")
		s.bmc.set("On", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/redfish/v1/Systems" {
				return false
			}
			s.bmc.answer(w, http.StatusOK, map[string]any{"Members": []any{}})
			return true
		})
	}, 1, 1},
	"resets-not-allowed": {func(s *bmcScene) { s.bmc.allowed = []string{"On", "GracefulShutdown"} }, 1, 1},
	"resets-allowed":     {func(s *bmcScene) { s.bmc.allowed = []string{"On", "ForceOff"} }, 0, 1},
	"resets-not-read": {func(s *bmcScene) {
		reads := 0
		s.bmc.set("On", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/redfish/v1/Systems/1" {
				return false
			}
			if reads++; reads%2 == 1 { // the first read of each format
				return false
			}
			s.bmc.answer(w, http.StatusInternalServerError, map[string]any{})
			return true
		})
	}, 2, 1},
	"system-same":                  {ofSystem(systemUUID, strings.ToUpper(systemUUID)), 0, 1},
	"system-other":                 {ofSystem("00112233-4455-6677-8899-aabbccddeeff", systemUUID), 1, 1},
	"system-not-reported":          {ofSystem("", systemUUID), 0, 1},
	"system-of-no-node":            {func(s *bmcScene) { s.bmc.uuid = systemUUID }, 0, 1},
	"system-of-a-node-without-one": {ofSystem(systemUUID, ""), 0, 1},
	"system-of-a-forbidden-node": {func(s *bmcScene) {
		s.bmc.uuid = systemUUID
		s.api.set(nodePath, http.StatusForbidden)
	}, 2, 1},
	"system-not-compared": {func(s *bmcScene) {
		ofSystem("00112233-4455-6677-8899-aabbccddeeff", systemUUID)(s)
		s.spec = strings.Replace(s.spec, "nodeName", "systemUUIDCheck: Disabled, nodeName", 1)
	}, 0, 1},
	"system-of-a-workload-cluster": {func(s *bmcScene) {
		ofSystem(systemUUID, systemUUID)(s) // the node of the same name beside the BMC
		s.ofWorkloadCluster("00112233-4455-6677-8899-aabbccddeeff")
	}, 1, 1},
	"system-of-an-unread-cluster": {func(s *bmcScene) {
		s.bmc.uuid = systemUUID
		s.ofWorkloadCluster("")
		s.api.set(kubeconfigPath, http.StatusForbidden)
	}, 2, 1},
	"system-of-a-refused-kubeconfig": {func(s *bmcScene) {
		s.bmc.uuid = systemUUID
		s.ofWorkloadCluster("")
		s.api.set(kubeconfigPath, kubeconfigOfEast("http://127.0.0.1:1", nil))
	}, 2, 1},
	"system-of-a-useless-kubeconfig": {func(s *bmcScene) {
		s.bmc.uuid = systemUUID
		s.ofWorkloadCluster("")
		s.api.set(kubeconfigPath, kubeconfigOfEast("https://127.0.0.1:1", &x509.Certificate{Raw: []byte("nonsense")}))
	}, 2, 1},
	"system-of-a-cluster-that-refuses": {func(s *bmcScene) {
		s.bmc.uuid = systemUUID
		s.ofWorkloadCluster("").set(nodePath, http.StatusForbidden)
	}, 2, 1},
	"system-of-no-node-there": {func(s *bmcScene) {
		s.bmc.uuid = systemUUID
		s.ofWorkloadCluster("")
	}, 0, 1},

	"no-bmc-at-the-address": {func(s *bmcScene) {
		s.bmc.set("On", func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, "<html>", bmcPassword)
			return true
		})
	}, 1, 0},
	"plain-where-tls-is": {func(s *bmcScene) { s.spec = s.specOf("redfish+http://"+s.bmc.hostPort(), "") }, 1, 0},
	"unreachable":        {func(s *bmcScene) { s.bmc.server.Close() }, 1, 0},
}

const (
	systemUUID     = "4c4c4544-0042-3510-8051-b7c04f4d3133"
	nodePath       = "/api/v1/nodes/node-a"
	kubeconfigPath = "/api/v1/namespaces/fleet/secrets/east-kubeconfig"
)

// nodeOn returns a node that reports a UUID of its system.
func nodeOn(uuid string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "node-a"}, "status": map[string]any{"nodeInfo": map[string]any{"systemUUID": uuid}}}
}

// ofSystem has the BMC report the UUID of its system, and the node that of its host.
func ofSystem(reported, ofNode string) func(*bmcScene) {
	return func(s *bmcScene) {
		s.bmc.uuid = reported
		s.api.set(nodePath, nodeOn(ofNode))
	}
}

// ofWorkloadCluster has the BMC name a node of a workload cluster, which reports a UUID. Without one there is no node. It
// returns the API server of that cluster, which is to see the name of the command.
func (s *bmcScene) ofWorkloadCluster(uuid string) *fakeAPI {
	s.t.Helper()
	east := &fakeAPI{t: s.t, objects: map[string]any{}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if agent := r.UserAgent(); agent != "test" {
			s.t.Errorf("the workload cluster sees the user agent %q", agent)
		}
		east.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	if uuid != "" {
		east.set(nodePath, nodeOn(uuid))
	}
	s.node, s.spec = "fleet/east/node-a", strings.Replace(s.spec, "node-a", "node-a, cluster: {namespace: fleet, name: east}", 1)
	s.api.set(kubeconfigPath, kubeconfigOfEast(server.URL, server.Certificate()))
	return east
}

// kubeconfigOfEast returns the Secret with the kubeconfig of a workload cluster.
func kubeconfigOfEast(url string, authority *x509.Certificate) map[string]any {
	cluster := "{server: '" + url + "'}"
	if authority != nil {
		trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})
		cluster = "{server: '" + url + "', certificate-authority-data: " + base64.StdEncoding.EncodeToString(trusted) + "}"
	}
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: " + cluster + "}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "fleet", "name": "east-kubeconfig"}, "data": map[string]any{"value": encoded(text)}}
}

// TestBMCCheck: each line says what works, there is one login at most, and nothing is changed. No output has the
// credentials, in any format.
func TestBMCCheck(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(bmcCases)) {
		t.Run(name, func(t *testing.T) {
			s := newBMCScene(t)
			bmcCases[name].change(s)
			out, exit := s.ask()
			logins, ended, changes := s.bmc.counts()
			if want := bmcCases[name]; exit != want.exit || logins != want.logins || changes != 0 {
				t.Errorf("exit status %d after %d logins and %d changes, want %d after %d logins", exit, logins, changes, want.exit, want.logins)
			}
			if exit == 0 && ended != logins {
				t.Errorf("of %d sessions %d were ended", logins, ended)
			}
			s.api.wantOnlyReads(t)
			wantNoCredentials(t, out)
			out = strings.NewReplacer(s.bmc.hostPort(), "bmc.example:443", s.bmc.fingerprint(), "FINGERPRINT").Replace(out)
			golden(t, "bmc-"+name+".txt", out)
			for _, format := range []string{formatJSON, formatYAML} {
				out, again := s.ask("-o", format)
				wantNoCredentials(t, out)
				if again != exit {
					t.Errorf("with -o %s the exit status is %d, want %d", format, again, exit)
				}
			}
		})
	}
}

// wantNoCredentials fails if a text has the user name or the password, as they are or encoded.
func wantNoCredentials(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{bmcUser, bmcPassword} {
		for _, form := range []string{secret, encoded(secret)[:12], fmt.Sprintf("%x", secret)} {
			if strings.Contains(text, form) {
				t.Errorf("it shows credentials:\n%s", text)
			}
		}
	}
}

func TestBMCCheckForPrograms(t *testing.T) {
	s := newBMCScene(t)
	s.spec = s.specOf("redfish://"+s.bmc.hostPort(), "system: '1'")
	out, exit := s.ask("-o", "json")
	var c BMCCheck
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("reading %s: %v", out, err)
	}
	if exit != 1 || c.Kind != "BMCCheck" || c.APIVersion != APIVersion || c.Outcome != "Problems" || c.Fingerprint != s.bmc.fingerprint() || c.Node != "node-a" ||
		c.Address != "redfish+https://"+s.bmc.hostPort()+"/redfish/v1/Systems/1" || c.Power != "" || len(c.Notes) != 1 || c.BMC.Name != "bmc-a" {
		t.Errorf("exit status %d:\n%s", exit, out)
	}
	s = newBMCScene(t)
	s.status = heldStatus(time.Minute)
	out, _ = s.ask("-o", "json")
	c = BMCCheck{}
	if err := json.Unmarshal([]byte(out), &c); err != nil || c.HeldUntil == nil || !c.HeldUntil.Equal(noon.Add(time.Minute)) || c.Outcome != "NotChecked" {
		t.Errorf("%v:\n%s", err, out)
	}
	s = newBMCScene(t)
	out, _ = s.ask("-o", "json")
	c = BMCCheck{}
	if err := json.Unmarshal([]byte(out), &c); err != nil || c.Power != "On" || c.Outcome != "Passed" || len(c.Checks) != 7 {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestBMCCheckOfAnUnknownPower(t *testing.T) {
	s := newBMCScene(t)
	s.bmc.set("Paused", nil)
	out, exit := s.ask("-o", "json")
	if !strings.Contains(out, `"power": "Unknown"`) || exit != 2 {
		t.Errorf("exit status %d:\n%s", exit, out)
	}
}

func TestBMCCheckInColours(t *testing.T) {
	for outcome, want := range map[string]colour{passed: green, problems: red, notChecked: red} {
		c := &BMCCheck{Outcome: outcome, Message: "so it is", Checks: []BMCStep{{Check: checkLogin, State: works, Message: "well"}}}
		out := printed(true, func(p *page) { p.bmcCheck(c) })
		if !strings.Contains(out, string(want)+"so it is"+reset) || !strings.Contains(out, string(green)+"works    "+reset) {
			t.Errorf("%s: it prints %q", outcome, out)
		}
	}
}

func TestBMCCheckCompletesNodes(t *testing.T) {
	a := startAPI(t)
	nodesAndCheck(a)
	for line, want := range map[string]string{"node-": "node-a\nnode-b\nnode-c\n", "other": "", "node-a no": ""} {
		var out bytes.Buffer
		root := &cobra.Command{Use: "fettle"}
		root.AddCommand(bmcCommand(Options{Name: "fettle", UserAgent: "test", Dialects: []Dialect{NHC{}}, Now: func() time.Time { return noon }}))
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd, "bmc", "check"}, strings.Fields(line)...))
		root.SetOut(&out)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(out.String(), ":"); got != want {
			t.Errorf("%q is completed to %q, want %q", line, got, want)
		}
	}
}

// fullDisk refuses to be written to.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestBMCCheckThatCannotBePrinted(t *testing.T) {
	s := newBMCScene(t)
	s.ask()
	cmd := bmcCommand(Options{Name: "fettle", UserAgent: "test", Now: func() time.Time { return noon }})
	cmd.SetArgs([]string{"check", s.node, "-o", "json"})
	cmd.SetOut(fullDisk{})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("it returns %v", err)
	}
}

func TestBMCCheckOfNothing(t *testing.T) {
	s := newBMCScene(t)
	for name, flags := range map[string][]string{"two nodes": {"node-b"}, "an unknown flag": {"--frobnicate"}, "an unknown format": {"-o", "xml"}} {
		if out, exit := s.ask(flags...); exit != 2 || out == "" {
			t.Errorf("%s: exit status %d, %q", name, exit, out)
		}
	}
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if out, exit := s.ask(); exit != 2 || !strings.Contains(out, "configuration") {
		t.Errorf("no cluster: exit status %d, %q", exit, out)
	}
}

// TestBMCFailures: each failure of a read has its lines.
func TestBMCFailures(t *testing.T) {
	var text strings.Builder
	for _, given := range []string{"redfish://bmc.example", "ipmi://bmc.example"} {
		address, err := power.ParseAddress(given)
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range []power.Reason{
			power.AuthenticationRefused, power.AuthenticationHeld, power.CredentialsUnusable, power.PermissionDenied, power.CertificateNotTrusted,
			power.CipherSuitesRefused, power.Unreachable, power.TimedOut, power.Interrupted, power.Busy, power.NoSessionLeft, power.UnsupportedSystem,
			power.CommandRefused, power.UnexpectedAnswer,
		} {
			for _, f := range []power.Failure{{Reason: reason}, {Reason: reason, HTTPStatus: http.StatusTeapot}, {Reason: reason, Fingerprint: "FINGERPRINT"}} {
				if f.HTTPStatus != 0 && (reason != power.UnsupportedSystem && reason != power.CommandRefused && reason != power.UnexpectedAnswer) ||
					(f.Fingerprint != "") != (reason == power.CertificateNotTrusted) || address.Protocol == power.IPMI && f != (power.Failure{Reason: reason}) {
					continue // no such failure
				}
				c := &BMCCheck{}
				c.report(address, fencing.PowerUnknown, f)
				fmt.Fprintf(&text, "%s %s %d\n", address.Protocol, reason, f.HTTPStatus)
				for _, s := range c.Checks {
					fmt.Fprintf(&text, "  %s %s: %s\n", s.Check, s.State, s.Message)
				}
				if c.Power != "" {
					t.Errorf("%s: the power is %s", reason, c.Power)
				}
			}
		}
	}
	golden(t, "bmc-failures.txt", text.String())
}
