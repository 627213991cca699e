package metal

import (
	"errors"
	"os/exec"
	"strings"

	"github.com/fettle-io/fettle/test/cluster"
)

// mayCheck are the rights that docs/cli.md names for fettle bmc check.
const mayCheck = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: checks-bmcs, namespace: fettle-system}
rules:
- {apiGroups: [fettle.io], resources: [bmcs], verbs: [list]}
- {apiGroups: [""], resources: [secrets], resourceNames: [check-a, check-b], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: checks-bmcs, namespace: fettle-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: checks-bmcs}
subjects: [{kind: ServiceAccount, namespace: default, name: checks-bmcs}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: checks-bmcs}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: checks-bmcs}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: checks-bmcs}
subjects: [{kind: ServiceAccount, namespace: default, name: checks-bmcs}]
`

// checksWithTheRightsOfItsDocs: with the rights that docs/cli.md names and no others, fettle bmc check says of one BMC that all works, and of another
// that its certificate is not trusted. It commands no power and gives its session back.
func checksWithTheRightsOfItsDocs(p *pool) {
	p.Apply(p.T, mayCheck)
	p.ServiceAccount(p.T, "default", "checks-bmcs")
	kubeconfig := p.KubeconfigOf(p.T, "default", "checks-bmcs")
	p.host(p.first(), nil)
	node := p.newNode(p.second(), "redfish")
	p.faults(p.second(), `{"certificate":true}`)
	p.bmc(p.Cluster, node, p.second(), nil)

	said, code := p.checks(kubeconfig, p.first())
	for _, want := range []string{"BMC           works", "Secret        works", "Connection    works", "Certificate   works", "Login         works", "Power         works       the host is On", "System        works"} {
		if code != 0 || !strings.Contains(said, want) {
			p.Errorf("the exit code is %d, and the output lacks %q:\n%s", code, want, said)
		}
	}
	said, code = p.checks(kubeconfig, p.second())
	for _, want := range []string{"Connection    works", "Certificate   fails", "its SHA-256 fingerprint is ", "Login         not tried", "Power         not tried"} {
		if code != 1 || !strings.Contains(said, want) {
			p.Errorf("the exit code is %d, and the output lacks %q:\n%s", code, want, said)
		}
	}
	if got := p.requestsOf(p.T, p.second()); len(got) > 0 {
		p.Errorf("a BMC whose certificate is not trusted got %+v", got)
	}
	for _, host := range []string{p.first(), p.second()} {
		if got := p.resets(p.T, host); len(got) > 0 {
			p.Errorf("the BMC of %s got the commands %v", host, got)
		}
		p.isOn(host)
	}
}

// checks runs fettle bmc check, and returns what it prints and its exit code.
func (p *pool) checks(kubeconfig, node string) (said string, code int) {
	p.Helper()
	command := exec.CommandContext(cluster.Context(p.T), cluster.Binary(p.T, "fettle"), "bmc", "check", node, "--kubeconfig", kubeconfig)
	text, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.Fatalf("fettle bmc check: %v", err)
	}
	return string(text), command.ProcessState.ExitCode()
}
