package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// goodBMC is a BMC about which there is nothing to say.
const goodBMC = `apiVersion: fettle.io/v1alpha1
kind: BMC
metadata:
  name: bmc-a
  namespace: fettle-system
spec:
  nodeName: node-a
  address: redfish://bmc-a.example
  system: "1"
  credentialsName: bmc-a
  tls:
    fingerprint: 00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF
  domain: rack-7
`

// goodPowerTemplate is a template about which there is nothing to say.
const goodPowerTemplate = `apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata:
  name: reboot
  namespace: remediators
spec:
  template:
    spec:
      strategy: Reboot
      release: DeleteNode
      onFailure: Hold
      retries: 10
      powerOffTimeout: 15s
      releaseTimeout: 24h
      powerOnTimeout: 2m
      bootTimeout: 15m
`

// goodPower is a remediation that a person has written.
const goodPower = "apiVersion: fettle.io/v1alpha1\nkind: PowerRemediation\nmetadata: {name: node-a, namespace: remediators}\nspec: {retries: 0}\n"

// offlineCase is a file, and what check says of it without a cluster.
type offlineCase struct {
	text   string
	status int
	says   []string
}

func bmcFiles(t *testing.T) map[string]offlineCase {
	t.Helper()
	with := func(old, with string) string { return swapIn(t, goodBMC, old, with) }
	at := func(address string) string {
		return strings.Replace(with("  system: \"1\"\n", ""), "redfish://bmc-a.example", address, 1)
	}
	other := func(old, with string) string {
		return goodBMC + "---\n" + swapIn(t, strings.NewReplacer("name: bmc-a\n  namespace", "name: bmc-b\n  namespace", "node-a", "node-b", "bmc-a.example", "bmc-b.example").Replace(goodBMC), old, with)
	}
	return map[string]offlineCase{
		"good":                          {goodBMC, 0, []string{"file.yaml:1 BMC fettle-system/bmc-a", "No problems in 1 object."}},
		"good beside a health check":    {goodBMC + "---\n" + good, 0, []string{"No problems in 2 objects."}},
		"good with a status":            {goodBMC + "status: {refusedLogins: many}\n", 0, []string{"No problems in 1 object."}},
		"two that differ":               {other("node-b", "node-c"), 0, []string{"No problems in 2 objects."}},
		"a field that is misspelt":      {with("credentialsName", "credentialName"), 1, []string{"problem, line 10: spec.credentialName is not a field of a BMC", "did you mean credentialsName?", "1 problem found in 1 object."}},
		"a password in the spec":        {goodBMC + "  password: " + bmcPassword + "\n", 1, []string{"problem, line 14: spec.password is not a field of a BMC"}},
		"a system that YAML reads":      {with(`"1"`, "1"), 1, []string{"problem, line 9: spec.system is of the wrong type: it is a number", "put it into quotes", "1 problem found"}},
		"another version":               {with("v1alpha1", "v1"), 1, []string{`problem, line 1: apiVersion is "fettle.io/v1"; give fettle.io/v1alpha1`}},
		"no name":                       {with("  name: bmc-a\n", ""), 1, []string{"metadata.name is missing; give the BMC a name"}},
		"a node's field misspelt":       {with("nodeName", "node"), 1, []string{"spec.node is not a field of a BMC", "1 problem found"}},
		"an address's field misspelt":   {with("  address", "  addr"), 1, []string{"spec.addr is not a field of a BMC", "1 problem found"}},
		"a name that is a number":       {with("name: bmc-a\n  namespace", "name: 5\n  namespace"), 1, []string{"metadata.name is of the wrong type", "1 problem found"}},
		"a kind of another group":       {with("fettle.io/v1alpha1", "metal.example/v1alpha1"), 1, []string{"skipped: it is a BMC of metal.example/v1alpha1"}},
		"no node":                       {with("  nodeName: node-a\n", ""), 1, []string{"problem, line 6: spec.nodeName is missing; give the name of the node"}},
		"no node's name":                {with("node-a", "Node_A"), 1, []string{`problem, line 7: spec.nodeName is "Node_A", which no node can be called`}},
		"no credentials":                {with("  credentialsName: bmc-a\n", ""), 1, []string{"problem, line 6: spec.credentialsName is missing; give the name of a Secret with the keys username and password"}},
		"no Secret's name":              {with("credentialsName: bmc-a", "credentialsName: a/b"), 1, []string{"problem, line 10: spec.credentialsName is no name of a Secret"}},
		"no address":                    {with("  address: redfish://bmc-a.example\n", ""), 1, []string{"problem, line 6: spec.address is missing; give redfish://"}},
		"a domain that is long":         {with("rack-7", strings.Repeat("r", 64)), 1, []string{"problem, line 13: spec.domain is longer than 63 bytes"}},
		"a check of UUIDs":              {with("rack-7", "rack-7\n  systemUUIDCheck: Disabled"), 0, []string{"No problems"}},
		"the check of UUIDs":            {with("rack-7", "rack-7\n  systemUUIDCheck: Enabled"), 0, []string{"No problems"}},
		"an unknown check of UUIDs":     {with("rack-7", "rack-7\n  systemUUIDCheck: \"off\""), 1, []string{"problem, line 14: spec.systemUUIDCheck is neither Enabled nor Disabled"}},
		"a domain as long as may be":    {with("rack-7", strings.Repeat("r", 63)), 0, []string{"No problems"}},
		"an address with a user":        {at("redfish://" + bmcUser + ":" + bmcPassword + "@bmc.example"), 1, []string{"problem, line 8: spec.address can't be used: the address has a user name; give it in the Secret"}},
		"an address of a page":          {at("https://bmc.example"), 1, []string{"line 8: spec.address can't be used: the address is of a web page; give redfish+https://"}},
		"an address without a scheme":   {at("bmc.example"), 1, []string{"line 8: spec.address can't be used: the address has no scheme"}},
		"an address in capitals":        {at("Redfish://bmc.example"), 1, []string{"line 8: spec.address has a scheme with capital letters"}},
		"an address that is whole":      {at("redfish://bmc.example/redfish/v1/Systems/1"), 0, []string{"No problems"}},
		"an address that is no URL":     {strings.Replace(goodBMC, "bmc-a.example", "'[fd00::1]:8443/redfish/v1/'", 1), 1, []string{"spec.address can't be used: the address is not a URL"}},
		"an address of IPv6":            {with("redfish://bmc-a.example", "'redfish://[fd00::1]:8443/redfish/v1/'"), 0, []string{"No problems"}},
		"a system twice":                {with("bmc-a.example", "bmc-a.example/redfish/v1/Systems/1"), 1, []string{"problem, line 9: spec.system can't be used: the address names a system already"}},
		"a system of IPMI":              {with("redfish:", "ipmi:"), 1, []string{"problem, line 9: spec.system can't be used: an address of IPMI has no system"}},
		"a system that is a path":       {with(`"1"`, `"/redfish/v1/Systems/1"`), 1, []string{"problem, line 9: spec.system is no ID of a system; give its ID alone"}},
		"trust for IPMI":                {at("ipmi://bmc.example:6230"), 1, []string{"problem, line 10: spec.tls is for Redfish over TLS; leave it out"}},
		"trust for no TLS":              {at("redfish+http://bmc.example"), 1, []string{"problem, line 10: spec.tls is for Redfish over TLS", "warning, line 8: the address is of Redfish without TLS"}},
		"no TLS":                        {strings.Replace(at("redfish+http://bmc.example"), "  tls:\n    fingerprint: 00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n", "", 1), 0, []string{"warning, line 8", "the password crosses the network in the clear"}},
		"a fingerprint of another kind": {with("00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF", "aa:bb"), 1, []string{"problem, line 12: spec.tls.fingerprint can't be used: the fingerprint is not one of SHA-256"}},
		"an authority that is none":     {with("fingerprint: 0", "caBundle: 0"), 1, []string{"problem, line 12: spec.tls.caBundle can't be used: the authorities contain no certificate"}},
		"both trusts":                   {with("  domain", "    caBundle: x\n  domain"), 1, []string{"problem, line 11: spec.tls can't be used: both authorities and a fingerprint are given"}},
		"no trust":                      {with("  tls:\n    fingerprint: 00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n", "  tls: {}\n"), 1, []string{"problem, line 11: spec.tls can't be used: neither caBundle nor fingerprint is given"}},
		"another namespace":             {with("namespace: fettle-system", "namespace: default"), 1, []string{"problem, line 5: metadata.namespace is default, and Fettle reads the BMCs of namespace fettle-system alone"}},
		"no namespace":                  {with("  namespace: fettle-system\n", ""), 0, []string{"No problems"}},
		"a node twice":                  {other("node-b", "node-a"), 1, []string{"problem, line 21: spec.nodeName is node-a, as in BMC bmc-a (", "file.yaml:1)", "1 problem found"}},
		"a node of another cluster":     {other("node-b", "node-a\n  cluster: {namespace: fleet, name: east}"), 0, []string{"No problems in 2 objects."}},
		"a cluster without a name":      {with("node-a", "node-a\n  cluster: {namespace: fleet}"), 1, []string{`spec.cluster.name is ""; give the namespace and the name of a Cluster`, "1 problem found"}},
		"a cluster's namespace":         {with("node-a", "node-a\n  cluster: {namespace: Fleet, name: east}"), 1, []string{`spec.cluster.namespace is "Fleet"; give`, "1 problem found"}},
		"a node of a cluster twice": {strings.Replace(other("node-b", "node-a\n  cluster: {namespace: fleet, name: east}"), "nodeName: node-a\n", "nodeName: node-a\n  cluster: {namespace: fleet, name: east}\n", 1), 1,
			[]string{"spec.nodeName is fleet/east/node-a, as in BMC bmc-a (", "1 problem found"}},
		"two without a node":           {strings.ReplaceAll(other("node-b", "x"), "  nodeName: x\n", "") + "---\n" + strings.NewReplacer("  nodeName: node-a\n", "", "bmc-a", "bmc-c").Replace(goodBMC), 1, []string{"2 problems found in 3 objects."}},
		"an address twice":             {other("redfish://bmc-b.example", "idrac-redfish+https://BMC-A.example:443"), 1, []string{"problem, line 22: spec.address is of the same system as that of BMC bmc-a", "1 problem found"}},
		"Redfish and IPMI at one host": {other("redfish://bmc-b.example\n  system: \"1\"", "ipmi://bmc-a.example"), 1, []string{"spec.address is of the same system as that of BMC bmc-a"}},
		"any system there":             {other("redfish://bmc-b.example\n  system: \"1\"", "redfish://bmc-a.example"), 1, []string{"spec.address is of the same system as that of BMC bmc-a", "1 problem found"}},
		"another system there":         {other("redfish://bmc-b.example\n  system: \"1\"", "redfish://bmc-a.example\n  system: \"2\""), 0, []string{"No problems in 2 objects."}},
		"a host beside an address":     {goodBMC + "---\napiVersion: fettle.io/v1alpha1\nkind: BMC\nmetadata: {name: bmc-h, namespace: fettle-system}\nspec: {nodeName: node-h, bareMetalHost: {namespace: metal, name: h}}\n---\n" + strings.NewReplacer("bmc-a", "bmc-b", "node-a", "node-b").Replace(goodBMC), 0, []string{"No problems in 3 objects."}},
		"the same object twice":        {goodBMC + "---\n" + goodBMC, 0, []string{"No problems in 2 objects."}},
		"two without any address":      {strings.NewReplacer("redfish://bmc-a", "telnet://bmc-a", "redfish://bmc-b", "telnet://bmc-b").Replace(other("node-b", "node-b")), 1, []string{"2 problems found in 2 objects."}},
		"two without a usable address": {other("redfish://bmc-b", "telnet://bmc-b"), 1, []string{"1 problem found in 2 objects."}},
	}
}

