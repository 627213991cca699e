package integration

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestWire: nodes are sent as protobuf, and initial lists stream. Fettle lists only running repairs in one piece, in
// chunks, before a repair begins under a limit.
func TestWire(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	proxy, address := c.StartProxy(t)
	kubeconfig := c.FettleKubeconfig(t)
	cluster.Redirect(t, kubeconfig, address)
	fettle := c.StartFettleWith(t, kubeconfig)
	f := newMachineFixture(t, c, "wire")
	f.machine("a", machineOptions{phase: "Failed"})
	f.healthCheck("example", nil, readyCheck())
	f.wantMachines()
	fettle.Stop(t)

	formats := map[string]string{
		"/api/v1/nodes": "application/vnd.kubernetes.protobuf",
		"/apis/machine.openshift.io/v1beta1/machines":            "application/json",
		"/apis/machine.openshift.io/v1beta1/machinehealthchecks": "application/json",
		"/apis/fettle.io/v1alpha1/repairs":                       "application/json",
	}
	for path, format := range formats {
		// Each part of Fettle lists one object of each kind before it watches the kind, to learn whether it may. Six parts
		// read nodes, and three read machines.
		all := proxy.Requests(path)
		requests := slices.DeleteFunc(slices.Clone(all), func(r *http.Request) bool { return r.URL.Query().Get("limit") == "1" })
		// The count holds on the linked API server. On the older one, which is another process, a part was seen to list
		// twice.
		if requested := len(all) - len(requests); requested > 6 && cluster.OtherAPIServer() == "" {
			t.Errorf("%s got %d requests for one object", path, requested)
		}
		if len(requests) == 0 {
			t.Errorf("%s was never read", path)
			continue
		}
		for _, r := range requests {
			query := r.URL.Query()
			fence := path == "/apis/fettle.io/v1alpha1/repairs" && query.Get("limit") == "500" && query.Get("resourceVersion") == ""
			// Kubernetes 1.30 refuses to stream the initial list, which client-go then lists from the watch cache.
			instead := cluster.OtherAPIServer() != "" && query.Get("resourceVersion") == "0"
			if query.Get("watch") != "true" && !fence && !instead {
				t.Errorf("%s was listed in one piece: %s", path, r.URL.RawQuery)
			}
			if accept := r.Header.Get("Accept"); !strings.HasPrefix(accept, format) {
				t.Errorf("%s travels as %s, want %s", path, accept, format)
			}
		}
		if first := requests[0].URL.Query(); first.Get("sendInitialEvents") != "true" {
			t.Errorf("%s: the initial list does not stream: %v", path, first)
		}
	}
}

// TestLeaderElection: with the defaults a replica acts once it has the lease, with its own rights.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	first := c.StartFettle(t, "--leader-elect")
	f := newMachineFixture(t, c, "lease")
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	c.StartFettle(t, "--leader-elect")
	first.Stop(t)
	f.machine("b", machineOptions{phase: "Failed", labels: map[string]string{"pool": "another"}})
	f.wantMachines()
	f.wantRepairs("a Succeeded", "b Succeeded")
}

// TestAPIThatComesLater: Fettle sleeps while the cluster does not serve the kinds of health checks. It wakes when the
// cluster does, without a restart.
func TestAPIThatComesLater(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallRights(t)
	c.StartFettle(t)
	c.InstallFettle(t)
	f := newMachineFixture(t, c, "later")
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	f.wantRepairs("a Succeeded")
}
