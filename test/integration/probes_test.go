package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

// probe requests a page of probes until the answer is as wanted, with these words.
func probe(t *testing.T, c *cluster.Cluster, url string, status int, words ...string) {
	t.Helper()
	c.Eventually(t, url, func(context.Context) error {
		answer, err := cluster.Get(t, url+"?verbose", "", nil)
		if err != nil {
			return err
		}
		for _, word := range words {
			if !strings.Contains(answer.Body, word) {
				return fmt.Errorf("it does not say %q: %s", word, answer.Body)
			}
		}
		if answer.Status != status {
			return fmt.Errorf("answered %d: %s", answer.Status, answer.Body)
		}
		return nil
	})
}

// TestProbes: a sleeping Fettle is ready. A waking one is ready when its caches have synced. One without the rights to
// read is alive and not ready.
func TestProbes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallRights(t)
	address := cluster.FreeAddress(t)
	c.StartFettle(t, "--health-probe-bind-address="+address)
	checks := []string{"[+]openshift-machinehealthcheck ok", "[+]the-ledger-of-repairs ok"}
	probe(t, c, "http://"+address+"/readyz", http.StatusOK, checks...)
	probe(t, c, "http://"+address+"/healthz", http.StatusOK, "[+]passes ok")

	c.ServiceAccount(t, "default", "nobody")
	blind := cluster.FreeAddress(t)
	c.StartFettleWith(t, c.KubeconfigOf(t, "default", "nobody"), "--health-probe-bind-address="+blind)
	probe(t, c, "http://"+blind+"/readyz", http.StatusInternalServerError, "[-]openshift-machinehealthcheck failed")
	probe(t, c, "http://"+blind+"/healthz", http.StatusOK)

	c.InstallFettle(t)
	c.AllowClusterAPI(t)
	for _, kind := range []string{"Cluster", "Machine", "MachineHealthCheck"} {
		c.Apply(t, olderVersionOfClusterAPI(kind))
	}
	f := newMachineFixture(t, c, "probes")
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	probe(t, c, "http://"+address+"/readyz", http.StatusOK, checks...)
	probe(t, c, "http://"+address+"/readyz/the-ledger-of-repairs", http.StatusOK)
	probe(t, c, "http://"+address+"/readyz", http.StatusOK, "[+]cluster-api-machinehealthcheck ok")
}

// olderVersionOfClusterAPI is a definition of management clusters before Cluster API 1.11.
func olderVersionOfClusterAPI(kind string) string {
	singular := strings.ToLower(kind)
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ` + singular + `s.cluster.x-k8s.io}, spec: {
  group: cluster.x-k8s.io, scope: Namespaced, names: {kind: ` + kind + `, listKind: ` + kind + `List, singular: ` + singular + `, plural: ` + singular + `s},
  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`
}