func powerFiles(t *testing.T) map[string]offlineCase {
	t.Helper()
	with := func(old, with string) string { return swapIn(t, goodPowerTemplate, old, with) }
	return map[string]offlineCase{
		"good":                          {goodPowerTemplate, 0, []string{"file.yaml:1 PowerRemediationTemplate remediators/reboot", "No problems in 1 object."}},
		"defaults":                      {"apiVersion: fettle.io/v1alpha1\nkind: PowerRemediationTemplate\nmetadata: {name: a}\nspec: {template: {spec: {}}}\n", 0, []string{"No problems"}},
		"nothing":                       {"apiVersion: fettle.io/v1alpha1\nkind: PowerRemediationTemplate\nmetadata: {name: a}\nspec: {}\n", 1, []string{"problem, line 4: spec.template.spec is missing; give the spec of a PowerRemediation, or {} for its defaults"}},
		"a template that is a text":     {"apiVersion: fettle.io/v1alpha1\nkind: PowerRemediationTemplate\nmetadata: {name: a}\nspec: {template: a}\n", 1, []string{"spec.template is of the wrong type", "1 problem found"}},
		"a status":                      {goodPowerTemplate + "status: {}\n", 1, []string{"status is not a field of a PowerRemediationTemplate"}},
		"a field that is misspelt":      {with("bootTimeout", "bootTimeOut"), 1, []string{"problem, line 16: spec.template.spec.bootTimeOut is not a field of a PowerRemediationTemplate", "did you mean bootTimeout?"}},
		"several words that are none":   {strings.NewReplacer("strategy: Reboot", "strategy: a", "DeleteNode", "b", "Hold", "c").Replace(goodPowerTemplate), 1, []string{"give Reboot or PowerOff\n  problem, line 10: spec.template.spec.release is \"b\"; give Taint or DeleteNode\n  problem, line 11: spec.template.spec.onFailure is \"c\"; give Hold"}},
		"a strategy that is none":       {with("strategy: Reboot", "strategy: reboot"), 1, []string{`problem, line 9: spec.template.spec.strategy is "reboot"; give Reboot or PowerOff`}},
		"a strategy that YAML reads":    {with("strategy: Reboot", "strategy: Off"), 1, []string{"problem, line 9: spec.template.spec.strategy is of the wrong type: it is a bool", "put it into quotes"}},
		"a release that is none":        {with("DeleteNode", "Drain"), 1, []string{`problem, line 10: spec.template.spec.release is "Drain"; give Taint or DeleteNode`}},
		"a failure that is none":        {with("Hold", "Retry"), 1, []string{`problem, line 11: spec.template.spec.onFailure is "Retry"; give Hold or DeleteMachine`}},
		"too many retries":              {with("retries: 10", "retries: 11"), 1, []string{"problem, line 12: spec.template.spec.retries is 11; give a number from 0 to 10"}},
		"too few retries":               {with("retries: 10", "retries: -1"), 1, []string{"spec.template.spec.retries is -1; give a number"}},
		"a timeout that is short":       {with("15s", "14.9s"), 1, []string{"problem, line 13: spec.template.spec.powerOffTimeout is 14.9s; give a duration from 15s to 24h"}},
		"a timeout that is long":        {with("24h", "24h1s"), 1, []string{"problem, line 14: spec.template.spec.releaseTimeout is 24h1s; give a duration from 15s to 24h"}},
		"a timeout that is a number":    {with("2m", "120"), 1, []string{"problem, line 15: spec.template.spec.powerOnTimeout is of the wrong type; give a duration such as 2m", "1 problem found"}},
		"a timeout that is a word":      {with("15m", "soon"), 1, []string{`problem, line 16: spec.template.spec.bootTimeout is "soon"; give a duration such as 300s`, "1 problem found"}},
		"a timeout that is empty":       {with("15m", `""`), 1, []string{"spec.template.spec.bootTimeout is empty; give a duration such as 2m, or leave it out"}},
		"a timeout that is null":        {with("15m", "null"), 0, []string{"No problems"}},
		"a deletion that is not wanted": {with("bootTimeout: 15m", "machineDeletionTimeout: 2h"), 0, []string{"warning, line 16: spec.template.spec.machineDeletionTimeout means nothing without onFailure: DeleteMachine"}},
		"a deletion that is wanted":     {strings.Replace(with("bootTimeout: 15m", "machineDeletionTimeout: 2h"), "Hold", "DeleteMachine", 1), 0, []string{"No problems in 1 object."}},
		"a promise in no time":          {with("bootTimeout: 15m", "fenceTimeout: 1s"), 1, []string{"line 16: spec.template.spec.fenceTimeout is 1s"}},
		"a deletion in no time":         {with("bootTimeout: 15m", "machineDeletionTimeout: 1s"), 1, []string{"line 16: spec.template.spec.machineDeletionTimeout is 1s"}},
		"PowerOff with what follows it": {with("strategy: Reboot", `strategy: PowerOff`), 0, []string{"warning, line 15: spec.template.spec.powerOnTimeout means nothing with strategy PowerOff", "warning, line 16: spec.template.spec.bootTimeout means nothing"}},
		"PowerOff":                      {strings.Replace(with("strategy: Reboot", `strategy: PowerOff`), "      powerOnTimeout: 2m\n      bootTimeout: 15m\n", "", 1), 0, []string{"No problems in 1 object."}},
		"a remediation":                 {goodPower, 0, []string{"file.yaml:1 PowerRemediation remediators/node-a", "warning, line 2: health checkers create PowerRemediations", "powers the host of node node-a off"}},
		"a remediation with a timeout":  {swapIn(t, goodPower, "retries: 0", "bootTimeout: 1s, retries: 99"), 1, []string{"line 4: spec.bootTimeout is 1s", "spec.retries is 99"}},
		"a remediation with a status":   {goodPower + "status: {phaseSince: never}\n", 0, []string{"1 object, and 1 warning"}},
		"another kind of Fettle's":      {"apiVersion: fettle.io/v1alpha1\nkind: Repair\nmetadata: {name: a}\n", 1, []string{"skipped: it is a Repair", "There is no health check"}},
	}
}

