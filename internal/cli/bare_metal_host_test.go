package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const bareMetalHostPath = "/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/host-a"

// metal3BMC is a BMC that names a BareMetalHost, about which there is nothing to say.
const metal3BMC = `apiVersion: fettle.io/v1alpha1
kind: BMC
metadata:
  name: bmc-a
  namespace: fettle-system
spec:
  nodeName: node-a
  bareMetalHost:
    namespace: metal3
    name: host-a
  domain: rack-7
`

// bareMetalHost serves a BareMetalHost that Metal3 manages, with other or further fields of its status.
func (a *fakeAPI) bareMetalHost(annotations, status string) {
	a.t.Helper()
	a.serveMetal3()
	a.set(bareMetalHostPath, object(a.t, "{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {namespace: metal3, name: host-a, uid: u, annotations: "+annotations+"}, "+
		"spec: {online: true}, status: {operationalStatus: OK, provisioning: {state: provisioned}, "+status+"}}"))
}

// serveMetal3 serves the API of Metal3, without objects.
func (a *fakeAPI) serveMetal3() {
	versions := func(group, version string) map[string]any {
		v := map[string]any{"groupVersion": group + "/" + version, "version": version}
		return map[string]any{"name": group, "versions": []any{v}, "preferredVersion": v}
	}
	a.set("/apis", map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": []any{versions("fettle.io", "v1alpha1"), versions("metal3.io", "v1alpha1")}})
	a.set("/apis/metal3.io/v1alpha1", map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "metal3.io/v1alpha1", "resources": []any{
		map[string]any{"name": "baremetalhosts", "kind": "BareMetalHost", "namespaced": true, "verbs": []string{"get"}},
	}})
}

