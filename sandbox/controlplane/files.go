package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fettle-io/fettle/sandbox/pki"
)

// auditPolicy logs one line for each request, when it is complete. Deletions have their bodies, with their
// preconditions. So have patches of the status of Cluster API's machines, with the marks for their owners.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [delete]
- level: Request
  verbs: [patch]
  resources:
  - {group: cluster.x-k8s.io, resources: [machines/status]}
- level: Metadata
`

// files names what the components read.
type files struct {
	authority         *pki.Authority
	caCert            string
	serving           pki.Pair
	admin             pki.Pair
	controllerManager pki.Pair
	tokenKey          string

	controllerManagerKubeconfig string
	auditPolicy                 string
}

// prepareFiles creates missing files and keeps existing ones.
func prepareFiles(dir string) (files, error) {
	authority, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		return files{}, err
	}
	f := files{
		authority:                   authority,
		caCert:                      authority.CertFile(),
		controllerManagerKubeconfig: filepath.Join(dir, "pki", "controller-manager.kubeconfig"),
		auditPolicy:                 filepath.Join(dir, "audit-policy.yaml"),
	}
	requests := []struct {
		pair    *pki.Pair
		request pki.Request
	}{
		{&f.serving, pki.Request{File: "apiserver", CommonName: "kube-apiserver", Hosts: servingHosts()}},
		{&f.admin, pki.Request{File: "admin", CommonName: "admin", Organization: administrators}},
		{&f.controllerManager, pki.Request{File: "controller-manager", CommonName: "system:kube-controller-manager"}},
	}
	for _, r := range requests {
		if *r.pair, err = authority.Issue(r.request); err != nil {
			return files{}, err
		}
	}
	if f.tokenKey, err = authority.SigningKey("service-accounts"); err != nil {
		return files{}, err
	}
	if err := os.WriteFile(f.auditPolicy, []byte(auditPolicy), 0o600); err != nil {
		return files{}, fmt.Errorf("writing the audit policy: %w", err)
	}
	return f, nil
}

func servingHosts() []string {
	return []string{
		"127.0.0.1", "::1", "localhost", kubernetesServiceIP,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
}