// TestCheckOfBMCFiles: a fault of a document for bare metal is told with its line, and without a credential.
func TestCheckOfBMCFiles(t *testing.T) {
	for group, cases := range map[string]map[string]offlineCase{"BMC": bmcFiles(t), "power": powerFiles(t)} {
		for sentence, tc := range cases {
			t.Run(group+"/"+sentence, func(t *testing.T) {
				out, status := offline(t, tc.text)
				if status != tc.status {
					t.Errorf("exit status %d, want %d", status, tc.status)
				}
				for _, words := range tc.says {
					if !strings.Contains(out, words) {
						t.Errorf("it does not say %q", words)
					}
				}
				wantNoCredentials(t, out)
				if t.Failed() {
					t.Log(out)
				}
			})
		}
	}
}

func TestCheckOfBMCsOfAnotherNamespace(t *testing.T) {
	if out, status := offline(t, goodBMC, "--bmc-namespace", "hardware"); status != 1 || !strings.Contains(out, "reads the BMCs of namespace hardware alone") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
	if out, status := offline(t, strings.Replace(goodBMC, "fettle-system", "hardware", 1), "--bmc-namespace", "hardware"); status != 0 {
		t.Errorf("exit status %d:\n%s", status, out)
	}
}

// liveCase is a file, and what check says of it with a cluster.
type liveCase struct {
	text   string
	change func(*fakeAPI)
	status int
	says   []string
	// silent are texts that must not be there.
	silent []string
}

