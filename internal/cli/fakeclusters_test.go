package cli

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
)

// clusters adds the management cluster of a scene. Its workload clusters have API servers that serve their nodes.
func (f *fleet) clusters(change func(*clusterScene)) {
	f.t.Helper()
	s := newClusterScene(f.t)
	change(s)
	f.manage(s)
	f.startWorkloads(s.nodes)
}

// manage adds the objects of a scene, with the kinds of Cluster API.
func (f *fleet) manage(s *clusterScene) {
	f.t.Helper()
	f.discover("cluster.x-k8s.io/v1beta2", "Machine", "Cluster", "MachineHealthCheck", "MachineSet", "MachineDeployment")
	f.discover("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane")
	f.objects["/api/v1/secrets"] = map[string]map[string]any{}
	for _, text := range slices.Concat(slices.Collect(maps.Values(s.objects)), s.owners) {
		f.put(text)
	}
}

// discover serves the kinds of a version of a group, for clients that ask for them.
func (f *fleet) discover(group string, kinds ...string) {
	resources := []any{}
	for _, kind := range kinds {
		name := strings.ToLower(kind) + "s"
		resources = append(resources, map[string]any{"name": name, "kind": kind, "namespaced": true, "verbs": []string{"get", "list", "watch", "patch"}})
		f.objects["/apis/"+group+"/"+name] = map[string]map[string]any{}
	}
	f.set("/apis/"+group, map[string]any{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": group, "resources": resources})
	name, number, _ := strings.Cut(group, "/")
	version := map[string]any{"groupVersion": group, "version": number}
	f.groups = append(f.groups, map[string]any{"name": name, "versions": []any{version}, "preferredVersion": version})
	f.set("/apis", map[string]any{"apiVersion": "v1", "kind": "APIGroupList", "groups": f.groups})
}

// startWorkloads starts the API servers of workload clusters.
func (f *fleet) startWorkloads(all map[string][]string) {
	f.t.Helper()
	for name, nodes := range all {
		own := &fleet{fakeAPI: &fakeAPI{t: f.t, objects: map[string]any{}}, objects: map[string]map[string]map[string]any{nodesPath: {}}, gets: map[string]int{}, refused: map[string]int{}}
		for _, text := range nodes {
			n := object(f.t, text)
			own.objects[nodesPath][n["metadata"].(map[string]any)["name"].(string)] = n
		}
		server := httptest.NewTLSServer(own)
		f.t.Cleanup(server.Close)
		f.workloads[name] = own
		secret := kubeconfigOfEast(server.URL, server.Certificate())
		f.objects["/api/v1/secrets"]["fleets/"+name+"-kubeconfig"] = secret
	}
}
