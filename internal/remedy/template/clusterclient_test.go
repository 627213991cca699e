package template

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// requestFor is one for a machine of an API group, called like its request, that is of a cluster or of none.
func requestFor(t *testing.T, name, group, cluster string) *unstructured.Unstructured {
	t.Helper()
	text := fmt.Sprintf(`
apiVersion: x.example/v1
kind: X
metadata:
  name: %[1]s
  namespace: machines
  uid: %[1]s-request
  annotations: {%[2]s/cloned-from-name: t}
  ownerReferences: [{apiVersion: %[2]s/v1beta1, kind: Machine, name: %[1]s, uid: %[1]s-uid}]
`, name, group)
	if cluster != "" {
		text += "  labels: {cluster.x-k8s.io/cluster-name: " + cluster + "}\n"
	}
	return parse(t, text)
}

// clusterClientsOf are those of the home cluster and of two workload clusters, whose machines' requests are of one kind. Each
// has added facts once, by steps that need that kind. They note who is woken.
func clusterClientsOf(t *testing.T) (home, east, west *ClusterClient, woken *[]string) {
	t.Helper()
	woken = &[]string{}
	wake := func(who string) func() { return func() { *woken = append(*woken, who) } }
	home = knows(t, namespaced(synced), namespaced(synced), strings.Replace(plainTemplate, "remediators", "machines", 1))
	home.wake = wake("home")
	east = home.ForCluster(core.ClusterKey{Namespace: "machines", Name: "east"}, wake("east"))
	west = home.ForCluster(core.ClusterKey{Namespace: "machines", Name: "west"}, wake("west"))
	for _, d := range []*ClusterClient{home, east, west} {
		d.surveys(t)
	}
	for _, k := range home.kinds {
		k.store = newStore(func(u *unstructured.Unstructured) { home.wakeAffected(k, u) })
	}
	return home, east, west, woken
}

// surveys returns the targets of the requests of a cluster, with their remedies.
func (d *ClusterClient) surveys(t *testing.T) []string {
	t.Helper()
	cluster := core.Cluster{}
	d.AddFacts([]core.Policy{{ID: core.ID{Kind: "MachineHealthCheck", Namespace: "machines", Name: "check"}, Steps: []core.Step{machineStep("t")}}}, &cluster)
	var found []string
	for _, r := range cluster.Requests {
		found = append(found, r.Target.Name+" by "+r.Remedy)
	}
	return found
}

// TestEachClusterHasItsOwnRequests, though they are of one kind, in one namespace.
func TestEachClusterHasItsOwnRequests(t *testing.T) {
	home, east, west, _ := clusterClientsOf(t)
	for _, u := range []*unstructured.Unstructured{
		requestFor(t, "openshift", "machine.openshift.io", ""), requestFor(t, "odd", "machine.openshift.io", "east"),
		requestFor(t, "e", "cluster.x-k8s.io", "east"), requestFor(t, "w", "cluster.x-k8s.io", "west"),
		requestFor(t, "nobodys", "cluster.x-k8s.io", ""), requestFor(t, "norths", "cluster.x-k8s.io", "north"),
	} {
		home.kinds[xs].store.put(u)
	}
	elsewhere := home.ForCluster(core.ClusterKey{Namespace: "others", Name: "east"}, func() {})
	for _, tc := range []struct {
		sentence string
		client   *ClusterClient
		want     []string
	}{
		{"an OpenShift machine is of the home cluster, whatever its labels", home, []string{"odd by " + MachineRemedy, "openshift by " + MachineRemedy}},
		{"east", east, []string{"e by " + ClusterMachineRemedy}},
		{"west", west, []string{"w by " + ClusterMachineRemedy}},
		{"a namesake in another namespace", elsewhere, nil},
	} {
		if got := tc.client.surveys(t); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.sentence, got, tc.want)
		}
	}
}

func TestThoseAreWokenWhomItConcerns(t *testing.T) {
	home, east, _, woken := clusterClientsOf(t)
	wakes := func(sentence string, happen func(), want ...string) {
		t.Helper()
		*woken = nil
		happen()
		slices.Sort(*woken)
		if got := slices.Compact(*woken); !slices.Equal(got, want) {
			t.Errorf("%s wakes %q, want %q", sentence, got, want)
		}
	}
	home.ForCluster(core.ClusterKey{Namespace: "machines", Name: "south"}, func() { *woken = append(*woken, "south") }) // it has not surveyed yet
	requests, templates := home.kinds[xs].store.handler(), home.kinds[xTemplates].store.handler()
	mine := requestFor(t, "e", "cluster.x-k8s.io", "east")
	moved := mine.DeepCopy()
	moved.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "west"})
	wakes("a request", func() { requests.OnAdd(mine, false) }, "east")
	wakes("a request that is of another cluster now", func() { requests.OnUpdate(mine, moved) }, "east", "west")
	wakes("a request that is gone", func() { requests.OnDelete(moved) }, "west")
	wakes("a request of an unknown cluster", func() { requests.OnAdd(requestFor(t, "n", "cluster.x-k8s.io", "north"), false) })
	wakes("an OpenShift machine's request", func() { requests.OnAdd(requestFor(t, "o", "machine.openshift.io", ""), false) }, "home")
	template := parse(t, strings.Replace(plainTemplate, "remediators", "machines", 1))
	wakes("a template", func() { templates.OnAdd(template, false) }, "east", "home", "west")
	home.AddFacts(nil, &core.Cluster{})
	east.Close()
	wakes("a template that one needs no more, and one is gone", func() { templates.OnDelete(template) }, "west")
	wakes("a request of a closed client", func() { requests.OnAdd(mine, false) })
}

func TestKindsStayWhileAnyClusterNeedsThem(t *testing.T) {
	home, east, west, _ := clusterClientsOf(t)
	k := home.kinds[xTemplates]
	stays := func(sentence string, want bool) {
		t.Helper()
		home.kinds[xTemplates] = k
		if got := !home.forget(k); got != want {
			t.Errorf("%s: it stays: %t", sentence, got)
		}
		if kept := home.kinds[xTemplates] != nil; kept != want || slices.Contains(home.order, xTemplates) != want {
			t.Errorf("%s: it is kept: %t, and in order: %v", sentence, kept, home.order)
		}
	}
	stays("all have just needed it", true)
	for range 3 {
		home.AddFacts(nil, &core.Cluster{})
		west.AddFacts(nil, &core.Cluster{})
	}
	stays("east needed it in its last survey, however often others have surveyed since", true)
	second := home.ForCluster(core.ClusterKey{Namespace: "machines", Name: "east"}, func() {})
	east.Close()
	stays("east is gone", false)
	if home.clusters[core.ClusterKey{Namespace: "machines", Name: "east"}] != second {
		t.Error("closing the first client of east has closed the second")
	}
}