// secretText is the Secret of the good BMC, as a document.
const secretText = "apiVersion: v1\nkind: Secret\nmetadata: {name: bmc-a, namespace: fettle-system}\nstringData: {username: " + bmcUser + ", password: " + bmcPassword + "}\n"

// nodesAndCheck serves three nodes and, as the cluster's other kinds, none.
func nodesAndCheck(a *fakeAPI) {
	var nodes []string
	for _, name := range []string{"node-a", "node-b", "node-c"} {
		nodes = append(nodes, "{apiVersion: v1, kind: Node, metadata: {name: "+name+", uid: "+name+", labels: {role: worker}}, status: {conditions: [{type: Ready, status: 'True'}]}}")
	}
	a.list("/api/v1/nodes", "v1", "NodeList", nodes...)
	a.list("/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks", "remediation.medik8s.io/v1alpha1", "NodeHealthCheckList")
	a.list(fettleAPI+"/repairs", "fettle.io/v1alpha1", "RepairList")
	a.list(fettleAPI+"/powerremediations", "fettle.io/v1alpha1", "PowerRemediationList")
	a.list(fettleAPI+"/powerremediationtemplates", "fettle.io/v1alpha1", "PowerRemediationTemplateList",
		"{apiVersion: fettle.io/v1alpha1, kind: PowerRemediationTemplate, metadata: {name: reboot, namespace: remediators}, spec: {template: {spec: {}}}}")
}