// TestCheckOfMetal3BMCFiles: a fault of a BMC that names a BareMetalHost is told with its line.
func TestCheckOfMetal3BMCFiles(t *testing.T) {
	with := func(old, with string) string { return swapIn(t, metal3BMC, old, with) }
	other := strings.NewReplacer("name: bmc-a\n  namespace", "name: bmc-b\n  namespace", "node-a", "node-b").Replace(metal3BMC)
	for sentence, tc := range map[string]offlineCase{
		"good":                      {metal3BMC, 0, []string{"No problems in 1 object."}},
		"an address besides":        {with("  domain", "  address: redfish://a\n  domain"), 1, []string{"problem, line 11: spec.address is for a BMC with an address", "give one of both", "1 problem found"}},
		"credentials besides":       {with("  domain", "  credentialsName: a\n  domain"), 1, []string{"problem, line 11: spec.credentialsName is for a BMC with an address", "1 problem found"}},
		"a system besides":          {with("  domain", "  system: a\n  domain"), 1, []string{"problem, line 11: spec.system is for a BMC with an address", "1 problem found"}},
		"trust besides":             {with("  domain", "  tls: {}\n  domain"), 1, []string{"problem, line 11: spec.tls is for a BMC with an address", "1 problem found"}},
		"no name":                   {with("    name: host-a\n", ""), 1, []string{`spec.bareMetalHost.name is ""`, "1 problem found"}},
		"no namespace":              {with("    namespace: metal3\n", ""), 1, []string{`spec.bareMetalHost.namespace is ""`, "1 problem found"}},
		"a namespace with a dot":    {with("metal3", "metal.3"), 1, []string{`line 9: spec.bareMetalHost.namespace is "metal.3", which is no namespace`}},
		"a name with a dot":         {with("host-a", "host.a"), 0, []string{"No problems"}},
		"a name with a slash":       {with("host-a", "metal3/host-a"), 1, []string{`line 10: spec.bareMetalHost.name is "metal3/host-a"`}},
		"a name of the wrong type":  {with("host-a", "5"), 1, []string{"spec.bareMetalHost.name is of the wrong type", "1 problem found"}},
		"a namespace of that type":  {with("metal3", "5"), 1, []string{"spec.bareMetalHost.namespace is of the wrong type", "1 problem found"}},
		"a domain that is too long": {with("rack-7", strings.Repeat("r", 64)), 1, []string{"spec.domain is longer than 63 bytes"}},
		"no node":                   {with("  nodeName: node-a\n", ""), 1, []string{"spec.nodeName is missing", "1 problem found"}},
		"two of one host":           {metal3BMC + "---\n" + other, 1, []string{"spec.bareMetalHost is that of BMC bmc-a (", "file.yaml:1) too; Fettle uses neither", "1 problem found"}},
		"two hosts of one name":     {metal3BMC + "---\n" + strings.Replace(other, "metal3", "metal4", 1), 0, []string{"No problems in 2 objects."}},
		"one with an address":       {metal3BMC + "---\n" + strings.NewReplacer("name: bmc-a\n  namespace", "name: bmc-b\n  namespace", "node-a", "node-b").Replace(goodBMC), 0, []string{"No problems in 2 objects."}},
	} {
		t.Run(sentence, func(t *testing.T) {
			out, status := offline(t, tc.text)
			if status != tc.status {
				t.Errorf("exit status %d, want %d", status, tc.status)
			}
			for _, words := range tc.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q", words)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestCheckOfMetal3BMCsInACluster: a BareMetalHost that is missing or that Metal3 does not power off is told, and no Secret is read.
func TestCheckOfMetal3BMCsInACluster(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*fakeAPI)
		says   string
		silent string
		status int
	}{
		"it works":      {func(a *fakeAPI) { a.bareMetalHost("{}", "poweredOn: true") }, "No problems in 1 object.", "warning", 0},
		"it is paused":  {func(a *fakeAPI) { a.bareMetalHost("{baremetalhost.metal3.io/paused: ''}", "poweredOn: true") }, "warning, line 8: Fettle can't fence the node through BareMetalHost metal3/host-a as it is: annotation baremetalhost.metal3.io/paused", "not checked", 0},
		"there is none": {(*fakeAPI).serveMetal3, "warning, line 8: there is no BareMetalHost metal3/host-a, so no PowerRemediation of the node can start", "not checked", 0},
		"nor the kind":  {func(*fakeAPI) {}, "there is no BareMetalHost metal3/host-a", "not checked", 0},
		"not for all":   {func(a *fakeAPI) { a.serveMetal3(); a.set(bareMetalHostPath, http.StatusForbidden) }, "not checked: the BareMetalHost that it names, since you may not get BareMetalHost metal3/host-a", "warning", 0},
		"not read":      {func(a *fakeAPI) { a.serveMetal3(); a.set(bareMetalHostPath, http.StatusInternalServerError) }, "BareMetalHost metal3/host-a could not be read", "warning", 0},
		"that of others": {func(a *fakeAPI) {
			a.bmcs(bmcText("bmc-z", "{nodeName: node-z, bareMetalHost: {namespace: metal3, name: host-a}}", "{}"))
		}, "spec.bareMetalHost is that of BMC bmc-z of the cluster too", "would accept", 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			a := startAPI(t)
			a.bmcs()
			tc.change(a)
			path := filepath.Join(t.TempDir(), "file.yaml")
			if err := os.WriteFile(path, []byte(metal3BMC), 0o600); err != nil {
				t.Fatal(err)
			}
			out, status := runCheck(t, path)
			if status != tc.status || !strings.Contains(out, tc.says) || strings.Contains(out, tc.silent) {
				t.Errorf("exit status %d, want %d; it does not say %q, or says %q:\n%s", status, tc.status, tc.says, tc.silent, out)
			}
			for _, request := range a.forget() {
				if strings.Contains(request, "secrets") {
					t.Errorf("it made the request %s", request)
				}
			}
		})
	}
}

// TestBMCCheckOfMetal3: fettle bmc check reads the BareMetalHost that the BMC of a node names, and no Secret.
func TestBMCCheckOfMetal3(t *testing.T) {
	ofHost := func(name, node, namespace string) string {
		return bmcText(name, "{nodeName: "+node+", bareMetalHost: {namespace: "+namespace+", name: host-a}}", "{}")
	}
	for name, tc := range map[string]struct {
		change func(*bmcScene)
		exit   int
	}{
		"on": {func(s *bmcScene) {
			s.api.bareMetalHost("{}", "poweredOn: true")
			s.others = []string{bmcText("bmc-b", "{nodeName: node-b, credentialsName: x, address: 'ipmi://b'}", "{}"), ofHost("bmc-c", "node-c", "metal4")}
		}, 0},
		"off":       {func(s *bmcScene) { s.api.bareMetalHost("{}", "poweredOn: false") }, 0},
		"paused":    {func(s *bmcScene) { s.api.bareMetalHost("{baremetalhost.metal3.io/paused: ''}", "poweredOn: true") }, 1},
		"missing":   {func(s *bmcScene) { s.api.serveMetal3() }, 1},
		"forbidden": {func(s *bmcScene) { s.api.serveMetal3(); s.api.set(bareMetalHostPath, http.StatusForbidden) }, 2},
		"of-two": {func(s *bmcScene) {
			s.api.bareMetalHost("{}", "poweredOn: true")
			s.others = []string{ofHost("bmc-b", "node-b", "metal4"), ofHost("bmc-c", "node-c", "metal3")}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBMCScene(t)
			s.spec = "{nodeName: node-a, bareMetalHost: {namespace: metal3, name: host-a}}"
			tc.change(s)
			out, exit := s.ask()
			if exit != tc.exit {
				t.Errorf("exit status %d, want %d", exit, tc.exit)
			}
			golden(t, "bmc-metal3-"+name+".txt", out)
			for _, request := range s.api.forget() {
				if strings.Contains(request, "secrets") || !strings.HasPrefix(request, "GET ") {
					t.Errorf("it made the request %s", request)
				}
			}
		})
	}
}