// fencedNodes is a health check that has nodes fenced by their power.
const fencedNodes = `apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: workers
spec:
  selector:
    matchLabels: {role: worker}
  unhealthyConditions:
  - {type: Ready, status: "False", duration: 300s}
  - {type: Ready, status: Unknown, duration: 300s}
  minHealthy: 51%
  remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: PowerRemediationTemplate, namespace: remediators, name: reboot}
`

func liveCases(t *testing.T) map[string]liveCase {
	t.Helper()
	existing := func(name, node, address string) string {
		return bmcText(name, "{nodeName: "+node+", credentialsName: x, address: '"+address+"'}", "{}")
	}
	has := func(a *fakeAPI) {
		a.secret(map[string]any{"username": encoded(bmcUser), "password": encoded(bmcPassword)})
	}
	fenced := func(a *fakeAPI, bmcs ...string) { nodesAndCheck(a); a.bmcs(bmcs...) }
	bare := swapIn(t, goodBMC, "  namespace: fettle-system\n", "")
	return map[string]liveCase{
		"good": {goodBMC, has, 0, []string{"The API server would accept it.", "No problems in 1 object."}, []string{"warning", "not checked"}},
		"it replaces itself": {goodBMC, func(a *fakeAPI) {
			has(a)
			a.bmcs(existing("bmc-a", "node-a", "redfish://bmc-a.example/redfish/v1/Systems/1"))
		}, 0, []string{"No problems"}, nil},
		"the node of another": {goodBMC, func(a *fakeAPI) { has(a); a.bmcs(existing("bmc-z", "node-a", "ipmi://z")) }, 1, []string{"line 7: spec.nodeName is node-a, as in BMC bmc-z of the cluster"}, []string{"would accept"}},
		"the address of others": {goodBMC, func(a *fakeAPI) {
			has(a)
			a.bmcs(existing("bmc-z", "node-z", "redfish://bmc-a.example:443/redfish/v1/Systems/1"))
		}, 1, []string{"line 8: spec.address is of the same system as that of BMC bmc-z of the cluster"}, nil},
		"BMCs are not for all": {goodBMC, func(a *fakeAPI) { has(a); a.set(bmcsPath, http.StatusForbidden) }, 0, []string{"not checked: whether another BMC of the cluster has its node or its address, since you may not list bmcs.fettle.io in namespace fettle-system"}, nil},
		"no Secret":            {goodBMC, func(*fakeAPI) {}, 0, []string{"warning, line 10: there is no Secret fettle-system/bmc-a", "create it with the keys username and password"}, nil},
		"a Secret without": {goodBMC, func(a *fakeAPI) {
			a.secret(map[string]any{"username": encoded(bmcUser), "token": encoded(bmcPassword)})
		}, 1, []string{"problem, line 10: Secret fettle-system/bmc-a has no value for password; it needs the keys username and password"}, nil},
		"a Secret for others":   {goodBMC, func(a *fakeAPI) { a.set(secretPath, http.StatusForbidden) }, 0, []string{"not checked: the keys of Secret fettle-system/bmc-a, since you may not get it", "No problems in 1 object."}, nil},
		"a Secret unread":       {goodBMC, func(a *fakeAPI) { a.set(secretPath, http.StatusInternalServerError) }, 0, []string{"not checked: the keys of Secret fettle-system/bmc-a, since it could not be read"}, nil},
		"a Secret of the input": {goodBMC + "---\n" + secretText, func(*fakeAPI) {}, 0, []string{"skipped: it is a Secret", "No problems in 1 object."}, []string{"warning"}},
		"half a Secret in it":   {goodBMC + "---\n" + strings.Replace(secretText, "password: ", "passwort: ", 1), func(*fakeAPI) {}, 1, []string{"Secret fettle-system/bmc-a of the input has no value for password"}, nil},
		"a Secret of no place":  {goodBMC + "---\n" + strings.Replace(secretText, ", namespace: fettle-system", "", 1), func(*fakeAPI) {}, 0, []string{"No problems in 1 object."}, []string{"warning"}},
		"a Secret of another":   {goodBMC + "---\n" + strings.Replace(secretText, "name: bmc-a", "name: bmc-b", 1), func(*fakeAPI) {}, 0, []string{"there is no Secret"}, nil},
		"no Secret but a map":   {goodBMC + "---\n" + strings.Replace(secretText, "kind: Secret", "kind: ConfigMap", 1), func(*fakeAPI) {}, 0, []string{"there is no Secret"}, nil},
		"no Secret of v1":       {goodBMC + "---\n" + strings.Replace(secretText, "apiVersion: v1", "apiVersion: a.example/v1", 1), func(*fakeAPI) {}, 0, []string{"there is no Secret"}, nil},
		"beside no object":      {"hello\n---\n" + goodBMC, func(*fakeAPI) {}, 1, []string{"not an object", "there is no Secret"}, nil},
		"beside other kinds":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n---\n" + goodBMC, has, 0, []string{"ConfigMap settings"}, nil},
		"another of its name":   {goodBMC + "---\n" + strings.Replace(goodPowerTemplate, "name: reboot", "name: bmc-z", 1), func(a *fakeAPI) { has(a); a.bmcs(existing("bmc-z", "node-a", "ipmi://z")) }, 1, []string{"as in BMC bmc-z of the cluster"}, nil},
		"a Secret elsewhere":    {goodBMC + "---\n" + strings.Replace(secretText, "fettle-system", "default", 1), func(*fakeAPI) {}, 0, []string{"there is no Secret fettle-system/bmc-a"}, nil},
		"where it is applied":   {bare, has, 0, []string{"BMC fettle-system/bmc-a", "No problems"}, nil},
		"a template":            {goodPowerTemplate, func(*fakeAPI) {}, 0, []string{"The API server would accept it.", "No problems in 1 object."}, nil},

		"nodes without":     {fencedNodes, func(a *fakeAPI) { fenced(a, existing("bmc-b", "node-b", "ipmi://b")) }, 0, []string{"warning, line 12: no BMC in namespace fettle-system names 2 nodes that it selects, so no PowerRemediation of such a node can start; create a BMC for each: node-a, node-c"}, nil},
		"nodes without any": {fencedNodes, func(a *fakeAPI) { fenced(a) }, 0, []string{"names 3 nodes that it selects", "node-a, node-b, node-c"}, nil},
		"BMCs of the input": {fencedNodes + "---\n" + goodBMC, func(a *fakeAPI) { has(a); fenced(a, existing("bmc-b", "node-b", "ipmi://b")) }, 0, []string{"names 1 node that it selects", "for each: node-c"}, nil},
		"each node has one": {fencedNodes, func(a *fakeAPI) {
			fenced(a, existing("bmc-a", "node-a", "ipmi://a"), existing("bmc-b", "node-b", "ipmi://b"), existing("bmc-c", "node-c", "ipmi://c"))
		}, 0, nil, []string{"no BMC"}},
		"a template of the input": {strings.Replace(fencedNodes, "name: reboot", "name: new", 1) + "---\n" + strings.Replace(goodPowerTemplate, "name: reboot", "name: new", 1), func(a *fakeAPI) { fenced(a) }, 0, []string{"PowerRemediationTemplate remediators/new"}, []string{"does not exist"}},
		"a faulty template there": {strings.Replace(fencedNodes, "name: reboot", "name: new", 1) + "---\n" + strings.NewReplacer("name: reboot", "name: new", "retries: 10", "retries: 11").Replace(goodPowerTemplate), func(a *fakeAPI) { fenced(a) }, 1, []string{"template PowerRemediationTemplate remediators/new does not exist"}, nil},
		"no such template":        {strings.Replace(fencedNodes, "name: reboot", "name: new", 1), func(a *fakeAPI) { fenced(a) }, 0, []string{"template PowerRemediationTemplate remediators/new does not exist"}, nil},
		"another template":        {strings.ReplaceAll(fencedNodes, "PowerRemediationTemplate", "MachineDeletionRemediationTemplate"), func(a *fakeAPI) { fenced(a) }, 0, nil, []string{"no BMC"}},
		"BMCs may not be read": {fencedNodes, func(a *fakeAPI) {
			fenced(a)
			a.set(bmcsPath, http.StatusForbidden)
		}, 0,
			[]string{"not checked: whether the nodes that it selects have a BMC, since you may not list bmcs.fettle.io in namespace fettle-system"}, []string{"no BMC in"}},
	}
}

// TestCheckOfBMCsInACluster: the API server gets reads and dry runs only, and no output has a credential.
func TestCheckOfBMCsInACluster(t *testing.T) {
	for sentence, tc := range liveCases(t) {
		t.Run(sentence, func(t *testing.T) {
			a := startAPI(t)
			a.bmcs()
			tc.change(a)
			path := filepath.Join(t.TempDir(), "file.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, status := runCheck(t, path)
			if status != tc.status {
				t.Errorf("exit status %d, want %d", status, tc.status)
			}
			for _, words := range tc.says {
				if !strings.Contains(out, words) {
					t.Errorf("it does not say %q", words)
				}
			}
			wantDryRuns(t, a, strings.Count(out, "The API server would accept it."))
			if at := slices.IndexFunc(tc.silent, func(words string) bool { return strings.Contains(out, words) }); at >= 0 {
				t.Errorf("it says %q", tc.silent[at])
			}
			wantNoCredentials(t, out)
			json, _ := runCheck(t, path, "-o", "json")
			wantNoCredentials(t, json)
			if t.Failed() {
				t.Log(out, a.forget())
			}
		})
	}
	t.Run("applied elsewhere", func(t *testing.T) {
		startAPI(t)
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(swapIn(t, goodBMC, "  namespace: fettle-system\n", "")), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, status := runCheck(t, path, "-n", "default"); status != 1 || !strings.Contains(out, "metadata.namespace is default") || strings.Contains(out, "would accept") || strings.Contains(out, "Secret default") {
			t.Errorf("exit status %d:\n%s", status, out)
		}
	})
}

// wantDryRuns fails if there was another number of dry runs, or one without its namespace.
func wantDryRuns(t *testing.T, a *fakeAPI, want int) {
	t.Helper()
	requests := a.forget()
	patches := slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return !strings.HasPrefix(r, "PATCH ") })
	placed := slices.DeleteFunc(slices.Clone(patches), func(r string) bool {
		return !strings.Contains(r, "/namespaces/") && !strings.Contains(r, "/nodehealthchecks/")
	})
	if len(patches) != want || len(placed) != want {
		t.Errorf("there are dry runs %q, want %d in their namespaces", patches, want)
	}
}

// TestReviewChangesNoDocument: the API server gets what the file has.
func TestReviewChangesNoDocument(t *testing.T) {
	s := newSession(Options{Name: "fettle", Dialects: []Dialect{NHC{}}})
	for _, cases := range []map[string]offlineCase{bmcFiles(t), powerFiles(t)} {
		for sentence, tc := range cases {
			for _, d := range readDrafts("file.yaml", []byte(tc.text)) {
				before := d.object.DeepCopy()
				s.review(&d)
				if !reflect.DeepEqual(before, d.object) {
					t.Errorf("%s: it is now %v", sentence, d.object)
				}
			}
		}
	}
}

// TestNodesWithoutBMC: the warning names nodes in their order, each once.
func TestNodesWithoutBMC(t *testing.T) {
	warnings := func(key core.ClusterKey, steps []core.Step, name string) []Finding {
		s := newFencingScene(t)
		s.Policies[0].Steps = steps
		s.Targets[1].Node.Name, s.Targets[2].Node.Name, s.Targets[3].Node.Name = "", "node-z", "node-e"
		w := newAssessment(key, []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: NHC{}}}, nil, &s.around, noon)
		d := draft{Document: newDocument("file.yaml", 1), dialect: NHC{}, object: &unstructured.Unstructured{}}
		d.Kind, d.Name = "NodeHealthCheck", name
		warnOfNodesWithoutBMC([]*assessment{w}, []*draft{&d}, s.around.bmcs, nil)
		return d.Warnings
	}
	power := newFencingScene(t).Policies[0].Steps
	own := core.ClusterKey{}
	if found := warnings(own, power, "workers"); len(found) != 1 || !strings.HasSuffix(found[0].Message, "names 2 nodes that it selects, so no PowerRemediation of such a node can start; create a BMC for each: node-e, node-z") {
		t.Errorf("it warns of %+v", found)
	}
	// A BMC names node-a of the user's own cluster, so it is not for the node of that name elsewhere.
	if found := warnings(core.ClusterKey{Namespace: "n", Name: "east"}, power, "workers"); len(found) != 1 || !strings.HasSuffix(found[0].Message, "create a BMC for each: n/east/node-a, n/east/node-e, n/east/node-z") {
		t.Errorf("of a workload cluster it warns of %+v", found)
	}
	for sentence, found := range map[string][]Finding{
		"other steps": warnings(own, []core.Step{nodeStep("Reboot", 0)}, "workers"),
		"no policy":   warnings(own, power, "others"),
	} {
		if len(found) != 0 {
			t.Errorf("%s: it warns of %+v", sentence, found)
		}
	}
}
